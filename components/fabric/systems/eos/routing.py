"""Routed interfaces and BGP of an EOS switch: read from its configuration, and written.

Sessions are between link-local IPv6 addresses of ports, and carry IPv4 (RFC 5549), so that no
address is needed between switches; or between the addresses of a /31 (`numbered`). Lines and their
order: configurations of aristanetworks/avd and captures of cEOS and vEOS;
docs/explanation/sources.md#eos.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from components.fabric.native import read_list, write_list
from components.fabric.state import ALWAYS_UP, MTU_WORD, BgpState, SwitchState
from components.fabric.systems.base import Unsettable
from components.fabric.systems.eos.rows import Section
from components.fabric.systems.rows import (
    Row,
    by_key,
    by_word,
    collect,
    factory_values,
    nested_lines,
    take_lines,
)

ROUTING: Final = "show running-config sanitized | include routing"
"""`ip routing …`, `ipv6 unicast-routing` and which model of routing protocols runs."""
ROUTER: Final = "show running-config sanitized | section ^router bgp"
WORDS: Final = "routing"
"""Key of a switch's `native`: its lines about routing, and which interfaces have only our lines."""
GROUP: Final = "RAILYARD"
"""Our peer group; EOS wants one for every neighbour that is a port."""
LINK_LOCAL: Final = "link-local"
MODEL: Final = "service routing protocols model multi-agent"
"""Sessions between link-local addresses need it, since 4.22.1F; it changes at a reload only."""
FORWARDING: Final = ("ip routing ipv6 interfaces", "ipv6 unicast-routing")
"""Route IPv4 over ports without an IPv4 address too, to neighbours with IPv6 addresses only."""
IPV4_ONLY: Final = "ip routing"
WITHIN: Final = " | "
"""Between an address family and a line in it."""
FAMILY: Final = "address-family ipv4"
_IN_FAMILY: Final = f"{FAMILY}{WITHIN}"
_SVI: Final = re.compile(r"(?:Vlan|Loopback)\d+")
_ROUTER_LINE: Final = re.compile(r"router bgp (?:(\d+)\.)?(\d+)")
_SECOND: Final = " secondary"
_LOW_HALF: Final = 16
"""Bits of the second part of a number that is written `65120.12100` (RFC 5396)."""
_ADDRESS: Final = re.compile(r"\d+(?:\.\d+){3}|[\da-f]*:[\da-f:.]*")
_BY_HAND: Final = "no bgp default ipv4-unicast"
_MARK: Final = "description RAILYARD"
"""Marks a neighbour as ours: another AS number removes all neighbours, so we must know which."""
_OURS: Final = re.compile(
    rf"router-id .*|maximum-paths .*|(?:{FAMILY} \| )?network .*|{FAMILY}|neighbor {GROUP} .*"
    rf"|neighbor interface \S+ peer-group {GROUP}(?: .*)?"
)
"""Lines that leave with us, with those of `group_lines` and those of neighbours with our mark."""
_OVER: Final = re.compile(" (?:remote-as|peer-group) ")
_MARKED: Final = re.compile(r"(?:.* \| )?neighbor (\S+) (?:remote-as|description|bfd|activate)\b.*")
_WORDS: Final = {
    LINK_LOCAL: (1, "ipv6 enable", "no ipv6 enable"),
    ALWAYS_UP: (2, "no autostate", "autostate"),
}
"""Entry of `SwitchState.addresses` to its place among those that go, its line, and that without it.
"""
Lines = tuple[str, ...]


def _one_by_one(line: str) -> Iterator[str]:
    """Split a line about several ports, such as `Et1/1,3/1-4`, into one line for each port."""
    found = re.fullmatch(r"neighbor interface (\S+)(.*)", line)
    if found is None:
        yield line
    for part in found[1].split(",") if found else ():
        kind = "Vlan" if part.startswith("Vl") else "Ethernet"
        first, _, last = re.sub(r"^[A-Za-z]+", "", part).partition("-")
        head, slash, low = first.rpartition("/")
        for number in range(int(low), int(last or low) + 1) if low.isdigit() else ():
            yield f"neighbor interface {kind}{head}{slash}{number}{found[2] if found else ''}"


_ROWS: Final = (
    Row("router_id", "router-id (.+)", take=by_word(str), lines={"": "no router-id"}),
    Row("max_paths", r"maximum-paths (\d+)(?: ecmp \d+)?",
        lines={0: "no maximum-paths", None: "maximum-paths {}"}),
    Row("networks", rf"(?:{FAMILY} \| )?network (\S+).*", (), collect),
    Row("ports", r"neighbor interface (\S+) peer-group (\S+)(?: remote-as (\S+))?.*", {}, by_key),
    Row("addresses", rf"neighbor ({_ADDRESS.pattern}) remote-as (\S+)", {}, by_key),
)  # fmt: skip
"""The lines of `router bgp`. A port has a group, and a number unless the group has it."""


