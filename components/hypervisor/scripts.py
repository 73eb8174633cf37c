"""The tool of the hypervisor room, put together from the files in `scripts/`."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final, Literal

from components.remote.tools import Tool, ToolCall, assemble

Verb = Literal["observe", "converge", "undo", "reboot", "place"]
_PARTS: Final = ("input", "reading", "writing")
_VERBS: Final[tuple[Verb, ...]] = ("observe", "converge", "undo", "reboot", "place")


@cache
def _file(name: str) -> str:
    folder = resources.files("components.hypervisor").joinpath("scripts")
    return folder.joinpath(f"{name}.sh").read_text("utf-8")


@cache
def hypervisor_tool() -> Tool:
    """Everything that is run on an ESXi host.

    ESXi logs root in directly and has no `sudo`; and only from some release on a `timeout` with
    the usual options: the tool ends itself after `deadline_s=`, and says what was done until then.
    """
    verbs = {verb: _file(verb) for verb in _VERBS}
    return assemble("hypervisor", tuple(map(_file, _PARTS)), verbs)


def hypervisor_call(verb: Verb) -> ToolCall:
    """One verb of the tool for ESXi hosts."""
    return ToolCall(hypervisor_tool(), verb)
