"""The texts of the judge's checks: each is used, and gets the values of its braces."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from components.acceptance.judge.verdict import row

ROOT = Path(__file__).parents[2] / "components"
TEXTS: dict[str, dict[str, str]] = yaml.safe_load(
    (ROOT / "acceptance/judge/checks.yaml").read_text()
)
FILES = sorted((*ROOT.glob("acceptance/**/*.py"), ROOT / "submit/follow.py"))


def words(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def rows() -> Iterator[ast.Call]:
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield from [node] if node.func.id in {"row", "row_of"} else []


def literals(node: ast.expr) -> set[str]:
    return {
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def test_each_check_is_used() -> None:
    used = {text for file in FILES for text in literals(ast.parse(file.read_text()))}  # type: ignore[arg-type]
    assert [name for name in TEXTS if name not in used] == []


@pytest.mark.parametrize("call", rows(), ids=lambda call: f"line {call.lineno}")
def test_a_finding_gets_the_values_of_its_texts(call: ast.Call) -> None:
    (check, *_), given = call.args, {each.arg for each in call.keywords}
    assert not isinstance(check, ast.Constant) or check.value in TEXTS
    for name in literals(check) & {*TEXTS}:
        needed = {word for text in TEXTS[name].values() for word in words(text)}
        assert None in given or needed == given


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(KeyError):
        row("no such check", "passed", "")
