"""Plan a site's probes from its rails: which tests, in which rounds, in what time.

A round runs tests at once whose hosts, addresses and ways between leaves are separate, and no test
slows another. Pairs of neighbours come first, to make every card send and receive; then the circle
method pairs the hosts: after n - 1 rounds every host has met every other one. Another list names
what the probes do not prove.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from components.acceptance.evidence import HopRole, Probe, Unproven, WorkerGroup
from components.acceptance.probes import probe_job
from components.acceptance.probes.probe_job import PERFTEST_SECONDS, RAIL_CASE, PairTest, ProbeJob
from components.catalogue.upstream import NCCL_ON_MACVLAN, NCCL_SUSPECT_ON_V100
from components.core.record import record, replace
from components.fabric.links import list_links, routed_neighbours
from components.jobs.templates import SSHD, JsonObject, job_script, make_job, program_path
from components.kubernetes.manifest import Body, pulling
from components.model import worker_kinds
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail
from components.model.hosts import Host
from components.model.jobs import PerftestCase, PerftestTool, SuiteName
from components.model.once import once
from components.model.owners import runs_on_foreign_fabric, way_of
from components.model.places import has_way, leaves_of_hosts, shares_resource
from components.model.worker_kinds import PAIR, RailPair, nic_on, rail_pairs, speeds_of
from components.pod_network.attachment import hca_count

NODE_S: Final = 180
"""Seconds of one check of a node's GPUs: copies 60 s, diagnosis 30 s, load 10 s over NVLink
(recorded on an H200: 75 s in all); the rest is for PCIe."""
COLLECTIVE_S: Final = 60
"""Seconds of one collective with few ranks."""
MOST_RANKS: Final = 8192
"""Most ranks of a collective in `quick` and `soak`: more would use up their time."""
RANKS_A_SECOND: Final = 100
"""Ranks that mpirun starts and NCCL connects in a second (a choice, unproven on large sites)."""
TRIAL_PORT: Final = 2299
"""The port of the trial sshd, on the pod's loopback; above 1023, which every user may open."""
_SSH: Final = (SSHD, "ssh", "ssh-keygen")
"""`ssh-keygen` makes the key of the trial; OpenSSH's client package has both."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
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
    "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat"
)  # fmt: skip
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


def image_jobs(spec: ClusterSpec, jobs: Sequence[ProbeJob]) -> list[ProbeJob]:
    """One check for each image of the jobs, in the order of the jobs."""
    has_v100 = any("V100" in (host.gpu_model or "").upper() for host in spec.workers if host.gpus)
    # In such pods the driver may hide the GIDs of the same card from NCCL.
    hides = way_of(spec) == "macvlan" and spec.jobs.gid_index is None
    programs, sample, found = spec.jobs.programs, spec.jobs.deepspeed, list[ProbeJob]()
    for image in dict.fromkeys(job.image for job in jobs):
        mine = [job for job in jobs if job.image == image]
        kinds = {job.probe.kind for job in mine}
        linked = [
            program_path(programs.nccl_tests, f"{job.probe.collective}_perf")
            for job in mine
            if job.probe.kind == "nccl"
        ]
        mpirun = (programs.mpirun or "mpirun") if linked else ""
        calls = [job.command for job in mine if job.probe.kind == "perftest"]
        called = [("ib_write_bw",), *calls] if calls else []
        needed = [
            *((mpirun, *linked, *_SSH) if linked else ()),
            # Every program of perftest, with the name that it has there.
            *dict.fromkeys(each for call in called for each in probe_job.programs_of(call)),
            *(("deepspeed", "pdsh", "getent", *_SSH) if "deepspeed_scan" in kinds else ()),
        ]
        scans = "deepspeed_scan" in kinds and not (sample and sample.host_network)
        name = "image-jobs" if image == spec.jobs.image else "image-deepspeed"
        probe = Probe(
            name=name,
            kind="image",
            rails=(),
            nodes=(),
            image=image,
            programs=tuple(needed),
            nccl_least=NCCL_ON_MACVLAN if hides and ("nccl" in kinds or scans) else "",
            nccl_suspect=NCCL_SUSPECT_ON_V100 if has_v100 else "",
        )
        script = job_script("image_check", programs=" ".join(needed), linked=" ".join(linked),
                            mpirun=mpirun, port=str(TRIAL_PORT))  # fmt: skip
        body = make_job(spec, name, _pod(spec, image, script))
        found.append(ProbeJob(probe, (body,), 0, ("image_check", image), image))
    return found


def _pod(spec: ClusterSpec, image: str, script: str) -> JsonObject:
    """Make a pod on a worker with GPUs if there is one; it asks for none, to avoid waiting."""
    nodes = [host.node for host in spec.workers if host.gpus] or [h.node for h in spec.workers]
    here: JsonObject = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}
    terms: JsonObject = {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
    return {
        "spec": {
            "restartPolicy": "Never",
            "affinity": {"nodeAffinity": {_REQUIRED: terms}},
            "containers": [{"name": "image", "image": image, "command": ["/bin/sh", "-c", script]}],
        }
    }


@record
class ClusterProbes:
    """The probes that run as jobs of a cluster; empty on a site without Kubernetes."""

    jobs: tuple[ProbeJob, ...] = ()
    rounds: tuple[int, ...] = ()
    """The round of each job, in the same order: those of one number run at once; 0 runs alone."""
    images: tuple[ProbeJob, ...] = ()
    """Checks of these jobs' images, which come first."""
    memlock: tuple[Body, ...] = ()
    """One pod per worker that prints its locked-memory limit; numbered like a probe."""
    budget: Budget | None = None


