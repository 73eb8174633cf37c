"""Plan a suite's tests between pairs of workers: which tests, in which rounds, in what time.

A round runs tests at once whose hosts, addresses and ways between leaves are separate, and no test
slows another. Pairs of neighbours come first, to make every card send and receive; then the circle
method pairs the hosts: after n - 1 rounds every host has met every other one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from components.acceptance.evidence import HopRole
from components.acceptance.probes.probe_job import PERFTEST_SECONDS, RAIL_CASE, REFUSED_S, PairTest
from components.fabric.links import list_links, routed_neighbours
from components.model import worker_kinds
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.jobs import PerftestCase, PerftestTool, SuiteName
from components.model.once import once
from components.model.places import has_way, leaves_of_hosts, shares_resource
from components.model.worker_kinds import RailPair, nic_on, rail_pairs
from components.pod_network.attachment import hca_count

LIMIT_S: Final[dict[SuiteName, int]] = {"quick": 900, "full": 7200, "soak": 900}
"""Most seconds of a suite; of `soak`, without `acceptance.soak_s`."""
START_S: Final = 15
"""Seconds of a round besides its tests: two pods get their networks, one after the other, connect,
and go; counters are read twice. The lab's real kubelets need nine of them; the rest is a choice."""
PODS_A_SECOND: Final = 40
"""How fast a cluster starts pods: kube-scheduler sends 50 requests a second by default, one for
each pod (`clientConnection.qps`)."""
AT_ONCE: Final = 1024
"""Most probes that run at once, each in a thread that waits: one pod for each of 1,024 nodes."""
MOST_TESTS: Final = 24_000
"""Tests between pairs in one plan: each is some 8 KB of the request, which is read as a whole."""
_SWEEP: Final[tuple[PerftestTool, ...]] = (
    "ib_write_bw",
    "ib_read_bw",
    "ib_send_bw",
    "ib_write_lat",
)
"""Both directions: written bytes go to the server, and read bytes come from it."""
_THINNEST: Final = 12
"""The thinnest choice tests one of 2^11 pairs."""
Test = tuple[RailPair, PairTest]
Round = tuple[Test, ...]
MOST_CIRCLES: Final = 8
"""Rounds of the circle method for each rail: in each, every host has another partner."""
Way = list[tuple[HopRole, str, str]]
"""Role, switch and port of each place."""
FLOWS: Final = (16, 32, 64, 128)
"""Connections that a test may have: for 2, 4, 8 and 16 links. With more, a test of five seconds
would mostly set up connections."""
_RARE: Final = 0.01
"""Accepted chance that some link gets no connection although the hash is fair."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The coverage of a suite, and its duration if nothing delays it."""

    suite: SuiteName
    expected_s: int
    limit_s: int
    covers: tuple[str, ...]
    """For people, one line each: the tests, and how many."""


@dataclass(frozen=True, slots=True)
class Part:
    """Tests of one kind, as many as fit the time."""

    what: str
    rounds: tuple[Round, ...]
    of: int
    """Number of tests without a limit of time."""

    @property
    def count(self) -> int:
        """Number of its tests."""
        return sum(map(len, self.rounds))

    @property
    def line(self) -> str:
        """For people: `each rail between neighbours: 24 of 24 tests in 16 rounds`."""
        rounds = f"{len(self.rounds)} round{'s' * (len(self.rounds) != 1)}"
        return f"{self.what}: {self.count} of {self.of} tests in {rounds}"

    @property
    def expected_s(self) -> float:
        """Seconds of all its rounds."""
        return sum(map(_round_s, self.rounds))


def plan_pairs(spec: ClusterSpec, others_s: float) -> tuple[Part, ...]:
    """Plan the tests between pairs of a site, the most important first, as far as time allows.

    Everything else in the suite takes `others_s` seconds.
    """
    found: list[Part] = []
    for what, tests in _wanted(spec):
        left_s = LIMIT_S[spec.acceptance.suite] - others_s - sum(each.expected_s for each in found)
        left = MOST_TESTS - sum(each.count for each in found)
        rounds: tuple[Round, ...] = ()
        # All tests; or one for each card; or one in 2, 4, 8 ... of the pairs.
        for thinner in (0, *(1 << power for power in range(_THINNEST))) if tests else ():
            kept = _thinned(tests, thinner) if thinner else tests
            if len(kept) <= left:
                rounds = in_rounds(spec, kept)
                if sum(map(_round_s, rounds)) <= left_s:
                    break
        if tests:
            found.append(Part(what, rounds, len(tests)))
    return tuple(_under_load(spec, each) for each in found)


