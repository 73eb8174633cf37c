"""The name of a card's network device where the file has none: by its PCI address."""

from __future__ import annotations

import pytest

from components.model.hosts import Nic


@pytest.mark.parametrize(
    ("pci", "name"),
    [
        ("0000:05:00.0", "enp5s0"),
        ("0000:84:00.0", "enp132s0"),
        ("0000:c1:00.1", "enp193s0f1"),
        ("0001:03:00.0", "enP1p3s0"),
    ],
)
def test_it_is_the_one_by_path_of_systemd(pci: str, name: str) -> None:
    assert Nic(rail="rail-0", pci=pci).netdev == name


def test_a_written_name_stands() -> None:
    assert Nic(rail="rail-0", pci="0000:05:00.0", netdev="ens1f0np0").netdev == "ens1f0np0"
