"""The command line that Onyx and MLNX-OS share: login, modes, errors, saving."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from components.fabric.parts import Field, IdentityQuestions
from components.fabric.systems.base import refusals
from components.remote.session_profile import SessionProfile

SESSION: Final = SessionProfile(
    # `HOST [standalone: master] (config) # `; the host name may be empty (public captures).
    prompt=r"(?P<own>.*?) ?\[[^\]\r\n]+\] (?:\([^)\r\n]*\) )?[>#] ",
    prepare=("no cli session paging enable",),
    enables=True,
)
IDENTITY: Final = IdentityQuestions(
    release=Field("show version", r"^Product release: +(\S+)"),
    # The model in `show version`, `x86onie`, is that of the processor's board (public captures).
    model=(Field("show inventory", r"^CHASSIS +(\S+)"),),
    # Captures of `show version` of Onyx 3.8.2004 and 3.9.0300 (sources.md#switch-identity).
    serial=Field("show version", r'^System serial num: +[\\"]*([^\\"\s]+)'),
    base_mac=Field("show version", r"^Host ID: +([0-9A-F]{12})"),
    # A user with the capability `monitor` cannot change the running configuration.
    tries=("configure terminal", "exit"),
)
_REFUSAL: Final = re.compile(r"^\r?(%.*(?:\n(?!\s*$)[^%\n].*)*)", re.MULTILINE)
"""A line that starts with `%`, and the hint under it (Ansible's terminal_stderr_re)."""
COMMON: Final[Mapping[str, Any]] = {
    "enter": ("enable",),
    "configure": ("configure terminal",),
    "save": "configuration write",
    "find_refusal": refusals(_REFUSAL),
    "session": SESSION,
    "identity": IDENTITY,
}
"""By field of `SwitchSystem`."""
