"""A bash login with the parts that people type at a switch: lists, pipes, groups, `>`, grep."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from lab.switches import neighbours

Output = tuple[str, int]
"""Output and exit status of a command."""
Runner = Callable[[list[str], str], Output]
"""Runs one simple command on the input of a pipe; returns its output and exit status."""
_OPERATORS: Final = {";", "&&", "||"}
_COMMENT: Final = re.compile(r"^\s*#.*\n?", re.MULTILINE)


class ShellError(Exception):
    """A line that is not a command list."""


@dataclass(slots=True)
class Shell:
    """One line after the other; the exit status of the last command stays."""

    runner: Runner
    files: Callable[[], dict[str, str]]
    home: str = "/root"
    status: int = 0
    pending: str = ""
    """The lines of a command that goes on: a quote is open, or `\\\\` or `&&` ends the last one."""
    _words: list[str] = field(default_factory=list[str])

    def run(self, line: str) -> str:
        """The output of a line; a ShellError if its quotes or groups do not match."""
        text = _COMMENT.sub("", line).replace("\\\n", "")
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            self._words = [*lexer]
        except ValueError as error:
            raise ShellError(str(error)) from error
        printed = self._list(run=True)
        if self._words:
            raise ShellError(f"unexpected {self._words[0]}")
        return printed

    def type_line(self, line: str) -> str:
        """Take one typed line; a command runs, as in `run`, once it is complete."""
        text = f"{self.pending}{line}"
        if text.endswith(("\\", "&&")) or text.count("'") % 2:
            self.pending = f"{text}\n"
            return ""
        self.pending = ""
        return self.run(text)

    def _list(self, *, run: bool) -> str:
        printed, wanted = "", run
        while self._words and self._words[0] != "}":
            printed += self._pipeline(run=wanted)
            operator = self._words.pop(0) if self._words and self._words[0] in _OPERATORS else ";"
            wanted = run and {"&&": self.status == 0, "||": self.status != 0}.get(operator, True)
        return printed

    def _pipeline(self, *, run: bool) -> str:
        """Run commands joined by `|`; the output of a failed one is not passed on."""
        negated = self._words[0] == "!"
        if negated:
            self._words.pop(0)
        shown, given = "", self._command("", run=run)
        while self._words and self._words[0] == "|":
            self._words.pop(0)
            if self.status:
                shown, given = shown + given, ""
            given = self._command(given, run=run)
        if negated and run:
            self.status = int(self.status == 0)
        return shown + given

    def _command(self, given: str, *, run: bool) -> str:
        if self._words[0] == "{":
            self._words.pop(0)
            printed = self._list(run=run)
            if not self._words:
                raise ShellError("a group has no end")
            self._words.pop(0)
            return printed
        words: list[str] = []
        while self._words and self._words[0] not in {*_OPERATORS, "|", "}"}:
            words.append(self._words.pop(0))
        return self._simple(words, given) if run and words else ""

    def _simple(self, words: list[str], given: str) -> str:
        words = [f"{self.home}{word[1:]}" if word.startswith("~/") else word for word in words]
        path = held = ""
        if "<<<" in words:
            at = words.index("<<<")
            given, words = f"{words[at + 1]}\n", words[:at]
        if words[-2:-1] in ([">"], [">>"]):
            *words, operator, path = words
            held = self.files().get(path, "") if operator == ">>" else ""
        words = [part.replace("$?", str(self.status)) for part in words]
        printed, self.status = self.runner(words, given)
        if printed and not printed.endswith("\n"):
            printed += "\n"
        if not path:
            return printed
        self.files()[path] = held + printed
        return ""


_BASIC: Final = re.compile(r"([|(){}+?])")
"""Characters without special meaning in a basic pattern."""
XARGS_FAILED: Final = 123
"""Exit status of xargs if a command that it ran has failed (its manual page)."""


def grep(words: list[str], given: str) -> Output:
    """`grep -q -x -v -c -E -F PATTERN` on the input of a pipe; 1 if no line matches."""
    flags = {letter for word in words[:-1] for letter in word.removeprefix("-")}
    pattern = words[-1]
    if "F" in flags:
        pattern = re.escape(pattern)
    elif "E" not in flags:
        pattern = _BASIC.sub(r"\\\1", pattern)
    search = re.compile(pattern).fullmatch if "x" in flags else re.compile(pattern).search
    found = [line for line in given.splitlines() if (search(line) is None) == ("v" in flags)]
    status = 0 if found else 1
    if "c" in flags:
        return f"{len(found)}\n", status
    return ("" if "q" in flags else "".join(f"{line}\n" for line in found)), status


def xargs(words: list[str], given: str, run: Callable[[list[str]], Output]) -> Output:
    """`xargs -r -n 1 COMMAND…`: once for each word of the input."""
    if words[:3] != ["-r", "-n", "1"]:
        return f"xargs: the lab does not know {' '.join(words)}\n", 1
    printed, failed = "", False
    for item in given.split():
        text, status = run([*words[3:], item])
        printed += text if not text or text.endswith("\n") else f"{text}\n"
        failed = failed or status != 0
    return printed, XARGS_FAILED if failed else 0


NOT_FOUND: Final = 127
"""bash's exit status for an unknown command."""


