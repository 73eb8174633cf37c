"""What the image of a lab host brings beside the bare system: packages and drivers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.hosts.driver_state import build
from lab.hosts.tools.driver_packages import DRIVER_PACKAGES
from lab.hosts.tools.packages import ARCHIVE, install, put_package
from lab.views import HostConfig

GPU_TOOLS: Final = "nvidia-utils"
"""The package that has nvidia-smi; the modules are the model's (`DriverState`)."""
PACKAGES: Final = ("ethtool", "pciutils")
"""What Ubuntu Server has of the tools that the hosts' scripts ask for."""
GPU_PACKAGES: Final = (*PACKAGES, "nvidia-container-toolkit")
"""The same of an image for GPUs, as DGX OS and clouds' images have it."""
OTHERS: Final = {"nvidia-container-toolkit": "1.17.8-1"}
"""Versions of packages that come from elsewhere than Ubuntu's archive."""
OFED_IMAGE: Final = "MLNX_OFED_LINUX-23.10-1.1.9.0"
"""A release for Linux 5.15, as `ofed_info -s` says it (sources.md#rdma-driver)."""
DOCA_IMAGE: Final = "OFED-internal-25.10-1.7.1.413"
"""The same of DOCA-OFED, from a host's own answer (sources.md#rdma-driver)."""
_FAMILIES: Final = {"MLNX_OFED_LINUX": "mlnx-ofed-all", "OFED-internal": "doca-ofed"}
"""How `ofed_info -s` begins to the package of the whole stack."""


def install_image(root: Path, config: HostConfig, kernel: str) -> None:
    """Install what the image brings; done once, when the host's folders are made."""
    for name in config.packages:
        if name in ARCHIVE:
            install(root, name)
        else:  # of another archive than the host's own
            put_package(root, name, OTHERS.get(name, ""))
    if config.gpus and config.gpu_driver:
        put_package(root, GPU_TOOLS, config.gpu_driver)
    if config.driver:
        install_driver(root, config.driver, kernel)


def image_driver(flavour: str, at_least: str) -> str:
    """The driver of an image: a release of its own, or the one that a site needs if that is later.

    Args:
        flavour: `doca`, or anything else for MLNX_OFED.
        at_least: Oldest version that the site takes, in mlnx_ofed's form; empty: any.
    """
    image = DOCA_IMAGE if flavour == "doca" else OFED_IMAGE
    family, line, _ = image.rsplit("-", 2)
    later = _numbers(at_least.partition("-")[0]) > _numbers(line)
    return f"{family}-{at_least}" if later else image


def _numbers(line: str) -> list[int]:
    return [int(number) for number in line.split(".") if number.isdigit()]


def install_driver(root: Path, release: str, kernel: str) -> None:
    """NVIDIA's RDMA driver, built for one kernel.

    Args:
        root: The host's own folders.
        release: As `ofed_info -s` says it, without its colon.
        kernel: The kernel that has its modules.
    """
    family = next(begin for begin in _FAMILIES if release.startswith(f"{begin}-"))
    version = release.removeprefix(f"{family}-")
    others = set(_FAMILIES.values()) - {_FAMILIES[family]}
    for name in ("dkms", *DRIVER_PACKAGES):
        if name not in others:
            put_package(root, name, release if name == "ofed-scripts" else version)
    build(root, version, kernel, signed=False)
