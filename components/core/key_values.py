"""The state of one host: one flat `key=value` form for wanted, actual and recorded states.

Keys are dotted, values hold no newline. A key with a PCI address belongs to that PF:
`nic.0000:05:00.0.mtu_bytes`. Scripts read and print exactly this form, so one comparison serves
converge, observe, drift and undo.

A step's stdin, and therefore state and previews, uses a short form. If all cards of a host share a
setting, it is one line, `nic.*.mtu_bytes=9000`, for every card that another line names. If all VFs
of a card share one, it is `vf.0000:05:00.0.*.trust=on`, for as many VFs as the card's `vfs` counts.
Parsing expands both again, here and in `hosts/scripts/input.sh`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict

from components.core.difference import Difference, diff_settings
from components.core.errors import Bug, DeviceError
from components.core.settings import Setting, texts

_CARD: Final = "nic."
_BOOT_FILES: Final = "unit.railyard-nics.files"
_EVERY: Final = "nic.*."
"""Begins the key of a setting that all cards share; it sorts before the lines of single cards."""
_PENDING: Final = "pending."
"""Begins the key of work that waits on a host: here the last of two equal keys wins."""
_MOST: Final = 4_000_000
"""Characters of one state: 16 cards of 128 VFs with 10 settings each need about 800,000."""
_VF: Final = "vf."
_EVERY_VF: Final = ".*."
"""Comes between card and setting in the key of a setting that all VFs of the card share."""


def _split_card(key: str) -> tuple[str, str]:
    pci, _, setting = key.removeprefix(_CARD).rpartition(".")
    return pci, setting


def _split_vf(key: str) -> tuple[str, str, str]:
    vf, _, setting = key.removeprefix(_VF).rpartition(".")
    pci, _, number = vf.rpartition(".")
    return pci, number, setting


def split_key(key: str) -> tuple[str, str]:
    """Split a key into its owner and its setting: `nic 0000:05:00.0`, `mtu_bytes`."""
    if key.startswith(_CARD):
        pci, setting = _split_card(key)
        return f"nic {pci}", setting
    if key.startswith(_VF):
        pci, number, setting = _split_vf(key)
        return f"VF {number} of {pci}", setting
    where, _, setting = key.rpartition(".")
    return where or "host", setting


class HostState(BaseModel):
    """The settings of a host, hypervisor or container by key: one map of `core.settings`."""

    model_config = ConfigDict(frozen=True)

    values: Annotated[dict[str, str], Setting("own", split=split_key)] = {}

    def __init__(self, values: Mapping[str, str] = {}) -> None:
        """Take the settings as a mapping."""
        super().__init__(values=values)

    def render(self) -> str:
        """Sorted `key=value` lines, one setting a line, with a newline at the end.

        Bug: a value has a line break, which would add another setting to those that root applies.
        """
        return "".join(_line(key, value) for key, value in sorted(self.values.items()))

    def render_short(self) -> str:
        """Render with one line for a setting that all cards, or all VFs of a card, share.

        The order serves readers of a preview, which shows two lines around each change: the MTUs of
        all cards, which change most, come first, then the digest of the boot unit's files, which
        changes with every line of a card, then the rest by key.
        """
        joined = _join_cards(_join_vfs(self.values))
        return "".join(_line(key, joined[key]) for key in sorted(joined, key=_place))


def parse_state(text: str) -> HostState:
    """Read `key=value` lines, short or not; skip empty lines and `#` comments.

    DeviceError: the text is larger than 4 MB, a line has no `=`, a key other than `pending.` occurs
    twice, a line for all cards comes without any card, or one for all VFs for a card without VFs.
    """
    if len(text) > _MOST:
        raise DeviceError(f"the host answered {len(text):,} characters; at most {_MOST:,} are read")
    values: dict[str, str] = {}
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        key, sign, value = line.removesuffix("\r").partition("=")
        if not sign:
            raise DeviceError(f"the host answered {line[:200]!r} instead of a key=value line")
        if key in values and not key.startswith(_PENDING):
            both = f"{values[key][:200]!r} and {value[:200]!r}"
            raise DeviceError(f"the host answered {key[:200]!r} twice: {both}")
        values[key] = value
    return HostState(_parted(values))


def _line(key: str, value: str) -> str:
    if not {"\n", "\r", "\0"}.isdisjoint(key + value):
        raise Bug(f"the setting {key!r} has a line break in it: {value[:200]!r}")
    return f"{key}={value}\n"


def _place(key: str) -> tuple[str, int, str]:
    if key == _BOOT_FILES:
        return ("", 1, key)
    is_mtu = key.startswith(_EVERY) and key.endswith("mtu_bytes")
    return ("" if is_mtu else key, 0, key)


def _join_cards(values: Mapping[str, str]) -> Mapping[str, str]:
    """Join a setting of all cards into one key if each card has it with the same value.

    If a card would then appear in no line, one such setting stays with each card.
    """
    own: dict[str, dict[str, str]] = {}
    for key, value in values.items():
        if key.startswith(_CARD):
            pci, setting = _split_card(key)
            own.setdefault(setting, {})[pci] = value
    cards = {pci for found in own.values() for pci in found}
    if len(cards) < 2:  # noqa: PLR2004 - one card has nothing in common with another
        return values
    alike = {name for name, by in own.items() if len(by) == len(cards) and len({*by.values()}) == 1}
    if {pci for name in own.keys() - alike for pci in own[name]} != cards:
        alike.discard(min(alike))
    left = {
        key: value
        for key, value in values.items()
        if not key.startswith(_CARD) or _split_card(key)[1] not in alike
    }
    return left | {f"{_EVERY}{name}": next(iter(own[name].values())) for name in alike}


def _parted(values: dict[str, str]) -> dict[str, str]:
    """Expand the lines for all cards, then those for all VFs of a card."""
    own = {key: value for key, value in values.items() if not key.startswith(_EVERY)}
    shared = {key.removeprefix(_EVERY): values[key] for key in values.keys() - own.keys()}
    cards = {_split_card(key)[0] for key in own if key.startswith(_CARD)}
    if shared and not cards:
        raise DeviceError(f"{_EVERY}{min(shared)} is of all cards, and no line names a card")
    of_cards = {f"{_CARD}{pci}.{name}": text for pci in cards for name, text in shared.items()}
    values = of_cards | own
    for key in [key for key in values if key.startswith(_VF) and _EVERY_VF in key]:
        pci, _, setting = key.removeprefix(_VF).partition(_EVERY_VF)
        numbers = _vf_numbers(values, pci)
        if not numbers:
            raise DeviceError(f"{key} applies to all VFs, but the card has zero VFs")
        value = values.pop(key)
        values |= {f"{_VF}{pci}.{number}.{setting}": value for number in numbers}
    return values


def _join_vfs(values: Mapping[str, str]) -> Mapping[str, str]:
    """Join a setting of all VFs of a card into one key if each VF has it with the same value."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in values.items():
        if key.startswith(_VF):
            pci, number, setting = _split_vf(key)
            found.setdefault((pci, setting), {})[number] = value
    left = dict(values)
    for (pci, setting), by in found.items():
        alike = len({*by.values()}) == 1 and len(by) > 1
        if alike and by.keys() == {*_vf_numbers(values, pci)}:
            for number in by:
                del left[f"{_VF}{pci}.{number}.{setting}"]
            left[f"{_VF}{pci}{_EVERY_VF}{setting}"] = by["0"]
    return left


def _vf_numbers(values: Mapping[str, str], pci: str) -> list[str]:
    """The numbers of the VFs that the card's `vfs` asks for."""
    count = values.get(f"{_CARD}{pci}.vfs", "")
    return [str(number) for number in range(int(count))] if count.isdecimal() else []


def diff_states(actual: HostState, desired: HostState) -> tuple[Difference, ...]:
    """Compare the wanted settings with the host's; other keys are not compared."""
    return diff_settings(texts(actual), texts(desired))
