"""What an emulated EOS switch holds, and the line of each setting: as it is typed and printed.

Fields are in the order in which aristanetworks/avd renders their lines. The lines, and the defaults
that are in force without one: lab/sources.md#eos. A guess is marked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Interface
from typing import Annotated, Final, Literal

from lab.switches import stored
from lab.switches.command_line import CliError, Row, flag, lines_of, rows_of
from lab.switches.stored import Part
from lab.switches.text import collapse, expand

Trust = Literal["cos", "dscp", "none"]
Mode = Literal["access", "trunk"]
ChannelMode = Literal["active", "passive", "on"]
Forwarding = Literal["off", "ipv4", "ipv6 interfaces"]
SessionState = Literal["pending", "pendingCommitTimer", "completed"]

FACTORY_MTU_BYTES = 9214
ROUTED_MTU_BYTES = 1500
"""`IP MTU 1500 bytes` of every routed interface without a line for it (Arista's manual)."""
ALL_VLANS = range(1, 4095)
QUEUES = range(8)
EOS_RELEASE = "4.32.1F"
MAX_PATHS: Final = 128
_LONGEST: Final = 31
"""Prefix length of a link with two ends (RFC 3021)."""


INVALID: Final = "% Invalid input"
WATCHDOG: Final = "priority-flow-control pause watchdog"
ENCODING: Final = "error-correction encoding"


def within(text: str, low: int, high: int) -> int:
    """A number in its range; a CliError if it is outside."""
    if not low <= int(text) <= high:
        raise CliError(INVALID)
    return int(text)


def between(low: int, high: int) -> Callable[[Place, str], int]:
    """A number in its range, as a row reads it."""
    return lambda _place, text: within(text, low, high)


def expand_within(text: str, low: int = 1, high: int = ALL_VLANS[-1]) -> list[int]:
    """Spell out `10,111-112`, and `0 1 2` as the QoS maps have it.

    Raises:
        CliError: A number is out of range, or it is no list.
    """
    if not re.fullmatch(r"\d+(-\d+)?([, ]\d+(-\d+)?)*", text):
        raise CliError(INVALID)
    for number in re.findall(r"\d+", text):
        within(number, low, high)
    return [*expand(text.replace(" ", ","))]


def indent(lines: Iterable[str]) -> Iterator[str]:
    """One level deeper."""
    return (f"   {line}" for line in lines)


class Marking(Part):
    """ECN thresholds of one queue."""

    minimum: int
    maximum: int
    unit: Literal["segments", "bytes", "kbytes", "mbytes"]
    percent: int = 100
    """Most of the packets that are marked. That 100 and weight 0 are the defaults is a guess."""
    weight: int = 0


class Watchdog(Part):
    """What a port's own lines say of its PFC watchdog, in the order of 4.35 (AVD #6318)."""

    enabled: Annotated[bool, flag(WATCHDOG)] = False
    timer: Annotated[str | None, Row(f"{WATCHDOG} port timer <text>")] = None
    action: Annotated[
        Literal["drop", "notify-only"] | None, Row(f"{WATCHDOG} port action drop|notify-only")
    ] = None


def _marking(queue: Queue) -> Iterator[str]:
    found = queue.marking
    if found is not None:
        low, high = (f"{each} {found.unit}" for each in (found.minimum, found.maximum))
        yield (
            f"random-detect ecn minimum-threshold {low} maximum-threshold {high} "
            f"max-mark-probability {found.percent} weight {found.weight}"
        )


class Queue(Part):
    """One unicast transmit queue."""

    bandwidth_percent: Annotated[
        int | None, Row("bandwidth percent <int>", read=between(1, 100))
    ] = None
    strict: Annotated[bool, flag("priority strict", head="priority")] = True
    """`no priority` takes a queue out of strict priority, which is the default."""
    marking: Annotated[Marking | None, _marking] = None
    count: Annotated[bool, flag("random-detect ecn count")] = False


def _speed(place: Place, text: str) -> str:
    """Speed and lanes; what the model has not is refused (a guessed wording)."""
    word = text.removeprefix("auto ")
    if word not in place.config.speeds:
        raise CliError(f"% Unsupported speed {word}")
    return text


def _encodings(port: Port) -> Iterator[str]:
    """`no` alone is for every kind (AVD's template)."""
    for word in port.fec:
        kind = word.removeprefix("no").strip()
        yield f"{'no ' * word.startswith('no')}{ENCODING} {kind}".strip()


def _group(port: Port) -> list[str]:
    return [f"channel-group {port.group[0]} mode {port.group[1]}"] if port.group else []


def _native(_place: Place, text: str) -> int:
    return 0 if text == "tag" else within(text, 1, ALL_VLANS[-1])


def _allowed(_place: Place, text: str) -> list[int] | None:
    if text in {"all", "none"}:
        return None if text == "all" else []
    return some_of(expand_within(text))


def some_of(vlans: Iterable[int]) -> list[int] | None:
    """VLANs of a trunk as they are kept; None: all."""
    return None if {*vlans} == {*ALL_VLANS} else sorted({*vlans})


def _priorities(port: Port) -> Iterator[str]:
    return (f"priority-flow-control priority {number} no-drop" for number in port.no_drop)


def _watchdog(port: Port) -> Iterator[str]:
    return lines_of(rows_of(Watchdog), port.watchdog)


def _queues(port: Port) -> Iterator[str]:
    for number, queue in sorted(port.queues.items()):
        inner = [*lines_of(rows_of(Queue), queue)]
        yield from ("!", f"uc-tx-queue {number}", *indent(inner)) if inner else ()


def _address(place: Place, text: str) -> str:
    try:
        length = IPv4Interface(text).network.prefixlen
    except ValueError:
        raise CliError(INVALID) from None
    if "/" not in text or (length > _LONGEST and not place.inside("svi").startswith("Loopback")):
        raise CliError(INVALID)  # a guess
    return text


_Address = Annotated[str | None, Row("ip address <word>", read=_address)]
_Description = Annotated[str | None, Row("description <text>")]
_Shutdown = Annotated[bool, flag("shutdown")]
_Mtu = Annotated[int | None, Row("mtu <int>", read=between(68, 65535))]


class Port(Part):
    """One Ethernet port, as configured."""

    description: _Description = None
    shutdown: _Shutdown = False
    speed: Annotated[str | None, Row("speed <text>", read=_speed, resets=True)] = None
    """Speed and lanes, `400g-4` or `auto 400g-4`; None: as many lanes as the port has, and its
    fastest speed."""
    mtu: _Mtu = None
    """Of routed packets; it does nothing on a switched port."""
    l2_mtu: Annotated[int | None, Row("l2 mtu <int>", read=between(64, 65535))] = None
    fec: Annotated[list[str], _encodings] = []
    """Lines on error correction: `reed-solomon`, `fire-code`, `no` for all of it, `no fire-code`.
    """
    group: Annotated[tuple[int, ChannelMode] | None, _group] = None
    """The bundle that it is in, and how."""
    access_vlan: Annotated[
        int, Row("switchport access vlan <int>", without=1, read=between(1, 4094))
    ] = 1
    native_vlan: Annotated[
        int,
        Row(
            "switchport trunk native vlan tag|<int>",
            without=1,
            read=_native,
            show=lambda vlan: str(vlan or "tag"),
        ),
    ] = 1
    """0: frames without a tag are dropped."""
    allowed: Annotated[
        list[int] | None,
        Row(
            "switchport trunk allowed vlan none|all|<vlans>",
            read=_allowed,
            show=lambda vlans: collapse(vlans) or "none",
        ),
    ] = None
    """VLANs of a trunk; None: all. They stay while the port is in access mode."""
    mode: Annotated[Mode, Row("switchport mode access|trunk", without="access")] = "access"
    routed: Annotated[bool, Row("switchport", value=False, without=True)] = False
    address: _Address = None
    ipv6: Annotated[bool, flag("ipv6 enable")] = False
    trust: Annotated[Trust | None, Row("qos trust cos|dscp", without="none", resets=True)] = None
    # That the list of priorities stays is a guess, on which the driver does not depend.
    pfc: Annotated[bool, flag("priority-flow-control on", head="priority-flow-control")] = False
    no_drop: Annotated[list[int], _priorities] = []
    watchdog: Annotated[Watchdog, _watchdog] = Watchdog()
    portfast: Annotated[
        str | None,
        Row(
            "spanning-tree portfast edge|network|auto|normal",
            show=lambda word: word.removeprefix("edge"),
        ),
    ] = None
    bpduguard: Annotated[str | None, Row("spanning-tree bpduguard enable|disable")] = None
    queues: Annotated[dict[int, Queue], _queues] = {}


class Interface(Part):
    """A loopback, or the routed interface of a VLAN."""

    description: _Description = None
    shutdown: _Shutdown = False
    mtu: _Mtu = None
    autostate: Annotated[bool, flag("autostate")] = True
    """Whether the interface of a VLAN is down while no port in the VLAN is up."""
    address: _Address = None
    ipv6: Annotated[bool, flag("ipv6 enable")] = False


class Group(Part):
    """A peer group; its last two lines are in the address family of IPv4."""

    shutdown: _Shutdown = False
    bfd: Annotated[bool, flag("bfd")] = False
    active: Annotated[bool, flag("activate")] = False
    over_ipv6: Annotated[bool, flag("next-hop address-family ipv6 originate")] = False


class Neighbor(Part):
    """A neighbour that is an address."""

    asn: int
    shutdown: _Shutdown = False
    description: _Description = None
    bfd: Annotated[bool, flag("bfd")] = False
    active: Annotated[bool, flag("activate")] = False
    """In the address family; it is needed only without `bgp default ipv4-unicast`."""


class Bgp(Part):
    """`router bgp` of the default VRF."""

    asn: int
    router_id: Annotated[str | None, Row("router-id <word>")] = None
    max_paths: Annotated[int, Row("maximum-paths <int>", without=1, read=between(1, MAX_PATHS))] = 1
    carries: Annotated[bool, flag("bgp default ipv4-unicast")] = True
    groups: dict[str, Group] = {}
    ports: dict[str, tuple[str, int]] = {}
    """Port to its group and to the number of its neighbour."""
    addresses: dict[str, Neighbor] = {}
    networks: list[str] = []


class Routing(Part):
    """All of it."""

    model: Literal["multi-agent", "ribd"] = "multi-agent"
    """A capture of 4.32.1F says the first; another one acts after a reload."""
    forwarding: Forwarding = "off"
    ipv6: Annotated[bool, flag("ipv6 unicast-routing")] = False
    interfaces: dict[str, Interface] = {}
    bgp: Bgp | None = None


class Config(Part):
    """A whole configuration."""

    hostname: Annotated[str, Row("hostname <word>", removable=False)]
    vlans: dict[int, str] = {1: "default"}
    ports: dict[str, Port]
    speeds: list[str] = []
    """Speeds, with their lanes, that a port of the model can have."""
    dscp_classes: dict[int, int] = {}
    """DSCPs that are not in their default class."""
    class_queues: dict[int, int] = {}
    """Traffic classes that are not in the queue of their own number."""
    rewrite_dscp: Annotated[bool, flag("qos rewrite dscp")] = False
    """`qos rewrite dscp`: what leaves gets the DSCP of its class."""
    watchdog_defaults: dict[str, str] = {}
    """`default timeout`, `default recovery-time`, `default polling-interval`, `action`: of every
    port whose own lines do not say it."""
    routing: Routing = Routing()
    quiesced: bool = False
    """`quiesce` of the unit System, below `maintenance`."""

    def copied(self) -> Config:
        """One of its own; `deepcopy` takes many times as long."""
        return Config.model_validate(self.model_dump())


class ConfigSession(Part):
    """One configuration session."""

    state: SessionState = "pending"
    candidate: Config
    checkpoint: Config | None = None
    """What comes back unless the commit is confirmed."""
    expires_at_s: float = 0.0
    user: str = ""


class Stored(stored.Stored):
    """What one switch keeps on its disk in the lab."""

    running: Config
    startup: Config
    unconfirmed: Config | None = None
    """What was running before a commit that awaits its confirmation."""


def port_order(name: str) -> tuple[int, ...]:
    """Ports by number, not by letter."""
    return tuple(int(part) for part in name.removeprefix("Ethernet").split("/"))


def port_name(text: str) -> str:
    """`Et1/1`, `eth1/1` and `1/1` are `Ethernet1/1`."""
    return f"Ethernet{re.sub('^[A-Za-z]+', '', text)}"


@dataclass(slots=True)
class Place:
    """Where a login stands in a configuration."""

    config: Config
    modes: tuple[tuple[str, str], ...] = ()
    """The modes that it is in, from the outside in, each with the name of what it edits."""

    def enter(self, mode: str, name: str = "") -> None:
        """Go into a mode."""
        self.modes = (*self.modes, (mode, name))

    def inside(self, mode: str) -> str:
        """The name of what a mode edits; blank outside of it."""
        return dict(self.modes).get(mode, "")

    def held(self) -> Port:
        """The port that is being edited."""
        return self.config.ports[self.inside("port")]

    def held_queue(self) -> Queue:
        """The queue that is being edited."""
        return self.held().queues.setdefault(int(self.inside("queue")), Queue())

    def held_interface(self) -> Interface | Port:
        """What is routed and being edited."""
        svi = self.inside("svi")
        return self.config.routing.interfaces[svi] if svi else self.held()

    def held_bgp(self) -> Bgp:
        """BGP, which is being edited."""
        if self.config.routing.bgp is None:
            raise CliError(INVALID)
        return self.config.routing.bgp

    def known_port(self, text: str) -> str:
        """The whole name of a port; a CliError if there is none."""
        name = port_name(text)
        if name not in self.config.ports:
            raise CliError(INVALID)
        return name


def entering(mode: str) -> Callable[[Place], None]:
    """A line that goes into a mode."""
    return lambda place: place.enter(mode)