def parse_routing(sections: Mapping[str, Section], plain: str, router: str) -> dict[str, Any]:
    """Addresses of interfaces and BGP of the default VRF, as fields of `SwitchState`."""
    plain_lines = {line.strip() for line in plain.splitlines()} & {*FORWARDING, IPV4_ONLY, MODEL}
    paths = [*nested_lines(router)]
    numbers = [found for head, *_ in paths if (found := _ROUTER_LINE.fullmatch(head))]
    asn = (int(numbers[-1][1] or 0) << _LOW_HALF) + int(numbers[-1][2]) if numbers else None
    joined = (WITHIN.join(inner) for _, *inner in paths if inner)
    lines = tuple(line for each in joined for line in _one_by_one(each))
    entries = {name: tuple(_entries(section)) for name, section in sections.items()}
    own = [name for name in sections if _SVI.fullmatch(name)]
    ports = [name for name in sections if name.startswith("Ethernet") and entries[name]]
    bare = [name for name in own if len(entries[name]) == len(sections[name].lines)]
    words = (
        *sorted(plain_lines),
        *(_mark(name, "there") for name in own),
        *(_mark(name, "rest") for name in bare),
        *(f"bgp{WITHIN}{line}" for line in lines),
    )
    return {
        "addresses": {name: entries[name] for name in sections if name in {*own, *ports}},
        "bgp": bgp_of(asn, lines, forwards={*FORWARDING} <= plain_lines),
        "native": {WORDS: write_list(words)},
    }


def _entries(section: Section) -> Iterator[str]:
    known = {line: entry for entry, (_, line, _) in _WORDS.items()}
    for line in section.lines:
        if found := re.fullmatch(rf"ip address (\d.*)|({MTU_WORD}.*)", line):
            yield found[1] or found[2]
        elif line in known:
            yield known[line]


def _mark(name: str, mark: str) -> str:
    """`there`: the interface exists; `rest`: it has only lines that we set."""
    return f"interface {name} {mark}"


def group_lines(group: str) -> Lines:
    """The lines that a group must have before its sessions carry IPv4."""
    return (
        f"neighbor {group} peer group",
        f"{_IN_FAMILY}neighbor {group} activate",
        f"{_IN_FAMILY}neighbor {group} next-hop address-family ipv6 originate",
    )


def bgp_of(asn: int | None, lines: Lines, *, forwards: bool = False) -> BgpState:
    """The BGP of some lines; the number of a session that is shut, or carries no IPv4, is empty."""
    values, held = factory_values(_ROWS) | take_lines(_ROWS, lines), {*lines}
    numbers: dict[str, str] = {}
    for name, number in values["addresses"].items():
        head = f"neighbor {name}"
        works = _BY_HAND not in held or f"{_IN_FAMILY}{head} activate" in held
        shut = {f"{head} shutdown", f"{_IN_FAMILY}no {head} activate"} & held
        numbers[name] = number if works and not shut else ""
    for name, (group, own) in values["ports"].items():
        said = [each.split()[-1] for each in _about(lines, group) if " remote-as " in each]
        works = {*group_lines(group)} <= held and f"neighbor {group} shutdown" not in held
        numbers[name] = (own or "".join(said[:1])) if works else ""
    heads = {name: name for name in values["addresses"]}
    heads |= {name: group for name, (group, _) in values["ports"].items()}
    return BgpState(
        asn=asn,
        router_id=values["router_id"],
        neighbors=numbers,
        networks=values["networks"],
        bfd=tuple(name for name, head in heads.items() if f"neighbor {head} bfd" in held),
        max_paths=values["max_paths"],
        forwards=forwards or None,
    )


def _words(state: SwitchState) -> Lines | None:
    return read_list(state.native.get(WORDS))


def _router_lines(words: Iterable[str] | None) -> Lines:
    """The lines of `router bgp` among the recorded words."""
    head = f"bgp{WITHIN}"
    return tuple(word.removeprefix(head) for word in words or () if word.startswith(head))


def _entry(entry: str) -> tuple[int, str, str]:
    """Its place among those that go, its line, and the line that takes it away."""
    if entry.startswith(MTU_WORD):
        return 3, entry, "no mtu"
    return _WORDS.get(entry, (0, f"ip address {entry}", f"no ip address {entry}"))


