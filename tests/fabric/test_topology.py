"""Fabrics of several switches: their lives, whether every hop agrees, and ways of packets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from components.acceptance.probes.probe_plan import ports_between
from components.model.cluster import ClusterSpec
from lab.physics.routed import find_hops
from lab.switches.cumulus.config import child
from lab.switches.cumulus.server import CumulusSwitch
from lab.switches.emulators import RoutingSwitch
from tests.fabric.fabric_lab import (
    Room,
    applied_rooms,
    chain_of,
    load_example,
    port_name,
    problems_of,
    rooms_of,
    routed_of,
    split_of,
    told,
    units_of,
)
from tests.fabric.histories import HISTORIES, PLAIN, TAKES, without
from tests.fabric.lives import agree, live, live_in

QUICK = settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))
"""A history is found in a second and shrunk in minutes: no shrinking."""
Life = tuple[ClusterSpec, list[str]]
Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def trunks(draw: Draw, system: str) -> Life:
    """Leaves in a row."""
    modes = ["lossy_ecn", "lossless", "semi_lossless"][: 3 if system == "onyx" else 2]
    mode, leaves = draw(st.sampled_from(modes)), draw(st.integers(1, 3))
    watched = mode == "lossless" and system != "onyx" and draw(st.booleans())
    site = chain_of(system, leaves, mode=mode, pfc_watchdog=watched).model_dump(mode="json")
    if system == "cumulus" and mode == "lossless":
        length = draw(st.one_of(st.none(), st.integers(1, 300)))
        site["switches"][0]["ports"]["swp1"]["cable_length_m"] = length
    odd = TAKES
    if mode == "lossy_ecn":  # PFC is then not ours, and somebody's own stays on EOS
        odd = (*odd, "no-drop")
    if mode == "semi_lossless":  # which PFC it has is not public: the plan wants none of it
        odd = (*odd, "priority-flow-control")
    return ClusterSpec.model_validate(site), without(draw(PLAIN[system]), *odd)


@st.composite
def routed(draw: Draw, system: str) -> Life:
    """Two leaves below a spine."""
    bfd, own, numbered = (draw(st.booleans()) for _ in range(3))
    odd = TAKES if own else (*TAKES, "10.1.1.1", "group U")  # another number would end these
    odd = (*odd, "10.1.1.0/31") if numbered and system == "eos" else odd  # one address a port
    lines = without(draw(HISTORIES[system]), *odd)
    lines = lines if own else [line.replace("{asn}", "64999") for line in lines]
    return routed_of(system, mode="lossless", bfd=bfd, numbered=numbered), lines


@st.composite
def split(draw: Draw, system: str) -> Life:
    """A leaf with a port in parts, which nobody has used as a whole."""
    parts, odd = {"cumulus": ([2, 4], "swp1 "), "eos": ([2, 8], "no-drop")}[system]
    mode = draw(st.sampled_from(["lossy_ecn", "lossless"]))
    lines = without(draw(PLAIN[system]), *TAKES, odd)
    return split_of(system, draw(st.sampled_from(parts)), mode=mode), lines


LIVES = {
    **{f"trunks of {system}": trunks(system) for system in PLAIN},
    **{f"routed links of {system}": routed(system) for system in ("cumulus", "eos", "sonic")},
    **{f"split ports of {system}": split(system) for system in ("cumulus", "eos")},
}


@pytest.mark.parametrize("name", LIVES)
def test_a_life(name: str) -> None:
    @settings(QUICK, max_examples=3 if "split" in name else 6)
    @given(LIVES[name])
    def play(life: Life) -> None:
        live(*life)

    play()


@QUICK
@given(history=PLAIN["cumulus"])
def test_routed_leaf_and_spine(history: list[str]) -> None:
    spec = ClusterSpec.model_validate(load_example("spine-leaf"))
    with TemporaryDirectory() as folder:
        leaf, *_, spine = rooms_of(spec, Path(folder))[:9]
        for room in (leaf, spine):
            live_in(room, spec, without(history, "swp49 ip address"))


@pytest.mark.parametrize("name", ["rail-optimised", "spine-leaf"])
def test_every_hop_of_an_example_agrees(name: str, tmp_path: Path) -> None:
    spec = ClusterSpec.model_validate(load_example(name))
    rooms = rooms_of(spec, tmp_path)
    for room in rooms:
        room.apply()
        agree(room, spec)
        assert room.switch.unmodelled == ()
    views = {
        (r.plan.name, port): r.switch.port_view(port)
        for r in rooms
        for port in r.plan.desired.ports
    }
    assert all(view.oper_up for view in views.values())
    for switch in spec.switches:
        for port, to in switch.ports.items():
            if to.peer is not None:
                one, other = views[switch.name, port], views[to.peer]
                assert (one.mtu_bytes, one.pfc_priorities, one.allowed_vlans) == (
                    other.mtu_bytes,
                    other.pfc_priorities,
                    other.allowed_vlans,
                )


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


PAIRS = "eos eos, sonic sonic, eos cumulus, cumulus sonic, sonic eos"


@pytest.mark.parametrize(("system", "spine"), map(str.split, PAIRS.split(", ")))
def test_packets_cross_a_spine_of_any_routed_system(
    system: str, spine: str, tmp_path: Path
) -> None:
    spec = routed_of(system, spine=spine, mode="lossless", port_mtu_bytes=9214)
    rooms = applied_rooms(spec, tmp_path)
    for rail in (111, 112):
        assert find_way(rooms, spec, f"10.10.{rail}.139") == ("spine-01", "leaf-02")
    assert find_way(rooms, spec, "10.99.0.1") is None


def test_without_route_maps_sonic_knows_no_way(tmp_path: Path) -> None:
    spec = routed_of("sonic", mode="lossless")
    rooms = applied_rooms(spec, tmp_path)
    assert find_way(rooms, spec, "10.10.111.139") == ("spine-01", "leaf-02")
    for port in ("Ethernet224", "Ethernet232"):
        row = f"BGP_NEIGHBOR_AF|default|{port}|ipv4_unicast"
        rooms[0].switch.run_line(f"sudo sonic-db-cli CONFIG_DB HDEL '{row}' route_map_in@")
    assert find_way(rooms, spec, "10.10.111.139") is None


@pytest.mark.parametrize("system", ["eos", "sonic", "cumulus"])
def test_packets_cross_numbered_links_and_super_spines(system: str, tmp_path: Path) -> None:
    numbered = routed_of(system, numbered=True, mode="lossless")
    rooms = applied_rooms(numbered, tmp_path)
    assert isinstance(rooms[0].switch, RoutingSwitch)
    number = "65001" if system == "eos" else "external"
    neighbors = rooms[0].switch.router_view().neighbors
    assert neighbors == {"10.254.0.3": number, port_name(system, 30): number}
    assert find_way(rooms, numbered, "10.10.111.139") == ("spine-01", "leaf-02")
    units = units_of(system, mode="lossless")
    assert told(units) == {}
    rooms = applied_rooms(units, tmp_path / "units")
    way = ("spine-01", "super-01", "spine-02", "leaf-02")
    assert find_way(rooms, units, "10.10.112.139") == way
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
        "spine-01 and spine-02 share asn 65001: each refuses the other's routes."
    )
    whole = units_of("eos")
    way = ports_between(whole, "leaf-01", "leaf-02")
    up = ["uplink_egress leaf-01", "spine_ingress spine-01"] * 2
    over = ["spine_egress spine-01", "spine_ingress super-01"]
    over += ["spine_egress super-01", "spine_ingress spine-02"]
    down = ["spine_egress spine-02", "downlink_ingress leaf-02"] * 2
    assert [f"{role} {switch}" for role, switch, _ in way] == [*up, *over, *down]


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
