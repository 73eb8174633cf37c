"""From one state of an Onyx switch to another: the lines, in the order that is safe.

Every line has a public source; WHY.md beside the drivers names it. Lines that are equal on
neighbouring ports are collapsed into one with a range, as the vendor's own configuration does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from components.fabric.state import ALL_VLANS, PortState, SwitchState, list_vlans
from components.fabric.systems.base import Change
from components.fabric.systems.ranges import collapse_vlans, port_runs

PortLines = Callable[[PortState, PortState], Iterable[str]]
"""(actual, target) of one port to the tails of its `interface ethernet …` lines."""
FACTORY_VLAN = 1
LLDP: Final = "lldp"
"""Key of `SwitchState.native`: `on` where LLDP was, which goes with the one-shot."""


def plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """The ordered way from `actual` to `target`; empty when they agree.

    The one-shot `roce` moves many settings at once, so it comes alone: what is left after it is
    planned from what the switch then has.
    """
    if target.roce is not None and actual.roce != target.roce:
        line = "no roce" if target.roce == "none" else f"roce {target.roce}"
        return (Change((line,), settles=True),)
    target = _without_bound_pfc(actual, target)
    held, wanted = actual.vlans, target.vlans
    return (
        # A VLAN is there before a port names it; `vlan N` enters its mode, so leave it.
        *(Change((f"vlan {vlan}", "exit")) for vlan in wanted if vlan not in held),
        *(change for stage in _ORDER for change in stage(actual, target)),
        *(Change((f"no vlan {vlan}",)) for vlan in held if vlan not in wanted),
    )


def _without_bound_pfc(actual: SwitchState, target: SwitchState) -> SwitchState:
    """No line takes PFC off a port while the lossless one-shot stays on: it has every port's."""
    if (target.roce or actual.roce) != "lossless":
        return target
    ports = {
        name: port.model_copy(update={"pfc": None}) if port.pfc is False else port
        for name, port in target.ports.items()
    }
    return target.model_copy(update={"ports": ports})


def _l2_lines(actual: PortState, target: PortState) -> Iterator[str]:
    if target.mode is not None and target.mode != actual.mode:
        yield from _new_mode(target)
        return
    mode = target.mode or actual.mode
    if target.access_vlan not in {None, actual.access_vlan} and mode != "trunk":
        yield f"switchport access vlan {target.access_vlan}"
    if target.trunk_vlans is not None and mode in {"trunk", "hybrid"}:
        yield from _allowed_lines(mode, actual, target)


def _new_mode(target: PortState) -> Iterator[str]:
    # Not `no switchport force`, which makes a router port of it.
    yield f"switchport mode {target.mode}"
    if target.access_vlan not in {None, FACTORY_VLAN} and target.mode != "trunk":
        yield f"switchport access vlan {target.access_vlan}"
    if target.mode in {"trunk", "hybrid"} and target.trunk_vlans is not None:
        head = f"switchport {target.mode} allowed-vlan"
        if target.trunk_vlans == "all":
            yield f"{head} all"
            return
        # What the mode allows at first is not documented, so the list starts from nothing.
        yield f"{head} none"
        if target.trunk_vlans:
            yield f"{head} add {collapse_vlans(target.trunk_vlans)}"


def _allowed_lines(mode: str, actual: PortState, target: PortState) -> Iterator[str]:
    head = f"switchport {mode} allowed-vlan"
    held, wanted = {*list_vlans(actual.trunk_vlans or ())}, {*list_vlans(target.trunk_vlans or ())}
    if wanted != held and len(wanted) == len(ALL_VLANS):
        yield f"{head} all"
        return
    if wanted - held:
        yield f"{head} add {collapse_vlans(wanted - held)}"
    if held - wanted:
        yield f"{head} remove {collapse_vlans(held - wanted)}"


def _trust_lines(actual: PortState, target: PortState) -> Iterator[str]:
    if target.trust not in {None, actual.trust}:
        yield f"qos trust {target.trust}"
    if target.rewrite_dscp not in {None, actual.rewrite_dscp}:
        yield "qos rewrite dscp" if target.rewrite_dscp else "no qos rewrite dscp"


def _ecn_lines(actual: PortState, target: PortState) -> Iterator[str]:
    for tc, wanted in sorted(target.ecn.items()):
        if wanted == actual.ecn.get(tc):
            continue
        if wanted is None:
            yield f"no traffic-class {tc} congestion-control"
            continue
        word = "relative" if wanted.relative else "absolute"
        yield (
            f"traffic-class {tc} congestion-control {wanted.kind} "
            f"minimum-{word} {wanted.min_kib} maximum-{word} {wanted.max_kib}"
        )


