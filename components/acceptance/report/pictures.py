"""Parts of a report as one HTML file: page, sections, tables, and pictures in the page's colours.

The sheet has two themes by variables, and loads neither fonts nor pictures.

Bandwidth over size, a heat map of pairs for each rail, and the devices on the way of the probes
with the state of each link. Plain values are the only input, and the same evidence always gives the
same text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, Literal

from components.acceptance.judge.nccl_findings import show_bytes
from components.acceptance.logs.log_model import NcclRow

STYLE: Final = """\
svg text { font-size: 12px; fill: var(--ink); font-family: inherit; }
svg .soft { fill: var(--soft); } svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .line { fill: none; stroke-width: 2.2; } svg .a { stroke: var(--series); }
svg .b { stroke: var(--series-2); stroke-dasharray: 3 3; }
svg .last { stroke: var(--soft); stroke-dasharray: 7 4; } svg .dot { fill: var(--series); }
svg .floor { stroke: var(--failed); } svg .limit { stroke: var(--soft); stroke-dasharray: 5 4; }
svg text.floor { fill: var(--failed); stroke: none; }
svg text.limit { fill: var(--soft); stroke: none; }
svg .box { fill: var(--card); stroke: var(--soft); } svg .way { fill: none; stroke-width: 1.6; }
svg .good { stroke: var(--passed); } svg .untried { stroke: var(--rule); stroke-dasharray: 4 3; }
svg .doubt { stroke: var(--error); stroke-width: 2.4; }
svg .bad { stroke: var(--failed); stroke-width: 4; } svg .box.bad { stroke-width: 3; }
svg text.bad { fill: var(--failed); font-weight: 600; stroke: var(--page); stroke-width: 4;
  paint-order: stroke; }
