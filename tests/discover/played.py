"""The /sys of an emulated host as a folder, and `look.sh` run on it: no lab, no FUSE."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from components.hosts.look import HostLook, parse_look
from components.hosts.scripts import look_text
from lab.hosts.model import HostModel
from lab.hosts.sysfs import SysFile, make_sys_table
from lab.views import HcaConfig, HostConfig, NicConfig

_DEVICES = {
    "ConnectX-5": ("1017", 100),
    "ConnectX-6": ("101b", 200),
    "ConnectX-6 Dx": ("101d", 100),
    "ConnectX-7": ("1021", 400),
    "ConnectX-8": ("1023", 800),
    "ConnectX-9": ("1025", 800),
    "BlueField-3": ("a2dc", 400),
    "BlueField-2": ("a2d6", 200),
}


def nic(number: int, pci: str, numa: int, model: str = "ConnectX-5") -> NicConfig:
    device, speed = _DEVICES[model]
    name = f"enp{int(pci.split(':')[1], 16)}s0"
    return NicConfig(pci, name, f"mlx5_{number}", "15b3", device, "101e", 16, speed, numa)


def dgx(model: str = "ConnectX-5", gpus: int = 8) -> HostConfig:
    """Four cards on two sockets, each beside its GPUs."""
    nics = tuple(
        nic(number, pci, numa, model)
        for number, (pci, numa) in enumerate(
            [("0000:05:00.0", 0), ("0000:0c:00.0", 0), ("0000:84:00.0", 1), ("0000:8b:00.0", 1)]
        )
    )
    return HostConfig("gpu01", "127.0.0.1", 2222, "nvidia", "", "seed", gpus, nics)


def bare(*nics: NicConfig, gpus: int = 0) -> HostConfig:
    return replace(dgx(), nics=nics, gpus=gpus)


def instance(bare_metal: bool) -> HostConfig:  # noqa: FBT001 - the one thing that differs
    hcas = tuple(
        HcaConfig(
            f"mlx5_{i}", f"0000:{0xA0 + i:02x}:00.0", 400, "InfiniBand", i // 4, "", bare_metal
        )
        for i in range(8)
    )
    return replace(dgx(), nics=(), hcas=hcas)


def booted(config: HostConfig, folder: Path) -> HostModel:
    folder.mkdir(parents=True, exist_ok=True)
    model = HostModel(config, folder / "nvram.json")
    model.boot(config.name)
    for card in model.nics:  # a port that is down does not tell its speed
        card.admin_up = True
    return model


def write_sys(model: HostModel, folder: Path) -> Path:
    """Write the model's /sys as plain files and links."""
    for path, entry in sorted(make_sys_table(model).items()):
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, SysFile):
            place.write_text(entry.read())
        else:
            place.symlink_to(entry.target)
    return folder


def look_lines(root: Path) -> str:
    """What the script that is sent to hosts prints of a /sys."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'set -u\n{look_text()}look_all "$1"', "look", str(root)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def look_at(config: HostConfig, folder: Path) -> HostLook:
    model = booted(config, folder)
    return parse_look(look_lines(write_sys(model, folder / "sys")).splitlines())
