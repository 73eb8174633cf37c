"""`railyard cloud …` as the engine calls it: exit codes, stdin, environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from components.cloud.cloud_plan import CloudPlan
from lab.cloud.crusoe.server import CrusoeCloud
from tests.cloud.small_engine import ROOT, SECRETS

_CALL = "from components.cli.main import main; main()"


def railyard(verb: str, stdin: str, **secrets: str) -> subprocess.CompletedProcess[str]:
    environ = {f"RAILYARD_SECRET_{name.upper()}": value for name, value in secrets.items()}
    return subprocess.run(
        [sys.executable, "-c", _CALL, "cloud", verb],
        input=stdin,
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_good_call_prints_one_flat_object(plan: CloudPlan) -> None:
    done = railyard("preflight", plan.preflight_request(), **SECRETS)
    assert (done.returncode, done.stderr) == (0, "")
    assert "instance/crusoe-k3s-worker-0" in json.loads(done.stdout)["claimed"].split(",")


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [("401", 4, "does not accept the access key"), ("403", 4, "lacks the right for this")],
)
def test_a_refusal_is_exit_4(
    cloud: CrusoeCloud, plan: CloudPlan, fault: str, code: int, words: str
) -> None:
    cloud.fault([fault, "9"])
    done = railyard("preflight", plan.preflight_request(), **SECRETS)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_secret_is_exit_2_and_named(plan: CloudPlan) -> None:
    done = railyard("preflight", plan.preflight_request(), crusoe_access_key="x")
    assert done.returncode == 2
    assert "pulumi config set --secret railyard:crusoe_secret_key" in done.stderr


@pytest.mark.parametrize("stdin", ["", "{}", "no json", '{"api": 1}'])
@pytest.mark.parametrize("verb", ["ensure", "await"])
def test_a_wrong_request_is_exit_2(verb: str, stdin: str) -> None:
    done = railyard(verb, stdin, **SECRETS)
    assert done.returncode == 2
    assert "cannot read the cloud request on stdin" in done.stderr
    assert "Traceback" not in done.stderr
