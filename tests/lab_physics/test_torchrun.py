"""`railyard job pytorch` on the lab's devices: the log of each node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from components.core.errors import UsageError
from lab.physics.request import ProbePod, ProbeRequest, ProbeResult
from tests.lab_physics.examples import Played, example
from tests.submit.jobs import asked_for, job_of

SITE = "dgx-roce"
PROGRAM = ("/workspace/multinode.py", "2", "1")


def play(played: Played, node: int, program: tuple[str, ...] = PROGRAM, **env: str) -> ProbeResult:
    """What one node of the printed Job does."""
    body = cast("Any", job_of(asked_for("pytorch", program=program), SITE).objects[1])
    (container,) = body["spec"]["template"]["spec"]["containers"]
    command = tuple(container["command"])
    values = {each["name"]: each["value"] for each in container["env"] if "value" in each} | env
    nodes = [replace(played.pod(host, command), env=values) for host in played.spec.workers]
    launcher = ProbePod(nodes[node].name, nodes[node].node, command, values)
    return played.run(ProbeRequest("nccl", tuple(nodes), launcher))


def test_each_node_has_the_lines_of_its_own_ranks() -> None:
    played = Played(example(SITE))
    first, second = play(played, 0), play(played, 1)
    assert (first.exit_code, second.exit_code) == (0, 0)
    said = [line for line in first.log.splitlines() if "Epoch" in line]
    assert said[:2] == [
        "[GPU0] Epoch 0 | Batchsize: 32 | Steps: 4",
        "[GPU0] Epoch 1 | Batchsize: 32 | Steps: 4",
    ]
    assert len(said) == 16
    assert "[GPU8] Epoch 0" in second.log
    assert "[GPU8]" not in first.log
    assert "NET/IB/0/GDRDMA" in first.log


def test_the_nodes_move_counters_once_and_in_the_planned_class() -> None:
    played = Played(example(SITE))
    first, second = play(played, 0), play(played, 1)
    assert {key for each in first.nic_deltas for key in each.tx_bytes} == {3}
    assert second.nic_deltas == ()


def test_a_node_over_tcp_beside_others_over_rdma_ends_both() -> None:
    played = Played(example(SITE))
    for key, nic in played.nics.items():
        played.nics[key] = replace(nic, link_up=nic.host != "gpu02")
    first = play(played, 0)
    assert first.exit_code == 1
    assert "socketFinalizeAccept: wrong type 3 != 4" in first.log
    assert "torch.distributed.DistBackendError: NCCL error" in first.log
    assert play(played, 1).exit_code == 1


def test_over_tcp_alone_it_runs_and_moves_nothing_on_the_rails() -> None:
    result = play(Played(example(SITE)), 0, NCCL_IB_DISABLE="1")
    assert (result.exit_code, result.nic_deltas) == (0, ())
    assert "via NET/Socket/" in result.log


@pytest.mark.parametrize(
    "program",
    [
        ("/workspace/train.py", "2", "1"),
        ("/workspace/multinode.py",),
        ("/workspace/multinode.py", "2", "1", "--lr", "3"),
    ],
)
def test_another_program_is_not_played(program: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"the lab plays|runs no tool"):
        play(Played(example(SITE)), 0, program)
