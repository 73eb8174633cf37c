"""The shell texts of the hosts room, put together from the files in `scripts/`."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Final, Literal

from components.hosts.keys.shell import keys_text
from components.remote.tools import (
    Tool,
    ToolCall,
    assemble,
    linux_text,
    shell_lines,
    strip_comments,
)

Verb = Literal["observe", "converge", "undo", "verify", "maintain", "boot"]
_PARTS: Final = (
    "driver",
    "driver_checks",
    "driver_signing",
    "driver_build",
    "driver_repository",
    "firmware",
    "firmware_set",
    "sriov",
    "vfs",
    "qos",
    "marks",
    "registers",
    "kernel",
    "pci",
    "routing",
    "docker",
    "names",
    "service",
    "reading",
    "writing",
)
"""The parts that every verb starts with, after `input` and the table of keys, in order."""
_BOOT_HEAD: Final = "# Written by Railyard; railyard-nics.service runs it at each boot.\nset boot\n"
"""`set` makes the verb, as the line of a step does."""


@cache
def _file(name: str) -> str:
    return resources.files("components.hosts").joinpath("scripts", name).read_text("utf-8")


@cache
def host_tool() -> Tool:
    """Everything that is run on a Linux host to read it and to change its settings.

    The boot unit runs a copy of the whole tool: what it needs outlives every newer version.
    """
    head = shell_lines("boot_unit", boot_unit_text()) + shell_lines("boot_head", _BOOT_HEAD)
    return assemble(
        "host",
        (
            linux_text(),
            _file("input.sh"),
            keys_text(),
            *(_file(f"{part}.sh") for part in _PARTS),
            head,
        ),
        {
            "observe": _file("look.sh") + _file("observe.sh"),
            **{verb: _file(f"{verb}.sh") for verb in ("converge", "undo", "verify", "maintain")},
            "boot": _file("boot.sh"),
        },
    )


def host_call(verb: Verb) -> ToolCall:
    """One verb of the tool for Linux hosts."""
    return ToolCall(host_tool(), verb)


@cache
def look_text() -> str:
    """How the host's cards and GPUs are looked at."""
    return strip_comments(_file("look.sh"))


@cache
def discover_text() -> str:
    """How `railyard discover` looks at a host before it is in the file; sent as it is."""
    return look_text() + strip_comments(_file("discover.sh"))


@cache
def boot_script_text() -> str:
    """What `railyard-nics.service` runs at each boot of a host."""
    return _BOOT_HEAD + host_tool().text


@cache
def boot_unit_text() -> str:
    """The unit that makes the settings of the cards outlive a reboot."""
    return _file("railyard-nics.service")


def boot_files_digest(config: str) -> str:
    """The digest that a host reports for its three boot files."""
    together = boot_unit_text() + boot_script_text() + config
    return hashlib.sha256(together.encode()).hexdigest()[:16]
