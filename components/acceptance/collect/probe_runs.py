"""The work of `railyard evidence collect`: run probes, measure the traffic of each, keep all.

It always succeeds; the evidence records failed runs and readings. The gate judges them.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import groupby, starmap
from pathlib import Path
from typing import Any, Final, Literal

from components.acceptance import evidence
from components.acceptance.acceptance_plan import ADAPTERS, AcceptancePlan, HopPlan, ProbePlan
from components.acceptance.collect.cluster_jobs import (
    NOT_PLACED,
    Absent,
    Api,
    KubernetesApi,
    Patience,
    PodList,
    ProbeRun,
    lend_class,
    run_probe,
)
from components.acceptance.collect.counters import (
    Snapshot,
    measure_hops,
    read_snapshot,
    routing_faults_on_path,
)
from components.acceptance.collect.turn import PROGRESS, Hindrance, Turn
from components.acceptance.digest import digest_log
from components.acceptance.evidence import Evidence, Hop, ProbeEvidence, Unreachable
from components.acceptance.handover import AcceptRequest
from components.acceptance.probes.ib_look import IbFacts, IbLook, parse_ib_look
from components.acceptance.probes.probe_job import HostCommand, HostProbe
from components.acceptance.probes.probe_plan import AT_ONCE
from components.acceptance.report import archive
from components.acceptance.report.archive import label_of, subjects_of
from components.core.errors import DeviceError, UsageError
from components.core.limits import LOG_BYTES
from components.core.record import record, replace
from components.jobs.templates import number_objects
from components.kubernetes.client import read_kubeconfig
from components.kubernetes.manifest import Body, pods_in
from components.kubernetes.planes.base import ClusterRef
from components.remote.host_session import HostAnswer, run_on_host, run_on_hosts
from components.remote.step import KILL_AFTER_S, env_name, render_remote_command

PLACE_S: Final = 60.0
"""Seconds for a scheduler to place pods, once a probe of this run has waited for a place in vain.
Devices that a pod gave back are offered again within seconds."""
_Ready = tuple[ProbePlan, list[Body]]
"""A probe that may start now, and its objects."""
_TIMED_OUT: Final = (124, 137)
"""Exit status of timeout(1): it sent SIGTERM, or SIGKILL."""
ASK_AGAIN_S: Final = 5.0
"""Seconds between two questions while a standby may be taking over."""
MEMLOCK_DEADLINE_S: Final = 120.0
"""Seconds for a pod that prints one line, its image pull included."""


@record
class Round:
    """One run: the plan, the cluster and secrets that it uses, and the folder of its logs."""

    plan: AcceptancePlan
    api: Api | None
    number: int
    secrets: Mapping[str, str]
    folder: Path
    turn: Turn
    proven: Mapping[str, str]
    """Label of a probe to the date of its last proof."""
    provenance: Literal["real", "lab"] = "real"
    priority_class: str = ""
    """The class of the probes' pods; empty if the cluster allowed none."""
    place_s: float | None = None
    """Seconds until an unplaced probe is given up; None for the probes' own deadline."""


