"""An InfiniBand subnet: which subnet manager is master, and what it gives to each port.

The master is the running manager of the highest priority, and of equal ones that of the lowest
GUID (InfiniBand specification, SMInfo). It hands out LIDs and the keys of its own partitions. A
real port that is active stays so when its manager stops, until its link goes; here it falls back
at once, as after a reboot (docs/explanation/sources.md#mlnx-os).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.views import SubnetView

FULL_MEMBER = 0x8000
"""The membership bit of a partition key."""
FIRST_HCA_LID = 16


@dataclass(frozen=True, slots=True)
class FabricPort:
    """One HCA port of a host."""

    host: str
    name: str
    pci: str
    guid: str
    rate_gbit_s: int
    link_up: bool
    """The host's end of the cable."""


@dataclass(frozen=True, slots=True)
class Subnet:
    """The subnet as it is now."""

    switches: tuple[SubnetView, ...]
    ports: tuple[FabricPort, ...]

    @classmethod
    def of(cls, switches: Iterable[SubnetView], hosts: Iterable[tuple[FabricPort, ...]]) -> Subnet:
        """Collect the switches and the ports of all hosts."""
        return cls(tuple(switches), tuple(port for ports in hosts for port in ports))

    @property
    def managers(self) -> tuple[SubnetView, ...]:
        """The running subnet managers, the master first."""
        running = (switch for switch in self.switches if switch.sm_runs)
        return tuple(sorted(running, key=lambda switch: (-switch.sm_priority, switch.guid)))

    @property
    def master(self) -> SubnetView | None:
        """The subnet manager that rules, or None."""
        return self.managers[0] if self.managers else None

    def has_link(self, port: FabricPort) -> bool:
        """Both ends of the cable are up."""
        ends: Mapping[tuple[str, str], bool] = {
            end: up for switch in self.switches for end, up in switch.ports.items()
        }
        return port.link_up and ends.get((port.host, port.pci), False)

    def find(self, guid: str) -> FabricPort | None:
        """The port of a GUID."""
        return next((port for port in self.ports if port.guid == guid), None)

    def is_active(self, guid: str) -> bool:
        """The port has a link and a subnet manager has set it up."""
        port = self.find(guid)
        return port is not None and self.master is not None and self.has_link(port)

    def lid_of(self, guid: str) -> int:
        """LID of a port or of a switch; 0 for none."""
        for number, switch in enumerate(self.switches, 1):
            if switch.guid == guid:
                return number
        guids = [port.guid for port in self.ports]
        known = guid in guids and self.is_active(guid)
        return FIRST_HCA_LID + guids.index(guid) if known else 0

    def pkeys_of(self, guid: str) -> tuple[int, ...]:
        """The partition keys of a port, Default's first; empty while it is not active."""
        if self.master is None or not self.is_active(guid):
            return ()
        keys = (
            _with_bit(partition.pkey, kind)
            for partition in self.master.partitions
            if (kind := partition.members.get(guid) or partition.members.get("ALL"))
        )
        return tuple(sorted(keys, key=lambda key: (key & ~FULL_MEMBER != 0x7FFF, key)))  # noqa: PLR2004 - Default


def _with_bit(pkey: int, kind: str) -> int:
    return pkey if kind == "limited" else pkey | FULL_MEMBER