def leaving_lines(actual: SwitchState, target: SwitchState) -> Iterator[Lines]:
    """The lines to remove from interfaces before a port stops being routed."""
    recorded = _words(target)
    for name, wanted in (target.addresses or {}).items():
        held = (actual.addresses or {}).get(name)
        was_absent = recorded is not None and _mark(name, "there") not in recorded
        is_bare = _mark(name, "rest") in (_words(actual) or ())
        if held is not None and not wanted and was_absent and is_bare:
            yield (f"no interface {name}",)
            continue
        stays = {_entry(each)[2] for each in wanted}  # another MTU is written over the one before
        gone = (_entry(each) for each in held or () if _entry(each)[2] not in stays)
        if lines := [without for _, _, without in sorted(gone, key=lambda each: each[0])]:
            yield (f"interface {name}", *lines, "exit")


def coming_lines(actual: SwitchState, target: SwitchState) -> Iterator[Lines]:
    """The lines to add to interfaces after a port became routed.

    Raises:
        Unsettable: An interface has another address.
    """
    for name, wanted in (target.addresses or {}).items():
        plain = [each for each in wanted if _entry(each)[0] == 0 and not each.endswith(_SECOND)]
        if len(plain) > 1:
            raise Unsettable(
                f"{name} has the address {plain[0]}, and the file wants {plain[1]}; EOS has one "
                "there. Remove that one by hand, or give the file another"
            )
        mtus = [each for each in wanted if each.startswith(MTU_WORD)]  # its own, and then ours
        has = {*(actual.addresses or {}).get(name, ()), *mtus[:-1]}
        new = [each for each in (*mtus, *wanted) if each not in has]
        new = sorted(dict.fromkeys(new), key=lambda each: each not in mtus and 1 + _entry(each)[0])
        if new:
            yield (f"interface {name}", *(_entry(each)[1] for each in new), "exit")


def forwarding_lines(actual: SwitchState, target: SwitchState) -> Iterator[Lines]:
    """Whether packets are routed at all."""
    held, recorded = _words(actual) or (), _words(target) or ()
    wanted = target.bgp.forwards if target.bgp else None
    for line in FORWARDING if wanted is not None else ():
        stays = wanted or line in recorded
        if stays and line not in held:
            yield (line,)
        elif not stays and line in held:
            # Whether this leaves plain IPv4 on is not documented, so that is said too.
            rest = (IPV4_ONLY if IPV4_ONLY in recorded else f"no {IPV4_ONLY}",)
            yield (f"no {line}", *(rest if line.startswith(IPV4_ONLY) else ()))


def router_lines(actual: SwitchState, target: SwitchState) -> Iterator[Lines]:
    """BGP.

    Raises:
        Unsettable: The switch has a setting of others in the way.
    """
    wanted, was, words = target.bgp, actual.bgp or BgpState(), _words(actual) or ()
    if wanted is None:
        return
    if wanted.asn is not None and MODEL not in words:
        raise Unsettable(
            f"BGP between ports needs `{MODEL}`, which the switch has not. It takes a "
            "reload, so we do not set it: do so once, save, reload the switch, and run this again"
        )
    held = _router_lines(words)
    if was.asn is not None and wanted.asn != was.asn:
        is_ours = all(_is_ours(line, held) for line in held)
        if is_ours and (wanted.asn or not (wanted.neighbors or wanted.networks)):
            yield (f"no router bgp {was.asn}",)
            was, held = BgpState(), ()
        elif wanted.asn is None:
            wanted = wanted.model_copy(update={"asn": was.asn})  # others' lines are in it by now
        else:
            raise Unsettable(
                f"the switch runs BGP {was.asn} with more in it than ours, and another number than "
                f"{wanted.asn} would take all of that away: look at `show running-config | section "
                f"router bgp`, and write asn: {was.asn} or remove it by hand"
            )
    if wanted.asn is not None:
        lines = [*_Way(was, wanted, held, _router_lines(_words(target))).lines()]
        top = [line for line in lines if WITHIN not in line]
        inner = [line.rpartition(WITHIN)[2] for line in lines if WITHIN in line]
        if lines or was.asn is None:
            block = (FAMILY, *inner, "exit") if inner else ()
            yield (f"router bgp {wanted.asn}", *top, *block, "exit")


def _is_ours(line: str, held: Lines) -> bool:
    """Whether we may have written a line."""
    marked = _MARKED.fullmatch(line)
    return (
        _OURS.fullmatch(line) is not None
        or line in group_lines(GROUP)
        or (marked is not None and f"neighbor {marked[1]} {_MARK}" in held)
    )


