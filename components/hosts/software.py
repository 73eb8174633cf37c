"""The drivers of a host, what its cards keep over a reboot, and what waits for their next start.

Drivers come from a package or a repository, or are there already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from components.catalogue.cards import IB_PORTS
from components.catalogue.operator_versions import parse_driver_version
from components.core.key_values import HostState
from components.hosts.keys.ask import parameter_of
from components.model.cards import DriverPackage, Firmware, HcaPf
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic
from components.model.owners import firmware_by_operator, gpu_driver_owner

DRIVER_DEADLINE_S: Final = 1800.0
"""Seconds with a driver package: NVIDIA's installer builds modules where it has none ready."""
DRIVER_PARAMETERS: Final = frozenset({
    "driver_source", "driver_sha256", "driver_key", "driver_key_sha256", "driver_packages",
    "driver_installer",
})  # fmt: skip
"""Lines on stdin that say how a driver is installed, and are no setting."""
_KEY_DIGITS: Final = 12
"""Digits of the key's checksum in the setting: enough to see another key."""


def driver_settings(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """The RDMA driver where there are cards of ours, and what GPUDirect RDMA needs of the host."""
    package = _package(spec, host)
    return _gpu(spec, host) | (_rdma(package) if package else {})


def _package(spec: ClusterSpec, host: Host) -> DriverPackage | None:
    """The RDMA driver of a host with cards, or None where it is not ours to say.

    The image of a cloud's instances brings it, and can only be verified. Of InfiniBand adapters
    alone `inbox` demands nothing: the images of such hosts often carry DOCA-OFED already.
    """
    package = spec.settings_of(host).driver
    ours = package.is_installed and spec.cloud is None
    adapters = host.hcas > 0 and (ours or package.kind == "present")
    return package if host.nics or adapters else None


def _rdma(package: DriverPackage) -> dict[str, str]:
    """Kind and version; of a package also that its modules are built for the kernel, and loaded."""
    if package.kind == "present" and package.flavour != "inbox":
        return _present(package)
    if not package.is_installed:
        return {"driver.kind": "inbox"}
    kept: dict[str, str] = {"driver.kind": package.kind}
    if package.version:
        kept |= _version(package.version)
    if package.repository is not None:
        digits = package.repository.key_sha256[:_KEY_DIGITS]
        kept["driver.repository"] = f"{package.repository.url} {digits}"
    if package.rebuild:
        kept |= {"driver.modules": "built", "driver.loaded": "installed"}
    return kept


def _present(package: DriverPackage) -> dict[str, str]:
    """What the host must have already, and its oldest version; of `any` nothing is demanded."""
    if package.flavour == "any":
        return {}
    found = parse_driver_version(package.at_least or "")
    oldest = (found.exact or found.line) if found else package.at_least
    return {"driver.present": f"{package.flavour} {oldest}" if oldest else package.flavour}


def _version(text: str) -> dict[str, str]:
    """The exact version, or the line where a DOCA release names no more."""
    found = parse_driver_version(text)
    if found is not None and found.exact is None:
        return {"driver.line": found.line}
    return {"driver.version": found.exact if found and found.exact else text}


def _gpu(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The GPU driver that the host owns, or none where the operator does; what DMA-BUF demands."""
    settings = spec.settings_of(host)
    if not host.gpus:
        return {}
    kept: dict[str, str] = {}
    owner = gpu_driver_owner(spec)
    if owner == "host" and settings.gpu_driver_version:
        kept["driver.gpu_host"] = settings.gpu_driver_version
    if owner == "operator":
        kept["driver.gpu_host"] = "absent"
    if owner == "host":  # the operator's container starts its own
        kept["driver.fabric_manager"] = "ready"
    if settings.gpu_path == "dma_buf":
        kept["driver.dma_buf"] = "ready"
        if owner == "host":
            kept["driver.gpu_modules"] = "open"
    return kept


def driver_parameters(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """Where the package is and what its checksum is: how the step is done, no setting."""
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


def offered_vfs(asked: Firmware, host: Host, port: Nic | HcaPf) -> int:
    """`NUM_OF_VFS` of a card: what the file says, or the most that one of its ports needs."""
    card = port.pci.rpartition(".")[0]  # its ports are functions of one PCI device
    ports = (*host.nics, *host.hca_sriov)
    return asked.num_of_vfs or max(
        each.vfs for each in ports if each.pci.rpartition(".")[0] == card
    )


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


Needs = Literal["reboot", "power_cycle", "mlxfwreset"]
NOT_THERE: Final = frozenset({"absent", "unsupported", "unreadable", "unknown", "per_pf"})
"""What a host answers where there is no value: nothing that could wait."""
BACK: Final = "pending.back."
"""Begins where a setting goes that is ours no longer: `<now> -> <before Railyard>`."""
_NEEDS: Final[tuple[Needs, ...]] = ("reboot", "power_cycle", "mlxfwreset")
NEEDS_WORDS: Final[Mapping[Needs, str]] = {
    "reboot": "a reboot",
    "power_cycle": "a power cycle (a warm reboot does not load it)",
    "mlxfwreset": "a reset of the card by mlxfwreset, or a power cycle (a reboot does not load it)",
}


@dataclass(frozen=True, slots=True)
class PendingBoot:
    """One firmware setting that a card takes on at its next start."""

    pci: str
    parameter: str
    """As mlxconfig names it."""
    current: str
    """What the card runs with; `hidden` where its firmware does not show it yet."""
    next: str
    """What it shall start with."""
    needs: Needs
    set: bool = False
    """It is set already, and only waits."""

    def __str__(self) -> str:
        """The setting in words, for a preview."""
        return (
            f"{self.parameter} of {self.pci}: {self.current} -> {self.next}, "
            f"needs {NEEDS_WORDS[self.needs]}"
        )


def needs_of(observed: HostState, pci: str) -> Needs:
    """What loads the settings of a card.

    `fw_needs` is what mlxconfig said when it set what waits; `fw_loads` is what the kind of card
    takes. Without either it is a reboot.
    """
    for fact in ("fw_needs", "fw_loads"):
        found = observed.values.get(f"nic.{pci}.{fact}", "")
        if found in _NEEDS:
            return found
    return "reboot"


def pending_firmware(observed: HostState, desired: HostState) -> tuple[PendingBoot, ...]:
    """The settings of ours that cards do not run with yet, sorted by card and setting.

    Args:
        observed: What the host has: `<key>` for the next start, `<key>_current` for this one.
        desired: What the file asks for. It may differ from both: then the next `pulumi up` sets
            it, and it waits from then on.

    Returns:
        One entry for each setting whose wanted value is not the current one. A setting that the
        card does not have is no entry: converge refuses it. Nor is one whose current value could
        not be read.
    """
    found: list[PendingBoot] = []
    for key, wanted in sorted(desired.values.items()):
        parameter, pci = parameter_of(key), _card(key)
        if not parameter:
            continue
        following = observed.values.get(key, "unknown")
        current = observed.values.get(f"{key}_current", "unknown")
        if following in NOT_THERE or current in NOT_THERE or current == wanted:
            continue
        needs = needs_of(observed, pci)
        found.append(PendingBoot(pci, parameter, current, wanted, needs, following == wanted))
    for key, current, before in released_settings(observed.values, desired.values):
        parameter, pci = parameter_of(key), _card(key)
        if parameter and current != before:
            needs = needs_of(observed, pci)
            found.append(PendingBoot(pci, parameter, current, before, needs))
    return tuple(found)


def _card(key: str) -> str:
    """The PCI address in a key of a PF."""
    return key.removeprefix("nic.").rpartition(".")[0]


def released_settings(
    observed: Mapping[str, str], wanted: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """What only a start loads, is ours, and is not asked for any more: it goes back.

    A card has one set of firmware settings: what one of its functions still wants does not go back
    with another.

    Returns:
        Key, current value and value before Railyard, sorted by key.
    """
    for line, change in sorted(observed.items()):
        key = line.removeprefix(BACK)
        if key != line and not _wanted(key, wanted):
            current, _, before = change.partition(" -> ")
            yield key, current, before


def _wanted(key: str, wanted: Mapping[str, str]) -> bool:
    where, _, setting = key.rpartition(".")
    if not key.startswith("nic."):
        return key in wanted
    card, _, _ = where.rpartition(".")
    return any(
        other.startswith(f"{card}.") and other.rpartition(".")[2] == setting for other in wanted
    )
