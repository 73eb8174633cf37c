"""The ways in which a log deceives: each class with variants, made of recorded logs by hand."""

from __future__ import annotations

import json
import re

import pytest

from components.acceptance.judge.log import judge_nccl_text
from components.acceptance.judge.nccl_findings import Expectation, judge_way
from components.acceptance.logs.log_model import NcclLog, RankLine
from components.acceptance.logs.nccl import parse_nccl_log
from tests.acceptance.recordings import load_nccl

NVLINK = load_nccl("all_reduce_nvlink")
SOCKET = load_nccl("all_reduce_socket")
LISTED = "NET/Socket : Using [0]eth0:192.0.2.2<0>"
ROW = re.compile(r"\s+\d+\s+\d+\s+float\s")


def over(devices: str, network: str = "IB", channel: str = "NET/IB/0/GDRDMA") -> str:
    """The recorded run over sockets, as if over another network.

    Args:
        devices: What NCCL prints in place of its list of interfaces.
        network: Its name.
        channel: What each network channel goes over.
    """
    text = SOCKET.replace("NET/Socket/0", channel).replace(LISTED, devices)
    assert text != SOCKET
    return text.replace("Using network Socket", f"Using network {network}")


ROCE = "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:192.0.2.2<0>"
MERGED = "NET/IB : Using [0]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE} [RO]; OOB eth0:192.0.2.2<0>"
GIB = {"network": "gIB", "channel": "NET/gIB/0/GDRDMA"}
EFA = {"network": "AWS Libfabric", "channel": "NET/AWS Libfabric/0/GDRDMA"}
PROVIDER = "NET/OFI Selected Provider is"


@pytest.mark.parametrize(
    ("text", "expect", "code"),
    [
        (over(ROCE), "roce", 0),
        (over(ROCE), "ib", 1),
        (over(ROCE.replace("RoCE", "IB/SHARP")), "ib", 0),
        (over(ROCE.replace("RoCE", "IB/SHARP")), "roce", 1),
        # No line says which of the two it is.
        (over("nothing is said"), "roce", 4),
        (over("nothing is said"), "ib", 4),
        # Merged ports (2.20 to 2.23) and planes (2.30).
        (over(MERGED), "roce", 0),
        (over(MERGED), "ib", 1),
        (over(ROCE.replace(":1/RoCE", ":1::2/RoCE")), "roce", 0),
        (over(ROCE.replace(":1/RoCE", ":1:0:3/RoCE")), "ib", 1),
        # A port for management beside the rails does not decide.
        (over(ROCE.replace(" [RO]", " [1]mlx5_4:1/IB [RO]")), "roce", 0),
        (over(ROCE.replace(" [RO]", " [1]mlx5_4:1/IB [RO]")), "ib", 1),
        # NCCL prints RoCE for every Ethernet link.
        (over(ROCE.replace("mlx5_0", "siw0")), "roce", 1),
        (over(ROCE.replace("mlx5_0", "iwp1s0f0")), "roce", 1),
        (over(ROCE.replace("mlx5_0", "rdmap0s31")), "roce", 1),
        (over(ROCE.replace("mlx5_0", "rocep23s0f0")), "roce", 0),
        (over(ROCE.replace("mlx5_0", "rxe0")), "roce", 0),
        # Vendors' plugins, by what they send over.
        (over(ROCE.replace("NET/IB", "NET/gIB"), **GIB), "roce", 0),
        (over("nothing is said", **GIB), "roce", 4),
        (over(f"{PROVIDER} efa, fabric is efa (found 4 nics)", **EFA), "ib", 1),
        (over(f"{PROVIDER} efa, fabric is efa (found 4 nics)", **EFA), "roce", 1),
        (over(f"{PROVIDER} tcp, fabric is tcp (found 1 nics)", **EFA), "socket", 0),
        (over(f"{PROVIDER} verbs;ofi_rxm (found 1 nics)", **EFA), "roce", 4),
        (over("nothing is said", "FasTrak", "NET/FasTrak/0"), "roce", 1),
        (over(ROCE, "Wire", "NET/Wire/0"), "roce", 4),
        (over(ROCE, "IBext_v8", "NET/IBext_v8/0/GDRDMA"), "roce", 0),
        # Before 2.7 channels were called rings, and ranks had no device.
        (re.sub(r"Channel (\d+)/0 : (\d)\[\d\] -> (\d)\[\d\]", r"Ring \1 : \2 -> \3", SOCKET),
         "ib", 1),
        (re.sub(r"Channel (\d+)/0", r"Channel \1", over(ROCE)), "roce", 0),
    ],
)  # fmt: skip
def test_the_transport_is_what_a_line_says(text: str, expect: Expectation, code: int) -> None:
    verdict = judge_nccl_text(text, expect)
    assert verdict.exit_code == code, verdict.lines


