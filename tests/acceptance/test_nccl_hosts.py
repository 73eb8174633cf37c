"""Whose line of NCCL it is, where lines are glued; expectations are written by hand."""

from __future__ import annotations

from typing import Final

import pytest

from components.acceptance.logs.nccl_lines import Paths


def read(*lines: str) -> Paths:
    paths = Paths()
    for line in lines:
        if not paths.feed_channels(line):
            paths.feed(line)
    return paths


SENDS: Final = "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/"


def settled(*lines: str, listed: tuple[str, ...] = ()) -> Paths:
    paths = read(*lines)
    paths.settle(listed)
    return paths


def test_a_glued_name_is_that_of_the_longest_known_host() -> None:
    lines = [f"{host}:1:1 [0] NCCL INFO Bootstrap" for host in ("node1", "e1", "1")]
    paths = settled(*lines, *lines, f"xnode1:1:1 [0] NCCL INFO {SENDS}0")
    assert paths.channels({}).devices_by_host == {"node1": (0,)}


@pytest.mark.parametrize("listed", [(), ("w1", "dgx-w1")])
def test_a_host_whose_name_ends_in_another_hosts_name_is_itself(listed: tuple[str, ...]) -> None:
    one, other = f"w1:1:1 [0] NCCL INFO {SENDS}", f"dgx-w1:1:1 [0] NCCL INFO {SENDS}"
    both = [f"{one}0", f"{one}1", f"{other}2"] + ([] if listed else [f"{other}2"])
    for lines in (both, both[::-1]):
        found = settled(*lines, listed=listed).channels({})
        assert found.devices_by_host == {"w1": (0, 1), "dgx-w1": (2,)}
        assert found.hosts_on_net == ("dgx-w1", "w1")


def test_a_name_that_a_line_begins_with_once_is_glued_to_torn_text() -> None:
    start = "w1:1:1 [0] NCCL INFO "
    torn = "LETEw1:1:1 [0] NCCL INFO "
    using = "NET/IB : Using [0]mlx5_0:1/RoCE"
    lines = (f"{start}{SENDS}0", f"{start}{SENDS}1", f"{torn}{SENDS}2", f"x{start}{using}")
    paths = settled(*lines, "yw1:1:1 [0] NCCL INFO comm 0x1 rank 6 nranks 8 cudaDev 0")
    assert paths.channels({}).devices_by_host == {"w1": (0, 1, 2)}
    assert [*paths.hosts] == ["w1"]
    assert paths.hosts["w1"].host == "w1"
    assert paths.host_of == {6: "w1"}


@pytest.mark.parametrize(
    ("line", "is_whole"),
    [
        ("w0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/3/GDRDMA", True),
        ("w0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [receive] via NET/IBext_v8/3", True),
        ("w0:1:2 [0] NCCL INFO Channel 00/0 : 0[1b000] -> 1[1c000] via P2P/IPC/read", True),
        ("w0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct", True),
        ("w0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via MAGIC/3", False),
        ("w0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/AWS Libfabric/0", True),
        ("w0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/3 Killed", False),
        ("w0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/3Killed", False),
        ("x w0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/3", False),
        ("w0:1:2 [0] NCCL WARN Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/3", False),
        ("w0:1:2 [0] NCCL INFO Using network IB", False),
    ],
)
def test_a_line_that_is_a_channel_and_nothing_else(line: str, *, is_whole: bool) -> None:
    paths = Paths()
    assert paths.feed_channels(line) is is_whole
    assert paths.counts["nccl"] == int(is_whole)
    if is_whole:
        assert paths.channels({}) == read(line).channels({})
        assert paths.starts == {"w0": 1}
