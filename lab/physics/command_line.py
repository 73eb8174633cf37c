"""Reads the command of a probe pod: the tool, its options, and the environment it names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from components.core.errors import UsageError
from components.core.record import record

_VARIABLE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|(\w+))")
_SUBSTITUTION = re.compile(r"\$\((?!\w+\))(?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_COMMENT = re.compile(r"(?m)^\s*#.*$")
_SEPARATORS = ";&|\n"
_UNKNOWN = "_"
"""Stands for what a command substitution would print."""
_SIZE = re.compile(r"^(\d+)([KMG]?)B?$", re.IGNORECASE)
_SIZE_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}
_SHELL_SCRIPT_ARGUMENTS = 3


@record
class ToolCall:
    """One call of a tool: what stood before its name, its name, its arguments."""

    before: tuple[str, ...]
    tool: str
    arguments: tuple[str, ...]


def find_tool(command: Sequence[str], env: Mapping[str, str], suffix: str) -> ToolCall:
    """Finds the tool that a pod's command runs, also inside `sh -c '…'`.

    Args:
        command: The container's command and arguments.
        env: The container's environment; `$(NAME)`, `${NAME}` and `$NAME` are replaced by it.
        suffix: What the tool's name ends with, for example `_perf` or `_bw`.

    Raises:
        UsageError: No such tool is called.
    """
    for words in reversed(_split_commands(command)):
        expanded = [_expand(word, env) for word in words]
        for index, word in enumerate(expanded):
            name = PurePosixPath(word).name
            if name.removesuffix("_mpi").endswith(suffix) and not name.startswith("-"):
                return ToolCall(tuple(expanded[:index]), name, tuple(expanded[index + 1 :]))
    raise UsageError(f"the probe's command runs no tool that the lab plays: {list(command)!r}")


def calls_tool(command: Sequence[str], name: str) -> bool:
    """Whether a command, or the script in it, calls a program of that name."""
    return any(
        PurePosixPath(word).name == name for words in _split_commands(command) for word in words
    )


def option_value(arguments: Sequence[str], *names: str) -> str | None:
    """The value of an option in any of its spellings: `-s 8`, `-s8`, `--size 8`, `--size=8`."""
    for index, word in enumerate(arguments):
        for name in names:
            if word == name and index + 1 < len(arguments):
                return arguments[index + 1]
            if name.startswith("--") and word.startswith(f"{name}="):
                return word.partition("=")[2]
    return None


def parse_size(text: str) -> int:
    """Bytes of `8`, `64K`, `1G` (binary units, as nccl-tests reads them).

    Raises:
        UsageError: The text is no size.
    """
    match = _SIZE.match(text)
    if match is None:
        raise UsageError(f"{text!r} is no size; expected for example 8, 64K or 1G")
    return int(match[1]) << _SIZE_UNITS[match[2].upper()]


def _split_commands(command: Sequence[str]) -> list[list[str]]:
    is_script = len(command) >= _SHELL_SCRIPT_ARGUMENTS and command[1] in ("-c", "-ec", "-lc")
    if not is_script:
        return [list(command)]
    return split_script(command[2])


def split_script(script: str) -> list[list[str]]:
    """The words of each simple command of a shell script; `$(command)` becomes one unknown word.

    Raises:
        UsageError: A quote does not end.
    """
    text = _SUBSTITUTION.sub(f"${_UNKNOWN}", _COMMENT.sub("", script.replace("\\\n", " ")))
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_SEPARATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise UsageError(f"the probe's script cannot be read: {error}: {script!r}") from error
    commands: list[list[str]] = [[]]
    for word in words:
        if set(word) <= set(_SEPARATORS):
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def _expand(word: str, env: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: env.get(match[1] or match[2] or match[3], match[0]), word)
