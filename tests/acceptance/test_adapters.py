"""InfiniBand: the bytes go through all adapters of a worker; and what no log may hide.

The amount is that of a published run of `ib_write_bw -a`: sizes of 2 bytes to 8 MiB, 5,000 messages
of each, which are (2^24 - 2) x 5,000 = 83,886,070,000 bytes.
"""

from __future__ import annotations

from typing import Final

import pytest

from components.acceptance.digest import parse_mpi_log
from components.acceptance.evidence import Hop, Limits, Probe, ProbeEvidence
from components.acceptance.judge.log import judge_nccl_text, judge_perftest_text
from components.acceptance.judge.site import judge_fabric, judge_probe
from components.acceptance.logs.log_model import MpiLog, PerftestLog
from components.acceptance.logs.perftest import parse_perftest_log
from tests.acceptance.recordings import load_nccl, load_perftest

SENT: Final = 83_886_070_000
OUT: Final = "w0 -> w1"
BACK: Final = "w1 -> w0"
LIMITS: Final = Limits(transport="ib", hcas=2)


def adapter(name: str, seen: int | None, direction: str = OUT, **changes: object) -> Hop:
    hop = Hop(
        rail="ib",
        direction=direction,
        role="sender_nic",
        device="w0",
        interface=name,
        total_bytes=seen,
    )
    return hop.model_copy(update=changes)


def item(*hops: Hop) -> ProbeEvidence:
    log = parse_perftest_log(load_perftest("aks_write_bw"))
    assert isinstance(log, PerftestLog)
    probe = Probe(name="write", kind="perftest", rails=("ib",), nodes=("w0", "w1"))
    return ProbeEvidence(probe=probe, outcome="completed", perftest=log, hops=hops)


def test_an_even_share_of_each_adapter_passes() -> None:
    (found,) = judge_fabric(item(adapter("a", SENT // 2), adapter("b", SENT // 2)), LIMITS)
    assert (found.verdict, found.detail, found.next_step) == ("passed", "", "")
    assert found.expected == f"{OUT}: 83.9 GB through 2 adapters"
    assert found.actual == "83.9 GB through 2"


@pytest.mark.parametrize(
    ("first", "second", "lazy"),
    [(SENT, 0, "b"), (SENT, None, "b"), (0, SENT, "a"), (SENT, SENT // 5, "b")],
)
def test_an_adapter_without_its_share_fails_and_is_named(
    first: int | None, second: int | None, lazy: str
) -> None:
    (found,) = judge_fabric(item(adapter("a", first), adapter("b", second)), LIMITS)
    assert (found.verdict, found.detail) == ("failed", f"adapters without their share: {lazy}")
    assert "ibstat" in found.next_step


def test_bytes_that_went_elsewhere_fail() -> None:
    (found,) = judge_fabric(item(adapter("a", SENT // 4), adapter("b", SENT // 4)), LIMITS)
    assert found.verdict == "failed"


def test_each_direction_is_judged_by_itself() -> None:
    half = SENT // 2
    hops = [adapter("a", half), adapter("a", 0, BACK), adapter("b", half), adapter("b", half, BACK)]
    found = judge_fabric(item(*hops), LIMITS)
    assert [(each.expected[:8], each.verdict) for each in found] == [
        (OUT, "passed"),
        (BACK, "failed"),
    ]


def test_what_was_not_observed_is_not_proven() -> None:
    blind = adapter("b", 0, status="unreachable", detail="no route to host")
    (found,) = judge_fabric(item(adapter("a", SENT), blind), LIMITS)
    assert (found.verdict, found.detail) == ("error", "w0: no route to host")
    (nothing,) = judge_fabric(item(), LIMITS)
    assert (nothing.verdict, nothing.detail) == ("error", "no counter was read")


def test_a_command_whose_output_names_a_failure_did_not_pass() -> None:
    log = parse_mpi_log("w0\nHost key verification failed.\n")
    assert isinstance(log, MpiLog)
    probe = Probe(name="mpi", kind="mpi_hosts", rails=(), nodes=("w0", "w1"), ranks=2)
    seen = ProbeEvidence(probe=probe, outcome="completed", mpi=log)
    (found,) = judge_probe(seen, Limits())
    assert (found.check, found.verdict) == ("run", "failed")
    assert found.actual.startswith("host_key: ")


@pytest.mark.parametrize(
    ("name", "code"), [("aks_a100_ib", 4), ("crusoe_h100_ib", 1), ("all_reduce_socket", 0)]
)
def test_sockets_are_proven_by_sockets_alone(name: str, code: int) -> None:
    assert judge_nccl_text(load_nccl(name), "socket").exit_code == code


def test_a_latency_has_no_bandwidth_to_be_judged() -> None:
    verdict = judge_perftest_text(load_perftest("aks_read_lat"), None, 1.0)
    assert (verdict.exit_code, "no row with a bandwidth" in "\n".join(verdict.lines)) == (4, True)
