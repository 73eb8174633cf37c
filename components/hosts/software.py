"""The drivers of a host, the firmware settings of its cards, and those that wait for a start.

Drivers come from a package or a repository, or already exist on the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from components.catalogue.cards import IB_PORTS
from components.catalogue.operator_versions import parse_driver_version
from components.core.key_values import HostState
from components.core.record import record
from components.hosts.keys.ask import find_row
from components.hosts.settings import below
from components.model.cards import DriverPackage, DriverRepository, Firmware, HcaPf
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic
from components.model.owners import firmware_by_operator, gpu_driver_owner

DRIVER_DEADLINE_S: Final = 1800.0
"""Seconds with a driver package: NVIDIA's installer builds modules if it lacks ready ones."""
DRIVER_PARAMETERS: Final = frozenset({
    "driver_source", "driver_sha256", "driver_key", "driver_key_sha256", "driver_packages",
    "driver_installer",
})  # fmt: skip
"""Stdin lines that say how to install a driver; they are not settings."""
_KEY_DIGITS: Final = 12
"""Digits of the key's checksum in the setting: enough to notice a new key."""
MASKED_PORTS: Final = 2
"""mlxconfig supports the parameter for ports 1 and 2 (mstflint, mlxconfig_host.db)."""
ALL_PRIORITIES: Final = "255"
"""Factory default of `ROCE_CC_PRIO_MASK_P<port>`: a bit for each priority."""
Needs = Literal["reboot", "power_cycle", "mlxfwreset"]
NOT_THERE: Final = frozenset({"absent", "unsupported", "unreadable", "unknown", "per_pf"})
"""Answers of a host without a value: none of these can wait for a start."""
BACK: Final = "pending.back."
"""Prefix of the line of a released setting; its value is `<now> -> <before Railyard>`."""
_NEEDS: Final[tuple[Needs, ...]] = ("reboot", "power_cycle", "mlxfwreset")
NEEDS_WORDS: Final[Mapping[Needs, str]] = {
    "reboot": "a reboot",
    "power_cycle": "a power cycle (a warm reboot does not load it)",
    "mlxfwreset": "a reset of the card by mlxfwreset, or a power cycle (a reboot does not load it)",
}


def repository_text(repository: DriverRepository) -> str:
    """The setting of a package repository: its address, and a part of its key's checksum."""
    return f"{repository.url} {repository.key_sha256[:_KEY_DIGITS]}"


def driver_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """The RDMA driver for the cards in the file, and the host's part of GPUDirect RDMA."""
    settings, owner, package = spec.settings_of(host), gpu_driver_owner(spec), _package(spec, host)
    kept: dict[str, str] = {}
    if host.gpus:
        with_dma_buf = settings.gpu_path == "dma_buf"
        kept = {"dma_buf": "ready"} if with_dma_buf else {}
        if owner == "operator":
            kept["gpu_host"] = "absent"
        if owner == "host":
            kept["fabric_manager"] = "ready"  # the operator's container starts its own
            kept |= {"gpu_host": settings.gpu_driver_version} if settings.gpu_driver_version else {}
            kept |= {"gpu_modules": "open"} if with_dma_buf else {}
    return below("driver", kept) | (_rdma(package) if package else {})


def _package(spec: ClusterSpec, host: Host) -> DriverPackage | None:
    """The RDMA driver of a host with cards, or None if Railyard does not decide it.

    On a cloud the instances' image contains it, and Railyard can only verify it. With only
    InfiniBand adapters `inbox` demands nothing: the images of such hosts often contain DOCA-OFED
    already.
    """
    package = spec.settings_of(host).driver
    ours = package.is_installed and spec.cloud is None
    adapters = host.hcas > 0 and (ours or package.kind == "present")
    return package if host.nics or adapters else None


def _rdma(package: DriverPackage) -> dict[str, str]:
    """Kind and version; for a package also that its modules fit the kernel and are loaded."""
    if package.kind == "present" and package.flavour != "inbox":
        # The driver that the host must already have, and its oldest version; `any` demands
        # nothing.
        if package.flavour == "any":
            return {}
        found = parse_driver_version(package.at_least or "")
        oldest = (found.exact or found.line) if found else package.at_least
        return {"driver.present": f"{package.flavour} {oldest}" if oldest else package.flavour}
    if not package.is_installed:
        return {"driver.kind": "inbox"}
    kept: dict[str, str] = {"driver.kind": package.kind}
    if package.version:
        # Only the line, if the DOCA release gives only that.
        found = parse_driver_version(package.version)
        by_line = found is not None and found.exact is None
        version = (found and (found.exact or found.line)) or package.version
        kept["driver.line" if by_line else "driver.version"] = version
    if package.repository is not None:
        kept["driver.repository"] = repository_text(package.repository)
    if package.rebuild:
        kept |= {"driver.modules": "built", "driver.loaded": "installed"}
    return kept


