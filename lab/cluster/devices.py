"""What a node's kernel shows of its GPUs and virtual functions, read from its /sys.

The device plugins of a real node read the same files (sources.md#pod-network), so a VF that is
missing there is missing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from lab.cluster.document import Doc, Json, docs_at, number_at, text_at

NVIDIA = "10de"
MELLANOX = "15b3"


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """One VF as the SR-IOV device plugin sees it."""

    pci: str
    vendor: str
    device: str
    driver: str
    index: int
    netdev: str
    rdma: str
    mtu_bytes: int
    pf_pci: str
    pf_netdev: str


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The devices and limits of one node."""

    vfs: tuple[VirtualFunction, ...] = ()
    gpus: int = 0
    mellanox_cards: int = 0
    nvidia_driver: bool = False
    """The nvidia kernel module is loaded."""
    memlock_kib: int | None = None
    """What `ulimit -l` prints in a container; None is unlimited."""


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _first(folder: Path) -> str:
    try:
        return next(iter(sorted(entry.name for entry in folder.iterdir())), "")
    except OSError:
        return ""


def _link_name(path: Path) -> str:
    try:
        return path.readlink().name
    except OSError:
        return ""


def _vfs_of(pf: Path) -> Iterable[VirtualFunction]:
    links = sorted(pf.glob("virtfn*"), key=lambda link: int(link.name.removeprefix("virtfn")))
    for link in links:
        pci = _link_name(link)
        device = pf.parent / pci
        netdev = _first(device / "net")
        yield VirtualFunction(
            pci=pci,
            vendor=_read(device / "vendor").removeprefix("0x"),
            device=_read(device / "device").removeprefix("0x"),
            driver=_link_name(device / "driver"),
            index=int(link.name.removeprefix("virtfn")),
            netdev=netdev,
            rdma=_first(device / "infiniband"),
            mtu_bytes=int(_read(device / "net" / netdev / "mtu") or 0) if netdev else 0,
            pf_pci=pf.name,
            pf_netdev=_first(pf / "net"),
        )


def scan_devices(sys_root: Path, memlock_kib: int | None) -> NodeDevices:
    """Read a node's devices.

    Args:
        sys_root: the node's /sys.
        memlock_kib: the limit of its container runtime in KiB; None is unlimited.
    """
    folder = sys_root / "bus/pci/devices"
    devices = sorted(folder.iterdir()) if folder.is_dir() else []
    vendors = {device: _read(device / "vendor").removeprefix("0x") for device in devices}
    physical = [device for device in devices if (device / "sriov_numvfs").exists()]
    return NodeDevices(
        vfs=tuple(vf for pf in physical for vf in _vfs_of(pf)),
        gpus=sum(vendor == NVIDIA for vendor in vendors.values()),
        mellanox_cards=sum(
            vendor == MELLANOX and not (device / "physfn").exists()
            for device, vendor in vendors.items()
        ),
        nvidia_driver=(sys_root / "module/nvidia").exists(),
        memlock_kib=memlock_kib,
    )


def dump_devices(devices: NodeDevices) -> Doc:
    """The JSON form of a node's devices."""
    vfs: list[Json] = [cast("Doc", asdict(vf)) for vf in devices.vfs]
    return {**cast("Doc", asdict(devices)), "vfs": vfs}


def parse_devices(value: Json) -> NodeDevices:
    """Read the JSON form of a node's devices; what is missing counts as absent."""
    memlock = value.get("memlock_kib") if isinstance(value, dict) else None
    return NodeDevices(
        vfs=tuple(_parse_vf(item) for item in docs_at(value, "vfs")),
        gpus=number_at(value, "gpus"),
        mellanox_cards=number_at(value, "mellanox_cards"),
        nvidia_driver=isinstance(value, dict) and value.get("nvidia_driver") is True,
        memlock_kib=memlock if isinstance(memlock, int) else None,
    )


def _parse_vf(item: Doc) -> VirtualFunction:
    return VirtualFunction(
        pci=text_at(item, "pci"),
        vendor=text_at(item, "vendor"),
        device=text_at(item, "device"),
        driver=text_at(item, "driver"),
        index=number_at(item, "index"),
        netdev=text_at(item, "netdev"),
        rdma=text_at(item, "rdma"),
        mtu_bytes=number_at(item, "mtu_bytes"),
        pf_pci=text_at(item, "pf_pci"),
        pf_netdev=text_at(item, "pf_netdev"),
    )
