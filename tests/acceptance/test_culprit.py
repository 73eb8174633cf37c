"""What is named as the cause of bad tests between pairs: single cases, and many faults."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from random import Random

import pytest

from components.acceptance.evidence import Hop, HopRole, Limits, Probe, ProbeEvidence, RailLimit
from components.acceptance.judge.culprit import (
    PairResult,
    Part,
    Suspect,
    find_bad,
    find_suspects,
    judge_pairs,
)
from components.acceptance.judge.log import judge_nccl_text
from components.acceptance.judge.nccl_findings import warn_stragglers
from components.acceptance.judge.site import judge_evidence
from components.acceptance.judge.verdict import Finding
from components.acceptance.logs.log_model import NcclLog, PerftestLog, PerftestRow
from components.acceptance.logs.nccl import parse_nccl_json
from components.acceptance.report.text import render_table
from tests.acceptance.pair_faults import SINGLE, Fabric, Fault, Seen, inject, leaf_name
from tests.docs.markdown import ROOT
from tests.lab_physics.site import Site, take_evidence

PAGE = (ROOT / "docs" / "reference" / "attribution.md").read_text()
SIZES = {8: 10, 32: 8, 128: 6}
"""Hosts to runs of each kind."""


def as_result(fabric: Fabric, seen: Seen) -> PairResult:
    ends = (seen.sender, seen.receiver)
    here, there = (leaf_name(fabric.leaf(host), seen.rail) for host in ends)
    return PairResult(
        probe=seen.name,
        sender=f"gpu{seen.sender:03}",
        receiver=f"gpu{seen.receiver:03}",
        rail=f"rail-{seen.rail}",
        share=seen.share,
        failed=seen.share is None,
        gpu_memory=seen.gpu_memory,
        leaves=(here, there),
        elsewhere=tuple(f"gpu{host:03}" for host in seen.silent),
    )


def score(faults: list[Fault], suspects: tuple[Suspect, ...]) -> Counter[str]:
    """Faults that were named alone, among others, or missed; and names that were wrong."""
    found = Counter[str]()
    sure = {
        part
        for each in suspects
        if len(each.parts) == 1 or "in another port" in each.text
        for part in each.parts
    }
    named = {part for each in suspects for part in each.parts}
    for fault in faults:
        if fault.truth <= sure:
            found["named"] += 1
        else:
            found["among" if named & (fault.truth | fault.near) else "missed"] += 1
    right = {part for fault in faults for part in fault.truth | fault.near}
    found["wrong"] = sum(bool(each.parts) and not right & {*each.parts} for each in suspects)
    return found


@cache
def measure(hosts: int) -> Mapping[str, str]:
    """The column of the table for one size: kind of fault to its cell."""
    fabric = Fabric(hosts)
    column: dict[str, str] = {}
    for kind in range(len(SINGLE) + 2):
        found, name = Counter[str](), ""
        for number in range(SIZES[hosts]):
            random = Random(f"{hosts} {kind} {number}")  # noqa: S311 - it picks faults
            name, faults = inject(random, fabric, kind)
            seen = fabric.run(random, faults, random.choice((2, 3, 5)))
            marks = {Part(*place): text for each in faults for place, text in each.counters.items()}
            results = [as_result(fabric, each) for each in seen]
            found += score(faults, find_suspects(results, marks))
        column[name] = "/".join(str(found[key]) for key in ("named", "among", "missed", "wrong"))
    return column


def _columns() -> Mapping[int, Mapping[str, str]]:
    """The table of the page: size to kind of fault to its cell."""
    table = re.findall(r"^\| ([^|]+)" + r" \| ([\d/]+)" * 3 + r" \|$", PAGE, re.MULTILINE)
    return {size: {row[0]: row[place] for row in table} for place, size in enumerate(SIZES, 1)}


@pytest.mark.parametrize("hosts", SIZES)
def test_the_page_has_what_is_measured(hosts: int) -> None:
    assert _columns()[hosts] == measure(hosts)


def test_the_sums_of_the_page_are_those_of_its_rows() -> None:
    cells = [cell.split("/") for column in _columns().values() for cell in column.values()]
    named, among, missed, wrong = (sum(map(int, each)) for each in zip(*cells, strict=True))
    faults = named + among + missed
    assert faults >= 300
    precision, recall = (named + among) / (named + among + wrong), (named + among) / faults
    assert f"precision {100 * precision:.1f} %" in PAGE
    assert f"recall {100 * recall:.1f} %" in PAGE
    assert f"alone {100 * named / faults:.1f} %" in PAGE


HOSTS = [f"gpu{number:02}" for number in range(1, 9)]


def chain(*slow: str, share: float = 0.6, rails: int = 2) -> list[PairResult]:
    """Every host with its two neighbours on each rail; slow through the named links."""
    return [
        PairResult(
            probe=f"{one}-{other}-rail-{rail}",
            sender=one,
            receiver=other,
            rail=f"rail-{rail}",
            share=share if {f"{one} rail-{rail}", f"{other} rail-{rail}"} & {*slow} else 0.95,
        )
        for rail in range(rails)
        for one, other in zip(HOSTS, [*HOSTS[1:], HOSTS[0]], strict=True)
    ]


def test_a_link_that_makes_both_of_its_tests_slow_is_named_alone() -> None:
    (found,) = find_suspects(chain("gpu03 rail-1"), {})
    assert found.parts == (("link", "gpu03 rail-1"),)
    assert "2 of 2 tests through it are bad, of all others 0 of 14" in found.text


@pytest.mark.parametrize(("share", "is_bad"), [(0.76, True), (0.80, True), (0.86, False)])
def test_a_link_20_percent_below_its_siblings_is_bad_and_one_10_percent_below_is_not(
    share: float,
    is_bad: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert bool(find_bad(chain("gpu03 rail-1", share=share))) == is_bad


def test_three_tests_have_too_few_siblings_to_be_slow() -> None:
    results = chain("gpu03 rail-0", rails=1)
    assert find_bad(results[1:4]) == {}
    assert len(find_bad(results[1:5])) == 2


def test_a_rail_that_is_slow_as_a_whole_is_compared_with_the_others() -> None:
    slow = [f"{host} rail-2" for host in HOSTS]
    (found,) = find_suspects(chain(*slow, rails=3), {})
    assert found.parts == (("rail", "rail-2"),)


def test_one_bad_test_accuses_both_its_ends_until_a_counter_tells() -> None:
    others = {"gpu02-gpu03-rail-1", "gpu04-gpu05-rail-1", "gpu03-gpu04-rail-1"}
    pair = [each for each in chain() if each.probe not in others]
    pair.append(PairResult("alone", "gpu03", "gpu04", "rail-1", None, failed=True))
    (both,) = find_suspects(pair, {})
    assert both.parts == (("link", "gpu03 rail-1"), ("link", "gpu04 rail-1"))
    assert "cannot tell these apart" in both.next_step
    mark = {Part("link", "gpu04 rail-1"): "leaf-2 swp4 discarded packets"}
    (one,) = find_suspects(pair, mark)
    assert one.parts == (("link", "gpu04 rail-1"),)
    assert "leaf-2 swp4 discarded packets" in one.text


def test_all_rails_of_a_host_are_the_host_and_two_of_eight_are_not() -> None:
    rails = [f"gpu05 rail-{rail}" for rail in range(8)]
    (host,) = find_suspects(chain(*rails, rails=8), {})
    assert host.parts == (("host", "gpu05"),)
    two = find_suspects(chain(*rails[:2], rails=8), {})
    assert {each.parts for each in two} == {(("link", rail),) for rail in rails[:2]}


def test_sound_tests_name_nothing() -> None:
    assert find_suspects(chain(), {}) == ()


LIMITS = Limits(rails=(RailLimit(name="rail-0", line_rate_gbit_s=100),), priority=3)


def probe_of(
    sender: str, receiver: str, rate: float, *hops: Hop, command: str = ""
) -> ProbeEvidence:
    row = PerftestRow(
        size_bytes=65536, iterations=1, peak_gbit_s=0, average_gbit_s=rate, rate_mpps=None
    )
    return ProbeEvidence(
        probe=Probe(
            name=f"{sender}-{receiver}",
            kind="perftest",
            rails=("rail-0",),
            nodes=(sender, receiver),
        ),
        outcome="completed",
        command=command,
        perftest=PerftestLog(test="RDMA_Write BW Test", rows=(row,)),
        hops=hops,
    )


def port_of(sender: str, receiver: str, *, discards: int = 0, total: int = 10**9) -> list[Hop]:
    """The four places of the way; the counts are of the receiver's port."""
    places: tuple[tuple[HopRole, str, str], ...] = (
        ("sender_nic", sender, "eth2"),
        ("switch_ingress", "leaf-1", f"swp{sender[-1]}"),
        ("switch_egress", "leaf-1", f"swp{receiver[-1]}"),
        ("receiver_nic", receiver, "eth2"),
    )
    return [
        Hop(
            rail="rail-0",
            direction=f"{sender} -> {receiver}",
            role=role,
            device=device,
            interface=port,
            total_bytes=total if role == "switch_egress" else 10**9,
            discards=discards if role == "switch_egress" else 0,
        )
        for role, device, port in places
    ]


