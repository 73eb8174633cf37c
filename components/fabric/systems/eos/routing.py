"""Routed interfaces and BGP of an EOS switch, read from its running configuration.

Sessions are between link-local IPv6 addresses of ports, and carry IPv4 (RFC 5549), so that no
address is needed between switches; or between the addresses of a /31 (`numbered`). Lines and their
order: configurations of aristanetworks/avd and captures of cEOS and vEOS;
docs/explanation/sources.md#eos.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from components.fabric.state import ALWAYS_UP, MTU_WORD, BgpState
from components.fabric.systems.eos.rows import Section

ROUTING: Final = "show running-config sanitized | include routing"
"""`ip routing …`, `ipv6 unicast-routing` and which model of routing protocols runs."""
ROUTER: Final = "show running-config sanitized | section ^router bgp"
WORDS: Final = "routing"
"""Key of a switch's `native`: the lines as they are, and what of an interface is beside ours."""
GROUP: Final = "RAILYARD"
"""Our peer group: EOS has each neighbour that is a port in one."""
LINK_LOCAL: Final = "link-local"
NO_AUTOSTATE: Final = "no autostate"
MODEL: Final = "service routing protocols model multi-agent"
"""Sessions between link-local addresses need it, since 4.22.1F; it changes at a reload only."""
FORWARDING: Final = ("ip routing ipv6 interfaces", "ipv6 unicast-routing")
"""IPv4 also over ports that have no IPv4 address, and the neighbours' addresses of those."""
IPV4_ONLY: Final = "ip routing"
_SVI: Final = re.compile(r"(?:Vlan|Loopback)\d+")
_ROUTER_LINE: Final = re.compile(r"router bgp (?:(\d+)\.)?(\d+)")
_NEIGHBOR: Final = re.compile(r"neighbor interface (\S+) peer-group (\S+)(?: remote-as (\S+))?(.*)")
_PATHS: Final = re.compile(r"maximum-paths (\d+)(?: ecmp \d+)?")
_LOW_HALF: Final = 16
"""Bits of the second part of a number that is written `65120.12100` (RFC 5396)."""


@dataclass(frozen=True, slots=True)
class Routing:
    """What is in the configuration."""

    addresses: dict[str, tuple[str, ...]]
    bgp: BgpState
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Peer:
    """A neighbour that is a port."""

    group: str
    number: str
    """Empty: the group says it."""
    line: str
    """As it is written for this port alone."""


def group_lines(group: str) -> tuple[str, ...]:
    """What a group needs, so that its sessions carry IPv4."""
    return (
        f"neighbor {group} peer group",
        f"{FAMILY}{WITHIN}neighbor {group} activate",
        f"{FAMILY}{WITHIN}neighbor {group} next-hop address-family ipv6 originate",
    )


def bfd_line(group: str) -> str:
    """BFD of all neighbours of a group."""
    return f"neighbor {group} bfd"


def parse_routing(sections: Mapping[str, Section], plain: str, router: str) -> Routing:
    """Read addresses of interfaces, and the BGP of the default VRF.

    Args:
        sections: The interfaces.
        plain: The answer to `ROUTING`.
        router: The answer to `ROUTER`.
    """
    plain_lines = {line.strip() for line in plain.splitlines()} & {*FORWARDING, IPV4_ONLY, MODEL}
    asn, lines = _router_lines(router)
    addresses = {
        name: tuple(_entries(section))
        for name, section in sections.items()
        if _SVI.fullmatch(name) or name.startswith("Ethernet")
    }
    return Routing(
        {name: found for name, found in addresses.items() if found or _SVI.fullmatch(name)},
        bgp_of(asn, lines, forwards={*FORWARDING} <= plain_lines),
        (*sorted(plain_lines), *_marks(sections), *map(_as_word, lines)),
    )


def _as_word(line: str) -> str:
    return f"bgp{WITHIN}{line}"


def router_lines(words: tuple[str, ...] | None) -> tuple[str, ...]:
    """The lines of `router bgp`, from what a state keeps of them."""
    head = _as_word("")
    return tuple(word.removeprefix(head) for word in words or () if word.startswith(head))


