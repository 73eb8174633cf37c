"""Bundles of a SONiC switch: read from rows of CONFIG_DB, and the rows as they shall be. Pure.

teammgrd makes a bundle of PORTCHANNEL and PORTCHANNEL_MEMBER, by LACP (sonic-swss, teammgr.cpp;
sonic-portchannel.yang). A port in a VLAN or with an address cannot join one, so those go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import TypeAdapter

from components.fabric.native import write_text
from components.fabric.parts import BondState
from components.fabric.state import SwitchState
from components.fabric.systems.base import Change
from components.fabric.systems.membership import refuse_taken
from components.fabric.systems.ranges import port_key
from components.fabric.systems.sonic import lines as say
from components.fabric.systems.sonic.rows import Fields, Rows

Tables = Mapping[str, Mapping[str, Fields]]
WORDS: Final = "bonds"
"""Key of a switch's `native`: the rows as they are."""
_ROWS: Final[TypeAdapter[Rows]] = TypeAdapter(Rows)
_NAME: Final = "PortChannel"
_BUNDLE: Final = "PORTCHANNEL"
_MEMBER: Final = "PORTCHANNEL_MEMBER"
_VLAN: Final = "VLAN_MEMBER"
_OURS: Final[Fields] = {"admin_status": "up", "mtu": "9100", "lacp_key": "auto"}
"""As `config portchannel add` writes them (sonic-utilities, config/main.py)."""
_ORDER: Final = (_BUNDLE, _MEMBER, _VLAN)
"""Tables in the order in which they come; they go the other way."""
_TAKE_OUT: Final = "sudo config portchannel member del {bundle} {port}"


def bond_rows(tables: Tables) -> Rows:
    """The rows of bundles, their members and their VLANs."""
    found = {f"{table}|{key}": {**each} for table in (_BUNDLE, _MEMBER)
             for key, each in tables.get(table, {}).items()}  # fmt: skip
    vlans = tables.get(_VLAN, {}).items()
    return found | {
        f"{_VLAN}|{key}": {**each} for key, each in vlans if key.partition("|")[2].startswith(_NAME)
    }


def bond_words(tables: Tables) -> dict[str, str]:
    """The rows as `SwitchState.native` holds them; nothing where there is no bundle."""
    rows = bond_rows(tables)
    return {WORDS: write_text(rows)} if rows else {}


def _rows_of(state: SwitchState) -> Rows:
    text = state.native.get(WORDS)
    return {} if text is None else _ROWS.validate_json(text)


def bonds_of(tables: Tables) -> dict[str, BondState] | None:
    """Every bundle; None: there is none."""
    rows = bond_rows(tables)
    named = {row.split("|")[2 if row.startswith(f"{_VLAN}|") else 1] for row in rows}
    return {name: _bond(name, rows) for name in sorted(named)} or None


def _bond(name: str, rows: Rows) -> BondState:
    members = [row.rpartition("|")[2] for row in rows if row.startswith(f"{_MEMBER}|{name}|")]
    modes = {
        int(row.split("|")[1].removeprefix("Vlan")): fields.get("tagging_mode")
        for row, fields in rows.items()
        if row.startswith(f"{_VLAN}|") and row.endswith(f"|{name}")
    }
    untagged = [vlan for vlan, mode in modes.items() if mode == "untagged"]
    return BondState(
        members=tuple(sorted(members, key=port_key)),
        vlans=tuple(sorted(vlan for vlan in modes if vlan not in untagged)),
        untagged=untagged[0] if untagged else None,
    )


def leaving_bonds(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """What goes, before a port is put elsewhere.

    Raises:
        Unsettable: A port is in a bundle that is not of the file.
    """
    refuse_taken(actual, target, _TAKE_OUT)
    held, aim = _rows_of(actual), _aim(actual, target)
    for table in reversed(_ORDER):
        for row in _of(table, held):
            if row not in aim:
                yield Change((say.delete_row(row),))
            else:
                gone = sorted({*held[row]} - {*aim[row]})
                yield from (Change((say.delete_field(row, each),)) for each in gone)


def coming_bonds(actual: SwitchState, target: SwitchState) -> Iterator[Change]:
    """What comes, once its ports are in no VLAN and have no address."""
    held, aim = _rows_of(actual), _aim(actual, target)
    for table in _ORDER:
        new = {row: aim[row] for row in _of(table, aim) if _differs(row, aim[row], held)}
        yield from (Change((line,)) for line in say.write_rows(new))


def _of(table: str, rows: Iterable[str]) -> list[str]:
    return [row for row in rows if row.partition("|")[0] == table]


def _differs(row: str, fields: Fields, held: Rows) -> bool:
    return row not in held or not fields.items() <= held[row].items()


def _aim(actual: SwitchState, target: SwitchState) -> Rows:
    aim, recorded = _rows_of(actual), _rows_of(target)
    for name, wanted in (target.bonds or {}).items():
        if wanted.members and _bond(name, aim) == wanted and f"{_BUNDLE}|{name}" in aim:
            continue
        before = {row: fields for row, fields in recorded.items() if _is_of(row, name)}
        ours = before if before and _bond(name, recorded) == wanted else _wanted(name, wanted, aim)
        aim = {row: fields for row, fields in aim.items() if not _is_of(row, name)} | ours
    return aim


def _is_of(row: str, name: str) -> bool:
    parts = row.split("|")
    return parts[-1] == name if parts[0] == _VLAN else parts[1] == name


def _wanted(name: str, bond: BondState, held: Rows) -> Rows:
    """Our rows; what others say of the bundle itself stays."""
    if not bond.members:
        return {}
    own = {**_OURS, **held.get(f"{_BUNDLE}|{name}", {}), "admin_status": "up"}
    rows: Rows = {f"{_BUNDLE}|{name}": own}
    rows |= {f"{_MEMBER}|{name}|{port}": {} for port in bond.members}
    modes = dict.fromkeys(bond.vlans or (), "tagged")
    modes |= {} if bond.untagged is None else {bond.untagged: "untagged"}
    return rows | {
        f"{_VLAN}|Vlan{vlan}|{name}": {"tagging_mode": mode} for vlan, mode in modes.items()
    }
