"""Routed interfaces and BGP of a SONiC switch, read from rows of CONFIG_DB.

BGP is made of BGP_GLOBALS, BGP_NEIGHBOR and their like by frrcfgd, the configuration daemon of the
unified management framework (SONiC's design "Unified FRR Mgmt Interface"; sonic-bgp-*.yang). The
other one, bgpcfgd, supports neither sessions over ports nor BFD, and a switch has one of the two:
lab/sources.md#sonic.

frrcfgd leaves `bgp ebgp-requires-policy` on, as FRR has it by default: without a route map in each
direction a session comes up and carries no route (RFC 8212). So our sessions name one that permits
all.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Final

from components.core.templates import fault_text
from components.fabric.state import BgpState, SwitchState
from components.fabric.systems.base import Unsettable
from components.fabric.systems.sonic import rows as db
from components.fabric.systems.sonic.rows import Cell, Fields, Rows, Tables

LINK_LOCAL: Final = "link-local"
WORDS: Final = "routing"  # key of a switch's `native`: the rows as they are
RELEASE: Final = "release"  # key of a switch's `native`: the branch that it runs, if it was asked
UP_SINCE: Final = 202505
"""First branch whose frrcfgd takes `up`, the only word in SONiC's YANG (sonic-buildimage, change
21697); an older one takes `true` alone (its issue 18865)."""
METADATA: Final = "DEVICE_METADATA|localhost"
MODE: Final = "frr_mgmt_framework_config"
GLOBALS: Final = "BGP_GLOBALS|default"
SHUTDOWN: Final = "graceful_shutdown"
"""A field of GLOBALS that no edit touches: it drains the switch while it changes."""
_FAMILY: Final = "ipv4_unicast"
_AF: Final = f"BGP_GLOBALS_AF|default|{_FAMILY}"
_NETWORK: Final = f"BGP_GLOBALS_AF_NETWORK|default|{_FAMILY}|"
_NEIGHBOR: Final = "BGP_NEIGHBOR|default|"
_NEIGHBOR_AF: Final = "BGP_NEIGHBOR_AF|default|{}|" + _FAMILY
_USE_LINK_LOCAL: Final[Fields] = {"ipv6_use_link_local_only": "enable"}
_POLICY: Final[Fields] = {"route_map_in@": db.OUR_NAME, "route_map_out@": db.OUR_NAME}
"""Fields of a neighbour's address family; `@` marks a list in Redis."""
_SET: Final = f"ROUTE_MAP_SET|{db.OUR_NAME}"
"""The YANG model's references need it; frrcfgd does not read it."""
_OUR_MAPS: Final[Rows] = {_SET: {}, f"ROUTE_MAP|{db.OUR_NAME}|10": {"route_operation": "permit"}}
"""The route map that permits all."""
_ON: Final = frozenset({"true", "up"})
_INTERFACES: Final = ("INTERFACE", "LOOPBACK_INTERFACE", "VLAN_INTERFACE")
_MAPS: Final = ("ROUTE_MAP", "ROUTE_MAP_SET")
_BUNDLED: Final = "PORTCHANNEL_MEMBER"
_SECRET: Final = frozenset({"auth_password"})
_HIDDEN: Final = "rows with a password"
"""A field that no switch has: the names of rows whose secrets are left out."""
_STAGES: Final = (
    ("ROUTE_MAP_SET",),
    (*_INTERFACES, "ROUTE_MAP", "BGP_GLOBALS"),
    ("BGP_GLOBALS_AF", "BGP_GLOBALS_AF_NETWORK", "BGP_NEIGHBOR"),
    ("BGP_NEIGHBOR_AF",),
)
"""Tables in the order of writing; they are deleted in reverse, the first one at the end of all."""
_KNOWN: Final[dict[str, frozenset[str]]] = {
    "BGP_GLOBALS": frozenset({"local_asn", "router_id"}),
    "BGP_GLOBALS_AF": frozenset({"max_ebgp_paths"}),
    "BGP_GLOBALS_AF_NETWORK": frozenset({"backdoor"}),
    "BGP_NEIGHBOR": frozenset({"asn", "peer_type", "admin_status", "bfd"}),
    "BGP_NEIGHBOR_AF": frozenset({"admin_status", *_POLICY}),
    **dict.fromkeys(_INTERFACES, frozenset(_USE_LINK_LOCAL)),
}
_Entries = dict[str, tuple[tuple[str, bool], Rows]]
"""Each neighbour and network: its kind, and its rows as we write them."""


