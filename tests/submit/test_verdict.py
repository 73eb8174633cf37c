"""Logs of followed jobs: judged as `railyard judge` does, with what the plan expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.submit.follow import OVER_TCP, Ended, Told, judge_end
from components.submit.make import Asked
from tests.submit.jobs import asked_for, job_of

LOGS = Path(__file__).parents[1] / "acceptance" / "recorded"
SOCKET = (LOGS / "nccl/all_reduce_socket.txt").read_text()
WAY = """gpu01:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_1:1/RoCE [1]mlx5_2:1/RoCE
gpu01:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
gpu02:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [receive] via NET/IB/0/GDRDMA
"""
TCP_WAY = """gpu01:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.42.1.5<0>
gpu01:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0
"""


def horovod(images: float, ranks: int = 16) -> str:
    """As Horovod's synthetic benchmark prints it; the first numbers are those of NVIDIA's guide."""
    return f"""Running warmup...
Running benchmark...
Iter #0: 199.4 img/sec per GPU
Img/sec per GPU: 234.8 +-42.0
Total img/sec on {ranks} GPU(s): {images} +-672.7
"""


def told(asked: Asked, log: str, reason: str = "") -> Told:
    job = job_of(asked)
    return judge_end(asked, job.limits, job.watched[0].probe, Ended(log, reason))


def test_horovods_resnet_passes_on_the_sites_transport() -> None:
    found = told(asked_for("horovod"), WAY + horovod(3756.0))
    assert (found.verdict, found.exit_code) == ("passed", 0), found.lines
    assert found.lines[0] == "passed: horovod, 3756.00 images/s, median of 1"


@pytest.mark.parametrize(
    ("log", "verdict", "code", "words"),
    [
        (TCP_WAY + horovod(3756.0), "failed", 1, "FAILED  transport"),
        (horovod(3756.0), "error", 4, "the log lacks NCCL's lines"),
        (WAY + horovod(3756.0, 8), "failed", 1, "8 ranks took part"),
        (WAY + "Running warmup...\n", "error", 4, "cannot be judged"),
        ("", "error", 4, "the log is empty"),
    ],
)
def test_horovods_log_of_another_run_does_not_pass(
    log: str, verdict: str, code: int, words: str
) -> None:
    found = told(asked_for("horovod"), log)
    assert (found.verdict, found.exit_code) == (verdict, code), found.lines
    assert words in "\n".join(found.lines)


def test_the_two_launches_are_compared_and_each_is_judged() -> None:
    asked = asked_for("horovod", compare=True)
    log = f"{WAY}{horovod(3756.0)}{OVER_TCP}\n{TCP_WAY}{horovod(3478.0)}"
    found = told(asked, log)
    assert found.verdict == "passed", found.lines
    ratio = "3756.00 images/s over RDMA, 3478.00 images/s over TCP: 1.08 times as much"
    assert f"passed: {ratio}" in found.lines


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        (f"{WAY}{horovod(3000.0)}{OVER_TCP}\n{TCP_WAY}{horovod(3478.0)}", "failed"),
        (f"{WAY}{horovod(3756.0)}{OVER_TCP}\n{WAY}{horovod(3478.0)}", "failed"),
        (f"{WAY}{horovod(3756.0)}", "error"),
        (f"{WAY}{horovod(3756.0)}{OVER_TCP}\n", "error"),
    ],
    ids=["slower over RDMA", "RDMA twice", "one launch", "a launch without a log"],
)
def test_a_comparison_that_proves_nothing_does_not_pass(log: str, verdict: str) -> None:
    assert told(asked_for("horovod", compare=True), log).verdict == verdict


def test_nccl_over_sockets_fails_a_roce_site() -> None:
    found = told(asked_for("nccl"), SOCKET)
    assert found.exit_code == 1
    assert any("transport" in line and "FAILED" in line for line in found.lines)


def test_a_job_that_failed_never_passes_whatever_its_log_says() -> None:
    found = told(asked_for("horovod"), WAY + horovod(3756.0), "BackoffLimitExceeded it failed")
    assert found.exit_code == 1
    assert found.lines[-1] == "failed: the job did not end well: BackoffLimitExceeded it failed"


def test_what_nothing_judges_ends_as_its_job_does() -> None:
    assert told(asked_for("pytorch"), "loss 0.1\n").lines == (
        "passed: the job ended well; nothing judges its log",
    )
    assert told(asked_for("pytorch"), "loss 0.1\n", "it failed").exit_code == 1


def test_each_rail_has_its_own_log_and_floor() -> None:
    asked = asked_for("perftest")
    job = job_of(asked)
    log = (LOGS / "perftest/aks_write_bw.txt").read_text()
    assert [each.probe.name for each in job.watched if each.probe] == ["rail-0", "rail-1"]
    found = judge_end(asked, job.limits, job.watched[1].probe, Ended(log, ""))
    assert found.exit_code != 0, "its link is InfiniBand, and the site has RoCE"
