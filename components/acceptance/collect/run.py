"""The work of `railyard evidence collect`: probes, counters of every hop, evidence as JSON.

It always succeeds; the evidence records failed runs and readings. The gate judges them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from components.acceptance.acceptance_plan import AcceptancePlan
from components.acceptance.collect.cluster_jobs import (
    Absent,
    KubernetesApi,
    PodList,
    lend_class,
)
from components.acceptance.collect.probe_runs import (
    Round,
    numbered_objects,
    run_all,
    try_probe,
)
from components.acceptance.collect.turn import PROGRESS, Hindrance, Turn
from components.acceptance.collect.waits import Api, Patience
from components.acceptance.evidence import MAX_AGE_DAYS, Evidence, LeftOut
from components.acceptance.handover import AcceptRequest
from components.acceptance.logs.ib_facts import IbFacts, parse_ib_look
from components.acceptance.probes.ib_limits import IbLook
from components.acceptance.probes.suites import AT_ONCE
from components.acceptance.report.archive import (
    label_of,
    last_proofs,
    read_foreign_settings,
    subjects_of,
)
from components.core.errors import DeviceError, UsageError
from components.kubernetes.client import read_kubeconfig
from components.kubernetes.manifest import Body
from components.kubernetes.planes.base import ClusterRef
from components.remote.host_session import run_on_host, run_on_hosts
from components.remote.step import KILL_AFTER_S, env_name, render_remote_command

ASK_AGAIN_S: Final = 5.0
"""Seconds between two questions while a standby may be taking over."""


async def look_at_fabric(look: IbLook, secrets: Mapping[str, str]) -> IbFacts:
    """Ask one host; one that does not answer is reported as such.

    If the file has a standby and no master answers, ask the host again until the standby had time
    to take over.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + look.takeover_s
    seen = await _look_once(look, secrets)
    while seen.lacks_master and loop.time() + ASK_AGAIN_S < deadline:
        await asyncio.sleep(ASK_AGAIN_S)
        seen = await _look_once(look, secrets)
    return seen


async def _look_once(look: IbLook, secrets: Mapping[str, str]) -> IbFacts:
    endpoint = look.endpoint
    try:
        answer = await run_on_host(
            endpoint,
            secrets,
            render_remote_command(look.script, look.deadline_s),
            deadline_s=look.deadline_s + 2 * KILL_AFTER_S,
        )
    except DeviceError as error:
        return IbFacts(why_nothing=str(error).splitlines()[0])
    if answer.exit_status != 0 and not answer.stdout:
        last = (answer.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        return IbFacts(why_nothing=f"the look ended with status {answer.exit_status}: {last}")
    return parse_ib_look(answer.stdout)


MEMLOCK_DEADLINE_S: Final = 120.0
"""Seconds for a pod that prints one line, its image pull included."""


def collect_evidence(
    request: AcceptRequest, run: int, secrets: Mapping[str, str], folder: Path
) -> Evidence:
    """Run all probes, and measure each.

    Args:
        request: What to run.
        run: Number of this run: a part of each created object's name.
        secrets: Secret name to value; among them the kubeconfig of an existing cluster.
        folder: The folder for the raw logs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    started = _now()
    plan = request.acceptance
    asked = plan.policy.asked
    api = open_cluster(plan.access, secrets) if asked else None
    api = api if api is None or isinstance(api, Absent) else PodList(api)
    turn = Turn(plan.policy, api, progress=folder / PROGRESS, probes=plan.probes)
    proven = _last_proofs(request, run)
    seen = asyncio.run(_look(plan, secrets)) if asked else {}
    classes = lend_class(api, f"{plan.cluster}-acceptance-{run}") if api else nullcontext(("", ""))
    with classes as (name, how):
        this = Round(plan, api, run, secrets, folder, turn, proven, request.provenance, name)
        probes, unreachable = asyncio.run(run_all(this))
        memlock = _read_memlock(this, api) if api and asked else {}
    allocatable = _read_allocatable(api, plan) if api and asked else {}
    found = Evidence(
        cluster=plan.cluster,
        plan_digest=request.plan_digest,
        run=run,
        started_at=started,
        finished_at=_now(),
        provenance=request.provenance,
        limits=plan.limits,
        probes=tuple(probes),
        unreachable=unreachable,
        memlock=memlock,
        allocatable=allocatable,
        ib=seen,
        beside=read_foreign_settings(request.stack, run),
        facts={"priority of the probes' pods": how} if how else {},
    )
    return found.model_copy(update=_not_asked(plan, proven))


def _not_asked(plan: AcceptancePlan, proven: Mapping[str, str]) -> dict[str, object]:
    """The parts that this run leaves out, and the date of each one's last proof."""
    places = (place for each in plan.left_out for place in subjects_of(each)[1:])
    return {
        "when_busy": plan.policy.when_busy,
        "scope": plan.policy.scope,
        "max_age_days": plan.policy.max_age_days or MAX_AGE_DAYS,
        "left_out": tuple(
            LeftOut(name=label_of(each), proven_at=proven.get(label_of(each), ""))
            for each in plan.left_out
        ),
        "places_left_out": tuple(dict.fromkeys(places)),
        "last_proofs": dict(proven),
    }


def _last_proofs(request: AcceptRequest, run: int) -> dict[str, str]:
    """The dates at which earlier runs proved the site's hosts, rails and links."""
    plan = request.acceptance
    probes = (*(each.probe for each in plan.probes), *plan.left_out)
    wanted = {subject for probe in probes for subject in subjects_of(probe)}
    return last_proofs(request.stack, run, wanted)


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


def _read_allocatable(api: Api, plan: AcceptancePlan) -> dict[str, dict[str, int]]:
    """Read which of the expected resources each worker offers; a missing node is left out."""
    found: dict[str, dict[str, int]] = {}
    for node, wanted in plan.limits.allocatable.items():
        try:
            body = api.get(f"/api/v1/nodes/{plan.nodes.get(node, node)}") or {}
        except DeviceError:
            continue
        offered = body.get("status", {}).get("allocatable")
        if offered is not None:
            found[node] = {name: int(offered.get(name, 0)) for name in wanted}
    return found


def _read_memlock(this: Round, api: Api) -> dict[str, str]:
    """The output of `ulimit -l` in a pod of each worker; if a pod gave no answer, the reason.

    A node that an administrator closed to pods is not asked.
    """
    bodies = numbered_objects(this, this.plan.memlock)

    def ask(body: Body, hindered: Hindrance | None) -> str | None:
        if hindered is not None:
            return None if hindered.kind == "closed" else f"no answer: {hindered.reason}"
        ran = try_probe(api, [body], body, MEMLOCK_DEADLINE_S, Patience(this.place_s))
        return ran.log.strip() or f"no answer: {ran.reason}"

    hindrances = [this.turn.hindrance([body], "memlock") for body in bodies]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = zip(this.plan.workers, pool.map(ask, bodies, hindrances), strict=True)
        found = {node: text for node, text in said if text is not None}
    (this.folder / PROGRESS).unlink(missing_ok=True)
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
