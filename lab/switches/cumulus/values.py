"""The values of NVUE's paths: what a word of a line may be, and what it stands for.

NVUE names an unknown word by `Error: Invalid parameter`; the rest of that line is a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from ipaddress import ip_interface
from typing import Final

from pydantic import JsonValue

from lab.switches.cumulus.config import TRUST_WORDS

_VLANS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_NAME = re.compile(r"[A-Za-z][\w-]*")
_MAX_VLAN: Final = 4094
_MTU_RANGE: Final = range(552, 9217)
"""NVUE reference, `nv set interface <interface-id> link mtu`."""


_CABLE_RANGE: Final = range(1, 100_001)
"""NVUE reference, `nv set qos roce cable-length`."""


class NvueError(Exception):
    """A line that NVUE refuses, in its words."""


def bad(word: str, what: str) -> NvueError:
    """NVUE's refusal of one word."""
    return NvueError(f"Error: Invalid parameter\n  '{word}' is not {what}")


def _ports(word: str, ports: Collection[str]) -> list[JsonValue]:
    names = list(expand(word))
    for name in names:
        if name not in ports:
            raise NvueError(f"Error: {name} is not a physical interface on this switch")
    return list(names)


def _wholes(word: str, ports: Collection[str]) -> list[JsonValue]:
    """A part cannot be split again."""
    return _ports(word, [name for name in ports if name[3:].isdigit()])


def _vlan_list(word: str, _ports: Collection[str]) -> list[JsonValue]:
    if not _VLANS.fullmatch(word):
        raise bad(word, "a list of VLANs")
    found: list[JsonValue] = [int(vlan) for vlan in expand(word)]
    if not all(isinstance(vlan, int) and 1 <= vlan <= _MAX_VLAN for vlan in found):
        raise bad(word, f"in the range 1-{_MAX_VLAN}")
    return found


def _one_vlan(word: str, ports: Collection[str]) -> list[JsonValue]:
    found = _vlan_list(word, ports)
    if len(found) != 1:
        raise bad(word, "one VLAN")
    return found


def _native(word: str, ports: Collection[str]) -> list[JsonValue]:
    return ["none"] if word == "none" else _one_vlan(word, ports)


def _mtu(word: str, _ports: Collection[str]) -> list[JsonValue]:
    if not word.isdigit() or int(word) not in _MTU_RANGE:
        raise bad(word, f"in the range {_MTU_RANGE.start}-{_MTU_RANGE.stop - 1}")
    return [int(word)]


def _number(word: str, _ports: Collection[str]) -> list[JsonValue]:
    if not word.isdigit():
        raise bad(word, "a number")
    return [int(word)]


def _name(word: str, _ports: Collection[str]) -> list[JsonValue]:
    if not _NAME.fullmatch(word):
        raise bad(word, "a name")
    return [word]


def _one_of(word: str, choices: Collection[str]) -> list[JsonValue]:
    if word not in choices:
        raise bad(word, f"one of {sorted(choices)}")
    return [word]


def _any_interface(word: str, ports: Collection[str]) -> list[JsonValue]:
    """A port, the loopback, a VLAN's interface, or the management port."""
    if re.fullmatch(rf"lo|eth\d|vlan\d+|{_BUNDLE}(\.\d+)?", word):
        return [word]
    return _ports(word, ports)


def _bundles(word: str, _ports: Collection[str]) -> list[JsonValue]:
    """Bundles; NVUE knows one by its name, and another name needs a type, which is not played."""
    names = list(expand(word))
    for name in names:
        if not re.fullmatch(_BUNDLE, name):
            raise bad(word, "a bond")
    return list(names)


def _bridged(word: str, ports: Collection[str]) -> list[JsonValue]:
    """Ports or bundles."""
    is_bundle = word.startswith(("bond", "peerlink"))
    return _bundles(word, ports) if is_bundle else _ports(word, ports)


