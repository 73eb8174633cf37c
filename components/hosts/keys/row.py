"""One row of the table of keys: what is known of a setting of a host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from components.core.difference import Effect

Part = Literal[
    "system", "driver", "docker", "kernel", "pci", "routing", "vfs",
    "card", "firmware", "sriov", "qos",
]  # fmt: skip
"""Which script reads and writes a key. `system` and `card` are in `reading.sh` and `writing.sh`."""
Topic = Literal[
    "hosts", "driver", "docker_config", "sysctl", "boot", "acs", "address", "vf_mtu", "firmware"
]
"""Work of the scripts that costs processes, and is done only where stdin names a key of it."""
Interrupts = Literal["always", "has_vfs", "holds_guid", "holds_macs", "lost_all_vfs", "takes_link"]
"""When a change ends what jobs have open: always, or where the function of this name in
`service.sh` says so. A preview cannot see `lost_all_vfs` (all VFs are in pods)."""
Undo = Literal["recorded", "if_taken", "stays", "looked"]
"""What an undo does.

- `recorded`: puts the recorded value back, or fails.
- `if_taken`: the same; what the machine no longer takes is noted, and holds nothing else up.
- `stays`: nothing. Packages stay in a running system.
- `looked`: nothing, because the key is only compared, never set.
"""
Condition = Literal[
    "vf_is_gone", "vfs_are_gone", "is_unsupported", "went_with_module",
    "card_is_gone", "sysctl_is_gone", "pages_are_gone", "governor_is_gone", "balancing_is_gone",
]  # fmt: skip
"""A function of the scripts that is asked with the key."""


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number of at most five digits."""

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Text:
    """A text; the characters that no value may have are refused before (`valid_value`)."""

    words: tuple[str, ...] = ()
    """Values that are accepted as they are."""
    characters: str = ""
    """All that a value may have, as in a bracket of a shell pattern; empty: anything."""
    forms: tuple[str, ...] = ()
    """Shell patterns, of which a value must fit one."""
    longest: int = 0
    """Characters; 0: any number."""
    others: bool = True
    """Whether there are values beside `words`."""


Values = Number | Text
ANY: Final = Text()
NAME: Final = Text(characters="A-Za-z0-9._-", forms=("[A-Za-z0-9]*",))
"""What a host, user or network device may be called."""


def one_of(*words: str) -> Text:
    """One of these words, and nothing else."""
    return Text(words, others=False)


ON_OFF: Final = one_of("on", "off")


@dataclass(frozen=True, slots=True)
class HostKey:
    """What is known of one key, or of one family of keys."""

    pattern: str
    """The key. `<name>` is a part that differs, of the kind that `PLACES` has."""
    rank: int = 0
    """Place in the order in which settings are applied; undone in reverse. 0: it is never set."""
    values: Values = ANY
    """What a file may want of it. Recorded values are the host's own, and may be others."""
    back_rank: int = 0
    """Place on the way back, where that is not `rank`; the greatest goes first."""
    lost: bool = False
    """A reboot loses it, so `railyard-nics.service` sets it again. Else it is in a file, a package
    or the firmware of a card."""
    topic: Topic | None = None
    effect: Effect = Effect.LINK
    """What a change does to running traffic, where `interrupts` and `loads_at_start` do not say
    it. `LINK` without them is a row that was never judged; a test refuses it."""
    interrupts: Interrupts | None = None
    loads_at_start: bool = False
    """What is set counts from the next start of the host or of the card; the key with `_current`
    is what counts now."""
    undo: Undo = "recorded"
    nothing_where: Condition | None = None
    """When there is nothing to undo, although it is `recorded`."""
    gone_where: Condition | None = None
    """When what had it is not there any more."""
    leaves: str = ""
    """What an undo leaves, in words: for good, or, of what loads at a start, until then."""
    idle: str = ""
    """The value with which nothing is changed, loaded or left behind."""
    parameter: str = ""
    """The name that mlxconfig has for it."""
    part: Part = "system"


def rows(part: Part, begin: str, *keys: HostKey) -> tuple[HostKey, ...]:
    """Rows of one script whose keys begin in the same way."""
    return tuple(replace(key, part=part, pattern=f"{begin}{key.pattern}") for key in keys)


def has_effect(effect: Effect, *keys: HostKey) -> tuple[HostKey, ...]:
    """The same rows, with what their changes do, where no row says it yet."""
    return tuple(replace(key, effect=effect) if key.effect is Effect.LINK else key for key in keys)


def effect_of(row: HostKey) -> Effect:
    """What a change of a setting does to what runs on the host."""
    if row.undo == "looked":
        return Effect.NONE
    if row.interrupts == "takes_link":
        return Effect.LINK
    return Effect.NODE if row.interrupts or row.loads_at_start else row.effect


def lost(*keys: HostKey) -> tuple[HostKey, ...]:
    """The same rows, of settings that a reboot loses."""
    return tuple(replace(key, lost=True) for key in keys)


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a key that differs."""

    expression: str
    """As a regular expression."""
    globs: tuple[str, ...] = ("*",)
    """As shell patterns, all of them together."""
    check: str = ""
    """The shell command that is asked with the part, where the patterns do not suffice."""


_PCI: Final = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
PLACES: Final = {
    "pci": Place(_PCI, check='pci_address "$key_place"'),
    "vf": Place(rf"{_PCI}\.\d{{1,3}}", check='vf_address "$key_place"'),
    "name": Place(_NAME, check='name "$key_place"'),
    "sysctl": Place(r"[A-Za-z0-9._/-]+", check='sysctl_name "$key_place"'),
    "table": Place(r"\d{1,5}", check='number "$key_place" 1 32000'),
    "node": Place(r"\d{1,4}", check='number "$key_place" 0 1023'),
    "dscp": Place(r"(?:[1-5]?\d|6[0-3])", ("[0-9]", "[1-5][0-9]", "6[0-3]")),
    "priority": Place("[0-7]", ("[0-7]",)),
    "class": Place("[0-7]", ("[0-7]",)),
}
"""Kind of a part to what it may be: a PCI address, that and the number of a VF, a name, the dotted
name of a kernel setting, a routing table, a NUMA node, a DSCP, a priority, a traffic class."""
