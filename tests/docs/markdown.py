"""The Markdown files of the repository, read as far as the tests need."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from components.core.record import record

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)]+)\)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$", re.MULTILINE)


@record
class Block:
    """One fenced block of code."""

    language: str
    text: str


@record
class Shown:
    """A command of a console block with the output that the page shows; `…` marks omitted lines."""

    command: str
    lines: tuple[str, ...]

    def matches(self, printed: str) -> bool:
        """Say if a run printed these lines in this order, and no other without a `…`."""
        forms = (r"(?:.*\n)*" if line == "…" else re.escape(f"{line}\n") for line in self.lines)
        return re.fullmatch("".join(forms), printed) is not None


def tracked(*patterns: str) -> tuple[Path, ...]:
    """Files that git knows or would take."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    found = {ROOT / line for line in done.stdout.splitlines()}
    return tuple(sorted(path for path in found if path.is_file()))


def blocks(path: Path) -> tuple[Block, ...]:
    found = _FENCE.findall(path.read_text())
    return tuple(Block(language, text) for language, text in found)


def outputs(path: Path) -> tuple[Shown, ...]:
    """Each command of the console blocks of a page, with its output."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks(path):
        for line in block.text.splitlines() if block.language == "console" else ():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return tuple(Shown(command, tuple(lines)) for command, lines in found)


def links(path: Path) -> tuple[str, ...]:
    """Targets of the links outside code."""
    text = _FENCE.sub("", path.read_text())
    return tuple(_LINK.findall(re.sub(r"`[^`\n]*`", "", text)))


@cache
def anchors(path: Path) -> frozenset[str]:
    """Anchors of the headings, made as GitHub makes them."""
    headings = _HEADING.findall(_FENCE.sub("", path.read_text()))
    return frozenset(_slug(heading) for heading in headings)


def _slug(heading: str) -> str:
    plain = re.sub(r"[^\w\- ]", "", heading.lower())
    return plain.replace(" ", "-")
