"""The values of NVUE's paths: the accepted words of a line, and their meaning.

NVUE refuses an unknown word with `Error: Invalid parameter`; the rest of that line is a guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_interface
from typing import Final

from pydantic import JsonValue

from lab.switches.cumulus.config import TRUST_WORDS, expand

_ON_OFF: Final = ("on", "off")
_STATE: Final = ("enabled", "disabled")
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "mode": ("1x", "2x", "4x", "8x", "disabled"),
    "switch": _ON_OFF,
    "shutdown": _ON_OFF + _STATE,
    "state-word": _STATE,
    "toggle": ("enable", "disable"),
    "type": ("swp", "svi", "loopback", "bond", "eth"),
    # NVUE reference, its list of commands; `enabled` from 5.16 on (release notes).
    "speed": (
        *("auto", "10M", "100M", "1G", "10G", "25G", "40G", "50G"),
        *("100G", "200G", "400G", "800G"),
    ),
    "fec": ("auto", "baser", "off", "rs", "driver-auto"),
    "autoneg": _ON_OFF + _STATE,
    "state": ("up", "down"),
    "trust": tuple(TRUST_WORDS),
    "layer": ("l2", "l3", "both"),
    "schedule": ("dwrr", "strict"),
    "roce": ("lossless", "lossy"),
}
_RANGES: Final = {
    "mtu": (552, 9216),  # NVUE reference, `nv set interface <interface-id> link mtu`
    "length": (1, 100_000),  # NVUE reference, `nv set qos roce cable-length`
    "vlan": (1, 4094),
    "class": (0, 7),
    "dscp": (0, 63),
    "percent": (0, 100),
}
_LISTS: Final = {"vlans": "vlan", "classes": "class", "dscps": "dscp"}
_FORMS: Final = {
    "name": (r"[A-Za-z][\w-]*", "a name"),
    "number": (r"\d+", "a number"),
    "text": (r"(?s).*", ""),
    "peer": (r"(?s).*", ""),
}


class NvueError(Exception):
    """A line that NVUE refuses, in its words."""


def bad(word: str, what: str) -> NvueError:
    """NVUE's refusal of one word."""
    return NvueError(f"Error: Invalid parameter\n  '{word}' is not {what}")


def read_value(kind: str, word: str, ports: Collection[str]) -> list[JsonValue]:
    """Turn a word into keys of the tree, or into one value.

    Args:
        kind: Kind of value, as the paths name it.
        word: A word of a line.
        ports: The front panel.

    Raises:
        NvueError: The word is not such a value.
    """
    if kind in _CHOICES:
        if word not in _CHOICES[kind]:
            raise bad(word, f"one of {sorted(_CHOICES[kind])}")
        return [word]
    if kind in _FORMS:
        pattern, what = _FORMS[kind]
        if not re.fullmatch(pattern, word):
            raise bad(word, what)
        return [int(word) if kind == "number" else word]
    if kind in _RANGES or kind in _LISTS:
        return _read_numbers(kind, word)
    return _read_name(kind, word, ports)


def _read_numbers(kind: str, word: str) -> list[JsonValue]:
    low, high = _RANGES[_LISTS.get(kind, kind)]
    found = [*expand(word)] if kind in {*_LISTS, "vlan"} else [word]
    if kind in {"vlan", "vlans"} and not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", word):
        raise bad(word, "a list of VLANs")
    if not all(each.isdigit() and low <= int(each) <= high for each in found):
        raise bad(word, f"in the range {low}-{high}")
    if kind == "vlan" and len(found) != 1:
        raise bad(word, "one VLAN")
    return [*map(int, found)]


def _read_name(kind: str, word: str, ports: Collection[str]) -> list[JsonValue]:
    """An address, `none` instead of a VLAN, or names of interfaces."""
    if kind == "native":
        return ["none"] if word == "none" else _read_numbers("vlan", word)
    if kind == "prefix":
        try:
            ip_interface(word)
        except ValueError as error:
            raise bad(word, "an address with its prefix length") from error
        return [word]
    # The loopback, a VLAN's interface, or the management port.
    if kind == "any" and re.fullmatch(r"lo|eth\d|vlan\d+", word):
        return [word]
    names = [*expand(word)]
    for name in names:  # a part cannot be split again
        if name not in ports or (kind == "wholes" and not name[3:].isdigit()):
            raise NvueError(f"Error: {name} is not a physical interface on this switch")
    return [*names]
