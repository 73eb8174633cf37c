"""Tools: the shell texts that steps run on hosts. A step names one by its digest.

A tool is one text with several verbs. It lies on the host under its SHA-256
(`/var/lib/railyard/tools/<digest>/tool`), is sent once, and what a step runs is one line that reads
it, compares the digest of what it read, and runs exactly that (decision 15 in docs/decisions.md).
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Final, Literal

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
