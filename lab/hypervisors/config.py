"""What an emulated hypervisor is made of, and what the lab's physics may know of its guests."""

from __future__ import annotations

from components.catalogue.cards import CARDS as CARD_MODELS
from components.core.record import record
from lab.hosts.cards import CARD_NAMES

MT_CARDS = {
    card.name: (card.pf_device, CARD_NAMES[card.pf_device]) for card in CARD_MODELS.values()
}
"""RDMA card model to PCI device id and name (pci.ids, vendor 15b3)."""


@record
class EsxiPciDevice:
    """One PCI function of an ESXi host."""

    sbdf: str
    """Hex segment:bus:device.function, for example `0000:3b:00.0`."""
    vendor: str
    """Four hex digits, for example `10de`."""
    device: str
    """Four hex digits, for example `20f1`."""
    name: str
    numa: int
    bar_gib: int = 0
    """Size of its BARs in GiB, as far as it counts: a GPU maps its whole memory."""
    vmnic: str = ""
    """Uplink of vSwitch0 while VMkernel owns it, for example `vmnic0`; empty for none."""


@record
class EsxiVmConfig:
    """One virtual machine that somebody has installed on the host."""

    name: str
    memory_mib: int
    gpu: str
    """SBDF of the GPU that is passed through."""
    nic: str
    """SBDF of the RDMA card that is passed through."""
    guest: str
    """The lab host that plays its operating system."""
    datastore: str = "datastore1"
    dynamic: bool = False
    """Its devices were added as Dynamic DirectPath IO: by vendor and device, without an address."""
    powered_on: bool = True
    """Whether it runs when the lab is made."""


@record
class EsxiConfig:
    """One emulated ESXi host of the lab file."""

    name: str
    address: str
    port: int
    user: str
    authorized_key: str
    host_key_seed: str
    release: str
    """For example `7.0U2`."""
    devices: tuple[EsxiPciDevice, ...] = ()
    vms: tuple[EsxiVmConfig, ...] = ()


@record
class EsxiVmView:
    """What decides whether the GPU and the RDMA card of a guest reach each other directly."""

    vm: str
    guest: str
    powered_on: bool
    ats_kernel: bool
    """The VMkernel that runs has atsSupport (or, before 7.0 U2, vtdAtsSupport)."""
    allow_p2p: bool
    """`pciPassthru.allowP2P` as of the last power-on."""
    relax_acs: bool
    """`pciPassthru.RelaxACSforP2P` as of the last power-on."""
    gpu_numa: int
    nic_numa: int
    affinity: frozenset[int] | None
    """`numa.nodeAffinity` as of the last power-on; None when the host may place it anywhere."""

    @property
    def ats_allowed(self) -> bool:
        """The host lets devices of this guest use translated addresses with each other."""
        return self.powered_on and self.ats_kernel and self.allow_p2p and self.relax_acs

    @property
    def placed(self) -> bool:
        """GPU, card and memory are on one NUMA node, for sure."""
        return self.gpu_numa == self.nic_numa and self.affinity == frozenset((self.gpu_numa,))


def gpu_device(sbdf: str, numa: int) -> EsxiPciDevice:
    """An A100 40 GB as seed and vendor list it (10de:20f1), with its 64 GiB BAR."""
    return EsxiPciDevice(sbdf, "10de", "20f1", "NVIDIAA100-PCIE-40GB", numa, bar_gib=64)


def nic_device(sbdf: str, model: str, numa: int) -> EsxiPciDevice:
    """An RDMA card of this model.

    Raises:
        KeyError: The lab does not know the model; MT_CARDS lists those it knows.
    """
    device, name = MT_CARDS[model]
    return EsxiPciDevice(sbdf, "15b3", device, name, numa)


def management_nic(sbdf: str = "0000:01:00.0") -> EsxiPciDevice:
    """The card of the management network, that must never be passed through."""
    name = "I350 Gigabit Network Connection"
    return EsxiPciDevice(sbdf, "8086", "1521", name, 0, vmnic="vmnic0")