def routing_rows(tables: Tables) -> Rows:
    """The rows of routing without their secrets; of route maps, only our own."""
    rows = {
        f"{table}|{key}": {name: fields[name] for name in fields if name not in _SECRET}
        for table in tables
        if table in (*_INTERFACES, *_MAPS, _BUNDLED)
        or table.startswith(("BGP_", "ROUTE_REDISTRIBUTE"))
        for key, fields in tables[table].items()
        if table not in _MAPS or key.partition("|")[0] == db.OUR_NAME
    }
    mode = tables.get("DEVICE_METADATA", {}).get("localhost", {}).get(MODE)
    if mode is None:
        return rows
    of_bgp = ((name, row) for name in tables if name.startswith("BGP_") for row in tables[name])
    hidden = [f"{name}|{row}" for name, row in of_bgp if _SECRET & {*tables[name][row]}]
    return {**rows, METADATA: {MODE: mode, **({_HIDDEN: " ".join(hidden)} if hidden else {})}}


def _rows_of(state: SwitchState) -> Rows:
    return db.read_rows(state, WORDS) or {}


def addresses_of(rows: Rows) -> dict[str, tuple[str, ...]]:
    """Routed interface to its addresses."""
    found: dict[str, tuple[str, ...]] = {}
    for row, fields in rows.items():
        table, name, *rest = row.split("|")
        linked = not rest and _USE_LINK_LOCAL.items() <= fields.items()
        if table in _INTERFACES:
            found[name] = (*found.get(name, ()), *rest, *((LINK_LOCAL,) if linked else ()))
    return found


def held_interfaces(state: SwitchState) -> Iterator[tuple[str, str]]:
    """Routed and bundled ports, and the commands that free them, in their order."""
    rows = _rows_of(state)
    for row, fields in rows.items():
        table, name, *rest = row.split("|")
        if table == "INTERFACE" and rest:
            yield name, f"sudo config interface ip remove {name} {quote('|'.join(rest))}"
        elif table == "INTERFACE" and _USE_LINK_LOCAL.items() <= fields.items():
            yield name, f"sudo config interface ipv6 disable use-link-local-only {name}"
        elif table == "INTERFACE" and not any(each.startswith(f"{row}|") for each in rows):
            yield name, f"sudo sonic-db-cli CONFIG_DB DEL {quote(row)}"
        elif table == _BUNDLED and rest:
            yield rest[0], f"sudo config portchannel member del {quote(name)} {rest[0]}"


def bgp_of(rows: Rows) -> BgpState:
    """BGP of the default VRF; a neighbour that is shut or carries no IPv4 has a blank number."""
    own, paths = rows.get(GLOBALS, {}), rows.get(_AF, {}).get("max_ebgp_paths", "")
    named = {row.removeprefix(_NEIGHBOR): row for row in rows if row.startswith(_NEIGHBOR)}
    carries = {row: fields for row, fields in rows.items() if row.startswith(_MAPS)} == _OUR_MAPS
    numbers = dict.fromkeys(named, "")
    for name, row in named.items():
        fields, family = rows[row], rows.get(_NEIGHBOR_AF.format(name), {})
        works = family.get("admin_status") in _ON and fields.get("admin_status", "true") in _ON
        if works and carries and _POLICY.items() <= family.items():
            numbers[name] = fields.get("asn", fields.get("peer_type", ""))
    networks = (row.removeprefix(_NETWORK) for row in rows if row.startswith(_NETWORK))
    asn = own.get("local_asn", "")
    return BgpState(
        asn=int(asn) if asn.isdigit() else None,
        router_id=own.get("router_id"),
        neighbors=numbers,
        networks=tuple(each for each in networks if "|" not in each),
        bfd=tuple(name for name, row in named.items() if rows[row].get("bfd") in _ON),
        max_paths=int(paths) if paths.isdigit() else None,
    )


