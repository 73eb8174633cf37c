"""What a card keeps over a reboot: which one it is, and its firmware's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.catalogue.cards import IB_PORTS
from components.model.cards import Firmware, HcaPf
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic
from components.model.owners import firmware_by_operator

MASKED_PORTS: Final = 2
"""mlxconfig has the parameter for ports 1 and 2 (mstflint, mlxconfig_host.db)."""
ALL_PRIORITIES: Final = "255"
"""`ROCE_CC_PRIO_MASK_P<port>` as cards come from the factory: a bit for each priority."""


def firmware_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """The model of each card, the oldest firmware that it may run, and its next-boot settings.

    All names below `nic.<pci>.` that begin with `fw_`, and `ats`, are values for the card's next
    start; the same name with `_current` is what it runs with, and is only read. They are not the
    host's where the NIC configuration operator sets them.
    """
    asked = spec.settings_of(host).firmware
    kept: dict[str, str] = {}
    for nic in host.nics:
        settings = {"model": nic.model}
        if floor := asked.floor_of(nic.model):
            settings["fw_floor"] = floor
        kept |= {f"nic.{nic.pci}.{key}": value for key, value in settings.items()}
    if host.role == "worker" and firmware_by_operator(spec):
        return kept
    for port in (*host.nics, *host.hca_sriov):
        written = asked_settings(spec, host, port)
        kept |= {f"nic.{port.pci}.{key}": value for key, value in written.items()}
    return kept


def asked_settings(spec: ClusterSpec, host: Host, port: Nic | HcaPf) -> dict[str, str]:
    """What the file asks of the firmware of a port, whoever sets it."""
    asked = spec.settings_of(host).firmware
    settings: dict[str, str] = {}
    if isinstance(port, Nic):
        settings = ({"ats": "on"} if asked.ats else {}) | _congestion_control(spec, host, port)
    if asked.relaxed_ordering:
        settings |= {"fw_advanced_pci_settings": "on", "fw_pci_wr_ordering": "force_relax"}
    if asked.manage:
        settings |= _sriov(asked, host, port) | _link_type(spec, port)
    return settings


def _congestion_control(spec: ClusterSpec, host: Host, nic: Nic) -> dict[str, str]:
    """Which priorities have ECN, where the driver has no switch of it: all, as cards come.

    NVIDIA's own operator sets the same mask (network operator, roceOptimized).
    """
    settings = spec.settings_of(host)
    number = port_number(nic)
    if settings.driver.is_ofed or not settings.firmware.manage or number > MASKED_PORTS:
        return {}
    return {f"fw_cc_mask_p{number}": ALL_PRIORITIES}


def port_number(port: Nic | HcaPf) -> int:
    """PCI function 0 is port 1 of its card, function 1 port 2.

    Derived, not documented: a card in two slots (Socket Direct) counts otherwise, and then the
    host refuses, because there is no such port.
    """
    return int(port.pci.rpartition(".")[2], 16) + 1


def same_card(first: Nic | HcaPf, second: Nic | HcaPf) -> bool:
    """Two ports are functions of one PCI device: one card, whose firmware they share."""
    return first.pci.rpartition(".")[0] == second.pci.rpartition(".")[0]


def offered_vfs(asked: Firmware, host: Host, port: Nic | HcaPf) -> int:
    """`NUM_OF_VFS` of a card: what the file says, or the most that one of its ports needs."""
    ports = (*host.nics, *host.hca_sriov)
    return asked.num_of_vfs or max(each.vfs for each in ports if same_card(port, each))


def _sriov(asked: Firmware, host: Host, port: Nic | HcaPf) -> dict[str, str]:
    """A card whose ports need no VFs stays as it is: unused VFs only take address space."""
    count = offered_vfs(asked, host, port)
    return {"fw_sriov_en": "on", "fw_num_of_vfs": str(count)} if count else {}


def _link_type(spec: ClusterSpec, port: Nic | HcaPf) -> dict[str, str]:
    """What the ports of a card that can be either are."""
    number = port_number(port)
    if number > IB_PORTS or (isinstance(port, Nic) and not (port.card and port.card.vpi)):
        return {}
    infiniband = isinstance(port, HcaPf) or spec.rdma.transport == "infiniband"
    return {f"fw_link_type_p{number}": "ib" if infiniband else "eth"}
