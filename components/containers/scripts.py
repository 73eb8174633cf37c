"""The shell texts of the payload room, put together from the files in `scripts/`."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final, Literal

from components.core.errors import Bug
from components.hosts.scripts import strip_comments

ScriptName = Literal["observe", "converge", "undo", "build", "build_undo", "store", "store_undo"]
_PARTS: Final[Mapping[ScriptName, tuple[str, ...]]] = {
    "observe": ("input", "reading"),
    "converge": ("input", "reading", "registry", "writing"),
    "undo": ("input", "reading"),
    "build": ("input", "reading", "registry"),
    "build_undo": ("input", "reading"),
    "store": (),
    "store_undo": (),
}
"""The parts that a script starts with, in order."""
_FENCE: Final = "RAILYARD_MPICONT"
_NAME_LINE: Final = "container=mpicont #"
"""Where the forced command says which container it is for."""


@cache
def _file(folder: str, name: str) -> str:
    return resources.files("components.containers").joinpath(folder, name).read_text("utf-8")


def dockerfile_text() -> str:
    """The multi-node image; what differs from site to site are its build arguments."""
    return _file("image", "Dockerfile")


def mpicont_text(container: str) -> str:
    """The forced command for one container, as it is installed, comments included.

    Raises:
        Bug: The file no longer says where the container's name goes.
    """
    text = _file("scripts", "mpicont.sh")
    if text.count(_NAME_LINE) != 1:
        raise Bug(f"mpicont.sh must hold {_NAME_LINE!r} once")
    return text.replace(_NAME_LINE, f"container={container} #")


def short_digest(text: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256, as the scripts print it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _body(name: ScriptName) -> str:
    return "".join(strip_comments(_file("scripts", f"{part}.sh")) for part in (*_PARTS[name], name))


def script_text(name: ScriptName, head: Mapping[str, str]) -> str:
    """One script as it is sent, complete in itself.

    Args:
        name: Which script.
        head: Shell variables that are set before it.
    """
    variables = "".join(f"{key}={shlex.quote(value)}\n" for key, value in sorted(head.items()))
    return variables + _body(name)


def with_mpicont(script: str, container: str) -> str:
    """A script that can install the forced command: its text stands before it."""
    text = mpicont_text(container)
    return f"mpicont_text=$(cat <<'{_FENCE}'\n{text}{_FENCE}\n)\n{script}"
