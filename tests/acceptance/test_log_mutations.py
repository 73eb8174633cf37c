"""Laws of reading: no text ends in a traceback, and no change of a number passes for another."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.acceptance.digest import digest_log
from components.acceptance.evidence import Probe, ProbeEvidence
from components.acceptance.judge.log import judge_nccl_text, judge_perftest_text
from components.acceptance.logs.lines import LONGEST_LINE, read_chunks, read_lines
from components.acceptance.logs.log_model import LONGEST_SEEN, NcclLog, PerftestLog
from components.acceptance.logs.nccl import parse_nccl_log
from components.acceptance.logs.perftest import parse_perftest_log
from tests.acceptance.recordings import load_nccl, load_perftest

NCCL = {name: load_nccl(name) for name in ("all_reduce_nvlink", "deepops_dgx1_roce", "aks_a100_ib")}
PERFTEST = load_perftest("aks_write_bw")
CODES = (0, 1, 4)


def lowest(text: str) -> float | None:
    """The least bus bandwidth of large rows if the log passes."""
    log = parse_nccl_log(text)
    if judge_nccl_text(text).exit_code != 0 or not isinstance(log, NcclLog):
        return None
    return min(row.worst_busbw_gb_s for row in log.rows if (row.size_bytes or 0) >= 1 << 30)


@st.composite
def changed_numbers(draw: st.DrawFn, text: str) -> str:
    """The log with one digit of its table changed, or taken out, or one put in."""
    table = max(text.find("size"), text.find("#bytes"))
    places = [match.start() for match in re.finditer(r"\d", text) if match.start() > table]
    place = draw(st.sampled_from(places))
    digits = draw(st.sampled_from(["", *"0123456789", "00", "7."]))
    return text[:place] + digits + text[place + draw(st.integers(0, 1)) :]


@pytest.mark.parametrize("name", NCCL)
@given(st.data())
@settings(max_examples=30, deadline=None)
def test_a_changed_digit_gives_the_same_number_or_no_pass(name: str, data: st.DataObject) -> None:
    """A change of up to 0.2 %, as real tables have, or of the last printed digit may pass."""
    was = lowest(NCCL[name])
    assert was is not None
    now = lowest(data.draw(changed_numbers(NCCL[name])))
    assert now is None or abs(now - was) <= max(0.02, 0.002 * was)


@st.composite
def torn_texts(draw: st.DrawFn, text: str) -> str:
    """The log with whole lines lost, twice there, or in another order."""
    lines = text.splitlines(keepends=True)
    rows = [index for index, line in enumerate(lines) if re.match(r"\s*\d+\s+\d+\s+float", line)]
    one, other = draw(st.sampled_from(rows)), draw(st.sampled_from(rows))
    kind = draw(st.sampled_from(["lost", "twice", "swapped"]))
    if kind == "lost":
        del lines[one]
    elif kind == "twice":
        lines.insert(one, lines[other])
    elif one != other:
        lines[one], lines[other] = lines[other], lines[one]
    return "".join(lines)


@pytest.mark.parametrize("name", NCCL)
@given(st.data())
@settings(max_examples=20, deadline=None)
def test_torn_tables_never_pass(name: str, data: st.DataObject) -> None:
    torn = data.draw(torn_texts(NCCL[name]))
    assert torn == NCCL[name] or judge_nccl_text(torn).exit_code == 4


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_a_changed_digit_of_perftest_gives_the_same_number_or_no_pass(data: st.DataObject) -> None:
    text = data.draw(changed_numbers(PERFTEST))
    log = parse_perftest_log(text)
    if judge_perftest_text(text).exit_code == 0 and isinstance(log, PerftestLog):
        largest = max(log.rows, key=lambda row: row.size_bytes)
        assert largest.average_gbit_s == pytest.approx(196.55, abs=0.25)


@given(st.binary(max_size=3000))
@settings(max_examples=30, deadline=None)
def test_any_bytes_get_a_verdict(data: bytes) -> None:
    assert judge_nccl_text(read_chunks(io.BytesIO(data))).exit_code in CODES
    assert judge_perftest_text(read_chunks(io.BytesIO(data))).exit_code in CODES


LONG = "x" * 5000
NAMES = {
    "long": LONG,
    "half": "\ud800",
    "digits": "9" * 5000,
    "blanks": " " * 5000,
    "row": "1 2 float",
}


@pytest.mark.parametrize(
    "line",
    [
        "{0}:1:1 [0] NCCL INFO NET/IB : Using [0]{0}:1/RoCE [RO]; OOB eth0:1.1.1.1<0>",
        "vm:1:1 [0] NCCL INFO Using network {0}",
        "vm:1:1 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /{0}",
        "vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/{0}/0",
        "#  Rank  0 Group  0 Pid 7 on {0} device  0 [0x06] H100",
        "  1073741824  268435456 float sum -1 {0}",
        "vm:1:1 [0] x.cc:1 NCCL WARN {0}",
        "# Avg bus bandwidth : {0}",
        " Device         : {0}",
        " 65536 5000 {0} 92.40 0.176230",
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_no_text_of_a_log_is_too_long_for_evidence(line: str, name: str) -> None:
    line = line.format(NAMES[name])
    text = f"{line}\n{NCCL['all_reduce_nvlink']}"
    assert judge_nccl_text(text).exit_code in CODES
    assert judge_perftest_text(line + PERFTEST).exit_code in CODES
    for kind in ("nccl", "perftest"):
        probe = Probe(name="p", kind=kind, rails=(), nodes=())
        taken = digest_log(probe, text, outcome="completed")
        assert ProbeEvidence.model_validate_json(taken.model_dump_json()) == taken


def test_what_was_seen_is_cut_and_not_refused() -> None:
    probe = Probe(name="p", kind="nccl", rails=(), nodes=())
    taken = ProbeEvidence(probe=probe, outcome="failed", detail="x" * 100_000)
    assert len(taken.detail) == LONGEST_SEEN


@pytest.mark.parametrize(
    "filler", ["x", " ", "a:1:1 [0] ", "[1,0]<stdout>:", "1 2 float ", "#", "9"]
)
def test_a_line_without_end_is_read_in_pieces(filler: str) -> None:
    text = f"{filler * (300_000 // len(filler))}\n{NCCL['all_reduce_nvlink']}"
    assert judge_nccl_text(text).exit_code in (0, 4)
    assert all(len(line.text) <= LONGEST_LINE for line in read_lines(text))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_every_encoding_of_a_redirection_is_read(encoding: str) -> None:
    file = io.BytesIO(NCCL["all_reduce_nvlink"].encode(encoding))
    assert judge_nccl_text(read_chunks(file), "nvlink", 300.0).exit_code == 0


@pytest.mark.parametrize("size", [1, 7, 100, 4096])
def test_pieces_of_any_size_are_one_text(size: int) -> None:
    text = NCCL["all_reduce_nvlink"].replace("\n", "\r\n")
    pieces = (text[start : start + size] for start in range(0, len(text), size))
    assert parse_nccl_log(pieces) == parse_nccl_log(NCCL["all_reduce_nvlink"])


def test_what_is_kept_does_not_grow_with_the_log() -> None:
    """Five thousand hosts, networks, warnings and rows that cannot be read."""
    line = (
        "host{0}:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE\n"
        "host{0}:1:1 [0] NCCL INFO Using network N{0}\n"
        "host{0}:1:1 [0] x.cc:1 NCCL WARN strange {0}\n"
        "host{0}:1:1 [0] NCCL INFO Channel 0/0 : {0}[0] -> 1[0] [send] via NET/P{0}/{1}\n"
        "  1024 256 float sum -1 broken {0}\n"
    )
    log = parse_nccl_log(line.format(number, number % 1000) for number in range(5_000))
    assert isinstance(log, NcclLog)
    assert (len(log.networks), len(log.channels.net), len(log.warnings)) == (64, 64, 20)
    assert (len(log.bad_rows), len(log.hosts)) == (20, 4096)