def _router_lines(text: str) -> tuple[int | None, tuple[str, ...]]:
    """The number, and the lines, each with the address family that it is in."""
    asn: int | None = None
    lines, outer, indent_of_outer = list[str](), "", 0
    for line in text.replace("\r", "").splitlines():
        words, indent = line.strip(), len(line) - len(line.lstrip())
        if words in {"", "!"}:
            continue
        found = _ROUTER_LINE.fullmatch(words)
        if indent == 0:
            if found is not None:
                asn = (int(found[1] or 0) << _LOW_HALF) + int(found[2])
            continue
        if not outer or indent <= indent_of_outer:
            outer, indent_of_outer = words, indent
            lines.append(words)
        else:
            lines.append(f"{outer}{WITHIN}{words}")
    return asn, tuple(lines)


def _entries(section: Section) -> Iterator[str]:
    for line in section.lines:
        if line.startswith("ip address ") and line[len("ip address ")].isdigit():
            yield line.removeprefix("ip address ")
        elif line == "ipv6 enable":
            yield LINK_LOCAL
        elif line == NO_AUTOSTATE:
            yield ALWAYS_UP
        elif line.startswith(MTU_WORD):
            yield line


def _marks(sections: Mapping[str, Section]) -> Iterator[str]:
    """Which interfaces of the switch itself are there, and which have nothing but what we set."""
    for name, section in sections.items():
        if _SVI.fullmatch(name):
            yield there(name)
            if len([*_entries(section)]) == len(section.lines):
                yield bare(name)


def there(name: str) -> str:
    """The mark of an interface that is in the configuration."""
    return f"interface {name} there"


def bare(name: str) -> str:
    """The mark of one with nothing of others in it."""
    return f"interface {name} rest"


def bgp_of(asn: int | None, lines: tuple[str, ...], *, forwards: bool = False) -> BgpState:
    """The BGP that some lines make."""
    held, peers = {*lines}, read_peers(lines)
    found = read_addresses(lines)
    by_address = tuple(name for name in found if has_bfd(name, lines))
    found |= {name: _number_of(peer, held) for name, peer in peers.items()}
    paths = [int(match[1]) for line in lines if (match := _PATHS.fullmatch(line))]
    routers = [line.removeprefix("router-id ") for line in lines if line.startswith("router-id ")]
    return BgpState(
        asn=asn,
        router_id=routers[0] if routers else None,
        neighbors=found,
        networks=tuple(_networks(lines)),
        bfd=(
            *by_address,
            *(name for name, peer in peers.items() if bfd_line(peer.group) in held),
        ),
        max_paths=paths[0] if paths else None,
        forwards=forwards or None,
    )


def _number_of(peer: Peer, held: set[str]) -> str:
    """Its number; empty where its sessions would not carry IPv4, or are shut."""
    whole = {*group_lines(peer.group)} <= held and f"neighbor {peer.group} shutdown" not in held
    said = [
        line.rpartition(" ")[2]
        for line in held
        if line.startswith(f"neighbor {peer.group} remote-as ")
    ]
    return (peer.number or (said[0] if said else "")) if whole else ""


def _networks(lines: tuple[str, ...]) -> Iterator[str]:
    for line in lines:
        family, _, own = line.rpartition(WITHIN)
        if family in {"", FAMILY} and own.startswith("network "):
            yield own.split()[1]


def read_peers(lines: tuple[str, ...]) -> dict[str, Peer]:
    """Port to its neighbour; a line may name several ports."""
    found: dict[str, Peer] = {}
    for line in lines:
        match = _NEIGHBOR.fullmatch(line)
        if match is None:
            continue
        ports, group, number, rest = match[1], match[2], match[3] or "", match[4]
        said = f" remote-as {number}" if number else ""
        for name in _expand(ports):
            own = f"neighbor interface {name} peer-group {group}{said}{rest}"
            found[name] = Peer(group, number, own)
    return found


def _expand(text: str) -> Iterator[str]:
    """`Et1/1,3/1-4` is four ports and one; configurations have `Et` and `Ethernet`."""
    for part in text.split(","):
        plain = re.sub(r"^[A-Za-z]+", "", part)
        kind = "Vlan" if part.startswith("Vl") else "Ethernet"
        first, _, last = plain.partition("-")
        head, slash, low = first.rpartition("/")
        for number in range(int(low), int(last or low) + 1) if low.isdigit() else ():
            yield f"{kind}{head}{slash}{number}"