def _wanted(spec: ClusterSpec) -> Iterator[tuple[str, tuple[Test, ...]]]:
    roce, full = spec.rdma.transport == "roce", spec.acceptance.suite == "full"
    ring = [(pair, rail) for rail in spec.rails for pair in rail_pairs(spec, rail)]
    leaves = leaves_of_hosts(spec)
    if roce:
        own: list[Test] = []
        for pair, rail in ring:
            # Tests between two leaves get enough connections to use each link.
            hosts, flows = (pair.client, pair.server), RAIL_CASE.qps
            one, other = (leaves.get((host.name, rail.name), "") for host in hosts)
            if rail.leaves and one and other and one != other:
                way = ports_between(spec, one, other)
                flows = flows_for(sum(role == "uplink_egress" for role, _, _ in way))
            swept = tuple(_case(tool, flows=flows) for tool in _SWEEP if full)
            alone = RAIL_CASE.model_copy(update={"qps": flows})
            own.append((pair, PairTest(rail.name, rail.name, swept or (alone,))))
        yield "each rail between neighbours", tuple(own)
    if full and roce:
        both = tuple(_case(tool) for tool in _SWEEP[:2])
        near = (
            (pair, PairTest(f"{rail.name}-gpu", rail.name, both, gpu=True)) for pair, rail in ring
        )
        yield "each rail in GPU memory", _with_gpus(spec, near)
        yield "separate rails", tuple(_across(spec))
        yield "each rail between far pairs", tuple(_far(spec))
    if spec.acceptance.suite != "quick" and not roce:
        hosts = worker_kinds.on_infiniband(spec)
        rate = spec.ib_fabric.rate_gbit_s if spec.ib_fabric else 0
        pairs = [RailPair(one, other, int(rate)) for one, other in pairwise(hosts)]
        cases = tuple(_case(tool, rdma_cm=False) for tool in _SWEEP)
        names = [(number, f"adapter-{number}") for number in range(hca_count(spec))]
        for gpu in (False, True) if full else (False,):
            ending, chosen = ("-gpu", cases[:2]) if gpu else ("", cases[: None if full else 1])
            own = [
                (pair, PairTest(f"{name}{ending}", name, chosen, adapter=number, gpu=gpu))
                for number, name in names
                for pair in pairs
            ]
            where = " in GPU memory" if gpu else ""
            yield f"each adapter{where}", _with_gpus(spec, own) if gpu else tuple(own)


def _case(tool: PerftestTool, *, rdma_cm: bool = True, flows: int = 1) -> PerftestCase:
    lasts = None if tool.endswith("_lat") else PERFTEST_SECONDS
    flows = 1 if lasts is None else flows
    return PerftestCase(name="rail", tool=tool, rdma_cm=rdma_cm, qps=flows, duration_s=lasts)


def _with_gpus(spec: ClusterSpec, tests: Iterable[Test]) -> tuple[Test, ...]:
    """Those between hosts with GPUs; empty if the image has no perftest with CUDA."""
    if spec.jobs.programs.perftest_cuda is None:
        return ()
    return tuple((pair, test) for pair, test in tests if pair.client.gpus and pair.server.gpus)


def _across(spec: ClusterSpec) -> Iterator[Test]:
    """Test from each rail to the next: they reach each other if the file allows it, else not."""
    if shares_resource(spec):
        return
    for number, (one, other) in enumerate(pairwise(spec.rails)):
        near, far = _turned(spec, one, 2 * number), _turned(spec, other, 2 * number + 1)
        pair = next(((first, second) for first in near for second in far if first != second), None)
        if pair is not None:
            ends = nic_on(pair[0], one.name), nic_on(pair[1], other.name)
            speed = min(nic.speed_gbit_s for nic in ends if nic)
            name, refused = f"{one.name}-to-{other.name}", not has_way(spec, one, other)
            test = PairTest(name, one.name, server_rail=other.name, refused=refused)
            yield RailPair(*pair, speed), test


def _turned(spec: ClusterSpec, rail: Rail, by: int) -> list[Host]:
    """The workers on a rail, beginning with a different one for each number."""
    hosts = [host for host in spec.workers if nic_on(host, rail.name)]
    return [hosts[(place + by) % len(hosts)] for place in range(len(hosts))]


