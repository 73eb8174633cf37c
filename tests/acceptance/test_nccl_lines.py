"""Single lines of NCCL, and cells of nccl-tests, one by one; expectations are written by hand."""

from __future__ import annotations

from typing import Final

import pytest

from components.acceptance.logs.log_model import (
    Channels,
    Hca,
    HostNetwork,
    Measure,
    NcclLog,
    NcclRow,
)
from components.acceptance.logs.nccl import parse_nccl_log
from components.acceptance.logs.nccl_lines import (
    Paths,
    fits,
    has_type,
    messages,
    parse_row,
    rounding,
)

INFO: Final = "w0:12:34 [0] NCCL INFO "
OF_W1: Final = "w1:12:34 [1] NCCL INFO "


def read(*lines: str) -> Paths:
    paths = Paths()
    for line in lines:
        if not paths.feed_channels(line):
            paths.feed(line)
    return paths


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", Channels(peer=1)),
        ("Channel 00 : 0[0] -> 1[1] via direct shared memory", Channels(shared_memory=1)),
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", Channels(shared_memory=1)),
        ("Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL", Channels(peer=1, mnnvl=1)),
        ("Ring 00 : 0[0] -> 1[1] via P2P/common device", Channels(peer=1)),
        ("Channel 00 : 0[1b000] -> 1[1c000] via P2P/indirect/2[1d000]/read", Channels(peer=1)),
        ("NVLS 00 : 0[0] via NVLS", Channels()),
        ("Channel 00 : 0 -> 1 via MAGIC/7", Channels(other=("MAGIC",))),
        (
            "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/3",
            Channels(net={"IB": 1}, hosts_on_net=("w0",), devices_by_host={"w0": (3,)}),
        ),
        (
            "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/3/GDRDMA",
            Channels(net={"IB": 1}, gdr=1, hosts_on_net=("w0",), devices_by_host={"w0": (3,)}),
        ),
        (
            "CollNet 00/0 : 0 [send] via COLLNET/SHARP/1",
            Channels(net={"COLLNET/SHARP": 1}, hosts_on_net=("w0",), devices_by_host={"w0": (1,)}),
        ),
    ],
)
def test_a_channel_line_proves_its_way(line: str, found: Channels) -> None:
    assert read(INFO + line).channels({}) == found


def test_ranks_at_both_ends_are_on_the_network() -> None:
    line = "Channel 00/0 : 4[0] -> 9[1] [send] via NET/IB/0"
    hosts = {4: "w4", 9: "w9", 5: "w5", 0: "w0"}
    assert read(INFO + line).channels(hosts).hosts_on_net == ("w0", "w4", "w9")
    alone = read(line)
    assert alone.channels(hosts).hosts_on_net == ("w4", "w9")
    assert alone.ways[""].ranks == {"4", "9"}
    one_end = read("CollNet 00/0 : 4 [send] via COLLNET/SHARP/1")
    assert one_end.ways[""].ranks == {"4"}


def test_channels_add_up() -> None:
    lines = (
        "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/2/GDRDMA",
        "Channel 01/0 : 0[0] -> 1[1] [send] via NET/IB/0",
        "Channel 02/0 : 0[0] -> 1[1] [send] via NET/Socket/0",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "Channel 01/0 : 0[0] -> 1[1] via CUMEM/read",
    )
    found = read(*(INFO + line for line in lines)).channels({})
    assert found == Channels(
        net={"IB": 2, "Socket": 1},
        gdr=1,
        peer=2,
        hosts_on_net=("w0",),
        devices_by_host={"w0": (0, 2)},
    )


def test_a_rank_is_known_by_nccls_own_line_and_better_by_the_list() -> None:
    init = "comm 0x1 rank 4 nranks 8 cudaDev 0"
    sends = "Channel 00/0 : 4[0] -> 5[1] [send] via NET/IB/0"
    paths = read(OF_W1 + init, sends)
    assert paths.channels({}).hosts_on_net == ("w1",)
    assert paths.channels({4: "w7", 5: "w7"}).hosts_on_net == ("w7",)


def test_channels_of_another_job_are_not_those_of_this_run() -> None:
    sends = "Channel 00/0 : {}[0] -> {}[1] [send] via NET/IB/{}"
    own, alien = sends.format(0, 1, 2), sends.format(2, 3, 5)
    listed = {0: "w0", 1: "w1"}
    both = read(INFO + own, "x9:1:1 [0] NCCL INFO " + alien).channels(listed)
    assert (both.net, both.devices_by_host) == ({"IB": 1}, {"w0": (2,)})
    assert both.strangers == ("x9",)
    assert read(INFO + own, INFO + alien).channels(listed).strangers == ("rank 2",)
    assert read(INFO + own).channels(listed).strangers == ()


