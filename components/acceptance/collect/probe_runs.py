"""Running the probes of one run, one after the other, and measuring what each moved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from components.acceptance.collect.cluster_jobs import Absent, ProbeRun, run_probe
from components.acceptance.collect.counters import (
    Snapshot,
    lost_on_way,
    measure_hops,
    read_snapshot,
)
from components.acceptance.collect.turn import Turn
from components.acceptance.collect.waits import Api
from components.acceptance.digest import digest_log
from components.acceptance.evidence import Outcome, ProbeEvidence, Unreachable
from components.acceptance.plan import AcceptancePlan, CounterSource, ProbePlan
from components.acceptance.probes.on_hosts import HostCommand, HostProbe
from components.acceptance.report.archive import label_of
from components.core.errors import DeviceError
from components.core.limits import LOG_BYTES
from components.jobs.templates import number_objects
from components.kubernetes.manifest import Body
from components.remote.host_session import HostAnswer, run_on_host
from components.remote.script import KILL_AFTER_S, render_remote_command


@dataclass(frozen=True, slots=True)
class Round:
    """One run: what is proven, with what, and where the logs go."""

    plan: AcceptancePlan
    api: Api | None
    number: int
    secrets: Mapping[str, str]
    folder: Path
    turn: Turn
    proven: Mapping[str, str]
    """Label of a probe to the date of its last proof."""


async def run_all(this: Round) -> tuple[list[ProbeEvidence], tuple[Unreachable, ...]]:
    """Run what may run now, and say of the rest why not."""
    this = replace(this, plan=_with_networks(this.plan))
    found: list[ProbeEvidence] = []
    before: Snapshot | None = None
    lost: dict[str, str] = {}
    probes = _in_order(this)
    for number, probe in enumerate(probes):
        objects = number_objects(probe.job.objects, this.number) if probe.job else []
        why = await asyncio.to_thread(this.turn.why_skipped, probe, objects)
        if why:
            found.append(_skipped(this, probe, why))
            before = None
            continue
        if before is None:  # the first reading is of all devices, so that a lost one is named
            sources = _on_the_way(this.plan, [probe]) if lost or found else this.plan.sources
            before = await read_snapshot(sources, this.secrets)
            lost |= before.unreachable
        begun = time.monotonic()
        ran = await _run(this, probe, objects)
        took_s = time.monotonic() - begun
        after = await read_snapshot(
            _on_the_way(this.plan, probes[number : number + 2]), this.secrets
        )
        lost |= after.unreachable
        taken = "" if ran.ended else await asyncio.to_thread(this.turn.is_busy_now, objects)
        if taken:
            found.append(_skipped(this, probe, taken))
            before = after
            continue
        item = _evidence(this, probe, ran, (before, after), took_s)
        this.turn.learn(item)
        found.append(item)
        before = after
    return found, _unreachable(this.plan, lost)


def _with_networks(plan: AcceptancePlan) -> AcceptancePlan:
    """Each routed switch with what all of them announce."""
    known = {"networks": plan.networks}
    sources = (
        replace(each, links=each.links.model_copy(update=known)) if each.links else each
        for each in plan.sources
    )
    return replace(plan, sources=tuple(sources))


def _in_order(this: Round) -> tuple[ProbePlan, ...]:
    """As planned; with a time budget, what was proven longest ago goes first, after the images."""
    probes = this.plan.probes
    if this.plan.policy.time_budget_s is not None:
        oldest_first = sorted(probes, key=lambda each: this.proven.get(label_of(each.probe), ""))
        probes = tuple(oldest_first)
    return (*this.plan.images, *probes)


def _skipped(this: Round, probe: ProbePlan, why: str) -> ProbeEvidence:
    return ProbeEvidence(
        probe=probe.probe,
        outcome="skipped",
        detail=why,
        command=" ".join(probe.command),
        proven_at=this.proven.get(label_of(probe.probe), ""),
    )


def _unreachable(plan: AcceptancePlan, lost: Mapping[str, str]) -> tuple[Unreachable, ...]:
    addresses = {source.endpoint.device: source.endpoint for source in plan.sources}
    return tuple(
        Unreachable(
            device=name,
            address=f"{addresses[name].address}:{addresses[name].port}",
            detail=detail.splitlines()[0],
        )
        for name, detail in sorted(lost.items())
    )


async def _run(this: Round, probe: ProbePlan, objects: list[Body]) -> ProbeRun:
    if probe.host is not None:
        return await run_host_probe(probe.host, this.secrets)
    return await asyncio.to_thread(_run_job, this, probe, objects)


def _run_job(this: Round, probe: ProbePlan, objects: list[Body]) -> ProbeRun:
    if this.api is None or probe.job is None:
        return ProbeRun("", ended=False, succeeded=False, reason="the site has no cluster")
    if isinstance(this.api, Absent):
        return ProbeRun("", ended=False, succeeded=False, reason=this.api.why)
    broken = this.turn.hindrance(objects)
    if broken is not None and broken.kind == "broken":
        return ProbeRun("", ended=False, succeeded=False, reason=broken.reason)
    watched = objects[probe.job.watched]
    return try_probe(this.api, objects, watched, this.plan.timeout_s)


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


def try_probe(api: Api, objects: list[Body], watched: Body, deadline_s: float) -> ProbeRun:
    """Run a probe; a cluster that refuses or does not answer is evidence too."""
    try:
        return run_probe(api, objects, watched, deadline_s=deadline_s)
    except DeviceError as error:
        return ProbeRun("", ended=False, succeeded=False, reason=str(error))


def _evidence(
    this: Round,
    probe: ProbePlan,
    ran: ProbeRun,
    snapshots: tuple[Snapshot, Snapshot],
    took_s: float,
) -> ProbeEvidence:
    folder = this.folder
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
        "routing": lost_on_way(probe.hops, snapshots[1]),
    }
    return base.model_copy(update=update)


def _outcome(ran: ProbeRun) -> Outcome:
    if ran.ended:
        return "completed" if ran.succeeded else "failed"
    return "timed_out" if ran.log else "not_run"


_TIMED_OUT: Final = (124, 137)
"""Exit status of timeout(1): it sent SIGTERM, or SIGKILL."""


async def run_host_probe(probe: HostProbe, secrets: Mapping[str, str]) -> ProbeRun:
    """Run one probe and give its log; a host's refusal is the reason why a run did not end."""
    if probe.server is None:
        return _as_run(await _try(probe.client, probe.deadline_s, secrets), probe.deadline_s)
    server = asyncio.create_task(_try(probe.server, probe.deadline_s, secrets))
    try:
        ran = _as_run(await _try(probe.client, probe.deadline_s, secrets), probe.deadline_s)
        if ran.succeeded:
            return ran
        reason = f"{ran.reason}; server: {await _last_words(server)}"
        return ProbeRun(ran.log, ended=ran.ended, succeeded=False, reason=reason)
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
        return ProbeRun("", ended=False, succeeded=False, reason=str(answer))
    log = answer.stdout + answer.stderr
    if answer.exit_status in _TIMED_OUT:
        reason = f"no end within {deadline_s:g} s"
        return ProbeRun(log, ended=False, succeeded=False, reason=reason)
    good = answer.exit_status == 0
    reason = "" if good else f"ended with status {answer.exit_status}: {_last_line(log)}"
    return ProbeRun(log, ended=True, succeeded=good, reason=reason)


def _last_line(log: str) -> str:
    return (log.strip().splitlines() or ["it printed nothing"])[-1]


async def _last_words(server: asyncio.Task[HostAnswer | DeviceError]) -> str:
    """What the other end said, if it has ended by now."""
    done, _ = await asyncio.wait({server}, timeout=1)
    if not done:
        return "still waiting for its client"
    answer = server.result()
    return str(answer) if isinstance(answer, DeviceError) else _last_line(answer.stdout)