svg .cell { stroke: var(--page); } svg .none { fill: var(--card); }
svg .low { fill: var(--failed); }
svg .slow { fill: var(--error); } svg .fine { fill: var(--passed); }
svg text.in { fill: var(--page); font-size: 11px; font-weight: 600; }
"""
"""The style rules of the pictures."""
State = Literal["good", "doubt", "bad", "untried"]


def _svg(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" style="max-width:{width * 1.2:g}px" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(words)}</text>"


def _line(ends: tuple[float, float, float, float], kind: str, title: str = "") -> str:
    x1, y1, x2, y2 = ends
    hint = f"<title>{escape(title)}</title>" if title else ""
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} class="{kind}">{hint}</line>'


_WIDTH, _HEIGHT = 560.0, 320.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 12.0, 24.0, 48.0
_HEADROOM: Final = 1.15
_MOST_TICKS: Final = 5
_STEPS: Final = (1, 2, 2.5, 5, 10)
"""The lines on the scale are one of these numbers, times a power of ten, apart."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """From message sizes and GB/s to places on the picture."""

    first: float
    last: float
    top: float

    def x(self, size_bytes: float) -> float:
        share = (math.log2(size_bytes) - self.first) / ((self.last - self.first) or 1)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, gbyte_s: float) -> float:
        return _HEIGHT - _BOTTOM - gbyte_s / self.top * (_HEIGHT - _TOP - _BOTTOM)


def draw_busbw(
    rows: Sequence[NcclRow], floor: float, limit: float, before: Sequence[NcclRow] = ()
) -> str:
    """Draw one collective's bus bandwidth over its message sizes, and that of an earlier run.

    The line rate is the limit; GB/s.
    """
    sizes = [row.size_bytes or 1 for row in rows]
    best = [row.worst_busbw_gb_s for row in (*rows, *before)]
    top = _HEADROOM * max(floor, limit, *best, 1e-9)
    scale = _Scale(math.log2(min(sizes)), math.log2(max(sizes)), top)
    first = [row.out_of_place.busbw_gb_s for row in rows]
    second = [row.in_place.busbw_gb_s for row in rows if row.in_place]
    series = [("a", "out of place", rows, first)]
    if len(second) == len(rows) and first != second:
        series.append(("b", "in place", rows, second))
    if before:
        old = [row.worst_busbw_gb_s for row in before]
        series.append(("last", "last accepted run", before, old))
    parts = [*_grid(scale, sizes)]
    for number, (kind, label, of, values) in enumerate(series):
        y = _HEIGHT / 2 + 20 * number
        key = f'<polyline points="{_LEFT + 12},{y} {_LEFT + 40},{y}" class="line {kind}"/>'
        parts += [_curve(scale, of, values, kind), key, _text(_LEFT + 48, y + 4, label)]
    parts += [
        f'<circle cx="{scale.x(size):.1f}" cy="{scale.y(value):.1f}" r="3" class="dot"/>'
        for size, value in zip(sizes, first, strict=True)
    ]
    for kind, label, level in (("limit", "line rate", limit), ("floor", "floor", floor)):
        y, words = scale.y(level), f"{label}: {level:.2f} GB/s"
        parts += [_line((_LEFT, y, _WIDTH - _RIGHT, y), kind), _text(_LEFT + 6, y - 5, words, kind)]
    return _svg(_WIDTH, _HEIGHT, "bus bandwidth over message size", parts)


def _grid(scale: _Scale, sizes: Sequence[int]) -> Iterable[str]:
    power = 10.0 ** math.floor(math.log10(scale.top / 5))
    step = next(each * power for each in _STEPS if each * power * 5 >= scale.top * 0.99)
    for number in range(int(scale.top / step) + 1):
        place = scale.y(number * step)
        yield _line((_LEFT, place, _WIDTH - _RIGHT, place), "grid")
        yield _text(_LEFT - 8, place + 4, f"{number * step:g}", "soft", "end")
    for size in sizes[:: -max(len(sizes) // _MOST_TICKS, 1)]:
        anchor = "end" if size == max(sizes) else "middle"
        yield _text(scale.x(size), _HEIGHT - _BOTTOM + 18, show_bytes(size), "soft", anchor)
    yield _text((_LEFT + _WIDTH) / 2, _HEIGHT - 8, "message size", "soft", "middle")
    yield _text(4, 14, "GB/s", "soft")


def _curve(scale: _Scale, rows: Sequence[NcclRow], values: Sequence[float], kind: str) -> str:
    points = [
        f"{scale.x(row.size_bytes or 1):.1f},{scale.y(value):.1f}"
        for row, value in zip(rows, values, strict=True)
    ]
    return f'<polyline points="{" ".join(points)}" class="line {kind}"/>'


@dataclass(frozen=True, slots=True)
class Pair:
    """The result of one pair on a rail; None: the probe failed before it had a number."""

    sender: str
    receiver: str
    gbit_s: float | None
    floor_gbit_s: float
    is_right: bool


MOST_HOSTS: Final = 128
"""Hosts of one heat map: with more, cells are smaller than a pixel on a phone."""
_NUMBERED: Final = 17
"""Below so many hosts a cell has room for its number."""
_SLOW: Final = 0.97
"""Below this share of the rail's best pair a cell is shown as slow, above the floor too."""


def draw_heat(rail: str, pairs: Sequence[Pair]) -> str:
    """Draw the bandwidth between the hosts of a rail; a pair measured twice shows its worst."""
    hosts = list(dict.fromkeys(end for pair in pairs for end in (pair.sender, pair.receiver)))
    hosts = sorted(hosts)[:MOST_HOSTS]
    found: dict[tuple[str, str], Pair] = {}
    for pair in sorted(pairs, key=lambda each: -math.inf if each.gbit_s is None else each.gbit_s):
        found.setdefault((pair.sender, pair.receiver), pair)
    side = 46.0 if len(hosts) < _NUMBERED else max(5.0, 736 / len(hosts))
    every = max(1, math.ceil(14 / side))
    left = 12 + 7.4 * max(len(host) for host in hosts)
    best = max((pair.gbit_s or 0.0 for pair in pairs), default=0.0)
    parts: list[str] = []
    for row, sender in enumerate(hosts):
        y = 26 + row * side
        if row % every == 0:
            parts.append(_text(left - 6, y + side / 2 + 4, sender, "soft", "end"))
        if len(hosts) < _NUMBERED:
            # Above a narrow column, leave out the beginning that all names share.
            short = sender if len(sender) <= len("gpu001") else f"…{sender[-5:]}"
            parts.append(_text(left + (row + 0.5) * side, 18, short, "soft", "middle"))
        for column, receiver in enumerate(hosts):
            cell = found.get((sender, receiver))
            parts.append(_cell(cell, (left + column * side, y, side), best))
    size = left + len(hosts) * side + 8
    return _svg(size, 34 + len(hosts) * side, f"pairs of {rail}", parts)


