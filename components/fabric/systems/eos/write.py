"""From one state of an EOS switch to another: configuration lines, all of one session.

The session is put into force as a whole, so the order does not matter to traffic; it is that of the
vendor's own configuration. Ports have a block each: how a range of split ports is written differs
between platforms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.fabric.native import is_default, read_fields
from components.fabric.state import EcnState, PortState, SwitchState, list_vlans
from components.fabric.systems.base import Change, Unsettable
from components.fabric.systems.eos.config import FEC_HEAD, FEC_LINES
from components.fabric.systems.eos.facts import (
    ECN_WEIGHT,
    FACTORY_VLAN,
    WATCHDOG_ACTION,
    WATCHDOG_TIMER,
    watchdog_timer,
)
from components.fabric.systems.eos.routing_lines import coming_changes, leaving_changes
from components.fabric.systems.ranges import collapse_vlans

_MODES: Final = {"access": "switchport mode access", "trunk": "switchport mode trunk"}
_TRUST: Final = {"L2": "qos trust cos", "L3": "qos trust dscp", "port": "no qos trust"}
_WATCHDOG: Final = "priority-flow-control pause watchdog"
_WATCHDOG_PARTS: Final = {"enable": "", "timer": " port timer", "action": " port action"}
"""In the order of the vendor's own configuration."""


def plan_changes(actual: SwitchState, target: SwitchState) -> tuple[Change, ...]:
    """The lines from `actual` to `target`; empty when they agree.

    Raises:
        Unsettable: A port is missing, or is no plain switch port.
    """
    missing = [name for name in target.ports if name not in actual.ports]
    if missing:
        raise Unsettable(
            f"{', '.join(missing)}: there is no such port, or it is part of a bundle, a tunnel or "
            "a tap; look at `show running-config interfaces`"
        )
    return (
        *(Change((f"vlan {vlan}", "exit")) for vlan in target.vlans if vlan not in actual.vlans),
        *_map_changes(actual, target),
        *leaving_changes(actual, target),
        *_port_changes(actual, target),
        *coming_changes(actual, target),
        *(Change((f"no vlan {vlan}",)) for vlan in actual.vlans if vlan not in target.vlans),
    )


def _map_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    held = actual.dscp_classes or {}
    for dscp, tc in sorted((target.dscp_classes or {}).items()):
        if held.get(dscp) != tc:
            yield Change((f"qos map dscp {dscp} to traffic-class {tc}",))


def _port_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    for name, port in target.ports.items():
        was = actual.ports[name]
        lines = [
            *_speed_lines(was, port),
            *_fec_lines(was, port),
            *_mtu_lines(was, port),
            *_switchport_lines(was, port),
            *_trust_lines(was, port),
            *_pfc_lines(was, port),
            *_watchdog_lines(was, port),
            *_admin_lines(was, port),
            *_queue_lines(was, port),
        ]
        if lines:
            yield Change((f"interface {name}", *lines, "exit"))


def _speed_lines(was: PortState, port: PortState) -> Iterator[str]:
    if port.speed is not None and port.speed != (was.speed or ""):
        yield f"speed {port.speed}" if port.speed else "no speed"


def _fec_lines(was: PortState, port: PortState) -> Iterator[str]:
    """All of them again: a line for one encoding may leave the line of another where it is."""
    if port.fec is None or port.fec == (was.fec or ""):
        return
    if was.fec != "":
        yield f"default {FEC_HEAD}"
    said = {word: line for line, word in FEC_LINES.items()}
    yield from (said[word] for word in port.fec.split())


def _mtu_lines(was: PortState, port: PortState) -> Iterator[str]:
    if port.mtu_bytes is None:
        return
    if is_default(port.native, "mtu_bytes"):
        if not is_default(was.native, "mtu_bytes"):
            yield "no l2 mtu"
    elif port.mtu_bytes != was.mtu_bytes:
        yield f"l2 mtu {port.mtu_bytes}"


def _switchport_lines(was: PortState, port: PortState) -> Iterator[str]:
    if port.mode is not None and port.mode != was.mode:
        if was.mode == "routed":
            yield "switchport"
        # A routed port that was made a switch port is in the mode that it was in before that.
        yield from (_MODES[mode] for mode in ("access", "trunk") if mode == port.mode)
    if port.access_vlan not in {None, was.access_vlan}:
        yield f"switchport access vlan {port.access_vlan}"
    if port.native_vlan not in {None, was.native_vlan}:
        yield _native_line(port.native_vlan or 0)
    yield from _allowed_lines(was, port)
    if port.mode == "routed" != was.mode:
        hidden = "access" if is_default(port.native, "mode") else "trunk"
        if hidden != was.mode:
            yield _MODES[hidden]
        yield "no switchport"


def _native_line(vlan: int) -> str:
    head = "switchport trunk native vlan"
    return f"no {head}" if vlan == FACTORY_VLAN else f"{head} {vlan or 'tag'}"


