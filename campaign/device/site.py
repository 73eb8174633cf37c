"""One emulated switch with lines of other people on it, and what files may ask of it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from campaign.carried import Loss
from components.core.record import record
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.state import SwitchState
from components.model.cluster import ClusterSpec
from lab.switches.cumulus.server import CumulusSwitch
from lab.switches.emulators import RoutingSwitch
from lab.switches.eos.server import EosSwitch
from tests.fabric.fabric_lab import Room, port_name
from tests.fabric.lives import unowned
from tests.fabric.whole_intents import EVERYTHING, ROUTED, Pieces, whole_of, whole_rooms

SYSTEMS: Final = (*EVERYTHING,)
_MERGE: Final = "sudo config load {} -y"
_BESIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "onyx": (
        "vlan 3001",
        "interface ethernet {free} description theirs-{n}",
        "interface ethernet {free} mtu 4200 force",
        "interface ethernet {free} shutdown",
    ),
    "cumulus": (
        "nv set bridge domain br_default vlan 3001",
        "nv set interface {free} description theirs-{n}",
        "nv set interface {free} link mtu 4200",
        "nv set interface {free} link state down",
    ),
    "eos": (
        "vlan 3001",
        "interface {free};description theirs-{n}",
        "interface {free};mtu 4200",
        "interface {free};shutdown",
    ),
    "sonic": (
        "sudo config vlan add 3001",
        "sudo config interface mtu {free} 4200",
        "sudo config interface shutdown {free}",
    ),
}
"""Lines of another admin that touch nothing of ours, at any time."""
_BEFORE: Final[Mapping[str, tuple[str, ...]]] = {
    "onyx": (
        "vlan 10,20,111",
        "interface ethernet {ours} mtu 4200 force",
        "interface ethernet {ours} switchport mode trunk",
        "interface ethernet {ours} qos trust L3",
        "interface ethernet {ours} description theirs",
    ),
    "cumulus": (
        "nv set bridge domain br_default vlan 10,20",
        "nv set interface {ours} link mtu 4200",
        "nv set interface {ours} description theirs",
        "nv set interface {ours} bridge domain br_default",
    ),
    "eos": (
        "vlan 10,20",
        "interface {ours};description theirs",
        "interface {ours};mtu 9214",
        "interface {ours};switchport mode trunk",
        "qos map dscp 26 to traffic-class 1",
    ),
    "sonic": (
        "sudo config vlan add 10",
        "sudo config interface mtu {ours} 4200",
    ),
}
"""Lines that were there before Railyard, also on ports that become ours: undo gives them back."""
_HAND: Final[Mapping[str, str]] = {
    "onyx": "interface ethernet {ours} mtu 1600 force",
    "cumulus": "nv set interface {ours} link mtu 1600",
    "eos": "interface {ours};l2 mtu 1600",
    "sonic": "sudo config interface mtu {ours} 1600",
}
"""A setting of ours that somebody changes by hand."""


@dataclass(slots=True)
class Place:
    """A switch, what a file asks of it now, and a twin on which Railyard never was."""

    system: str
    pieces: Pieces
    room: Room
    twin: Room
    index: int
    spec: ClusterSpec

    @property
    def plan(self) -> SwitchPlan:
        """What the file asks."""
        return self.room.plan

    def typed(self, line: str, chance: random.Random) -> str:
        """A line with ports in it."""
        wanted = self.plan.desired.ports.items()
        held = self.room.switch.ports
        ours = [
            name
            for name, port in wanted
            if port.mtu_bytes is not None and port.mode != "routed" and name in held
        ]
        words = {
            "ours": chance.choice(ours or [port_name(self.system, 1)]),
            "free": port_name(self.system, chance.choice([20, 21, 22])),
            "n": chance.randint(1, 9),
        }
        return line.format(**words)

    def before_us(self, chance: random.Random) -> list[str]:
        """Other people's lines, from before Railyard; both switches have them, saved."""
        lines = [*_BEFORE[self.system], *_BESIDE[self.system]]
        typed = [self.typed(chance.choice(lines), chance) for _ in range(chance.randint(0, 4))]
        for room in (self.room, self.twin):
            for line in typed:
                room.switch.run_line(line)
            room.save()
        return typed

    def another_admin(self, chance: random.Random) -> str:
        """A line that touches nothing of ours; the twin gets it too."""
        line = self.typed(chance.choice(_BESIDE[self.system]), chance)
        for room in (self.room, self.twin):
            room.switch.run_line(line)
        return line

    def by_hand(self, chance: random.Random) -> str:
        """Somebody changes a setting of ours."""
        if all(port.mode == "routed" for port in self.plan.desired.ports.values()):
            return "nothing: routed ports have their size elsewhere"
        line = self.typed(_HAND[self.system], chance)
        self.room.switch.run_line(line)
        return line

    def asks(self, pieces: Pieces) -> None:
        """The file is edited."""
        self.spec = whole_of(self.system, pieces)
        plans = plan_fabric(self.spec)
        self.pieces = pieces
        self.room.plan = plans[min(self.index, len(plans) - 1)]

    def unowned(self, previous: SwitchState) -> object:
        """A snapshot of all that neither this file nor the one before names."""
        asked = self.plan.model_copy(update={"desired": both(previous, self.plan.desired)})
        found = unowned(replace(self.room, plan=asked))
        if self.system == "sonic":  # rows of tables that bear our name
            tables = cast("dict[str, dict[str, Any]]", found)
            found = {
                table: {key: row for key, row in rows.items() if not key.startswith("RAILYARD")}
                for table, rows in tables.items()
            }
            found = {table: rows for table, rows in found.items() if rows}
        return found

    @property
    def has_open_candidate(self) -> bool:
        """A session of EOS or a revision of Cumulus is open, whose copy is put in force whole."""
        switch = self.room.switch
        if isinstance(switch, EosSwitch):
            return any(each.state == "pending" for each in switch.config_sessions.held.values())
        held = switch.stored if isinstance(switch, CumulusSwitch) else None
        return held is not None and (held.pending or held.unconfirmed) is not None

    def running(self, room: Room) -> object:
        """What a switch runs now."""
        return next(iter(cast("dict[str, Any]", room.switch.snapshot()).values()))


