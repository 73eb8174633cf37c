"""docs/reference/catalogue.md: what the catalogue knows, made of its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from components.catalogue import upstream
from components.catalogue.cards import CARDS
from components.catalogue.operator_versions import AS_OF, CONTAINERD, NEWER
from components.cli.versions import list_catalogue
from tests.schemas.judge import packed_releases

PAGE: Final = Path(__file__).parents[2] / "docs/reference/catalogue.md"
_FIRST: Final = "\n## By default\n"
_CHARTS: Final = {
    "GPU operator": ("gpu-operator", upstream.GPU_OPERATOR_RELEASE),
    "network operator": ("network-operator", upstream.NETWORK_OPERATOR_RELEASE),
    "GPU device plugin": ("nvidia-device-plugin", upstream.GPU_DEVICE_PLUGIN_RELEASE),
}


def render_page() -> str:
    """The page: its date and its tables are made again, all else is written by people."""
    written = PAGE.read_text("utf-8").partition(_FIRST)[0]
    dated = re.sub(r"(?<=The catalogue is of )[^,.]+", f"{AS_OF:%-d %B %Y}", written)
    return dated + _FIRST + "\n".join(_tables()) + "\n"


def _tables() -> Iterator[str]:
    yield ""
    yield from _table(("Chart", "Release", "Definitions and values are checked at"), _defaults())
    known = list_catalogue()
    yield "\n## Lines\n"
    lines = known["Kubernetes of each release line"][1:]
    yield from _table(("Component", "Line", "Kubernetes", "Its maker says", "Source"), iter(lines))
    yield "\n## Newer, and not taken\n"
    newer = ([name, *each] for name, each in NEWER.items())
    yield from _table(("Component", "Release", "Why not"), newer)
    yield "\n## containerd of each installer\n"
    brought = ([name, *each] for name, rows in CONTAINERD.items() for each in rows.items())
    yield from _table(("Installer", "From release", "containerd"), brought)
    yield f"\n## Cards\n\n{', '.join(CARDS)}."


def _defaults() -> Iterator[list[str]]:
    for title, (chart, release) in _CHARTS.items():
        yield [title, f"`{release}`", ", ".join(packed_releases(chart))]


def _table(head: tuple[str, ...], rows: Iterator[list[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cells)} |"
