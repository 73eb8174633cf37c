"""`railyard cloud …` as the engine calls it: exit codes, stdin, environment."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from components.cloud.cloud_plan import CloudPlan
from lab.cloud.crusoe.server import CrusoeCloud
from tests.cli.conftest import Call, Ended, railyard
from tests.cloud.small_engine import SECRETS

__all__ = ["railyard"]

Ask = Callable[..., Ended]


@pytest.fixture
def ask(railyard: Call, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Call one verb with its request on stdin, and secrets in the environment."""

    def call(verb: str, stdin: str, **secrets: str) -> Ended:
        for name, value in secrets.items():
            monkeypatch.setenv(f"RAILYARD_SECRET_{name.upper()}", value)
        return railyard("cloud", verb, stdin=stdin)

    return call


def test_a_good_call_prints_one_flat_object(ask: Ask, plan: CloudPlan) -> None:
    done = ask("preflight", plan.preflight_request(), **SECRETS)
    assert (done.code, done.err) == (0, "")
    assert "instance/crusoe-k3s-worker-0" in json.loads(done.out)["claimed"].split(",")


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [("401", 4, "does not accept the access key"), ("403", 4, "lacks the right for this")],
)
def test_a_refusal_is_exit_4(
    ask: Ask, cloud: CrusoeCloud, plan: CloudPlan, fault: str, code: int, words: str
) -> None:
    cloud.fault([fault, "9"])
    done = ask("preflight", plan.preflight_request(), **SECRETS)
    assert (done.code, done.out) == (code, "")
    assert words in done.err


def test_a_missing_secret_is_exit_2_and_named(ask: Ask, plan: CloudPlan) -> None:
    done = ask("preflight", plan.preflight_request(), crusoe_access_key="x")
    assert done.code == 2
    assert "pulumi config set --secret railyard:crusoe_secret_key" in done.err


@pytest.mark.parametrize("stdin", ["", "{}", "no json", '{"api": 1}'])
@pytest.mark.parametrize("verb", ["ensure", "await"])
def test_a_wrong_request_is_exit_2(ask: Ask, verb: str, stdin: str) -> None:
    done = ask(verb, stdin, **SECRETS)
    assert done.code == 2
    assert "cannot read the cloud request on stdin" in done.err
