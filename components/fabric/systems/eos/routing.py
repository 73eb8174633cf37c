"""Routed interfaces and BGP of an EOS switch: read from its configuration, and written.

Sessions are between link-local IPv6 addresses of ports, and carry IPv4 (RFC 5549), without
addresses between switches; or between the addresses of a /31 (`numbered`). Lines and their
order: configurations of aristanetworks/avd and captures of cEOS and vEOS;
lab/sources.md#eos.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from string import ascii_letters
from typing import Any, Final

from components.core.record import record
from components.core.templates import fault_text
from components.fabric.parts import read_list, write_text
from components.fabric.state import ALWAYS_UP, MTU_WORD, BgpState, SwitchState
from components.fabric.systems import rows as table
from components.fabric.systems.base import Unsettable
from components.fabric.systems.eos.rows import Section
from components.fabric.systems.ranges import expand_ports
from components.fabric.systems.rows import Row

ROUTING: Final = "show running-config sanitized | include routing"
"""`ip routing …`, `ipv6 unicast-routing` and which model of routing protocols runs."""
ROUTER: Final = "show running-config sanitized | section ^router bgp"
WORDS: Final = "routing"
"""Key of a switch's `native`: its lines about routing, and which interfaces have only our lines."""
GROUP: Final = "RAILYARD"
"""Our peer group; EOS wants one for every neighbour named by its port."""
LINK_LOCAL: Final = "link-local"
MODEL: Final = "service routing protocols model multi-agent"
"""Sessions between link-local addresses need it, since 4.22.1F; it changes at a reload only."""
FORWARDING: Final = ("ip routing ipv6 interfaces", "ipv6 unicast-routing")
"""Route IPv4 over ports without an IPv4 address too, to neighbours with IPv6 addresses only."""
IPV4_ONLY: Final = "ip routing"
WITHIN: Final = " | "
"""Separator between an address family and a line in it."""
FAMILY: Final = "address-family ipv4"
_IN_FAMILY: Final = f"{FAMILY}{WITHIN}"
_SVI: Final = re.compile(r"(?:Vlan|Loopback)\d+")
_ROUTER_LINE: Final = re.compile(r"router bgp (?:(\d+)\.)?(\d+)")
_SECOND: Final = " secondary"
_LOW_HALF: Final = 16
"""Bits of the second part of a number written as `65120.12100` (RFC 5396)."""
_ADDRESS: Final = re.compile(r"\d+(?:\.\d+){3}|[\da-f]*:[\da-f:.]*")
_BY_HAND: Final = "no bgp default ipv4-unicast"
_MARK: Final = "description RAILYARD"
"""Marks our neighbours: a new AS number removes all neighbours, so we must know foreign ones."""
_OURS: Final = re.compile(
    rf"router-id .*|maximum-paths .*|(?:{FAMILY} \| )?network .*|{FAMILY}|neighbor {GROUP} .*"
    rf"|neighbor interface \S+ peer-group {GROUP}(?: .*)?"
)
"""Lines that leave with us, with those of `_group_lines` and those of neighbours with our mark."""
_OVER: Final = re.compile(" (?:remote-as|peer-group) ")
_MARKED: Final = re.compile(r"(?:.* \| )?neighbor (\S+) (?:remote-as|description|bfd|activate)\b.*")
_ENTRIES: Final = (
    (r"\d.*", "ip address {}", "no ip address {}"),
    (LINK_LOCAL, "ipv6 enable", "no ipv6 enable"),
    (ALWAYS_UP, "no autostate", "autostate"),
    (f"{MTU_WORD}.*", "{}", "no mtu"),
)
"""Pattern of an entry of `SwitchState.addresses`, its line, and the line that takes it away; in the
order in which they go."""
Lines = tuple[str, ...]
_KINDS: Final = {"Et": "Ethernet", "Vl": "Vlan", "Po": "Port-Channel"}
"""Short name to full name; a range may have either form."""
_ROWS: Final = (
    Row("router_id", "router-id (.+)", take=table.by_word(str), lines={"": "no router-id"}),
    Row("max_paths", r"maximum-paths (\d+)(?: ecmp \d+)?",
        lines={0: "no maximum-paths", None: "maximum-paths {}"}),
    Row("networks", rf"(?:{FAMILY} \| )?network (\S+).*", (), table.collect),
    Row("ports", r"neighbor interface (\S+) peer-group (\S+)(?: remote-as (\S+))?.*", {},
        table.by_key),
    Row("addresses", rf"neighbor ({_ADDRESS.pattern}) remote-as (\S+)", {}, table.by_key),
)  # fmt: skip
"""The lines of `router bgp`. A port has a group, and a number unless the group has it."""