def _cell(pair: Pair | None, place: tuple[float, float, float], best: float) -> str:
    x, y, side = place
    kind, title, share = "none", "", 1.0
    if pair is not None:
        reached = pair.gbit_s
        words = (
            "failed" if reached is None else f"{reached:.1f} Gb/s, floor {pair.floor_gbit_s:.1f}"
        )
        title = f"<title>{escape(f'{pair.sender} to {pair.receiver}: {words}')}</title>"
        if not pair.is_right or reached is None:
            kind = "low"
        elif reached < _SLOW * best:
            kind = "slow"
        else:
            kind, share = "fine", reached / (best or 1.0)
    box = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" '
        f'class="cell {kind}" fill-opacity="{share:.2f}">{title}</rect>'
    )
    if pair is None or side < 30:  # noqa: PLR2004 - pixels that a number needs
        return box
    words = "none" if pair.gbit_s is None else f"{pair.gbit_s:.0f}"
    return box + _text(x + side / 2, y + side / 2 + 4, words, "in", "middle")


@dataclass(frozen=True, slots=True)
class Way:
    """One link between two devices, with its end on each."""

    near: str
    near_end: str
    far: str
    far_end: str
    state: State

    @property
    def label(self) -> str:
        """The link as a person names it."""
        return f"{self.near} {self.near_end} to {self.far} {self.far_end}"


_WORST: Final[Mapping[State, int]] = {"bad": 0, "doubt": 1, "untried": 2, "good": 3}
MOST_DRAWN: Final = 12
"""Most devices in one row: of more, only those with the worst links."""
_STEP, _ROW = 112.0, 150.0
_ASIDE: Final = 7.0
"""Distance between two links of the same devices."""


def draw_topology(layers: Sequence[Sequence[str]], ways: Sequence[Way]) -> tuple[str, int]:
    """Draw the devices in layers, the hosts lowest, and each link between two layers in its state.

    The second result is the number of devices that did not fit.
    """
    rank = {name: _WORST["good"] for layer in layers for name in layer}
    for way in ways:
        for name in (way.near, way.far):
            rank[name] = min(rank.get(name, 3), _WORST[way.state])
    drawn = [
        sorted(sorted(layer, key=lambda name: (rank[name], name))[:MOST_DRAWN]) for layer in layers
    ]
    widest = max(len(layer) for layer in drawn)
    width, height = max(widest * _STEP, 420.0) + 24, len(drawn) * _ROW - 70
    places: dict[str, tuple[float, float]] = {}
    for level, layer in enumerate(drawn):
        for number, name in enumerate(layer):
            x = 12 + (number + 0.5) * (width - 24) / len(layer)
            places[name] = (x, height - 40 - level * _ROW)
    shown = [way for way in ways if way.near in places and way.far in places]
    shown.sort(key=lambda way: -_WORST[way.state])
    twins: dict[tuple[str, str], int] = {}
    parts: list[str] = []
    for way in shown:
        number = twins[way.near, way.far] = twins.get((way.near, way.far), -1) + 1
        aside = (number + 1) // 2 * _ASIDE * (-1) ** number
        parts += _draw_way(way, places, aside)
    parts += [_box(name, place, rank[name]) for name, place in places.items()]
    left_out = sum(map(len, layers)) - len(places)
    return _svg(width, height, "devices on the way of the probes", parts), left_out


def _draw_way(way: Way, places: Mapping[str, tuple[float, float]], aside: float) -> Iterable[str]:
    (x1, y1), (x2, y2) = places[way.near], places[way.far]
    x1, x2 = x1 + aside, x2 + aside
    yield _line((x1, y1 - 14, x2, y2 + 14), f"way {way.state}", way.label)
    if way.state == "bad":
        share = 0.3
        x, y = x1 + share * (x2 - x1), y1 - 14 + share * (y2 - y1 + 28)
        yield _text(x + 6, y, way.near_end, "bad")
        yield _text(x + 6, y - 15, f"to {way.far_end}", "bad")


