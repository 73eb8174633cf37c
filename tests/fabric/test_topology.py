"""Fabrics of several switches: apply settles, undo is exact, and every hop agrees."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from components.model.cluster import ClusterSpec
from lab.physics.routed import find_hops
from lab.switches.cumulus.server import CumulusSwitch
from tests.fabric import (
    fabric_lab,
    test_cumulus_exchange,
    test_eos_exchange,
    test_exchange,
    test_sonic_exchange,
)
from tests.fabric.fabric_lab import chain_of, load_example, rooms_of
from tests.fabric.lives import agree, live, live_in

QUICK = settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate))
"""A history is found in a second and shrunk in minutes: no shrinking."""
MODES = {
    "onyx": ("lossy_ecn", "lossless", "semi_lossless"),
    "cumulus": ("lossy_ecn", "lossless"),
    "eos": ("lossy_ecn", "lossless"),
    "sonic": ("lossy_ecn", "lossless"),
}
ROUTED = st.sampled_from(
    [
        "nv set router bgp autonomous-system 64999",
        "nv set router bgp router-id 10.9.9.9",
        "nv set vrf default router bgp neighbor swp9 remote-as external",
        "nv set vrf default router bgp neighbor swp49 remote-as external",
        "nv set vrf default router bgp neighbor swp10 remote-as 65001",
        "nv set vrf default router bgp neighbor swp49 description uplink",
        "nv set vrf default router bgp address-family ipv4-unicast network 10.77.0.0/24",
        "nv set vrf default router bgp address-family ipv4-unicast network 10.255.0.1/32",
        "nv set interface lo ip address 10.9.9.9/32",
        "nv set interface lo ip address 10.255.0.1/32",
        "nv set interface vlan111 ip address 10.10.111.1/24",
        "nv set interface vlan111 ip address 10.66.0.1/24",
        "nv set interface vlan20 ip address 10.20.0.1/24",
        "nv set interface swp49 qos pfc-watchdog state enable",
        "nv set interface swp1 qos pfc-watchdog state disable",
        "nv set interface swp49 ip address 10.1.1.0/31",
        "nv set interface swp49 bridge domain br_default access 10",
        # The mode is always written: undo says it, and what a length alone means is not public.
        "nv set qos roce mode lossless; nv set qos roce cable-length 40",
    ]
)
CUMULUS = st.lists(st.one_of(ROUTED, test_cumulus_exchange.HISTORIES.map(" ; ".join)), max_size=8)
ONYX = test_exchange.HISTORIES


@QUICK
@given(history=ONYX, mode=st.sampled_from(MODES["onyx"]), leaves=st.integers(1, 3))
def test_trunks_between_onyx_leaves(history: list[str], mode: str, leaves: int) -> None:
    # Which PFC `roce semi-lossless` has is not public: the plan wants nothing of what was forced.
    forced = "priority-flow-control" if mode == "semi_lossless" else "\n"
    live(chain_of("onyx", leaves, mode=mode), [line for line in history if forced not in line])


@QUICK
@given(
    history=CUMULUS,
    mode=st.sampled_from(MODES["cumulus"]),
    leaves=st.integers(1, 3),
    watchdog=st.booleans(),
    cable=st.one_of(st.none(), st.integers(1, 300)),
)
def test_trunks_between_cumulus_leaves(
    history: list[str],
    mode: str,
    leaves: int,
    watchdog: bool,  # noqa: FBT001 - drawn
    cable: int | None,
) -> None:
    spec = chain_of("cumulus", leaves, mode=mode, pfc_watchdog=watchdog and mode == "lossless")
    if cable and mode == "lossless":
        ports = spec.switches[0].ports
        long = ports["swp1"].model_copy(update={"cable_length_m": cable})
        switch = spec.switches[0].model_copy(update={"ports": {**ports, "swp1": long}})
        spec = spec.model_copy(update={"switches": (switch, *spec.switches[1:])})
    live(spec, history)


@QUICK
@given(
    history=test_eos_exchange.HISTORIES,
    mode=st.sampled_from(MODES["eos"]),
    leaves=st.integers(1, 3),
    watchdog=st.booleans(),
)
def test_trunks_between_eos_leaves(
    history: list[str],
    mode: str,
    leaves: int,
    watchdog: bool,  # noqa: FBT001 - drawn
) -> None:
    # A class that somebody put into another queue is refused before a change (WHY.md).
    lines = [line for line in history if "to tx-queue" not in line]
    if mode == "lossy_ecn":  # PFC is then not ours, and somebody's own stays
        lines = [line for line in lines if "no-drop" not in line]
    watched = watchdog and mode == "lossless"
    live(chain_of("eos", leaves, mode=mode, pfc_watchdog=watched), lines)


@QUICK
@given(
    history=test_sonic_exchange.HISTORIES,
    mode=st.sampled_from(MODES["sonic"]),
    leaves=st.integers(1, 3),
    watchdog=st.booleans(),
)
def test_trunks_between_sonic_leaves(
    history: list[str],
    mode: str,
    leaves: int,
    watchdog: bool,  # noqa: FBT001 - drawn
) -> None:
    # What takes the room for lossless buffers is refused before a change (test_sonic_refusals.py).
    takes = ("qos clear", "CABLE_LENGTH", "buffer_model")
    lines = [line for line in history if not any(word in line for word in takes)]
    watched = watchdog and mode == "lossless"
    live(chain_of("sonic", leaves, mode=mode, pfc_watchdog=watched), lines)


@QUICK
@given(history=CUMULUS)
def test_routed_leaf_and_spine(history: list[str]) -> None:
    spec = ClusterSpec.model_validate(load_example("spine-leaf"))
    pair = (spec.switches[0], spec.switches[8])
    lines = [line for line in history if "swp49 ip address" not in line]
    with TemporaryDirectory() as folder:
        for room in rooms_of(spec, Path(folder))[:9:8]:
            assert room.plan.name in {switch.name for switch in pair}
            live_in(room, spec, lines)


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
        routers = {
            name: room.switch.router_view()
            for name, room in rooms.items()
            if isinstance(room.switch, CumulusSwitch)
        }
        ends = (
            ((switch.name, port), to.peer)
            for switch in spec.switches
            for port, to in switch.ports.items()
            if to.peer is not None and {switch.name, to.peer[0]} <= {*wanted}
        )
        links = tuple(
            (rooms[one[0]].switch.port_view(one[1]), rooms[other[0]].switch.port_view(other[1]))
            for one, other in ends
        )
        hops = find_hops("leaf-01", "10.10.111.11", "10.10.111.139", links, routers)
        return None if hops is None else tuple(far.switch for _, far in hops)

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


def test_the_emulators_of_a_fabric_hear_each_other(tmp_path: Path) -> None:
    for system in fabric_lab.KINDS:
        rooms = rooms_of(chain_of(system, 2, mode="lossless"), tmp_path / system)
        for room in rooms:
            room.apply()
        heard = rooms[0].talk().read_neighbours()
        host, link = fabric_lab.port_name(system, 1), fabric_lab.port_name(system, 32)
        assert heard[host].system == "gpu01"
        assert heard[host].description == "enp5s0"
        assert heard[link].system == "leaf-02"
        told = "Eth{}" if system == "onyx" else "{}"
        assert heard[link].port == told.format(fabric_lab.port_name(system, 31))