def test_one_gpu_of_two_ranks_is_seen() -> None:
    line = "comm 0x{} rank {} nranks 2 cudaDev 0 nvmlDev 0 busId {} commId 0x9 - Init COMPLETE"
    assert not read(INFO + line.format(1, 0, "1b0"), INFO + line.format(2, 1, "1c0")).names
    shared = read(INFO + line.format(1, 0, "1b0"), INFO + line.format(2, 1, "1b0"))
    assert [*shared.names["shared_gpus"]] == ["w0 1b0"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (INFO + "Bootstrap", [("w0", "Bootstrap")]),
        ("no message", [("", "no message")]),
        ("NCCL version 2.19", [("", "NCCL version 2.19")]),
        (f"{INFO}one{OF_W1}two", [("w0", "onew1"), ("onew1", "two")]),
        (f"{INFO}one {OF_W1}two", [("w0", "one w1"), ("w1", "two")]),
        (f"noise {INFO}one", [("", "noise w0"), ("w0", "one")]),
        (f"noise {INFO}one {OF_W1}two", [("", "noise w0"), ("w0", "one w1"), ("w1", "two")]),
        ("NCCL NCCL", [("", "NCCL NCCL")]),
    ],
)
def test_glued_messages_come_apart(text: str, parts: list[tuple[str, str]]) -> None:
    """Where no space is between them, the end of one message is read as part of the next name."""
    assert [*messages(text)] == parts


@pytest.mark.parametrize(
    ("line", "hcas", "relaxed"),
    [
        (
            "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            [(0, "mlx5_0", "RoCE"), (1, "mlx5_1", "RoCE")],
            True,
        ),
        ("NET/IB : Using [3]mlx5_7:1/IB ; OOB ib9:1/IB", [(3, "mlx5_7", "IB")], False),
        ("NET/IBext : Using mlx5_0:1/IB", [(0, "mlx5_0", "IB")], False),
        (
            "NET/IB : Using [2]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}",
            [(2, "mlx5_0", "IB"), (2, "mlx5_1", "IB")],
            False,
        ),
        ("NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0 [RO]", [(0, "mlx5_0", "RoCE")], False),
    ],
)
def test_the_devices_of_a_host(
    line: str, hcas: list[tuple[int, str, str]], *, relaxed: bool
) -> None:
    listed = tuple(Hca(index=index, device=name, link_layer=link) for index, name, link in hcas)
    assert read(INFO + line).hosts == {
        "w0": HostNetwork(host="w0", hcas=listed, relaxed_ordering=relaxed)
    }


@pytest.mark.parametrize(
    "line", ["NET/Socket : Using [0]eth0:1/IB", "NET/IB : No device found", "NET/IB : Using none"]
)
def test_a_line_without_an_rdma_device_names_none(line: str) -> None:
    assert read(INFO + line).hosts == {}


def test_networks_are_counted_by_rank() -> None:
    lines = ("Using network IB  ", "Using network IB", "Using network Socket")
    assert read(*(INFO + line for line in lines)).networks == {"IB": 2, "Socket": 1}


def test_a_line_with_using_may_say_something_else() -> None:
    paths = read(f"{INFO}Using a topology. NCCL_TOPO_FILE set by environment to /opt/a.xml")
    assert [*paths.names["topology_files"]] == ["/opt/a.xml"]


def test_what_else_nccl_says() -> None:
    paths = read(
        "NCCL version 2.19.3+cuda12.2",
        "NCCL version 2.20.5",
        f"{INFO}NCCL version mismatch with remote peer w1 (local: 2.19.3+cuda12.2, remote 2.27.3)",
        f"{INFO}comm 0x1 rank 0 nranks 8 cudaDev 0 busId 1 commId 0x2 - Init COMPLETE",
        f"{INFO}comm 0x1 rank 1 nRanks 4 nNodes 2 localRanks 1 MNNVL 1",
        f"{INFO}comm 0x1 rank 2 nRanks 4 nNodes 1 localRanks 1 MNNVL 0",
        f"{INFO}comm 0x1 rank 0 nranks 8 - Destroy COMPLETE{INFO}comm 0x2 - Destroy COMPLETE",
        f"{INFO}NCCL_TOPO_FILE set by environment to /opt/h100.xml.",
        f"{INFO}Could not open XML topology file /opt/h100.xml",
        f"{INFO}NCCL_ALGO set by environment to Ring",
        f"{INFO}AllReduce: 8 Bytes -> Algo TREE proto 2",
        f"{INFO}AllReduce: 8 Bytes -> Algorithm NVLS_TREE",
        f"{INFO}NET/OFI Selected Provider is efa (found 4 nics)",
        f"{INFO}NET/OFI Selected provider is verbs",
        f"{INFO}Pattern 4, crossNic 0, nChannels 12, bw 20/20, type NVL/PIX, sameChannels 1",
        f"{INFO}Pattern 5, crossNic 0, nChannels 0, bw 0/0, type SYS/PIX, sameChannels 1",
    )
    assert [*paths.names["versions"]] == ["2.19.3+cuda12.2", "2.20.5", "2.27.3"]
    assert not paths.is_rccl
    assert paths.gpus == {("0x2", "w0 1"): "0"}
    assert (paths.nranks, paths.nodes) == (8, 2)
    assert (paths.counts["init"], paths.counts["destroy"], paths.counts["mnnvl"]) == (1, 2, 1)
    assert [*paths.names["topology_files"]] == ["/opt/h100.xml"]
    assert [*paths.names["topology_unread"]] == ["/opt/h100.xml"]
    assert [*paths.names["algorithms"]] == ["RING", "TREE", "NVLS_TREE"]
    assert [*paths.names["providers"]] == ["efa", "verbs"]
    assert [*paths.names["gpu_links"]] == ["NVL"]
    assert paths.counts["nccl"] == 16
    assert paths.host_of == {0: "w0", 1: "w0", 2: "w0"}


