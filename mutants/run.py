"""Runs the tests against one changed function at a time, each in a process of its own.

Tests are collected once. Each of them runs once unchanged, while it is noted which functions it
calls. Those that are quick enough to be asked run once more unchanged in a child process: one that
fails or hangs there would seem to notice every change, and is left out. Then, for each change, a
child process gets the function's changed code and runs the tests that call it, the quickest first,
until one fails or their time is used up. So a rate is a lower bound.
"""

from __future__ import annotations

import gc
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import (
    _lru_cache_wrapper,  # pyright: ignore[reportPrivateUsage]
    partial,
)
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, NoReturn, TypeAlias

import pytest

from mutants.changes import Change, list_changes, with_notes

PASSED: Final = b"."
"""What a child writes for each test that passed."""
Name: TypeAlias = tuple[str, str]
"""File and qualified name of a function."""
SEED: Final = 1
"""Of the sample: the same changes at each run with the same one."""
BUDGET_S: Final = 6.0
"""A change that tests of so many seconds do not notice counts as one that none notices."""
_NOTE: Final = "__mutants_note__"
LEAST_S: Final = 5.0
"""A test runs at least so long before it counts as one that does not end."""
TIMES: Final = 10.0
"""And at most so many times as long as it took unchanged."""


@dataclass
class Outcome:
    """What became of the changes of one room."""

    noticed: int = 0
    survivors: list[tuple[Path, Change]] = field(default_factory=list[tuple[Path, Change]])
    uncalled: int = 0
    """Of the survivors, those whose function no test calls."""
    known: int = 0
    """Changes that there are, tried or not."""
    left_out: list[str] = field(default_factory=list[str])
    """Tests that pass, but not in a child process."""

    @property
    def total(self) -> int:
        """All changes that were tried."""
        return self.noticed + len(self.survivors)

    @property
    def rate(self) -> float:
        """Share of the changes that a test noticed, 0 to 1."""
        return self.noticed / self.total if self.total else 1.0