def _one_by_one(line: str) -> Iterator[str]:
    """Split a line about several ports, such as `Et1/1,3/1-4`, into one line for each port."""
    found = re.fullmatch(r"neighbor interface (\S+)(.*)", line)
    if found is None:
        yield line
        return
    kind = "Et"
    for part in found[1].split(","):
        number = part.lstrip(f"{ascii_letters}-")
        kind = part[: len(part) - len(number)] or kind
        if kind[:2] not in _KINDS:
            raise ValueError(f"`{line}` is about ports of an unknown kind")
        for port in expand_ports(number):
            yield f"neighbor interface {_KINDS[kind[:2]]}{port}{found[2]}"


def parse_routing(sections: Mapping[str, Section], plain: str, router: str) -> dict[str, Any]:
    """Addresses of interfaces and BGP of the default VRF, as fields of `SwitchState`."""
    plain_lines = {line.strip() for line in plain.splitlines()} & {*FORWARDING, IPV4_ONLY, MODEL}
    paths = [*table.nested_lines(router)]
    numbers = [found for head, *_ in paths if (found := _ROUTER_LINE.fullmatch(head))]
    asn = (int(numbers[-1][1] or 0) << _LOW_HALF) + int(numbers[-1][2]) if numbers else None
    joined = (WITHIN.join(inner) for _, *inner in paths if inner)
    lines = tuple(line for each in joined for line in _one_by_one(each))
    entries = {
        name: tuple(
            found[1] if found.groups() else form
            for line in section.lines
            for form, shown, _ in _ENTRIES
            if (found := re.fullmatch(shown.format(f"({form})"), line))
        )
        for name, section in sections.items()
    }
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
        "native": {WORDS: write_text(words)},
    }


def _mark(name: str, mark: str) -> str:
    """`there`: the interface exists; `rest`: it has only lines that we set."""
    return f"interface {name} {mark}"


def _group_lines(group: str) -> Lines:
    """The lines that a group must have before its sessions carry IPv4."""
    return (
        f"neighbor {group} peer group",
        f"{_IN_FAMILY}neighbor {group} activate",
        f"{_IN_FAMILY}neighbor {group} next-hop address-family ipv6 originate",
    )


def bgp_of(asn: int | None, lines: Lines, *, forwards: bool = False) -> BgpState:
    """The BGP of some lines; a session has a blank number if it is shut or carries no IPv4."""
    values, held = table.factory_values(_ROWS) | table.take_lines(_ROWS, lines), {*lines}
    peers = {name: (name, number) for name, number in values["addresses"].items()} | values["ports"]
    numbers: dict[str, str] = {}
    for name, (head, own) in peers.items():
        active = f"{_IN_FAMILY}neighbor {head} activate"
        needs = _group_lines(head) if head != name else (active,) if _BY_HAND in held else ()
        shut = {f"neighbor {head} shutdown", f"{_IN_FAMILY}no neighbor {head} activate"} & held
        said = [each.split()[-1] for each in _about(lines, head) if " remote-as " in each]
        numbers[name] = (own or "".join(said[:1])) if {*needs} <= held and not shut else ""
    return BgpState(
        asn=asn,
        router_id=values["router_id"],
        neighbors=numbers,
        networks=values["networks"],
        bfd=tuple(name for name, (head, _) in peers.items() if f"neighbor {head} bfd" in held),
        max_paths=values["max_paths"],
        forwards=forwards or None,
    )


