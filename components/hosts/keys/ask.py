"""What the table says of a key. A key that is not in it is no setting of a host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from components.core.effect import Effect
from components.hosts.keys.row import PLACES, HostKey, effect_of
from components.hosts.keys.table import CARD_KEYS, SYSCTL_MODULES, SYSTEM_KEYS

KEYS: Final = (*SYSTEM_KEYS, *CARD_KEYS)
"""All rows. No key fits two of them."""
_CACHED: Final = 1 << 16
"""Keys whose row is remembered: a rail-optimised host of 8 cards with 16 VFs has some 1,000."""


def expression(row: HostKey) -> str:
    """A row's pattern as a regular expression."""
    parts = re.split(r"<(\w+)>", row.pattern)
    return "".join(
        PLACES[part].expression if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    )


_ANY_KEY: Final = re.compile("|".join(f"({expression(row)})" for row in KEYS))


@lru_cache(_CACHED)
def find_row(key: str) -> HostKey | None:
    """The row of a key, or None."""
    match = _ANY_KEY.fullmatch(key)
    return KEYS[match.lastindex - 1] if match and match.lastindex else None


def lost_at_reboot(key: str) -> bool:
    """Whether `railyard-nics.service` has to set it at each boot."""
    row = find_row(key)
    return row is not None and row.lost


def needs_drain(key: str) -> bool:
    """Whether setting it may end what jobs have open, as far as a preview can see."""
    row = find_row(key)
    return row is not None and row.interrupts not in {None, "lost_all_vfs"}


def effect_of_key(key: str) -> Effect:
    """What a change of a setting does to what runs on the host; of an unknown one: `LINK`."""
    row = find_row(key)
    return effect_of(row) if row else Effect.LINK


def takes_link(key: str) -> bool:
    """Whether setting it takes the link of its card down, whatever the card has."""
    row = find_row(key)
    return row is not None and row.interrupts == "takes_link"


def loads_driver(key: str) -> bool:
    """Whether setting it loads other modules, or waits for a boot where they cannot be reloaded."""
    row = find_row(key)
    return row is not None and row.interrupts == "always"


def needs_boot(key: str) -> bool:
    """Whether it only holds after a boot: firmware, and the kernel's command line and modules."""
    row = find_row(key)
    return row is not None and row.loads_at_start


def parameter_of(key: str) -> str:
    """The name that mlxconfig has for a setting of a card's firmware; empty for any other key."""
    row = find_row(key)
    return row.parameter if row else ""


def is_idle(key: str, value: str) -> bool:
    """Whether a key is of the kind that changes nothing with this value."""
    row = find_row(key)
    return row is not None and row.idle == value != ""


def module_of(sysctl: str) -> str | None:
    """The module that brings a kernel setting, or None where the kernel itself has it."""
    fitting = (module for begin, module in SYSCTL_MODULES.items() if sysctl.startswith(begin))
    return next(fitting, None)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """In words, what an undo leaves on one host."""

    stays: tuple[str, ...]
    """For good, where this stack made or installed it."""
    until_restart: tuple[str, ...]
    """Are put back, and what runs is as before until the host or the card starts again."""


def leftovers(settings: Mapping[str, str]) -> Leftovers:
    """What the undo of these settings leaves."""
    rows = (find_row(key) for key, value in settings.items() if not is_idle(key, value))
    found = {row.pattern for row in rows if row and row.leaves}
    left = [row for row in KEYS if row.pattern in found]
    return Leftovers(
        tuple(dict.fromkeys(row.leaves for row in left if not row.loads_at_start)),
        tuple(dict.fromkeys(row.leaves for row in left if row.loads_at_start)),
    )