def plan_routing(
    actual: SwitchState, target: SwitchState
) -> tuple[list[list[str]], list[Cell], list[Rows]]:
    """The changes from the actual routing to its target: rows to delete, fields, rows to write.

    Rows have a list for each stage; fields go from rows with foreign fields. A row whose last field
    is deleted vanishes, and is written again if the target has it. Unsettable: BGP cannot be set on
    this switch, or only by ending foreign sessions.
    """
    held, aim = _rows_of(actual), _aim(actual, target)
    restarts = _begins_again(actual, target)
    gone = {row for row in held if row not in aim or (restarts and row.startswith("BGP_"))}
    left = {row: fields for row, fields in held.items() if row not in gone}
    new = {
        row: fields
        for row, fields in aim.items()
        if row not in left or not fields.items() <= left[row].items() or (left[row] and not fields)
    }
    return (
        [
            sorted(
                (row for row in gone if row.partition("|")[0] in stage),
                key=lambda row: (-row.count("|"), row),
            )
            for stage in reversed(_STAGES)
        ],
        [(r, f) for r, fields in left.items() for f in sorted({*fields} - {*aim[r]})],
        [{r: each for r, each in new.items() if r.partition("|")[0] in st} for st in _STAGES],
    )


def _begins_again(actual: SwitchState, target: SwitchState) -> bool:
    """Whether the AS number changes: frrcfgd cannot do that, so BGP is deleted and made again."""
    was, wanted, held = actual.bgp or BgpState(), target.bgp, _rows_of(actual)
    if wanted is None or wanted.asn is None:
        return False
    if held.get(METADATA, {}).get(MODE) != "true":
        raise Unsettable(fault_text(__file__, "other-daemon", row=METADATA, mode=MODE))
    if was.asn in {None, wanted.asn}:
        return False
    tables = {row: row.partition("|")[0] for row in held}  # of route maps only ours are read
    odd = [
        row
        for row, table in tables.items()
        if table not in _MAPS and table.startswith(("BGP_", "ROUTE_"))
        if {*held[row]} - {SHUTDOWN} - _KNOWN.get(table, frozenset())
    ]
    if odd := (*odd, *held[METADATA].get(_HIDDEN, "").split()):
        raise Unsettable(fault_text(__file__, "foreign-bgp", was=was, row=odd[0]))
    return True


def _aim(actual: SwitchState, target: SwitchState) -> Rows:
    """The target rows of a switch: foreign ones, and our own as the target wants them."""
    before = _rows_of(target)
    aim = _with_lost(_rows_of(actual), {} if target.bgp is None else before)
    for name, entries in (target.addresses or {}).items():
        _aim_interface(aim, before, name, entries)
    if target.bgp is not None:
        up = "up" if int(actual.native.get(RELEASE, "0")) >= UP_SINCE else "true"
        wanted, recorded = target.bgp, bgp_of(before)
        ways = (actual.bgp or BgpState(), wanted, recorded)
        _aim_entries(aim, before, tuple(_entries(each, up) for each in ways))
        if wanted.max_paths is not None:
            paths = {"max_ebgp_paths": str(wanted.max_paths)} if wanted.max_paths else {}
            _put(aim, _AF, paths, stays=_AF in before)
        said = (("local_asn", wanted.asn), ("router_id", wanted.router_id))
        ours = {key: str(value) for key, value in said if value is not None}
        others = {*wanted.neighbors, *wanted.networks} - {*recorded.neighbors, *recorded.networks}
        if wanted.asn is None and others:
            ours = aim.get(GLOBALS, {})  # others' sessions are in it by now
        _put(aim, GLOBALS, ours, stays=GLOBALS in before)
        # Keep the route map while a neighbour names it; else restore the old rows.
        families = [fields for row, fields in aim.items() if row.startswith("BGP_NEIGHBOR_AF|")]
        named = any({*_POLICY.items()} & {*fields.items()} for fields in families)
        aim = {row: fields for row, fields in aim.items() if not row.startswith(_MAPS)}
        aim |= _OUR_MAPS if named else {r: f for r, f in before.items() if r.startswith(_MAPS)}
    return aim


