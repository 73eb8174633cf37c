"""A whole configuration of SONiC as one chain of bash that is right whatever the switch has: pure.

Most lines of the driver can be sent twice. The few that cannot ask the switch first, in the chain
itself; WHY.md beside this file says where each form comes from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from components.fabric.state import PortState, SwitchState, list_vlans
from components.fabric.systems.base import Script
from components.fabric.systems.sonic import lines as say
from components.fabric.systems.sonic import write as sonic_actions
from components.fabric.systems.sonic.driver import SonicDriver
from components.fabric.systems.sonic.facts import LOSSLESS_POOL, LOSSLESS_PROFILE, OUR_NAME
from components.fabric.systems.sonic.rows import (
    BUFFER_FIELDS,
    Cell,
    Cells,
    Rows,
    group_row,
    mode_cell,
    named_rows,
    our_rows,
    qos_row,
    queue_row,
    settings_of,
    wanted_cells,
    write_rows,
    write_settings,
)
from components.fabric.systems.sonic.watchdog import LIST_FIELD, wanted_watchdog, watchdog_row
from components.fabric.targets import target_of_restore

ENTER: Final = (
    *SonicDriver.enter,
    *(Script(f"{{ {line}; }}") for line in SonicDriver.configure),
)
_DB: Final = "sudo sonic-db-cli CONFIG_DB"
_TEMPLATE: Final = "AZURE"
"""Name of the rows that `config qos reload` writes on every platform (qos_config.j2)."""
_TEMPLATE_PAUSED: Final = (3, 4)
"""Priorities that the general template pauses; a platform's own template may have others."""
_TEMPLATE_QUEUES: Final = range(7)
"""Queues that the general template gives a scheduler."""
_FORBIDS: Final = {"access": "routed", "trunk": "routed|access"}
"""The recorded modes in which a port cannot become member as it shall (config/vlan.py)."""


def find_missing(desired: SwitchState) -> str | None:
    """What of a desired state a chain cannot give back, and why; None: nothing."""
    if desired.bgp is not None:
        return "it cannot tell its addresses and BGP from those of others, which it would take away"
    if any(port.speed for port in desired.ports.values()):
        return "it cannot restore the speed of a port, since each platform has its own"
    if all(port.cable_m is None for port in desired.ports.values()):
        return None
    return (
        "it cannot restore the length of a cable, since each platform's template has "
        "lengths of its own"
    )


def start(desired: SwitchState) -> SwitchState:
    """What an unknown switch is taken to have: every port has what must be taken away."""
    ports = {
        name: PortState(
            native=write_settings(
                {
                    "mode": {mode_cell(name): "routed"},
                    "trust": {(qos_row(name), "dot1p_to_tc_map"): "unknown"},
                    "pfc_watchdog": {(watchdog_row(name), "action"): "unknown"},
                }
            )
        )
        for name in desired.ports
    }
    return SwitchState(ports=ports)


def prepare(desired: SwitchState) -> Sequence[str]:
    """Refuse, in the chain, what no line of ours can mend; then leave the VLANs of others."""
    return (*_guards(desired), *_leave_vlans(desired)) if desired.ports else ()


def _guards(desired: SwitchState) -> Iterator[Script]:
    names = "|".join(desired.ports)
    yield _unless(
        f"{_DB} KEYS 'PORT|Ethernet*' | grep -Ecx 'PORT\\|({names})' |"
        f" grep -qx {len(desired.ports)}",
        "a port of the file is not there",
    )
    joined = "^(QUEUE|PORT_QOS_MAP|BUFFER_PG)\\|[^|]*,"
    yield _unless(
        f"! {_DB} KEYS '*' | grep -E '^QUEUE\\|({names})\\|[0-9]+-|{joined}'",
        "these rows are one for several queues or ports - write one row for each",
    )
    if desired.roce != "lossless":
        return
    yield _unless(
        f"{_DB} HGET 'BUFFER_POOL|{LOSSLESS_POOL}' type | grep -Eqx 'ingress|both'",
        f"no {LOSSLESS_POOL} - run sudo config qos reload once, save, and update again",
    )
    yield _unless(
        f"! {_DB} HGET 'DEVICE_METADATA|localhost' buffer_model | grep -qx dynamic",
        "the buffer model is dynamic - executor device can set that",
    )
    if any(port.pfc_watchdog for port in desired.ports.values()):
        yield from _watchdog_guards()