NAMES: Final = (
    *("size", "count", "type", "redop", "root"),
    *("time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong"),
)
HALF: Final = ("100.0", "10.49", "15.73", "0")


def cells(
    head: str = "1048576 262144 float sum -1",
    out: tuple[str, ...] = HALF,
    inside: tuple[str, ...] = HALF,
) -> list[str]:
    return [*head.split(), *out, *inside]


def test_a_row_by_its_columns() -> None:
    half = Measure(time_us=100.0, algbw_gb_s=10.49, busbw_gb_s=15.73, wrong=0)
    found = parse_row(NAMES, cells())
    assert found == NcclRow(size_bytes=1048576, parts=1, out_of_place=half, in_place=half)
    alone = parse_row(NAMES[:9], cells(inside=()))
    assert alone == NcclRow(size_bytes=1048576, out_of_place=half)
    gathered = parse_row(NAMES, cells("1048576 32768 float sum -1"))
    assert gathered is not None
    assert gathered.parts == 8


@pytest.mark.parametrize(
    ("head", "fitting"),
    [
        ("1048576 262144 float sum -1", True),
        ("1048576 262144 double sum -1", False),
        ("1048576 131072 double sum -1", True),
        ("1048576 1048576 int8 sum -1", True),
        ("1048576 524288 half sum -1", True),
        ("1048576 262143 float sum -1", False),
        ("1048576 0 float sum -1", False),
        ("0 262144 float sum -1", False),
    ],
)
def test_a_size_is_a_multiple_of_its_count(head: str, *, fitting: bool) -> None:
    assert (parse_row(NAMES, cells(head)) is not None) is fitting


def test_a_row_of_nothing() -> None:
    nothing = ("4.12", "0.00", "0.00", "0")
    found = parse_row(NAMES, cells("0 0 float sum -1", nothing, nothing))
    assert found is not None
    assert (found.size_bytes, found.parts) == (0, 1)


@pytest.mark.parametrize(
    ("half", "wrong"),
    [
        (("100.0", "10.49", "15.73", "0"), 0),
        (("100.0", "10.49", "15.73", "7"), 7),
        (("100.0", "10.49", "15.73", "1.5e+03"), 1500),
        (("100.0", "10.49", "15.73", "N/A"), None),
    ],
)
def test_wrong_values_of_a_half(half: tuple[str, ...], wrong: int | None) -> None:
    found = parse_row(NAMES, cells(inside=half))
    assert found is not None
    assert found.in_place is not None
    assert found.in_place.wrong == wrong


@pytest.mark.parametrize(
    "half",
    [
        ("nan", "10.49", "15.73", "0"),
        ("100.0", "inf", "15.73", "0"),
        ("100.0", "10.49", "N/A", "0"),
        ("-1", "10.49", "15.73", "0"),
        ("100.0", "10.49", "-15.73", "0"),
        ("100.0", "10.49", "15.73", "-1"),
        ("100.0", "10.49", "15.73", "nan"),
        ("100.0", "10.54", "15.73", "0"),
        ("100.0", "10.44", "15.73", "0"),
        ("0", "10.49", "15.73", "0"),
    ],
)
def test_a_half_that_cannot_be_spoils_its_row(half: tuple[str, ...]) -> None:
    assert parse_row(NAMES, cells(out=half)) is None
    assert parse_row(NAMES, cells(inside=half)) is None


def test_the_processors_time_says_nothing_of_the_size() -> None:
    names = [name.replace("time", "cputime") for name in NAMES]
    odd = ("3.0", "10.49", "15.73", "0")
    found = parse_row(names, cells(out=odd, inside=odd))
    assert found is not None
    assert found.out_of_place.time_us == 3.0
    assert parse_row(NAMES, cells(out=odd, inside=odd)) is None


