"""What an emulated EOS switch holds: its configurations, its sessions, and its counters.

A value of None stands nowhere in the configuration: the default is in force. Defaults and the words
of the configuration: docs/explanation/sources.md#eos.
"""

from __future__ import annotations

from typing import Literal

from lab.switches import stored
from lab.switches.front import Front, front_of
from lab.switches.stored import Part

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


class Marking(Part):
    """ECN thresholds of one queue."""

    minimum: int
    maximum: int
    unit: Literal["segments", "bytes", "kbytes", "mbytes"]
    percent: int = 100
    """Most of the packets that are marked. That 100 and weight 0 are the defaults is a guess."""
    weight: int = 0


class Watchdog(Part):
    """What a port's own lines say of its PFC watchdog."""

    enabled: bool = False
    timer: str | None = None
    action: Literal["drop", "notify-only"] | None = None


class Queue(Part):
    """One unicast transmit queue."""

    marking: Marking | None = None
    count: bool = False
    bandwidth_percent: int | None = None
    strict: bool = True
    """`no priority` takes a queue out of strict priority, which is the default."""


class Port(Part):
    """One Ethernet port, as configured."""

    description: str | None = None
    shutdown: bool = False
    speed: str | None = None
    """Speed and lanes, `400g-4` or `auto 400g-4`; None: as many lanes as the port has, and its
    fastest speed."""
    fec: list[str] = []
    """Lines on error correction: `reed-solomon`, `fire-code`, `no` for all of it, `no fire-code`.
    """
    mtu: int | None = None
    """Of routed packets; it does nothing on a switched port."""
    l2_mtu: int | None = None
    routed: bool = False
    address: str | None = None
    ipv6: bool = False
    mode: Mode = "access"
    access_vlan: int = 1
    native_vlan: int = 1
    """0: frames without a tag are dropped."""
    allowed: list[int] | None = None
    """VLANs of a trunk; None: all. They stay while the port is in access mode."""
    trust: Trust | None = None
    pfc: bool = False
    no_drop: list[int] = []
    watchdog: Watchdog = Watchdog()
    queues: dict[int, Queue] = {}
    portfast: str | None = None
    bpduguard: str | None = None
    group: tuple[int, ChannelMode] | None = None
    """The bundle that it is in, and how."""


class Interface(Part):
    """A loopback, or the routed interface of a VLAN."""

    description: str | None = None
    shutdown: bool = False
    mtu: int | None = None
    address: str | None = None
    ipv6: bool = False
    autostate: bool = True
    """Whether the interface of a VLAN is down while no port in the VLAN is up."""


class Group(Part):
    """A peer group."""

    bfd: bool = False
    shutdown: bool = False
    active: bool = False
    """`activate` in the address family of IPv4."""
    over_ipv6: bool = False
    """`next-hop address-family ipv6 originate`, there."""


class Neighbor(Part):
    """A neighbour that is an address."""

    asn: int
    description: str | None = None
    bfd: bool = False
    shutdown: bool = False
    active: bool = False
    """`activate` in words, which is needed only without `bgp default ipv4-unicast`."""


class Bgp(Part):
    """`router bgp` of the default VRF."""

    asn: int
    router_id: str | None = None
    max_paths: int = 1
    groups: dict[str, Group] = {}
    ports: dict[str, tuple[str, int]] = {}
    """Port to its group and to the number of its neighbour."""
    addresses: dict[str, Neighbor] = {}
    carries: bool = True
    """`bgp default ipv4-unicast`."""
    networks: list[str] = []


class Routing(Part):
    """All of it."""

    model: Literal["multi-agent", "ribd"] = "multi-agent"
    """A capture of 4.32.1F says the first; another one acts after a reload."""
    forwarding: Forwarding = "off"
    ipv6: bool = False
    interfaces: dict[str, Interface] = {}
    bgp: Bgp | None = None


class Config(Part):
    """A whole configuration."""

    hostname: str
    vlans: dict[int, str] = {1: "default"}
    ports: dict[str, Port]
    speeds: list[str] = []
    """Speeds, with their lanes, that a port of the model can have."""
    dscp_classes: dict[int, int] = {}
    """DSCPs that are not in their default class."""
    class_queues: dict[int, int] = {}
    """Traffic classes that are not in the queue of their own number."""
    rewrite_dscp: bool = False
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


def factory_config(hostname: str, model: str, lanes: tuple[str, ...]) -> Config:
    """The configuration of a switch that nobody has touched.

    Args:
        hostname: Its name.
        model: Its model.
        lanes: Ports beyond the first lane of each that there are, because the port was split.

    Raises:
        UsageError: The lab does not know this model.
    """
    front = front_of(model, "eos")
    whole = [f"Ethernet{number}/1" for number in range(1, front.ports + 1)]
    names = sorted({*whole, *lanes}, key=port_order)
    ports = {name: Port() for name in names}
    return Config(hostname=hostname, ports=ports, speeds=_speeds(front))


_OLD_LANE = 25
"""The fastest speed of a lane that is said without it."""


def _speeds(front: Front) -> list[str]:
    """`400g-4` is 400 Gbit/s on four lanes; that `25g` has one is a guess."""
    pairs = [(each.mode.split("x"), each) for each in front.splits]
    found = [(int(speed), front.lanes // int(parts)) for (parts, speed), _ in pairs]
    found += [(max(front.speeds_gbit_s), front.lanes)]
    return [
        f"{speed}g-{lanes}" if lanes > 1 or speed > _OLD_LANE else f"{speed}g"
        for speed, lanes in found
    ]


def is_active(config: Config, name: str, lanes: int) -> bool:
    """Whether a port has its first lane: one before it may take that, as by default the first does.

    Of the others the fewest lanes are assumed that a port can have, which is a guess.
    """
    head, _, lane = name.rpartition("/")
    for before in range(1, int(lane)):
        port = config.ports.get(f"{head}/{before}")
        speed = (port.speed or "") if port else ""
        width = int(speed.partition("-")[2] or 1) if speed else (lanes if before == 1 else 1)
        if before + width > int(lane):
            return False
    return True


PAM4_LANE_GBIT_S = 50
"""A lane of 50 Gbit/s or more has no link without Reed-Solomon (IEEE 802.3bs, 802.3cd)."""


def is_corrected(port: Port, fastest_gbit_s: int, lanes: int) -> bool:
    """Whether a port has the error correction that its lanes need; without a line it has."""
    gbit_s, width = fastest_gbit_s, lanes
    if port.speed:
        head, _, tail = port.speed.removeprefix("auto ").partition("g")
        gbit_s, width = int(head), int(tail.removeprefix("-") or 1)
    plain = not port.fec or "reed-solomon" in port.fec
    return gbit_s / width < PAM4_LANE_GBIT_S or (plain and "no" not in port.fec)


def port_order(name: str) -> tuple[int, ...]:
    """Ports by number, not by letter."""
    return tuple(int(part) for part in name.removeprefix("Ethernet").split("/"))


def default_class(dscp: int) -> int:
    """The traffic class of a DSCP without a line for it: classes 0 and 1 are swapped (manual)."""
    return (1, 0, 2, 3, 4, 5, 6, 7)[dscp // 8]


def class_of(config: Config, dscp: int) -> int:
    """The traffic class of a DSCP."""
    return config.dscp_classes.get(dscp, default_class(dscp))