def plan_probes(spec: ClusterSpec) -> ClusterProbes:
    """Plan the probes of the path: as many as the file's suite has time for.

    The images of the jobs come first, then the GPUs of each node, then pairs in rounds; the
    collectives need the MPI operator, and two workers of one kind with GPUs.
    """
    if spec.kubernetes is None:
        return ClusterProbes()
    # Choose the hosts whose GPUs are checked: all, or as many as fit a third of the time.
    hosts = [host for host in spec.workers if host.gpus]
    turns = max(LIMIT_S[spec.acceptance.suite] // 3 // (START_S + NODE_S), 1)
    looked = _spaced(hosts, turns * AT_ONCE)
    looks = [probe_job.node_job(spec, host) for host in looked]
    alone = _alone(spec)
    # Seconds of everything except rounds of pairs: first of the pods for locked memory.
    others_s = START_S + len(spec.workers) / PODS_A_SECOND
    times = 2 if spec.acceptance.suite == "soak" else 1
    others_s += times * ((START_S + NODE_S) * _in_turn(len(looks)) + len(looks) / PODS_A_SECOND)
    for job in alone:
        ranks_s = job.probe.ranks / RANKS_A_SECOND
        others_s += START_S + (COLLECTIVE_S + ranks_s if job.probe.ranks else PERFTEST_SECONDS)
    parts = plan_pairs(spec, others_s)
    found = [(1, job) for job in looks]
    rounds = [each for part in parts for each in part.rounds]
    found += [
        (number, probe_job.perftest_job(spec, pair, test))
        for number, tests in enumerate(rounds, 2)
        for pair, test in tests
    ]
    found += [(0, job) for job in alone]
    if spec.acceptance.suite == "soak":
        found += [(len(rounds) + 2, probe_job.node_job(spec, host, "-after")) for host in looked]
    jobs = [job for _, job in found]
    return ClusterProbes(
        jobs=_pulling_jobs(spec, jobs),
        rounds=tuple(number for number, _ in found),
        images=_pulling_jobs(spec, image_jobs(spec, jobs)),
        memlock=tuple(pulling(spec, probe_job.memlock_job(spec, host)) for host in spec.workers),
        budget=_budget(spec, parts, len(looks), alone, others_s),
    )


def _spaced(hosts: Sequence[Host], most: int) -> tuple[Host, ...]:
    count = min(len(hosts), most)
    return tuple(hosts[place * len(hosts) // count] for place in range(count))


def _budget(
    spec: ClusterSpec, parts: Sequence[Part], looks: int, alone: Sequence[ProbeJob], others_s: float
) -> Budget:
    suite = spec.acceptance.suite
    soak_s = spec.acceptance.soak_s if suite == "soak" else 0
    most = f", {AT_ONCE}" if looks > AT_ONCE else ""
    gpus = sum(host.gpus > 0 for host in spec.workers)
    nodes = f"{looks} of {gpus}" if looks < gpus else str(looks)
    lines = [f"the GPUs of each node: {nodes} nodes{most} at once"] if looks else []
    lines += [part.line for part in parts]
    lines += [f"alone: {', '.join(job.probe.name for job in alone)}"] if alone else []
    expected_s = round(others_s + sum(part.expected_s for part in parts))
    return Budget(suite, expected_s, LIMIT_S[suite] + soak_s, tuple(lines))


def _pulling_jobs(spec: ClusterSpec, jobs: Iterable[ProbeJob]) -> tuple[ProbeJob, ...]:
    return tuple(
        replace(job, objects=tuple(pulling(spec, body) for body in job.objects)) for job in jobs
    )


def _alone(spec: ClusterSpec) -> list[ProbeJob]:
    """The file's cases between the first two workers of the first rail, then the collectives."""
    first = [(pair, rail.name) for rail in spec.rails[:1] for pair in rail_pairs(spec, rail)][:1]
    found = [
        probe_job.perftest_job(spec, pair, PairTest(case.name, rail, (case,)))
        for case in spec.acceptance.perftest
        for pair, rail in first
    ]
    if not spec.jobs.mpi_operator:
        return found
    kinds = [kind for kind in worker_kinds.gpu_kinds(spec) if kind.runs_collectives]
    if spec.acceptance.suite != "full":
        spaced = ((kind, _spaced(kind.hosts, MOST_RANKS // kind.gpus)) for kind in kinds)
        kinds = [replace(kind, hosts=hosts) for kind, hosts in spaced]
    names = spec.acceptance.collectives
    found += [probe_job.nccl_job(spec, kind, name) for kind in kinds for name in names]
    if spec.acceptance.suite == "full":
        found += [
            probe_job.nccl_job(spec, replace(kind, hosts=hosts), name, f"-half-{number}")
            for kind in kinds
            if len(kind.hosts) >= 2 * PAIR
            for middle in (len(kind.hosts) // 2,)
            for number, hosts in enumerate((kind.hosts[:middle], kind.hosts[middle:]), 1)
            for name in names
        ]
    sample, scan = spec.jobs.deepspeed, spec.acceptance.deepspeed_scan
    return found + ([probe_job.scan_job(spec, sample, scan)] if sample and scan else [])


def worker_groups(spec: ClusterSpec) -> tuple[WorkerGroup, ...]:
    """The kinds of workers, and the reason if one runs no collective; empty for a single kind."""
    kinds = worker_kinds.worker_kinds(spec)
    if len(kinds) <= 1:
        return ()
    found: list[WorkerGroup] = []
    for kind in kinds:
        why = "" if kind.gpus else "no GPUs, so no collective runs there"
        if kind.gpus and len(kind.hosts) < PAIR:
            why = (
                f"{kind.name} is the only worker of its kind, so no collective reaches another host"
            )
        rails, names = tuple(kind.speeds), kind.names
        own = WorkerGroup(name=kind.name, hosts=names, gpus=kind.gpus, rails=rails, unproven=why)
        found.append(own)
    return tuple(found)


def list_unproven(spec: ClusterSpec) -> tuple[Unproven, ...]:
    """Rails, speeds and hosts that no probe of the site proves."""
    found = [
        Unproven(
            subject=host.name,
            what=f"its link to {rail}",
            why=f"a {host.role.replace('_', ' ')} host runs no probe",
        )
        for host in spec.hosts
        if host.role != "worker"
        for rail in speeds_of(spec, host)
    ]
    # Only a login shows these; pods prove bandwidth, transport and memory limits.
    what = "counters, driver, firmware and settings of its cards"
    what += ", its InfiniBand ports and partitions" if spec.infiniband is not None else ""
    strangers = (host.name for host in spec.workers if host.ssh is None)
    found += [Unproven(subject=name, what=what, why="no login") for name in strangers]
    if runs_on_foreign_fabric(spec):
        what = "queues, ECN, PFC, MTU and drops of every hop between the cards"
        found.append(Unproven(subject="fabric", what=what, why="the file lists no switches"))
    if spec.rdma.transport == "roce":
        found += [*_on_rails(spec)]
        why = "the worker is on no rail"
        fitted = {host.name for host in spec.workers if speeds_of(spec, host)}
    else:
        why = "the worker lacks an InfiniBand adapter"
        fitted = {host.name for host in worker_kinds.on_infiniband(spec)}
    lacking = (host.name for host in spec.workers if host.name not in fitted)
    return (*found, *(Unproven(subject=name, what="RDMA", why=why) for name in lacking))


def _on_rails(spec: ClusterSpec) -> Iterator[Unproven]:
    if shares_resource(spec) and spec.kubernetes is not None:
        why = "all rails share one resource, so a pod cannot choose the rail of its VF"
        yield Unproven(subject="rails", what="the bandwidth of each one alone", why=why)
        return
    for rail in spec.rails:
        classes = worker_kinds.speed_classes(spec, rail)
        only = next(iter(classes.values())) if len(classes) == 1 else ()
        if len(only) == 1:
            why = "no other worker is on that rail"
            yield Unproven(subject=only[0].name, what=rail.name, why=why)
            continue
        proven = {pair.speed_gbit_s for pair in rail_pairs(spec, rail)}
        why = f"no other worker has it there; proven at {min(classes, default=0)} Gbit/s"
        for speed in (each for each in classes if each not in proven):
            what = f"{speed} Gbit/s on {rail.name}"
            yield Unproven(subject=classes[speed][0].name, what=what, why=why)


@record
class Budget:
    """The coverage of a suite, and its duration if nothing delays it."""

    suite: SuiteName
    expected_s: int
    limit_s: int
    covers: tuple[str, ...]
    """For people, one line each: the tests, and how many."""


@record
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
    """Plan tests between pairs, the most important first, in the time that `others_s` leaves."""
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
            for turn in range(0, rounds, max(rounds // MOST_CIRCLES, 1))[:MOST_CIRCLES]:
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
        probe_job.REFUSED_S if test.refused else sum(case.duration_s or 1 for case in test.cases)
        for _, test in tests
    )
    return (START_S + longest) * _in_turn(len(tests)) + 2 * len(tests) / PODS_A_SECOND


def _in_turn(probes: int) -> int:
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
