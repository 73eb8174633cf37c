"""The tool of the payload room, put together from the files in `scripts/`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final, Literal

from components.core.errors import Bug
from components.remote.tools import Tool, ToolCall, assemble, linux_text, shell_lines

Verb = Literal["observe", "converge", "undo", "build", "build_undo", "store", "store_undo"]
_PARTS: Final[Mapping[Verb, tuple[str, ...]]] = {
    "observe": ("input", "reading"),
    "converge": ("input", "reading", "registry", "writing"),
    "undo": ("input", "reading"),
    "build": ("input", "reading", "registry"),
    "build_undo": ("input", "reading"),
    "store": (),
    "store_undo": (),
}
"""Verb to the parts that it starts with, in order."""
_NAME_LINE: Final = "container=mpicont #"
"""Where the forced command says which container it is for."""


@cache
def _file(folder: str, name: str) -> str:
    return resources.files("components.containers").joinpath(folder, name).read_text("utf-8")


def dockerfile_text() -> str:
    """The multi-node image; what differs from site to site are its build arguments."""
    return _file("image", "Dockerfile")


@cache
def _mpicont() -> str:
    text = _file("scripts", "mpicont.sh")
    if text.count(_NAME_LINE) != 1:
        raise Bug(f"mpicont.sh must hold {_NAME_LINE!r} once")
    return text


def mpicont_text(container: str) -> str:
    """The forced command for one container, as it is installed, comments included.

    Raises:
        Bug: The file no longer says where the container's name goes.
    """
    return _mpicont().replace(_NAME_LINE, f"container={container} #")


def short_digest(text: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256, as the scripts print it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def containers_tool() -> Tool:
    """Everything that is run on a host for its containers."""
    verbs = {
        verb: "".join(_file("scripts", f"{part}.sh") for part in (*parts, verb))
        for verb, parts in _PARTS.items()
    }
    return assemble(
        "containers",
        (
            linux_text(),
            shell_lines("mpicont_lines", _mpicont()),
            shell_lines("dockerfile_lines", dockerfile_text()),
        ),
        verbs,
    )


def containers_call(verb: Verb, **arguments: str) -> ToolCall:
    """One verb of the tool of this room.

    Args:
        verb: Which.
        arguments: Shell variables that are set before it.
    """
    words = tuple(f"{key}={value}" for key, value in sorted(arguments.items()))
    return ToolCall(containers_tool(), verb, words)