def _watchdog_guards() -> Iterator[Script]:
    """Settings of all ports, which are not ours: without the one it is blind, or too slow."""
    yield _unless(
        f"{_DB} HGET 'FLEX_COUNTER_TABLE|PFCWD' FLEX_COUNTER_STATUS | grep -qx enable",
        "watchdogs are not polled - run sudo pfcwd counter_poll enable once, save, and update"
        " again",
    )
    yield _unless(
        f"{_DB} HGET 'PFC_WD|GLOBAL' POLL_INTERVAL | grep -Eqx '(1..|200)?'",
        "watchdogs are polled less often than each 200 ms - executor device can follow that",
    )


def _unless(test: str, why: str) -> Script:
    return Script(f'{{ {test} || {{ echo "Error: {why}"; false; }}; }}')


def _leave_vlans(desired: SwitchState) -> Iterator[Script]:
    """A port of the file is in the VLANs of the file, and in no others."""
    held: dict[int, list[str]] = {}
    for name, port in desired.ports.items():
        for vlan in (port.access_vlan, *list_vlans(port.trunk_vlans or ())):
            if vlan is not None:
                held.setdefault(vlan, []).append(name)
    ours = "|".join(f"Vlan{vlan}\\|({'|'.join(names)})" for vlan, names in sorted(held.items()))
    yield Script(
        f"{_DB} KEYS 'VLAN_MEMBER|*' | grep -E '\\|({'|'.join(desired.ports)})$' |"
        f" grep -Evx 'VLAN_MEMBER\\|({ours})' | xargs -r -n 1 {_DB} DEL"
    )


def _has(row: str, field: str, pattern: str, flags: str = "-qx") -> str:
    return f"{_DB} HGET '{row}' {field} | grep {flags} '{pattern}'"


def _add_vlan(line: str, vlan: str) -> str:
    return f"{{ {_has(f'VLAN|Vlan{vlan}', 'vlanid', vlan)} || {line}; }}"


def _add_member(line: str, untagged: str | None, vlan: str, port: str) -> str:
    """Another tagging goes first: the switch ignores a change of a member that is there."""
    row, mode = f"VLAN_MEMBER|Vlan{vlan}|{port}", "untagged" if untagged else "tagged"
    return f"{{ {_has(row, 'tagging_mode', mode)} || {{ {say.delete_row(row)} && {line}; }}; }}"


def _set_switchport(line: str, mode: str, port: str) -> str:
    return f"{{ ! {_has(f'PORT|{port}', 'mode', _FORBIDS[mode], '-Eqx')} || {line}; }}"


def _delete_member(line: str, vlan: str, port: str) -> str:
    row = f"VLAN_MEMBER|Vlan{vlan}|{port}"
    return f"{{ ! {_has(row, 'tagging_mode', 'tagged', '-q')} || {line}; }}"


def _delete_vlan(line: str, vlan: str) -> str:
    """One that ports of others, or an interface, use by now stays."""
    there = _has(f"VLAN|Vlan{vlan}", "vlanid", vlan)
    used = f"{_DB} KEYS 'VLAN_*|Vlan{vlan}*' | grep -E '\\|Vlan{vlan}(\\||$)'"
    return f"{{ ! {there} || {used} || {line}; }}"


def _delete_our_row(line: str, name: str) -> str:
    """It stays while anything names a row of ours: then a port of others does."""
    return f"{{ sudo sonic-cfggen -d --print-data | grep -F ': \"{name}\"' || {line}; }}"


_PATTERNS: Final[tuple[tuple[re.Pattern[str], Callable[..., str]], ...]] = (
    (re.compile(r"sudo config vlan add (\d+)"), _add_vlan),
    (re.compile(r"sudo config vlan member add (-u )?(\d+) (\w+)"), _add_member),
    (re.compile(r"sudo config vlan member del (\d+) (\w+)"), _delete_member),
    (re.compile(r"sudo config switchport mode (\w+) (\w+)"), _set_switchport),
    (re.compile(r"sudo config vlan del (\d+)"), _delete_vlan),
    (re.compile(rf"{_DB} DEL '\w+\|({OUR_NAME}(?:_\d+)?)'"), _delete_our_row),
)


def again(line: str) -> str:
    """A line of the driver so that it can be sent whatever is there."""
    for pattern, form in _PATTERNS:
        found = pattern.fullmatch(line)
        if found is not None:
            return Script(form(line, *found.groups()))
    return line


