"""The table of NCCL's words holds for every WARN text of its sources.

`recorded/nccl_words.tsv` has the texts of 60 tags, 2.4.2 to 2.30.7, of the files that connect and
carry data, with the first and the last tag, and the kinds of failure that a review of the source
gave each: `-` is a warning that no run must fail by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from components.acceptance.judge.log import judge_nccl_text
from components.acceptance.logs.lines import first_cause, nccl_finder
from tests.acceptance.recordings import load_nccl

LINES: Final = (Path(__file__).parent / "recorded/nccl_words.tsv").read_text().splitlines()[1:]
TEXTS: Final = [line.split("\t") for line in LINES]
_HEX = re.compile(r"%-?0?\d*l{0,2}z?[xX]|%p")
_NUMBER = re.compile(r"%-?0?\d*(?:l{0,2}|z|h)[diu]")
_WORD = re.compile(r"%[sm]")
WORDS: Final = ("x", "port error", "CQ error", "SM change", "timed out", "out of memory")
NUMBERS: Final = ("7", "12", "4", "5")


def samples(text: str) -> Iterator[str]:
    """Lines that the text prints, with the values by which rows of the table differ."""
    for word in WORDS:
        for number in NUMBERS:
            filled = _WORD.sub(word, _NUMBER.sub(number, _HEX.sub("1f", text)))
            shown = filled.replace("\\n", " ").replace('\\"', '"')
            yield f"h:1:2 [0] src/x.cc:1 NCCL WARN {shown}"


def kinds_of(line: str) -> set[str]:
    finder = nccl_finder()
    finder.feed(line)
    return {failure.kind for failure in finder.failures}


def test_a_text_of_the_sources_has_its_meaning() -> None:
    wrong: dict[str, set[str]] = {}
    for *_, kinds, text in TEXTS:
        found = set[str]().union(*(kinds_of(line) for line in samples(text)))
        if found != set(kinds.split(",")) - {"-"}:
            wrong[text] = found
    assert wrong == {}


IB: Final = "NET/IB : mlx5_3:1 "
DOWN: Final = (
    "NET/IB : Got async event : port error",  # 2.4
    f"{IB}Got async event : port error",  # 2.20
    f"{IB}Got async error event: port error",  # 2.23
    f"{IB}Got non-fatal async event: port error(10)",  # 2.28.7
    f"{IB}async fatal event: local catastrophic error",
    f"{IB}async fatal event on QP (0x7f) qpn=7 handle=1 state=6: invalid request local work queue",
    "NET/IB: Device 1 marked as failed. Initiating recovery? Yes (send comm=0x7f)",
)


@pytest.mark.parametrize(
    "said",
    [
        "Call to ibv_query_ece failed with error Operation not supported errno 95",
        "Call to ibv_modify_qp failed with 110 timed out, mlx5_3:1, retrying 1/5 after 20 msec",
        "NET/MLX5: Call to mlx5dv_internal_get_data_direct_sysfs_path failed with error No errno 2",
    ],
)
def test_a_call_that_may_fail_is_no_failure(said: str) -> None:
    text = load_nccl("all_reduce_nvlink")
    assert judge_nccl_text(f"w1:1:2 [0] NCCL INFO {said}\n{text}").exit_code == 0
    assert judge_nccl_text(f"w1:1:2 [0] x.cc:1 NCCL WARN {said}\n{text}").exit_code == 1


def test_a_failed_device_has_the_number_of_its_rail() -> None:
    using = "gpu01:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_3:1/IB [RO]; OOB eth0\n"
    line = f"gpu01:1:2 [0] x.cc:1 NCCL WARN {IB}Got async error event: port error\n"
    judged = judge_nccl_text(using + load_nccl("all_reduce_nvlink") + line)
    assert "rail 1 of NCCL's list, on gpu01, device mlx5_3:1" in "\n".join(judged.lines)


CALM: Final = ("SM change", "port active", "LID change", "client reregistration", "P_Key change")


@pytest.mark.parametrize("said", DOWN)
def test_a_port_that_goes_down_fails_a_whole_run(said: str) -> None:
    line = f"gpu01:1:2 [0] x.cc:1 NCCL WARN {said}\n"
    text = load_nccl("all_reduce_nvlink")
    judged = judge_nccl_text(line + text)
    assert judged.exit_code == 1
    assert "on gpu01" in judged.lines[2]
    assert ("device mlx5_3:1" in judged.lines[2]) is ("mlx5_3" in said)


@pytest.mark.parametrize("event", CALM)
@pytest.mark.parametrize(
    "words",
    ["Got async event : {}", "Got async error event: {}", "Got non-fatal async event: {}(9)"],
)
def test_an_event_that_disturbs_nothing_is_a_warning(words: str, event: str) -> None:
    line = f"gpu01:1:2 [0] x.cc:1 NCCL WARN {IB}{words.format(event)}\n"
    judged = judge_nccl_text(line + load_nccl("all_reduce_nvlink"))
    assert judged.exit_code == 0
    assert any(event in each for each in judged.lines)


P2P: Final = "gpu01:1:2 [0] p2p.cc:688 NCCL WARN NET/IB: Got completion from peer "


@pytest.mark.parametrize(
    ("line", "host", "device", "peer"),
    [
        (
            (
                f"{P2P}10.0.0.2<51000> with status=transport retry counter exceeded(12) opcode=W(1)"
                " localGid ::ffff:10.1.3.1 remoteGids::ffff:10.1.3.2 hca mlx5_3"
            ),
            *("gpu01", "mlx5_3", "10.0.0.2<51000>"),
        ),
        (
            "w1:1:2 [0] x.cc:1 NCCL WARN socketPollConnect: Connect to 10.0.0.2<5> returned 113",
            *("w1", "", "10.0.0.2<5>"),
        ),
        (
            "w1:1:2 [0] x.cc:1 NCCL WARN Call to recv from 10.0.0.2<5> failed : Connection reset",
            *("w1", "", "10.0.0.2<5>"),
        ),
        ("srun: error: gpu02: task 3: Exited with exit code 1", "gpu02", "", ""),
        ("mpirun noticed that process rank 3 with PID 0 on node gpu02 exited", "gpu02", "", ""),
    ],
)
def test_a_failure_names_the_place(line: str, host: str, device: str, peer: str) -> None:
    finder = nccl_finder()
    finder.feed(line)
    cause = first_cause(finder.failures)
    assert cause is not None
    assert (cause.host, cause.device, cause.peer) == (host, device, peer)
