"""The table of settings beside ours: what is made by hand on a device, and what is said of it.

`tests/over_ssh/guards.yaml` has the rows of switches, `host_guards.yaml` those of hosts; a test of
each layer plays its own, and docs/reference/guards.md is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import yaml
from pydantic import TypeAdapter

_FOLDER: Final = Path(__file__).parent / "over_ssh"
TABLES: Final = ("guards.yaml", "host_guards.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """One setting of one system."""

    kind: str
    """As the file names it under `guards`: `switch.schedule`."""
    system: str
    """`onyx` and the like; of a host `linux`."""
    thing: str
    by_hand: tuple[str, ...]
    """The lines that a person types."""
    found: tuple[str, str, str, str]
    """Where, setting, actual value, harmless value."""
    ways: tuple[str, ...] = ()
    """None where it is ours."""
    ours: bool = False
    """The file owns it on this system, so that it is drift and repaired as such."""
    host: str = ""
    """The emulated host that the row is played on."""
    in_pod: tuple[str, str] | None = None
    """A VF that a pod has: network device and number."""
    breaks: str = ""
    """What the look says of it, in part."""
    also: tuple[tuple[str, str, str, str], ...] = ()
    """What else the same lines bring, of the same kind."""


def rows() -> tuple[Guard, ...]:
    """Every row."""
    tables = (
        cast("list[Any]", yaml.load((_FOLDER / name).read_text(), Loader=yaml.CSafeLoader))
        for name in TABLES
    )
    return tuple(TypeAdapter(Guard).validate_python(row) for table in tables for row in table)


PAGE: Final = Path(__file__).parents[1] / "docs/reference/guards.md"
_HEAD: Final = ("Setting", "System", "Kind", "Ways")


def render_page() -> str:
    """The page with its table made again; what is before the table is written by people."""
    prose, _, _ = PAGE.read_text().partition(f"| {_HEAD[0]} |")
    lines = (_HEAD, ("---",) * len(_HEAD), *_cells())
    return prose + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells() -> Iterator[tuple[str, ...]]:
    """Systems with the same setting and the same ways share a row."""
    systems: dict[tuple[str, str, str], list[str]] = {}
    for row in rows():
        ways = "owned: drift, repaired" if row.ours else ", ".join(f"`{way}`" for way in row.ways)
        systems.setdefault((row.thing, f"`{row.kind}`", ways), []).append(row.system)
    for (thing, kind, ways), names in systems.items():
        yield thing, ", ".join(names), kind, ways