async def run_all(this: Round) -> tuple[list[ProbeEvidence], tuple[Unreachable, ...]]:
    """Run the probes that may run now, and give a reason for each of the others.

    The order is always: wait for busy nodes, read the counters, run, read them again. Images come
    first, then rounds and probes alone, as planned. With a time budget, the probe with the oldest
    proof goes first; a round is as old as its oldest.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(AT_ONCE))
    # Each routed switch needs the networks that all of them announce.
    known = {"networks": this.plan.networks}
    sources = tuple(
        replace(each, links=each.links.model_copy(update=known)) if each.links else each
        for each in this.plan.sources
    )
    this = replace(this, plan=replace(this.plan, sources=sources))
    found: list[ProbeEvidence] = []
    lost: dict[str, str] = {}
    numbered = enumerate(this.plan.probes)
    groups = groupby(numbered, key=lambda each: (each[1].round, not each[1].round and each[0]))
    batches = [[probe for _, probe in group] for _, group in groups]
    if this.plan.policy.time_budget_s is not None:
        proven = this.proven
        batches.sort(key=lambda batch: min(proven.get(label_of(each.probe), "") for each in batch))
    later: list[list[ProbePlan]] = []
    for batch in [*([image] for image in this.plan.images), *batches]:
        free, busy = await asyncio.to_thread(_split_busy, this, batch)
        later += [busy] if busy else []
        found += await _run_batch(this, free, lost, all_devices=not found)
        if any(NOT_PLACED in item.detail for item in found if item.outcome == "not_run"):
            # One deadline is enough for a device plugin that registers late.
            this = replace(this, place_s=PLACE_S)
    for batch in later:
        found += await _run_batch(this, batch, lost, all_devices=not found)
    ends = {each.endpoint.device: each.endpoint for each in sources}
    return found, tuple(
        Unreachable(
            device=name,
            address=f"{ends[name].address}:{ends[name].port}",
            detail=detail.splitlines()[0],
        )
        for name, detail in sorted(lost.items())
    )


def _split_busy(this: Round, batch: list[ProbePlan]) -> tuple[list[ProbePlan], list[ProbePlan]]:
    """A round does not wait for its busy pairs: if the site waits for them, they run at the end."""
    if len(batch) == 1 or this.turn.policy.when_busy != "wait":
        return batch, []
    free, busy = list[ProbePlan](), list[ProbePlan]()
    for each in batch:
        (busy if this.turn.why("busy", _numbered(this, each.objects)) else free).append(each)
    return free, busy


def _numbered(this: Round, objects: tuple[Body, ...]) -> list[Body]:
    """The objects of this run, whose pods preempt no others."""
    numbered = number_objects(objects, this.number)
    for pod in (pod for body in numbered for pod in pods_in(body)) if this.priority_class else ():
        pod["priorityClassName"] = this.priority_class
    return numbered


async def _run_batch(
    this: Round, batch: list[ProbePlan], lost: dict[str, str], *, all_devices: bool
) -> list[ProbeEvidence]:
    """Run probes at once; read the counters on their way once before and once after."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def run(probe: ProbePlan, objects: list[Body]) -> tuple[ProbeRun, float]:
        async with gate:
            begun = time.monotonic()
            return await _run(this, probe, objects), time.monotonic() - begun

    ready: list[_Ready] = []
    found: dict[str, ProbeEvidence] = {}
    for probe in batch:
        objects = _numbered(this, probe.objects)
        why = await asyncio.to_thread(this.turn.why_skipped, probe, objects)
        if why:
            found[probe.probe.name] = _skipped(this, probe, why)
        else:
            ready.append((probe, objects))
    if ready:
        # The sources of their hops: reading every device around every probe would grow with the
        # square of the hosts.
        hops = {(hop.device, hop.interface) for probe, _ in ready for hop in probe.hops}
        sources = [
            replace(each, interfaces=names)
            for each in this.plan.sources
            if (names := tuple(at for at in each.interfaces if (each.endpoint.device, at) in hops))
        ]
        # The first reading is of all devices, so that a lost one is named.
        before = await read_snapshot(this.plan.sources if all_devices else sources, this.secrets)
        runs = await asyncio.gather(*starmap(run, ready))
        after = await read_snapshot(sources, this.secrets)
        lost |= before.unreachable
        lost |= after.unreachable
        for item in await asyncio.to_thread(_evidence_of, this, ready, runs, (before, after)):
            this.turn.learn(item)
            found[item.probe.name] = item
    return [found[probe.probe.name] for probe in batch]


def _evidence_of(
    this: Round,
    ready: Sequence[_Ready],
    runs: Sequence[tuple[ProbeRun, float]],
    snapshots: tuple[Snapshot, Snapshot],
) -> list[ProbeEvidence]:
    crossed = Counter(way for probe, _ in ready for way in {*map(_way, probe.hops)})

    def shared(hop: Hop) -> Hop:
        device, _, sends = way = _way(hop)
        counts = (crossed[way], crossed[device, ADAPTERS, sends])
        return hop.model_copy(update={"shared": next((each for each in counts if each > 1), 0)})

    again = True  # look at the nodes again; once a round is enough
    found: list[ProbeEvidence] = []
    for (probe, objects), (ran, took_s) in zip(ready, runs, strict=True):
        taken = ""
        # A pod that was preempted is gone with its log; one that failed leaves a log.
        if not ran.ended or not (ran.succeeded or ran.log):
            taken, again = this.turn.why("busy", objects, again=again), False
        if taken:
            found.append(_skipped(this, probe, taken))
        else:
            item = _evidence(this, probe, ran, snapshots, took_s)
            hops = tuple(map(shared, item.hops))
            found.append(item.model_copy(update={"hops": hops, "round": probe.round}))
    return found


def _way(hop: HopPlan | Hop) -> tuple[str, str, bool]:
    """An interface and a direction: the key of one counter of bytes."""
    return hop.device, hop.interface, hop.role.endswith("_egress") or hop.role == "sender_nic"


def _skipped(this: Round, probe: ProbePlan, why: str) -> ProbeEvidence:
    return ProbeEvidence(
        probe=probe.probe,
        outcome="skipped",
        detail=why,
        command=" ".join(probe.command),
        proven_at=this.proven.get(label_of(probe.probe), ""),
    )


