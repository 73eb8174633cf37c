"""From one routing of a SONiC switch to another: rows as they shall be, and the lines there.

The order is that of what depends on what: frrcfgd passes over a neighbour before there is a number,
and an address family before its neighbour; a port cannot be in a VLAN while it has an address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.fabric.state import BgpState, SwitchState
from components.fabric.systems.base import Change, Unsettable
from components.fabric.systems.sonic import lines as say
from components.fabric.systems.sonic.routing import (
    AF,
    FAMILY,
    GLOBALS,
    LINK_LOCAL,
    METADATA,
    MODE,
    NEIGHBOR,
    NEIGHBOR_AF,
    NETWORK,
    OUR_MAPS,
    POLICY,
    SHUTDOWN,
    USE_LINK_LOCAL,
    bgp_of_rows,
    rows_of,
)
from components.fabric.systems.sonic.rows import Fields, Rows

_PEER: Final = frozenset({"asn", "peer_type", "admin_status", "bfd"})
_PEER_FAMILY: Final = frozenset({"admin_status", *POLICY})
_KNOWN: Final[dict[str, frozenset[str]]] = {
    "BGP_GLOBALS": frozenset({"local_asn", "router_id"}),
    "BGP_GLOBALS_AF": frozenset({"max_ebgp_paths"}),
    "BGP_GLOBALS_AF_NETWORK": frozenset({"backdoor"}),
    "BGP_NEIGHBOR": _PEER,
    "BGP_NEIGHBOR_AF": _PEER_FAMILY,
}
"""The fields of BGP that we write."""
_STAGES: Final = (
    ("INTERFACE", "LOOPBACK_INTERFACE", "VLAN_INTERFACE"),
    ("ROUTE_MAP_SET", "ROUTE_MAP"),
    ("BGP_GLOBALS",),
    ("BGP_GLOBALS_AF", "BGP_GLOBALS_AF_NETWORK", "BGP_NEIGHBOR"),
    ("BGP_NEIGHBOR_AF",),
)
"""Tables in the order in which they come; they go the other way."""


def leaving_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """What goes, while ports are still routed.

    Raises:
        Unsettable: BGP cannot be set on this switch, or not without ending that of others.
    """
    held, aim = rows_of(actual), _aim(actual, target)
    restarts = _begins_again(actual, target)
    for stage in reversed(_STAGES):
        for row in sorted(_in_stage(held, stage), key=lambda row: -row.count("|")):
            if row not in aim or (restarts and row.startswith("BGP_")):
                yield Change((say.delete_row(row),))
                continue
            gone = sorted({*held[row]} - {*aim[row]})
            yield from (Change((say.delete_field(row, field),)) for field in gone)


def coming_changes(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """What comes, once ports are in no VLAN."""
    held, aim = rows_of(actual), _aim(actual, target)
    if _begins_again(actual, target):
        held = {row: fields for row, fields in held.items() if not row.startswith("BGP_")}
    for stage in _STAGES:
        new = {
            row: fields
            for row, fields in _in_stage(aim, stage).items()
            if _is_new(row, fields, held)
        }
        yield from (Change((line,)) for line in say.write_rows(new))


def _in_stage(rows: Rows, stage: tuple[str, ...]) -> Rows:
    return {row: fields for row, fields in rows.items() if row.partition("|")[0] in stage}


def _is_new(row: str, fields: Fields, held: Rows) -> bool:
    """A row whose last field is deleted vanishes, and is written again if it shall be there."""
    before = held.get(row)
    if before is None or not fields.items() <= before.items():
        return True
    return not fields and bool(before)


def _begins_again(actual: SwitchState, target: SwitchState) -> bool:
    """Another number: frrcfgd does not change it, so that all goes and comes again."""
    was, wanted = actual.bgp or BgpState(), target.bgp
    if wanted is None or wanted.asn is None:
        return False
    held = rows_of(actual)
    if held.get(METADATA, {}).get(MODE) != "true":
        raise Unsettable(
            f"BGP of this switch is not made of CONFIG_DB: {METADATA} has no {MODE}. Setting it "
            "takes a restart of BGP and replaces what the switch has of it, so we do not: write "
            f"there {MODE} true and docker_routing_config_mode unified, save, run `sudo systemctl "
            "restart bgp`, and run this again"
        )
    if was.asn in {None, wanted.asn}:
        return False
    odd = [row for row, fields in held.items() if not _is_known(row, fields)]
    if odd:
        raise Unsettable(
            f"the switch runs BGP {was.asn} with settings of others, such as {odd[0]}, and another "
            f"number would end them: write asn: {was.asn}, or remove them by hand"
        )
    return True


def _is_known(row: str, fields: Fields) -> bool:
    table = row.partition("|")[0]
    if row.startswith(("ROUTE_MAP|", "ROUTE_MAP_SET|")):
        return True  # only those of our name are read
    return not table.startswith(("BGP_", "ROUTE_")) or {*fields} - {SHUTDOWN} <= _KNOWN.get(
        table, frozenset()
    )


def _aim(actual: SwitchState, target: SwitchState) -> Rows:
    """The rows as they shall be: those of others, and what a target says of ours."""
    aim = {row: dict(fields) for row, fields in rows_of(actual).items()}
    before = rows_of(target)
    for name, wanted in (target.addresses or {}).items():
        _aim_interface(aim, before, name, wanted)
    if target.bgp is not None:
        _aim_bgp(aim, before, actual.bgp or BgpState(), target.bgp)
    return aim


def _table_of(name: str) -> str:
    if name.startswith("Vlan"):
        return "VLAN_INTERFACE"
    return "LOOPBACK_INTERFACE" if name.startswith("Loopback") else "INTERFACE"


def _aim_interface(aim: Rows, before: Rows, name: str, wanted: tuple[str, ...]) -> None:
    base = f"{_table_of(name)}|{name}"
    for row in [row for row in aim if row.startswith(f"{base}|")]:
        if row.rpartition("|")[2] not in wanted:
            del aim[row]
    for each in wanted:
        if each != LINK_LOCAL:
            aim.setdefault(f"{base}|{each}", before.get(f"{base}|{each}", {}))
    fields = {key: value for key, value in aim.get(base, {}).items() if key not in USE_LINK_LOCAL}
    fields |= USE_LINK_LOCAL if LINK_LOCAL in wanted else {}
    fields |= {key: value for key, value in before.get(base, {}).items() if key not in fields}
    _put(aim, base, fields, stays=bool(wanted) or base in before)


def _put(aim: Rows, row: str, fields: Fields, *, stays: bool) -> None:
    """A row with nothing of ours or of others in it goes."""
    if fields or stays:
        aim[row] = fields
    else:
        aim.pop(row, None)


def _aim_bgp(aim: Rows, before: Rows, was: BgpState, wanted: BgpState) -> None:
    recorded = bgp_of_rows(before)
    for name in {*was.neighbors} - {*wanted.neighbors}:
        aim.pop(f"{NEIGHBOR}{name}", None)
        row = f"{NEIGHBOR_AF}{name}|{FAMILY}"
        _put(aim, row, before.get(row, {}), stays=row in before)  # it may be there alone
    for name, number in wanted.neighbors.items():
        if _peer(was, name) != _peer(wanted, name):
            found = before if _peer(recorded, name) == _peer(wanted, name) else None
            _aim_peer(aim, name, found, number, bfd=name in wanted.bfd)
    for network in {*was.networks} - {*wanted.networks}:
        del aim[f"{NETWORK}{network}"]
    for network in wanted.networks:
        row = f"{NETWORK}{network}"
        aim.setdefault(row, before.get(row, {"backdoor": "false"}))
    if wanted.max_paths is not None:
        paths = {"max_ebgp_paths": str(wanted.max_paths)} if wanted.max_paths else {}
        _put(aim, AF, _without(aim, AF) | paths, stays=AF in before)
    said = (("local_asn", wanted.asn), ("router_id", wanted.router_id))
    ours = {key: str(value) for key, value in said if value is not None}
    others = {*wanted.neighbors, *wanted.networks} - {*recorded.neighbors, *recorded.networks}
    if wanted.asn is None and others:
        ours = aim.get(GLOBALS, {})  # others' sessions are in it by now
    _put(aim, GLOBALS, _without(aim, GLOBALS) | ours, stays=GLOBALS in before)
    _aim_maps(aim, before)


def _aim_maps(aim: Rows, before: Rows) -> None:
    """The route map is there as long as a neighbour names it; else there is what was before."""
    families = (fields for row, fields in aim.items() if row.startswith("BGP_NEIGHBOR_AF|"))
    named = any(fields.get(key) == name for fields in families for key, name in POLICY.items())
    for row in [row for row in aim if row.startswith(("ROUTE_MAP|", "ROUTE_MAP_SET|"))]:
        del aim[row]
    aim |= OUR_MAPS if named else {r: f for r, f in before.items() if r.startswith("ROUTE_MAP")}


def _peer(bgp: BgpState, name: str) -> tuple[str | None, bool]:
    return bgp.neighbors.get(name), name in bgp.bfd


def _without(aim: Rows, row: str, ours: frozenset[str] | None = None) -> Fields:
    """What others have in a row."""
    names = _KNOWN[row.partition("|")[0]] if ours is None else ours
    return {key: value for key, value in aim.get(row, {}).items() if key not in names}


def _aim_peer(aim: Rows, name: str, before: Rows | None, number: str, *, bfd: bool) -> None:
    who = {"asn": number} if number.isdigit() else {"peer_type": number}
    fields = {**who, "admin_status": "true", **({"bfd": "true"} if bfd else {})}
    family = {"admin_status": "true", **POLICY}
    rows = {f"{NEIGHBOR}{name}": fields, f"{NEIGHBOR_AF}{name}|{FAMILY}": family}
    for row, own in rows.items():
        known = _KNOWN[row.partition("|")[0]]
        found = {} if before is None else before.get(row, {})
        kept = own if before is None else {k: v for k, v in found.items() if k in known}
        _put(aim, row, _without(aim, row) | kept, stays=before is not None and row in before)
