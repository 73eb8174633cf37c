"""What an emulated EOS switch holds: its configurations, its sessions, and its counters.

A value of None stands nowhere in the configuration: the default is in force. Defaults and the words
of the configuration: docs/explanation/sources.md#eos.
"""

from __future__ import annotations

from typing import Literal

from lab.switches import stored
from lab.switches.eos.routed import Routing
from lab.switches.front import front_of
from lab.switches.stored import Part

Trust = Literal["cos", "dscp", "none"]
Mode = Literal["access", "trunk"]
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
    mtu: int | None = None
    """Of routed packets; it does nothing on a switched port."""
    l2_mtu: int | None = None
    routed: bool = False
    address: str | None = None
    ipv6: bool = False
    mode: Mode = "access"
    access_vlan: int = 1
    native_vlan: int = 1
    allowed: list[int] | None = None
    """VLANs of a trunk; None: all. They stay while the port is in access mode."""
    trust: Trust | None = None
    pfc: bool = False
    no_drop: list[int] = []
    watchdog: Watchdog = Watchdog()
    queues: dict[int, Queue] = {}
    extra: list[str] = []
    """Lines that the lab keeps and does nothing with, such as `spanning-tree portfast`."""


class Config(Part):
    """A whole configuration."""

    hostname: str
    vlans: dict[int, str] = {1: "default"}
    ports: dict[str, Port]
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
    whole = [f"Ethernet{number}/1" for number in range(1, front_of(model, "eos").ports + 1)]
    names = sorted({*whole, *lanes}, key=port_order)
    return Config(hostname=hostname, ports={name: Port() for name in names})


def port_order(name: str) -> tuple[int, ...]:
    """Ports by number, not by letter."""
    return tuple(int(part) for part in name.removeprefix("Ethernet").split("/"))


def default_class(dscp: int) -> int:
    """The traffic class of a DSCP without a line for it: classes 0 and 1 are swapped (manual)."""
    return (1, 0, 2, 3, 4, 5, 6, 7)[dscp // 8]


def class_of(config: Config, dscp: int) -> int:
    """The traffic class of a DSCP."""
    return config.dscp_classes.get(dscp, default_class(dscp))