@dataclass(slots=True, eq=False)
class BashLogin:
    """The state of one login."""

    switch: Any
    host: str
    user: str
    open: bool = True
    changes: int = 0
    own_files: dict[str, str] = field(default_factory=dict[str, str])
    shell: Shell = field(init=False)

    def __post_init__(self) -> None:
        """Give the shell its commands."""
        self.shell = Shell(self.run_words, lambda: self.files, f"/home/{self.user}")

    @property
    def status(self) -> int:
        """Exit status of the last command."""
        return self.shell.status

    @property
    def files(self) -> dict[str, str]:
        """The files that users wrote, by path."""
        return self.own_files

    def run(self, line: str) -> str:
        """Run one line of commands and return their output."""
        if not line.strip():
            return ""
        try:
            return self.shell.type_line(line.strip())
        except ShellError as error:
            self.shell.status = 2
            return f"-bash: syntax error: {error}\n"

    def run_words(self, words: list[str], given: str = "") -> Output:
        """Run one simple command."""
        raise NotImplementedError

    def leave(self) -> Output:
        """End the shell."""
        self.open = False
        return "", 0

    def folders(self, words: list[str], *, root: bool) -> Output:
        """`ls`, `mkdir` and `rmdir`."""
        found = self.switch.stored.run_folders(words, root=root)
        self.switch.commit()
        return found

    def remove(self, words: list[str]) -> Output:
        """Delete a file that a user wrote."""
        names = [word for word in words if word != "-f"]
        gone = [self.files.pop(name, None) for name in names]
        if None in gone and "-f" not in words:
            return f"rm: cannot remove '{names[0]}': No such file or directory", 1
        return "", 0

    def vtysh(self, words: list[str]) -> Output:
        """Run the real vtysh, or answer its questions about sessions."""
        switch, text = self.switch, " ".join(("vtysh", *words))
        if refusal := switch.refuse(text):
            return f"{refusal}\n", 1
        if switch.frr is not None:
            status, printed = switch.frr.vtysh(*words)
            return printed, status
        found = neighbours.vtysh(words, switch.router_view(), switch.told())
        if found is None:
            switch.note_unmodelled(text)
            return "-bash: vtysh: command not found", NOT_FOUND
        return found, 0


BUILTINS: Final[dict[str, Callable[[Any, list[str]], Output]]] = {
    "echo": lambda _login, words: (" ".join(words) + "\n", 0),
    # The lab's counters move at once, so `sleep` can return immediately.
    **dict.fromkeys(("sleep", "true", "export"), lambda _login, _words: ("", 0)),
    "false": lambda _login, _words: ("", 1),
    **dict.fromkeys(("exit", "logout"), lambda login, _words: login.leave()),
    "rm": BashLogin.remove,
}
