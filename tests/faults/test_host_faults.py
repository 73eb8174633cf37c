"""The page of what goes wrong on hosts: all rows are there, and what they name exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from components.checks.registry import RULES
from components.jobs.templates import nccl_environment
from components.model.cluster import ClusterSpec
from tests.checks.cases import CASES
from tests.golden.site import load_example
from tests.hosts.host_text import library_text

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).with_name("README.md")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if re.match(r"\| \d+ \|", line)
]
ANSWERS = {"prevented", "detected", "reported"}


def test_every_failure_has_a_row() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 33))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_says_what_is_done_and_where_it_is_shown(row: list[str]) -> None:
    _, met, cause, answer, how, shown = row
    assert met
    assert cause
    assert how
    assert answer in ANSWERS
    rules = re.findall(r"rule `([\w-]+)`", shown)
    tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", shown)
    assert rules or tests
    assert set(rules) <= {rule.name for rule in RULES}
    assert set(rules) <= CASES.keys()
    for file, name in tests:
        path = ROOT / file
        assert f"\ndef {name}(" in path.read_text()


ROCE = [load_example(name) for name in ("dgx-roce", "esxi-roce", "shared-rdma")]


@pytest.mark.parametrize("spec", ROCE, ids=lambda spec: spec.name)
def test_jobs_do_not_cross_rails(spec: ClusterSpec) -> None:
    assert nccl_environment(spec)["NCCL_CROSS_NIC"] == "0"


@pytest.mark.parametrize("spec", ROCE, ids=lambda spec: spec.name)
def test_jobs_name_no_gid_index(spec: ClusterSpec) -> None:
    assert "NCCL_IB_GID_INDEX" not in nccl_environment(spec)


def _sh(script: str) -> subprocess.CompletedProcess[str]:
    """The functions of the hosts' scripts, with a part of the system played by functions."""
    return subprocess.run(
        ["/bin/sh", "-s"],
        input=f"{library_text()}\n{script}",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_a_peer_memory_module_that_does_not_fit_is_explained() -> None:
    """The kernel's words for symbols of another driver (NVIDIA's troubleshooting page)."""
    done = _sh(
        "modprobe() { echo \"modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\""
        " >&2; return 1; }\nwrite_module nvidia_peermem loaded\n"
    )
    assert done.returncode == 1
    assert "Invalid argument. Its GPU driver was built before the RDMA" in done.stderr
    assert "or the RDMA driver is inbox" in done.stderr


@pytest.mark.parametrize(
    ("driver", "found"), [("mlx5_core", "bond0\n"), ("igb", "")], ids=["card", "other"]
)
def test_a_card_that_carries_the_way_in_is_found(driver: str, found: str) -> None:
    done = _sh(
        "ip() { echo 'default via 10.0.0.1 dev bond0 proto static'; }\n"
        f"readlink() {{ echo ../../../bus/pci/drivers/{driver}; }}\ncard_uplink\n"
    )
    assert done.stdout == found
