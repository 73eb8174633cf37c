"""What each suite covers: rounds of disjoint pairs, thinning, time, and what full and soak add."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import chain

import pytest

from bench.sites import EIGHT_RAILS, site_text
from components.acceptance.acceptance_plan import AcceptancePlan, plan_acceptance
from components.acceptance.digest import digest_log
from components.acceptance.evidence import Outcome, Probe
from components.acceptance.judge.site import judge_probe
from components.acceptance.probes import probe_plan as probes_plan
from components.acceptance.probes.probe_plan import (
    AT_ONCE,
    LIMIT_S,
    MOST_TESTS,
    Test,
    in_rounds,
    plan_pairs,
    plan_probes,
)
from components.model.cluster import ClusterSpec
from components.model.jobs import SuiteName
from components.plan.make import make_plan
from components.plan.text import render_plan
from components.reading.load import parse_site
from tests.acceptance.recordings import load_perftest
from tests.golden.site import changed_spec, load_example

SUITES: tuple[SuiteName, ...] = ("quick", "full", "soak")


def with_suite(spec: ClusterSpec, suite: SuiteName, **more: object) -> ClusterSpec:
    return changed_spec(
        spec, acceptance=spec.acceptance.model_copy(update={"suite": suite, **more})
    )


@cache
def large_site(hosts: int) -> ClusterSpec:
    """A site without problems, as `test_linear.py` proves of fewer hosts; a check takes longest."""
    spec = parse_site(site_text(hosts, EIGHT_RAILS), "site.yaml").spec
    assert spec is not None
    return spec


def plan_of(name: str, suite: SuiteName) -> AcceptancePlan:
    return plan_acceptance(with_suite(load_example(name), suite))


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("name", ["rail-optimised", "spine-leaf", "mixed-nodes", "shared-rdma"])
def test_no_host_and_no_way_between_leaves_is_used_twice_in_a_round(
    name: str, suite: SuiteName
) -> None:
    plan = plan_of(name, suite)
    for number in {probe.round for probe in plan.probes} - {0}:
        tests = [probe for probe in plan.probes if probe.round == number]
        hosts = Counter(chain.from_iterable(probe.probe.nodes for probe in tests))
        assert set(hosts.values()) == {1}, f"round {number}"
        uplinks = Counter(
            (hop.device, hop.interface, hop.role)
            for probe in tests
            for hop in {*probe.hops}
            if hop.role in {"uplink_egress", "downlink_ingress"}
        )
        assert set(uplinks.values()) <= {1}, f"round {number}"


def test_quick_sends_and_receives_on_each_card_and_looks_at_each_node_first() -> None:
    plan = plan_of("rail-optimised", "quick")
    kinds = [probe.probe.kind for probe in plan.probes]
    assert kinds == ["node"] * 4 + ["perftest"] * 24 + ["nccl"]
    pairs = [probe.probe for probe in plan.probes if probe.probe.kind == "perftest"]
    ends = Counter((node, probe.rails[0]) for probe in pairs for node in probe.nodes)
    assert len(ends) == 4 * 8
    assert {probe.round for probe in plan.probes if probe.probe.kind == "node"} == {1}


def test_the_circle_brings_every_pair_of_a_small_site_together() -> None:
    spec = with_suite(load_example("rail-optimised"), "full")
    plan = plan_acceptance(spec)
    for rail in spec.rails:
        met = {
            frozenset(probe.probe.nodes)
            for probe in plan.probes
            if probe.probe.kind == "perftest" and probe.probe.rails == (rail.name,)
        }
        assert len(met) == 4 * 3 // 2


def test_full_adds_tools_gpu_memory_separate_rails_and_halves() -> None:
    plan = plan_of("rail-optimised", "full")
    by_name = {probe.probe.name: probe for probe in plan.probes}
    near = by_name["perftest-rail-0-gpu01-gpu02"]
    assert near.probe.tools == ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat")
    assert {hop.direction for hop in near.hops} == {"gpu01 -> gpu02", "gpu02 -> gpu01"}
    on_gpu = by_name["perftest-rail-0-gpu-gpu01-gpu02"]
    assert on_gpu.command[0] == "/opt/perftest-cuda/bin/ib_write_bw"
    assert "--use_cuda_bus_id" in on_gpu.command
    assert on_gpu.job is not None
    client = on_gpu.job.objects[1]["spec"]
    assert "'nvidia.com/gpu': 8" in str(client)
    across = [probe.probe for probe in plan.probes if len(probe.probe.rails) == 2]
    refused = [probe for probe in across if probe.kind == "perftest"]
    assert [probe.refused for probe in refused] == [True] * 7
    assert all("--bind_source_ip" in p.command for p in plan.probes if p.probe.refused)
    assert "--bind_source_ip" not in near.command
    halves = [by_name[f"nccl-all-reduce-half-{n}"].probe for n in (1, 2)]
    assert [probe.nodes for probe in halves] == [("gpu01", "gpu02"), ("gpu03", "gpu04")]
    image = plan.images[0].probe
    assert {"/opt/perftest-cuda/bin/ib_read_bw", "ib_write_lat"} <= {*image.programs}


def test_without_perftest_for_cuda_gpu_memory_is_not_tested() -> None:
    spec = with_suite(load_example("rail-optimised"), "full")
    programs = spec.jobs.programs.model_copy(update={"perftest_cuda": None})
    jobs = spec.jobs.model_copy(update={"programs": programs})
    plan = plan_acceptance(changed_spec(spec, jobs=jobs))
    assert not any("--use_cuda_bus_id" in probe.command for probe in plan.probes)


def test_rails_without_a_common_host_are_tried_too() -> None:
    spec = load_example("rail-optimised")
    hosts = tuple(
        host.model_copy(update={"nics": host.nics[place % 2 :: 2]})
        for place, host in enumerate(spec.hosts)
    )
    plan = plan_acceptance(with_suite(changed_spec(spec, hosts=hosts), "full"))
    tried = [probe.probe for probe in plan.probes if probe.probe.refused]
    assert [probe.rails for probe in tried] == [(f"rail-{n}", f"rail-{n + 1}") for n in range(7)]
    cards = {(host.name, nic.rail) for host in hosts for nic in host.nics}
    assert all({*zip(probe.nodes, probe.rails, strict=True)} <= cards for probe in tried)


def test_rails_with_a_route_between_them_must_reach_each_other() -> None:
    spec = with_suite(load_example("rail-optimised"), "full")
    routes = tuple(
        {"rail": one.name, "to": other.subnet}
        for one in spec.rails
        for other in spec.rails
        if one is not other
    )
    network = type(spec.pod_network).model_validate(
        spec.pod_network.model_dump() | {"routes": routes}
    )
    plan = plan_acceptance(changed_spec(spec, pod_network=network))
    across = [p for p in plan.probes if len(p.probe.rails) == 2 and p.probe.kind == "perftest"]
    assert [probe.probe.refused for probe in across] == [False] * 7
    (first, *_) = across
    assert [(hop.rail, hop.role) for hop in first.hops][:1] == [("rail-0", "sender_nic")]


def test_soak_sends_for_its_time_and_looks_at_the_nodes_again() -> None:
    plan = plan_of("rail-optimised", "soak")
    pairs = [probe for probe in plan.probes if probe.probe.kind == "perftest"]
    rounds = {probe.round for probe in pairs}
    for probe in pairs:
        assert probe.command[probe.command.index("-D") + 1] == str(14_400 // len(rounds))
        assert probe.job is not None
        assert probe.job.runs_s == 14_400 // len(rounds)
        deadline = probe.job.objects[1]["spec"]
        assert f"'activeDeadlineSeconds': {600 + probe.job.runs_s}" in str(deadline)
    after = [probe.probe.name for probe in plan.probes[-4:]]
    assert after == [f"node-gpu0{n}-after" for n in (1, 2, 3, 4)]


def test_infiniband_adapters_are_tested_one_by_one_in_full() -> None:
    plan = plan_of("quantum-ib", "full")
    assert not any(p.probe.kind == "perftest" for p in plan_of("quantum-ib", "quick").probes)
    pairs = [probe for probe in plan.probes if probe.probe.kind == "perftest"]
    assert len({probe.probe.rails for probe in pairs}) == 8
    assert {probe.probe.rates[probe.probe.rails[0]] for probe in pairs} == {400.0}
    one = next(each for each in pairs if each.probe.name == "perftest-adapter-3-gpu01-gpu02")
    assert "-x" not in one.command
    assert one.job is not None
    assert "adapter=3\n" in str(one.job.objects[1]["spec"]).replace("\\n", "\n")


@pytest.mark.parametrize(("hosts", "tested"), [(128, 1016), (1000, 4000)])
def test_quick_keeps_its_time_at_any_size(hosts: int, tested: int) -> None:
    spec = large_site(hosts)
    plan = plan_acceptance(with_suite(spec, "quick"))
    assert plan.budget is not None
    assert plan.budget.expected_s <= plan.budget.limit_s == 900
    pairs = [probe.probe for probe in plan.probes if probe.probe.kind == "perftest"]
    assert len(pairs) == tested
    ends = {(node, probe.rails[0]) for probe in pairs for node in probe.nodes}
    assert len(ends) == hosts * 8, "each card is in a test"


def test_full_at_a_thousand_hosts_takes_less_than_two_hours() -> None:
    spec = with_suite(large_site(1000), "full")
    parts = plan_pairs(spec, 600)
    assert 600 + sum(part.expected_s for part in parts) <= LIMIT_S["full"] == 7200
    assert sum(part.count for part in parts) <= MOST_TESTS
    assert [part.count == part.of for part in parts] == [True, True, True, False]
    assert "of 31936 tests" in parts[-1].line


def test_less_time_leaves_out_pairs_and_never_a_rail() -> None:
    spec = with_suite(load_example("spine-leaf"), "quick")
    counts: list[tuple[int, int]] = []
    for others_s in (0, 600, 750, 860):
        (part,) = plan_pairs(spec, others_s)
        rails = {test.rail for each in part.rounds for _, test in each}
        counts.append((part.count, len(rails)))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == (120, 8)
    assert counts[1] == (64, 8)
    assert {rails for _, rails in counts} == {8}


def test_a_suite_that_does_not_fit_tests_each_rail_and_says_so() -> None:
    names = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv")
    spec = with_suite(load_example("mixed-nodes"), "quick", collectives=names)
    plan = make_plan(spec, "dev")
    rails = {p.probe.rails[0] for p in plan.acceptance.probes if p.probe.kind == "perftest"}
    assert rails == {rail.name for rail in spec.rails}
    assert "# more than its 15 min, although fewer pairs are tested" in render_plan(plan)


def test_soak_sends_on_each_adapter_of_two_hosts() -> None:
    names = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
    spec = with_suite(load_example("quantum-ib"), "soak", collectives=names)
    (part,) = plan_pairs(spec, 700)
    assert part.count == part.of == 8
    tools = {case.tool for each in part.rounds for _, test in each for case in test.cases}
    assert tools == {"ib_write_bw"}


def test_the_plan_prints_the_suite_with_its_time_and_what_it_covers() -> None:
    text = render_plan(make_plan(load_example("spine-leaf"), "dev"))
    assert "## Suite quick: 10 min if nothing is in its way\n" in text
    assert "# each rail between neighbours: 120 of 120 tests in 16 rounds\n" in text


def test_quick_looks_at_as_many_nodes_as_run_at_once() -> None:
    spec = load_example("spine-leaf")
    worker = spec.workers[0].model_copy(update={"nics": ()})
    sizes = (AT_ONCE, AT_ONCE + 1)
    plans = [
        plan_probes(
            changed_spec(
                spec,
                hosts=tuple(worker.model_copy(update={"name": f"w{n}"}) for n in range(size)),
                jobs=spec.jobs.model_copy(update={"mpi_operator": False}),
            )
        )
        for size in sizes
    ]
    few, many = (plan.budget for plan in plans)
    assert few is not None
    assert many is not None
    assert many.expected_s - few.expected_s < 1
    assert few.covers == (f"the GPUs of each node: {AT_ONCE} nodes at once",)
    assert many.covers == (f"the GPUs of each node: {AT_ONCE} of {AT_ONCE + 1} nodes at once",)


def _key(test: Test) -> tuple[str, str, str]:
    pair, what = test
    return pair.client.name, pair.server.name, what.name


def test_a_round_takes_nothing_twice_whatever_the_order() -> None:
    spec = load_example("spine-leaf")
    (part,) = plan_pairs(spec, 0)
    tests: list[Test] = [test for each in part.rounds for test in each]
    for order in (tests, tests[::-1], sorted(tests, key=lambda each: each[0].server.name)):
        rounds = in_rounds(spec, order)
        assert sorted(map(_key, chain.from_iterable(rounds))) == sorted(map(_key, tests))
        for each in rounds:
            hosts = [host.name for pair, _ in each for host in (pair.client, pair.server)]
            assert len(hosts) == len(set(hosts))


WRITE = load_perftest("deepops_dgx1_roce_flattened").replace("10:10:11:", "10:10:111:")
NO_CLIENT = " Unable to perform rdma_client function\n"
LIMITS = plan_acceptance(load_example("dgx-roce")).limits


def verdicts(probe: Probe, log: str, outcome: Outcome = "completed") -> set[str]:
    found = judge_probe(digest_log(probe, log, outcome=outcome), LIMITS)
    return {each.verdict for each in found if each.check in {"separation", "tool", "bandwidth"}}


@pytest.mark.parametrize(
    ("log", "outcome", "verdict"),
    [
        ("Couldn't connect to 10.10.112.7:18515\n", "failed", "passed"),
        (f"Received 10 times ADDR_ERROR\n{NO_CLIENT}", "failed", "passed"),
        (f"Unexpected CM event bl blka 7\n{NO_CLIENT}", "failed", "passed"),
        (f"Unexpected CM event bl blka 8\n{NO_CLIENT}", "failed", "failed"),
        (f" rdma_create_event_channel failed\n{NO_CLIENT}", "failed", "error"),
        (WRITE, "completed", "failed"),
        ("a line of no tool\n", "failed", "error"),
        ("Completion with error at client\nFailed status 12: syndrom 0x81\n", "failed", "error"),
    ],
)
def test_separate_rails_shall_refuse(log: str, outcome: Outcome, verdict: str) -> None:
    rails = ("rail-0", "rail-1")
    probe = Probe(name="p", kind="perftest", rails=rails, nodes=("gpu01", "gpu02"), refused=True)
    assert verdicts(probe, log, outcome) == {verdict}


def test_a_tool_that_did_not_run_is_no_pass() -> None:
    probe = Probe(
        name="p",
        kind="perftest",
        rails=("rail-0",),
        nodes=("gpu01", "gpu02"),
        tools=("ib_write_bw", "ib_read_bw"),
    )
    assert "error" in verdicts(probe, WRITE)
    assert "passed" in verdicts(probe.model_copy(update={"tools": ("ib_write_bw",)}), WRITE)


def test_a_very_large_site_is_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes_plan, "AT_ONCE", 4)
    monkeypatch.setattr(probes_plan, "MOST_RANKS", 8 * 8)
    plan = plan_of("spine-leaf", "quick")
    looks = [probe.probe.nodes[0] for probe in plan.probes if probe.probe.kind == "node"]
    workers = [host.name for host in load_example("spine-leaf").workers]
    assert looks == workers[::4]
    (nccl,) = [probe.probe for probe in plan.probes if probe.probe.kind == "nccl"]
    assert (nccl.nodes, nccl.ranks) == (tuple(workers[::2]), 8 * 8)
    assert plan.budget is not None
    assert plan.budget.covers[0] == "the GPUs of each node: 4 of 16 nodes at once"
