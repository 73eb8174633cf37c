"""`railyard job horovod` on the lab's devices: its log, and what its judge says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from components.core.errors import UsageError
from components.submit.follow import OVER_TCP, Ended, Told, judge_end
from components.submit.make import Asked
from lab.physics.request import ProbePod, ProbeRequest, ProbeResult
from tests.lab_physics.examples import Played, example
from tests.submit.jobs import asked_for, job_of

SITE = "dgx-roce"


def request_of(played: Played, asked: Asked, *disabled: str) -> ProbeRequest:
    """The job's own launch, as the launcher's script makes it."""
    body = cast("Any", job_of(asked, SITE).objects[0])
    template = body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    words = list(template["containers"][0]["command"])
    words = [word.replace("NCCL_IB_DISABLE=0", *disabled) if disabled else word for word in words]
    launcher = ProbePod("launcher", "", tuple(words[words.index("mpirun") :]))
    workers = tuple(played.pod(host, ("sshd",)) for host in played.spec.workers)
    return ProbeRequest("nccl", workers, launcher)


def judged(asked: Asked, result: ProbeResult, more: str = "") -> Told:
    job = job_of(asked, SITE)
    reason = "BackoffLimitExceeded it failed" if result.exit_code else ""
    return judge_end(asked, job.limits, job.watched[0].probe, Ended(result.log + more, reason))


def test_a_healthy_site_trains_as_the_guide_did() -> None:
    played, asked = Played(example(SITE)), asked_for("horovod")
    result = played.run(request_of(played, asked))
    told = judged(asked, result)
    assert told.verdict == "passed", told.lines
    assert told.lines[0].startswith("passed: horovod, 3756.0")
    assert "[1,0]<stdout>:Number of GPUs: 16" in result.log
    assert sum(each.rx_bytes.get(3, 0) > 0 for each in result.nic_deltas) == 4


def test_all_ranks_over_tcp_are_slower_and_fail_for_their_transport() -> None:
    played, asked = Played(example(SITE)), asked_for("horovod")
    result = played.run(request_of(played, asked, "NCCL_IB_DISABLE=1"))
    assert result.exit_code == 0
    told = judged(asked, result)
    assert (told.verdict, told.exit_code) == ("failed", 1)
    assert any("FAILED  transport" in line for line in told.lines), told.lines


def test_roce_against_tcp_says_how_much_more() -> None:
    played, asked = Played(example(SITE)), asked_for("horovod", compare=True)
    first = played.run(request_of(played, asked))
    second = played.run(request_of(played, asked, "NCCL_IB_DISABLE=1"))
    told = judged(asked, first, f"{OVER_TCP}\n{second.log}")
    assert told.verdict == "passed", told.lines
    assert any("images/s over RDMA, " in line and "times as much" in line for line in told.lines)


def test_a_rank_over_tcp_beside_others_over_rdma_ends_the_job() -> None:
    """One host's cards are down: NCCL goes over sockets there, and the two do not meet."""
    played, asked = Played(example(SITE)), asked_for("horovod")
    for key, nic in played.nics.items():
        if nic.host == "gpu02":
            played.nics[key] = replace(nic, link_up=False)
    told = judged(asked, played.run(request_of(played, asked)))
    assert (told.verdict, told.exit_code) == ("failed", 1)
    assert any("mixed_transports" in line for line in told.lines), told.lines


@pytest.mark.parametrize(
    "program",
    [("--model", "VGG16"), ("--no-cuda",), ("--model=ResNet50", "--epochs", "3")],
)
def test_what_the_lab_does_not_play_is_refused(program: tuple[str, ...]) -> None:
    script = "/horovod/examples/tensorflow2/tensorflow2_synthetic_benchmark.py"
    played = Played(example(SITE))
    asked = asked_for("horovod", program=("python", script, *program))
    with pytest.raises(UsageError, match="the lab plays"):
        played.run(request_of(played, asked))
