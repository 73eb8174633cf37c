"""What one switch model can do: the facts that a plan is held against."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

IB_MTU_RANGE_BYTES: Final = (256, 4096)
"""The least and the largest MTU of the InfiniBand specification."""
_PORT: Final = re.compile(r"(\d+/\d+|swp\d+)(?:/\d+|s\d)?")
"""`1/31`, `swp31`, and their parts `1/31/2` and `swp31s1`."""
_VOWELS: Final = frozenset("AEFHILMNORSX8")
"""Letters and digits whose names begin with a vowel, for `an SN2700`."""
_LEADING: Final = re.compile(r"\d+")
Release = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SwitchModel:
    """One switch model."""

    name: str
    ports: Mapping[str, tuple[str, ...]]
    """Switch system that runs on it to its port names, unsplit."""
    port_speeds_gbit_s: tuple[int, ...]
    mtu_range_bytes: Mapping[str, tuple[int, int]]
    """Switch system to the least and the largest MTU of a port."""
    traffic_classes: int
    """0 on InfiniBand, which has none."""
    max_lossless_priorities: int
    min_release: Mapping[str, Release]
    """Switch system to its oldest release that has the commands we send."""
    min_release_lossless: Mapping[str, Release]
    """The same for mode lossless, which on Onyx takes the one-shot `roce`."""
    split: bool = True
    """A port may be split into parts; else `ports` names all that there can be."""

    def has_port(self, system: str, name: str) -> bool:
        """Whether a port, or the port that was split into it, is on the front panel.

        What another system calls its ports is not.
        """
        if not self.split:
            return name in self.ports[system]
        found = _PORT.fullmatch(name)
        return (found[1] if found else name) in self.ports[system]

    @property
    def described(self) -> str:
        """The name with its article."""
        return with_article(self.name)


def with_article(name: str) -> str:
    """`an SN2700`, `a DCS-7060DX5-64S`."""
    return f"{'an' if name[:1].upper() in _VOWELS else 'a'} {name}"


def parse_release(text: str) -> Release:
    """Read `3.9.2504` and EOS' `4.32.1F`; missing or strange parts count as 0."""
    found = (_LEADING.match(part) for part in text.split(".")[:3])
    numbers = [int(match[0]) if match else 0 for match in found]
    first, second, third = (*numbers, 0, 0, 0)[:3]
    return first, second, third
