"""Two subnet managers of the lab, with opensm's own polling of ten seconds."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from components.model.cluster import ClusterSpec
from lab.debian import unpacked_whole
from lab.infiniband.fabric import Fabric
from lab.infiniband.manager import POLLING_MS
from tests.fabric.ib_lab import SITE
from tests.lab.ib_switches import Subnet, make_subnet, type_lines

pytestmark = pytest.mark.lab
DONE_S = 120.0
"""A hand-back takes two seconds on an idle machine; three of opensm's pollings are the end."""
POLL_S = 0.05
MASTER, STANDBY = 3, 2
HIGH, LOW = 14, 13
KEY = 0x123


@pytest.fixture
def subnet(tmp_path: Path) -> Subnet:
    """The example's two leaves, each with a priority; no manager runs."""
    subnet = make_subnet(ClusterSpec.model_validate(yaml.safe_load(SITE.read_text())), tmp_path)
    for switch, priority in zip(subnet.switches, (HIGH, LOW), strict=True):
        type_lines(switch, "ib sm", f"ib sm sm-priority {priority}")
    return subnet


@pytest.fixture
def hangup() -> Iterator[None]:
    """SIGHUP ends a program that has no handler for it, whatever started these tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def manage(subnet: Subnet, number: int) -> None:
    """Let the manager of a switch run."""
    name = subnet.look()[0][number].switch
    type_lines(subnet.switches[number], f"ib smnode {name} enable")


async def until(holds: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + DONE_S
    while not await asyncio.to_thread(holds):
        assert time.monotonic() < deadline, what()
        await asyncio.sleep(POLL_S)


@pytest.mark.parametrize(("first", "priority"), [(0, HIGH), (1, LOW)])
def test_the_higher_of_two_is_the_master_and_knows_the_other(
    subnet: Subnet, tmp_path: Path, first: int, priority: int
) -> None:
    """Whichever comes first: the second is found, or is given the subnet."""
    fabric = Fabric(unpacked_whole(), tmp_path / "fabric", subnet.look, POLLING_MS)
    guid = subnet.plugged[0].guid

    def found() -> list[tuple[int, int]]:
        return [(each.priority, each.state) for each in fabric.managers(guid)]

    async def play() -> None:
        try:
            manage(subnet, first)
            await fabric.start()
            await until(lambda: found() == [(priority, MASTER)], found)
            manage(subnet, 1 - first)
            fabric.sync()
            await until(lambda: found() == [(HIGH, MASTER), (LOW, STANDBY)], found)
        finally:
            fabric.stop()

    asyncio.run(play())


@pytest.mark.usefixtures("hangup")
def test_a_partition_that_comes_while_its_manager_starts_is_there(
    subnet: Subnet, tmp_path: Path
) -> None:
    """SIGHUP, by which opensm reads its partitions, would end one that has just begun."""
    fabric = Fabric(unpacked_whole(), tmp_path / "fabric", subnet.look, POLLING_MS)
    guid = subnet.plugged[0].guid

    async def play() -> None:
        try:
            manage(subnet, 0)
            await fabric.start()
            pids = fabric.pids
            lines = (f"ib partition late pkey {KEY:#x}", "ib partition late member ALL type full")
            type_lines(subnet.switches[0], *lines)
            fabric.sync()
            await until(lambda: 0x8000 | KEY in fabric.keys(guid), lambda: fabric.keys(guid))
            assert fabric.pids == pids
        finally:
            fabric.stop()

    asyncio.run(play())
