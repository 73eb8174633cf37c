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
    # A switch that was changed is logged in to once more: it must let us in, and carry what it did.
    sessions = [cost.sessions for cost in (first, nothing, by_hand)]
    assert sessions == [2 * SWITCHES, SWITCHES, SWITCHES + 1]
    # Pager, enable, configure, configuration, table of ports, 8 lines of all ports and 3 of each,
    # configuration, save; then without what differs; then with the port that a person changed.
    # And: who it is, its links and its neighbours; after a change four lines of the gate.
    lines = [first.lines, nothing.lines, by_hand.lines]
    assert lines == [
        SWITCHES * (5 + 8 + 3 * 4 + 2 + 3 + 4),
        SWITCHES * (5 + 3),
        SWITCHES * (5 + 3) + 5 + 4,
    ]


def test_the_peer_sends_everything_every_time() -> None:
    first, nothing, by_hand = _costs(PEER)
    assert [cost.sessions for cost in (first, nothing, by_hand)] == [SWITCHES] * 3
    lines = [cost.lines for cost in (first, nothing, by_hand)]
    assert max(lines) - min(lines) <= SWITCHES, "netmiko hangs up without waiting for its `exit`"
    # The same 20 lines, and 7 around them: pager, enable, configuration, configure, save, 2 exits.
    assert lines[0] >= 26 * SWITCHES
