"""One row of the table of keys: the properties of one host setting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from components.core.difference import Effect

Part = Literal[
    "system", "driver", "docker", "kernel", "pci", "routing", "vfs",
    "card", "firmware", "sriov", "qos",
]  # fmt: skip
"""The script for a key; `system` and `card` are in `reading.sh` and `writing.sh`."""
Topic = Literal[
    "hosts", "driver", "docker_config", "sysctl", "boot", "acs", "address", "vf_mtu", "firmware"
]
"""Work of the scripts that costs processes, and is done only if stdin names one of its keys."""
Interrupts = Literal["always", "has_vfs", "holds_guid", "holds_macs", "lost_all_vfs", "takes_link"]
"""When a change interrupts running jobs: always, or if the function of this name in `service.sh`
succeeds. A preview cannot see `lost_all_vfs` (all VFs are in pods)."""
Undo = Literal["recorded", "if_taken", "stays", "looked"]
"""The action of an undo.

- `recorded`: puts the recorded value back, or fails.
- `if_taken`: the same, but if the machine no longer accepts the value, notes it and goes on.
- `stays`: does nothing. Packages stay in a running system.
- `looked`: does nothing, because the key is only compared, never set.
"""
Condition = Literal[
    "vf_is_gone", "vfs_are_gone", "is_unsupported", "went_with_module",
    "card_is_gone", "sysctl_is_gone", "pages_are_gone", "governor_is_gone", "balancing_is_gone",
]  # fmt: skip
"""A function of the scripts that gets the key and answers yes or no."""


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number of at most five digits."""

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Text:
    """A text; `valid_value` refuses characters that are never allowed."""

    words: tuple[str, ...] = ()
    """Values that are accepted unchanged."""
    characters: str = ""
    """Allowed characters, as in a bracket of a shell pattern; empty: any."""
    forms: tuple[str, ...] = ()
    """Shell patterns; a value must match one."""
    longest: int = 0
    """Greatest number of characters; 0: unlimited."""
    others: bool = True
    """Whether values outside `words` are valid."""


Values = Number | Text
ANY: Final = Text()
NAME: Final = Text(characters="A-Za-z0-9._-", forms=("[A-Za-z0-9]*",))
"""A valid name of a host, user or network device."""


def one_of(*words: str) -> Text:
    """Accept one of these words, and nothing else."""
    return Text(words, others=False)


ON_OFF: Final = one_of("on", "off")


@dataclass(frozen=True, slots=True)
class HostKey:
    """The properties of one key, or of one family of keys."""

    pattern: str
    """The key. `<name>` is a variable part; `PLACES` defines its kind."""
    rank: int = 0
    """Place in the order in which settings are applied; undone in reverse. 0: never set."""
    values: Values = ANY
    """Values that a file may set. Recorded values come from the host, and may differ."""
    back_rank: int = 0
    """Place in the order of an undo, if it differs from `rank`; the greatest goes first."""
    lost: bool = False
    """A reboot loses it, so `railyard-nics.service` sets it again."""
    topic: Topic | None = None
    effect: Effect = Effect.LINK
    """The effect of a change on running traffic, if `interrupts` and `loads_at_start` do not
    determine it. `LINK` without them means that the row was never judged; a test refuses it."""
    interrupts: Interrupts | None = None
    loads_at_start: bool = False
    """It takes effect at the next start of host or card; `<key>_current` is the active value."""
    undo: Undo = "recorded"
    nothing_where: Condition | None = None
    """When an undo skips the key, although it is `recorded`."""
    gone_where: Condition | None = None
    """When the object with this setting no longer exists."""
    leaves: str = ""
    """The remains of an undo, in words; with `loads_at_start`, until the next start."""
    idle: str = ""
    """The value that changes, loads and leaves nothing."""
    parameter: str = ""
    part: Part = "system"


def rows(part: Part, begin: str, *keys: HostKey) -> tuple[HostKey, ...]:
    """Rows of one script whose keys share a beginning."""
    return tuple(replace(key, part=part, pattern=f"{begin}{key.pattern}") for key in keys)


def has_effect(effect: Effect, *keys: HostKey) -> tuple[HostKey, ...]:
    """The same rows, with this effect if a row does not set one yet."""
    return tuple(replace(key, effect=effect) if key.effect is Effect.LINK else key for key in keys)


def effect_of(row: HostKey) -> Effect:
    """The effect of a change of a setting on running work."""
    if row.undo == "looked":
        return Effect.NONE
    if row.interrupts == "takes_link":
        return Effect.LINK
    return Effect.NODE if row.interrupts or row.loads_at_start else row.effect


def lost(*keys: HostKey) -> tuple[HostKey, ...]:
    """The same rows, marked as lost at a reboot."""
    return tuple(replace(key, lost=True) for key in keys)


@dataclass(frozen=True, slots=True)
class Place:
    """A variable part of a key."""

    expression: str
    globs: tuple[str, ...] = ("*",)
    """Shell patterns; together they cover every valid part."""
    check: str = ""
    """The shell command that checks the part, if the patterns do not suffice."""


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
"""Kind of a variable part to its valid forms: a PCI address, a PCI address with the number of a VF,
a name, the dotted name of a kernel setting, a routing table, a NUMA node, a DSCP, a priority, a
traffic class."""
