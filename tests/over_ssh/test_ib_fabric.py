"""The lab's InfiniBand fabric over real SSH: opensm gives what the switches have configured.

ibsim plays the links of the site's cables; the subnet managers and the hosts' tools are real.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.acceptance.collect import probe_runs as collecting
from components.acceptance.judge.infiniband import FABRIC
from lab import control
from tests.over_ssh.ib_fabric_lab import SETTLE_S, FabricLab, Site, fabric_lab, failed, settled

pytestmark = pytest.mark.lab
GUID = "a0:88:c2:03:00:01:10:00"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[FabricLab]:
    with fabric_lab(tmp_path) as running:
        yield running


@pytest.fixture
def managed(lab: FabricLab) -> FabricLab:
    """Switches and hosts are set up as the file says, and the managers are done."""
    lab.configure()
    lab.load_modules()
    assert settled(lab, {}) == {}
    return lab


def test_hosts_see_what_the_switches_have(lab: FabricLab) -> None:
    assert [*lab.fabric()] == ["ibsim"]
    before = lab.judge()
    assert before["ib ports", "gpu01"][0] == "failed"
    assert "mlx5_0 2: INIT" in before["ib ports", "gpu01"][1]
    assert "Failed to open '(null)' port '0'" in before["subnet manager", "gpu01"][1]
    lab.configure()
    lab.load_modules()
    assert settled(lab, {}) == {}
    assert {*lab.fabric()} == {"ibsim", "ib-leaf-01", "ib-leaf-02"}
    rows = lab.judge()
    one = rows["one master", FABRIC][1]
    assert re.search(r"priority 14, master; 0x\w+ at LID \d+, priority 13, standby$", one)
    assert rows["partition storage", "gpu02"] == ("passed", "all have it")
    assert ("ibdiagnet Partition Keys", FABRIC) in rows
    assert lab.configure() == [[], []]
    answer = lab.ask(op="unmodelled")["unmodelled"]
    assert answer == {"gpu01": [], "gpu02": [], "ib-leaf-01": [], "ib-leaf-02": []}


def test_a_key_that_the_master_lost_is_missed(managed: FabricLab) -> None:
    managed.fault("ib-leaf-01", "cli", "no", "ib", "partition", "training", "member", GUID)
    missed = {
        ("partition training", "gpu01"): "mlx5_0 lacks it",
        ("paths in training", "gpu01"): "no path to gpu02/hca-0",
        ("paths in training", "gpu02"): "no path to gpu01/hca-0",
    }
    assert settled(managed, missed) == missed
    managed.configure()
    assert settled(managed, {}) == {}


def test_a_standby_takes_over_while_acceptance_waits(
    managed: FabricLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ports stay active meanwhile, and the one that took over is not the planned master."""
    monkeypatch.setattr(collecting, "ASK_AGAIN_S", 0.5)
    managed.fault("ib-leaf-01", "sm", "off")
    lost = failed(managed.judge())
    assert {*lost} == {("one master", FABRIC)}
    assert "priority 13, master" in lost["one master", FABRIC]
    # Nobody is left: what was set up stays so, and whoever asks is told.
    managed.fault("ib-leaf-02", "sm", "off")
    lost = failed(managed.judge(takeover_s=0))
    unasked = "sminfo: iberror: failed: query (status: 255)"
    assert lost["subnet manager", "gpu01"] == lost["subnet manager", "gpu02"] == unasked
    assert lost["one master", FABRIC] == "Query SA failed: Connection timed out (status: 110)"
    assert lost["ibdiagnet Subnet Manager", FABRIC] == "1 errors"
    assert {check for check, _ in lost} == {
        "subnet manager",
        "one master",
        "ibdiagnet Subnet Manager",
        "paths in training",
        "paths in storage",
    }
    managed.configure()
    assert settled(managed, {}) == {}


