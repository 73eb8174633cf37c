"""Routed interfaces and BGP of a SONiC switch, read from rows of CONFIG_DB.

BGP is made of BGP_GLOBALS, BGP_NEIGHBOR and their like by frrcfgd, the configuration daemon of the
unified management framework (SONiC's design "Unified FRR Mgmt Interface"; sonic-bgp-*.yang). The
other one, bgpcfgd, knows no sessions over ports and no BFD, and a switch has one of the two:
docs/explanation/sources.md#sonic.

frrcfgd leaves `bgp ebgp-requires-policy` on, as FRR has it by default: without a route map in each
direction a session comes up and carries no route (RFC 8212). So ours name one that permits all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from components.fabric.parts import write_text
from components.fabric.state import BgpState, SwitchState
from components.fabric.systems.base import Unsettable
from components.fabric.systems.sonic.rows import (
    OUR_NAME,
    Cell,
    Fields,
    Rows,
    Tables,
    read_rows,
)

LINK_LOCAL: Final = "link-local"
LOOPBACK: Final = "Loopback0"
MAX_PATHS: Final = 64
"""`max_ebgp_paths`, 1 to 256 (sonic-bgp-global.yang, whose default is 1)."""
WORDS: Final = "routing"
"""Key of a switch's `native`: the rows as they are."""
_INTERFACES: Final = ("INTERFACE", "LOOPBACK_INTERFACE", "VLAN_INTERFACE")
_BGP_TABLES: Final = ("BGP_", "ROUTE_REDISTRIBUTE")
_BUNDLED: Final = "PORTCHANNEL_MEMBER"
_MAPS: Final = ("ROUTE_MAP", "ROUTE_MAP_SET")
_SECRET: Final = frozenset({"auth_password"})
METADATA: Final = "DEVICE_METADATA|localhost"
MODE: Final = "frr_mgmt_framework_config"
GLOBALS: Final = "BGP_GLOBALS|default"
FAMILY: Final = "ipv4_unicast"
SHUTDOWN: Final = "graceful_shutdown"
"""A field of GLOBALS that no edit touches: it drains the switch while it changes."""
AF: Final = f"BGP_GLOBALS_AF|default|{FAMILY}"
NETWORK: Final = f"BGP_GLOBALS_AF_NETWORK|default|{FAMILY}|"
NEIGHBOR: Final = "BGP_NEIGHBOR|default|"
NEIGHBOR_AF: Final = "BGP_NEIGHBOR_AF|default|"
USE_LINK_LOCAL: Final[Fields] = {"ipv6_use_link_local_only": "enable"}
POLICY: Final[Fields] = {"route_map_in@": OUR_NAME, "route_map_out@": OUR_NAME}
"""Of a neighbour's address family; `@` is how Redis has a list."""
OUR_MAPS: Final[Rows] = {
    f"ROUTE_MAP_SET|{OUR_NAME}": {},
    f"ROUTE_MAP|{OUR_NAME}|10": {"route_operation": "permit"},
}
"""The route map that permits all; the set is what the YANG model's references lead to."""
_ON: Final = frozenset({"true", "up"})
RELEASE: Final = "release"
"""Key of a switch's `native`: the branch that it runs, if it was asked."""
UP_SINCE: Final = 202505
"""First branch whose frrcfgd takes `up`, the only word in SONiC's YANG (sonic-buildimage, change
21697); an older one takes `true` alone (its issue 18865)."""
NO_UP: Final = (
    "`config apply-patch`, `config replace`, `config rollback` and `config interface breakout` are "
    "refused as long as our sessions are there"
)
"""What fails for an operator because of `true`, which is in no YANG of SONiC's."""


def release_words(branch: int) -> dict[str, str]:
    """The branch as `SwitchState.native` holds it."""
    return {RELEASE: str(branch)}


