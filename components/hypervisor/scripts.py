"""The shell texts of the hypervisor room, put together from the files in `scripts/`."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final, Literal

from components.hosts.scripts import strip_comments

ScriptName = Literal["observe", "converge", "undo", "reboot"]
_PARTS: Final = ("input", "reading", "writing")


@cache
def _file(name: str) -> str:
    folder = resources.files("components.hypervisor").joinpath("scripts")
    return strip_comments(folder.joinpath(f"{name}.sh").read_text("utf-8"))


@cache
def script_text(name: ScriptName, deadline_s: float) -> str:
    """One script as it is sent, complete in itself: the whole command of one SSH exec.

    ESXi logs root in directly and has no `sudo`; and only from some release on a `timeout` with
    the usual options: the script ends itself.

    Args:
        name: The script.
        deadline_s: Whole seconds after which it ends itself; it says what was done until then.
    """
    text = "".join(_file(part) for part in (*_PARTS, name))
    return f"deadline_s={int(deadline_s)}\n{text}"
