"""Which tests pytest collects, and with which marks.

A run of all tests collects most of them itself; a file of which it did not is asked on its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Final

import pytest

from tests.docs.markdown import ROOT

_MAIN: Final = "import sys; from tests.docs.collected import main; sys.exit(main(sys.argv[1:]))"
_SEEN: dict[str, frozenset[str]] = {}
"""Marks of each test that this process has collected, by its name without parameters."""


def see(item: pytest.Item) -> None:
    """Keep a test that was collected, whether this stage runs it or not."""
    _SEEN[item.nodeid.partition("[")[0]] = frozenset(mark.name for mark in item.iter_markers())


def collect(tests: Iterable[str]) -> dict[str, frozenset[str]]:
    """Marks of some tests, by their names without parameters; one that is not there has none."""
    wanted = set(tests)
    files = {name.partition("::")[0] for name in wanted - _SEEN.keys()}
    more = _ask(files) if files else {}
    return {name: marks for name, marks in (_SEEN | more).items() if name in wanted}


def _ask(files: Iterable[str]) -> dict[str, frozenset[str]]:
    done = subprocess.run(
        [sys.executable, "-c", _MAIN, *sorted(files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: frozenset(marks) for name, marks in found.items()}


def main(files: Sequence[str]) -> int:
    """Collect some files, and print what was seen as the last line."""
    status = pytest.main(["-q", "-p", "no:cacheprovider", "--collect-only", *files])
    sys.stdout.write("\n" + json.dumps({name: sorted(marks) for name, marks in _SEEN.items()}))
    return int(status)
