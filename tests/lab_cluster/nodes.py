"""Trees of files that are the /sys of nodes with shared cards, or with a cloud's HCAs."""

from __future__ import annotations

import ipaddress
from pathlib import Path

TOPOLOGY = "/etc/crusoe/nccl_topo/h100-80gb-sxm-ib-cloud-hypervisor.xml"


def make_gpus(root: Path, count: int = 8) -> Path:
    """GPUs with their driver and NVIDIA's runtime; gives the folder of PCI devices."""
    runtime = root / "usr/bin/nvidia-container-runtime"
    runtime.parent.mkdir(parents=True)
    runtime.touch(mode=0o755)
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    (root / "sys/module/nvidia").mkdir(parents=True)
    for number in range(count):
        (devices / f"0000:1{number}:00.0").mkdir()
        (devices / f"0000:1{number}:00.0/vendor").write_text("0x10de\n")
    return devices


def make_shared_node(root: Path, device: str = "101b", address: str = "") -> None:
    """One ConnectX-6 port without VFs, as on the shared-rdma site."""
    card = make_gpus(root) / "0000:58:00.0"
    (card / "net/enp88s0").mkdir(parents=True)
    (card / "net/enp88s0/mtu").write_text("9000\n")
    (card / "sriov_numvfs").write_text("0\n")
    _write_ids(card, device)
    port = _make_port(card, "mlx5_2", ("Ethernet", "4: ACTIVE", "100 Gb/sec (4X EDR)"))
    gids = ["fe80::1"] + ([f"::ffff:{address}"] if address else [])
    (port / "gids").mkdir()
    for index, gid in enumerate(gids):
        (port / f"gids/{index}").write_text(f"{ipaddress.IPv6Address(gid).exploded}\n")


def make_hca_node(root: Path, count: int = 8, slow: int = 0, ethernet: int = 0) -> None:
    """HCAs of a cloud: VFs without a PF; some InfiniBand ports slower, some Ethernet."""
    devices = make_gpus(root)
    kinds = [("InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)")] * count
    kinds += [("InfiniBand", "4: ACTIVE", "100 Gb/sec (4X EDR)")] * slow
    kinds += [("Ethernet", "4: ACTIVE", "200 Gb/sec (4X HDR)")] * ethernet
    for number, kind in enumerate(kinds):
        card = devices / f"0000:a{number:x}:00.0"
        card.mkdir()
        _write_ids(card, "101e")
        _make_port(card, f"mlx5_{number}", kind)
    file = root / TOPOLOGY.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_text("<system/>\n")


def _write_ids(card: Path, device: str) -> None:
    (card / "vendor").write_text("0x15b3\n")
    (card / "device").write_text(f"0x{device}\n")


def _make_port(card: Path, rdma: str, kind: tuple[str, str, str]) -> Path:
    port = card / "infiniband" / rdma / "ports/1"
    port.mkdir(parents=True)
    for name, text in zip(("link_layer", "state", "rate"), kind, strict=True):
        (port / name).write_text(f"{text}\n")
    return port


SLOTS = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")
"""Buses of the eight HCAs of an H100 host."""


def make_fabric_node(root: Path, vfs: int) -> None:
    """Eight HCAs of our own fabric with IPoIB devices; each with so many VFs."""
    devices = make_gpus(root)
    kind = ("InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)")
    for number, bus in enumerate(SLOTS):
        pf = devices / f"0000:{bus}:00.0"
        _ipoib(pf, f"ibs{number}f0", "1021", f"mlx5_{number}", kind)
        (pf / "sriov_numvfs").write_text(f"{vfs}\n")
        for index in range(vfs):
            vf = devices / f"0000:{bus}:00.{index + 1}"
            _ipoib(vf, f"ibs{number}f0v{index}", "101e", f"mlx5_{number}v{index}", kind)
            (vf / "physfn").symlink_to(f"../{pf.name}")
            (pf / f"virtfn{index}").symlink_to(f"../{vf.name}")


def _ipoib(function: Path, netdev: str, device: str, rdma: str, kind: tuple[str, str, str]) -> None:
    (function / "net" / netdev).mkdir(parents=True)
    (function / "net" / netdev / "mtu").write_text("4092\n")
    _write_ids(function, device)
    _make_port(function, rdma, kind)
