"""The pure parts of the lab's InfiniBand fabric, and what a machine without its packages hears."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from components.core.errors import UsageError
from lab import debian
from lab.infiniband.manager import render_partitions
from lab.infiniband.ports import KnownManager, PortState, parse_keys, parse_managers, parse_port
from lab.infiniband.topology import render_network
from lab.views import HcaPort, PartitionView, SubnetView

# Of ibsim 0.12 and infiniband-diags 56.1, shortened.
PORTINFO = """\
# Port info: DR path slid 65535; dlid 65535; 0 port 1
Mkey:............................<not displayed>
GidPrefix:.......................0xfe80000000000000
Lid:.............................2
SMLid:...........................1
LinkState:.......................Active
PhysLinkState:...................LinkUp
LinkDownDefState:................Polling
"""
PKEYS = """\
   0: 0xffff 0x8101 0x0201 0x0000 0x0000 0x0000 0x0000 0x0000
   8: 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000
16 pkeys capacity for this port
"""
SMIR = """\
SMInfoRecord dump:
\t\tRID
\t\tLID...................4
\t\tSMInfo dump:
\t\tGUID..................0xb8599f0300000002
\t\tSM_Key................0x0000000000000000
\t\tActCount..............17
\t\tPriority..............13
\t\tSMState...............2
SMInfoRecord dump:
\t\tRID
\t\tLID...................1
\t\tSMInfo dump:
\t\tGUID..................0xb8599f0300000001
\t\tSM_Key................0x0000000000000000
\t\tActCount..............219
\t\tPriority..............14
\t\tSMState...............3
"""
LEAF = SubnetView(
    switch="leaf-01",
    guid="b8599f0300000001",
    model="QM9700",
    rate_gbit_s=400,
    sm_runs=False,
    sm_priority=0,
    routing_engine="minhop",
    partitions=(),
    ports=("1/1/1", "1/1/2", "1/2/1"),
    up=frozenset(),
    cables={"1/1/2": ("gpu01", "0000:18:00.0")},
    links={"1/2/1": ("leaf-02", "1/1/1")},
)
OTHER = replace(
    LEAF,
    switch="leaf-02",
    guid="b8599f0300000002",
    cables={},
    links={"1/1/1": ("leaf-01", "1/2/1")},
)
HCA = HcaPort("gpu01", "mlx5_0", "0000:18:00.0", "a088c20300011000", 200, link_up=True)
NETWORK = """\
switchguid=0xb8599f0300000001(b8599f0300000001)
Switch\t4 "S-b8599f0300000001"\t\t# "MF0;leaf-01:MQM9700/U1" enhanced port 0 lid 0 lmc 0
[2]\t"H-a088c20300010fff"[1]\t\t# "far" lid 0 4xHDR
[3]\t"S-b8599f0300000002"[1]\t\t# "far" lid 0 4xNDR

switchguid=0xb8599f0300000002(b8599f0300000002)
Switch\t4 "S-b8599f0300000002"\t\t# "MF0;leaf-02:MQM9700/U1" enhanced port 0 lid 0 lmc 0
[1]\t"S-b8599f0300000001"[3]\t\t# "far" lid 0 4xNDR

caguid=0xa088c20300010fff
Ca\t1 "H-a088c20300010fff"\t\t# "gpu01 mlx5_0"
[1]\t"S-b8599f0300000001"[2]\t\t# "far" lid 0 4xHDR
"""


def test_every_cable_is_in_the_network_file_at_both_ends() -> None:
    assert render_network((LEAF, OTHER), (HCA,)) == NETWORK


def test_partitions_are_those_of_the_switch() -> None:
    default = PartitionView("Default", 0x7FFF, ipoib=True, members={"ALL": "full"})
    members = {"a088c20300011000": "full", "a088c20300021000": "limited"}
    storage = PartitionView("storage", 0x0201, ipoib=False, members=members)
    assert render_partitions((default, storage)) == (
        "Default=0x7fff, ipoib : ALL=full;\n"
        "storage=0x0201 : 0xa088c20300011000=full, 0xa088c20300021000=limited;\n"
    )


def test_answers_of_the_real_tools_are_read() -> None:
    assert parse_port(PORTINFO) == PortState(4, link_up=True, lid=2, sm_lid=1)
    assert parse_keys(PKEYS) == (0xFFFF, 0x8101, 0x0201, *[0] * 13)
    assert parse_managers(SMIR) == (
        KnownManager(1, "b8599f0300000001", 14, 3),
        KnownManager(4, "b8599f0300000002", 13, 2),
    )
    assert parse_managers("Query SA failed: Connection timed out\n") == ()


def test_a_machine_without_apt_hears_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def which(name: str) -> str | None:
        return None if name == "apt-get" else f"/usr/bin/{name}"

    monkeypatch.setattr(shutil, "which", which)
    with pytest.raises(
        UsageError, match="ibsim-utils and opensm and infiniband-diags of Debian, and apt-get is"
    ):
        debian.unpacked_whole(tmp_path)


def test_a_mirror_that_does_not_answer_is_named_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never an emulation in its place: without the packages there is no fabric."""

    def nowhere(_: str) -> str:
        return f"file:{tmp_path}/nowhere"

    monkeypatch.setattr(debian, "_mirror", nowhere)
    with pytest.raises(UsageError) as caught:
        debian.unpacked_whole(tmp_path)
    text = str(caught.value)
    assert "apt-get" in text
    assert f"fix    let this machine reach file:{tmp_path}/nowhere trixie" in text
    assert [*(tmp_path / "debian").iterdir()] == []
