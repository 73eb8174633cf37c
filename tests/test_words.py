"""The texts that people read are plain English, by the number of stilted forms in each room.

A room above the goal has a limit, its number when this was written; it may go down and never up.
Rewrite a sentence as you would say it to a colleague. `.venv/bin/python -m tests.test_words` prints
the present numbers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import ceil
from pathlib import Path
from typing import Final, Literal

import pytest
import yaml

from components.core.templates import LOADER

ROOT: Final = Path(__file__).parents[1]
BANNED: Final = re.compile(
    r"\b(told|somebody|nobody|stands|anew|a hand|as it was left)\b(?!-)", re.IGNORECASE
)
"""Words of riddles, which no text may have."""
FORMS: Final = tuple(
    re.compile(form)
    for form in (
        r"\b[Ww]here (?:it|there|they|this|that|none|nothing|no|one|each)\b",  # if
        r"\b(?:is|are|was|has|have|takes|makes|knows|gives|needs|holds) (?:no|none|nothing)\b",
        r"\bof (?:it|which|what|ours|theirs|others|them|these|those|such)\b",
        r"\b[Ww]hat (?:is|was|has|had|goes|comes|stays|follows|lies|it|they|no|others)\b",
        r"\b\w+ that (?:is|are|was|has|have|differs?|names?|holds?|lacks?|goes|comes)\b",
        r"\b(?:by itself|by themselves|of its own|of their own|by hand)\b",
        r"\b(?:shall|may not|ours|beside|likewise|so that)\b",
        r"\b(?:is|are|was|be|nothing|none) said\b|\bsays? (?:so|nothing|it|no)\b",
        r"\b(?:a look|looked at|looks at|bears?|lies|lay|stand)\b",
    )
)
Kind = Literal["docstring", "message"]
GOAL: Final[Mapping[str, int]] = {"docstring": 5, "message": 6, "page": 7}
"""Stilted forms in 1,000 words of docstrings, messages (strings of five words or more), and pages.

