"""The state of an emulated EOS switch, and the line of each setting, as typed and printed.

Fields are in the order in which aristanetworks/avd renders their lines. lab/sources.md#eos has the
lines, and the defaults that apply without one. Guesses are marked.
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
"""`IP MTU 1500 bytes`: a routed interface without an MTU line (Arista's manual)."""
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
    """A reader for a row: a number in its range."""
    return lambda _place, text: within(text, low, high)


def expand_within(text: str, low: int = 1, high: int = ALL_VLANS[-1]) -> list[int]:
    """Spell out `10,111-112`, and `0 1 2` in the form of the QoS maps.

    Raises:
        CliError: A number is out of range, or the text is not a list.
    """
    if not re.fullmatch(r"\d+(-\d+)?([, ]\d+(-\d+)?)*", text):
        raise CliError(INVALID)
    for number in re.findall(r"\d+", text):
        within(number, low, high)
    return [*expand(text.replace(" ", ","))]


def indent(lines: Iterable[str]) -> Iterator[str]:
    """Indent by one level."""
    return (f"   {line}" for line in lines)


class Marking(Part):
    """ECN thresholds of one queue."""

    minimum: int
    maximum: int
    unit: Literal["segments", "bytes", "kbytes", "mbytes"]
    percent: int = 100
    """Largest percentage of packets to mark. The defaults 100 and weight 0 are guesses."""
    weight: int = 0


class Watchdog(Part):
    """A port's own settings of its PFC watchdog, in the order of 4.35 (AVD #6318)."""

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
    """Strict priority is the default; `no priority` ends it."""
    marking: Annotated[Marking | None, _marking] = None
    count: Annotated[bool, flag("random-detect ecn count")] = False


def _speed(place: Place, text: str) -> str:
    """Read speed and lanes; refuse a speed that the model lacks (a guessed wording)."""
    word = text.removeprefix("auto ")
    if word not in place.config.speeds:
        raise CliError(f"% Unsupported speed {word}")
    return text


def _encodings(port: Port) -> Iterator[str]:
    """Render the FEC lines; `no` alone turns off every kind (AVD's template)."""
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
    """VLANs of a trunk in stored form; None: all."""
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
    """Speed and lanes, `400g-4` or `auto 400g-4`; None: all lanes of the port at their fastest."""
    mtu: _Mtu = None
    """MTU of routed packets; a switched port ignores it."""
    l2_mtu: Annotated[int | None, Row("l2 mtu <int>", read=between(64, 65535))] = None
    fec: Annotated[list[str], _encodings] = []
    """Lines on error correction: `reed-solomon`, `fire-code`, `no` for all, `no fire-code`."""
    group: Annotated[tuple[int, ChannelMode] | None, _group] = None
    """Its bundle, and the mode there."""
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
    # The list of priorities stays: a guess, on which the driver does not depend.
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
    """Whether a VLAN's interface goes down while all ports in the VLAN are down."""
    address: _Address = None
    ipv6: Annotated[bool, flag("ipv6 enable")] = False


class Group(Part):
    """A peer group; its last two lines belong to the IPv4 address family."""

    shutdown: _Shutdown = False
    bfd: Annotated[bool, flag("bfd")] = False
    active: Annotated[bool, flag("activate")] = False
    over_ipv6: Annotated[bool, flag("next-hop address-family ipv6 originate")] = False


class Neighbor(Part):
    """A neighbour that is configured by address."""

    asn: int
    shutdown: _Shutdown = False
    description: _Description = None
    bfd: Annotated[bool, flag("bfd")] = False
    active: Annotated[bool, flag("activate")] = False
    """Activates the address family; only needed without `bgp default ipv4-unicast`."""


class Bgp(Part):
    """`router bgp` of the default VRF."""

    asn: int
    router_id: Annotated[str | None, Row("router-id <word>")] = None
    max_paths: Annotated[int, Row("maximum-paths <int>", without=1, read=between(1, MAX_PATHS))] = 1
    carries: Annotated[bool, flag("bgp default ipv4-unicast")] = True
    groups: dict[str, Group] = {}
    ports: dict[str, tuple[str, int]] = {}
    """Port to its group and to its neighbour's AS number."""
    addresses: dict[str, Neighbor] = {}
    networks: list[str] = []


class Routing(Part):
    """All routing settings."""

    model: Literal["multi-agent", "ribd"] = "multi-agent"
    """The default comes from a capture of 4.32.1F; a change acts after a reload."""
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
    """Speeds, with their lanes, that the model's ports support."""
    dscp_classes: dict[int, int] = {}
    """DSCPs with another class than the default."""
    class_queues: dict[int, int] = {}
    """Traffic classes with another queue than their own number."""
    rewrite_dscp: Annotated[bool, flag("qos rewrite dscp")] = False
    """`qos rewrite dscp`: outgoing packets get the DSCP of their class."""
    watchdog_defaults: dict[str, str] = {}
    """`default timeout`, `default recovery-time`, `default polling-interval`, `action`.

    They apply to each port without own lines for them.
    """
    routing: Routing = Routing()
    quiesced: bool = False
    """`quiesce` of the unit System, below `maintenance`."""

    def copied(self) -> Config:
        """A deep copy; `deepcopy` takes many times as long."""
        return Config.model_validate(self.model_dump())


class ConfigSession(Part):
    """One configuration session."""

    state: SessionState = "pending"
    candidate: Config
    checkpoint: Config | None = None
    """Restored unless the commit is confirmed."""
    expires_at_s: float = 0.0
    user: str = ""


class Stored(stored.Stored):
    """The state that one switch keeps on disk in the lab."""

    running: Config
    startup: Config
    unconfirmed: Config | None = None
    """The running configuration before a commit that awaits its confirmation."""


def port_order(name: str) -> tuple[int, ...]:
    """Sort key that orders ports by number, not by letter."""
    return tuple(int(part) for part in name.removeprefix("Ethernet").split("/"))


def port_name(text: str) -> str:
    """Expand `Et1/1`, `eth1/1` and `1/1` to `Ethernet1/1`."""
    return f"Ethernet{re.sub('^[A-Za-z]+', '', text)}"


@dataclass(slots=True)
class Place:
    """The position of a login in a configuration."""

    config: Config
    modes: tuple[tuple[str, str], ...] = ()
    """Its modes from the outside in, each with the name of the edited object."""

    def enter(self, mode: str, name: str = "") -> None:
        """Enter a mode."""
        self.modes = (*self.modes, (mode, name))

    def inside(self, mode: str) -> str:
        """The name of the object that a mode edits; empty outside the mode."""
        return dict(self.modes).get(mode, "")

    def held(self) -> Port:
        """The port that this login edits."""
        return self.config.ports[self.inside("port")]

    def held_queue(self) -> Queue:
        """The queue that this login edits."""
        return self.held().queues.setdefault(int(self.inside("queue")), Queue())

    def held_interface(self) -> Interface | Port:
        """The routed interface or port that this login edits."""
        svi = self.inside("svi")
        return self.config.routing.interfaces[svi] if svi else self.held()

    def held_bgp(self) -> Bgp:
        """The BGP configuration that this login edits."""
        if self.config.routing.bgp is None:
            raise CliError(INVALID)
        return self.config.routing.bgp

    def known_port(self, text: str) -> str:
        """The full name of a port; a CliError if it does not exist."""
        name = port_name(text)
        if name not in self.config.ports:
            raise CliError(INVALID)
        return name


def entering(mode: str) -> Callable[[Place], None]:
    """A handler for a line that enters a mode."""
    return lambda place: place.enter(mode)
