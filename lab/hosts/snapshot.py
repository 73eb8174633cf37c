"""The whole state of a lab host as canonical JSON, to compare byte for byte."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import asdict
from pathlib import Path

from lab.hosts.model import HostModel
from lab.hosts.nic import Nic, Vf
from lab.hosts.supervisor import Supervisor

FOLDERS = ("etc", "root", "home", "usr/local", "opt", "srv", "boot", "var/lib")
LOCK_FILES = ("etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/.pwd.lock",
              "etc/subuid-", "etc/subgid-")  # fmt: skip
"""Backups and locks that the account tools leave behind; no setting lives in them."""


def take_snapshot(root: Path, model: HostModel, supervisor: Supervisor) -> dict[str, object]:
    """Files, run-time settings, modules and units."""
    with model.lock:
        return {
            "files": {path: _describe(root / path) for path in _walk(root)},
            "nics": {nic.config.pci: _nic(nic) for nic in model.nics},
            "firmware": {pci: dict(sorted(f.next.items())) for pci, f in model.firmware.items()},
            "sysctl": dict(sorted(model.sysctls.items())),
            "modules": sorted(model.modules),
            "hostname": model.hostname,
            "platform": model.platform.snapshot(),
            "network_manager": dict(sorted(model.network_manager.devices.items())),
            "rdma_cm": sorted(model.rdma_cm_devices),
            "units": {
                name: state.active
                for name, state in sorted(supervisor.states.items())
                if state.unit.fragment and state.active != "inactive"
            },
        }


def _nic(nic: Nic) -> dict[str, object]:
    return {
        "mtu_bytes": nic.mtu_bytes,
        "admin_up": nic.admin_up,
        "addresses": list(nic.addresses),
        "qos": asdict(nic.qos),
        "vfs": [_vf(vf, nic) for vf in nic.vfs],
        "eswitch": nic.eswitch,
        "autoprobe": nic.autoprobe,
    }


def _vf(vf: Vf, nic: Nic) -> dict[str, object]:
    """What a VF counted is left out, as it is of its card, and so are GUIDs of Ethernet.

    Such a GUID is made of the VF's MAC, and never becomes zero again.
    """
    left_out = ("hw_counters",) if nic.is_ib else ("hw_counters", "node_guid", "active_guid")
    return {name: value for name, value in asdict(vf).items() if name not in left_out}


def _walk(root: Path) -> list[str]:
    found: list[str] = []
    for folder in FOLDERS:
        for base, folders, files in os.walk(root / folder):
            inner = str(Path(base).relative_to(root))
            found += [f"{inner}/{name}" for name in (*files, *folders)]
    return sorted(path for path in found if path not in LOCK_FILES)


def _describe(path: Path) -> str:
    info = path.lstat()
    head = f"{stat.S_IMODE(info.st_mode):04o} {info.st_uid}:{info.st_gid}"
    if stat.S_ISLNK(info.st_mode):
        return f"link {path.readlink()}"
    if stat.S_ISDIR(info.st_mode):
        return f"{head} folder"
    if not stat.S_ISREG(info.st_mode):
        return f"{head} special"
    return f"{head} {hashlib.sha256(path.read_bytes()).hexdigest()}"
