"""What `railyard evidence collect` does: probes in pods, counters of every hop, evidence as JSON.

It always ends well, with evidence: what could not be run or read is in it as such. The judgement
is the gate's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from components.acceptance.collect.cluster_jobs import Api, KubernetesApi, ProbeRun, run_probe
from components.acceptance.collect.counters import Snapshot, measure_hops, read_snapshot
from components.acceptance.collect.host_jobs import run_host_probe
from components.acceptance.collect.ib_look import look_at_fabric
from components.acceptance.evidence import (
    Evidence,
    Outcome,
    ProbeEvidence,
    Unreachable,
    digest_log,
)
from components.acceptance.logs.ib_facts import IbFacts
from components.acceptance.plan import AcceptancePlan, CounterSource, ProbePlan
from components.acceptance.request import AcceptRequest
from components.core.errors import DeviceError
from components.jobs.templates import number_objects
from components.kubernetes.manifest import Body

MEMLOCK_DEADLINE_S: Final = 120.0
"""Seconds for a pod that prints one line, its image pull included."""


def collect_evidence(
    request: AcceptRequest, run: int, secrets: Mapping[str, str], folder: Path
) -> Evidence:
    """Run all probes, one after the other, and measure each.

    Args:
        request: What to run.
        run: Number of this run: it is part of the names of what is created.
        secrets: Secret name to value; `kubeconfig` is the text of the kubeconfig, and absent where
            there is no cluster.
        folder: Where the raw logs go.
    """
    folder.mkdir(parents=True, exist_ok=True)
    started = _now()
    kubeconfig = secrets.get("kubeconfig")
    api = KubernetesApi(kubeconfig) if kubeconfig else None
    seen = asyncio.run(_look(request.acceptance, secrets))
    probes, unreachable = asyncio.run(_run_all(api, request.acceptance, run, secrets, folder))
    memlock = _read_memlock(api, request.acceptance, run) if api else {}
    allocatable = _read_allocatable(api, request.acceptance) if api else {}
    return Evidence(
        cluster=request.acceptance.cluster,
        plan_digest=request.plan_digest,
        run=run,
        started_at=started,
        finished_at=_now(),
        provenance=request.provenance,
        limits=request.acceptance.limits,
        probes=tuple(probes),
        unreachable=unreachable,
        memlock=memlock,
        allocatable=allocatable,
        ib=seen,
    )


async def _look(plan: AcceptancePlan, secrets: Mapping[str, str]) -> dict[str, IbFacts]:
    """What each worker sees of InfiniBand, before the first probe."""
    seen = await asyncio.gather(*(look_at_fabric(look, secrets) for look in plan.ib))
    names = (look.endpoint.device for look in plan.ib)
    return dict(zip(names, seen, strict=True))


def _read_allocatable(api: Api, plan: AcceptancePlan) -> dict[str, dict[str, int]]:
    """What each worker offers of the resources that it must; a node that is not there is absent."""
    found: dict[str, dict[str, int]] = {}
    for node, wanted in plan.limits.allocatable.items():
        try:
            body = api.get(f"/api/v1/nodes/{node}") or {}
        except DeviceError:
            continue
        offered = body.get("status", {}).get("allocatable")
        if offered is not None:
            found[node] = {name: int(offered.get(name, 0)) for name in wanted}
    return found


def _read_memlock(api: Api, plan: AcceptancePlan, run: int) -> dict[str, str]:
    """What `ulimit -l` says in a pod of each worker; why it said nothing, where it did not."""
    found: dict[str, str] = {}
    for node, body in zip(plan.workers, number_objects(plan.memlock, run), strict=True):
        ran = _try_probe(api, [body], body, MEMLOCK_DEADLINE_S)
        found[node] = ran.log.strip() or f"no answer: {ran.reason}"
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


async def _run_all(
    api: Api | None, plan: AcceptancePlan, run: int, secrets: Mapping[str, str], folder: Path
) -> tuple[list[ProbeEvidence], tuple[Unreachable, ...]]:
    found: list[ProbeEvidence] = []
    before = await read_snapshot(plan.sources, secrets)
    lost = dict(before.unreachable)
    for number, probe in enumerate(plan.probes):
        begun = time.monotonic()
        if probe.host is not None:
            ran = await run_host_probe(probe.host, secrets)
        else:
            ran = await asyncio.to_thread(_run_one, api, probe, run, plan.timeout_s)
        took_s = time.monotonic() - begun
        after = await read_snapshot(_on_the_way(plan, plan.probes[number : number + 2]), secrets)
        lost |= after.unreachable
        found.append(_evidence(probe, ran, (before, after), folder, took_s))
        before = after
    addresses = {source.endpoint.device: source.endpoint for source in plan.sources}
    return found, tuple(
        Unreachable(
            device=name,
            address=f"{addresses[name].address}:{addresses[name].port}",
            detail=detail.splitlines()[0],
        )
        for name, detail in sorted(lost.items())
    )


def _on_the_way(plan: AcceptancePlan, probes: Sequence[ProbePlan]) -> list[CounterSource]:
    """What to read after a probe, which is before the next one: the hops of both.

    To read every device after every probe would grow with the square of the hosts.
    """
    hops = {(hop.device, hop.interface) for probe in probes for hop in probe.hops}
    found: list[CounterSource] = []
    for source in plan.sources:
        device = source.endpoint.device
        names = tuple(name for name in source.interfaces if (device, name) in hops)
        if names:
            found.append(replace(source, interfaces=names))
    return found


def _run_one(api: Api | None, probe: ProbePlan, run: int, deadline_s: float) -> ProbeRun:
    if api is None or probe.job is None:
        return ProbeRun("", ended=False, succeeded=False, reason="no kubeconfig was handed over")
    objects = number_objects(probe.job.objects, run)
    return _try_probe(api, objects, objects[probe.job.watched], deadline_s)


def _try_probe(api: Api, objects: list[Body], watched: Body, deadline_s: float) -> ProbeRun:
    """Run a probe; a cluster that refuses or does not answer is evidence too."""
    try:
        return run_probe(api, objects, watched, deadline_s=deadline_s)
    except DeviceError as error:
        return ProbeRun("", ended=False, succeeded=False, reason=str(error))


def _evidence(
    probe: ProbePlan,
    ran: ProbeRun,
    snapshots: tuple[Snapshot, Snapshot],
    folder: Path,
    took_s: float,
) -> ProbeEvidence:
    log_file = folder / f"{probe.probe.name}.log"
    log_file.write_text(ran.log)
    base = digest_log(
        probe.probe, ran.log, outcome=_outcome(ran), log_file=f"{folder.name}/{log_file.name}"
    )
    update: dict[str, Any] = {
        "detail": ran.reason,
        "duration_s": round(took_s, 1),
        "command": " ".join(probe.command),
        "hops": tuple(found for hop in probe.hops for found in measure_hops(hop, *snapshots)),
    }
    return base.model_copy(update=update)


def _outcome(ran: ProbeRun) -> Outcome:
    if ran.ended:
        return "completed" if ran.succeeded else "failed"
    return "timed_out" if ran.log else "not_run"
