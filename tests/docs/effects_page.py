"""docs/reference/effects.md: its two tables are made of the tables that decide."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from components.core.settings import Impact
from components.fabric.effects import TABLE, Row
from components.hosts.keys.ask import HostKey, all_keys, effect_of

PAGE: Final = Path(__file__).parents[2] / "docs/reference/effects.md"
_RULE: Final = "|---"


def render_page() -> str:
    """The page with its tables made again; everything else is written by people."""
    switches, hosts = PAGE.read_text().split("\n## Switches\n")[1].split("\n## Hosts\n")
    page = PAGE.read_text()
    page = page.replace(switches, _renewed(switches, _switch_rows()))
    return page.replace(hosts, _renewed(hosts, _host_rows()))


def _renewed(section: str, rows: Iterator[tuple[str, ...]]) -> str:
    lines = section.split("\n")
    rule = next(number for number, line in enumerate(lines) if line.startswith(_RULE))
    made = [f"| {' | '.join(cells)} |" for cells in rows]
    after = [line for line in lines[rule + 1 :] if not line.startswith("|")]
    return "\n".join([*lines[: rule + 1], *made, *after])


def _switch_rows() -> Iterator[tuple[str, ...]]:
    """Settings that are declared with one and the same effect are one row."""
    alike: dict[tuple[int, str], list[Row]] = {}
    for row in TABLE:
        owner = row.where.removesuffix(" {}") if row.where in _OWNERS else ""
        alike.setdefault((id(row.does), owner), []).append(row)
    for (_, owner), rows in alike.items():
        names = dict.fromkeys(f"`{row.setting.replace('{}', _word(row.setting))}`" for row in rows)
        does, place = rows[0].does, f" of a {owner}" if owner else ""
        new = does.effect if does.new is None else does.new
        yield (
            f"{', '.join(names)}{place}",
            f"`{does.effect}`",
            f"`{new}`",
            _exceptions(does),
            does.why,
        )


_OWNERS: Final = ("subnet manager", "partition {}")


def _word(setting: str) -> str:
    if setting.startswith("member"):
        return "<port>"
    return "<name>" if setting.startswith(("bgp_", "address_", "mtu_")) else "<number>"


def _exceptions(does: Impact) -> str:
    values = [f"to {value}: `{effect}`" for value, effect in does.to.items()]
    systems = [f"{name}: `{effect}`, {why}" for name, (effect, why) in does.systems.items()]
    return "; ".join((*values, *systems))


def _host_rows() -> Iterator[tuple[str, ...]]:
    alike: dict[tuple[str, str], list[str]] = {}
    for row in all_keys():
        if row.undo != "looked":
            key = str(effect_of(row)), _waits(row)
            alike.setdefault(key, []).append(f"`{row.pattern}`")
    for (effect, waits), patterns in sorted(alike.items()):
        yield ", ".join(patterns), f"`{effect}`", waits


def _waits(row: HostKey) -> str:
    return "a drain" if row.interrupts else "a boot" if row.loads_at_start else "nothing"
