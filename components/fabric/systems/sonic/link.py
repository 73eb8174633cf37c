"""What a link of a SONiC port runs at: fields of its row in PORT, read and set.

A field that vanishes changes nothing until the next boot, so a value is put in before it where one
means the default; WHY.md beside this file says which has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from components.fabric.state import PortState
from components.fabric.systems.base import Unreadable
from components.fabric.systems.sonic import lines as say
from components.fabric.systems.sonic.rows import Fields, port_row

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
        yield say.set_speed(name, port.speed)
    if port.fec and port.fec != was.fec:
        yield say.set_fec(name, port.fec)
    if port.fec == "" != (was.fec or ""):
        yield say.delete_field(port_row(name), "fec")


def _autoneg_lines(name: str, was: str, wanted: str) -> Iterator[str]:
    (held, *offers), (mode, *offered) = _parts(was), _parts(wanted)
    if mode not in {held, _NOTHING} or (mode == _NOTHING and held == "on"):
        yield say.set_autoneg(name, on=mode == "on")
    if mode == _NOTHING != held:
        yield say.delete_field(port_row(name), "autoneg")
    if offers == offered:
        return
    if not offered:
        yield say.set_advertised(name, "all")
    for offer in offered:
        is_list = offer.startswith("@")
        cells = {(port_row(name), LIST): offer[1:]}.items()
        yield from say.write_cells(cells) if is_list else (say.set_advertised(name, offer),)
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
