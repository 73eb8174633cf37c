"""What each rank finds on its own host: the scripts run on folders laid out as /sys is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from components.containers.container_plan import nccl_exports, on_own_devices
from components.model.cluster import ClusterSpec
from tests.containers.site import load_spec

SPEC = load_spec()
V4, V6 = "0000:0000:0000:0000:0000:ffff:c0a8:6f0b", "fe80:0000:0000:0000:0000:0000:0000:0001"


def card(root: Path, netdev: str, device: str, gids: list[tuple[str, str]]) -> None:
    """A card whose GIDs are (text, type), from index 0 on."""
    port = root / "sys/class/infiniband" / device / "ports/1"
    (root / "sys/class/net" / netdev / "device/infiniband" / device).mkdir(parents=True)
    for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (port / folder).mkdir(parents=True)
    for index, (gid, kind) in enumerate(gids):
        (port / "gids" / str(index)).write_text(f"{gid}\n")
        (port / "gid_attrs/types" / str(index)).write_text(f"{kind}\n")
        (port / "gid_attrs/ndevs" / str(index)).write_text(f"{netdev}\n")


def run(
    root: Path, spec: ClusterSpec = SPEC, host: str = "vm01", **env: str
) -> subprocess.CompletedProcess[str]:
    """A rank on that host that prints its environment."""
    bin_ = root / "bin"
    bin_.mkdir(exist_ok=True)
    (bin_ / "uname").write_text(f"#!/bin/sh\necho {host}\n")
    (bin_ / "uname").chmod(0o755)
    shell, flag, script, *rest = on_own_devices(spec, ("env",))
    return subprocess.run(
        [shell, flag, script.replace("/sys/", f"{root}/sys/"), *rest],
        env={"PATH": f"{bin_}:{os.environ['PATH']}"} | env,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def nccl(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in done.stdout.splitlines())
    return {name: value for name, value in pairs if name.startswith("NCCL")}


ROCE_AT_1 = [(V4, "IB/RoCE v1"), (V4, "RoCE v2")]
ROCE_AT_3 = [(V6, "IB/RoCE v1"), (V6, "RoCE v2"), *ROCE_AT_1]


@pytest.mark.parametrize(("gids", "index"), [(ROCE_AT_1, "1"), (ROCE_AT_3, "3")])
def test_each_host_has_its_own_index(
    tmp_path: Path, gids: list[tuple[str, str]], index: str
) -> None:
    card(tmp_path, "ens224", "mlx5_0", gids)
    done = run(tmp_path)
    assert nccl(done) == {"NCCL_IB_HCA": "=mlx5_0", "NCCL_IB_GID_INDEX": index}, done.stderr


def test_no_host_hands_its_index_to_others() -> None:
    assert not [word for word in nccl_exports(SPEC) if word.startswith(("NCCL_IB_G", "NCCL_IB_H"))]


def test_an_index_of_the_file_is_left(tmp_path: Path) -> None:
    card(tmp_path, "ens224", "mlx5_0", ROCE_AT_3)
    assert nccl(run(tmp_path, NCCL_IB_GID_INDEX="5"))["NCCL_IB_GID_INDEX"] == "5"


def two_cards() -> ClusterSpec:
    """Each host has a second card; on vm02 it has another name."""
    hosts = tuple(
        host.model_copy(
            update={
                "nics": (
                    *host.nics,
                    host.nics[0].model_copy(
                        update={"netdev": "ens9" if host.name == "vm02" else "ens256"}
                    ),
                )
            }
        )
        for host in SPEC.hosts
    )
    return SPEC.model_copy(update={"hosts": hosts})


def test_cards_with_other_names_are_found_by_their_hosts_name(tmp_path: Path) -> None:
    card(tmp_path, "ens224", "mlx5_0", ROCE_AT_1)
    card(tmp_path, "ens9", "mlx5_2", ROCE_AT_1)
    done = run(tmp_path, two_cards(), "vm02")
    assert nccl(done) == {"NCCL_IB_HCA": "=mlx5_0,mlx5_2", "NCCL_IB_GID_INDEX": "1"}, done.stderr
    other = run(tmp_path, two_cards(), "vm03")
    assert other.returncode == 1
    assert other.stderr == "railyard: there is no RDMA device behind ens256 on vm03\n"
    stranger = run(tmp_path, two_cards(), "elsewhere")
    assert stranger.returncode == 1
    assert stranger.stderr == "railyard: elsewhere is not a worker of this site\n"


def test_indexes_that_differ_are_left_to_nccl_and_said(tmp_path: Path) -> None:
    card(tmp_path, "ens224", "mlx5_0", ROCE_AT_1)
    card(tmp_path, "ens9", "mlx5_2", ROCE_AT_3)
    done = run(tmp_path, two_cards(), "vm02")
    assert nccl(done) == {"NCCL_IB_HCA": "=mlx5_0,mlx5_2"}
    assert "of mlx5_0,mlx5_2 on vm02 have the indexes 1 3; NCCL before 2.21" in done.stderr


def test_a_card_without_a_gid_of_its_address_is_named(tmp_path: Path) -> None:
    card(tmp_path, "ens224", "mlx5_0", [(V6, "RoCE v2"), (V4, "IB/RoCE v1")])
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "railyard: no RoCE v2 GID with an IPv4 address of ens224 on mlx5_0 of vm01\n"
    )


def test_infiniband_has_no_such_index(tmp_path: Path) -> None:
    infiniband = SPEC.model_copy(
        update={"rdma": SPEC.rdma.model_copy(update={"transport": "infiniband"})}
    )
    folder = tmp_path / "ib/mlx5_4/ports/1"
    folder.mkdir(parents=True)
    for name, text in (("link_layer", "InfiniBand"), ("state", "4: ACTIVE"), ("rate", "400 Gb")):
        (folder / name).write_text(f"{text}\n")
    done = run(tmp_path, infiniband, RAILYARD_INFINIBAND=f"{tmp_path}/ib")
    assert nccl(done) == {"NCCL_IB_HCA": "=mlx5_4:1"}, done.stderr