async def _run(this: Round, probe: ProbePlan, objects: list[Body]) -> ProbeRun:
    if probe.host is not None:
        return await run_host_probe(probe.host, this.secrets)
    if this.api is None or probe.job is None:
        return ProbeRun(reason="the site lacks a cluster")
    if isinstance(this.api, Absent):
        return ProbeRun(reason=this.api.why)
    if why := await asyncio.to_thread(this.turn.why, "broken", objects):
        return ProbeRun(reason=why)
    return await asyncio.to_thread(
        run_probe,
        this.api,
        objects,
        objects[probe.job.watched],
        deadline_s=this.plan.timeout_s + probe.job.runs_s,
        patience=this.turn.patience(probe.probe.name, objects, this.place_s),
    )


def _evidence(
    this: Round,
    probe: ProbePlan,
    ran: ProbeRun,
    snapshots: tuple[Snapshot, Snapshot],
    took_s: float,
) -> ProbeEvidence:
    path, why = this.folder / f"{probe.probe.name}.log", ""
    try:
        archive.write_whole(path, ran.log)
    except OSError as error:  # a full disk must not end other probes
        why = f"its log was not kept: {path}: {error.strerror}"
    # Without its log a verdict cannot be checked, and does not count as proof.
    outcome: evidence.Outcome = "not_run"
    if ran.ended and not why:
        outcome = "completed" if ran.succeeded else "failed"
    elif ran.log and not why:
        outcome = "timed_out"
    file = "" if why else f"{this.folder.name}/{path.name}"
    base = digest_log(probe.probe, ran.log, outcome=outcome, log_file=file)
    update: dict[str, Any] = {
        "detail": "; ".join(filter(None, (why, ran.reason))),
        # The lab's jobs end at once: their numbers cannot be compared with the time.
        "duration_s": max(round(took_s, 1), 0.1) if this.provenance == "real" else 0.0,
        "command": " ".join(probe.command),
        "hops": tuple(found for hop in probe.hops for found in measure_hops(hop, *snapshots)),
        "routing": routing_faults_on_path(probe.hops, snapshots[1]),
    }
    return base.model_copy(update=update)


async def run_host_probe(probe: HostProbe, secrets: Mapping[str, str]) -> ProbeRun:
    """Run one probe and give its log; a host's refusal is the reason why a run did not end."""
    if probe.server is None:
        return _as_run(await _try(probe.client, probe.deadline_s, secrets), probe.deadline_s)
    server = asyncio.create_task(_try(probe.server, probe.deadline_s, secrets))
    try:
        ran = _as_run(await _try(probe.client, probe.deadline_s, secrets), probe.deadline_s)
        if ran.succeeded:
            return ran
        said = "still waiting for its client"
        done, _ = await asyncio.wait({server}, timeout=1)
        if done:
            answer = server.result()
            said = str(answer) if isinstance(answer, DeviceError) else _last_line(answer.stdout)
        return replace(ran, reason=f"{ran.reason}; server: {said}")
    finally:
        # Its own deadline on the host ends what a cancelled session leaves behind.
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)


async def _try(
    command: HostCommand, deadline_s: float, secrets: Mapping[str, str]
) -> HostAnswer | DeviceError:
    endpoint = command.endpoint
    try:
        return await run_on_host(
            endpoint,
            secrets,
            render_remote_command(command.script, deadline_s),
            deadline_s=deadline_s + 2 * KILL_AFTER_S,
            limit=LOG_BYTES,
        )
    except DeviceError as error:
        return error


def _as_run(answer: HostAnswer | DeviceError, deadline_s: float) -> ProbeRun:
    if isinstance(answer, DeviceError):
        return ProbeRun(reason=str(answer))
    log = answer.stdout + answer.stderr
    if answer.exit_status in _TIMED_OUT:
        return ProbeRun(log, reason=f"no end within {deadline_s:g} s")
    good = answer.exit_status == 0
    reason = "" if good else f"ended with status {answer.exit_status}: {_last_line(log)}"
    return ProbeRun(log, ended=True, succeeded=good, reason=reason)


def _last_line(log: str) -> str:
    return (log.strip().splitlines() or ["it printed nothing"])[-1]


