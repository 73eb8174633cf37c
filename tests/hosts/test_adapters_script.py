"""The InfiniBand adapters of a host after a reboot: as many as the file says must be usable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.folder_host import FolderHost, folder_host

CARD = "0000:05:00.0"
ADAPTERS = ("0000:18:00.0", "0000:2a:00.0")
GID = "fe80:0000:0000:0000:a088:c203:0001:1000"


def adapter(host: FolderHost, number: int, *, state: str = "4: ACTIVE") -> str:
    """One more HCA with a port."""
    pci, name = ADAPTERS[number], f"mlx5_{number + 1}"
    device = host.devices / pci
    (device / f"infiniband/{name}").mkdir(parents=True)
    (device / "class").write_text("0x020700\n")
    port = f"sys/class/infiniband/{name}/ports/1"
    files = {"state": state, "link_layer": "InfiniBand", "gids/0": GID}
    for file, text in files.items():
        host.write(f"{port}/{file}", f"{text}\n")
    return pci


def ask(host: FolderHost, action: str, *lines: str) -> dict[str, str]:
    done = host.run("maintain", f"action={action}", *lines)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    return folder_host(tmp_path)


def test_adapters_that_the_file_only_counts_are_asked(host: FolderHost) -> None:
    adapter(host, 0)
    adapter(host, 1, state="1: DOWN")
    assert ask(host, "ready", "hcas=2") == {
        f"rdma.{ADAPTERS[0]}": "ok",
        f"rdma.{ADAPTERS[1]}": "port 1 of mlx5_2 is 1: DOWN, want ACTIVE",
    }


def test_an_adapter_that_is_gone_is_told_with_those_that_are_there(host: FolderHost) -> None:
    words = "0 InfiniBand adapters are on its PCIe bus (none), and the file says hcas: 2"
    assert ask(host, "ready", "hcas=2") == {"rdma.hcas": words}
    adapter(host, 0)
    words = f"1 InfiniBand adapters are on its PCIe bus ({ADAPTERS[0]}), and the file says hcas: 2"
    assert ask(host, "ready", "hcas=2") == {f"rdma.{ADAPTERS[0]}": "ok", "rdma.hcas": words}


@pytest.mark.parametrize("hcas", [0, 1])
def test_a_port_beyond_them_may_be_without_a_cable(host: FolderHost, hcas: int) -> None:
    adapter(host, 0)
    adapter(host, 1, state="1: DOWN")
    assert ask(host, "ready", f"hcas={hcas}") == {f"rdma.{ADAPTERS[0]}": "ok"}
    assert ask(host, "loopback", f"hcas={hcas}") == {
        f"spare.{ADAPTERS[1]}": "port 1 of mlx5_2 is 1: DOWN, want ACTIVE"
    }


def test_the_cards_of_the_file_are_asked_all_the_same(host: FolderHost) -> None:
    adapter(host, 0)
    adapter(host, 1, state="1: DOWN")
    host.card(CARD, "enp5s0")
    named = [f"nic.{pci}.vfs=0" for pci in (CARD, ADAPTERS[1])]
    told = ask(host, "ready", *named, "hcas=1")
    assert set(told) == {f"rdma.{pci}" for pci in (CARD, *ADAPTERS)}
    assert told[f"rdma.{ADAPTERS[1]}"] == "port 1 of mlx5_2 is 1: DOWN, want ACTIVE"


def test_vfs_are_no_adapters_and_a_vf_without_its_pf_is_one(host: FolderHost) -> None:
    of_a_pf = adapter(host, 1)
    (host.devices / of_a_pf / "physfn").symlink_to(f"../{adapter(host, 0)}")
    assert set(ask(host, "ready", "hcas=1")) == {f"rdma.{ADAPTERS[0]}"}


def test_each_adapter_writes_to_itself(host: FolderHost) -> None:
    for number in range(2):
        adapter(host, number)
    host.tool("ib_write_bw", "[ \"$2\" != mlx5_2 ] || { echo 'Completion with error' && exit 1; }")
    host.tool("sleep")
    told = ask(host, "loopback", "hcas=2")
    assert told[f"loopback.{ADAPTERS[0]}"] == "ok"
    assert "ib_write_bw from mlx5_2 to itself failed: " in told[f"loopback.{ADAPTERS[1]}"]


@pytest.mark.parametrize("count", ["", "x", "17"])
def test_what_is_no_number_of_adapters_is_refused(host: FolderHost, count: str) -> None:
    done = host.run("maintain", "action=ready", f"hcas={count}")
    assert f"stdin: '{count}' is no number of InfiniBand adapters" in done.stderr
