"""The texts that people read are plain English: a few words of a dialect are in none of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BANNED = re.compile(
    r"\b(told|somebody|nobody|stands|anew|a hand|as it was left)\b(?!-)", re.IGNORECASE
)
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "STYLE.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "components").rglob("*.md")),
)


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, messages and help of a module: each string of several words, with its line.

    A string of one word is a name or a value, such as the system user `nobody`. The holes of an
    f-string are one character each, so that its words stay together.
    """
    parts: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(each) for each in node.values}
            pieces = [each.value if isinstance(each, ast.Constant) else "…" for each in node.values]
            text = "".join(map(str, pieces))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = "" if id(node) in parts else node.value
        else:
            continue
        if len(text.split()) > 1:
            yield node.lineno, text


def found_in(source: str) -> list[str]:
    """Each banned word in the texts of a module, with the line on which its text begins."""
    return [
        f"{line}: {' '.join(word[0].split())}"
        for line, text in texts_of(source)
        for word in BANNED.finditer(" ".join(text.split()))
    ]


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
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_plain(page: Path) -> None:
    text = " ".join(page.read_text().split())
    assert [word[0] for word in BANNED.finditer(text)] == []