def back(desired: SwitchState) -> Sequence[str]:
    """Take away what `desired` has set, then put in what the platform's template gives.

    A switch without the template's rows, as its first boot may leave it, has no QoS afterwards.
    """
    applied = _applied(desired)
    changes = sonic_actions.plan_changes(
        applied, target_of_restore(applied, desired, _bare(desired), {})
    )
    lines = [again(line) for change in changes for line in change.lines]
    merges = [
        line
        for name, port in desired.ports.items()
        for line in say.write_cells(sorted(_template_cells(name, port).items()))
    ]
    if not merges:
        return _joined(lines)
    there = _has(f"TC_TO_QUEUE_MAP|{_TEMPLATE}", "0", "0")
    return (*_joined(lines), Script(f"{{ ! {there} || {{ {' && '.join(merges)}; }}; }}"))


def _joined(lines: Sequence[str]) -> tuple[str, ...]:
    """Fields of one row that go one after the other go in one line."""
    joined: list[str] = []
    for line in lines:
        row = joined[-1].partition("' ")[0] + "' " if joined else ""
        if row.startswith(f"{_DB} HDEL ") and line.startswith(row):
            joined[-1] += f" {line.removeprefix(row)}"
        else:
            joined.append(line)
    return tuple(joined)


def _applied(desired: SwitchState) -> SwitchState:
    """The desired state with the cells and rows that an apply has left."""
    ports: dict[str, PortState] = {}
    rows: Rows = {}
    for name, port in desired.ports.items():
        cells = {setting: _cells_of(name, port, setting) for setting in settings_of(port)}
        named = {row for each in cells.values() for row in named_rows(each.items())}
        rows |= {row: our_rows(port)[row] for row in sorted(named)}
        if port.lossless_buffers:
            cells["buffers"] |= _groups(name, port.lossless_buffers)
        ports[name] = port.model_copy(update={"native": write_settings(cells)})
    return desired.model_copy(update={"ports": ports, "native": write_rows(rows)})


def _cells_of(name: str, port: PortState, setting: str) -> Cells:
    if setting == "pfc_watchdog":
        times = port.pfc_watchdog_ms
        return wanted_watchdog(name, {}, port.pfc_priorities or (), times_ms=times)
    return {} if setting == "cable" else wanted_cells(name, port, setting)


def _groups(name: str, priorities: Sequence[int]) -> Cells:
    """The groups that the switch made for our list, and the template's that shares one of them.

    A row that goes takes the buffer of the other from the chip, so that one is made again.
    """
    low, high = _TEMPLATE_PAUSED
    shared = [f"BUFFER_PG|{name}|{low}-{high}"] if {*priorities} & {low, high} else []
    rows = [*(group_row(name, priority) for priority in priorities), *shared]
    return {(row, "profile"): LOSSLESS_PROFILE for row in rows}


def _bare(desired: SwitchState) -> SwitchState:
    """The driver's factory, with no cell of any setting that is ours."""
    factory = SonicDriver().factory_state(tuple(desired.ports))
    ports: dict[str, PortState] = {}
    for name, port in factory.ports.items():
        native = write_settings({setting: {} for setting in settings_of(desired.ports[name])})
        ports[name] = port.model_copy(update={"native": native})
    return factory.model_copy(update={"ports": ports})


def _template_cells(name: str, port: PortState) -> Cells:
    """What the general template has for the settings that are ours (qos_config.j2)."""
    cells: Cells = {}
    for setting in settings_of(port):
        if setting == "cable":
            continue  # refused before
        kind, _, number = setting.partition("_")
        if setting == "pfc_watchdog":
            cells[qos_row(name), LIST_FIELD] = ",".join(map(str, _TEMPLATE_PAUSED))
        elif kind == "trust":
            cells |= _named(name, ("dscp_to_tc_map", "tc_to_queue_map"))
        elif kind == "buffers":
            cells |= _named(name, BUFFER_FIELDS)
        elif kind == "pfc":
            cells[qos_row(name), "pfc_enable"] = ",".join(map(str, _TEMPLATE_PAUSED))
        else:
            cells |= _template_queue(name, kind, int(number))
    return cells


def _named(name: str, fields: Sequence[str]) -> Cells:
    return {(qos_row(name), field): _TEMPLATE for field in fields}


def _template_queue(name: str, kind: str, queue: int) -> Cells:
    paused = queue in _TEMPLATE_PAUSED
    field = "wred_profile" if kind == "ecn" else "scheduler"
    cell: Cell = (queue_row(name, queue), field)
    if kind == "ecn":
        return {cell: f"{_TEMPLATE}_LOSSLESS"} if paused else {}
    return {cell: "scheduler.1" if paused else "scheduler.0"} if queue in _TEMPLATE_QUEUES else {}
