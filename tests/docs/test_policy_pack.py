"""The example of a policy pack: what it refuses, without the engine and its policy SDK."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

JUDGE: Final[Mapping[str, Callable[..., str]]] = runpy.run_path(
    str(Path(__file__).parents[2] / "examples" / "policy-pack" / "judge.py")
)
SITE: Final = "railyard:index:Site"
GOOD: Final[Mapping[str, Any]] = {
    "site": "site.yaml",
    "locked": True,
    "gate": "fail",
    "plainSecrets": [],
}
KEY: Final = "-----BEGIN OPENSSH PRIVATE KEY-----"


def found(kind: str, props: Mapping[str, Any], stack: str = "prod") -> list[str]:
    texts = (
        JUDGE["without_lock"](kind, props),
        JUDGE["unproven_in_prod"](kind, props, stack),
        JUDGE["plain_secret"](kind, props),
    )
    return [text for text in texts if text]


def test_a_pinned_site_that_fails_without_a_proof_passes() -> None:
    assert found(SITE, GOOD) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"locked": False}, "railyard pin site.yaml"),
        ({"gate": "warn"}, "Write `gate: fail`"),
        ({"plainSecrets": ["switch_password"]}, "switch_password"),
    ],
)
def test_each_policy_refuses_with_a_fix(change: Mapping[str, Any], words: str) -> None:
    refused = found(SITE, {**GOOD, **change})
    assert len(refused) == 1
    assert words in refused[0]


@pytest.mark.parametrize("stack", ["dev", "product-tests", "nonprod"])
def test_other_stacks_may_warn(stack: str) -> None:
    assert found(SITE, {**GOOD, "gate": "warn"}, stack) == []


def test_a_private_key_on_a_command_line_is_refused_and_one_in_the_environment_is_not() -> None:
    assert len(found("command:local:Command", {"create": f"echo '{KEY}' > key"})) == 1
    assert found("command:local:Command", {"create": "x", "environment": {"KEY": KEY}}) == []
    assert found("aws:s3:Bucket", {"create": KEY}) == []
