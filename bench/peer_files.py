"""The inventories, keys and values that Ansible and pyinfra get for the benchmark's hosts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.host_room import ROOT, STACK, HostRoom
from components.core.errors import Bug, UsageError
from components.core.record import record
from components.hosts.host_plan import HostPlan, names_of
from components.hosts.keys.ask import find_row
from components.hosts.scripts import boot_script_text, boot_unit_text

ENVIRONMENT: Final = ROOT / ".lab" / "bench-venv"
LOCK: Final = ROOT / "bench" / "peers" / "requirements.lock"
INSTALL_DEADLINE_S: Final = 900.0
_DEVICE_ID: Final = {"ConnectX-5": "0x1017"}
"""The card of the example, as /sys shows it (pciids c1c1254)."""


@record
class PeerFiles:
    """Where everything that the peers read lies."""

    folder: Path

    @property
    def key(self) -> Path:
        """The client's private key."""
        return self.folder / "id"

    @property
    def known_hosts(self) -> Path:
        """Every host's pinned key."""
        return self.folder / "known_hosts"

    @property
    def desired(self) -> Path:
        """The settings, as JSON: Ansible's extra variables, and pyinfra's data."""
        return self.folder / "desired.json"

    @property
    def inventory(self) -> Path:
        """Ansible's."""
        return self.folder / "hosts.json"

    @property
    def inventory_py(self) -> Path:
        """The one of pyinfra."""
        return self.folder / "inventory.py"


def write_peer_files(room: HostRoom, folder: Path) -> PeerFiles:
    """Write what both peers read about these hosts."""
    folder.mkdir(parents=True, exist_ok=True)
    made = PeerFiles(folder)
    made.key.write_text(room.secrets["ssh_private_key"])
    made.key.chmod(0o600)
    ends = [plan.endpoint for plan in room.plans]
    lines = [f"[{end.address}]:{end.port} {end.host_key}\n" for end in ends]
    made.known_hosts.write_text("".join(lines))
    made.desired.write_text(json.dumps(_desired(room, folder), indent=1))
    connect = {end.device: (end.address, end.port, end.user) for end in ends}
    hosts = {
        name: {"ansible_host": address, "ansible_port": port, "ansible_user": user}
        for name, (address, port, user) in connect.items()
    }
    made.inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    data = [(name, _ssh_data(made, *where)) for name, where in connect.items()]
    made.inventory_py.write_text(f"gpus = {data!r}\n")
    return made


def _ssh_data(made: PeerFiles, address: str, port: int, user: str) -> dict[str, object]:
    return {
        "ssh_hostname": address,
        "ssh_port": port,
        "ssh_user": user,
        "ssh_key": str(made.key),
        "ssh_known_hosts_file": str(made.known_hosts),
        "ssh_strict_host_key_checking": "yes",
        "ssh_look_for_keys": False,
        "ssh_allow_agent": False,
        "ssh_file_transfer_protocol": "scp",  # the emulated sshd has no SFTP
    }


def _names(plan: HostPlan) -> list[str]:
    return [f"{address} {name}" for name, address in sorted(names_of([plan]).items())]


def _desired(room: HostRoom, folder: Path) -> dict[str, object]:
    """The plan's settings by what they are; but for names, all hosts want the same."""
    plan, spec = room.plans[0], room.spec
    rdma, values, user = spec.rdma, plan.desired.values, spec.host_defaults.user
    if user is None:
        raise Bug("the site of the benchmark has a common user")
    modules = [key.removeprefix("module.") for key in values if key.startswith("module.")]
    (limit,) = (key for key in values if key.endswith(".limit_memlock"))
    return {
        "stack": STACK,
        "names": {each.endpoint.device: _names(each) for each in room.plans},
        "user": {
            "name": user.name,
            "uid": user.uid,
            "limits": f"{user.name} - memlock unlimited\n",
        },
        "modules": modules,
        "cards": [_card(plan, nic.pci, nic.netdev, nic.model) for nic in spec.hosts[0].nics],
        "dscp_map": [
            {"dscp": rdma.dscp, "priority": rdma.priority},
            {"dscp": rdma.cnp_dscp, "priority": rdma.cnp_priority},
        ],
        "ecn": {
            "priority": rdma.priority,
            "cnp_dscp": rdma.cnp_dscp,
            "cnp_priority": rdma.cnp_priority,
        },
        "rdma_cm": {"mode": "RoCE v2", "tos": rdma.ip_traffic_class},
        "traffic_class": rdma.ip_traffic_class,
        "memlock": {"unit": limit.split(".")[1], "value": values[limit]},
        "files": _boot_files(values, folder),
    }


def _card(plan: HostPlan, pci: str, netdev: str, model: str) -> dict[str, object]:
    values = plan.desired.values
    on = values[f"nic.{pci}.pfc"].split(",")
    return {
        "pci": pci,
        "netdev": netdev,
        "device_id": _DEVICE_ID[model],
        "vfs": int(values[f"nic.{pci}.vfs"]),
        "mtu_bytes": int(values[f"nic.{pci}.mtu_bytes"]),
        "link": values[f"nic.{pci}.link"],
        "vf_mtu_bytes": int(values[f"nic.{pci}.vf_mtu_bytes"]),
        "pfc": ",".join("1" if str(number) in on else "0" for number in range(8)),
    }


def _boot_files(values: Mapping[str, str], folder: Path) -> list[dict[str, str]]:
    """The three files of the boot unit, the same bytes for every tool."""
    config = "".join(
        f"{key}={value}\n" for key, value in sorted(values.items()) if find_row(key).lost
    )
    texts = {
        "/etc/systemd/system/railyard-nics.service": boot_unit_text(),
        "/usr/local/lib/railyard/nics.sh": boot_script_text(),
        "/etc/railyard/nics.conf": config,
    }
    made: list[dict[str, str]] = []
    for path, text in texts.items():
        source = folder / Path(path).name
        source.write_text(text)
        made.append({"path": path, "source": str(source)})
    return made


def install_peers() -> None:
    """Make the peers' own virtual environment from the pinned, hashed list, once.

    Raises:
        UsageError: pip could not; its own words say why.
    """
    stamp = ENVIRONMENT / "installed.lock"
    if stamp.exists() and stamp.read_text() == LOCK.read_text():
        return
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)],
        [
            str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet",
            "--disable-pip-version-check", "--require-hashes", "-r", str(LOCK),
        ],
    ):  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False
        )
        if done.returncode != 0:
            raise UsageError(f"the peers cannot be installed: {done.stderr.strip()}")
    stamp.write_text(LOCK.read_text())