FAMILY: Final = "address-family ipv4"
WITHIN: Final = " | "
"""Between an address family and a line in it."""
_ADDRESS: Final = re.compile(r"\d+(?:\.\d+){3}|[\da-f]*:[\da-f:.]*")
_NUMBER: Final = re.compile(r"neighbor (\S+) remote-as (\S+)")
_BY_HAND: Final = "no bgp default ipv4-unicast"
_MARK: Final = "description RAILYARD"
"""By it a neighbour of ours is known where another number would end those of others."""
_KINDS: Final = ("remote-as", "description", "bfd", "activate")


def is_address(name: str) -> bool:
    """Whether a neighbour is no port."""
    return _ADDRESS.fullmatch(name) is not None


def read_addresses(lines: tuple[str, ...]) -> dict[str, str]:
    """Address of each neighbour to its number; empty where it is shut, or carries no IPv4."""
    found = [match for line in lines if (match := _NUMBER.fullmatch(line))]
    return {
        match[1]: match[2] if _works(match[1], lines) else ""
        for match in found
        if is_address(match[1])
    }


def _works(address: str, lines: tuple[str, ...]) -> bool:
    head = f"neighbor {address}"
    active = _BY_HAND not in lines or f"{FAMILY}{WITHIN}{head} activate" in lines
    shut = f"{head} shutdown" in lines or f"{FAMILY}{WITHIN}no {head} activate" in lines
    return active and not shut


def has_bfd(address: str, lines: tuple[str, ...]) -> bool:
    """Whether its loss is noticed by BFD."""
    return f"neighbor {address} bfd" in lines


def is_ours(line: str, lines: tuple[str, ...]) -> bool:
    """Whether a line is of a neighbour that bears our name, and of a kind that we write."""
    own = _own(line).split()
    if len(own) < len(_KINDS) - 1 or own[0] != "neighbor" or own[2] not in _KINDS:
        return False
    return f"neighbor {own[1]} {_MARK}" in lines


def address_lines(
    was: BgpState, wanted: BgpState, held: tuple[str, ...], recorded: tuple[str, ...]
) -> Iterator[str]:
    """The lines of neighbours that differ; one that goes takes all of its own along."""
    for name in filter(is_address, {**was.neighbors, **wanted.neighbors}):
        if _of(was, name) == _of(wanted, name):
            continue
        if name not in wanted.neighbors:
            yield f"no neighbor {name}"
            continue
        now, aim = _lines(held, name), _aim(name, wanted, held, recorded)
        # Another number is written over the one before.
        gone = (line for line in now if line not in aim and " remote-as " not in line)
        yield from map(negate, gone)
        yield from (line for line in aim if line not in now)


def negate(line: str) -> str:
    """The line that takes a line away, in the same address family."""
    family, within, own = line.rpartition(WITHIN)
    return f"{family}{within}no {own}"


def _of(bgp: BgpState, name: str) -> tuple[str | None, bool]:
    return bgp.neighbors.get(name), name in bgp.bfd


def _own(line: str) -> str:
    return line.rpartition(WITHIN)[2]


def _lines(lines: tuple[str, ...], name: str) -> list[str]:
    return [line for line in lines if _own(line).startswith(f"neighbor {name} ")]


def _aim(
    name: str, wanted: BgpState, held: tuple[str, ...], recorded: tuple[str, ...]
) -> list[str]:
    """Its lines as they shall be: those of before where that is what is wanted."""
    before = BgpState(
        neighbors=read_addresses(recorded), bfd=(name,) if has_bfd(name, recorded) else ()
    )
    if name in before.neighbors and _of(before, name) == _of(wanted, name):
        return _lines(recorded, name)
    described = any(line.startswith(f"neighbor {name} description ") for line in held)
    ours = [f"neighbor {name} remote-as {wanted.neighbors[name]}"]
    ours += [] if described else [f"neighbor {name} {_MARK}"]
    ours += [f"neighbor {name} bfd"] if name in wanted.bfd else []
    ours += [f"{FAMILY}{WITHIN}neighbor {name} activate"] if _BY_HAND in held else []
    ending = (" shutdown", " bfd", " activate")
    others = (line for line in _lines(held, name) if not line.endswith(ending))
    return [*ours, *(line for line in others if " remote-as " not in line)]
