"""In switchdev mode a card has devices of its VFs beside its own: none of them is taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.hosts.look import parse_look
from components.hosts.scripts import discover_text, look_text
from tests.discover.test_discover_script import sh
from tests.hosts.folder_host import FolderHost, folder_host

CARD = "0000:05:00.0"
C = f"nic.{CARD}"
TOLD = {"eth0": "pf0vf0", "eth1": "pf0vf1", "rail0": "p0"}


def with_ports(root: Path, names: dict[str, str]) -> FolderHost:
    """A card with these network devices and the names that their ports tell, `-` for none."""
    host = folder_host(root)
    device = host.card(CARD, "rail0")
    for netdev, name in names.items():
        net = device / "net" / netdev
        net.mkdir(exist_ok=True)
        (net / "mtu").write_text("4200\n" if netdev == "rail0" else "1500\n")
        if name != "-":
            (net / "phys_port_name").write_text(f"{name}\n" if name else "")
        if netdev != "rail0":
            (root / f"sys/class/net/{netdev}").symlink_to(net)
    return host


@pytest.mark.parametrize(
    "names",
    [
        TOLD,
        {"eth0": "pf1vf0", "rail0": "p1"},
        {"eth0": "c1pf0vf0", "eth1": "pf0sf88", "rail0": "p0"},
        {"eth0": "pf0vf0", "rail0": ""},
        {"eth0": "pf0vf0", "rail0": "-"},
        {"eth0": "", "eth1": "-", "rail0": "p0"},
        {"rail0": "-", "rail0.8001": "-"},
        {"rail0": "-"},
    ],
)
def test_the_ports_own_device_is_read_and_set(tmp_path: Path, names: dict[str, str]) -> None:
    host = with_ports(tmp_path, names)
    wanted = (f"{C}.netdev=rail0", f"{C}.mtu_bytes=9000")
    assert host.observe(*wanted)[f"{C}.mtu_bytes"] == "4200"
    assert host.report("converge", *wanted)["changed"] == [f"{C}.mtu_bytes"]
    nets = host.devices / CARD / "net"
    mtus = {name: (nets / name / "mtu").read_text().strip() for name in names}
    assert mtus == {name: "9000" if name == "rail0" else "1500" for name in names}


def test_discovery_names_the_ports_own_device(tmp_path: Path) -> None:
    host = with_ports(tmp_path, TOLD)
    lines = sh(f'set -u\n{look_text()}look_all "$1"', str(tmp_path / "sys")).splitlines()
    assert [card.netdev for card in parse_look(lines).cards] == ["rail0"]
    functions = discover_text().partition("look_all /sys\n")[0]
    closer = functions.replace("/sys/", f"{tmp_path}/sys/") + "look_closer"
    host.tool("ip", '[ "$5" = rail0 ] && echo "    inet 10.0.0.1/24 scope global $5"')
    told = sh(f"set -u\n{closer}", path=str(tmp_path / "bin"))
    assert f"look.{CARD}.addresses=10.0.0.1/24" in told