def _router_lines(words: Lines) -> Lines:
    head = f"bgp{WITHIN}"
    return tuple(word.removeprefix(head) for word in words if word.startswith(head))


def _entry(entry: str) -> tuple[int, str, str]:
    place, form = next(each for each in enumerate(_ENTRIES) if re.fullmatch(each[1][0], entry))
    return place, form[1].format(entry), form[2].format(entry)


def leaving_lines(actual: SwitchState, target: SwitchState) -> Iterator[Lines]:
    """The lines to remove from interfaces before a port stops being routed."""
    recorded, words = read_list(target.native.get(WORDS)), actual.noted(WORDS)
    for name, wanted in (target.addresses or {}).items():
        held = (actual.addresses or {}).get(name)
        was_absent = recorded is not None and _mark(name, "there") not in recorded
        if was_absent and held is not None and not wanted and _mark(name, "rest") in words:
            yield (f"no interface {name}",)
            continue
        stays = {_entry(each)[2] for each in wanted}  # another MTU is written over the one before
        gone = sorted(map(_entry, held or ()), key=lambda each: each[0])
        if lines := [without for _, _, without in gone if without not in stays]:
            yield (f"interface {name}", *lines, "exit")


def coming_lines(actual: SwitchState, target: SwitchState) -> Iterator[Lines]:
    """The lines to add to interfaces after a port became routed; Unsettable with another one."""
    for name, wanted in (target.addresses or {}).items():
        plain = [each for each in wanted if _entry(each)[0] == 0 and not each.endswith(_SECOND)]
        if len(plain) > 1:
            words = {"name": name, "held": plain[0], "wanted": plain[1]}
            raise Unsettable(fault_text(__file__, "second-address", **words))
        mtus = [each for each in wanted if each.startswith(MTU_WORD)]  # its own, and then ours
        has = {*(actual.addresses or {}).get(name, ()), *mtus[:-1]}
        new = [each for each in dict.fromkeys((*mtus, *wanted)) if each not in has]
        new.sort(key=lambda each: each not in mtus and 1 + _entry(each)[0])
        if new:
            yield (f"interface {name}", *(_entry(each)[1] for each in new), "exit")


def forwarding_lines(actual: SwitchState, target: SwitchState) -> Iterator[Lines]:
    """The lines that turn routing on or off."""
    held, recorded = actual.noted(WORDS), target.noted(WORDS)
    wanted = target.bgp.forwards if target.bgp else None
    for line in FORWARDING if wanted is not None else ():
        stays = wanted or line in recorded
        if stays and line not in held:
            yield (line,)
        elif not stays and line in held:
            # Whether this leaves plain IPv4 on is not documented, so we set that too.
            rest = (IPV4_ONLY if IPV4_ONLY in recorded else f"no {IPV4_ONLY}",)
            yield (f"no {line}", *(rest if line.startswith(IPV4_ONLY) else ()))


def router_lines(actual: SwitchState, target: SwitchState) -> Iterator[Lines]:
    """BGP; Unsettable if a foreign setting is in the way."""
    wanted, was, held = target.bgp, actual.bgp or BgpState(), _router_lines(actual.noted(WORDS))
    if wanted is None:
        return
    if wanted.asn is not None and MODEL not in actual.noted(WORDS):
        raise Unsettable(fault_text(__file__, "model", line=MODEL))
    if was.asn is not None and wanted.asn != was.asn:
        foreign = [
            line
            for line in held
            if not (_OURS.fullmatch(line) or line in _group_lines(GROUP))
            and not ((found := _MARKED.fullmatch(line)) and f"neighbor {found[1]} {_MARK}" in held)
        ]
        if not foreign and (wanted.asn or not (wanted.neighbors or wanted.networks)):
            yield (f"no router bgp {was.asn}",)
            was, held = BgpState(), ()
        elif wanted.asn is None:
            wanted = wanted.model_copy(update={"asn": was.asn})  # others' lines are in it by now
        else:
            raise Unsettable(fault_text(__file__, "foreign-bgp", was=was, wanted=wanted))
    if wanted.asn is not None:
        lines = [*_Way(was, wanted, held, _router_lines(target.noted(WORDS))).lines()]
        inner = [line.rpartition(WITHIN)[2] for line in lines if WITHIN in line]
        if lines or was.asn is None:
            top = (line for line in lines if WITHIN not in line)
            block = (FAMILY, *inner, "exit") if inner else ()
            yield (f"router bgp {wanted.asn}", *top, *block, "exit")