def _ets_lines(actual: PortState, target: PortState) -> Iterator[str]:
    if target.strict_classes is None:
        return
    held, wanted = {*(actual.strict_classes or ())}, {*target.strict_classes}
    for tc in sorted(wanted - held):
        yield f"traffic-class {tc} dcb ets strict"
    for tc in sorted(held - wanted - {*target.class_shares}):
        yield f"traffic-class {tc} dcb ets wrr {target.wrr_weights[tc]}"
    for tc, said in sorted(target.class_shares.items()):
        share = said or target.wrr_weights.get(tc, 0)  # a baseline has weights, and no shares
        if tc not in wanted and (tc in held or share != actual.class_shares.get(tc)):
            yield f"traffic-class {tc} dcb ets wrr {share}"


def _pfc_lines(actual: PortState, target: PortState) -> Iterator[str]:
    if target.pfc is None or target.pfc == actual.pfc:
        return
    tail = "dcb priority-flow-control mode"
    yield f"{tail} on force" if target.pfc else f"no {tail} force"


def _global_pfc(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """Priorities before the switch as a whole, so that nothing is paused by halves."""
    head = "dcb priority-flow-control"
    if target.pfc_priorities is not None:
        held = actual.pfc_priorities or ()
        for priority in target.pfc_priorities:
            if priority not in held:
                yield Change((f"{head} priority {priority} enable",))
        for priority in held:
            if priority not in target.pfc_priorities:
                yield Change((f"no {head} priority {priority} enable",))
    if target.pfc_enabled not in {None, actual.pfc_enabled}:
        yield Change((f"{'' if target.pfc_enabled else 'no '}{head} enable force",))


def _lldp(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """Only ever put back: `roce` needs it, and `no roce` takes it along."""
    if target.roce is not None and LLDP in target.native and LLDP not in actual.native:
        yield Change(("lldp",))


def _mtu(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """A port must be shut for a new MTU (the ESXi guide), so one port flaps at a time."""
    for name, port in target.ports.items():
        was = actual.ports.get(name, PortState())
        if port.mtu_bytes is None or port.mtu_bytes == was.mtu_bytes:
            continue
        head = f"interface ethernet {name}"
        lines = [f"{head} mtu {port.mtu_bytes}"]
        if was.admin_up is not False:
            lines.insert(0, f"{head} shutdown")
            lines += [] if port.admin_up is False else [f"{head} no shutdown"]
        yield Change(tuple(lines))


def _admin(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    for name, port in target.ports.items():
        was = actual.ports.get(name, PortState())
        if port.admin_up is None or port.admin_up == was.admin_up:
            continue
        head = f"interface ethernet {name}"
        if port.admin_up:
            yield Change((f"{head} no shutdown",))
        elif port.mtu_bytes in {None, was.mtu_bytes}:
            yield Change((f"{head} shutdown",))


def _per_port(lines_of: PortLines) -> Callable[[SwitchState, SwitchState], Iterator[Change]]:
    def stage(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
        tails = {
            name: tuple(lines_of(actual.ports.get(name, PortState()), port))
            for name, port in target.ports.items()
        }
        # Ports with the same lines, in the same order, share them; others keep their own order.
        groups: dict[tuple[str, ...], list[str]] = {}
        for name, lines in tails.items():
            if lines:
                groups.setdefault(lines, []).append(name)
        for lines, names in groups.items():
            for ports in collapse_ports(names):
                yield Change(tuple(f"interface ethernet {ports} {line}" for line in lines))

    return stage


_ORDER: Final[tuple[Callable[[SwitchState, SwitchState], Iterator[Change]], ...]] = (
    _per_port(_l2_lines),
    _per_port(_trust_lines),
    _per_port(_ecn_lines),
    _per_port(_ets_lines),
    _global_pfc,
    _per_port(_pfc_lines),
    _lldp,
    _mtu,
    _admin,
)
"""What comes before what: classes before a port flaps."""


def collapse_ports(ports: Iterable[str]) -> list[str]:
    """Group neighbouring ports: `1/1`, `1/2`, `1/4` becomes `1/1-1/2`, `1/4`."""
    runs = port_runs(ports, whole=2)
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
