"""Parts of a report as one HTML file: page, sections, tables, and pictures in the page's colours.

The sheet page.css has two themes by variables, and loads neither fonts nor pictures. Pictures are
bandwidth over size, pairs of each rail, and the devices and links on the way of the probes. Plain
values are the only input, and the same evidence always gives the same text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Final, Literal

from components.acceptance.judge.nccl_findings import show_bytes
from components.acceptance.logs.log_model import NcclRow
from components.core.record import record

State = Literal["good", "doubt", "bad", "untried"]
_HEADROOM: Final = 1.15
_MOST_TICKS: Final = 5
_STEPS: Final = (1, 2, 2.5, 5, 10)
"""The lines on the scale are one of these numbers, times a power of ten, apart."""
MOST_HOSTS: Final = 128
"""Hosts of one heat map: with more, cells are smaller than a pixel on a phone."""
_NUMBERED: Final = 17
"""Below so many hosts a cell has room for its number."""
_SLOW: Final = 0.97
"""Below this share of the rail's best pair a cell is shown as slow, above the floor too."""
_WORST: Final[Mapping[State, int]] = {"bad": 0, "doubt": 1, "untried": 2, "good": 3}
MOST_DRAWN: Final = 12
"""Most devices in one row: of more, only those with the worst links."""
_ASIDE: Final = 7.0
"""Distance between two links of the same devices."""


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


@record
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
    """Draw a collective's GB/s over message sizes, the line rate as limit, and an earlier run."""
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
    parts = [
        _text((_LEFT + _WIDTH) / 2, _HEIGHT - 8, "message size", "soft", "middle"),
        _text(4, 14, "GB/s", "soft"),
    ]
    power = 10.0 ** math.floor(math.log10(top / 5))
    step = next(each * power for each in _STEPS if each * power * 5 >= top * 0.99)
    for level in (number * step for number in range(int(top / step) + 1)):
        y = scale.y(level)
        parts.append(_line((_LEFT, y, _WIDTH - _RIGHT, y), "grid"))
        parts.append(_text(_LEFT - 8, y + 4, f"{level:g}", "soft", "end"))
    for size in sizes[:: -max(len(sizes) // _MOST_TICKS, 1)]:
        anchor, x = "end" if size == max(sizes) else "middle", scale.x(size)
        parts.append(_text(x, _HEIGHT - _BOTTOM + 18, show_bytes(size), "soft", anchor))
    for number, (kind, label, of, values) in enumerate(series):
        y = _HEIGHT / 2 + 20 * number
        curve = " ".join(
            f"{scale.x(row.size_bytes or 1):.1f},{scale.y(value):.1f}"
            for row, value in zip(of, values, strict=True)
        )
        lines = (curve, f"{_LEFT + 12},{y} {_LEFT + 40},{y}")
        parts += [f'<polyline points="{points}" class="line {kind}"/>' for points in lines]
        parts.append(_text(_LEFT + 48, y + 4, label))
    parts += [
        f'<circle cx="{scale.x(size):.1f}" cy="{scale.y(value):.1f}" r="3" class="dot"/>'
        for size, value in zip(sizes, first, strict=True)
    ]
    for kind, label, level in (("limit", "line rate", limit), ("floor", "floor", floor)):
        y, words = scale.y(level), f"{label}: {level:.2f} GB/s"
        parts += [_line((_LEFT, y, _WIDTH - _RIGHT, y), kind), _text(_LEFT + 6, y - 5, words, kind)]
    return _svg(_WIDTH, _HEIGHT, "bus bandwidth over message size", parts)


@record
class Pair:
    """The result of one pair on a rail; None: the probe failed before it had a number."""

    sender: str
    receiver: str
    gbit_s: float | None
    floor_gbit_s: float
    is_right: bool


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
        speed = pair.gbit_s
        words = "failed" if speed is None else f"{speed:.1f} Gb/s, floor {pair.floor_gbit_s:.1f}"
        title = f"<title>{escape(f'{pair.sender} to {pair.receiver}: {words}')}</title>"
        if not pair.is_right or speed is None:
            kind = "low"
        elif speed < _SLOW * best:
            kind = "slow"
        else:
            kind, share = "fine", speed / (best or 1.0)
    box = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" '
        f'class="cell {kind}" fill-opacity="{share:.2f}">{title}</rect>'
    )
    if pair is None or side < 30:  # noqa: PLR2004 - pixels that a number needs
        return box
    words = "none" if pair.gbit_s is None else f"{pair.gbit_s:.0f}"
    return box + _text(x + side / 2, y + side / 2 + 4, words, "in", "middle")


@record
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


_STEP, _ROW = 112.0, 150.0


def draw_topology(layers: Sequence[Sequence[str]], ways: Sequence[Way]) -> tuple[str, int]:
    """Draw devices in layers, hosts lowest, and links by state; count those that do not fit."""
    rank = {name: _WORST["good"] for layer in layers for name in layer}
    for way in ways:
        for name in (way.near, way.far):
            rank[name] = min(rank.get(name, 3), _WORST[way.state])
    drawn = [sorted(sorted(layer, key=lambda it: (rank[it], it))[:MOST_DRAWN]) for layer in layers]
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
        (x1, y1), (x2, y2) = places[way.near], places[way.far]
        x1, x2 = x1 + aside, x2 + aside
        parts.append(_line((x1, y1 - 14, x2, y2 + 14), f"way {way.state}", way.label))
        if way.state == "bad":
            share = 0.3
            x, y = x1 + share * (x2 - x1) + 6, y1 - 14 + share * (y2 - y1 + 28)
            parts.append(_text(x, y, way.near_end, "bad"))
            parts.append(_text(x, y - 15, f"to {way.far_end}", "bad"))
    half = _STEP / 2 - 8
    for name, (x, y) in places.items():
        kind = "box bad" if rank[name] == _WORST["bad"] else "box"
        words = name if len(name) <= 13 else f"{name[:5]}…{name[-6:]}"  # noqa: PLR2004 - what fits
        parts.append(
            f'<rect x="{x - half:.1f}" y="{y - 14:.1f}" width="{2 * half:.1f}" height="28" rx="5" '
            f'class="{kind}"><title>{escape(name)}</title></rect>'
        )
        parts.append(_text(x, y + 4, words, "", "middle"))
    left_out = sum(map(len, layers)) - len(places)
    return _svg(width, height, "devices on the way of the probes", parts), left_out


def read_sheet(name: str) -> str:
    """The style rules of `page.css`, of all reports, or of `pictures.css`."""
    return resources.files("components.acceptance.report").joinpath(name).read_text("utf-8")


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """A whole page; `style` comes after the sheet of all reports."""
    style = read_sheet("page.css") + style
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
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


def tr(*cells: str | tuple[str, str]) -> str:
    """Make a row of a table from HTML; a pair is a cell's attribute and its content."""
    pairs = (("", f">{each}") if isinstance(each, str) else (" ", ">".join(each)) for each in cells)
    return f"<tr>{''.join(f'<td{space}{cell}</td>' for space, cell in pairs)}</tr>"


def bullets(lines: Iterable[str]) -> str:
    """Plain lines as a list."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