@pytest.mark.parametrize(
    ("expect", "network", "code"),
    [("ib", "IB", 4), ("roce", "IB", 4), ("roce", "Socket", 1), ("socket", "Socket", 4)],
)
def test_the_network_that_would_be_used_proves_none(
    expect: Expectation, network: str, code: int
) -> None:
    lines = over(ROCE, network).splitlines(keepends=True)
    text = "".join(line for line in lines if " via " not in line)
    assert judge_nccl_text(text, expect).exit_code == code


@pytest.mark.parametrize("expect", ["roce", "ib"])
def test_one_channel_over_sockets_of_a_glued_line_is_seen(expect: Expectation) -> None:
    glued = "vm:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] [send] via NET/Socket/0\n"
    text = over(ROCE)
    end = text.index("via NET/IB/0/GDRDMA\n") + len("via NET/IB/0/GDRDMA")
    assert judge_nccl_text(text[:end] + glued + text[end + 1 :], expect).exit_code == 1


SLOW_P2P = SOCKET.replace("NET/Socket/0", "P2P/CUMEM")
PATTERN = (
    "vm:1:1 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 1, bw 24/24, type {}, sameChannels 1"
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (NVLINK, 0),
        (SLOW_P2P, 4),
        (f"{SLOW_P2P}{PATTERN.format('NVL/PIX')}\n", 0),
        (f"{SLOW_P2P}{PATTERN.format('PIX/PIX')}\n", 1),
        (f"{NVLINK}{PATTERN.format('SYS/SYS')}\n", 1),
        (SLOW_P2P.replace("nNodes 2", "nNodes 1") + "vm:1:1 [0] NCCL INFO Channel 01/0 : 0[0] "
         "-> 1[1] via SHM/direct/direct\n", 1),
    ],
)  # fmt: skip
def test_nvlink_is_told_from_pcie_by_a_line_or_a_number(text: str, code: int) -> None:
    verdict = judge_nccl_text(text, "nvlink")
    assert verdict.exit_code == code, verdict.lines


def rows_of(text: str) -> list[int]:
    return [index for index, line in enumerate(text.splitlines()) if ROW.match(line)]


def without(text: str, *lost: int) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line for index, line in enumerate(lines) if index not in lost)


@pytest.mark.parametrize("place", [0, 1, 14, -2, -1])
@pytest.mark.parametrize("frame", ["whole", "no first lines", "no average"])
def test_a_lost_row_cannot_be_judged(place: int, frame: str) -> None:
    text = without(NVLINK, rows_of(NVLINK)[place])
    if frame == "no first lines":
        text = text[text.index("#       size") :]
    if frame == "no average":
        text = re.sub(r"# Avg bus bandwidth.*\n", "", text)
    assert judge_nccl_text(text, None, 1.0).exit_code == 4


@pytest.mark.parametrize("mark", ["...", "[...]", "…", "<snip>"])
def test_rows_that_a_document_leaves_out_are_missed(mark: str) -> None:
    rows = rows_of(NVLINK)
    lines = NVLINK.splitlines()
    lines[rows[2] : rows[-3]] = [mark]
    assert judge_nccl_text("\n".join(lines)).exit_code == 4


@pytest.mark.parametrize("before", ["vm:1:1 [0] NCCL INFO hello ", "worker says: ", "x"])
def test_a_row_behind_other_text_counts(before: str) -> None:
    lines = NVLINK.splitlines()
    slow = rows_of(NVLINK)[-1]
    shown = before + lines[slow]
    assert judge_nccl_text("\n".join(lines).replace(lines[slow], shown)).exit_code == 0
    lines[slow] = before + lines[slow].replace("12451.5  344.94  344.94", "1245150    3.45    3.45")
    text = re.sub(r"(# Avg bus bandwidth\s+: )\S+", r"\g<1>99.769", "\n".join(lines))
    assert judge_nccl_text(text, None, 300.0).exit_code == 1