def both(one: SwitchState, other: SwitchState) -> SwitchState:
    """A state that names all that either of two names."""
    routed = [each.bgp for each in (one, other) if each.bgp is not None]
    bgp = None
    if routed:
        bgp = routed[-1].model_copy(
            update={
                "neighbors": {name: asn for each in routed for name, asn in each.neighbors.items()},
                "networks": tuple({net for each in routed for net in each.networks}),
            }
        )
    return other.model_copy(
        update={
            "bgp": bgp,
            "roce": other.roce or one.roce,
            "ports": {**one.ports, **other.ports},
            "addresses": {**(one.addresses or {}), **(other.addresses or {})},
            "splits": {**(one.splits or {}), **(other.splits or {})},
        }
    )


def make_place(chance: random.Random, folder: Path) -> Place:
    """A switch of some system, in a site of some pieces."""
    system = chance.choice(SYSTEMS)
    pieces = some_pieces(chance)
    there = replace(pieces, routed=pieces.routed or "numbered")
    index = 2 if system in ROUTED and pieces.routed and chance.random() < 0.25 else 0  # noqa: PLR2004 - a spine
    rooms = [
        whole_rooms(whole_of(system, there), folder / name)[index] for name in ("room", "twin")
    ]
    spec = whole_of(system, pieces)
    place = Place(system, pieces, rooms[0], rooms[1], index, spec)
    place.asks(pieces)
    return place


def some_pieces(chance: random.Random) -> Pieces:
    """What a file asks for."""
    coin = lambda: chance.random() < 0.5  # noqa: E731, PLR2004 - a coin
    return Pieces(
        split=coin(),
        routed=chance.choice(["", "unnumbered", "numbered"]),
        bfd=coin(),
        queues=coin(),
        mode=chance.choice(["lossless", "lossy_ecn"]),
        spreading=coin(),
        links=chance.choice(["", "set", "negotiated"]),
    )


def other_pieces(chance: random.Random, place: Place) -> Pieces:
    """What the file asks for after an edit; parts of ports stay where people make them."""
    pieces = some_pieces(chance)
    if place.system != "cumulus":
        pieces = replace(pieces, split=place.pieces.split)
    if place.index:
        pieces = replace(pieces, routed=pieces.routed or "numbered")
    return pieces


@record
class Seen:
    """What a switch carries, as its emulator has it: not as the product reads it."""

    ports: Mapping[str, tuple[bool, frozenset[int], int, object]]
    routes: frozenset[object]


def carried_now(room: Room, names: tuple[str, ...]) -> Seen:
    """Look at the emulator itself."""
    switch, ports = room.switch, dict[str, tuple[bool, frozenset[int], int, object]]()
    for name in names:
        if name not in switch.ports:
            continue
        view = switch.port_view(name)
        vlans = {
            "access": frozenset({view.access_vlan}),
            "trunk": view.allowed_vlans,
            "hybrid": view.allowed_vlans | {view.access_vlan},
        }[view.mode]
        trusts = view.trust in {"L3", "both"}
        classes = (view.dscp_to_priority if trusts else None, view.priority_to_tc)
        ports[name] = view.oper_up, vlans, view.mtu_bytes, (classes, view.pfc_priorities)
    routes = set[object]()
    if isinstance(switch, RoutingSwitch):
        router = switch.router_view()
        routes |= {("neighbour", *each) for each in router.neighbors.items()}
        routes |= {("network", each) for each in router.networks}
        routes |= {
            ("address", name, each) for name, own in router.addresses.items() for each in own
        }
    return Seen(ports, frozenset(routes))


def lost_between(before: Seen, now: Seen) -> tuple[Loss, ...]:
    """What a switch carried before and does not now."""
    found: list[Loss] = []
    for name, (up, vlans, mtu, classes) in before.ports.items():
        if not up:
            continue
        where = f"port {name}"
        if name not in now.ports:
            found.append(Loss("link", where, "is gone"))
            continue
        now_up, now_vlans, now_mtu, now_classes = now.ports[name]
        if not now_up:
            found.append(Loss("up", where, "goes down"))
        if gone := sorted(vlans - now_vlans):
            found.append(Loss("vlan", where, f"VLAN {gone[:4]}"))
        if now_mtu < mtu:
            found.append(Loss("mtu", where, f"{mtu} to {now_mtu}"))
        if classes != now_classes:
            found.append(Loss("class", where, "DSCP, priority, class or PFC"))
    found += [Loss("route", "switch", str(each)) for each in before.routes - now.routes]
    return tuple(found)
