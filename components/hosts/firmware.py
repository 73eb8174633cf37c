"""What a card keeps over a reboot: which one it is, and its firmware's settings."""

from __future__ import annotations

from components.hosts.settings import Settings
from components.model.cards import CARDS, IB_PORTS
from components.model.cluster import ClusterSpec
from components.model.firmware import Firmware
from components.model.hosts import Host, Nic


def firmware_settings(spec: ClusterSpec, host: Host) -> Settings:
    """The model of each card, the oldest firmware that it may run, and its next-boot settings.

    All names below `nic.<pci>.` that begin with `fw_`, and `ats`, are values for the card's next
    start; the same name with `_current` is what it runs with, and is only read.
    """
    asked = spec.settings_of(host).firmware
    kept: dict[str, str] = {}
    for nic in host.nics:
        settings = {"model": nic.model}
        if floor := asked.floor_of(nic.model):
            settings["fw_floor"] = floor
        if asked.ats:
            settings["ats"] = "on"
        if asked.relaxed_ordering:
            settings |= {"fw_advanced_pci_settings": "on", "fw_pci_wr_ordering": "force_relax"}
        if asked.manage:
            settings |= _sriov(asked, host, nic) | _link_type(spec, nic)
        kept |= {f"nic.{nic.pci}.{key}": value for key, value in settings.items()}
    return Settings(kept)


def same_card(first: Nic, second: Nic) -> bool:
    """Two ports are functions of one PCI device: one card, whose firmware they share."""
    return first.pci.rpartition(".")[0] == second.pci.rpartition(".")[0]


def offered_vfs(asked: Firmware, host: Host, nic: Nic) -> int:
    """`NUM_OF_VFS` of a card: what the file says, or the most that one of its ports needs."""
    return asked.num_of_vfs or max(each.vfs for each in host.nics if same_card(nic, each))


def _sriov(asked: Firmware, host: Host, nic: Nic) -> dict[str, str]:
    """A card whose ports need no VFs stays as it is: unused VFs only take address space."""
    count = offered_vfs(asked, host, nic)
    return {"fw_sriov_en": "on", "fw_num_of_vfs": str(count)} if count else {}


def _link_type(spec: ClusterSpec, nic: Nic) -> dict[str, str]:
    """PCI function 0 is port 1 of its card, function 1 port 2.

    Derived, not documented: a card in two slots (Socket Direct) counts otherwise, and then the
    host refuses, because there is no such port.
    """
    if not CARDS[nic.model].vpi:
        return {}
    port = int(nic.pci.rpartition(".")[2]) + 1
    if port > IB_PORTS:
        return {}
    return {f"fw_link_type_p{port}": "ib" if spec.rdma.transport == "infiniband" else "eth"}
