"""The budgets of STYLE.md, held by a test: modules, functions, components, the entry point."""

import ast
import subprocess
from pathlib import Path

import pytest

from tests.docs.markdown import tracked

ROOT = Path(__file__).parents[1]
MODULE_LINES = 600
FUNCTION_LINES = 50
SPECIAL = {"component.py": 150, "__main__.py": 25}


PYTHON = tracked("*.py")
SCRIPTS = tracked("*.sh")
PRODUCT = [path for path in PYTHON if path.relative_to(ROOT).parts[0] != "tests"]


def test_something_is_measured() -> None:
    assert len(PRODUCT) > 30


@pytest.mark.parametrize("path", [*PYTHON, *SCRIPTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_module_is_within_its_budget(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    own = path.name if path.relative_to(ROOT).parts[0] != "lab" else ""
    assert lines <= SPECIAL.get(own, MODULE_LINES)


def _functions(path: Path) -> list[tuple[str, int]]:
    tree = ast.parse(path.read_text())
    return [
        (node.name, (node.end_lineno or node.lineno) - node.body[0].lineno + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_are_within_their_budget(path: Path) -> None:
    too_long = [(name, lines) for name, lines in _functions(path) if lines > FUNCTION_LINES]
    assert too_long == []


def test_names_say_what_a_module_is_about() -> None:
    banned = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}
    assert [path for path in PYTHON if path.name in banned] == []


def test_shell_scripts_are_clean() -> None:
    """Those of the product have a test each, in `hosts/test_scripts.py`."""
    product = {*(ROOT / "components").glob("*/scripts/*.sh")}
    scripts = [path for path in tracked("*.sh", ".ci/run") if path not in product]
    assert scripts
    done = subprocess.run(
        [ROOT / ".venv/bin/shellcheck", *scripts],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout == ""
