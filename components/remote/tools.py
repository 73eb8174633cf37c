"""Tools: the shell texts that steps run on hosts. A step names one by its digest.

A tool is one text with several verbs. It lies on the host under its SHA-256
(`/var/lib/railyard/tools/<digest>/tool`), is sent once, and what a step runs is one line that reads
it, compares the digest of what it read, and runs exactly that (decision 15 in docs/decisions.md).

The texts lie on the machine that runs Pulumi too, for the process that sends them. So do the parts
of requests that every host's step would repeat, which then names them by digest.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from components.core.errors import UsageError
from components.core.to_json import HIDDEN

TOOLS_FOLDER: Final = "/var/lib/railyard/tools"
"""Of a Linux host."""
ESXI_TOOLS: Final = "/vmfs/volumes/*/railyard/tools"
"""On ESXi: on the datastore of the previous values, since its `/var/lib` is a RAM disk. A datastore
is listed by its name and by its UUID: either is the same folder."""
ToolName = Literal["host", "containers", "kubernetes", "hypervisor", "names", "peers"]


@dataclass(frozen=True, slots=True)
class Tool:
    """One text that lies on hosts: a program for their shell, or a list that a program reads."""

    name: ToolName
    digest: str
    """SHA-256 of the text, in hexadecimal."""
    text: str = field(repr=False, compare=False, metadata=HIDDEN)
    """Ends with exactly one newline, which `$(cat FILE)` takes away and the line adds again."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One verb of a tool, with its arguments: `key=value` words that are no desired state."""

    tool: Tool
    verb: str
    arguments: tuple[str, ...] = ()


def make_tool(name: ToolName, text: str) -> Tool:
    """A tool from its text; lines are ended as the text of a file."""
    whole = text.rstrip("\n") + "\n"
    return Tool(name, hashlib.sha256(whole.encode()).hexdigest(), whole)


def assemble(name: ToolName, shared: Sequence[str], verbs: Mapping[str, str]) -> Tool:
    """Put a program together: what every verb needs, then one branch a verb.

    Args:
        name: What steps and plans call it.
        shared: Texts that run first, in order.
        verbs: Verb to the text of its work; its functions are its own.
    """
    branches = "".join(f"{verb})\n{strip_comments(text)};;\n" for verb, text in verbs.items())
    refuse = "*) echo \"railyard: this tool has no '$verb'\" >&2 && exit 64 ;;\n"  # EX_USAGE
    head = "".join(strip_comments(text) for text in (_file("tool.sh"), *shared))
    return make_tool(name, f"{head}case $verb in\n{branches}{refuse}esac\n")


def shell_lines(function: str, text: str) -> str:
    """A function that prints a text; on one line, so that `strip_comments` takes nothing of it."""
    lines = " ".join(shlex.quote(line) for line in text.rstrip("\n").splitlines())
    return f"{function}() {{ printf '%s\\n' {lines}; }}\n"


def strip_comments(text: str) -> str:
    """Drop comment lines and empty lines: the text travels to every host.

    A line of a here-document or of awk that starts with `#` would be dropped too; the scripts
    hold none.
    """
    lines = (line for line in text.splitlines() if line.strip())
    return "".join(f"{line}\n" for line in lines if not line.lstrip().startswith("#"))


@cache
def _file(name: str) -> str:
    return resources.files("components.remote").joinpath("scripts", name).read_text("utf-8")


def linux_text() -> str:
    """What the tools for Linux hosts begin with: how a verb works, fails and takes the lock."""
    return _file("linux.sh")


def sending_script() -> str:
    """How tools are looked for, put in place and taken away on a host."""
    return strip_comments(_file("send.sh"))


def distinct(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Each tool once, by name and digest."""
    found = {tool.digest: tool for tool in tools}
    return tuple(sorted(found.values(), key=lambda tool: (tool.name, tool.digest)))


FOLDER: Final = Path(".railyard") / "tools"
"""Relative to the program's directory, as all that inner commands read."""
UNUSED_DAYS: Final = 400
"""How long a text stays that no run named: every stack of the folder that is updated once a year
keeps its own. A stack that is older gets its tools again from `pulumi up` (`load_tool`)."""
_DAY_S: Final = 86_400
_WRITTEN_BY_UP: Final = "  fix    run `pulumi up` in the folder of Pulumi.yaml, which writes it"


def keep_tools(tools: Iterable[Tool]) -> None:
    """Write each text under its digest, unless it is there.

    Raises:
        UsageError: The folder cannot be written.
    """
    for tool in tools:
        keep_text(tool.text)
    _prune()


def _prune() -> None:
    """Take away what no run has named for `UNUSED_DAYS`; a run marks what it names as new."""
    oldest = time.time() - UNUSED_DAYS * _DAY_S
    for path in FOLDER.glob("*"):
        with suppress(OSError):  # another run took it away, or the folder is not ours
            if path.stat().st_mtime < oldest:
                path.unlink()


def keep_text(text: str) -> str:
    """The same for a part of a request that several steps repeat."""
    digest = digest_of(text)
    path = FOLDER / digest
    if path.is_file() and _digest(path.read_bytes()) == digest:
        with suppress(
            OSError
        ):  # a folder that only another user writes holds the text all the same
            os.utime(path)
        return digest
    _write(path, text)
    return digest


def keep_current(name: str, text: str) -> None:
    """Write what the requests of a run share and what may change without any of them: by a name.

    Raises:
        UsageError: The folder cannot be written.
    """
    _write(FOLDER.parent / name, text)


def load_current(what: str, name: str) -> str:
    """What `keep_current` last wrote.

    Args:
        what: As the error names it.
        name: Of the file.

    Raises:
        UsageError: It is not there.
    """
    path = FOLDER.parent / name
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UsageError(
            f"{path}, which has {what}, is missing. Nothing was changed.\n{_WRITTEN_BY_UP}"
        ) from error


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, "utf-8")
        draft.replace(path)
    except OSError as error:
        raise UsageError(
            f"{path}: the tools for the hosts cannot be written: {error.strerror}.\n"
            "  fix    make the folder .railyard beside Pulumi.yaml writable"
        ) from error


@lru_cache(maxsize=8)
def digest_of(text: str) -> str:
    """SHA-256 in hexadecimal; a text that every host's step names is hashed once."""
    return _digest(text.encode())


def load_tool(name: str, digest: str) -> bytes:
    """The text of a tool.

    Raises:
        UsageError: No tool of that digest is here: another version of Railyard made the state.
    """
    text = _load(digest)
    if text is None:
        raise UsageError(
            f"the state names the tool {name} {digest}, and neither the host nor this version of"
            " Railyard has it. Nothing was changed.\n"
            "  fix    run `pulumi up`, which moves the host to the tools of this version; then"
            " `pulumi destroy` works. Or run it with the version that made the state"
        )
    return text


def load_text(what: str, digest: str) -> str:
    """A part of a request that `keep_text` kept.

    Args:
        what: As the error names it: `settings`.
        digest: By which the request names it.

    Raises:
        UsageError: No text of that digest is here.
    """
    text = _load(digest)
    if text is None:
        raise UsageError(
            f"the request names {what} {digest}, and {FOLDER / digest} is missing or altered."
            f" Nothing was changed.\n{_WRITTEN_BY_UP}"
        )
    return text.decode()


def _load(digest: str) -> bytes | None:
    try:
        text = (FOLDER / digest).read_bytes()
    except OSError:
        return None
    return text if _digest(text) == digest else None


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