async def look_at_fabric(look: IbLook, secrets: Mapping[str, str]) -> IbFacts:
    """Ask a host, again while a standby may take over; one that does not answer is reported."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + look.takeover_s
    while True:
        answer = await _try(HostCommand(look.endpoint, look.script), look.deadline_s, secrets)
        if isinstance(answer, DeviceError):
            return IbFacts(why_nothing=str(answer).splitlines()[0])
        if answer.exit_status != 0 and not answer.stdout:
            last = _last_line(answer.stderr)
            return IbFacts(why_nothing=f"the look ended with status {answer.exit_status}: {last}")
        seen = parse_ib_look(answer.stdout)
        if not seen.lacks_master or loop.time() + ASK_AGAIN_S >= deadline:
            return seen
        await asyncio.sleep(ASK_AGAIN_S)


def collect_evidence(
    request: AcceptRequest, run: int, secrets: Mapping[str, str], folder: Path
) -> Evidence:
    """Run all probes, and measure each; `folder` gets the raw logs.

    `run` is a part of each object's name. The secrets, by name, include an existing kubeconfig.
    """
    folder.mkdir(parents=True, exist_ok=True)
    started = _now()
    plan = request.acceptance
    api = open_cluster(plan.access, secrets) if plan.policy.asked else None
    api = api if api is None or isinstance(api, Absent) else PodList(api)
    turn = Turn(plan.policy, api, progress=folder / PROGRESS, probes=(*plan.images, *plan.probes))
    probes = (*(each.probe for each in plan.probes), *plan.left_out)
    wanted = {subject for probe in probes for subject in subjects_of(probe)}
    proven = archive.last_proofs(request.stack, run, wanted)
    seen = asyncio.run(_look(plan, secrets)) if plan.policy.asked else {}
    classes = lend_class(api, f"{plan.cluster}-acceptance-{run}") if api else nullcontext(("", ""))
    with classes as (name, how):
        this = Round(plan, api, run, secrets, folder, turn, proven, request.provenance, name)
        ran, unreachable = asyncio.run(run_all(this))
        memlock = _read_memlock(this, api) if api else {}
    nodes, outside = turn.nodes(), plan.left_out
    places = dict.fromkeys(place for each in outside for place in subjects_of(each)[1:])
    return Evidence(
        cluster=plan.cluster,
        plan_digest=request.plan_digest,
        run=run,
        started_at=started,
        finished_at=_now(),
        provenance=request.provenance,
        limits=plan.limits,
        probes=tuple(ran),
        unreachable=unreachable,
        memlock=memlock,
        allocatable={
            host: {name: nodes[node].offers.get(name, 0) for name in wanted}
            for host, wanted in plan.limits.allocatable.items()
            if (node := plan.nodes.get(host, host)) in nodes
        },
        ib=seen,
        beside=archive.read_foreign_settings(request.stack, run),
        facts={"priority of the probes' pods": how} if how else {},
        when_busy=plan.policy.when_busy,
        scope=plan.policy.scope,
        max_age_days=plan.policy.max_age_days or evidence.MAX_AGE_DAYS,
        left_out=tuple(
            evidence.LeftOut(name=name, proven_at=proven.get(name, ""))
            for name in map(label_of, outside)
        ),
        places_left_out=tuple(places),
        last_proofs=proven,
    )


def open_cluster(access: ClusterRef | None, secrets: Mapping[str, str]) -> Api | None:
    """Open the cluster; if this fails, an `Absent` gives every probe the reason."""
    if access is None:
        return None
    keys = {env_name(name): value for name, value in secrets.items()}
    try:
        run = run_on_hosts((server.endpoint for server in access.servers), keys)
        kubeconfig = read_kubeconfig(access, run, secrets)
    except (DeviceError, UsageError) as error:
        return Absent(f"the cluster is not reached: {error}")
    if kubeconfig is None:
        return Absent("no cluster: its servers hold no kubeconfig")
    return KubernetesApi(kubeconfig)


async def _look(plan: AcceptancePlan, secrets: Mapping[str, str]) -> dict[str, IbFacts]:
    """Ask each worker about InfiniBand before the first probe."""
    seen = await asyncio.gather(*(look_at_fabric(look, secrets) for look in plan.ib))
    names = (look.endpoint.device for look in plan.ib)
    return dict(zip(names, seen, strict=True))


def _read_memlock(this: Round, api: Api) -> dict[str, str]:
    """Worker to `ulimit -l` in a pod there, or why none answered; closed nodes are not asked."""
    bodies = _numbered(this, this.plan.memlock)

    def ask(body: Body, hindered: Hindrance | None) -> str | None:
        if hindered is not None:
            return None if hindered.kind == "closed" else f"no answer: {hindered.reason}"
        patience = Patience(this.place_s)
        ran = run_probe(api, [body], body, deadline_s=MEMLOCK_DEADLINE_S, patience=patience)
        return ran.log.strip() or f"no answer: {ran.reason}"

    hindrances = [this.turn.hindrance([body], "memlock") for body in bodies]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = zip(this.plan.workers, pool.map(ask, bodies, hindrances), strict=True)
        found = {node: text for node, text in said if text is not None}
    (this.folder / PROGRESS).unlink(missing_ok=True)
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