def test_half_of_a_digit_is_not_known() -> None:
    """1,048,576 B in 100 us are 10.486 GB/s; `10` may be 9.5 to 10.5, and `100` 99.5 to 100.5."""
    for algbw, holds in (("10", True), ("12", False), ("1.0e1", True), ("1.2e1", False)):
        half = ("100.0", algbw, "15.73", "0")
        assert (parse_row(NAMES, cells(out=half)) is not None) is holds
    for time, holds in (("100", True), ("101", True), ("102", False), ("1.0e2", True)):
        half = (time, "10.43", "15.64", "0")
        assert (parse_row(NAMES, cells(out=half)) is not None) is holds


@pytest.mark.parametrize(
    ("size", "time", "algbw", "unsure", "holds"),
    [
        (1e6, (100.0, 100.0), 10.0, 0.0, True),
        (1e6, (100.0, 100.0), 10.025, 0.0, True),
        (1e6, (100.0, 100.0), 10.026, 0.0, False),
        (1e6, (100.0, 100.0), 9.975, 0.0, True),
        (1e6, (100.0, 100.0), 9.974, 0.0, False),
        (1e6, (100.0, 100.0), 10.5, 0.5, True),
        (1e6, (100.0, 100.0), 10.6, 0.5, False),
        (1e6, (90.0, 110.0), 11.1, 0.0, True),
        (1e6, (90.0, 110.0), 9.1, 0.0, True),
        (1e6, (90.0, 110.0), 11.2, 0.0, False),
        (1e6, (90.0, 110.0), 9.0, 0.0, False),
        (1e6, (0.0, 0.0), 10.0, 0.0, False),
        (0, (0.0, 0.0), 0.0, 0.0, True),
        (1e6, (-0.5, 0.5), 1e9, 0.0, True),
    ],
)
def test_bandwidth_is_size_over_time(
    size: float, time: tuple[float, float], algbw: float, unsure: float, *, holds: bool
) -> None:
    assert fits(size, time, algbw, unsure) is holds


@pytest.mark.parametrize(
    ("bandwidth", "half"),
    [(0, 0.0051), (999.99, 0.0051), (1000, 0.051), (9999.9, 0.051), (10_000, 0.51)],
)
def test_large_bandwidths_are_printed_with_fewer_digits(bandwidth: float, half: float) -> None:
    assert rounding(bandwidth) == half


@pytest.mark.parametrize(
    ("text", "may_be"),
    [("8 2 float", True), ("8 2 int8", True), ("8 2 uint8", True), ("8 2 fp8_e4m3", True),
     ("8 8 char", True), ("point 8", False), ("", False)],
)  # fmt: skip
def test_a_cheap_look_for_a_row(text: str, *, may_be: bool) -> None:
    assert has_type(text) is may_be


HEADER: Final = "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n"
ROW: Final = "1048576 262144 float sum -1 100.0 10.49 15.73 0\n"
FOOTER: Final = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 15.73\n"


def parsed(text: str) -> NcclLog:
    log = parse_nccl_log(text)
    assert isinstance(log, NcclLog)
    return log


@pytest.mark.parametrize(
    ("text", "rows", "bad"),
    [
        (HEADER + ROW + FOOTER, 1, ()),
        (HEADER + ROW + ROW + FOOTER, 2, ()),
        (HEADER + ROW.strip() + " " + ROW + FOOTER, 2, ()),
        (HEADER + "...\n" + ROW + FOOTER, 1, ("rows are left out: ...",)),
        (HEADER + "[snip]\n" + ROW + FOOTER, 1, ("rows are left out: [snip]",)),
        ("...\n" + HEADER + ROW + FOOTER, 1, ()),
        (HEADER + ROW + FOOTER + "...\n", 1, ()),
        (HEADER + "1048576 262144 float sum -1\n" + FOOTER, 0, ("1048576 262144 float sum -1",)),
        (
            HEADER + "1048576 262144 float sum -1\n" + ROW + FOOTER,
            1,
            ("1048576 262144 float sum -1",),
        ),
        (HEADER + "1048576 262144 float sum -1\n 100.0 10.49 15.73 0\n" + FOOTER, 1, ()),
        (HEADER + "noise " + ROW + FOOTER, 1, ()),
        (HEADER + ROW.replace("15.73 0", "15.73 0 7") + FOOTER, 0, 1),
        (HEADER + "1048576 262144 float -1 100.0 10.49 15.73 0\n" + FOOTER, 1, ()),
    ],
)
def test_rows_of_a_table(text: str, rows: int, bad: tuple[str, ...] | int) -> None:
    log = parsed(text)
    if isinstance(bad, int):
        assert len(log.bad_rows) == bad
    else:
        assert log.bad_rows == bad
    assert [row.out_of_place.busbw_gb_s for row in log.rows] == [15.73] * rows
