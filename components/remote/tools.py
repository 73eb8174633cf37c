"""Tools: the shell texts that steps run on hosts. A step refers to one by its digest.

A tool is one text with several verbs. It is sent once, and stored on the host under its SHA-256
(`/var/lib/railyard/tools/<digest>/tool`). A step runs one line that reads the text, verifies its
digest, and runs exactly that text (decision 15 in docs/decisions.md).

The machine that runs Pulumi also stores the texts, for the process that sends them. It also stores
parts of requests that every host's step would repeat; the requests then refer to them by digest.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from components.core.errors import UsageError
from components.core.record import field, record
from components.core.templates import fault_text
from components.core.to_json import HIDDEN

TOOLS_FOLDER: Final = "/var/lib/railyard/tools"
ESXI_TOOLS: Final = "/vmfs/volumes/*/railyard/tools"
"""Folder on ESXi: on the datastore with the previous values, since its `/var/lib` is a RAM disk.
The pattern may match a datastore by its name and by its UUID: both are the same folder."""
ToolName = Literal["host", "containers", "kubernetes", "hypervisor", "names", "peers"]
FOLDER: Final = Path(".railyard") / "tools"
"""Relative to the project folder, as all paths of inner commands."""
UNUSED_DAYS: Final = 400
"""Days to keep an unused text, so every stack of the folder that is updated once a year keeps its
tools. An older stack gets its tools again from `pulumi up` (`load_tool`)."""
_DAY_S: Final = 86_400


@record
class Tool:
    """A text on hosts: a program for their shell, or a list that a program reads."""

    name: ToolName
    digest: str
    """SHA-256 of the text, in hexadecimal."""
    text: str = field(repr=False, compare=False, metadata=HIDDEN)
    """Ends with exactly one newline, which `$(cat FILE)` removes and the line adds again."""


@record
class ToolCall:
    """One verb of a tool, with arguments: `key=value` words outside the desired state."""

    tool: Tool
    verb: str
    arguments: tuple[str, ...] = ()


def make_tool(name: ToolName, text: str) -> Tool:
    """Return a tool from its text, with exactly one newline at its end."""
    whole = text.rstrip("\n") + "\n"
    return Tool(name, hashlib.sha256(whole.encode()).hexdigest(), whole)


def assemble(name: ToolName, shared: Sequence[str], verbs: Mapping[str, str]) -> Tool:
    """Assemble a program: shared text in order, then one branch per verb with its own functions."""
    branches = "".join(f"{verb})\n{strip_comments(text)};;\n" for verb, text in verbs.items())
    refuse = "*) echo \"railyard: this tool has no '$verb'\" >&2 && exit 64 ;;\n"  # EX_USAGE
    head = "".join(strip_comments(text) for text in (_file("marks.sh"), _file("tool.sh"), *shared))
    return make_tool(name, f"{head}case $verb in\n{branches}{refuse}esac\n")


def shell_lines(function: str, text: str) -> str:
    """Return a function that prints a text, on one line to keep it from `strip_comments`."""
    lines = " ".join(shlex.quote(line) for line in text.rstrip("\n").splitlines())
    return f"{function}() {{ printf '%s\\n' {lines}; }}\n"


def strip_comments(text: str) -> str:
    """Drop comments and empty lines for the way; no here-document or awk has such lines."""
    lines = (line for line in text.splitlines() if line.strip())
    return "".join(f"{line}\n" for line in lines if not line.lstrip().startswith("#"))


@cache
def _file(name: str) -> str:
    return resources.files("components.remote").joinpath("scripts", name).read_text("utf-8")


def linux_text() -> str:
    """Return the start of the tools for Linux hosts: how a verb works, fails and takes the lock."""
    return _file("linux.sh")


@cache
def sending_script(name: Literal["send", "files"]) -> str:
    """Return the script that finds, stores and removes tools or files on a host."""
    return strip_comments("".join(map(_file, ("marks.sh", "receive.sh", f"{name}.sh"))))


def distinct(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Return each tool once, by name and digest."""
    found = {tool.digest: tool for tool in tools}
    return tuple(sorted(found.values(), key=lambda tool: (tool.name, tool.digest)))


def keep_tools(tools: Iterable[Tool]) -> None:
    """Write each missing text under its digest; UsageError if the folder cannot be written."""
    for tool in tools:
        keep_text(tool.text)
    # Remove texts unused for `UNUSED_DAYS`; each use renews a file's time.
    oldest = time.time() - UNUSED_DAYS * _DAY_S
    for path in FOLDER.glob("*"):
        with suppress(OSError):  # another run removed it, or the folder is not writable
            if path.stat().st_mtime < oldest:
                path.unlink()


def keep_text(text: str) -> None:
    """Write a part of a request that several steps repeat, as `keep_tools` does."""
    path = FOLDER / digest_of(text)
    if not path.is_file() or _digest(path.read_bytes()) != path.name:
        _write(path, text)
    with suppress(OSError):  # an unchanged text in another user's folder is enough
        os.utime(path)


def keep_current(name: str, text: str) -> None:
    """Write text that requests share and that may change without them, under a name."""
    _write(FOLDER.parent / name, text)


def load_current(what: str, name: str) -> str:
    """Return the last text of `keep_current`; UsageError, naming it `what`, if it is missing."""
    path = FOLDER.parent / name
    try:
        return path.read_text("utf-8")
    except OSError as error:
        text = fault_text(__file__, "text-missing", path=path, what=what)
        raise UsageError(text) from error


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, "utf-8")
        draft.replace(path)
    except OSError as error:
        text = fault_text(__file__, "unwritable", path=path, error=error)
        raise UsageError(text) from error


@lru_cache(maxsize=8)
def digest_of(text: str) -> str:
    """Return the SHA-256 in hexadecimal; the cache hashes a repeated text once."""
    return _digest(text.encode())


def load_tool(name: str, digest: str) -> str:
    """Return the text of a tool; UsageError if another Railyard version made the state."""
    return _load("unknown-tool", name, digest)


def load_text(what: str, digest: str) -> str:
    """Return a text that `keep_text` stored; UsageError, naming it `what`, if it is missing."""
    return _load("text-altered", what, digest)


def _load(row: str, what: str, digest: str) -> str:
    path = FOLDER / digest
    with suppress(OSError):
        if _digest(text := path.read_bytes()) == digest:
            return text.decode()
    raise UsageError(fault_text(__file__, row, what=what, digest=digest, path=path))


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