def _far(spec: ClusterSpec) -> Iterator[Test]:
    """Up to `MOST_CIRCLES` rounds of the circle method among the workers of one speed.

    They are spread over all n - 1; an odd host rests in turn. Pairs of neighbours are left out.
    """
    for rail in spec.rails if not shares_resource(spec) else ():
        near = {frozenset((p.client.name, p.server.name)) for p in rail_pairs(spec, rail)}
        for speed, hosts in worker_kinds.speed_classes(spec, rail).items():
            ring: list[Host | None] = [*hosts, *([None] if len(hosts) % 2 else [])]
            rounds, half = len(ring) - 1, len(ring) // 2
            step = max(rounds // MOST_CIRCLES, 1)
            for turn in range(0, rounds, step)[:MOST_CIRCLES]:
                turned = [ring[0], *ring[1 + turn :], *ring[1 : 1 + turn]]
                for one, other in zip(turned[:half], reversed(turned[half:]), strict=True):
                    if one and other and frozenset((one.name, other.name)) not in near:
                        yield RailPair(one, other, speed), PairTest(rail.name, rail.name)


def _thinned(tests: tuple[Test, ...], thinner: int) -> tuple[Test, ...]:
    """Test each card at most once; keep one of `thinner` pairs of a rail, and at least one."""
    taken, kept = set[tuple[str, str]](), dict[str, list[Test]]()
    for pair, test in tests:
        ends = {(test.name, pair.client.name), (test.name, pair.server.name)}
        if not ends & taken:
            taken |= ends
            kept.setdefault(test.name, []).append((pair, test))
    return tuple(
        each
        for place, own in enumerate(kept.values())
        for each in own[place % min(thinner, len(own)) :: thinner]
    )


def in_rounds(spec: ClusterSpec, tests: Iterable[Test]) -> tuple[Round, ...]:
    """Put each test in the first round without a conflict over its hosts, addresses and ways."""
    used: dict[Hashable, set[int]] = {}
    rounds: list[list[Test]] = []
    leaves = leaves_of_hosts(spec)
    for pair, test in tests:
        far = test.server_rail or test.rail
        # Both hosts whole: a test can fill a PCIe switch of two cards.
        uses: list[Hashable] = [pair.client.name, pair.server.name]
        if spec.pod_network.ipam == "static":
            uses.append(("the one address of a server", far))
        ways = leaves.get((pair.client.name, test.rail)), leaves.get((pair.server.name, far))
        if ways[0] != ways[1]:  # read bytes come back
            both = (ways, ways[::-1]) if len(test.cases) > 1 else (ways,)
            uses += [part for out, into in both for part in (("out of", out), ("into", into))]
        taken = set[int]().union(*(used.get(each, ()) for each in uses))
        place = next(number for number in range(len(rounds) + 1) if number not in taken)
        if place == len(rounds):
            rounds.append([])
        rounds[place].append((pair, test))
        for each in uses:
            used.setdefault(each, set()).add(place)
    return tuple(map(tuple, rounds))


def _round_s(tests: Round) -> float:
    """Seconds of a round: its longest test, and the start of its pods."""
    longest = max(
        REFUSED_S if test.refused else sum(case.duration_s or 1 for case in test.cases)
        for _, test in tests
    )
    return (START_S + longest) * in_turn(len(tests)) + 2 * len(tests) / PODS_A_SECOND


def in_turn(probes: int) -> int:
    """How many batches of at most `AT_ONCE` it takes."""
    return -(-probes // AT_ONCE)


def _under_load(spec: ClusterSpec, part: Part) -> Part:
    """Stretch the rounds of `soak`: together they send for `soak_s`."""
    if spec.acceptance.suite != "soak" or not part.rounds:
        return part
    lasts = {"duration_s": max(spec.acceptance.soak_s // len(part.rounds), PERFTEST_SECONDS)}
    rounds = (
        tuple(
            (pair, replace(test, cases=(test.cases[0].model_copy(update=lasts),)))
            for pair, test in each
        )
        for each in part.rounds
    )
    return Part(f"{part.what}, each for {lasts['duration_s']} s", tuple(rounds), part.of)


@once
def _routed_ports(spec: ClusterSpec) -> Mapping[tuple[str, str], tuple[tuple[str, str], ...]]:
    """Two switches that routed links join, to the ports of each link, from the first one's side."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for link in list_links(spec):
        if link.one.port.mode == "routed":
            for end, far in ((link.one, link.other), (link.other, link.one)):
                pair = end.switch.name, far.switch.name
                found.setdefault(pair, []).append((end.name, far.name))
    return {pair: tuple(ports) for pair, ports in found.items()}


def ports_between(spec: ClusterSpec, leaf: str, other: str) -> Way:
    """Give a leaf's uplinks, the spine ports on the way, and the other leaf's uplinks.

    If a link joins the two leaves, only that link counts: the way over a spine is longer. If they
    share no spine, the way goes over super-spines, which count as spines. Without routed links
    between the leaves the list is empty.
    """
    distances, reached = {other: 0}, [other]
    for name in reached:
        new = [far for far in routed_neighbours(spec).get(name, ()) if far not in distances]
        distances |= dict.fromkeys(new, distances[name] + 1)
        reached += new
    way: dict[tuple[HopRole, str, str], None] = {}
    waiting, seen = [leaf] if leaf in distances else [], set[str]()
    while waiting:
        near = waiting.pop()
        onward = routed_neighbours(spec).get(near, ())
        nearer = [far for far in onward if distances[far] == distances[near] - 1]
        for far in nearer if near not in seen else ():
            for here, there in _routed_ports(spec)[near, far]:
                way["uplink_egress" if near == leaf else "spine_egress", near, here] = None
                way["downlink_ingress" if far == other else "spine_ingress", far, there] = None
        waiting += [far for far in reversed(nearer) if near not in seen]
        seen.add(near)
    return [*way]


def is_telling(flows: int, links: int) -> bool:
    """Whether so many connections prove a fault if one link carries none."""
    return links > 1 and links * (1 - 1 / links) ** flows < _RARE


def flows_for(links: int) -> int:
    """The least number that proves a fault; 1 if the leaf has one link, or too many."""
    return next((flows for flows in FLOWS if is_telling(flows, links)), 1)