def _mac(word: str, _ports: Collection[str]) -> list[JsonValue]:
    if not re.fullmatch(r"([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}", word) or int(word[:2], 16) % 2:
        raise bad(word, "a MAC address of one machine")
    return [word]


def _prefix(word: str, _ports: Collection[str]) -> list[JsonValue]:
    try:
        ip_interface(word)
    except ValueError as error:
        raise bad(word, "an address with its prefix length") from error
    return [word]


def _length(word: str, ports: Collection[str]) -> list[JsonValue]:
    if _number(word, ports)[0] not in _CABLE_RANGE:
        raise bad(word, f"in the range {_CABLE_RANGE.start}-{_CABLE_RANGE.stop - 1}")
    return [int(word)]


_BUNDLE: Final = r"(?:bond\w*|peerlink)"
Reader = Callable[[str, Collection[str]], list[JsonValue]]


def _numbers_below(end: int) -> Reader:
    def read(word: str, _ports: Collection[str]) -> list[JsonValue]:
        found = list(expand(word))
        if not all(each.isdigit() and int(each) < end for each in found):
            raise bad(word, f"in the range 0-{end - 1}")
        return list(map(int, found))

    return read


SPEEDS: Final = (
    *("auto", "10M", "100M", "1G", "10G", "25G", "40G", "50G"),
    *("100G", "200G", "400G", "800G"),
)
VALUES: Final[dict[str, Reader]] = {
    "ports": _ports,
    "wholes": _wholes,
    "mode": lambda word, _ports: _one_of(word, ("1x", "2x", "4x", "8x", "disabled")),
    "bond": _bundles,
    "member": _bridged,
    "mac": _mac,
    "bond-mode": lambda word, _ports: _one_of(word, ("lacp", "static")),
    "lacp-rate": lambda word, _ports: _one_of(word, ("fast", "slow")),
    "peer-ip": lambda word, _ports: [word],
    "any": _any_interface,
    "prefix": _prefix,
    "length": _length,
    "peer": lambda word, _ports: [word],
    "switch": lambda word, _ports: _one_of(word, ("on", "off")),
    "shutdown": lambda word, _ports: _one_of(word, ("on", "off", "enabled", "disabled")),
    "state-word": lambda word, _ports: _one_of(word, ("enabled", "disabled")),
    "toggle": lambda word, _ports: _one_of(word, ("enable", "disable")),
    "vlans": _vlan_list,
    "vlan": _one_vlan,
    "native": _native,
    "mtu": _mtu,
    "number": _number,
    "name": _name,
    "type": lambda word, _ports: _one_of(word, ("swp", "svi", "loopback", "bond", "eth")),
    "text": lambda word, _ports: [word],
    # NVUE reference, its list of commands; `enabled` from 5.16 on (release notes).
    "speed": lambda word, _ports: _one_of(word, SPEEDS),
    "fec": lambda word, _ports: _one_of(word, ("auto", "baser", "off", "rs", "driver-auto")),
    "autoneg": lambda word, _ports: _one_of(word, ("on", "off", "enabled", "disabled")),
    "state": lambda word, _ports: _one_of(word, ("up", "down")),
    "trust": lambda word, _ports: _one_of(word, tuple(TRUST_WORDS)),
    "classes": _numbers_below(8),
    "class": _numbers_below(8),
    "dscps": _numbers_below(64),
    "dscp": _numbers_below(64),
    "percent": _numbers_below(101),
    "layer": lambda word, _ports: _one_of(word, ("l2", "l3", "both")),
    "schedule": lambda word, _ports: _one_of(word, ("dwrr", "strict")),
    "roce": lambda word, _ports: _one_of(word, ("lossless", "lossy")),
}


def expand(text: str) -> Iterator[str]:
    """Spell out `swp1-3,swp7` and `10-12,20`."""
    for part in text.split(","):
        found = re.fullmatch(r"(|[A-Za-z]+|swp\d+s)(\d+)-(\d+)", part)
        if found is None:
            yield part
            continue
        for number in range(int(found[2]), int(found[3]) + 1):
            yield f"{found[1]}{number}"
