"""Logs of DeepSpeed, tf_cnn_benchmarks, Horovod, and of commands that mpirun starts everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.acceptance.digest import (
    digest_log,
    parse_deepspeed_log,
    parse_mpi_log,
    parse_training_log,
)
from components.acceptance.evidence import Limits, Probe, ProbeEvidence, ProbeKind
from components.acceptance.judge.log import judge_deepspeed_text, judge_training_text
from components.acceptance.judge.workload_findings import (
    judge_mpi,
    judge_scan,
    judge_scan_completeness,
    judge_totals,
)
from components.acceptance.logs.log_model import DeepSpeedLog, MpiLog, ParseProblem, TrainingLog
from tests.acceptance.recordings import load_deepspeed, load_training

RECORDED_SCANS = {
    # name: rows, and the bus bandwidth of the largest size in Gb/s
    "h200x2_scan": (28, 2695.4),
    "h200x2_raw_gbytes": (26, 2512.2),
    "h200x2_no_p2p": (26, 219.7),
}
GUIDE = load_training("nvaie_resnet50")
# Eight A100 on two hosts, as DeepSpeed's benchmark prints it behind pdsh.
SCAN = """\
node0: ---- Performance of all_reduce on 8 devices ------------------------------------------------
node0: Size (Bytes)         Description               Duration             Throughput (Gbps)    BusBW (Gbps)
node0: -----------------------------------------------------------------------------------------
node0: 31.67 GB             8501054668x4              3176.620 ms          171.272              149.863
"""  # noqa: E501 - as it is printed
HOROVOD = """\
Running benchmark...
Iter #0: 199.4 img/sec per GPU
Img/sec per GPU: 234.8 +-42.0
Total img/sec on 16 GPU(s): 3756.0 +-672.7
"""
SMI = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.63.01    Driver Version: 470.63.01    CUDA Version: 11.4     |
|   0  NVIDIA A100-PCI...  On   | 00000000:13:00.0 Off |                    0 |
| N/A   30C    P0    35W / 250W |      0MiB / 40536MiB |      0%      Default |
"""


def scan(text: str) -> DeepSpeedLog:
    log = parse_deepspeed_log(text)
    assert isinstance(log, DeepSpeedLog)
    return log


def training(text: str) -> TrainingLog:
    log = parse_training_log(text)
    assert isinstance(log, TrainingLog)
    return log


def mpi(text: str) -> MpiLog:
    log = parse_mpi_log(text)
    assert isinstance(log, MpiLog)
    return log


def test_the_guides_own_output_passes_its_number() -> None:
    verdict = judge_training_text(GUIDE, ranks=4, min_images_s=8400)
    assert (verdict.verdict, verdict.exit_code) == ("passed", 0)
    assert "8400.71 images/s, median of 4" in verdict.summary
    assert "3 of 44 lines of single ranks" in verdict.summary


def test_every_rank_prints_the_sum_so_that_totals_are_not_added_up() -> None:
    assert judge_training_text(GUIDE, 4, min_images_s=8401).verdict == "failed"


def test_a_missing_rank_is_no_whole_log() -> None:
    cut = GUIDE.replace("63total images/sec: 8400.58", "")
    assert judge_training_text(cut, 4, 8400).exit_code == 4


def test_totals_that_differ_are_no_sums_of_all() -> None:
    odd = GUIDE.replace("8400.99", "2100.99")
    assert judge_totals(training(odd), 4).verdict == "failed"


def test_horovods_own_benchmark_counts_its_gpus() -> None:
    log = training(HOROVOD)
    assert (log.program, log.gpus, log.totals_images_s) == ("horovod", 16, (3756.0,))
    assert judge_totals(log, 16).verdict == "passed"
    assert judge_totals(log, 8).verdict == "failed"


def test_a_training_that_ends_early_names_its_cause() -> None:
    text = "Done warm up\nORTE was unable to reliably start one or more daemons.\n"
    verdict = judge_training_text(text)
    assert verdict.exit_code == 1
    assert "ORTE" in verdict.findings[0].actual


@pytest.mark.parametrize("parse", [parse_training_log, parse_deepspeed_log, parse_mpi_log])
def test_an_empty_log_is_a_problem(parse: Callable[[str], object]) -> None:
    assert parse("  \n") == ParseProblem(kind="empty", what="the log is empty")


