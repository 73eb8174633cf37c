"""Fabrics of several switches: apply settles, undo is exact, and every hop agrees."""

from __future__ import annotations

import copy
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from components.fabric.state import diff_states
from components.model.cluster import ClusterSpec
from lab.physics.routed import find_hops
from lab.switches.cumulus.config import child
from lab.switches.cumulus.server import CumulusSwitch
from lab.switches.eos.server import EosSwitch
from lab.switches.onyx.server import OnyxSwitch
from lab.switches.sonic.config import Db
from lab.switches.sonic.server import SonicSwitch
from tests.fabric import (
    fabric_lab,
    test_cumulus_exchange,
    test_eos_exchange,
    test_exchange,
    test_sonic_exchange,
)
from tests.fabric.fabric_lab import Room, chain_of, load_example, rooms_of

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


def _disturb(room: Room, history: list[str]) -> None:
    """Type somebody's lines; what contradicts itself is not taken."""
    for line in ("vlan 10,20,111", *history) if room.plan.os == "onyx" else history:
        if line:
            room.switch.run_line(line)
    if isinstance(room.switch, CumulusSwitch):
        room.switch.stored.pending = None
    room.save()


def _life(spec: ClusterSpec, history: list[str]) -> None:
    with TemporaryDirectory() as folder:
        rooms = rooms_of(spec, Path(folder))
        for room in rooms:
            _disturb(room, history)
            first, others = room.switch.snapshot(), _unowned(room)
            room.record()
            room.apply()
            assert diff_states(room.read(), room.plan.desired) == ()
            assert room.apply() == ()
            assert _unowned(room) == others
            _agree(room, spec)
            room.restore()
            assert room.switch.snapshot() == first
            assert room.switch.unmodelled == ()


def _unowned(room: Room) -> object:
    """What the file does not name: other ports, other interfaces, texts on our ports."""
    ours, switch = room.plan.desired, room.switch
    if isinstance(switch, OnyxSwitch):
        ports = switch.stored.running.ports
        if ours.roce is not None:  # the one-shot reaches every port
            return {name: (port.description, port.mtu_bytes) for name, port in ports.items()
                    if name not in ours.ports}  # fmt: skip
        others = {name: port.model_copy(deep=True) for name, port in ports.items()}
        texts = {name: others[name].description for name in ours.ports}
        return texts, {name: port for name, port in others.items() if name not in ours.ports}
    if isinstance(switch, EosSwitch):
        ports = copy.deepcopy(switch.stored.running.ports)
        texts = {name: ports[name].description for name in ours.ports}
        return texts, {name: port for name, port in ports.items() if name not in ours.ports}
    if isinstance(switch, SonicSwitch):
        return _foreign(switch.stored.running, {*ours.ports})
    tree = copy.deepcopy(switch.stored.applied)
    named = {*ours.ports, *(ours.addresses or {})}
    interfaces = child(tree, "interface")
    return {name: each for name, each in interfaces.items() if name not in named}, tree.get("acl")


def _foreign(db: Db, ours: set[str]) -> Db:
    """Rows that neither name a port of the file nor bear our name, nor are a rail's VLAN."""
    ours = ours | {"RAILYARD", "Vlan111", "Vlan112"}
    kept: Db = {}
    for table, rows in db.items():
        for key, fields in rows.items():
            if not ours & {key, *key.split("|")} and not key.startswith("pg_lossless_"):
                kept.setdefault(table, {})[key] = dict(fields)
    return kept


def _agree(room: Room, spec: ClusterSpec) -> None:
    """Every hop pauses exactly the priority that the DSCP of RoCE maps to, or none."""
    rdma = spec.rdma
    for name in room.plan.desired.ports:
        view = room.switch.port_view(name)
        priority = view.dscp_to_priority[rdma.dscp]
        assert view.trust in {"L3", "both"}
        assert priority == rdma.priority
        assert view.pfc_priorities == ({priority} if rdma.mode == "lossless" else set())
        assert view.priority_to_tc[priority] in view.ecn_kib
        assert view.mtu_bytes >= rdma.port_mtu_bytes


@QUICK
@given(history=ONYX, mode=st.sampled_from(MODES["onyx"]), leaves=st.integers(1, 3))
def test_trunks_between_onyx_leaves(history: list[str], mode: str, leaves: int) -> None:
    one_shot = mode != "lossy_ecn"
    # The one-shot resets queues on every port, and undo does not put those back (WHY.md).
    lines = [line for line in history if not one_shot or _survives(line)]
    _life(chain_of("onyx", leaves, mode=mode), lines)


def _survives(line: str) -> bool:
    return not any(word in line for word in ("trust", "traffic-class", "priority-flow"))


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
    _life(spec, history)


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
    _life(chain_of("eos", leaves, mode=mode, pfc_watchdog=watched), lines)


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
    _life(chain_of("sonic", leaves, mode=mode, pfc_watchdog=watched), lines)


@QUICK
@given(history=CUMULUS)
def test_routed_leaf_and_spine(history: list[str]) -> None:
    spec = ClusterSpec.model_validate(load_example("spine-leaf"))
    pair = (spec.switches[0], spec.switches[8])
    lines = [line for line in history if "swp49 ip address" not in line]
    with TemporaryDirectory() as folder:
        for room in rooms_of(spec, Path(folder))[:9:8]:
            assert room.plan.name in {switch.name for switch in pair}
            _disturb(room, lines)
            first, others = room.switch.snapshot(), _unowned(room)
            room.record()
            room.apply()
            assert diff_states(room.read(), room.plan.desired) == ()
            assert room.apply() == ()
            assert _unowned(room) == others
            _agree(room, spec)
            room.restore()
            assert room.switch.snapshot() == first
            assert room.switch.unmodelled == ()


@pytest.mark.parametrize("name", ["rail-optimised", "spine-leaf"])
def test_every_hop_of_an_example_agrees(name: str, tmp_path: Path) -> None:
    spec = ClusterSpec.model_validate(load_example(name))
    rooms = rooms_of(spec, tmp_path)
    for room in rooms:
        room.apply()
        _agree(room, spec)
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