def _allowed_lines(was: PortState, port: PortState) -> Iterator[str]:
    """A new trunk gets exactly its list; one that was there keeps what it has."""
    if port.trunk_vlans is None or port.trunk_vlans == was.trunk_vlans:
        return
    head = "switchport trunk allowed vlan"
    if port.trunk_vlans == "all":
        yield f"{head} all"
        return
    held, wanted = {*list_vlans(was.trunk_vlans or ())}, {*port.trunk_vlans}
    if was.trunk_vlans in {"all", ()} or not held & wanted:
        yield f"{head} {collapse_vlans(wanted) or 'none'}"
        return
    if wanted - held:
        yield f"{head} add {collapse_vlans(wanted - held)}"
    if held - wanted:
        yield f"{head} remove {collapse_vlans(held - wanted)}"


def _trust_lines(was: PortState, port: PortState) -> Iterator[str]:
    """What is not written depends on whether the port is routed, so it is no match."""
    if port.trust is None:
        return
    implied = is_default(was.native, "trust")
    if is_default(port.native, "trust"):
        if not implied:
            yield "default qos trust"
    elif port.trust != was.trust or implied:
        yield _TRUST[port.trust]


def _pfc_lines(was: PortState, port: PortState) -> Iterator[str]:
    head = "priority-flow-control"
    held, wanted = {*(was.pfc_priorities or ())}, {*(port.pfc_priorities or ())}
    if port.pfc is not None and port.pfc != was.pfc:
        yield f"{head} on" if port.pfc else f"no {head}"
        if not port.pfc and port.pfc_priorities is not None:
            # Whether that line also clears the list is not documented, so the list is said again.
            held -= wanted
    if port.pfc_priorities is None:
        return
    for priority in sorted(held - wanted):
        yield f"no {head} priority {priority} no-drop"
    for priority in sorted(wanted - held):
        yield f"{head} priority {priority} no-drop"


def _watchdog_lines(was: PortState, port: PortState) -> Iterator[str]:
    if port.pfc_watchdog is None:
        return
    held, wanted = _recorded_watchdog(was), _watchdog_words(was, port)
    gone = [part for part in _WATCHDOG_PARTS if part in held and part not in wanted]
    for part in gone:
        yield f"no {_WATCHDOG}{_WATCHDOG_PARTS[part]}"
    # Whether such a line, or one that ends PFC, clears the others is not documented, so what stays
    # is said again.
    cleared = "enable" in gone or (was.pfc is True and port.pfc is False)
    for part, words in wanted.items():
        if cleared or held.get(part) != words:
            yield f"{_WATCHDOG}{_WATCHDOG_PARTS[part]} {words}".rstrip()


def _recorded_watchdog(port: PortState) -> dict[str, str]:
    """The lines that a port had, as `Section.watchdog`."""
    return read_fields(port.native.get("pfc_watchdog"))


def _watchdog_words(was: PortState, port: PortState) -> dict[str, str]:
    """The three lines as they shall be; a timer that is already set is kept."""
    held, found = _recorded_watchdog(was), _recorded_watchdog(port)
    if found:
        return {part: found[part] for part in _WATCHDOG_PARTS if part in found}
    if not port.pfc_watchdog:
        return {}
    if was.pfc_watchdog and port.pfc_watchdog_ms in {None, was.pfc_watchdog_ms}:
        return held
    timer = held.get("timer", WATCHDOG_TIMER)
    if port.pfc_watchdog_ms is not None:
        timer = watchdog_timer(*port.pfc_watchdog_ms)
    return {"enable": "", "timer": timer, "action": WATCHDOG_ACTION}


def _admin_lines(was: PortState, port: PortState) -> Iterator[str]:
    if port.admin_up not in {None, was.admin_up}:
        yield "no shutdown" if port.admin_up else "shutdown"


def _queue_lines(was: PortState, port: PortState) -> Iterator[str]:
    for queue in sorted({*port.ecn, *_moved(was, port), *port.class_shares}):
        lines = [*_ecn_lines(was, port, queue), *_schedule_lines(was, port, queue)]
        if lines:
            yield f"uc-tx-queue {queue}"
            yield from lines
            yield "exit"


def _moved(was: PortState, port: PortState) -> set[int]:
    """Queues whose schedule changes."""
    if port.strict_classes is None:
        return set()
    return {*port.strict_classes} ^ {*(was.strict_classes or ())}


def _ecn_lines(was: PortState, port: PortState, queue: int) -> Iterator[str]:
    if queue not in port.ecn or port.ecn[queue] == was.ecn.get(queue):
        return
    wanted = port.ecn[queue]
    if wanted is None:
        yield "no random-detect ecn minimum-threshold"
    else:
        yield f"random-detect ecn {render_ecn(wanted)}"


def render_ecn(ecn: EcnState) -> str:
    """The thresholds in the vendor's words; the unit is always said."""
    if ecn.native is not None:
        return ecn.native
    return (
        f"minimum-threshold {ecn.min_kib} kbytes maximum-threshold {ecn.max_kib} kbytes "
        f"max-mark-probability {ecn.percent} weight {ECN_WEIGHT}"
    )


def _schedule_lines(was: PortState, port: PortState, queue: int) -> Iterator[str]:
    if queue in _moved(was, port):
        yield "priority strict" if queue in (port.strict_classes or ()) else "no priority"
    share = port.class_shares.get(queue)
    if share not in {None, was.class_shares.get(queue, 0)}:
        yield f"bandwidth percent {share}" if share else "no bandwidth percent"