def test_a_pulled_cable_is_named(managed: FabricLab) -> None:
    managed.fault("ib-leaf-02", "link-down", "1/1/1")
    managed.fault("gpu02", "link-down", "mlx5_0", "on")
    pulled = {
        "gpu01": ("mlx5_4", "ib-leaf-02 1/1/1"),
        "gpu02": ("mlx5_0", "ib-leaf-01 1/3/1"),
    }
    expected = {
        ("ib ports", host): f"7 of 8 active; {hca} 1: DOWN (cable to {port})"
        for host, (hca, port) in pulled.items()
    }
    for name in ("Default", "training", "storage"):
        expected |= {
            (f"partition {name}", host): f"{hca} lacks it" for host, (hca, _) in pulled.items()
        }
    for host, rail in (("gpu01", "hca-4"), ("gpu02", "hca-0")):
        expected["rail " + rail, FABRIC] = f"{host} is not set up"
        for name in ("training", "storage"):
            expected[f"paths in {name}", host] = "not set up: gpu02 mlx5_0"
    assert settled(managed, expected) == expected
    managed.fault("ib-leaf-02", "link-down", "1/1/1", "off")
    managed.fault("gpu02", "link-down", "mlx5_0", "off")
    assert settled(managed, {}) == {}


def test_the_hosts_tools_are_the_real_ones(managed: FabricLab) -> None:
    status, links = managed.run("gpu01", "iblinkinfo --line\n")
    assert status == 0
    for hca in ("gpu01 mlx5_0", "gpu02 mlx5_7"):
        assert re.search(rf'"\s*{hca}"\s+\d+\s+1\[  \] ==\( 4X\s+106\.25 Gbps Active/', links)
    between = [row for row in links.splitlines() if row.count(":MQM9700/U1") == 2]
    assert len(between) == 8  # four cables, seen from both ends
    assert managed.run("gpu01", "perfquery\n")[1].startswith("# Port counters: Lid ")
    _, keys = managed.run("gpu02", "smpquery -C mlx5_7 -D pkeys 0 1\n")
    assert keys.splitlines()[0].split()[1:5] == ["0xffff", "0x8101", "0x0201", "0x0000"]
    managed.fault("ib-leaf-01", "sm", "off")
    managed.fault("ib-leaf-02", "sm", "off")
    status, said = managed.run("gpu01", "sminfo 2>&1\n")
    assert status == 255
    lines = said.splitlines()
    assert re.fullmatch(r"ibwarn: \[\d+\] mad_rpc: _do_madrpc failed; dport \(Lid \d+\)", lines[0])
    assert lines[1:] == ["sminfo: iberror: failed: query"]
    status, said = managed.run("gpu01", "saquery SMIR 2>&1\n")
    assert (status, said) == (110, "Query SA failed: Connection timed out\n")


def test_switches_without_a_cable_between_them_are_two_subnets(tmp_path: Path) -> None:
    def uncable(site: Site) -> None:
        for switch in site["switches"]:
            ports = switch["ports"].items()
            switch["ports"] = {name: to for name, to in ports if not to.startswith("ib-leaf")}
        # Each worker asks from its first HCA: the second one's is put on the other switch.
        one, other = (switch["ports"] for switch in site["switches"])
        one["1/3/1"], other["1/3/1"] = other["1/3/1"], one["1/3/1"]

    with fabric_lab(tmp_path, uncable) as lab:
        lab.configure()
        lab.load_modules()
        deadline = time.monotonic() + SETTLE_S
        while ("one subnet", FABRIC) not in (found := failed(lab.judge(takeover_s=0))):
            assert time.monotonic() < deadline, found
        assert found["one subnet", FABRIC].count("0x") == 2
        assert ("ib ports", "gpu01") not in found


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_nothing_of_the_fabric_outlives_the_lab(lab: FabricLab, how: str) -> None:
    lab.configure()
    pids = lab.fabric()
    assert len(pids) == 3
    if how == "killed":
        os.kill(int(str(lab.ask(op="status")["pid"])), signal.SIGKILL)
    else:
        control.stop(lab.root)
    deadline = time.monotonic() + SETTLE_S
    while alive := {name: pid for name, pid in pids.items() if Path(f"/proc/{pid}").exists()}:
        assert time.monotonic() < deadline, alive