def _with_lost(held: Rows, before: Rows) -> Rows:
    """The rows of a switch, and the recorded ones that another AS number lost half-way.

    Our set is there then, and families of neighbours are not; a table is empty or complete.
    """
    tables = {row.partition("|")[0] for row in held}
    if _SET in held and "BGP_NEIGHBOR_AF" not in tables:
        lost = (row for row in before if row.partition("|")[0] not in tables)
        held |= {row: before[row] for row in lost if row.startswith("BGP_")}
    return {row: dict(fields) for row, fields in held.items()}


def _put(aim: Rows, row: str, own: Fields, *, stays: bool) -> None:
    """Write our fields of a row next to foreign ones; delete a row with neither."""
    known = _KNOWN[row.partition("|")[0]]
    fields = {key: value for key, value in aim.get(row, {}).items() if key not in known} | own
    if fields or stays:
        aim[row] = fields
    else:
        aim.pop(row, None)


def _aim_interface(aim: Rows, before: Rows, name: str, wanted: tuple[str, ...]) -> None:
    kinds = {"Vlan": "VLAN_INTERFACE", "Loop": "LOOPBACK_INTERFACE"}
    base = f"{kinds.get(name[:4], 'INTERFACE')}|{name}"
    for row in [row for row in aim if row.startswith(f"{base}|")]:
        if row.rpartition("|")[2] not in wanted:
            del aim[row]
    for each in wanted:
        if each != LINK_LOCAL:
            aim.setdefault(f"{base}|{each}", before.get(f"{base}|{each}", {}))
    held = {*aim.get(base, {})} - {*_USE_LINK_LOCAL}
    own = {key: value for key, value in before.get(base, {}).items() if key not in held}
    own |= _USE_LINK_LOCAL if LINK_LOCAL in wanted else {}
    _put(aim, base, own, stays=bool(wanted) or base in before)


def _entries(bgp: BgpState, up: str) -> _Entries:
    found: _Entries = {}
    for name, number in bgp.neighbors.items():
        who = {"asn": number} if number.isdigit() else {"peer_type": number}
        bfd = {"bfd": "true"} if name in bgp.bfd else {}
        rows = {
            f"{_NEIGHBOR}{name}": {**who, "admin_status": up, **bfd},
            _NEIGHBOR_AF.format(name): {"admin_status": up, **_POLICY},
        }
        found[name] = (number, bool(bfd)), rows
    return found | {n: ((n, False), {_NETWORK + n: {"backdoor": "false"}}) for n in bgp.networks}


def _aim_entries(aim: Rows, before: Rows, ways: tuple[_Entries, ...]) -> None:
    """Keep entries as wanted, restore recorded ones as wanted, and write the rest ourselves.

    A blank number does not describe the row. If the row lost its recorded AS number or type, an
    undo ended half-way; a row that its owner changed since has a number.
    """
    was, wanted, recorded = ways
    for name in was.keys() - wanted.keys():
        for row in was[name][1]:
            if row in before:  # a neighbour's family may be there alone
                aim[row] = before[row]
            else:
                aim.pop(row, None)
    for name, (kind, rows) in wanted.items():
        is_there, back = (name in each and each[name][0] == kind for each in (was, recorded))
        for row, own in rows.items():
            known = _KNOWN[row.partition("|")[0]]
            had, has = before.get(row, {}), aim.get(row, {})
            lost = any(key in had and had[key] != has.get(key) for key in ("asn", "peer_type"))
            half_way = not kind[0] and "asn" not in has and lost
            if is_there and not half_way:
                continue
            kept = {k: v for k, v in before.get(row, {}).items() if k in known} if back else own
            _put(aim, row, kept, stays=back and row in before)
