"""The changes of the mutation check: what they are, and that a run of them tells kinds of tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from mutants.changes import list_changes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("return a < b", {"a < b  ->  a <= b", "return a < b  ->  return None"}),
        (
            "return a == 'x'",
            {
                "a == 'x'  ->  a != 'x'",
                "a == 'x'  ->  a == 'x?'",
                "return a == 'x'  ->  return None",
            },
        ),
        ("a = 3 + b", {"3 + b  ->  3 - b", "3  ->  4"}),
        ("a = b and not c", {"b and (not c)  ->  b or not c", "not c  ->  c"}),
        ("if a:\n        b()", {"if a:  ->  if True:", "if a:  ->  if False:"}),
        ("return None", set[str]()),
        ("a = [b for b in c if b]", {" for b in c if b  ->   for b in c"}),
        ("a = b['k']", {"b['k']  ->  b['k?']"}),
        ("raise ValueError('said', 1)", set[str]()),
        ("'''A docstring.'''", set[str]()),
        ("a: Literal[1] = True", {"True  ->  False"}),
        ("return f'{a}' + b", {"return f'{a}' + b  ->  return None"}),
    ],
)
def test_each_construct_is_changed_in_its_ways(body: str, wanted: set[str]) -> None:
    found = list(list_changes(f"def f(a, b, c):\n    {body}\n"))
    assert {change.text for change in found} == wanted
    assert len(found) == len(wanted)


def test_a_change_is_in_one_place_alone() -> None:
    source = "def f(a):\n    return a < 1\n\n\ndef g(a):\n    return a < 1\n"
    changed = {ast.unparse(change.tree) for change in list_changes(source)}
    assert ast.unparse(ast.parse(source)) not in changed
    assert len(changed) == 6
    assert sum("def g(a):\n    return a < 1" in text for text in changed) == 3


RUN = """
import sys
from pathlib import Path
import pytest
from mutants.run import Runner
runner = Runner([Path("made.py")], None)
pytest.main(["-q", "-p", "no:cacheprovider", "--tb=no", "test_made.py"], plugins=[runner])
print(runner.outcome.noticed, len(runner.outcome.survivors), runner.outcome.uncalled)
for _, change in runner.outcome.survivors:
    print(change.function, change.text)
print("left out", *runner.outcome.left_out)
"""


def test_a_run_tells_what_tests_notice_from_what_they_do_not(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(
        "import functools\n\n\n"
        "@functools.cache\ndef limit(a):\n    return a < 10\n\n\n"
        "class Range:\n    def has(self, a):\n        while a > 5:\n            a -= 1\n"
        "        return a == 5\n\n\n"
        "def never(a):\n    return a + 1\n"
    )
    (tmp_path / "test_made.py").write_text(
        "import os\n\nfrom made import Range, limit\n\nPROCESS = os.getpid()\n\n\n"
        "def test_apart():\n    assert limit(9)\n    assert os.getpid() == PROCESS\n\n\n"
        "def test_limit():\n    assert limit(3)\n\n\n"
        "def test_range():\n    assert Range().has(7)\n    assert not Range().has(4)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    *_, counts = [line for line in done.stdout.splitlines() if line.replace(" ", "").isdigit()]
    survivors = done.stdout.split(counts, 1)[1].split("\n")
    assert counts == "7 6 3", done.stdout + done.stderr
    assert "limit a < 10  ->  a <= 10" in survivors
    assert "limit 10  ->  11" in survivors
    assert sum(line.startswith("never ") for line in survivors) == 3
    # One that fails wherever changes are tried would notice them all.
    assert "left out test_made.py::test_apart" in survivors
