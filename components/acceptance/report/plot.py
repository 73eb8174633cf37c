"""Bus bandwidth over message size, as an SVG that takes its colours from the page."""

from __future__ import annotations

# matplotlib's stubs leave `**kwargs` untyped, which makes every drawing call "partially unknown".
# pyright: reportUnknownMemberType=false
import io
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from components.acceptance.judge.nccl_findings import show_bytes
from components.acceptance.logs.log_model import NcclRow

_INK, _SOFT, _LINE, _SECOND, _FLOOR, _LIMIT = (
    "#010203",
    "#020304",
    "#030405",
    "#040506",
    "#050607",
    "#060708",
)
"""Stand-ins that no picture needs, replaced by the page's own colours."""
_VARIABLES = {
    _INK: "var(--ink)",
    _SOFT: "var(--soft)",
    _LINE: "var(--series)",
    _SECOND: "var(--series-2)",
    _FLOOR: "var(--failed)",
    _LIMIT: "var(--soft)",
}
_SIZE_INCHES = (9.2, 4.2)
_HEADROOM = 1.18


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line: a limit or a floor."""

    label: str
    busbw_gb_s: float


def draw_busbw(rows: Sequence[NcclRow], floor: Level, limit: Level) -> str:
    """Draws one collective's bus bandwidth."""
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "railyard", "font.size": 11}):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        FigureCanvasSVG(figure)
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        _draw_series(axes, rows)
        _draw_level(axes, limit, _LIMIT, "--")
        _draw_level(axes, floor, _FLOOR, "-")
        top = max([floor.busbw_gb_s, limit.busbw_gb_s, *(row.worst_busbw_gb_s for row in rows)])
        axes.set_ylim(0, top * _HEADROOM)
        _dress(axes, [row.size_bytes or 0 for row in rows])
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return _adopt(buffer.getvalue())


def _draw_series(axes: Axes, rows: Sequence[NcclRow]) -> None:
    sizes = [row.size_bytes or 0 for row in rows]
    first = [row.out_of_place.busbw_gb_s for row in rows]
    second = [row.in_place.busbw_gb_s for row in rows if row.in_place]
    label = "out of place and in place" if first == second else "out of place"
    axes.plot(sizes, first, color=_LINE, linewidth=2, marker="o", markersize=4, label=label)
    if len(second) == len(rows) and first != second:
        axes.plot(sizes, second, color=_SECOND, linewidth=1.4, linestyle=":", label="in place")


def _draw_level(axes: Axes, level: Level, color: str, style: str) -> None:
    axes.axhline(level.busbw_gb_s, color=color, linewidth=1.2, linestyle=style)
    axes.annotate(
        f"{level.label}: {level.busbw_gb_s:.2f} GB/s",
        xy=(0.01, level.busbw_gb_s),
        xycoords=("axes fraction", "data"),
        xytext=(0, 4),
        textcoords="offset points",
        color=color,
        fontsize=10,
    )


def _dress(axes: Axes, sizes: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    step = max(len(sizes) // 7, 1)
    ticks = list(reversed(list(reversed(sizes))[::step]))
    axes.set_xticks(ticks, [show_bytes(size) for size in ticks])
    axes.minorticks_off()
    axes.set_xlabel("message size", color=_INK)
    axes.set_ylabel("bus bandwidth, GB/s", color=_INK)
    axes.patch.set_alpha(0)
    axes.grid(visible=True, axis="y", color=_SOFT, linewidth=0.4, alpha=0.4)
    axes.tick_params(colors=_INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_SOFT)
    axes.legend(loc="center left", frameon=False, labelcolor=_INK)


def _adopt(svg: str) -> str:
    """Only the element, in the page's colours and width."""
    body = svg[svg.index("<svg") :]
    for stand_in, variable in _VARIABLES.items():
        body = body.replace(stand_in, variable)
    head, _, rest = body.partition(">")
    width = head.index(' width="')
    height = head.index(' height="')
    for start in sorted((width, height), reverse=True):
        end = head.index('"', head.index('"', start) + 1) + 1
        head = head[:start] + head[end:]
    return f'{head} role="img" aria-label="bus bandwidth over message size">{rest}'
