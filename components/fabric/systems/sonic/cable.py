"""The length of a cable in the tables of SONiC, and the headroom that is made of it: pure.

`CABLE_LENGTH|AZURE` has a field for each port. Where buffers are not computed, buffermgrd looks
length and speed up in the platform's `pg_profile_lookup.ini`, makes a profile that bears both in
its name, and gives it to the port's groups. A length without a line leaves everything as it was,
so what counts here is what the groups have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from components.fabric.native import is_default
from components.fabric.state import PortState
from components.fabric.systems.base import Unreadable
from components.fabric.systems.sonic import lines as say
from components.fabric.systems.sonic.rows import Cell, Cells, Fields, port_row, span_of, spread

TEMPLATE_ROW: Final = "CABLE_LENGTH|AZURE"
"""The row that the platform's template writes (buffers_config.j2)."""
FORGOTTEN: Final = "0m"
"""A length of which buffermgrd makes nothing; one whose field just vanishes is remembered."""
_LENGTH: Final = re.compile(r"(\d+)m")
"""sonic-cable-length.yang."""
_MADE: Final = re.compile(r"pg_lossless_(?P<speed>\d+)_(?P<length>\d+)m_profile")
_GROUPS: Final = "BUFFER_PG|"


def cable_cells(name: str, cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells that say the length of a port; the template's where none does."""
    found = tuple(cell for cell in cells if cell[0].startswith("CABLE_LENGTH|"))
    return found or ((TEMPLATE_ROW, name),)


def write_length(length_m: int) -> str:
    """40 is `40m`."""
    return f"{length_m}m"


def length_in_force(cells: Mapping[Cell, str], paused: Iterable[int]) -> int:
    """Metres that the headroom of the paused groups is for; 0: nothing says, or two things do.

    A group has another length than the table where the platform has no headroom for that, and
    where the switch has not looked: then its next look changes it.
    """
    said = {value for cell, value in cells.items() if cell[0].startswith("CABLE_LENGTH|")}
    found = _LENGTH.fullmatch(said.pop()) if len(said) == 1 else None
    length = int(found[1]) if found else 0
    made = {int(found["length"]) for _, found in _made(cells, {*paused})}
    return length if made <= {length} else 0


def _made(cells: Mapping[Cell, str], paused: set[int]) -> Iterator[tuple[Cell, re.Match[str]]]:
    """The groups, of those that are paused, whose profile buffermgrd made."""
    for cell, value in sorted(cells.items()):
        made = _MADE.fullmatch(value)
        if cell[0].startswith(_GROUPS) and made and paused & {*spread(span_of(cell[0]))}:
            yield cell, made


def is_run(span: str, listed: Iterable[int]) -> bool:
    """Whether buffermgrd makes this very row of a list: it has one row for neighbours, `3-4`."""
    numbers = spread(span)
    around = range(numbers.start - 1, numbers.stop + 1)
    return bool(numbers) and {*around} & {*listed} == {*numbers}


def left_behind(
    cells: Mapping[Cell, str], paused: Iterable[int], length_m: int, profiles: Iterable[str]
) -> Cells:
    """Groups that buffermgrd does not touch and that cover a paused one, with their new profile.

    A row of an earlier list, `3-4` beside `3`, would bring its headroom back at the next boot.

    Args:
        cells: Every cell of the port.
        paused: Priorities that are, or shall be, paused.
        length_m: The wanted length.
        profiles: Rows of profiles that are there: another one cannot be named yet.
    """
    found: Cells = {}
    for cell, made in _made(cells, {*paused}):
        profile = f"pg_lossless_{made['speed']}_{write_length(length_m)}_profile"
        stays = is_run(span_of(cell[0]), paused) or int(made["length"]) == length_m
        if not stays and f"BUFFER_PROFILE|{profile}" in {*profiles}:
            found[cell] = profile
    return found


def needs_touch(cells: Mapping[Cell, str], paused: Iterable[int], length_m: int) -> bool:
    """Whether a group that buffermgrd looks after has another length than it shall have."""
    listed = {*paused}
    return any(
        int(made["length"]) != length_m and is_run(span_of(cell[0]), listed)
        for cell, made in _made(cells, listed)
    )


def touch_cells(name: str, was: PortState, port: PortState) -> Cells | None:
    """A field of a port, with the value that it has: by its event buffermgrd looks at the length.

    It does so by the length alone in images from March 2026 on only (sonic-swss 67198295).

    Returns:
        Nothing where a line for the port's MTU or state comes anyway; None where no field is there.
    """
    if port.mtu_bytes not in {None, was.mtu_bytes} or port.admin_up not in {None, was.admin_up}:
        return {}
    if not is_default(was.native, "mtu_bytes") and was.mtu_bytes is not None:
        return {(f"PORT|{name}", "mtu"): str(was.mtu_bytes)}
    if not is_default(was.native, "admin_up") and was.admin_up is not None:
        return {(f"PORT|{name}", "admin_status"): "up" if was.admin_up else "down"}
    return None


LIST: Final = "adv_speeds@"
"""`adv_speeds` as a list, which a loaded file has; the command line writes it as a text."""
_NOTHING: Final = "-"
_PORT: Final = re.compile(r"Ethernet\d+")


def link_state(row: Fields) -> dict[str, object]:
    """`speed`, `fec` and `autoneg` of a `PortState`; blank where there is no field."""
    offered = [*([row["adv_speeds"]] if "adv_speeds" in row else ())]
    offered += [f"@{row[LIST]}"] if LIST in row else []
    mode = row.get("autoneg", _NOTHING if offered else "")
    return {
        "speed": row.get("speed", ""),
        "fec": row.get("fec", ""),
        "autoneg": " ".join([mode, *offered]).strip(),
    }


def link_lines(name: str, was: PortState, port: PortState) -> Iterator[str]:
    """The lines from one to the other. What is offered counts before the speed does."""
    if port.autoneg not in {None, was.autoneg or ""}:
        yield from _autoneg_lines(name, was.autoneg or "", port.autoneg or "")
    if port.speed and port.speed != was.speed:
        yield f"sudo config interface speed {name} {port.speed}"
    if port.fec and port.fec != was.fec:
        yield f"sudo config interface fec {name} {port.fec}"
    if port.fec == "" != (was.fec or ""):
        yield say.delete_field(port_row(name), "fec")


def _autoneg_lines(name: str, was: str, wanted: str) -> Iterator[str]:
    (held, *offers), (mode, *offered) = _parts(was), _parts(wanted)
    if mode not in {held, _NOTHING} or (mode == _NOTHING and held == "on"):
        yield f"sudo config interface autoneg {name} {'enabled' if mode == 'on' else 'disabled'}"
    if mode == _NOTHING != held:
        yield say.delete_field(port_row(name), "autoneg")
    if offers == offered:
        return
    if not offered:
        yield f"sudo config interface advertised-speeds {name} all"
    for offer in offered:
        cells = [((port_row(name), LIST), offer[1:])]
        plain_line = f"sudo config interface advertised-speeds {name} {offer}"
        yield from say.write_cells(cells) if offer.startswith("@") else (plain_line,)
    kinds = {offer.startswith("@") for offer in offered}
    if False not in kinds and (not offered or False in {o.startswith("@") for o in offers}):
        yield say.delete_field(port_row(name), "adv_speeds")
    if True not in kinds and True in {offer.startswith("@") for offer in offers}:
        yield say.delete_field(port_row(name), LIST)


def _parts(autoneg: str) -> list[str]:
    return autoneg.split() or [_NOTHING]


def parse_links(command: str, text: str) -> dict[str, bool]:
    """`show interfaces status`: port to whether it has a link (sonic-utilities, `intfutil`).

    Cells hold blanks, so the rule under the heading says where the columns are.
    """
    head, rule, *rows = (text.strip("\n") + "\n").split("\n")
    columns = {head[slice(*dash.span())].strip(): dash.span() for dash in re.finditer("-+", rule)}
    if not {"Interface", "Oper"} <= columns.keys():
        raise Unreadable(command, text, "it is no table of ports with a column Oper")
    name, oper = slice(*columns["Interface"]), slice(*columns["Oper"])
    cells = ((row[name].strip(), row[oper].strip()) for row in rows)
    return {port: state == "up" for port, state in cells if _PORT.fullmatch(port)}
