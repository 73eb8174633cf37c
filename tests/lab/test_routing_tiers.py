"""Three tiers with Debian's FRR: SONiC below Cumulus, configured by the drivers.

Two scalable units, each a leaf below a spine, and two super-spines over both: the smallest such
site in which one super-spine may be lost.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from components.fabric.state import diff_states
from components.fabric.systems import system_of
from components.fabric.systems.base import Drain
from components.model.cluster import ClusterSpec
from lab.debian import ROUTING_PACKAGES, unpacked_whole
from lab.physics.routed import find_hops
from lab.routing.fabric import RoutedFabric, emulated_because
from lab.site import lab_file
from lab.switches.emulators import EthernetSwitch, RoutingSwitch, Switch
from lab.views import RouterView
from tests.fabric.fabric_lab import Room, rooms_of, units_of
from tests.lab.until import until

pytestmark = pytest.mark.lab
FAR: Final = "10.10.111.128/25"
"""The part of rail-0 that is on leaf-02."""
LEAF_UP: Final = ("Ethernet224", "Ethernet232")
SPINE_UP: Final = ("Ethernet32", "Ethernet40")
DB: Final = "sudo sonic-db-cli CONFIG_DB"


@dataclass
class Tiers:
    spec: ClusterSpec
    rooms: dict[str, Room]
    fabric: RoutedFabric

    def type(self, name: str, line: str) -> str:
        return self.rooms[name].switch.run_line(line)

    def views(self) -> dict[str, RouterView]:
        switches = (room.switch for room in self.rooms.values())
        views = [each.router_view() for each in switches if isinstance(each, RoutingSwitch)]
        return {view.switch: view for view in self.fabric.with_routes(views)}

    def ways(self, name: str) -> tuple[str, ...]:
        routes = self.views()[name].routes or ()
        return tuple(p for each in routes if each.network == FAR for p in sorted(each.interfaces))

    def peers(self, name: str) -> dict[str, tuple[str, str]]:
        """Port to number, and to how many prefixes came or else the state, as SONiC prints it."""
        lines = self.type(name, "show ip bgp summary").splitlines()
        rows = [line.split() for line in lines if line.startswith("Ethernet")]
        return {row[0]: (row[2], row[9]) for row in rows}

    def preferences(self, name: str) -> set[int | None]:
        """How much a switch likes each way to the far leaf; None: as any other."""
        told = json.loads(self.type(name, f"vtysh -c 'show bgp ipv4 unicast {FAR} json'"))
        return {path.get("locPrf") for path in told.get("paths", ())}

    def crossed(self) -> set[tuple[str, ...] | None]:
        """The switches that connections from leaf-01 to leaf-02 cross, by FRR's routes."""
        views = self.views()
        links = tuple(
            (self._port(switch.name, name), self._port(*port.peer))
            for switch in self.spec.switches
            for name, port in switch.ports.items()
            if port.peer is not None
        )
        sources = (f"10.10.111.{number}" for number in range(10, 40))
        found = (find_hops("leaf-01", each, "10.10.111.139", links, views) for each in sources)
        return {None if hops is None else tuple(far.switch for _, far in hops) for hops in found}

    def _port(self, switch: str, port: str) -> Any:  # noqa: ANN401 - as each emulator gives it
        emulator = self.rooms[switch].switch
        assert isinstance(emulator, EthernetSwitch)
        return emulator.port_view(port)


@pytest.fixture(scope="module")
def tiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiers]:
    folder = tmp_path_factory.mktemp("tiers")
    spec = units_of("sonic", top="cumulus", supers=2)
    rooms = {room.plan.name: room for room in rooms_of(spec, folder)}
    switches: dict[str, Switch] = {name: room.switch for name, room in rooms.items()}
    configs = lab_file(spec, "tiers", (folder, folder, folder)).switches
    assert emulated_because(configs, switches) is None
    unpacked = unpacked_whole(packages=ROUTING_PACKAGES)
    fabric = RoutedFabric(unpacked, folder / "frr", configs, switches, dict)
    try:
        asyncio.run(fabric.start())
        for room in rooms.values():
            room.record()
            room.apply()
        yield Tiers(spec, rooms, fabric)
    finally:
        pids = fabric.pids
        fabric.stop()
        assert not [name for name, pid in pids.items() if Path(f"/proc/{pid}").exists()]


def is_whole(tiers: Tiers) -> None:
    until(lambda: tiers.ways("leaf-01"), LEAF_UP)
    until(lambda: tiers.ways("spine-01"), SPINE_UP)


