"""Routed fabrics of emulated switches: which way packets take, numbered links, tiers and BFD."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.acceptance.between_leaves import ports_between
from components.model.cluster import ClusterSpec
from lab.physics.routed import find_hops
from lab.switches.cumulus.config import child
from lab.switches.cumulus.server import CumulusSwitch
from lab.switches.emulators import RoutingSwitch
from tests.fabric.fabric_lab import (
    Room,
    load_example,
    port_name,
    problems_of,
    rooms_of,
    routed_of,
    told,
    units_of,
)
from tests.fabric.lives import live


def find_way(rooms: list[Room], spec: ClusterSpec, to: str) -> tuple[str, ...] | None:
    """From leaf-01 to an address behind leaf-02, by what the emulators hold."""
    at = {room.plan.name: room.switch for room in rooms}
    routers = {n: each.router_view() for n, each in at.items() if isinstance(each, RoutingSwitch)}
    links = tuple(
        (at[switch.name].port_view(name), at[port.peer[0]].port_view(port.peer[1]))
        for switch in spec.switches
        for name, port in switch.ports.items()
        if port.peer is not None and {switch.name, port.peer[0]} <= at.keys()
    )
    hops = find_hops("leaf-01", "10.10.111.11", to, links, routers)
    return None if hops is None else tuple(far.switch for _, far in hops)


@pytest.mark.parametrize(
    ("system", "spine"),
    [
        ("eos", "eos"),
        ("sonic", "sonic"),
        ("eos", "cumulus"),
        ("cumulus", "sonic"),
        ("sonic", "eos"),
    ],
)
def test_packets_cross_a_spine_of_any_routed_system(
    system: str, spine: str, tmp_path: Path
) -> None:
    spec = routed_of(system, spine=spine, mode="lossless", port_mtu_bytes=9214)
    rooms = rooms_of(spec, tmp_path)
    for room in rooms:
        room.apply()
    assert find_way(rooms, spec, "10.10.111.139") == ("spine-01", "leaf-02")
    assert find_way(rooms, spec, "10.10.112.139") == ("spine-01", "leaf-02")
    assert find_way(rooms, spec, "10.99.0.1") is None


def test_without_route_maps_sonic_knows_no_way(tmp_path: Path) -> None:
    spec = routed_of("sonic", mode="lossless")
    rooms = rooms_of(spec, tmp_path)
    for room in rooms:
        room.apply()
    assert find_way(rooms, spec, "10.10.111.139") == ("spine-01", "leaf-02")
    for port in ("Ethernet224", "Ethernet232"):
        row = f"BGP_NEIGHBOR_AF|default|{port}|ipv4_unicast"
        rooms[0].switch.run_line(f"sudo sonic-db-cli CONFIG_DB HDEL '{row}' route_map_in@")
    assert find_way(rooms, spec, "10.10.111.139") is None


@pytest.mark.parametrize("system", ["eos", "sonic", "cumulus"])
def test_packets_cross_numbered_links_and_super_spines(system: str, tmp_path: Path) -> None:
    numbered = routed_of(system, numbered=True, mode="lossless")
    rooms = rooms_of(numbered, tmp_path)
    for room in rooms:
        room.apply()
    assert isinstance(rooms[0].switch, RoutingSwitch)
    number = "65001" if system == "eos" else "external"
    neighbors = rooms[0].switch.router_view().neighbors
    assert neighbors == {"10.254.0.3": number, port_name(system, 30): number}
    assert find_way(rooms, numbered, "10.10.111.139") == ("spine-01", "leaf-02")
    units = units_of(system, mode="lossless")
    assert told(units) == {}
    rooms = rooms_of(units, tmp_path / "units")
    for room in rooms:
        room.apply()
    assert find_way(rooms, units, "10.10.112.139") == (
        "spine-01",
        "super-01",
        "spine-02",
        "leaf-02",
    )
    live(units, [])


@pytest.mark.parametrize(
    ("release", "peer", "switch", "other"),
    [
        ("5.14.0", {"enable": "on"}, {}, "profile railyard"),
        (
            "5.15.0",
            {"profile": "railyard"},
            {"state": "enabled", "profile": {"railyard": {"detect-multiplier": 3}}},
            "enable on",
        ),
    ],
)
def test_bfd_of_cumulus_is_in_the_words_of_its_release(
    release: str, peer: object, switch: object, other: str, tmp_path: Path
) -> None:
    site = routed_of("cumulus", bfd=True, numbered=True, mode="lossless").model_dump(mode="json")
    for each in site["switches"]:
        each["release"] = release
    spec = ClusterSpec.model_validate(site)
    live(spec, [])
    live(spec, ["nv set router bgp autonomous-system 65101"])
    room = rooms_of(spec, tmp_path)[0]
    room.apply()
    assert isinstance(room.switch, CumulusSwitch)
    tree = room.switch.stored.applied
    peers = child(tree, "vrf", "default", "router", "bgp", "neighbor")
    assert {name: child(peers, name, "bfd") for name in peers} == {
        "10.254.0.3": peer,
        "swp30": peer,
    }
    assert child(tree, "router", "bfd") == switch
    assert {*room.switch.router_view().bfd} == {"10.254.0.3", "swp30"}
    line = f"nv set vrf default router bgp neighbor swp30 bfd {other}"
    assert "Invalid parameter" in room.switch.run_line(line)


def test_scalable_units_need_numbers_of_their_own() -> None:
    site = units_of("eos").model_dump(mode="json")
    site["switches"][3]["routing"]["asn"] = 65001
    (problem,) = problems_of("routing", site)
    assert problem.what == (
        "spine-01 and spine-02 have the same asn 65001 above different leaves, so that each would "
        "refuse the routes to the other's."
    )
    whole = units_of("eos")
    way = ports_between(whole, "leaf-01", "leaf-02")
    assert [(role, switch) for role, switch, _ in way] == [
        ("uplink_egress", "leaf-01"),
        ("spine_ingress", "spine-01"),
        ("uplink_egress", "leaf-01"),
        ("spine_ingress", "spine-01"),
        ("spine_egress", "spine-01"),
        ("spine_ingress", "super-01"),
        ("spine_egress", "super-01"),
        ("spine_ingress", "spine-02"),
        ("spine_egress", "spine-02"),
        ("downlink_ingress", "leaf-02"),
        ("spine_egress", "spine-02"),
        ("downlink_ingress", "leaf-02"),
    ]


def test_what_the_emulators_of_a_routed_fabric_tell_each_other(tmp_path: Path) -> None:
    """From the planned lines to routes: what the physics takes for the way of a packet."""
    spec = ClusterSpec.model_validate(load_example("spine-leaf"))
    wanted = ("leaf-01", "leaf-05", "spine-01", "spine-02")
    rooms = {room.plan.name: room for room in rooms_of(spec, tmp_path) if room.plan.name in wanted}
    for room in rooms.values():
        room.apply()
    leaf = rooms["leaf-01"].switch
    assert isinstance(leaf, CumulusSwitch)
    view = leaf.router_view()
    assert view.addresses == {
        "lo": ("10.255.0.1/32",),
        "vlan111": ("10.10.111.1/25",),
        "vlan115": ("10.10.115.1/25",),
    }
    assert (view.asn, view.neighbors["swp49"], len(view.neighbors)) == (65101, "external", 8)
    assert view.networks == ("10.255.0.1/32", "10.10.111.0/25", "10.10.115.0/25")

    def way() -> tuple[str, ...] | None:
        return find_way([*rooms.values()], spec, "10.10.111.139")

    assert way() in {("spine-01", "leaf-05"), ("spine-02", "leaf-05")}
    rooms["spine-01"].switch.run_line("nv set interface swp1-32 link state down")
    assert way() == ("spine-02", "leaf-05")
    line = "nv unset vrf default router bgp address-family ipv4-unicast network 10.10.111.128/25"
    rooms["leaf-05"].switch.run_line(line)
    assert way() is None
    rooms["leaf-05"].apply()
    assert way() == ("spine-02", "leaf-05")
    rooms["spine-02"].switch.run_line("nv set interface swp1-32 link state down")
    assert way() is None