def routing_words(tables: Tables) -> dict[str, str]:
    """The rows as `SwitchState.native` holds them, without what is secret in them."""
    rows = {
        f"{table}|{key}": {name: fields[name] for name in fields if name not in _SECRET}
        for table in tables
        if table in (*_INTERFACES, *_MAPS, _BUNDLED) or table.startswith(_BGP_TABLES)
        for key, fields in tables[table].items()
        if table not in _MAPS or key.partition("|")[0] == OUR_NAME
    }
    mode = tables.get("DEVICE_METADATA", {}).get("localhost", {}).get(MODE)
    rows |= {} if mode is None else {METADATA: {MODE: mode}}
    return {WORDS: write_text(rows)}


def factory_words() -> dict[str, str]:
    """Of a switch whose BGP is made by frrcfgd, and has none."""
    return {WORDS: write_text({METADATA: {MODE: "true"}})}


def rows_of(state: SwitchState) -> Rows:
    """The rows that a state keeps."""
    return read_rows(state, WORDS) or {}


def bgp_of_rows(rows: Rows) -> BgpState:
    """The BGP that some rows make."""
    tables: dict[str, dict[str, Fields]] = {}
    for row, fields in rows.items():
        table, _, key = row.partition("|")
        tables.setdefault(table, {})[key] = fields
    return bgp_of(tables)


def addresses_of(tables: Tables) -> dict[str, tuple[str, ...]]:
    """Routed interface to what it has."""
    found: dict[str, list[str]] = {}
    for table in _INTERFACES:
        for key, fields in tables.get(table, {}).items():
            name, _, address = key.partition("|")
            held = found.setdefault(name, [])
            if address:
                held.append(address)
            elif USE_LINK_LOCAL.items() <= fields.items():
                held.append(LINK_LOCAL)
    return {name: tuple(held) for name, held in found.items()}


def held_interfaces(state: SwitchState) -> Iterator[tuple[str, str]]:
    """Ports that are routed or in a bundle, and the commands that free them, in their order."""
    rows = rows_of(state)
    for row, fields in rows.items():
        table, name, *rest = row.split("|")
        if table == "INTERFACE" and rest:
            yield name, f"sudo config interface ip remove {name} {rest[0]}"
        elif table == "INTERFACE" and USE_LINK_LOCAL.items() <= fields.items():
            yield name, f"sudo config interface ipv6 disable use-link-local-only {name}"
        elif table == "INTERFACE" and not any(each.startswith(f"{row}|") for each in rows):
            yield name, f"sudo sonic-db-cli CONFIG_DB DEL '{row}'"
        elif table == _BUNDLED:
            yield rest[0], f"sudo config portchannel member del {name} {rest[0]}"


def bgp_of(tables: Tables) -> BgpState:
    """BGP of the default VRF."""
    own = tables.get("BGP_GLOBALS", {}).get("default", {})
    family = tables.get("BGP_GLOBALS_AF", {}).get(f"default|{FAMILY}", {})
    peers = {
        name: fields
        for key, fields in tables.get("BGP_NEIGHBOR", {}).items()
        for vrf, _, name in [key.partition("|")]
        if vrf == "default" and name
    }
    asn, paths = own.get("local_asn", ""), family.get("max_ebgp_paths", "")
    networks = (
        key.removeprefix(f"default|{FAMILY}|") for key in tables.get("BGP_GLOBALS_AF_NETWORK", {})
    )
    return BgpState(
        asn=int(asn) if asn.isdigit() else None,
        router_id=own.get("router_id"),
        neighbors={name: _number_of(tables, name, fields) for name, fields in peers.items()},
        networks=tuple(each for each in networks if "|" not in each),
        bfd=tuple(name for name, fields in peers.items() if fields.get("bfd") in _ON),
        max_paths=int(paths) if paths.isdigit() else None,
    )


def _number_of(tables: Tables, name: str, fields: Fields) -> str:
    """Its number or kind; empty where it is shut, or carries no route of IPv4."""
    family = tables.get("BGP_NEIGHBOR_AF", {}).get(f"default|{name}|{FAMILY}", {})
    works = family.get("admin_status") in _ON and fields.get("admin_status", "true") in _ON
    carries = POLICY.items() <= family.items() and _our_maps(tables) == OUR_MAPS
    return fields.get("asn", fields.get("peer_type", "")) if works and carries else ""


