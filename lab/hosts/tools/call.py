"""What an emulated tool is given and what it gives back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

from components.core.record import field, record
from lab.hosts.model import HostModel


@record
class ToolResult:
    """Exit status and output of a tool."""

    rc: int = 0
    out: str = ""
    err: str = ""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """Files that the tool writes in the host's own view, by absolute path."""


@record
class ToolCall:
    """One call of a tool inside of a lab host."""

    tool: str
    argv: tuple[str, ...]
    uid: int
    gid: int
    cwd: str
    model: HostModel
    root: Path
    """The host's own folders on the outer machine, to read its files."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    umask: int = 0o022
    stdin_text: Callable[[], str] = lambda: ""
    """The next line of the caller's input, empty at its end; a `Tool` asks for it before it changes
    anything, since it is begun again for each line (`InputWanted`)."""

    def unmodelled(self, result: ToolResult) -> ToolResult:
        """Record a call that the emulation does not know, and pass on the tool's error text."""
        self.model.unmodelled.append(" ".join((self.tool, *self.argv)))
        return result

    def host_path(self, path: str) -> Path:
        """Where a file of the host lies on the outer machine."""
        return self.root / path.lstrip("/")


class InputWanted(Exception):  # noqa: N818 - it is no error
    """A tool asks for a line of the caller's input that was not read yet."""


Tool = Callable[[ToolCall], ToolResult]
"""A tool whose answer is there at once, or as soon as its input is."""

AsyncTool = Callable[[ToolCall], Coroutine[None, None, ToolResult]]
"""A tool that waits for something: `systemctl start`, `sudo`."""

SignalQueue = asyncio.Queue[int]
"""Signals that the client of a tool got and passes on."""


def needs_root(call: ToolCall, text: str, rc: int = 1) -> ToolResult | None:
    """The tool's own refusal when the caller is not root."""
    return None if call.uid == 0 else ToolResult(rc, err=text)
