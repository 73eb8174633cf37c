"""The table of keys: the properties of a host setting, and a row a key from `table.yaml`.

A host has rows of its driver, Docker, names, kernel, routes and boot unit. A card has rows of each
PF (`nic.<pci>.`), of its firmware, and of its VFs (`vf.<vf>.`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, ConfigDict, TypeAdapter

from components.core.difference import Effect
from components.core.templates import read_table

_CLOSED: Final = ConfigDict(extra="forbid")

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
_PCI: Final = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
SYSCTL_MODULES: Final = {
    "net.bridge.": "br_netfilter",
    "net.netfilter.nf_conntrack_": "nf_conntrack",
    "net.nf_conntrack_max": "nf_conntrack",
    "net.ipv4.vs.": "ip_vs",
    "sunrpc.rdma_": "rpcrdma",
    "sunrpc.svc_rdma.": "rpcrdma",
    "sunrpc.": "sunrpc",
}
"""Prefix of a kernel setting to its module; the first match counts (kernel documentation,
networking/nf_conntrack-sysctl, ipvs-sysctl, admin-guide/sysctl). At boot, before Kubernetes, these
modules are not loaded."""


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number of at most five digits."""

    __pydantic_config__: ClassVar = _CLOSED
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Text:
    """A text; `valid_value` refuses characters that are never allowed."""

    __pydantic_config__: ClassVar = _CLOSED
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


@dataclass(frozen=True, slots=True)
class HostKey:
    """The properties of one key, or of one family of keys."""

    __pydantic_config__: ClassVar = _CLOSED
    pattern: str
    """The key. `<name>` is a variable part; `PLACES` defines its kind."""
    rank: int = 0
    """Place in the order in which settings are applied; undone in reverse. 0: never set."""
    values: Values = Text()
    """Values that a file may set. Recorded values come from the host, and may differ."""
    back_rank: int = 0
    """Place in the order of an undo, if it differs from `rank`; the greatest goes first."""
    lost: bool = False
    """A reboot loses it, so `railyard-nics.service` sets it again."""
    topic: Topic | None = None
    effect: Annotated[Effect, BeforeValidator(lambda word: Effect[word.upper()])] = Effect.LINK
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


def effect_of(row: HostKey) -> Effect:
    """The effect of a change of a setting on running work."""
    if row.undo == "looked":
        return Effect.NONE
    if row.interrupts == "takes_link":
        return Effect.LINK
    return Effect.NODE if row.interrupts or row.loads_at_start else row.effect


@dataclass(frozen=True, slots=True)
class Place:
    """A variable part of a key."""

    expression: str
    globs: tuple[str, ...] = ("*",)
    """Shell patterns; together they cover every valid part."""
    check: str = ""
    """The shell command that checks the part, if the patterns do not suffice."""


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


@cache
def all_keys() -> tuple[HostKey, ...]:
    """The rows of `table.yaml`, read at first use. `rank` is the order of work.

    No key matches two rows.
    """
    rows: list[dict[str, object]] = []
    tables: dict[str, list[dict[str, Any]]] = read_table(__file__, "table")
    for group in (*tables["system"], *tables["card"]):
        shared = {key: value for key, value in group.items() if key not in {"begin", "rows"}}
        for key, row in group["rows"].items():
            rows.append({**shared, **row, "pattern": f"{group.get('begin', '')}{key}"})
    return TypeAdapter(tuple[HostKey, ...]).validate_python(rows)