def driver_parameters(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """Location and checksum of the package: parameters of the step, not settings."""
    package = _package(spec, host)
    if package is None or not package.is_installed:
        return {}
    lines = {"driver_packages": " ".join(package.packages)} if package.packages else {}
    if package.repository is not None:
        lines["driver_key"] = package.repository.key
        lines["driver_key_sha256"] = package.repository.key_sha256
    elif package.source and package.sha256:
        lines |= {"driver_source": package.source, "driver_sha256": package.sha256}
    if package.add_kernel_support:
        lines["driver_installer"] = "--add-kernel-support"
    return lines


def firmware_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """The model of each card, its oldest allowed firmware, and its next-boot settings.

    All names below `nic.<pci>.` that begin with `fw_`, and `ats`, are values for the card's next
    start; the same name with `_current` is the active value, and is only read. If the NIC
    configuration operator sets them, the host does not.
    """
    asked = spec.settings_of(host).firmware
    kept: dict[str, str] = {}
    for nic in host.nics:
        floor = asked.floor_of(nic.model)
        card = {"model": nic.model} | ({"fw_floor": floor} if floor else {})
        kept |= below(f"nic.{nic.pci}", card)
    if host.role == "worker" and firmware_by_operator(spec):
        return kept
    for port in (*host.nics, *host.hca_sriov):
        kept |= below(f"nic.{port.pci}", asked_settings(spec, host, port))
    return kept


def asked_settings(spec: ClusterSpec, host: Host, port: Nic | HcaPf) -> dict[str, str]:
    """The firmware settings that the file asks for on a port, whoever sets them."""
    asked = spec.settings_of(host).firmware
    settings: dict[str, str] = {}
    # PCI function 0 is port 1 of its card, function 1 port 2: derived, not documented. A card in
    # two slots (Socket Direct) counts differently; then the host refuses that port.
    number = int(port.pci.rpartition(".")[2], 16) + 1
    if isinstance(port, Nic):
        settings = {"ats": "on"} if asked.ats else {}
        # If the driver lacks a switch for it, the card enables ECN on all priorities, as it is
        # shipped. NVIDIA's own operator sets the same mask (network operator, roceOptimized).
        if asked.manage and not spec.settings_of(host).driver.is_ofed and number <= MASKED_PORTS:
            settings[f"fw_cc_mask_p{number}"] = ALL_PRIORITIES
    if asked.relaxed_ordering:
        settings |= {"fw_advanced_pci_settings": "on", "fw_pci_wr_ordering": "force_relax"}
    if asked.manage:
        # A card whose ports need no VFs is left alone: unused VFs only take address space.
        count = offered_vfs(asked, host, port)
        settings |= {"fw_sriov_en": "on", "fw_num_of_vfs": str(count)} if count else {}
        can_change = isinstance(port, HcaPf) or (port.card is not None and port.card.vpi)
        if can_change and number <= IB_PORTS:
            infiniband = isinstance(port, HcaPf) or spec.rdma.transport == "infiniband"
            settings[f"fw_link_type_p{number}"] = "ib" if infiniband else "eth"
    return settings


def offered_vfs(asked: Firmware, host: Host, port: Nic | HcaPf) -> int:
    """`NUM_OF_VFS` of a card: the value in the file, or the most that one of its ports needs."""
    card = port.pci.rpartition(".")[0]  # the card's ports are functions of one PCI device
    ports = (*host.nics, *host.hca_sriov)
    needed = (each.vfs for each in ports if each.pci.rpartition(".")[0] == card)
    return asked.num_of_vfs or max(needed)


@record
class PendingBoot:
    """One firmware setting that a card adopts at its next start."""

    pci: str
    parameter: str
    current: str
    """The active value; `hidden` if the card's firmware does not show it yet."""
    next: str
    needs: Needs
    set: bool = False
    """It is already set, and only waits."""


def needs_of(observed: HostState, pci: str) -> Needs:
    """The kind of start that loads a card's settings.

    `fw_needs` is mlxconfig's answer from the last change; `fw_loads` depends on the kind of card.
    Without either, a reboot is needed.
    """
    for fact in ("fw_needs", "fw_loads"):
        found = observed.values.get(f"nic.{pci}.{fact}", "")
        if found in _NEEDS:
            return found
    return "reboot"


def pending_firmware(observed: HostState, desired: HostState) -> tuple[PendingBoot, ...]:
    """The settings of the file that are not active in the cards yet, sorted by card and setting.

    A wanted value may differ from that of the next start: then the next `pulumi up` sets it. Left
    out are settings that a card lacks, since converge refuses them, and those without a readable
    current value.
    """
    found: list[PendingBoot] = []
    for key, wanted in sorted(desired.values.items()):
        parameter, pci = find_row(key).parameter, _card(key)
        following = observed.values.get(key, "unknown") if parameter else "unknown"
        current = observed.values.get(f"{key}_current", "unknown")
        if following in NOT_THERE or current in NOT_THERE or current == wanted:
            continue
        needs = needs_of(observed, pci)
        found.append(PendingBoot(pci, parameter, current, wanted, needs, following == wanted))
    for key, current, before in released_settings(observed.values, desired.values):
        parameter, pci = find_row(key).parameter, _card(key)
        if parameter and current != before:
            needs = needs_of(observed, pci)
            found.append(PendingBoot(pci, parameter, current, before, needs))
    return tuple(found)


def _card(key: str) -> str:
    return key.removeprefix("nic.").rpartition(".")[0]


def released_settings(
    observed: Mapping[str, str], wanted: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Firmware settings of Railyard that the file no longer asks for: they go back at a start.

    Each with its key, current value and value before Railyard. A card has one set of firmware
    settings: a setting that another of its functions still wants stays.
    """
    for key in sorted(line.removeprefix(BACK) for line in observed if line.startswith(BACK)):
        where, _, setting = key.rpartition(".")
        card, own = f"{where.rpartition('.')[0]}.", f".{setting}"
        others = wanted if key.startswith("nic.") else ()
        if key not in wanted and not any(x.startswith(card) and x.endswith(own) for x in others):
            current, _, before = observed[BACK + key].partition(" -> ")
            yield key, current, before
