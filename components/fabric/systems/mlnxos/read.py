"""What MLNX-OS prints of its subnet manager, read into plain values.

Only forms with a public source, except where a docstring says otherwise; an answer of another form
raises `Unreadable` with the raw text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, cast

from components.fabric.parts import MemberKind, PartitionState
from components.fabric.systems.base import Unreadable

_NAME: Final = re.compile(r"^(\S+):\s*$")
_KEY: Final = re.compile(r"^\s+(PKey|ipoib|mtu|rate|defmember)\s*:\s*(\S+)\s*$", re.IGNORECASE)
_MEMBER: Final = re.compile(
    r"^\s+GUID='(ALL|(?:[0-9a-f]{2}:){7}[0-9a-f]{2})'\s+member='(full|limited|both)'\s*$",
    re.IGNORECASE,
)
_ENGINE: Final = re.compile(r"^\s*ib sm routing-engines (\S.*?)\s*$", re.MULTILINE)
DEFAULT_ENGINE: Final = "default"
"""None is set: the subnet manager takes minhop."""
MTU_WORDS: Final = {256: "256", 512: "512", 1024: "1K", 2048: "2K", 4096: "4K"}
"""`4K` is in AMD's tuning guide; the other four follow it and are a guess."""


def parse_switch(command: str, text: str) -> bool:
    """`show ib sm` and `show ib smnode NAME sm-state`: one line, `enable` or `disable`."""
    words = {line.strip() for line in text.splitlines()} & {"enable", "disable"}
    if len(words) != 1:
        raise Unreadable(command, text, "the answer says neither enable nor disable")
    return words == {"enable"}


def parse_priority(command: str, text: str) -> int:
    """`show ib sm priority`: one number from 0 to 15."""
    found = re.fullmatch(r"\s*(\d{1,2})\s*", text)
    if found is None or int(found[1]) > 15:  # noqa: PLR2004 - four bits (InfiniBand's SMInfo)
        raise Unreadable(command, text, "the answer is no priority")
    return int(found[1])


def parse_routing_engine(command: str, text: str) -> str:
    """The line of the running configuration, which is the command itself; none is the default."""
    found = _ENGINE.findall(text)
    if len(found) > 1:
        raise Unreadable(command, text, "the routing engines are set twice")
    return str(found[0]) if found else DEFAULT_ENGINE


def parse_partitions(command: str, text: str) -> dict[str, PartitionState]:
    """`show ib partition`, as 3.6.8010 and later print it (a capture of 3.6.8012).

    The lines `mtu` and `rate` are a guess, and read only where a switch prints them. `defmember`
    (Stacki's driver) is how others are added who say no membership: not ours, and left alone.
    """
    found: dict[str, PartitionState] = {}
    for name, lines in _blocks(command, text):
        found[name] = _partition(command, text, lines)
    if not found:
        raise Unreadable(command, text, "there is no partition in the answer, not even Default")
    return found


def _blocks(command: str, text: str) -> Iterator[tuple[str, list[str]]]:
    name, lines = "", list[str]()
    for line in text.splitlines():
        head = _NAME.match(line)
        if head is not None:
            if name:
                yield name, lines
            name, lines = head[1], []
        elif line.strip() and not name:
            raise Unreadable(command, text, f"a line before the first partition: {line.strip()}")
        elif line.strip():
            lines.append(line)
    if name:
        yield name, lines


def _partition(command: str, text: str, lines: list[str]) -> PartitionState:
    values: dict[str, str] = {}
    members: dict[str, MemberKind] = {}
    for line in lines:
        if line.strip() == "members:":
            continue
        key, member = _KEY.match(line), _MEMBER.match(line)
        if key is not None:
            values[key[1].lower()] = key[2]
        elif member is not None:
            members[_guid(member[1])] = cast("MemberKind", member[2].lower())
        else:
            raise Unreadable(command, text, f"unknown line: {line.strip()}")
    try:
        return PartitionState(
            pkey=int(values["pkey"], 16),
            ipoib={"yes": True, "no": False}[values["ipoib"].lower()],
            mtu_bytes=_mtu_bytes(values.get("mtu")),
            rate_gbit_s=_rate(values.get("rate")),
            members=members,
        )
    except (KeyError, ValueError) as error:
        raise Unreadable(command, text, f"PKey, ipoib, mtu or rate is not readable: {error}") from (
            error
        )


def _mtu_bytes(word: str | None) -> int | None:
    sizes = {text.lower(): size for size, text in MTU_WORDS.items()}
    return None if word is None or word == "default" else sizes[word.lower()]


def _rate(word: str | None) -> int | None:
    return None if word is None or word == "default" else int(word)


def _guid(text: str) -> str:
    return text.upper() if text.upper() == "ALL" else text.replace(":", "").lower()


def show_guid(guid: str) -> str:
    """A port GUID as the command line takes it: eight pairs with colons; `ALL` stays."""
    pairs = [guid[start : start + 2] for start in range(0, len(guid), 2)]
    return guid if guid == "ALL" else ":".join(pairs)
