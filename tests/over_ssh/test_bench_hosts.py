"""The benchmark of hosts in small: one connection a look, and few processes whatever the site."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench.converge import bring_all, look
from bench.host_room import STACK, HostRoom, running_room
from components.core.key_values import HostState
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable
from components.hosts.host_plan import HostPlan
from components.plan.make import ClusterPlan, make_plan
from components.update.observe import Looks, observe_site

pytestmark = pytest.mark.lab
HOSTS = 3


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostRoom]:
    with running_room(HOSTS, tmp_path_factory.mktemp("bench") / "lab") as running:
        yield running
        unmodelled = running.of_each("unmodelled")
    assert unmodelled == {plan.name: [] for plan in running.plans}


def _plan(room: HostRoom) -> ClusterPlan:
    """The whole site: its first host is the control plane."""
    first, *others = room.spec.hosts
    server = first.model_copy(update={"role": "control_plane"})
    return make_plan(room.spec.model_copy(update={"hosts": (server, *others)}), STACK)


def test_a_run_with_nothing_to_do_opens_one_connection_a_host(room: HostRoom) -> None:
    """Though more is looked at than the host's own settings: K3s' node has a look of its own."""
    plan = _plan(room)
    before = room.counted().connections
    seen = observe_site(plan, room.secrets, Applied())
    assert room.counted().connections - before == HOSTS
    assert len(seen.devices) == len(plan.watched) == 2 * HOSTS
    assert not [facts for facts in seen.devices.values() if isinstance(facts, Unreachable)]


def test_a_scope_opens_one_connection_to_each_of_its_hosts(room: HostRoom) -> None:
    plan = _plan(room)
    chosen = {plan.hosts[1].name, plan.hosts[2].name}
    before = room.counted().connections
    seen = observe_site(plan, room.secrets, Applied(), Looks(only=frozenset(chosen)))
    assert room.counted().connections - before == len(chosen)
    assert {name.partition(" ")[0] for name in seen.devices} == chosen
    assert seen.cluster is None


def test_first_run_is_one_connection_more_and_the_next_converges_no_host(room: HostRoom) -> None:
    """It carries the tools of the host and its settings."""
    before = room.counted().connections
    assert asyncio.run(bring_all(room.plans, room.secrets, 2)) == HOSTS
    assert room.counted().connections - before == 2 * HOSTS
    before = room.counted().connections
    assert asyncio.run(bring_all(room.plans, room.secrets, 2)) == 0
    assert room.counted().connections - before == HOSTS


def test_a_larger_site_costs_a_host_no_more_processes(room: HostRoom) -> None:
    """Also with names that are recorded one by one."""
    plan = room.plans[0]
    more = {f"hosts.more{number}": "192.0.2.1" for number in range(200)}
    larger = replace(plan, desired=HostState({**plan.desired.values, **more}))

    def processes(asked: HostPlan) -> int:
        before = room.counted().processes
        asyncio.run(look(asked, room.secrets))
        return room.counted().processes - before

    assert processes(larger) <= processes(plan) + 10