def test_sonic_tells_what_frr_says(tiers: Tiers) -> None:
    is_whole(tiers)
    peers = {"Ethernet0": ("65101", "3"), "Ethernet8": ("65101", "3")}
    until(lambda: tiers.peers("spine-01"), peers | dict.fromkeys(SPINE_UP, ("64900", "5")))
    told = tiers.type("spine-01", "show ip bgp summary")
    assert "BGP router identifier 10.255.1.1, local AS number 65001 vrf-id 0" in told
    assert told.endswith("Total number of neighbors 4\n")
    assert "B>* 10.10.111.128/25 [20/0]" in tiers.type("leaf-01", "show ip route")
    asked = tiers.type("leaf-01", 'vtysh -c "show bgp neighbors Ethernet224 json"')
    assert json.loads(asked)["Ethernet224"]["remoteAs"] == 65001
    running = tiers.type("leaf-01", "show runningconfiguration bgp")
    assert "neighbor Ethernet224 route-map RAILYARD in" in running
    until(lambda: "spine-01" in tiers.type("leaf-01", "show lldp table"), wanted=True)


def test_sonic_is_drained_by_a_field_of_its_database(tiers: Tiers) -> None:
    """The lines and the pattern are the product's; what comes of them is FRR's."""
    is_whole(tiers)
    drain = system_of("sonic").drain
    assert isinstance(drain, Drain)
    assert tiers.type("spine-01", drain.asks) == ""
    tiers.type("spine-01", "; ".join(drain.away))
    until(lambda: bool(re.search(drain.is_away, tiers.type("spine-01", drain.asks))), wanted=True)
    until(lambda: tiers.preferences("leaf-01"), {0})
    assert tiers.ways("leaf-01") == LEAF_UP, "there is no other way, so it still carries"
    tiers.type("spine-01", "; ".join(drain.back))
    until(lambda: tiers.type("spine-01", drain.asks), "")
    until(lambda: tiers.preferences("leaf-01"), {None})
    is_whole(tiers)


def test_sonic_goes_around_a_drained_router(tiers: Tiers) -> None:
    is_whole(tiers)
    away = "nv set router bgp graceful-shutdown on; nv config apply -y"
    tiers.type("super-01", away)
    until(lambda: tiers.ways("spine-01"), SPINE_UP[1:])
    tiers.type("super-01", away.replace("set", "unset").replace(" on;", ";"))
    is_whole(tiers)


def test_without_a_route_map_sonic_gets_no_route(tiers: Tiers) -> None:
    is_whole(tiers)
    leaf = tiers.rooms["leaf-01"]
    for port in LEAF_UP:
        row = f"BGP_NEIGHBOR_AF|default|{port}|ipv4_unicast"
        tiers.type("leaf-01", f"{DB} HDEL '{row}' route_map_in@ route_map_out@")
    until(lambda: tiers.ways("leaf-01"), ())
    until(lambda: tiers.peers("leaf-01"), dict.fromkeys(LEAF_UP, ("65001", "0")))
    assert diff_states(leaf.read(), leaf.plan.desired)
    assert leaf.apply()
    is_whole(tiers)


def test_what_frr_refuses_of_sonic_is_that_line_alone(tiers: Tiers) -> None:
    is_whole(tiers)
    tiers.type("leaf-02", f"{DB} HSET 'BGP_GLOBALS|default' router_id leaf")
    shut = f"{DB} HSET 'BGP_NEIGHBOR|default|Ethernet232' admin_status false"
    tiers.type("leaf-02", shut)
    until(lambda: [*tiers.peers("leaf-02")], ["Ethernet224"])
    running = tiers.type("leaf-02", "show runningconfiguration bgp")
    assert "bgp router-id leaf" not in running
    until(lambda: tiers.ways("leaf-01"), LEAF_UP)
    assert tiers.rooms["leaf-02"].apply()
    until(lambda: [*tiers.peers("leaf-02")], [*LEAF_UP])


def test_routes_reach_over_super_spines_and_one_may_be_lost(tiers: Tiers) -> None:
    is_whole(tiers)
    way = ("spine-01", "{}", "spine-02", "leaf-02")
    over = {tuple(each.format(f"super-0{n}") for each in way) for n in (1, 2)}
    until(tiers.crossed, over)
    lost = tiers.rooms["super-01"].switch
    for port in ("swp1", "swp2"):
        lost.fault(["link-down", port, "on"])
    until(lambda: tiers.ways("spine-01"), SPINE_UP[1:])
    until(tiers.crossed, {tuple(each.format("super-02") for each in way)})
    for port in ("swp1", "swp2"):
        lost.fault(["link-down", port, "off"])


def test_undo_leaves_no_session(tiers: Tiers) -> None:
    until(lambda: tiers.ways("leaf-01"), LEAF_UP)
    tiers.rooms["leaf-01"].restore()
    until(lambda: tiers.ways("leaf-01"), ())
    assert "No BGP neighbors found" in tiers.type("leaf-01", "show ip bgp summary")
    tiers.rooms["leaf-01"].apply()
