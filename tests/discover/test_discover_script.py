"""The script of discovery: whole on this machine, and its parts on made-up input."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from components.hosts.look import parse_look
from components.hosts.scripts import discover_text
from tests.discover.played import bare, booted, look_lines, nic, write_sys

FUNCTIONS = discover_text().partition("look_all /sys\n")[0]


def sh(script: str, *words: str, path: str = "", shell: str = "sh") -> str:
    done = subprocess.run(
        [shell, "-c", script, "sh", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
    )
    assert done.stderr == ""
    return done.stdout


def test_it_ends_well_on_a_machine_without_cards_or_tools() -> None:
    look = parse_look(sh(discover_text()).splitlines())
    assert look.seen
    assert look.name
    assert look.nodes >= 1


def resource(tag: int, body: bytes) -> bytes:
    return bytes([tag, len(body) % 256, len(body) // 256]) + body


def keyword(name: str, text: str) -> bytes:
    return name.encode() + bytes([len(text)]) + text.encode()


@pytest.mark.parametrize(
    ("vpd", "serial"),
    [
        (
            resource(0x82, b"ConnectX-7 adapter card")
            + resource(0x90, keyword("PN", "MCX755106AS") + keyword("SN", "MT2344XZ0F1K "))
            + b"\x78",
            "MT2344XZ0F1K",
        ),
        (resource(0x82, b"SN of a name") + resource(0x90, keyword("PN", "SNxx")) + b"\x78", ""),
        (b"\x78" + resource(0x90, keyword("SN", "after the end")), ""),
        (b"", ""),
        (bytes(256), ""),
    ],
    ids=["serial", "none", "after-end", "empty", "zeros"],
)
def test_the_serial_number_of_the_product_data(tmp_path: Path, vpd: bytes, serial: str) -> None:
    file = tmp_path / "vpd"
    file.write_bytes(vpd)
    assert sh(f'{FUNCTIONS}serial_of "$1"', str(file)).strip() == serial


def net(root: Path, name: str, *lower: str, master: str = "", pci: bool = False) -> None:
    (root / name).mkdir(parents=True, exist_ok=True)
    for each in lower:
        (root / name / f"lower_{each}").symlink_to(f"../{each}")
    if master:
        (root / name / "master").symlink_to(f"../{master}")
    if pci:
        (root / name / "device").mkdir()


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize(
    ("uplink", "way"),
    [
        ("ens1", ["ens1"]),
        ("bond0", ["bond0", "ens2", "ens3"]),
        ("bond0.100", ["bond0.100", "bond0", "ens2", "ens3"]),
        ("br0", ["br0", "bond0.100", "bond0", "ens2", "ens3"]),
        ("br-ex", ["br-ex", "ens4", "vxlan_sys_4789"]),
        ("vlan7", ["vlan7", "br-ex", "ens4", "vxlan_sys_4789"]),
        ("tun0", ["tun0"]),
    ],
)
def test_the_uplink_is_told_with_all_that_it_stands_on(
    tmp_path: Path, uplink: str, way: list[str], shell: str
) -> None:
    net(tmp_path, "ens1", pci=True)
    net(tmp_path, "ens2", master="bond0", pci=True)
    net(tmp_path, "ens3", master="bond0", pci=True)
    net(tmp_path, "bond0", "ens2", "ens3")
    net(tmp_path, "bond0.100", "bond0", master="br0")
    net(tmp_path, "br0", "bond0.100")
    net(tmp_path, "ens5", pci=True)
    if uplink != "tun0":  # a host with Open vSwitch
        net(tmp_path, "ovs-system")
        net(tmp_path, "br-ex")
        net(tmp_path, "vlan7", "br-ex")
        net(tmp_path, "vxlan_sys_4789", master="ovs-system")
        net(tmp_path, "ens4", master="ovs-system", pci=True)
    else:
        net(tmp_path, "tun0")
    script = f'set -u\n{FUNCTIONS}look_at=host\nlook_uplink "$1" "$2"'
    assert sh(script, str(tmp_path), uplink, shell=shell) == f"look.host.uplink={' '.join(way)}\n"


ROUTE = "Iface\tDestination\tGateway\n{}\t00000000\t010200C0\neno9\t000200C0\t00000000\n"
NONE = "0" * 32
ROUTE6 = (
    f"{NONE} 40 {NONE} 00 {NONE} 00000100 00000001 00000000 00000001     eno9\n"
    f"{NONE} 00 {NONE} 00 fd{NONE[2:]} 00000400 00000003 00000000 00000003     bond0\n"
    f"{NONE} 00 {NONE} 00 {NONE} ffffffff 00000001 00000000 00200200       lo\n"
)
IP = """\
case $* in '-o addr show') cat <<'END' ;; esac
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
2: ens2    inet6 2001:db8::1/64 scope global \\       valid_lft forever preferred_lft forever
5: br0    inet 192.0.2.1/24 scope global br0\\       valid_lft forever preferred_lft forever
5: br0    inet6 2001:db8::10/64 scope global \\       valid_lft forever preferred_lft forever
6: ens5    inet6 fe80::5/64 scope link \\       valid_lft forever preferred_lft forever
END
"""
BR0 = ("br0", "bond0.100", "bond0", "ens2", "ens3")


@pytest.mark.parametrize("sudo", ["", "env -u SSH_CONNECTION "])
@pytest.mark.parametrize(
    ("routes", "session", "way"),
    [
        ({"route": ROUTE.format("ens1"), "ipv6_route": ROUTE6}, "", ("ens1",)),
        ({"route": ROUTE.format("ens1")}, "192.0.2.1", ("ens1", *BR0)),
        ({"ipv6_route": ROUTE6}, "", BR0[2:]),
        ({}, "2001:db8::10", BR0),
        ({"route": "Iface\tDestination\n"}, "192.0.2.1", BR0),
        ({}, "fe80::5%ens5", ("ens5",)),
        ({}, "127.0.0.1", ()),
        ({}, "192.0.2.100", ()),
    ],
    ids=["v4", "another", "v6", "session-v6", "air-gapped", "link-local", "itself", "unknown"],
)
def test_what_carries_the_session_or_the_default_route_is_told(
    tmp_path: Path, routes: dict[str, str], session: str, way: tuple[str, ...], sudo: str
) -> None:
    for name in ("ens1", "ens5"):
        net(tmp_path, name, pci=True)
    for name in ("ens2", "ens3"):
        net(tmp_path, name, master="bond0", pci=True)
    net(tmp_path, "bond0", "ens2", "ens3")
    net(tmp_path, "bond0.100", "bond0", master="br0")
    net(tmp_path, "br0", "bond0.100")
    for name, text in routes.items():
        (tmp_path / "proc/net").mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc/net" / name).write_text(text)
    (tmp_path / "ip").write_text(f"#!/bin/sh\n{IP}")
    (tmp_path / "ip").chmod(0o755)
    (tmp_path / "script").write_text(
        f'set -u\n{FUNCTIONS}look_at=host\nlook_uplinks "$1" "$1/proc"'
    )
    told = sh(
        f"""SSH_CONNECTION=$2 sh -c '{sudo}sh "$1/script" "$1"; true' sh "$1" """, str(tmp_path),
        f"198.51.100.9 50000 {session} 22" if session else "", path=str(tmp_path),
    )  # fmt: skip
    assert parse_look(told.splitlines()).uplink == way


LLDP = """\
lldp.enp5s0.via=LLDP
lldp.enp5s0.rid=1
lldp.enp5s0.chassis.mac=b8:59:9f:00:00:01
lldp.enp5s0.chassis.name=leaf-01
lldp.enp5s0.chassis.descr=Onyx
lldp.enp5s0.port.ifname=Eth1/1
lldp.enp5s0.port.descr=N/A
lldp.enp5s0.100.chassis.name=spine=1
"""


def test_neighbours_come_from_lldpd_where_it_runs(tmp_path: Path) -> None:
    tool = tmp_path / "lldpcli"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{LLDP}END\n")
    tool.chmod(0o755)
    lines = sh(f"{FUNCTIONS}look_neighbours", path=str(tmp_path))
    model = booted(bare(nic(0, "0000:05:00.0", 0)), tmp_path / "model")
    seen = look_lines(write_sys(model, tmp_path / "sys"))
    [card] = parse_look((seen + lines).splitlines()).cards
    assert card.neighbour == "leaf-01 Eth1/1"
    assert "lldp.enp5s0.100.chassis.name=spine=1" in lines
