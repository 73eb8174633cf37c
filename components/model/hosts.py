"""The hosts: who they are, how they are reached, and their RDMA cards."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.model.units import (
    DnsLabel,
    Frozen,
    MtuBytes,
    PciAddress,
    PortGuid,
    ReleaseText,
    Sha256,
    Ssh,
)


class Nic(Frozen):
    """One port (PF) of an RDMA card."""

    rail: DnsLabel
    """The rail that this card is cabled to."""
    pci: PciAddress
    """PCI address, for example `"0000:05:00.0"`."""
    netdev: str
    """Name of the PF's network device, for example `enp5s0`."""
    model: Literal["ConnectX-5", "ConnectX-6", "ConnectX-6 Dx", "ConnectX-7"] = "ConnectX-5"
    """Card model: it decides the PCI id and the limit of VFs."""
    speed_gbit_s: Annotated[int, Field(gt=0)] = 100
    """Line rate in Gbit/s."""
    vfs: Annotated[int, Field(ge=0)] = 8
    """Virtual functions to create on this PF."""
    mtu_bytes: MtuBytes | None = None
    """MTU of the PF in bytes; default `rdma.mtu_bytes`."""
    vf_mtu_bytes: MtuBytes | None = None
    """MTU of the VFs in bytes; default the PF's."""
    numa: Annotated[int, Field(ge=-1)] = 0
    """NUMA node of the card's PCIe slot; -1 is what Linux says of one that it does not know."""
    address: str | None = None
    """IPv4 address of the PF on its rail, for containers in the host's network."""


class User(Frozen):
    """The one user that exists with the same uid on every host, as in the DeepOps guide."""

    name: str = "nvidia"
    """Login name."""
    uid: Annotated[int, Field(ge=1000, le=60000)] = 1000
    """User id on all hosts."""


class DriverPackage(Frozen):
    """The RDMA driver of the hosts."""

    kind: Literal["inbox", "doca_ofed", "mlnx_ofed"] = "inbox"
    """`inbox` is the kernel's own driver; the others are packages with `source`."""
    version: ReleaseText | None = None
    """Version that must be installed."""
    source: str | None = None
    """Absolute path on the host, or an https URL, of the package; with `sha256`."""
    sha256: Sha256 | None = None
    """Checksum of the package at `source`."""


class Host(Frozen):
    """One Linux host."""

    name: DnsLabel
    role: Literal["control_plane", "worker", "balancer"]
    """`worker` runs jobs; `balancer` stands before the API of several control-plane hosts."""
    ssh: Ssh
    node_ip: str | None = None
    """Address of the Kubernetes node; default the SSH address."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs of the host; all workers have the same number."""
    nics: tuple[Nic, ...] = ()
    """RDMA cards; a worker has one on each rail."""
    hcas: Annotated[int, Field(ge=0, le=16)] = 0
    """InfiniBand HCAs; their names are discovered, and nothing is set on them."""
    hca_guids: tuple[PortGuid, ...] = ()
    """Port GUIDs of the HCAs, in the order in which switch ports count them; partitions need them.

    `cat /sys/class/infiniband/*/ports/1/gids/0` shows them in its last four groups.
    """

    @property
    def address(self) -> str:
        """The node's address in the cluster."""
        return self.node_ip or self.ssh.address


class HostDefaults(Frozen):
    """What all hosts of the site share."""

    user: User = User()
    """The common user."""
    driver: DriverPackage = DriverPackage()
    """The RDMA driver."""
    memlock: Literal["unlimited"] = "unlimited"
    """Locked-memory limit of pods, by a `LimitMEMLOCK` drop-in of the K3s unit."""
    peermem: bool = True
    """Load `nvidia_peermem` for GPUDirect RDMA."""
    ats: bool = False
    """Set `ATS_ENABLED` in the cards' firmware: GPUDirect RDMA in virtual machines."""
    docker: bool = False
    """Docker and the NVIDIA container toolkit, for containers without Kubernetes."""