def test_two_rows_in_one_line_are_two() -> None:
    rows = rows_of(NVLINK)
    lines = NVLINK.splitlines()
    lines[rows[-2]] += lines.pop(rows[-1])
    assert judge_nccl_text("\n".join(lines), None, 300.0).exit_code == 0


PARTS = re.compile(r"(\s+\d+\s+\d+\s+float\s+\S+\s+\S+)((?:\s+\S+){4})((?:\s+\S+){4})$")


def torn(text: str, tag: str) -> str:
    """Every row in three parts, each behind its rank's tag, with another rank's line between."""
    lines: list[str] = []
    for line in text.splitlines():
        match = PARTS.match(line)
        for part in match.groups() if match else (line,):
            lines += [tag.format(rank=0) + part, f"{tag.format(rank=1)}vm:1:1 [1] NCCL INFO hello"]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "tag",
    [
        "[1,{rank}]<stdout>:",
        "[1,{rank}]<stdout>: ",
        "[prterun-a-77@1,{rank}]<stdout>: ",
        "",
        "Nov 21 10:00:00 gpu01 nccl[7]: ",
        "2026-11-21T10:00:00+0000 gpu01 nccl[7]: [1,{rank}]<stdout>:",
        "nccl-1  | ",
        "gpu01: ",
        "[pod/nccl-launcher-x/launcher] 2026-11-21T10:00:00.1Z ",
        "2026-11-21T10:00:00.1Z stdout F ",
        "{rank}: ",
        "[{rank}] ",
        "nccl-launcher-x launcher ",
        "> ",
        "(Worker pid={rank}7, ip=192.0.2.2) ",
    ],
)  # fmt: skip
def test_rows_that_a_launcher_cuts_in_three_are_whole(tag: str) -> None:
    verdict = judge_nccl_text(torn(NVLINK, tag), "nvlink", 300.0)
    assert verdict.exit_code == 0, verdict.lines


def test_a_part_of_another_rank_does_not_end_a_row() -> None:
    text = torn(NVLINK, "[1,{rank}]<stdout>:")
    wrong = re.sub(r"\[1,0\](<stdout>:  12451\.5)", r"[1,1]\1", text)
    assert wrong != text
    assert judge_nccl_text(wrong).exit_code == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("327.55  327.55", "327.55 3275.5"),
        ("327.55  327.55", "427.55  427.55"),
        ("327.55  327.55", "327.55  337.55"),
        ("12451.5  344.94  344.94", "1245.15 3449.40 3449.40"),
        ("# Avg bus bandwidth    : 105.46", "# Avg bus bandwidth    : 150.46"),
        (" 1073741824     268435456", " 1073741824     268435455"),
        ("#  Rank  1 Group  0", "#  Rank  2 Group  0"),
    ],
)
def test_numbers_that_contradict_each_other_cannot_be_judged(old: str, new: str) -> None:
    assert old in NVLINK
    assert judge_nccl_text(NVLINK.replace(old, new), None, 1.0).exit_code == 4


@pytest.mark.parametrize("name", ["all_reduce_nvlink", "h200x4_alltoall_4gpu", "aks_a100_ib"])
def test_other_ranks_mean_another_bus_bandwidth(name: str) -> None:
    """The factor of 3 ranks is in none of these logs."""
    more = "#  Rank  {0} Group  0 Pid 7 on vm device {0} [0000:00:06] NVIDIA H200\n"
    text = re.sub(r"#  Rank .*\n", "", load_nccl(name))
    head = text.index("#       size")
    text = text[:head] + "".join(more.format(rank) for rank in range(3)) + text[head:]
    text = re.sub(r"n[rR]anks \d", "nranks 3", text)
    assert judge_nccl_text(text).exit_code == 4


def hypercube(ranks: int, share: float) -> str:
    """A table of hypercube_perf, whose bandwidth is that of a share of the size."""
    devices = "".join(
        f"#   Rank {n:2d} Pid 7 on host-a device {n} [0x06] H100\n" for n in range(ranks)
    )
    numbers = [(1 << power, (1 << power) * share / 5e6) for power in (29, 30)]
    half = "  5000.0  {0:.2f}  {0:.2f}  0"
    rows = "".join(
        f"{size} {size // 4 // ranks} float none -1{2 * half.format(busbw)}\n"
        for size, busbw in numbers
    )
    return (
        f"hypercube_perf -b 512M -e 1G\n{devices}"
        "#       size         count    type   redop    root     time   algbw   busbw  #wrong"
        f"     time   algbw   busbw  #wrong\n{rows}# Out of bounds values : 0 OK\n"
        f"# Avg bus bandwidth    : {sum(busbw for _, busbw in numbers) / 2:g}\n"
    )


