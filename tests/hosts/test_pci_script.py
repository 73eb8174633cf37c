"""The rail cards of a host, between which and its GPUs the bridges are looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.folder_host import folder_host


@pytest.mark.parametrize("named", [("0000:05:00.0",), ()])
def test_infiniband_adapters_are_rail_cards_beside_those_of_the_file(
    tmp_path: Path, named: tuple[str, ...]
) -> None:
    host = folder_host(tmp_path)
    for pci, netdev in (("0000:05:00.0", "enp5s0"), ("0000:18:00.0", "ib0")):
        host.card(pci, netdev)
    (host.devices / "0000:18:00.0/class").write_text("0x020700\n")
    lines = "".join(f"nic.{pci}.netdev=enp5s0\\n" for pci in named)
    found = host.sh(f"printf '{lines}' >$work/desired\nfind_ends\ncat $work/kernel.ends\n")
    places = [f"card {host.devices / pci}" for pci in (*named, "0000:18:00.0")]
    assert found.stdout.splitlines() == places, found.stderr
