from __future__ import annotations

import pytest

from components.core.errors import Bug
from components.remote.step import Endpoint, RemoteStep

ENDPOINT = Endpoint("gpu01", "host", "127.41.0.11", 2222, "nvidia", "ssh-ed25519 AAAA")


def step(undo: str | None, why_no_undo: str | None) -> RemoteStep:
    return RemoteStep(
        name="gpu01-host",
        endpoint=ENDPOINT,
        dialect="sh",
        desired="",
        apply="true",
        deadline_s=1,
        undo=undo,
        why_no_undo=why_no_undo,
    )


def test_a_device_is_named_with_its_address() -> None:
    assert ENDPOINT.where == "gpu01 (nvidia@127.41.0.11:2222)"


@pytest.mark.parametrize(("undo", "why"), [("false", None), (None, "it only reads")])
def test_a_step_undoes_or_says_why_not(undo: str | None, why: str | None) -> None:
    assert step(undo, why).undo == undo


@pytest.mark.parametrize(("undo", "why"), [(None, None), ("false", "it only reads")])
def test_a_step_with_neither_or_both_is_a_bug(undo: str | None, why: str | None) -> None:
    with pytest.raises(Bug, match="gpu01-host"):
        step(undo, why)
