"""The drivers that a host shall run, and the package or repository that brings the RDMA stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.catalogue.operator_versions import parse_driver_version
from components.model.cards import DriverPackage
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.owners import gpu_driver_owner

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
