"""A whole configuration of SONiC as one chain of bash that is right whatever the switch has: pure.

Rows can be written over whatever is there. What another state would leave beside them is refused or
taken away in front; WHY.md beside this file says where each form comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from components.fabric.state import PortState, SwitchState
from components.fabric.systems.base import Script, flatten
from components.fabric.systems.sonic.driver import CONFIG, SonicDriver
from components.fabric.systems.sonic.rows import (
    LIST_FIELD,
    LOSSLESS_PROFILE,
    OUR_NAME,
    Cells,
    Tables,
    by_row,
    document,
    fields_of,
    qos_row,
    settings_of,
    watchdog_row,
    write_settings,
)
from components.fabric.systems.sonic.write import plan_changes, vlan_members
from components.fabric.targets import target_of_apply, target_of_restore

_DB: Final = "sudo sonic-db-cli CONFIG_DB"
_TEMPLATE: Final = "AZURE"
"""Name of the rows that `config qos reload` writes on every platform (qos_config.j2)."""
_PAUSED: Final = (3, 4)
"""Priorities that the general template pauses; a platform's own template may have others."""


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
    return SwitchState(
        ports={
            name: PortState(
                native=write_settings(
                    {
                        "trust": {(qos_row(name), "dot1p_to_tc_map"): "unknown"},
                        "pfc": {(qos_row(name), "pfc_enable"): "unknown"},
                        "pfc_watchdog": {(watchdog_row(name), "action"): "unknown"},
                    }
                )
            )
            for name in desired.ports
        }
    )


_TESTS: Final = (
    (
        "any",
        "{db} KEYS 'PORT|Ethernet*' | grep -Ecx 'PORT\\|({names})' | grep -qx {count}",
        "a port of the file is not there",
    ),
    (
        "any",
        r"! {db} KEYS 'QUEUE|*' | grep -E '^QUEUE\|({names})\|[0-9]+-'",
        "these rows are one for several queues or ports - write one row for each",
    ),
    (
        "any",
        r"! {db} KEYS '*' | grep -E '^(QUEUE|PORT_QOS_MAP|BUFFER_PG)\|[^|]*,'",
        "these rows are one for several queues or ports - write one row for each",
    ),
    (
        "any",
        r"! {db} KEYS 'INTERFACE|*' | grep -E '^INTERFACE\|({names})(\||$)'",
        "these ports are routed - run sudo config interface ip remove for each",
    ),
    (
        "any",
        r"! {db} KEYS 'PORTCHANNEL_MEMBER|*' | grep -E '\|({names})$'",
        "these ports are in a bundle - take them out",
    ),
    (
        "lossless",
        "{db} HGET 'BUFFER_POOL|ingress_lossless_pool' type | grep -Eqx 'ingress|both'",
        "no ingress_lossless_pool - run sudo config qos reload once, save, and update again",
    ),
    (
        "lossless",
        "! {db} HGET 'DEVICE_METADATA|localhost' buffer_model | grep -qx dynamic",
        "the buffer model is dynamic - executor device can set that",
    ),
    (
        "watched",
        "{db} HGET 'FLEX_COUNTER_TABLE|PFCWD' FLEX_COUNTER_STATUS | grep -qx enable",
        "watchdogs are not polled - run sudo pfcwd counter_poll enable, save, update again",
    ),
    (
        "watched",
        "{db} HGET 'PFC_WD|GLOBAL' POLL_INTERVAL | grep -Eqx '(1..|200)?'",
        "watchdogs are polled less often than each 200 ms - executor device can follow that",
    ),
)
"""What no row of ours can mend: if which part is wanted, a test, and what its failure means."""


def prepare(desired: SwitchState) -> Sequence[str]:
    """Refuse, in the chain, what no line of ours can mend; then leave the VLANs of others."""
    parts = {"any", desired.roce or "lossy"}
    watched = any(port.pfc_watchdog for port in desired.ports.values())
    parts |= {"watched"} if watched and "lossless" in parts else set()
    words = {"db": _DB, "names": "|".join(desired.ports), "count": len(desired.ports)}
    tests = (
        Script(f'{{ {test.format(**words)} || {{ echo "Error: {why}"; false; }}; }}')
        for part, test, why in _TESTS
        if part in parts
    )
    return (*tests, *_leave_vlans(desired)) if desired.ports else ()