@pytest.mark.parametrize("parse", [parse_training_log, parse_deepspeed_log])
def test_another_programs_log_is_not_recognised(parse: Callable[[str], object]) -> None:
    problem = parse("hello\nworld\n")
    assert isinstance(problem, ParseProblem)
    assert problem.kind == "unrecognised"


@pytest.mark.parametrize(("name", "said"), RECORDED_SCANS.items())
def test_a_recorded_scan_of_two_h200_passes_its_own_number(
    name: str, said: tuple[int, float]
) -> None:
    """PyTorch aborts its communicators at the end of a run that is good."""
    text, (rows, gbit_s) = load_deepspeed(name), said
    assert (len(scan(text).rows), scan(text).bad_rows) == (rows, ())
    assert judge_deepspeed_text(text, gbit_s - 0.2).exit_code == 0
    assert judge_deepspeed_text(text, gbit_s + 0.2).exit_code == 1


def test_a_scan_whose_rank_was_killed_fails() -> None:
    verdict = judge_deepspeed_text(load_deepspeed("h200x2_killed"))
    assert verdict.exit_code == 1
    assert "return code = -9" in load_deepspeed("h200x2_killed")


@pytest.mark.parametrize(
    ("name", "way"), [("h200x2_scan", "peer"), ("h200x2_no_p2p", "shared_memory")]
)
def test_nccl_says_the_way_of_a_scan_and_no_failure(name: str, way: str) -> None:
    probe = Probe(name="scan", kind="deepspeed_scan", rails=(), nodes=("gpu01",), ranks=2)
    nccl = digest_log(probe, load_deepspeed(name), outcome="completed").nccl
    assert nccl is not None
    assert nccl.failures == ()
    assert getattr(nccl.channels, way) > 0


def test_a_scan_is_read_behind_pdsh() -> None:
    log = scan(SCAN)
    assert (log.collective, log.devices, len(log.rows)) == ("all_reduce", 8, 1)
    assert log.rows[0].size_bytes == 8501054668 * 4
    assert judge_deepspeed_text(SCAN, 149).verdict == "passed"
    assert judge_deepspeed_text(SCAN, 150).verdict == "failed"


def test_bytes_instead_of_bits_are_converted() -> None:
    text = SCAN.replace("(Gbps)", "(GBps)").replace("149.863", "18.733")
    assert abs(scan(text).rows[0].busbw_gbit_s - 149.863) < 0.01


def test_a_row_that_contradicts_itself_is_not_believed() -> None:
    text = SCAN.replace("149.863", "349.863")
    assert scan(text).rows == ()
    assert judge_deepspeed_text(text).exit_code == 4


def test_a_scan_that_ran_out_of_memory_stops_without_an_error() -> None:
    log = scan(SCAN + "WARNING: Ran out of GPU memory. Exiting comm op.\n")
    assert judge_scan_completeness(log, 1).verdict == "failed"


def test_every_size_must_be_there() -> None:
    assert judge_scan_completeness(scan(SCAN), 27).verdict == "error"
    assert judge_scan_completeness(scan(SCAN), 1).verdict == "passed"


def ran(kind: ProbeKind, *nodes: str, ranks: int = 0) -> ProbeEvidence:
    probe = Probe(name="p", kind=kind, rails=(), nodes=nodes, ranks=ranks)
    return ProbeEvidence(probe=probe, outcome="completed")


def test_names_that_resolve_are_counted_once() -> None:
    line = "railyard: job-worker-0.job.default.svc resolves to 10.42.1.7 (slots=8)\n"
    log = scan(SCAN + line * 2)
    for nodes, verdict in ((("a",), "passed"), (("a", "b"), "failed")):
        found = judge_scan(ran("deepspeed_scan", *nodes), log, Limits())
        assert [each.verdict for each in found if each.check == "dns"] == [verdict]


def test_a_name_that_does_not_resolve_is_the_cause() -> None:
    text = "railyard: w-1.job.default.svc of /job/hostfile does not resolve: look at the DNS\n"
    verdict = judge_deepspeed_text(text)
    assert verdict.exit_code == 1
    assert verdict.findings[0].actual.startswith("dns:")


def test_an_argument_that_the_script_lacks_is_named() -> None:
    text = "all_reduce.py: error: unrecognized arguments: --checkpoint_dir /data\n"
    assert judge_deepspeed_text(text).findings[0].actual.startswith("usage:")