Well-written projects of this field have one to four.
"""
DOCSTRINGS: Final[Mapping[str, int]] = {
    "checks": 6,
    "cloud": 9,
    "core": 6,
    "discover": 10,
    "operators": 7,
    "plan": 6,
    "project": 7,
    "reading": 10,
}
"""Rooms above the goal in docstrings, with their limit."""
MESSAGES: Final[Mapping[str, int]] = {}
"""Rooms above the goal in messages, with their limit."""


@cache
def texts_of(source: str) -> tuple[tuple[int, str, Kind], ...]:
    """Each text of a module with its line: docstrings, and other strings of several words.

    A string of one word is a name or a value, such as the system user `nobody`. The holes of an
    f-string are one character each, so that its words stay together.
    """
    return tuple(_texts_of(ast.parse(source)))


def _texts_of(module: ast.Module) -> Iterator[tuple[int, str, Kind]]:
    parts: set[int] = set()
    alone: set[int] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Expr):
            alone.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            parts |= {id(each) for each in node.values}
            pieces = [each.value if isinstance(each, ast.Constant) else "…" for each in node.values]
            text = "".join(map(str, pieces))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = "" if id(node) in parts else node.value
        else:
            continue
        if len(text.split()) > 1:
            yield node.lineno, text, "docstring" if id(node) in alone else "message"


def found_in(source: str) -> list[str]:
    """Each banned word in the texts of a module, with the line on which its text begins."""
    return [
        f"{line}: {' '.join(word[0].split())}"
        for line, text, _ in texts_of(source)
        for word in BANNED.finditer(" ".join(text.split()))
    ]


def _pages() -> tuple[Path, ...]:
    first = (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "STYLE.md", "SECURITY.md"))
    return (*first, *sorted((ROOT / "docs").rglob("*.md")))


def rooms() -> tuple[str, ...]:
    """The rooms of components/."""
    return tuple(sorted(path.parent.name for path in ROOT.glob("components/*/__init__.py")))


@cache
def room_texts(room: str, kind: Kind) -> tuple[str, ...]:
    """The docstrings of a room, or its messages."""
    shortest, folder = 5 if kind == "message" else 2, ROOT / "components" / room
    texts = [
        text
        for path in sorted(folder.rglob("*.py"))
        for _, text, found in texts_of(path.read_text())
        if found == kind
    ]
    for table in sorted(folder.rglob("findings.yaml")) if kind == "message" else ():
        rows: Mapping[str, Mapping[str, str]] = yaml.load(table.read_text(), LOADER)  # noqa: S506 - a safe one
        texts += [text for row in rows.values() for text in row.values()]
    return tuple(text for text in texts if len(text.split()) >= shortest)


@cache
def page_folders() -> Mapping[str, tuple[str, ...]]:
    """The paragraphs of the pages of each folder, without code."""
    found: dict[str, tuple[str, ...]] = {}
    for page in _pages():
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        folder = str(page.parent.relative_to(ROOT))
        found[folder] = (*found.get(folder, ()), *prose.split("\n\n"))
    return found


def count_forms(text: str) -> int:
    """How many stilted forms a text has."""
    return sum(len(form.findall(" ".join(text.split()))) for form in FORMS)


def rate(texts: Iterable[str]) -> float:
    """Stilted forms in 1,000 words."""
    whole = " ".join(texts)
    return 1000 * count_forms(whole) / max(1, len(re.findall(r"[A-Za-z']+", whole)))


def worst(texts: Iterable[str]) -> str:
    """The five texts to rewrite first."""
    first = sorted(texts, key=count_forms, reverse=True)[:5]
    return "rewrite: " + "\n".join(" ".join(text.split()) for text in first)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""As it\n was left, and nobody looked."""', ["1: As it was left", "1: nobody"]),
        ('x = f"{name} stands over {it}"', ["1: stands"]),
        ('raise E("a" "b is told")', ["1: told"]),
        ('users = {"nobody", "root"}', []),
        ("nobody = 1  # somebody", []),
        ('x = f"{name} understands a handoff"', []),
    ],
)
def test_what_is_found(source: str, found: list[str]) -> None:
    assert found_in(source) == found


def test_texts_of_the_product_are_plain() -> None:
    modules = [*(ROOT / "components").rglob("*.py"), *(ROOT / "stacks").rglob("*.py")]
    assert len(modules) > 250
    found = [
        f"{path.relative_to(ROOT)}:{each}"
        for path in modules
        for each in found_in(path.read_text())
    ]
    found += [
        text for room in rooms() for text in room_texts(room, "message") if BANNED.search(text)
    ]
    assert found == []


@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_plain(page: Path) -> None:
    text = " ".join(page.read_text().split())
    assert [word[0] for word in BANNED.finditer(text)] == []


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("The port has no VLAN.", 1),
        ("What of it is ours goes where there is none.", 4),
        ("If the port lacks a VLAN, write `vlan`.", 0),
    ],
)
def test_what_counts_as_stilted(text: str, forms: int) -> None:
    assert count_forms(text) == forms


@pytest.mark.parametrize("room", rooms())
@pytest.mark.parametrize(("kind", "limits"), [("docstring", DOCSTRINGS), ("message", MESSAGES)])
def test_a_room_keeps_its_limit(room: str, kind: Kind, limits: Mapping[str, int]) -> None:
    assert rate(room_texts(room, kind)) <= limits.get(room, GOAL[kind]), worst(
        room_texts(room, kind)
    )


@pytest.mark.parametrize("folder", sorted(page_folders()))
def test_a_folder_of_pages_keeps_its_limit(folder: str) -> None:
    texts = page_folders()[folder]
    assert rate(texts) <= GOAL["page"], worst(texts)


if __name__ == "__main__":
    for kind in ("docstring", "message"):
        for each in rooms():
            print(kind, each, ceil(rate(room_texts(each, kind))))  # noqa: T201
    for name, paragraphs in page_folders().items():
        print("pages", name, ceil(rate(paragraphs)))  # noqa: T201