@pytest.mark.parametrize(("share", "code"), [(0.75, 0), (1.0, 4), (0.5, 4)])
def test_hypercube_leaves_out_the_ranks_own_part(share: float, code: int) -> None:
    assert judge_nccl_text(hypercube(4, share)).exit_code == code


def test_each_run_of_a_file_is_judged() -> None:
    rows = rows_of(NVLINK)
    cut = "".join(NVLINK.splitlines(keepends=True)[: rows[-3]])
    assert judge_nccl_text(NVLINK + NVLINK, "nvlink", 300.0).exit_code == 0
    assert judge_nccl_text(NVLINK + cut).exit_code == 4
    assert judge_nccl_text(cut + NVLINK).exit_code == 4
    assert judge_nccl_text(over(ROCE) + SOCKET, "roce").exit_code == 1
    assert judge_nccl_text(NVLINK + SOCKET, None, 300.0).exit_code == 1
    assert "run 2 of 2" in "\n".join(judge_nccl_text(NVLINK + SOCKET, None, 300.0).lines)


def test_the_end_of_a_run_that_hangs_is_not_an_excerpt() -> None:
    rows = rows_of(NVLINK)
    lines = NVLINK.splitlines()
    header = next(line for line in lines if line.startswith("#       size"))
    assert judge_nccl_text("\n".join([header, *lines[rows[-2] : rows[-1] + 1]])).exit_code == 4


def test_lines_of_one_host_alone_do_not_fail_a_whole_table() -> None:
    quiet = re.sub(r".*\[1\] NCCL INFO.*\n", "", NVLINK)
    assert quiet != NVLINK
    assert judge_nccl_text(quiet).exit_code == 0


def test_a_host_without_a_channel_line_is_not_proven() -> None:
    log = parse_nccl_log(over(ROCE))
    assert isinstance(log, NcclLog)
    hosts = ("vm", "vm", "quiet")
    ranks = tuple(RankLine(rank=rank, host=host) for rank, host in enumerate(hosts))
    assert judge_way(log, "roce")[0] == "passed"
    assert judge_way(log.model_copy(update={"ranks": ranks}), "roce") == (
        "error",
        "no line shows a network channel of quiet",
    )


WRITER = "vm:1:1 [0] "


@pytest.mark.parametrize(
    "line",
    [
        f"{WRITER}misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
        f"{WRITER}NCCL WARN NET/OFI Could not find ncclGetVersion symbol",
        f"{WRITER}graph/search.cc:1 NCCL WARN Could not find a path for pattern 4, simple order",
        f"{WRITER}init.cc:7 NCCL WARN NUMA auto balancing enabled which can lead to variability",
        "command terminated with exit code 0",
        "nccl-1 exited with code 0",
        "rc=0",
    ],
)
def test_harmless_lines_change_nothing(line: str) -> None:
    assert judge_nccl_text(f"{NVLINK}{line}\n").lines == judge_nccl_text(NVLINK).lines


def test_an_unknown_warning_is_listed_and_fails_only_a_run_that_did_not_end() -> None:
    line = f"{WRITER}transport.cc:1 NCCL WARN the moon is full\n"
    whole = judge_nccl_text(NVLINK + line)
    assert whole.exit_code == 0
    assert "1 unknown warning: vm:1:1 [0] transport.cc:1 NCCL WARN the moon" in "\n".join(
        whole.lines
    )
    cut = judge_nccl_text(NVLINK[: NVLINK.index("# Out of bounds")] + line)
    assert (cut.exit_code, "the moon is full" in "\n".join(cut.lines)) == (1, True)


def test_docker_writes_json_lines() -> None:
    entries = [json.dumps({"log": f"{line}\n", "stream": "stdout"}, separators=(",", ":"))
               for line in NVLINK.splitlines()]  # fmt: skip
    assert judge_nccl_text("\n".join(entries), "nvlink", 300.0).exit_code == 0
