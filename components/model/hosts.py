"""The hosts: who they are, how they are reached, and their RDMA cards."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from components.catalogue.cards import CardName
from components.model.drivers import DriverPackage, GpuDirect, GpuDriverVersion
from components.model.firmware import Firmware
from components.model.kernel import KernelSettings
from components.model.qos import HostQos
from components.model.sriov import CardSerial, HcaPf, Sriov
from components.model.topology import GpuPath, LinkGtS, LinkWidth, PortLanes
from components.model.units import (
    DnsLabel,
    Frozen,
    MtuBytes,
    PciAddress,
    PortGuid,
    Ssh,
)


def _netdev_of(data: dict[str, Any]) -> str:
    """The name by path of systemd.net-naming-scheme(7), without a port's suffix.

    Whether the first function of a card is called `f0`, and whether the kernel adds `np0`, is not
    in the address: where one of them is so, the name must be written.
    """
    domain, bus, rest = str(data["pci"]).split(":")
    slot, _, function = rest.partition(".")
    name = f"en{f'P{int(domain, 16)}' if int(domain, 16) else ''}p{int(bus, 16)}s{int(slot, 16)}"
    return name if function == "0" else f"{name}f{function}"


class Nic(Frozen):
    """One port (PF) of an RDMA card."""

    rail: DnsLabel
    """The rail that this card is cabled to."""
    pci: PciAddress
    """PCI address, for example `"0000:05:00.0"`."""
    serial: CardSerial | None = None
    """The board's serial number; with it, a card that moved to another slot is reported."""
    netdev: str = Field(default_factory=_netdev_of)
    """Name of the PF's network device; default the one that systemd gives by the PCI address,
    for example `enp5s0`. A host that has another name is refused, and says it."""
    model: CardName = "ConnectX-5"
    """Card model: it decides the PCI id, the limit of VFs and the fastest rate."""
    speed_gbit_s: Annotated[int, Field(gt=0)] = 100
    """Line rate in Gbit/s."""
    vfs: Annotated[int, Field(ge=0)] = 8
    """Virtual functions to create on this PF."""
    mtu_bytes: MtuBytes | None = None
    """MTU of the PF in bytes; default `rdma.mtu_bytes`."""
    vf_mtu_bytes: MtuBytes | None = None
    """MTU of the VFs in bytes; default the PF's."""
    sriov: Sriov = Sriov()
    """What each VF carries, and the mode of the card's embedded switch."""
    numa: Annotated[int, Field(ge=-1)] = 0
    """NUMA node of the card's PCIe slot; -1 is what Linux says of one that it does not know."""
    address: str | None = None
    """IPv4 address of the PF on its rail, for containers in the host's network."""
    link_gt_s: LinkGtS | None = None
    """PCIe speed of a lane that the card must run at; default what card and slot can."""
    link_width: LinkWidth | None = None
    """PCIe lanes that the card must run with; default what card and slot can."""
    lanes: PortLanes | None = None
    """SerDes lanes that the port must run with, 4 for `100 Gb/sec (4X EDR)`; default any."""
    gpu_pci: tuple[PciAddress, ...] = ()
    """PCI addresses of the GPUs that send through this card, as `railyard discover` finds them."""
    gpu_path: GpuPath | None = None
    """The longest way between the card and these GPUs, in the words of `nvidia-smi topo -m`."""

    @property
    def passes_vfs(self) -> bool:
        """Virtual machines take its VFs."""
        return self.vfs > 0 and self.sriov.autoprobe is False


class User(Frozen):
    """The one user that exists with the same uid on every host, as in the DeepOps guide."""

    name: str = "nvidia"
    """Login name."""
    uid: Annotated[int, Field(ge=1000, le=60000)] = 1000
    """User id on all hosts."""


class Host(Frozen):
    """One Linux host."""

    name: DnsLabel
    role: Literal["control_plane", "worker", "balancer"]
    """`worker` runs jobs; `balancer` forwards to the API of several control-plane hosts."""
    ssh: Ssh
    group: DnsLabel | None = None
    """Its group of `host_groups`: what that group sets wins over `host_defaults`."""
    node_ip: str | None = None
    """Address of the Kubernetes node; default the SSH address."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs of the host; all workers have the same number."""
    nics: tuple[Nic, ...] = ()
    """RDMA cards; a worker has one on each rail."""
    hcas: Annotated[int, Field(ge=0, le=16)] = 0
    """InfiniBand HCAs; their names are discovered, and nothing is set on them but what `hca_sriov`
    and `firmware` ask of ports with an address."""
    hca_sriov: tuple[HcaPf, ...] = ()
    """InfiniBand ports by address: those with VFs, and those whose firmware is set."""
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
    """Locked-memory limit of pods, by a `LimitMEMLOCK` drop-in of the K3s unit (with Docker under
    K3s also of its units), and of the common user's logins, by a file of limits.d."""
    peermem: bool = True
    """The short form of `gpu_direct`: true is `peermem`, false is `none`."""
    gpu_direct: GpuDirect | None = None
    """How cards reach GPU memory: `peermem` loads `nvidia_peermem`; `dma_buf` needs no module, but
    Linux 5.12 and the open GPU kernel modules; `none` copies through the host. Default by
    `peermem`. `nv_peer_mem` is the module before GPU driver 470, for what still runs it."""
    gpu_driver: Literal["operator", "host"] | None = None
    """Who owns the GPU driver; default `operators.gpu.driver`. A host's own is never installed."""
    gpu_driver_version: GpuDriverVersion | None = None
    """Version of a GPU driver that the host owns, for example `580.126.20`; it is verified."""
    qos: HostQos = HostQos()
    """What of RoCE's quality of service is a host's own choice."""
    firmware: Firmware = Firmware()
    """What the cards' firmware shall hold."""
    docker: bool = False
    """Docker and the NVIDIA container toolkit, for containers without Kubernetes."""
    kernel: KernelSettings = KernelSettings()
    """Kernel settings, huge pages, ACS, IOMMU and routes of the rails."""

    @property
    def gpu_path(self) -> GpuDirect:
        """How cards reach GPU memory, in whichever form it was written."""
        return self.gpu_direct or ("peermem" if self.peermem else "none")


class HostGroup(Frozen):
    """Hosts that differ from `host_defaults`; what is left out is as there."""

    name: DnsLabel
    driver: DriverPackage | None = None
    """The RDMA driver of this group."""
    firmware: Firmware | None = None
    """What the firmware of this group's cards shall hold."""
    peermem: bool | None = None
    """The short form of `gpu_direct` for this group."""
    gpu_direct: GpuDirect | None = None
    """How cards reach GPU memory on this group."""
    gpu_driver_version: GpuDriverVersion | None = None
    """Version of the GPU driver that this group's hosts own."""
    qos: HostQos | None = None
    """RoCE's quality of service on this group; all of it."""
    kernel: KernelSettings | None = None
    """The kernel of this group; the whole block replaces the defaults'."""