def ring(slow: str, discards: int = 0, total: int = 10**9) -> list[ProbeEvidence]:
    ways = list(zip(HOSTS, [*HOSTS[1:], HOSTS[0]], strict=True))
    return [
        probe_of(
            one,
            other,
            70 if slow in (one, other) else 93,
            *port_of(
                one,
                other,
                discards=discards if other == slow else 0,
                total=total if other == slow else 10**9,
            ),
        )
        for one, other in ways
    ]


def test_evidence_of_a_slow_link_fails_and_names_the_port() -> None:
    slow, (found,) = judge_pairs(ring("gpu03", discards=7), [], LIMITS)
    assert {each.subject for each in slow} == {"gpu02-gpu03", "gpu03-gpu04"}
    assert slow[0].text == "expected at least 85% of the median of like tests, actual 75% of it"
    assert found.parts[0] == ("link", "gpu03 rail-0")
    assert "gpu03 rail-0 at leaf-1 swp3" in found.text
    assert "leaf-1 swp3 discarded packets" in found.text


def test_a_port_that_did_not_count_the_bytes_is_a_cable_in_another_port() -> None:
    _, suspects = judge_pairs(ring("none"), [], LIMITS)
    assert suspects == ()
    ports = [
        probe_of(one, other, 93, *port_of(one, other, total=0 if other == "gpu03" else 10**9))
        for one, other in pairwise(HOSTS)
    ]
    _, (found,) = judge_pairs(ports, [], LIMITS)
    assert found.text == (
        "the cable of gpu03 rail-0 at leaf-1 swp3 is in another port: the planned port "
        "counted none of its bytes"
    )


