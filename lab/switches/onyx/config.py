"""What an emulated Onyx switch holds: its configuration, saved and running, and its counters.

Factory values: MTU 1500 (below 3.9.2110), access VLAN 1, trust L2 (onyx_qos.py), eight
DSCPs per priority (fixture show_qos_interface_ethernet.cfg), PFC off, no ECN, ETS weights 12
and 13 in turn (fixture of `show dcb ets interface`). Priority n in traffic class n is a guess
beyond 3 and 6, which `show roce` prints (capture C1).
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from lab.switches import stored
from lab.switches.front import front_of
from lab.switches.stored import Part

Mode = Literal["access", "trunk", "hybrid"]
Trust = Literal["L2", "L3", "both", "port"]
RoceMode = Literal["none", "lossless", "semi-lossless", "lossy"]

FACTORY_MTU_BYTES = 1500
FACTORY_VLAN = 1
TRAFFIC_CLASSES = range(8)
FACTORY_WEIGHTS = {tc: 12 + tc % 2 for tc in TRAFFIC_CLASSES}


class Congestion(Part):
    """Marking or dropping thresholds of one traffic class."""

    kind: Literal["ecn", "red", "both"]
    unit: Literal["KB", "%"]
    minimum: int
    maximum: int


class PortConfig(Part):
    """One Ethernet port, as configured."""

    admin_up: bool = True
    mtu_bytes: int = FACTORY_MTU_BYTES
    description: str = ""
    routed: bool = False
    """A router port: in no VLAN (`no switchport force`)."""
    mode: Mode = "access"
    access_vlan: int = FACTORY_VLAN
    allowed_vlans: Literal["all"] | list[int] = []
    trust: Trust = "L2"
    rewrite: list[str] = []
    dscp_map: dict[int, int] = {}
    """DSCP to switch priority where it is not the factory's, DSCP / 8."""
    congestion: dict[int, Congestion] = {}
    ets_strict: list[int] = []
    ets_weights: dict[int, int] = {}
    """Traffic class to WRR weight where it is not the factory's."""
    pfc: bool = False

    def set_mode(self, mode: Mode) -> None:
        """Change the switchport mode; the VLANs become that mode's defaults (a guess)."""
        if mode == self.mode and not self.routed:
            return
        self.routed = False
        self.mode = mode
        self.access_vlan = FACTORY_VLAN
        self.allowed_vlans = "all" if mode == "trunk" else []

    def priority_of(self, dscp: int) -> int:
        """Which switch priority a DSCP gets."""
        return self.dscp_map.get(dscp, dscp // 8)

    def add_allowed(self, vlans: list[int]) -> None:
        """Allow more VLANs on a trunk or hybrid port."""
        if self.allowed_vlans != "all":
            self.allowed_vlans = sorted({*self.allowed_vlans, *vlans})

    def remove_allowed(self, vlans: list[int]) -> None:
        """Stop allowing some VLANs."""
        held = range(1, 4095) if self.allowed_vlans == "all" else self.allowed_vlans
        self.allowed_vlans = [vlan for vlan in held if vlan not in set(vlans)]


class CliConfig(Part):
    """What every configuration of Onyx and MLNX-OS says."""

    hostname: str
    paging: bool = True


ConfigT = TypeVar("ConfigT", bound=CliConfig)


class SavedAndRunning(stored.Stored, Generic[ConfigT]):
    """What one switch keeps on its disk in the lab."""

    running: ConfigT
    saved: ConfigT


class Config(CliConfig):
    """A whole configuration: what is running, or what the next boot will load."""

    model: str = ""
    vlans: dict[int, str] = {FACTORY_VLAN: "default"}
    ports: dict[str, PortConfig]
    pfc_enabled: bool = False
    pfc_priorities: list[int] = []
    roce: RoceMode = "none"
    lldp: bool = False


Stored = SavedAndRunning[Config]


def factory_config(hostname: str, model: str) -> Config:
    """The configuration of a switch that nobody has touched.

    Raises:
        UsageError: No such model runs Onyx, as far as is known.
    """
    count = front_of(model, "onyx").ports
    ports = {f"1/{n}": PortConfig() for n in range(1, count + 1)}
    return Config(hostname=hostname, model=model, ports=ports)


def apply_roce(config: Config, mode: RoceMode) -> None:
    """Do what the one-shot `roce` command does to every port (manual "RoCE Commands")."""
    config.roce = mode
    on = mode != "none"
    config.lldp = on
    config.pfc_enabled = mode in {"lossless", "semi-lossless"}
    config.pfc_priorities = [3] if config.pfc_enabled else []
    for port in config.ports.values():
        port.trust = "L3" if on else "L2"
        ecn = Congestion(kind="ecn", unit="KB", minimum=150, maximum=1500)
        port.congestion = {3: ecn} if on else {}
        port.ets_strict = [6] if on else []
        port.ets_weights = {3: 50} if on else {}