def _leave_vlans(desired: SwitchState) -> Iterator[Script]:
    """A port is in the VLANs of the file alone; the switch ignores another tagging of a member."""
    members = {
        f"VLAN_MEMBER|Vlan{vlan}|{name}": tagging
        for name, port in desired.ports.items()
        for vlan, tagging in vlan_members(port).items()
    }
    ours = "|".join(row.replace("|", "\\|") for row in members)
    yield Script(
        f"{_DB} KEYS 'VLAN_MEMBER|*' | grep -E '\\|({'|'.join(desired.ports)})$' |"
        f" grep -Evx '{ours}' | xargs -r -n 1 {_DB} DEL"
    )
    for row, tagging in members.items():
        other = "tagged" if tagging == "untagged" else "untagged"
        yield Script(
            f"{{ ! {_DB} HGET '{row}' tagging_mode | grep -qx {other} || {_DB} DEL '{row}'; }}"
        )


def back(desired: SwitchState) -> Sequence[str]:
    """Take away what `desired` has set, then put in what the platform's template gives.

    A switch without the template's rows, as its first boot may leave it, has no QoS afterwards.
    """
    bare = {"PORT": {key: {"admin_status": "up", "mtu": "9100"} for key in desired.ports}}
    set_up = _read({**bare, **_written(desired)}, desired)
    changes = plan_changes(set_up, target_of_restore(set_up, desired, _read(bare, desired), {}))
    lines = [_guarded(line) for line in flatten(changes)]
    cells = [each for name, port in desired.ports.items() for each in _template(name, port).items()]
    there = f"{_DB} HGET 'TC_TO_QUEUE_MAP|{_TEMPLATE}' 0 | grep -qx 0"
    merges = (Script(f"{{ ! {there} || {line}; }}") for line in document(by_row(cells)))
    return (*lines, *merges)


def _read(tables: Tables, desired: SwitchState) -> SwitchState:
    return SonicDriver().parse({CONFIG: json.dumps(tables)}, desired).state


def _written(desired: SwitchState) -> Tables:
    """The rows that an apply writes, and those that the switch makes of them.

    The template's group shares one with ours: when that goes, its buffer goes from the chip too.
    """
    tables: Tables = {}
    begin = start(desired)
    for line in flatten(plan_changes(begin, target_of_apply(begin, desired))):
        for table, rows in json.loads(line.split("'")[1]).items() if "cfggen" in line else ():
            for key, fields in rows.items():
                held = tables.setdefault(table, {})
                held[key] = {**held.get(key, {}), **fields}
    made = {"profile": LOSSLESS_PROFILE}
    for name, port in desired.ports.items():
        ours = port.lossless_buffers or ()
        spans = (*map(str, ours), *(["3-4"] if {*ours} & {*_PAUSED} else []))
        tables.setdefault("BUFFER_PG", {}).update({f"{name}|{span}": made for span in spans})
    return tables


def _guarded(line: str) -> str:
    """A VLAN or a row of ours that something else uses by now stays."""
    if line.startswith("sudo config vlan del "):
        name = f"Vlan{line.rpartition(' ')[2]}"
        there = f"{_DB} HGET 'VLAN|{name}' vlanid | grep -q ."
        used = f"{_DB} KEYS 'VLAN_*|{name}*' | grep -E '\\|{name}(\\||$)'"
        return Script(f"{{ ! {there} || {used} || {line}; }}")
    if line.startswith(f"{_DB} DEL ") and f"|{OUR_NAME}" in line:
        named = f"sudo sonic-cfggen -d --print-data | grep -F ': \"{OUR_NAME}'"
        return Script(f"{{ {named} || {line}; }}")
    return line


def _template(name: str, port: PortState) -> Cells:
    """What the general template has for the settings that are ours (qos_config.j2)."""
    cells: Cells = {}
    for setting in settings_of(port):
        _kind, _, number = setting.partition("_")
        paused = number.isdigit() and int(number) in _PAUSED
        values = {
            "pfc_enable": "3,4",
            LIST_FIELD: "3,4",
            "wred_profile": f"{_TEMPLATE}_LOSSLESS" if paused else "",
            # Queue 7 has no scheduler.
            "scheduler": "" if number == "7" else f"scheduler.{int(paused)}",
            "dot1p_to_tc_map": "",
        }
        listed = [(qos_row(name), LIST_FIELD)] if setting == "pfc_watchdog" else []
        for cell in (*fields_of(name, setting), *listed):
            cells[cell] = values.get(cell[1], _TEMPLATE)
    return {cell: value for cell, value in cells.items() if value}