def test_a_gpu_is_named_where_only_tests_from_its_memory_are_slow() -> None:
    on_host = ring("none")
    on_gpu = [
        each.model_copy(
            update={
                "command": "ib_write_bw --use_cuda=0",
                "probe": each.probe.model_copy(update={"name": f"gpu-{each.probe.name}"}),
            }
        )
        for each in ring("gpu03")
    ]
    _, (found,) = judge_pairs(on_host + on_gpu, [], LIMITS)
    assert found.parts[0] in {("gpu", "gpu03 rail-0"), ("gpus", "gpu03")}
    assert {kind for kind, _ in found.parts} == {"gpu", "gpus"}


def test_the_report_begins_with_what_is_most_likely() -> None:
    evidence = take_evidence(Site())
    report = judge_evidence(
        evidence.model_copy(update={"probes": (*evidence.probes, *ring("gpu03"))}), LIMITS
    )
    assert report.verdict == "failed"
    first = render_table(report).splitlines()[0]
    assert first.startswith("Most likely: ")
    assert "gpu03 rail-0 at leaf-1 swp3" in first


def collective(name: str, hosts: list[str], kind: str = "all_reduce") -> ProbeEvidence:
    probe = Probe(name=name, kind="nccl", rails=("rail-0",), nodes=tuple(hosts), collective=kind)
    return ProbeEvidence(probe=probe, outcome="completed")