def _negate(line: str) -> str:
    """The line that takes a line away, in the same address family."""
    family, within, own = line.rpartition(WITHIN)
    return f"{family}{within}no {own}"


def _about(lines: Lines, name: str) -> list[str]:
    """The lines of a neighbour, or of a group."""
    return [line for line in lines if line.rpartition(WITHIN)[2].startswith(f"neighbor {name} ")]


@dataclass(frozen=True, slots=True)
class _Way:
    """From one BGP to another; each line has the address family that it is in."""

    was: BgpState
    wanted: BgpState
    held: Lines
    """The lines of the switch now."""
    recorded: Lines
    """Lines from before our first change; they are sent again if they say what is wanted."""

    def lines(self) -> Iterator[str]:
        """Numbers, the group, neighbours, networks."""
        was, wanted = self.was, self.wanted
        if wanted.router_id != was.router_id:
            yield _ROWS[0].text(wanted.router_id or "")
        if wanted.max_paths is not None and wanted.max_paths != (was.max_paths or 0):
            line = _ROWS[1].text(wanted.max_paths)
            yield next((each for each in self.recorded if f"{each} ".startswith(f"{line} ")), line)
        yield from self._group()
        yield from self._neighbors()
        inner = f"{_IN_FAMILY}network "
        gone = (each for each in was.networks if each not in wanted.networks)
        yield from (_negate(f"{inner}{each}") for each in gone)
        yield from (f"{inner}{each}" for each in wanted.networks if each not in was.networks)

    def _group(self) -> Iterator[str]:
        """The lines of our group while a neighbour is in it; without one, its recorded lines."""
        held, recorded = ({*_about(lines, GROUP)} for lines in (self.held, self.recorded))
        ports = take_lines(_ROWS, (*self.held, *self.recorded)).get("ports", {})
        of_group = [
            name
            for name in self.wanted.neighbors
            if name.startswith("Ethernet") and ports.get(name, (GROUP, ""))[0] == GROUP
        ]
        order = (*group_lines(GROUP), f"neighbor {GROUP} bfd")
        aim = recorded
        if of_group:
            aim = {*order} if {*of_group} & {*self.wanted.bfd} else {*order[:-1]}
            aim |= recorded - {order[-1]}
        yield from sorted(aim - held, key=lambda line: order.index(line) if line in order else 9)
        gone = sorted(held - aim)
        yield from map(_negate, order[:1] if order[0] in gone else gone)

    def _neighbors(self) -> Iterator[str]:
        """First neighbours by address, then by port; `no neighbor` removes all lines of one."""
        was, wanted = self.was.neighbors, self.wanted.neighbors
        addresses = [*filter(_ADDRESS.fullmatch, {**was, **wanted})]
        gone = [name for name in was if name not in wanted and name not in addresses]
        ports = [name for name in wanted if name.startswith("Ethernet")]
        for name in (*addresses, *gone, *ports):
            now = _about(self.held, _key(name))
            if name not in wanted:
                yield f"no neighbor {_key(name)}"
            elif _told(self.was, name) != _told(self.wanted, name):
                aim = self._aim(name, now)
                # Another number, or group, is written over the one before.
                rest = (line for line in now if line not in aim and not _OVER.search(line))
                yield from map(_negate, rest)
                yield from (line for line in aim if name in ports or line not in now)

    def _aim(self, name: str, now: list[str]) -> list[str]:
        """The lines that a neighbour must have."""
        head, number = f"neighbor {_key(name)}", self.wanted.neighbors[name]
        if _told(bgp_of(None, self.recorded), name) == _told(self.wanted, name):
            return _about(self.recorded, _key(name))
        if not _ADDRESS.fullmatch(name):
            return [f"{head} peer-group {GROUP} remote-as {number}"]
        described = any(line.startswith(f"{head} description ") for line in now)
        ours = [f"{head} remote-as {number}", *(() if described else (f"{head} {_MARK}",))]
        ours += [f"{head} bfd"] if name in self.wanted.bfd else []
        ours += [f"{_IN_FAMILY}{head} activate"] if _BY_HAND in self.held else []
        ending = (" shutdown", " bfd", " activate")
        return ours + [e for e in now if not e.endswith(ending) and " remote-as " not in e]


def _key(name: str) -> str:
    """A neighbour in its lines."""
    return name if _ADDRESS.fullmatch(name) else f"interface {name}"


def _told(bgp: BgpState, name: str) -> tuple[str | None, bool]:
    """The number of a neighbour, and whether it has BFD; a port has that from its group."""
    return bgp.neighbors.get(name), name in bgp.bfd and _ADDRESS.fullmatch(name) is not None