def test_each_host_answers_once() -> None:
    probe = ran("mpi_hosts", "vm01", "vm02")
    (whole,) = judge_mpi(probe, mpi("vm02\nvm01.example.com\n"))
    assert whole.verdict == "passed"
    (doubled,) = judge_mpi(probe, mpi("vm01\nvm01\n"))
    assert doubled.verdict == "failed"
    assert doubled.actual == "vm02 did not answer; vm01 answered more than once"
    (strange,) = judge_mpi(probe, mpi("vm01\nvm02\nvm09\n"))
    assert "vm09 is not in the plan" in strange.actual


def test_gpus_are_counted_in_both_forms_of_nvidia_smi() -> None:
    listed = "GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-1)\n"
    probe = ran("mpi_gpus", ranks=4)
    assert judge_mpi(probe, mpi(SMI * 4))[0].verdict == "passed"
    assert judge_mpi(probe, mpi(listed * 3))[0].verdict == "failed"


@given(st.text(max_size=400))
def test_no_text_makes_a_parser_fall_over(text: str) -> None:
    for parse in (parse_deepspeed_log, parse_training_log, parse_mpi_log):
        parse(f"{SCAN}{text}")
        parse(text)


@given(st.integers(0, len(GUIDE)))
def test_a_log_cut_anywhere_never_passes_without_its_totals(cut: int) -> None:
    text = GUIDE[:cut]
    # A number that is cut in its fraction is smaller, and still proves the floor.
    whole = text.count("total images/sec: 8400") == 4
    assert (judge_training_text(text, 4, 8400).verdict == "passed") <= whole


def pieces(text: str, count: int) -> Iterator[str]:
    """A text that is there only once, 7 characters at a time, and how often it repeats."""
    for _ in range(count):
        yield from (text[start : start + 7] for start in range(0, len(text), 7))


def test_a_log_in_pieces_reads_as_the_whole() -> None:
    assert parse_deepspeed_log(pieces(SCAN, 1)) == scan(SCAN)
    assert parse_training_log(pieces(GUIDE, 1)) == training(GUIDE)


def test_of_what_never_ends_so_much_is_kept() -> None:
    total = "total images/sec: 100.00\n1\timages/sec: 50.0 +/- 0.0 (jitter = 0.0)\t8.0\n"
    log = parse_training_log(total for _ in range(100_001))
    assert isinstance(log, TrainingLog)
    assert len(log.totals_images_s) == len(log.steps_images_s) == 100_000
    row = SCAN.splitlines(keepends=True)[3]
    found = parse_deepspeed_log(chain((SCAN,), (row for _ in range(20_000))))
    assert isinstance(found, DeepSpeedLog)
    assert len(found.rows) == 20_000
    assert found.bad_rows == ("more than 20000 rows",)
    torn = parse_deepspeed_log(chain((SCAN,), ("31 GB 8x4 torn\n" for _ in range(50))))
    assert isinstance(torn, DeepSpeedLog)
    assert len(torn.bad_rows) == 20


def test_of_two_runs_the_slower_one_counts() -> None:
    slow = SCAN.replace("3176.620", "6353.240").replace("149.863", "74.931")
    for text in (SCAN + slow, slow + SCAN):
        assert judge_deepspeed_text(text, 75).verdict == "failed"
        verdict = judge_deepspeed_text(text, 74)
        assert verdict.verdict == "passed"
        assert verdict.summary == "all_reduce on 8 devices, 74.93 Gb/s busbw at 31.6689 GiB"


def test_a_run_that_is_cut_is_not_saved_by_another() -> None:
    head = "".join(SCAN.splitlines(keepends=True)[:3])
    for text in (SCAN + head, SCAN + head + SCAN):
        verdict = judge_deepspeed_text(text, 100)
        assert verdict.exit_code == 4
        assert verdict.findings[0].detail == "the first: the table of all_reduce lacks rows"
    assert judge_deepspeed_text(head).findings[0].actual == "no result row"


def test_a_decimal_comma_is_no_total() -> None:
    verdict = judge_training_text(GUIDE.replace("8400.99", "8400,99"), 4)
    assert verdict.exit_code == 4
    assert verdict.findings[0].actual == "3 totals"
    assert judge_training_text(HOROVOD.replace("3756.0", "3756,0")).exit_code == 4
