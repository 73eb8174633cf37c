"""How much a collective sends is bounded, not assumed: no number here is the lab's or the judge's.

Two hosts with eight GPUs and two rails ran one row of 1 GiB in two halves of 20 iterations, which
are 42,949,672,960 bytes of messages. A ring sends 1.875 times as much over the boundary of a host,
40,265,318,400 bytes a rail; a tree sends all of it once, 21,474,836,480 bytes a rail.
"""

from __future__ import annotations

from typing import Final

import pytest

from components.acceptance.evidence import Hop, HopRole, Limits, Probe, ProbeEvidence
from components.acceptance.judge.path import judge_path
from components.acceptance.logs.log_model import Measure, NcclLog, NcclRow, RankLine

TREE: Final = 21_474_836_480
RING: Final = 40_265_318_400
HALF: Final = Measure(time_us=50_000.0, algbw_gb_s=21.47, busbw_gb_s=40.27, wrong=0)
ROLES: Final[tuple[HopRole, ...]] = (
    "sender_nic",
    "switch_ingress",
    "switch_egress",
    "receiver_nic",
)


def evidence(seen: int, *algorithms: str, stray: int = 0, odd: int | None = None) -> ProbeEvidence:
    """What four hops of one rail counted of one direction.

    Args:
        seen: Bytes of the planned class at each hop.
        algorithms: What the log names.
        stray: Bytes of priority 0 at each hop.
        odd: Bytes at the way out of the switch, if they are others.
    """
    log = NcclLog(
        program="nccl-tests",
        collective="all_reduce_perf",
        iterations=20,
        rows=(NcclRow(size_bytes=1 << 30, out_of_place=HALF, in_place=HALF),),
        ranks=tuple(RankLine(rank=rank, host=f"w{rank // 8}") for rank in range(16)),
        algorithms=algorithms,
    )
    hops = [
        Hop(
            rail="a",
            direction="gpu01 -> gpu02",
            role=role,
            device=role,
            interface="1",
            total_bytes=stray + (seen if odd is None or role != "switch_egress" else odd),
            bytes_by_class={
                3: seen if odd is None or role != "switch_egress" else odd,
                0: stray,
            },
        )
        for role in ROLES
    ]
    probe = Probe(name="nccl", kind="nccl", rails=("a", "b"), nodes=("gpu01", "gpu02"), ranks=16)
    return ProbeEvidence(probe=probe, outcome="completed", nccl=log, hops=tuple(hops))


def verdict(item: ProbeEvidence) -> str:
    return judge_path(item, Limits(priority=3, traffic_class=3))[0].verdict


@pytest.mark.parametrize(
    ("seen", "algorithms", "expected"),
    [
        # The log names no algorithm: a ring and a tree are both right.
        (RING, (), "passed"),
        (TREE, (), "passed"),
        (round(TREE * 1.02), ("TREE",), "passed"),
        (RING, ("RING,TREE",), "passed"),
        # It names the ring: half of it is too little.
        (RING, ("RING",), "passed"),
        (TREE, ("RING",), "failed"),
        # Less than any algorithm sends proves no fault of a cable, and no good path either.
        (TREE // 2, (), "error"),
        (TREE // 5, ("TREE",), "error"),
        # Next to nothing is another interface.
        (TREE // 100, (), "failed"),
        (0, (), "failed"),
        # More than any algorithm sends was sent by others too.
        (RING * 8, (), "error"),
    ],
)
def test_a_count_is_judged_by_bounds(seen: int, algorithms: tuple[str, ...], expected: str) -> None:
    assert verdict(evidence(seen, *algorithms)) == expected


@pytest.mark.parametrize(("stray", "expected"), [(TREE // 50, "passed"), (TREE // 5, "failed")])
def test_the_class_is_judged_by_its_share(stray: int, expected: str) -> None:
    assert verdict(evidence(TREE, stray=stray)) == expected


def test_a_proven_fault_of_one_hop_outweighs_the_doubts_of_others() -> None:
    assert verdict(evidence(TREE // 2, odd=0)) == "failed"
