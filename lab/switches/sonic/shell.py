"""As much of bash as people type at a switch: lists, `&&`, `||`, groups and `>`: pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

Runner = Callable[[list[str]], tuple[str, int]]
"""Runs one simple command; returns what it printed and its exit status."""
_OPERATORS: Final = {";", "&&", "||"}


class ShellError(Exception):
    """A line that is no command list."""


@dataclass(slots=True)
class Shell:
    """One line after the other; the exit status of the last command stays."""

    runner: Runner
    write_file: Callable[[str, str], None]
    status: int = 0
    _words: list[str] = field(default_factory=list[str])

    def run(self, line: str) -> str:
        """Run a line and return what it prints.

        Raises:
            ShellError: The quotes or the groups of the line do not match.
        """
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            self._words = [*lexer]
        except ValueError as error:
            raise ShellError(str(error)) from error
        printed = self._list(run=True)
        if self._words:
            raise ShellError(f"unexpected {self._words[0]}")
        return printed

    def _list(self, *, run: bool) -> str:
        printed, wanted = "", run
        while self._words and self._words[0] != "}":
            printed += self._command(run=wanted)
            operator = self._words.pop(0) if self._words and self._words[0] in _OPERATORS else ";"
            wanted = run and {
                "&&": self.status == 0,
                "||": self.status != 0,
            }.get(operator, True)
        return printed

    def _command(self, *, run: bool) -> str:
        if self._words[0] == "{":
            self._words.pop(0)
            printed = self._list(run=run)
            if not self._words:
                raise ShellError("a group has no end")
            self._words.pop(0)
            return printed
        words: list[str] = []
        while self._words and self._words[0] not in {*_OPERATORS, "}"}:
            words.append(self._words.pop(0))
        return self._simple(words) if run and words else ""

    def _simple(self, words: list[str]) -> str:
        path = None
        if ">" in words:
            at = words.index(">")
            path, words = words[at + 1], words[:at]
        printed, self.status = self.runner([part.replace("$?", str(self.status)) for part in words])
        if printed and not printed.endswith("\n"):
            printed += "\n"
        if path is None:
            return printed
        self.write_file(path, printed)
        return ""
