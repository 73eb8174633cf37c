"""The faults that every emulated switch has, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.core.errors import UsageError
from tests.fabric.eos_lab import Clock
from tests.fabric.switch_labs import LABS


@pytest.fixture(params=LABS)
def switch(request: pytest.FixtureRequest, tmp_path: Path) -> Any:  # noqa: ANN401 - any emulator
    return LABS[request.param].make_switch(tmp_path, Clock())


@pytest.mark.parametrize("words", [[], ["explode"]])
def test_a_fault_that_is_none_is_told_with_those_that_are(
    switch: Any,  # noqa: ANN401 - any emulator
    words: list[str],
) -> None:
    with pytest.raises(UsageError, match=r"leaf-01 has no fault .*; it has: ") as caught:
        switch.fault(words)
    told = str(caught.value).partition("it has: ")[2].split(" | ")
    assert told == [*switch.faults_by_form()]
    assert {"cli LINE…", "slow SECONDS", "link-down PORT on|off"} <= {*told}
    verbs = [form.split()[0] for form in told]
    assert len(verbs) == len({*verbs}), "no fault hides another"


@pytest.mark.parametrize(
    "words",
    [
        ["link-down"],
        ["link-down", "no-port", "on"],
        ["disk-full"],
        ["disk-full", "maybe"],
        ["slow", "soon"],
        ["drop", "all"],
        ["sessions", "few"],
    ],
)
def test_wrong_words_change_nothing(
    switch: Any,  # noqa: ANN401 - any emulator
    words: list[str],
) -> None:
    planted = repr(switch.faults)
    with pytest.raises(
        UsageError, match=rf"fault {words[0]}: .*; expected: |has no port 'no-port'"
    ):
        switch.fault(words)
    assert (repr(switch.faults), switch.stored.link_down) == (planted, [])


def test_what_is_planted_is_taken_out(switch: Any) -> None:  # noqa: ANN401 - any emulator
    clean, port = repr(switch.faults), next(iter(switch.ports))
    for words, end in (
        (["link-down", port], ["link-down", port, "off"]),
        (["reject", "two", "words"], ["reject", "off"]),
        (["drop", "3"], ["drop", "off"]),
        (["slow", "1.5"], ["slow", "0"]),
        (["sessions", "0"], ["sessions", "off"]),
        (["disk-full", "on"], ["disk-full", "off"]),
    ):
        assert switch.fault(words)
        assert (repr(switch.faults), switch.stored.link_down) != (clean, [])
        assert switch.fault(end)
        assert (repr(switch.faults), switch.stored.link_down) == (clean, [])
    assert switch.unmodelled == ()
