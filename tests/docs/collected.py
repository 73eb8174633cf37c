"""Which tests pytest collects, and with which marks: `python -m tests.docs.collected FILE ...`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence

import pytest

from tests.docs.markdown import ROOT


class _Collector:
    """Keeps what was collected."""

    def __init__(self) -> None:
        self.marks: dict[str, list[str]] = {}

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            name = item.nodeid.partition("[")[0]
            self.marks[name] = sorted({mark.name for mark in item.iter_markers()})


def collect(files: Iterable[str]) -> dict[str, frozenset[str]]:
    """Marks of each test of some files, by its name without parameters."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.collected", *sorted(set(files))],
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
    collector = _Collector()
    quiet = ["-q", "-p", "no:cacheprovider", "--collect-only"]
    status = pytest.main([*quiet, *files], plugins=[collector])
    sys.stdout.write("\n" + json.dumps(collector.marks) + "\n")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
