"""Every row of a `findings.yaml` has a caller, and its callers give the words in its braces."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

COMPONENTS: Final = Path(__file__).parents[2] / "components"
TABLES: Final = sorted(COMPONENTS.rglob("findings.yaml"))
MAKERS: Final = frozenset(
    {"finding_of", "fault_text", "lack", "case.lack", "find", "_finding", "_refused"}
)
OF_CASE: Final = frozenset({"device", "manager", "clean", "mend", "services", "old", "new"})
"""Words that a function between adds: device, commands of a package manager, names of a rename."""


def texts_in(tree: ast.AST) -> Iterator[str]:
    """Yield the constants, among them rows and keys of words, and the names of arguments."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value
        elif isinstance(each, ast.keyword) and each.arg:
            yield each.arg


def callers_in(tree: ast.AST) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the row of each call that names all its words, and the words of its function."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            words = frozenset(texts_in(function))
            calls = (each for each in ast.walk(function) if isinstance(each, ast.Call))
            for call in (each for each in calls if ast.unparse(each.func) in MAKERS):
                rows = (each for each in call.args[:3] if isinstance(each, ast.Constant))
                has_all = all(each.arg for each in call.keywords)
                yield from ((str(row.value), words) for row in rows if has_all)


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.parent.name)
def test_each_row_has_a_caller_that_gives_all_its_words(table: Path) -> None:
    rows: dict[str, dict[str, str]] = yaml.safe_load(table.read_text())
    trees = [ast.parse(path.read_text()) for path in table.parent.glob("*.py")]
    everywhere = frozenset(text for tree in trees for text in texts_in(tree))
    callers = [each for tree in trees for each in callers_in(tree)]
    assert rows
    for row, texts in rows.items():
        fields = (string.Formatter().parse(text) for text in texts.values())
        wanted = {re.split(r"[.\[]", word)[0] for each in fields for _, word, _, _ in each if word}
        own = [words for name, words in callers if name == row]
        names = {row, row.replace("-", "_"), f"{row.partition('-')[0]}-"}
        assert not names.isdisjoint(everywhere), row
        for words in own or [everywhere]:
            assert wanted - OF_CASE <= words, (row, wanted - words)
