"""The shell texts of the hosts room, put together from the files in `scripts/`."""

from __future__ import annotations

import hashlib
import shlex
from functools import cache
from importlib import resources
from typing import Final, Literal

ScriptName = Literal["observe", "converge", "undo", "verify", "discover", "maintain"]
_PARTS: Final = (
    "input",
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
    "kernel",
    "pci",
    "routing",
    "docker",
    "service",
    "reading",
    "writing",
)
"""The parts that each script but `discover` starts with, in order."""


@cache
def _file(name: str) -> str:
    return resources.files("components.hosts").joinpath("scripts", name).read_text("utf-8")


def strip_comments(text: str) -> str:
    """Drop comment lines and empty lines: what travels to every host is kept in the state.

    A line of a here-document or of awk that starts with `#` would be dropped too; the scripts
    hold none.
    """
    lines = (line for line in text.splitlines() if line.strip())
    return "".join(f"{line}\n" for line in lines if not line.lstrip().startswith("#"))


def _main(name: str) -> str:
    """The text of one script without its parts."""
    return strip_comments(_file(f"{name}.sh"))


@cache
def library_text() -> str:
    """How every setting is read and written."""
    return "".join(strip_comments(_file(f"{part}.sh")) for part in _PARTS)


@cache
def look_text() -> str:
    """How the host's cards and GPUs are looked at; no other script changes or needs them."""
    return strip_comments(_file("look.sh"))


@cache
def boot_script_text() -> str:
    """What `railyard-nics.service` runs at each boot of a host."""
    head = "# Written by Railyard; railyard-nics.service runs it at each boot.\n"
    return head + library_text() + _main("boot")


@cache
def boot_unit_text() -> str:
    """The unit that makes the settings of the cards outlive a reboot."""
    return _file("railyard-nics.service")


@cache
def script_text(name: ScriptName) -> str:
    """One script as it is sent, complete in itself.

    `converge` carries the parts as a text, because it also installs them for the boot unit.
    """
    if name == "discover":
        return look_text() + _main(name)
    if name == "observe":
        return library_text() + look_text() + _main(name)
    if name != "converge":
        return library_text() + _main(name)
    return (
        _quoted("library", library_text())
        + _quoted("boot_unit_text", boot_unit_text())
        + _quoted("boot_main", _main("boot"))
        + "boot_script_text='# Written by Railyard; railyard-nics.service runs it at each boot.'\n"
        + 'boot_script_text="$boot_script_text\n$library\n$boot_main"\n'
        + 'eval "$library"\n'
        + _main("converge")
    )


def _quoted(variable: str, text: str) -> str:
    """No here-document: bash keeps a long one in a file of /tmp, and goes on where that is full."""
    return f"{variable}={shlex.quote(text.rstrip())}\n"


def boot_files_digest(config: str) -> str:
    """The digest that a host reports for its three boot files.

    Args:
        config: Content of `/etc/railyard/nics.conf`.

    Returns:
        The first 16 hexadecimal digits of the SHA-256 of unit, script and configuration together.
    """
    together = boot_unit_text() + boot_script_text() + config
    return hashlib.sha256(together.encode()).hexdigest()[:16]
