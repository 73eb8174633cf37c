"""The laws of every driver, on one switch and on a whole fabric: in lives of a switch.

A life is: others' lines, an apply, another one, edits, an undo; and what must hold after each.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from components.fabric.state import PortState, SwitchState, diff_states
from components.model.cluster import ClusterSpec
from lab.switches.cumulus.config import child
from lab.switches.cumulus.server import CumulusSwitch
from lab.switches.eos.server import EosSwitch
from lab.switches.onyx.server import OnyxSwitch
from lab.switches.sonic.config import Db
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.eos_lab import Clock
from tests.fabric.fabric_lab import Room, rooms_of
from tests.fabric.in_process import apply, edit, restore
from tests.fabric.switch_labs import SwitchLab


def check_laws(lab: SwitchLab, folder: Path) -> None:
    """A new switch lives with all that is wanted, and once more with an edit to a piece less."""
    desired, switch = lab.desired, lab.make_switch(folder, Clock())
    room, first = Room(lab.plan, switch), switch.snapshot()
    wishless = SwitchState(ports=dict.fromkeys(desired.ports, PortState()))
    assert apply(room.talk(), wishless) == ()
    assert switch.snapshot() == first, "an empty wish changes nothing"

    def check(now: SwitchState) -> None:
        assert next(iter(switch.snapshot().values())) == lab.saved_part(switch)
        if now is desired:
            lab.carried.check(switch, desired)

    for edits in ((), (lab.carried.fewer(desired),)):
        assert check_life(room, *edits, check=check)


def disturb(room: Room, history: list[str]) -> None:
    """Type somebody's lines, `{asn}` for the switch's own; what contradicts itself is not taken."""
    own = room.plan.desired.bgp
    for line in ("vlan 10,20,111", *history) if room.plan.os == "onyx" else history:
        if line:
            room.switch.run_line(line.replace("{asn}", str(own.asn)) if own else line)
    if isinstance(room.switch, CumulusSwitch):
        room.switch.stored.pending = None
    room.save()


def live(spec: ClusterSpec, history: list[str]) -> None:
    """Each switch has a life (`live_in`)."""
    with TemporaryDirectory() as folder:
        for room in rooms_of(spec, Path(folder)):
            live_in(room, spec, history)


def live_in(room: Room, spec: ClusterSpec, history: list[str]) -> None:
    """After a history: `check_life`, what others have stays, and all hops agree."""
    disturb(room, history)
    others = unowned(room)

    def check_others(_state: SwitchState) -> None:
        assert unowned(room) == others
        agree(room, spec)

    check_life(room, check=check_others)


def check_life(
    room: Room, *edits: SwitchState, check: Callable[[SwitchState], None] = lambda _state: None
) -> tuple[str, ...]:
    """An apply, and each edit after it, is found again, and a second one is empty; undo is exact.

    Args:
        room: Whose plan is applied at first.
        edits: What is wanted after that.
        check: Called when a state is there.

    Returns:
        The lines of the undo.
    """
    first, was = room.switch.snapshot(), room.plan.desired
    room.record()
    assert room.switch.snapshot() == first, "reading changes nothing"
    assert room.baseline is not None
    room.apply()
    for now in (was, *edits):
        if now is not was:
            edit(room.talk(), was, now, room.baseline)
        assert diff_states(room.talk().read(now).state, now) == ()
        assert apply(room.talk(), now) == ()
        check(now)
        was = now
    lines = restore(room.talk(), was, room.baseline)
    assert room.switch.snapshot() == first
    assert room.switch.unmodelled == ()
    return lines


def unowned(room: Room) -> object:
    """What the file does not name: other ports, other interfaces, texts on our ports."""
    ours, switch = room.plan.desired, room.switch
    if isinstance(switch, OnyxSwitch):
        ports = switch.stored.running.ports
        if ours.roce is not None:  # the one-shot reaches every port
            return {name: (port.description, port.mtu_bytes) for name, port in ports.items()
                    if name not in ours.ports}  # fmt: skip
        texts = {name: ports[name].description for name in ours.ports}
        return texts, {name: port.model_copy(deep=True) for name, port in ports.items()
                       if name not in ours.ports}  # fmt: skip
    if isinstance(switch, EosSwitch):
        ports = switch.stored.running.ports
        texts = {name: ports[name].description for name in ours.ports}
        rest = {
            name: ports[name].model_copy(deep=True) for name in ports.keys() - ours.ports.keys()
        }
        return texts, rest, _beside(switch, ours)
    if isinstance(switch, SonicSwitch):
        neighbors = ours.bgp.neighbors if ours.bgp else ()
        return _foreign(switch.stored.running, {*ours.ports, *neighbors})
    tree, named = (
        switch.stored.applied,
        {*ours.ports, *(ours.addresses or {}), *(ours.splits or {})},
    )
    interfaces = child(tree, "interface")
    others = {name: each for name, each in interfaces.items() if name not in named}
    return copy.deepcopy((others, tree.get("acl")))


def _beside(switch: EosSwitch, ours: SwitchState) -> object:
    """Interfaces of the switch itself, neighbours and networks that are not of the file."""
    routing = switch.stored.running.routing.model_copy(deep=True)
    bgp = routing.bgp
    named = {*(ours.addresses or {})}
    networks = {*(bgp.networks if bgp else ())} - {*(ours.bgp.networks if ours.bgp else ())}
    others = {name: each for name, each in routing.interfaces.items() if name not in named}
    neighbors = {*(ours.bgp.neighbors if ours.bgp else ())}
    peers = bgp.addresses.items() if bgp else ()
    return others, {name: each for name, each in peers if name not in neighbors}, networks


def _foreign(db: Db, ours: set[str]) -> Db:
    """Rows that neither name a port of the file nor bear our name, nor are a rail's VLAN."""
    ours = ours | {"RAILYARD", "Vlan111", "Vlan112", "Loopback0"}
    ours |= {f"Vlan{vlan}" for vlan in (300, 301, 400, 401, 402)}
    kept: Db = {}
    for table, rows in db.items():
        for key, fields in rows.items():
            if table.startswith("BGP_GLOBALS"):
                continue
            if not ours & {key, *key.split("|")} and not key.startswith("pg_lossless_"):
                kept.setdefault(table, {})[key] = dict(fields)
    return kept


def agree(room: Room, spec: ClusterSpec) -> None:
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
