"""Which cards hold firmware settings that wait for their next start, and what that start needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from components.core.key_values import HostState
from components.hosts.keys.ask import parameter_of

Needs = Literal["reboot", "power_cycle", "mlxfwreset"]
NOT_THERE: Final = frozenset({"absent", "unsupported", "unreadable", "unknown", "per_pf"})
"""What a host answers where there is no value: nothing that could wait."""
BACK: Final = "pending.back."
"""Begins where a setting goes that is ours no longer: `<now> -> <before Railyard>`."""
_NEEDS: Final[tuple[Needs, ...]] = ("reboot", "power_cycle", "mlxfwreset")
_WORDS: Final[dict[Needs, str]] = {
    "reboot": "a reboot",
    "power_cycle": "a power cycle (a warm reboot does not load it)",
    "mlxfwreset": "a reset of the card by mlxfwreset, or a power cycle (a reboot does not load it)",
}


@dataclass(frozen=True, slots=True)
class PendingBoot:
    """One firmware setting that a card takes on at its next start."""

    pci: str
    parameter: str
    """As mlxconfig names it."""
    current: str
    """What the card runs with; `hidden` where its firmware does not show it yet."""
    next: str
    """What it shall start with."""
    needs: Needs
    set: bool = False
    """It is set already, and only waits."""

    def __str__(self) -> str:
        """The setting in words, for a preview."""
        return (
            f"{self.parameter} of {self.pci}: {self.current} -> {self.next}, "
            f"needs {words_of(self.needs)}"
        )


def words_of(needs: Needs) -> str:
    """What a card waits for, in words."""
    return _WORDS[needs]


def needs_of(observed: HostState, pci: str) -> Needs:
    """What loads the settings of a card.

    `fw_needs` is what mlxconfig said when it set what waits; `fw_loads` is what the kind of card
    takes. Without either it is a reboot.
    """
    for fact in ("fw_needs", "fw_loads"):
        found = observed.values.get(f"nic.{pci}.{fact}", "")
        if found in _NEEDS:
            return found
    return "reboot"


def pending_firmware(observed: HostState, desired: HostState) -> tuple[PendingBoot, ...]:
    """The settings of ours that cards do not run with yet, sorted by card and setting.

    Args:
        observed: What the host has: `<key>` for the next start, `<key>_current` for this one.
        desired: What the file asks for. It may differ from both: then the next `pulumi up` sets
            it, and it waits from then on.

    Returns:
        One entry for each setting whose wanted value is not the current one. A setting that the
        card does not have is no entry: converge refuses it. Nor is one whose current value could
        not be read.
    """
    found: list[PendingBoot] = []
    for key, wanted in sorted(desired.values.items()):
        parameter, pci = parameter_of(key), _card(key)
        if not parameter:
            continue
        following = observed.values.get(key, "unknown")
        current = observed.values.get(f"{key}_current", "unknown")
        if following in NOT_THERE or current in NOT_THERE or current == wanted:
            continue
        needs = needs_of(observed, pci)
        found.append(PendingBoot(pci, parameter, current, wanted, needs, following == wanted))
    for key, current, before in released_settings(observed.values, desired.values):
        parameter, pci = parameter_of(key), _card(key)
        if parameter and current != before:
            needs = needs_of(observed, pci)
            found.append(PendingBoot(pci, parameter, current, before, needs))
    return tuple(found)


def _card(key: str) -> str:
    """The PCI address in a key of a PF."""
    return key.removeprefix("nic.").rpartition(".")[0]


def released_settings(
    observed: Mapping[str, str], wanted: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """What only a start loads, is ours, and is not asked for any more: it goes back.

    A card has one set of firmware settings: what one of its functions still wants does not go back
    with another.

    Returns:
        Key, current value and value before Railyard, sorted by key.
    """
    for line, change in sorted(observed.items()):
        key = line.removeprefix(BACK)
        if key != line and not _wanted(key, wanted):
            current, _, before = change.partition(" -> ")
            yield key, current, before


def _wanted(key: str, wanted: Mapping[str, str]) -> bool:
    where, _, setting = key.rpartition(".")
    if not key.startswith("nic."):
        return key in wanted
    card, _, _ = where.rpartition(".")
    return any(
        other.startswith(f"{card}.") and other.rpartition(".")[2] == setting for other in wanted
    )
