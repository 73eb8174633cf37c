"""Numbers that no run can have: more time than the job ran, more bytes than the rails carry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from components.acceptance.evidence import ProbeEvidence
from components.acceptance.judge.nccl_findings import judge_ceiling
from components.acceptance.judge.site import Report, judge_evidence
from tests.lab_physics.site import Site, take_evidence

GOOD = take_evidence(Site())
NCCL = GOOD.probes[-1]
RAILS_GB_S = 25.0
BEST = max(row.worst_busbw_gb_s for row in NCCL.nccl.rows) if NCCL.nccl else 0.0


def judged(change: Callable[[ProbeEvidence], ProbeEvidence]) -> Report:
    return judge_evidence(GOOD.model_copy(update={"probes": tuple(map(change, GOOD.probes))}))


def lasted(seconds: float) -> Callable[[ProbeEvidence], ProbeEvidence]:
    return lambda item: item.model_copy(update={"duration_s": seconds})


def test_a_table_that_claims_more_time_than_the_job_ran_is_of_another_run() -> None:
    assert judged(lasted(600.0)).verdict == "passed"
    assert judged(lasted(0.0)).verdict == "passed", "not measured, as in the lab"
    report = judged(lasted(0.2))
    assert report.verdict_of(NCCL.probe.name) == "failed"
    wrong = next(
        each
        for each in report.findings
        if each.subject == NCCL.probe.name and each.check == "duration"
    )
    assert wrong.text == "expected a log of the 0.2 s that the job ran, actual its rows took 14.2 s"


def test_a_second_of_rounding_is_no_fault() -> None:
    claimed_s = 14.2
    assert judged(lambda item: lasted(claimed_s)(item) if item.nccl else item).verdict == "passed"
    assert judged(lambda item: lasted(13.0)(item) if item.nccl else item).verdict == "failed"


def faster(times: float, *algorithms: str, hosts: int = 2) -> str:
    """The verdict on the same log with so many times its bus bandwidth; empty for none."""
    assert NCCL.nccl is not None
    rows = tuple(
        row.model_copy(
            update={
                half: measure.model_copy(update={"busbw_gb_s": measure.busbw_gb_s * times})
                for half in ("out_of_place", "in_place")
                if (measure := getattr(row, half)) is not None
            }
        )
        for row in NCCL.nccl.rows
    )
    log = NCCL.nccl.model_copy(update={"rows": rows, "algorithms": algorithms})
    found = judge_ceiling(log, RAILS_GB_S, hosts)
    return found.verdict if found else ""


@pytest.mark.parametrize(
    ("times_line_rate", "algorithms", "verdict"),
    [
        (0.92, (), ""),
        (1.175, (), ""),  # two hosts of 8 H100: 470 of 400 GB/s (nccl-tests issue 309)
        (1.175, ("RING",), "failed"),
        (1.74, (), "error"),  # the algorithm is not said: a ring of other rails, or a tree
        (1.74, ("RING",), "failed"),
        (1.74, ("NVLSTREE",), ""),  # 2 hosts: up to 1.875 (NCCL 2.30.7, tuning.cc:320)
        (1.74, ("RING", "TREE"), ""),
        (1.95, ("NVLSTREE",), "failed"),
        (1.95, (), "failed"),
    ],
)
def test_bus_bandwidth_has_an_upper_bound_by_the_algorithm(
    times_line_rate: float, algorithms: tuple[str, ...], verdict: str
) -> None:
    assert faster(times_line_rate * RAILS_GB_S / BEST, *algorithms) == verdict


def test_a_tree_over_many_hosts_gains_little_and_computing_switches_keep_their_gain() -> None:
    times = 1.3 * RAILS_GB_S / BEST
    assert faster(times, "NVLSTREE", hosts=8) == "failed"
    assert faster(times, "COLLNETDIRECT", hosts=8) == ""
    assert faster(times, hosts=1) == "", "one host sends nothing over rails"


def test_the_site_is_not_proven_by_such_a_number() -> None:
    """The rows of 256 B round to 0.02 GB/s and contradict themselves: they are left alone."""

    def change(item: ProbeEvidence) -> ProbeEvidence:
        if item.nccl is None:
            return item
        rows = tuple(
            row.model_copy(
                update={
                    half: getattr(row, half).model_copy(
                        update={
                            "busbw_gb_s": getattr(row, half).busbw_gb_s * 1.9,
                            "algbw_gb_s": getattr(row, half).algbw_gb_s * 1.9,
                            "time_us": getattr(row, half).time_us / 1.9,
                        }
                    )
                    for half in ("out_of_place", "in_place")
                }
            )
            if (row.size_bytes or 0) > 1 << 20
            else row
            for row in item.nccl.rows
        )
        return item.model_copy(update={"nccl": item.nccl.model_copy(update={"rows": rows})})

    report = judged(change)
    finding = next(each for each in report.findings if each.check == "plausible bandwidth")
    assert finding.verdict == "error"
    assert "43." in finding.actual
    assert report.verdict == "error"