def _negate(line: str) -> str:
    family, within, own = line.rpartition(WITHIN)
    return f"{family}{within}no {own}"


def _about(lines: Lines, name: str) -> list[str]:
    return [line for line in lines if line.rpartition(WITHIN)[2].startswith(f"neighbor {name} ")]


@record
class _Way:
    """The change from one BGP to another; each line carries its address family."""

    was: BgpState
    wanted: BgpState
    held: Lines
    """The lines of the switch now."""
    recorded: Lines
    """Lines from before our first change; they are sent again if they fit the target."""

    def lines(self) -> Iterator[str]:
        """Numbers, the group, neighbours, networks."""
        was, wanted = self.was, self.wanted
        if wanted.router_id != was.router_id:
            yield _ROWS[0].text(wanted.router_id or "")
        if wanted.max_paths not in {None, was.max_paths or 0}:
            line = _ROWS[1].text(wanted.max_paths)
            yield next((each for each in self.recorded if f"{each} ".startswith(f"{line} ")), line)
        # The lines of our group while a neighbour is in it; without one, its recorded lines.
        held, aim = ({*_about(lines, GROUP)} for lines in (self.held, self.recorded))
        ports = table.take_lines(_ROWS, (*self.held, *self.recorded)).get("ports", {})
        ends = {name for name in wanted.neighbors if name.startswith("Ethernet")}
        of_group = {name for name in ends if ports.get(name, (GROUP,))[0] == GROUP}
        order = (*_group_lines(GROUP), f"neighbor {GROUP} bfd")
        if of_group:
            watched = {order[-1]} if of_group & {*wanted.bfd} else set[str]()
            aim = (aim | {*order}) - {order[-1]} | watched
        yield from sorted(aim - held, key=lambda line: order.index(line) if line in order else 9)
        less = sorted(held - aim)
        yield from map(_negate, order[:1] if order[0] in less else less)
        yield from self._neighbors()
        inner = f"{_IN_FAMILY}network "
        gone = (each for each in was.networks if each not in wanted.networks)
        yield from (_negate(f"{inner}{each}") for each in gone)
        yield from (f"{inner}{each}" for each in wanted.networks if each not in was.networks)

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
        head, number = f"neighbor {_key(name)}", self.wanted.neighbors[name]
        if _told(bgp_of(None, self.recorded), name) == _told(self.wanted, name):
            return _about(self.recorded, _key(name))
        if not _ADDRESS.fullmatch(name):
            return [f"{head} peer-group {GROUP} remote-as {number}"]
        ours = {
            f"{head} remote-as {number}": True,
            f"{head} {_MARK}": not any(line.startswith(f"{head} description ") for line in now),
            f"{head} bfd": name in self.wanted.bfd,
            f"{_IN_FAMILY}{head} activate": _BY_HAND in self.held,
        }
        ending = (" shutdown", " bfd", " activate")
        rest = [e for e in now if not e.endswith(ending) and " remote-as " not in e]
        return [*(line for line, is_wanted in ours.items() if is_wanted), *rest]


def _key(name: str) -> str:
    return name if _ADDRESS.fullmatch(name) else f"interface {name}"


def _told(bgp: BgpState, name: str) -> tuple[str | None, bool]:
    """The number of a neighbour, and whether it has BFD; a port has that from its group."""
    return bgp.neighbors.get(name), name in bgp.bfd and _ADDRESS.fullmatch(name) is not None