def fails(name: str) -> Finding:
    return Finding(
        check="bandwidth", subject=name, verdict="failed", expected="at least 40", actual="12"
    )


def test_a_collective_that_fails_though_all_pairs_pass_says_what_to_run_next() -> None:
    whole = collective("whole", HOSTS)
    _, (found,) = judge_pairs([*ring("none"), whole], [fails("whole")], LIMITS)
    assert (found.parts, found.text) == ((), "whole fails and all pairs pass")
    assert found.next_step == (
        "run all_reduce over gpu01, gpu02, gpu03, gpu04 and over gpu05, gpu06, gpu07, gpu08"
    )


def test_halves_that_ran_already_are_not_asked_for_again() -> None:
    ran = [
        collective("whole", HOSTS),
        collective("one", HOSTS[:4]),
        collective("other", HOSTS[4:]),
        collective("other-way", HOSTS[:4], "alltoall"),
    ]
    wrong = [fails("whole"), fails("other"), fails("other-way")]
    _, (found,) = judge_pairs([*ring("none"), *ran], wrong, LIMITS)
    assert found.next_step == "run all_reduce over gpu05, gpu06 and over gpu07, gpu08"


def test_bad_pairs_come_before_a_collective_that_fails() -> None:
    whole = collective("whole", HOSTS)
    _, (found,) = judge_pairs([*ring("gpu03"), whole], [fails("whole")], LIMITS)
    assert {*found.parts} == {("host", "gpu03"), ("link", "gpu03 rail-0")}


def text_of(*process_ms: float) -> str:
    """As nccl-tests 2.19.6 writes it with -I 1 -J (src/util.cu, writePerIterReport)."""
    times = [[each * 1000] * 4 for each in process_ms]
    most = max(process_ms) * 1000
    half = {"time": most, "alg_bw": 1e9 / most / 1e3, "bus_bw": 1e9 / most / 1e3, "nwrong": 0}
    per = {
        "skipped_iterations": 0, "min_us": most, "max_us": most, "avg_us": most, "cv_pct": 1.0,
        "times_us": [most] * 4, "per_process_max_times_us": times,
    }  # fmt: skip
    devices = [{"rank": rank, "hostname": f"gpu0{rank + 1}"} for rank in range(len(process_ms))]
    return json.dumps(
        {
            "version": 3, "args": ["all_reduce_perf"], "config": {"devices": devices},
            "results": [
                {
                    "size": 10**9, "out_of_place": half, "out_of_place_per_iter": per,
                    "in_place": half, "in_place_per_iter": per,
                }
            ],
        }
    )  # fmt: skip


def json_of(*process_ms: float) -> NcclLog:
    log = parse_nccl_json(text_of(*process_ms))
    assert isinstance(log, NcclLog)
    return log


def test_a_judged_log_names_the_slow_process_and_keeps_its_verdict() -> None:
    even, slow = (judge_nccl_text(text_of(10, 10, last, 10)) for last in (10, 14))
    (line,) = (each for each in slow.lines if "WARNING" in each)
    assert line.startswith("  WARNING stragglers: expected at most 1.5 times the mean")
    assert "          process 2 (gpu03) took 40% more time" in slow.lines
    assert (slow.verdict, slow.exit_code) == (even.verdict, even.exit_code)
    assert even.warnings == ()


def test_a_process_that_takes_longer_is_named_with_its_host() -> None:
    (found,) = warn_stragglers(json_of(10, 10, 14, 10))
    assert found.detail == "process 2 (gpu03) took 40% more time"


def test_a_process_that_comes_late_takes_less_time_than_those_that_wait_for_it() -> None:
    (found,) = warn_stragglers(json_of(10, 6, 10, 10))
    assert found.detail == "process 1 (gpu02) took 40% less time, so the others waited for it"


def test_processes_alike_are_no_stragglers() -> None:
    assert warn_stragglers(json_of(10, 10.5, 9.8, 10)) == []
