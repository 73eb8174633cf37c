"""The budgets of STYLE.md, held by a test: modules, functions, components, the entry point."""

import ast
import subprocess
from pathlib import Path

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


def test_modules_are_within_their_budget() -> None:
    too_long: dict[str, int] = {}
    for path in (*PYTHON, *SCRIPTS):
        lines, name = len(path.read_text().splitlines()), path.relative_to(ROOT)
        if lines > SPECIAL.get(path.name if name.parts[0] != "lab" else "", MODULE_LINES):
            too_long[str(name)] = lines
    assert too_long == {}


def _functions(path: Path) -> list[tuple[str, int]]:
    tree = ast.parse(path.read_text())
    return [
        (node.name, (node.end_lineno or node.lineno) - node.body[0].lineno + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_functions_are_within_their_budget() -> None:
    too_long = {
        f"{path.relative_to(ROOT)}: {name}": lines
        for path in PRODUCT
        for name, lines in _functions(path)
        if lines > FUNCTION_LINES
    }
    assert too_long == {}


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