class Runner:
    """A plugin of pytest whose loop runs the tests once unchanged, then against every change."""

    def __init__(
        self,
        files: Sequence[Path],
        sample: int | None,
        budget_s: float = BUDGET_S,
        seed: int = SEED,
    ) -> None:
        """Prepare a run.

        Args:
            files: The modules that are changed; those that are imported.
            sample: How many changes are tried, chosen by chance; all by default.
            budget_s: What the tests of one change may take together, unchanged.
            seed: Of the sample. Survivors of one teach; another says how good the tests are.
        """
        self.files = [file.resolve() for file in files]
        self.outcome = Outcome()
        self._sample, self._budget_s, self._seed = sample, budget_s, seed
        self._functions: dict[Name, FunctionType] = {}
        self._cost_s: dict[str, float] = {}
        self._callers: dict[Name, list[pytest.Item]] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """The loop itself."""
        if session.testsfailed:
            raise session.Interrupted("tests could not be collected")
        gc.unfreeze()  # tests/conftest.py hides what was collected from the search for functions
        self._functions = dict(_functions(self.files))
        self._run_unchanged(session)
        if session.testsfailed:
            raise session.Interrupted("the tests fail without any change")
        changes = [
            (file, change)
            for file in self.files
            for change in list_changes(file.read_text())
            if (str(file), change.function) in self._functions
        ]
        self.outcome.known = len(changes)
        if self._sample is not None and self._sample < len(changes):
            changes = random.Random(self._seed).sample(changes, self._sample)  # noqa: S311 - no secret
        _forget_results()
        self._leave_out({(str(file), change.function) for file, change in changes})
        for number, (file, change) in enumerate(changes, 1):
            self._try(file, change)
            if number % 50 == 0:
                sys.stderr.write(f"  {number} of {len(changes)}: {self.outcome.rate:.0%}\n")
        return True

    def _run_unchanged(self, session: pytest.Session) -> None:
        called: set[Name] = set()
        with _noting(self._functions, called.add):
            for item in session.items:
                called.clear()
                started = time.monotonic()
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                self._cost_s[item.nodeid] = time.monotonic() - started
                for name in called:
                    self._callers.setdefault(name, []).append(item)
        for name, items in self._callers.items():
            self._callers[name] = self._within_budget(items)

    def _within_budget(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """The quickest tests, and at least one."""
        items = sorted(items, key=lambda item: self._cost_s[item.nodeid])
        sums = accumulate(self._cost_s[item.nodeid] for item in items)
        return items[: max(1, sum(spent <= self._budget_s for spent in sums))]

    def _leave_out(self, names: set[Name]) -> None:
        """Forget the tests that do not pass where changes are tried."""
        asked = {each.nodeid: each for name in names for each in self._callers.get(name, ())}
        rest = [*asked.values()]
        while rest:
            passed = self._count_passed(rest, lambda: None)
            self.outcome.left_out += [item.nodeid for item in rest[passed : passed + 1]]
            rest = rest[passed + 1 :]
        for name, items in self._callers.items():
            good = [each for each in items if each.nodeid not in self.outcome.left_out]
            self._callers[name] = good

    def _try(self, file: Path, change: Change) -> None:
        function = self._functions[str(file), change.function]
        code = _code_of(compile(change.tree, str(file), "exec"), change.function)
        callers = self._callers.get((str(file), change.function), [])

        def make() -> None:
            function.__code__ = code

        if self._count_passed(callers, make) < len(callers):
            self.outcome.noticed += 1
            return
        self.outcome.uncalled += not callers
        self.outcome.survivors.append((file, change))

    def _count_passed(self, items: Sequence[pytest.Item], change: Callable[[], None]) -> int:
        """How many tests pass in a child before one fails, does not end, or ends the child."""
        if not items:
            return 0
        told, tells = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(told)
            _run_changed(items, change, tells)
        os.close(tells)
        try:
            passed = 0
            for item in items:
                deadline_s = LEAST_S + TIMES * self._cost_s[item.nodeid]
                if not select.select([told], [], [], deadline_s)[0] or not os.read(told, 1):
                    break
                passed += 1
            return passed
        finally:
            os.close(told)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _note(note: Callable[[Name], None], file: str, name: str) -> None:
    note((file, name))


@contextmanager
def _noting(
    functions: Mapping[Name, FunctionType], note: Callable[[Name], None]
) -> Generator[None]:
    """Let each function say that it was called, in any thread; a profiler costs many times that."""
    codes = {name: function.__code__ for name, function in functions.items()}
    for file in {file for file, _ in functions}:
        compiled = compile(with_notes(Path(file).read_text(), _NOTE), file, "exec")
        for (where, name), function in functions.items():
            if where == file:
                function.__globals__[_NOTE] = partial(_note, note, file)
                function.__code__ = _code_of(compiled, name)
    try:
        yield
    finally:
        for name, function in functions.items():
            function.__code__ = codes[name]


def _run_changed(items: Sequence[pytest.Item], change: Callable[[], None], tells: int) -> NoReturn:
    """In the child: run the tests, and write for each that passed; whatever happens, end here."""
    try:
        items[0].config.pluginmanager.unregister(name="terminalreporter")
        change()
        for item in items:
            before = item.session.testsfailed
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if item.session.testsfailed > before:
                break
            os.write(tells, PASSED)
    finally:
        os._exit(0)


def _forget_results() -> None:
    """Empty every cache of results: what an unchanged function gave would hide its change."""
    for each in gc.get_objects():
        if isinstance(each, _lru_cache_wrapper):
            each.cache_clear()


def _functions(files: Sequence[Path]) -> Iterator[tuple[Name, FunctionType]]:
    """The functions and methods of the modules; what is within a function is a part of it."""
    wanted = {str(file) for file in files}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in wanted:
            name = each.__code__.co_qualname
            if "<" not in name:
                yield (each.__code__.co_filename, name), each


def _code_of(module: CodeType, name: str) -> CodeType:
    """The code object of a function of a module that was compiled."""
    for part in name.split("."):
        inner = (each for each in module.co_consts if isinstance(each, CodeType))
        module = next(each for each in inner if each.co_name == part)
    return module