def _box(name: str, place: tuple[float, float], rank: int) -> str:
    x, y = place
    kind = "box bad" if rank == _WORST["bad"] else "box"
    half = _STEP / 2 - 8
    words = name if len(name) <= 13 else f"{name[:5]}…{name[-6:]}"  # noqa: PLR2004 - what fits
    return (
        f'<rect x="{x - half:.1f}" y="{y - 14:.1f}" width="{2 * half:.1f}" height="28" rx="5" '
        f'class="{kind}"><title>{escape(name)}</title></rect>'
        + _text(x, y + 4, words, "", "middle")
    )


SHEET: Final = """\
:root { color-scheme: light dark; --page: #ffffff; --card: #f6f7f9; --ink: #1b2027;
  --soft: #5c6672; --rule: #d9dee4; --series: #1f6fb2; --series-2: #b26a00;
  --passed: #17703c; --failed: #b3261e; --error: #8a4b00; --skipped: #56606b; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181d; --card: #1d232a; --ink: #e8ecf1; --soft: #a3adb8; --rule: #36404b;
    --series: #6cb6f0; --series-2: #f0b05a; --passed: #6fd394; --failed: #ff8f86;
    --error: #ffb866; --skipped: #aab4bf; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .4rem; } h1 small { font-weight: 400; color: var(--soft); }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
small, figcaption { color: var(--soft); font-size: .86rem; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, monospace; font-size: .84rem; }
pre { background: var(--card); border: 1px solid var(--rule); border-radius: 6px;
  padding: .75rem; overflow-x: auto; line-height: 1.35; }
code { overflow-wrap: anywhere; }
.banner { border: 1px solid var(--error); border-left-width: 6px; border-radius: 6px;
  padding: .6rem .9rem; background: var(--card); }
.scroll { overflow-x: auto; border: 1px solid var(--rule); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem;
  border-bottom: 1px solid var(--rule); overflow-wrap: anywhere; }
tr:last-child > * { border-bottom: 0; }
thead th { background: var(--card); color: var(--soft); font-weight: 600; font-size: .86rem; }
.name { min-width: 9em; }
.number { font-variant-numeric: tabular-nums; }
.badge { display: inline-block; min-width: 4.6em; text-align: center; padding: .05rem .5rem;
  white-space: nowrap; overflow-wrap: normal;
  border: 1.5px solid currentColor; border-radius: 999px; font-weight: 600; font-size: .84rem; }
.passed { color: var(--passed); } .failed { color: var(--failed); }
.error { color: var(--error); } .skipped { color: var(--skipped); }
figure { margin: 0 0 1rem; } figure svg { width: 100%; height: auto; }
details { border-top: 1px solid var(--rule); padding: .4rem 0; }
summary { cursor: pointer; } li { margin: .35rem 0; overflow-wrap: anywhere; }
summary h2 { display: inline; } details { padding: .8rem 0; }
@media (max-width: 640px) { main { padding: 1rem .8rem 3rem; } thead { display: none; }
  tr { display: block; border-bottom: 1px solid var(--rule); padding: .4rem 0; }
  th, td { display: block; border: 0; padding: .12rem .7rem; } }
"""


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """A whole page; `style` comes after the sheet of all reports."""
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{SHEET}{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str, folded: bool = False) -> str:
    """Make a heading from HTML, and its contents, which may be folded."""
    if folded:
        return f"<details><summary><h2>{title}</h2></summary>{''.join(parts)}</details>"
    return f"<section><h2>{title}</h2>{''.join(parts)}</section>"


def table(heads: Sequence[str], rows: Iterable[str]) -> str:
    """Make a table from rows of HTML, in a box that scrolls on a narrow screen."""
    cells = "".join(f"<th>{head}</th>" for head in heads)
    head = f"<thead><tr>{cells}</tr></thead>" if heads else ""
    return f'<div class="scroll"><table>{head}<tbody>{"".join(rows)}</tbody></table></div>'


def bullets(lines: Iterable[str]) -> str:
    """Plain lines as a list."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
