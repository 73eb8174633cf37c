"""The state of one host: the same flat `key=value` form for wanted, actual and recorded.

Keys are dotted, values hold no newline. A key with a PCI address belongs to that PF:
`nic.0000:05:00.0.mtu_bytes`. Scripts read and print exactly this form, so that one comparison
serves converge, observe, drift and undo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from components.core.difference import Difference, diff_settings
from components.core.errors import DeviceError


@dataclass(frozen=True, slots=True)
class HostState:
    """A host's settings, sorted by key."""

    values: Mapping[str, str]

    def render(self) -> str:
        """Sorted `key=value` lines, one setting a line, with a newline at the end."""
        return "".join(f"{key}={value}\n" for key, value in sorted(self.values.items()))


def parse_state(text: str) -> HostState:
    """Read `key=value` lines; empty lines and `#` comments are passed over.

    Raises:
        DeviceError: A line has no `=`.
    """
    values: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        key, sign, value = line.partition("=")
        if not sign:
            raise DeviceError(f"the host answered {line!r} where a key=value line was expected")
        values[key] = value
    return HostState(values)


def split_key(key: str) -> tuple[str, str]:
    """What a key belongs to, and its setting: `nic 0000:05:00.0`, `mtu_bytes`."""
    if key.startswith("nic."):
        pci, _, setting = key.removeprefix("nic.").rpartition(".")
        return f"nic {pci}", setting
    if key.startswith("vf."):
        vf, _, setting = key.removeprefix("vf.").rpartition(".")
        pci, _, number = vf.rpartition(".")
        return f"VF {number} of {pci}", setting
    where, _, setting = key.rpartition(".")
    return where or "host", setting


def diff_states(actual: HostState, desired: HostState) -> tuple[Difference, ...]:
    """The wanted settings that the host does not have; keys we do not own are not compared."""
    return diff_settings(
        {split_key(key): value for key, value in actual.values.items()},
        {split_key(key): value for key, value in desired.values.items()},
    )
