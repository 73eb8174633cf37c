"""The benchmark of switches does what its table says, in small; nothing here is timed."""

from __future__ import annotations

import pytest

from bench.switches import PEER, TOOLS, Cost, measure, wanted_state

pytestmark = pytest.mark.lab
SWITCHES = 2


def _costs(tool: str) -> tuple[Cost, ...]:
    return measure(TOOLS[tool], SWITCHES, wanted_state(4))


def test_one_session_a_switch_and_no_line_that_changes_nothing() -> None:
    first, nothing, by_hand = _costs("Railyard")
    assert [cost.sessions for cost in (first, nothing, by_hand)] == [SWITCHES] * 3
    assert nothing.lines < by_hand.lines < first.lines


def test_the_peer_sends_everything_every_time() -> None:
    first, nothing, by_hand = _costs(PEER)
    assert [cost.sessions for cost in (first, nothing, by_hand)] == [SWITCHES] * 3
    lines = [cost.lines for cost in (first, nothing, by_hand)]
    assert max(lines) - min(lines) <= SWITCHES, "netmiko hangs up without waiting for its `exit`"
    assert min(lines) > 20 * SWITCHES