def _our_maps(tables: Tables) -> Rows:
    return {
        f"{table}|{key}": fields
        for table in _MAPS
        for key, fields in tables.get(table, {}).items()
        if key.partition("|")[0] == OUR_NAME
    }


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
    (*_INTERFACES, *_MAPS, "BGP_GLOBALS"),
    ("BGP_GLOBALS_AF", "BGP_GLOBALS_AF_NETWORK", "BGP_NEIGHBOR"),
    ("BGP_NEIGHBOR_AF",),
)
"""Tables in the order in which they come; they go the other way."""


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """What changes in the rows of routing."""

    goes: tuple[tuple[str, ...], ...]
    """Rows that are deleted, stage by stage."""
    strips: tuple[Cell, ...]
    """Fields that are deleted, beside those of others in the same row."""
    comes: tuple[Rows, ...]
    """Rows that are written, stage by stage."""


def plan_routing(actual: SwitchState, target: SwitchState) -> RoutedRows:
    """The way from what a switch has to what it shall have.

    Raises:
        Unsettable: BGP cannot be set on this switch, or not without ending that of others.
    """
    held, aim = rows_of(actual), _aim(actual, target)
    restarts = _begins_again(actual, target)
    gone = {row for row in held if row not in aim or (restarts and row.startswith("BGP_"))}
    left = {row: fields for row, fields in held.items() if row not in gone}
    return RoutedRows(
        goes=tuple(
            tuple(sorted(_in_stage(held, stage).keys() & gone, key=_inner_first))
            for stage in reversed(_STAGES)
        ),
        strips=tuple((r, f) for r, fields in left.items() for f in sorted({*fields} - {*aim[r]})),
        comes=tuple(
            {r: fields for r, fields in _in_stage(aim, stage).items() if _is_new(r, fields, left)}
            for stage in _STAGES
        ),
    )


def _inner_first(row: str) -> tuple[int, str]:
    return -row.count("|"), row


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
        up = "up" if int(actual.native.get(RELEASE, "0")) >= UP_SINCE else "true"
        _aim_bgp(aim, before, (actual.bgp or BgpState(), target.bgp), up)
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


def _aim_bgp(aim: Rows, before: Rows, way: tuple[BgpState, BgpState], up: str) -> None:
    was, wanted = way
    recorded = bgp_of_rows(before)
    for name in {*was.neighbors} - {*wanted.neighbors}:
        aim.pop(f"{NEIGHBOR}{name}", None)
        row = f"{NEIGHBOR_AF}{name}|{FAMILY}"
        _put(aim, row, before.get(row, {}), stays=row in before)  # it may be there alone
    for name, number in wanted.neighbors.items():
        if _peer(was, name) != _peer(wanted, name):
            found = before if _peer(recorded, name) == _peer(wanted, name) else None
            _aim_peer(aim, found, _own_rows(name, number, up, bfd=name in wanted.bfd))
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


def _own_rows(name: str, number: str, up: str, *, bfd: bool) -> Rows:
    who = {"asn": number} if number.isdigit() else {"peer_type": number}
    return {
        f"{NEIGHBOR}{name}": {**who, "admin_status": up, **({"bfd": "true"} if bfd else {})},
        f"{NEIGHBOR_AF}{name}|{FAMILY}": {"admin_status": up, **POLICY},
    }


def _aim_peer(aim: Rows, before: Rows | None, rows: Rows) -> None:
    for row, own in rows.items():
        known = _KNOWN[row.partition("|")[0]]
        found = {} if before is None else before.get(row, {})
        kept = own if before is None else {k: v for k, v in found.items() if k in known}
        _put(aim, row, _without(aim, row) | kept, stays=before is not None and row in before)
