"""`make bench-quick`: what a fleet costs, in counts that are the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.fleet import DRIFT, OURS, Fleet, begin, write_site
from bench.host_room import fleet_document, running_room
from bench.hosts import verify
from bench.runner import run_measured
from components.core.errors import UsageError

pytestmark = pytest.mark.engine
HOSTS = 3
LIMITS = {
    # phase: connections and processes; a first update reads, changes and restarts hosts
    "first update": (3 * HOSTS, 450 * HOSTS),
    "nothing to do": (HOSTS, 70 * HOSTS),
    "one host added": (HOSTS + 1 + 2, 70 * HOSTS + 450),
    "one host drifted": (HOSTS + 1 + 2, 70 * (HOSTS + 1) + 250),
    "preview of one host": (1, 70),
    "scope of one host": (1 + 2, 70 + 250),
    "the other host": (HOSTS + 1 + 2, 70 * (HOSTS + 1) + 250),
}
STATE_KIB_OF_A_HOST = 20
"""Of the state, which each checkpoint writes whole."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    root = tmp_path_factory.mktemp("fleet")
    with running_room(HOSTS + 1, root / "lab", fleet_document(HOSTS + 1)) as room:
        (root / "home").mkdir()
        yield begin(root / "home", room, OURS, "no")


def play(fleet: Fleet, phase: str, word: str = "up", scope: str = "") -> None:
    """One update or preview within the limits of its phase."""
    before = fleet.room.counted()
    environment = {**fleet.environment, "RAILYARD_SCOPE": scope}
    run_measured(fleet.command(word), environment, fleet.folder)
    after = fleet.room.counted()
    connections, processes = LIMITS[phase]
    assert after.connections - before.connections <= connections, phase
    assert after.processes - before.processes <= processes, phase


def test_a_fleet_costs_no_more_than_its_hosts_ask_for(fleet: Fleet) -> None:
    write_site(fleet, HOSTS)
    play(fleet, "first update")
    first = len(fleet.resources())
    play(fleet, "nothing to do")
    write_site(fleet, HOSTS + 1)
    play(fleet, "one host added")
    assert len(fleet.resources()) - first <= 2
    fleet.room.fault(fleet.room.plans[1].name, *DRIFT)
    play(fleet, "one host drifted")
    assert fleet.state_kib() <= STATE_KIB_OF_A_HOST * (HOSTS + 1)
    one, other = fleet.room.plans[1], fleet.room.plans[2]
    fleet.room.fault(one.name, *DRIFT)
    fleet.room.fault(other.name, *DRIFT)
    play(fleet, "preview of one host", "preview", f"host={one.name}")
    play(fleet, "scope of one host", scope=f"host={one.name}")
    verify(fleet.room, [one])
    with pytest.raises(UsageError, match=other.name):
        verify(fleet.room, [other])
    play(fleet, "the other host")
    verify(fleet.room, fleet.room.plans)
