"""Which files of a host set up its rail cards, by the shipped script on folders.

`/run/systemd/netif/links/<ifindex>` has the form that systemd writes
(src/network/networkd-state-file.c).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from components.preflight.run import host_script
from tests.hosts.folder_host import folder_host

PCI = "0000:05:00.0"
ALL_EN = "network:\n  ethernets:\n    all-en:\n      match: {name: en*}\n      dhcp4: true\n"
"""As cloud images of Debian 12 have it in /etc/netplan/90-default.yaml, which names no card."""
LEFT_ALONE = "[Match]\nName=enp5s0\n[Link]\nUnmanaged=yes\n"
GENERATED = "/run/systemd/network/10-netplan-all-en.network"
HAS_IT = f"ADMIN_STATE=configuring\nOPER_STATE=degraded\nNETWORK_FILE={GENERATED}\n"
HAS_IT_NOT = f"ADMIN_STATE=unmanaged\nOPER_STATE=off\nNETWORK_FILE={GENERATED}\n"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"etc/netplan/90-default.yaml": ALL_EN, "run/systemd/netif/links/7": HAS_IT}, GENERATED),
        ({"etc/netplan/90-default.yaml": ALL_EN, "run/systemd/netif/links/7": HAS_IT_NOT}, None),
        ({"etc/systemd/network/05-rail.network": LEFT_ALONE}, None),
        ({"etc/network/interfaces": "auto enp5s0\n"}, "/etc/network/interfaces"),
        ({"etc/network/interfaces": "auto eno1\n", "run/systemd/netif/links/2": HAS_IT}, None),
    ],
)
def test_a_file_that_sets_up_a_card_is_named_also_if_it_means_all_cards(
    tmp_path: Path, files: dict[str, str], says: str | None
) -> None:
    host = folder_host(tmp_path)
    host.card(PCI, "enp5s0")
    host.write(f"sys/bus/pci/devices/{PCI}/net/enp5s0/ifindex", "7\n")
    for name, text in files.items():
        host.write(name, text)
    asked = host.sh(f"{host_script()}\n")
    assert asked.returncode == 0, asked.stderr
    facts = dict(line.split("=", 1) for line in asked.stdout.splitlines() if "=" in line)
    found = facts.get(f"files.{PCI}")
    assert (found.replace(str(tmp_path), "") if found else None) == says
