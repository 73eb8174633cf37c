"""InfiniBand: what a cloud's adapters do, whose fabric shows no switch.

There is no VLAN, no DSCP and no GID table to be wrong; an adapter is there, up, and of some rate.
A virtual machine hides the PCIe tree, so that NCCL needs the topology file to find GPU and adapter
near each other (lab/sources.md#cloud-ib).
"""

from __future__ import annotations

from components.core.record import record
from lab.physics.request import Attachment, ProbePod
from lab.views import HcaView

WIRE_OVERHEAD_BYTES = 26
"""LRH 8, BTH 12, ICRC 4, VCRC 2 of a full packet (sources.md#acceptance)."""
MTU_BYTES = 4096
_LOCKING = frozenset({"IPC_LOCK", "CAP_IPC_LOCK", "ALL"})


@record
class HcaEndpoint:
    """One end of an InfiniBand connection."""

    pod: ProbePod
    attachment: Attachment
    hca: HcaView

    @property
    def host(self) -> str:
        """The machine that holds the adapter."""
        return self.hca.host

    @property
    def pci(self) -> str:
        """The adapter's address on that machine."""
        return self.hca.pci

    @property
    def device(self) -> str:
        """The RDMA device's name as the pod sees it."""
        return self.attachment.rdma or self.hca.name

    @property
    def link_layer(self) -> str:
        """As NCCL names it."""
        return "IB" if self.hca.link_layer == "InfiniBand" else "RoCE"

    @property
    def usable(self) -> bool:
        """What verbs lists as an active device."""
        return self.hca.active

    @property
    def can_pin(self) -> bool:
        """The pod may pin memory."""
        return self.hca.memlock_unlimited or bool(_LOCKING & set(self.pod.capabilities))

    @property
    def gdr_possible(self) -> bool:
        """The adapter can reach GPU memory."""
        return self.hca.peermem

    def can_read(self, topology_file: str) -> bool:
        """The file is there for the pod, or on the machine whose network and files are used.

        On a bare machine NCCL reads the PCIe tree itself, and needs no file.
        """
        if self.hca.bare and not topology_file:
            return True
        own = self.hca.topology_file if self.pod.host_network else None
        return topology_file in self.pod.files or topology_file == own


@record
class FabricPath:
    """A working connection between two adapters."""

    sender: HcaEndpoint
    receiver: HcaEndpoint

    @property
    def line_rate_gbit_s(self) -> int:
        """The slower adapter of the two."""
        return min(self.sender.hca.rate_gbit_s, self.receiver.hca.rate_gbit_s)

    @property
    def rdma_mtu_bytes(self) -> int:
        """What the subnet manager set."""
        return MTU_BYTES

    @property
    def efficiency(self) -> float:
        """Payload's share of the bytes on the wire."""
        return MTU_BYTES / (MTU_BYTES + WIRE_OVERHEAD_BYTES)

    def carries(self, message_bytes: int) -> bool:
        """InfiniBand's subnet manager sets one MTU for all: no packet is too long."""
        return message_bytes >= 0
