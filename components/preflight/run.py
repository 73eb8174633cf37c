"""Check everything at once: one session per device, each under its own deadline. Read-only."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

from components.artefacts.lock import Lock
from components.artefacts.pin import Reach
from components.artefacts.registry import docker_logins
from components.cloud.cloud_plan import PREFLIGHT_STEP, CloudPlan
from components.cloud.crusoe_api import CloudError
from components.cloud.observe import OBSERVE_PATIENCE
from components.cloud.preflight import look
from components.cloud.request import open_api, previous_of
from components.core.errors import DeviceError, RailyardError
from components.core.key_values import HostState
from components.core.plain_text import has_placeholder
from components.core.problem import Finding
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable
from components.fabric.device import look_at_switch
from components.fabric.parts import Identity
from components.fabric.state import SwitchState
from components.hosts.preview import judge_gpus
from components.kubernetes.kubernetes_plan import plan_request
from components.kubernetes.kubespray.tree import bring_tree, make_environment
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.preflight import artefacts, judge
from components.preflight.cluster import look_at_cluster
from components.preflight.report import Preflight, lack
from components.preflight.wants import HostWants, wants_of
from components.project.engine import HERE
from components.remote.host_session import HostSession
from components.remote.step import Endpoint, env_name, render_remote_command
from components.remote.tools import strip_comments
from components.update.decide import judge_drift, judge_situation
from components.update.observe import Looks, observe_site, refusal_words
from components.update.secrets import secret_names
from components.update.seen import Seen, Situation

CLOUD = "the cloud"
HOST_DEADLINE_S: Final = 180.0
"""Seconds for all questions to one host: two archives over a slow line, and some refused ports."""


def look_at_kubespray(spec: ClusterSpec, project: Path) -> Iterator[Finding]:
    """Check that kubespray can run here: prepare its tree and environment as an update does."""
    if spec.kubespray is None:
        return
    request = plan_request(spec, "")
    source, wanted = request.source, request.wanted
    if source.kind == "path":
        source = replace(source, place=str(project / source.place))
    requirements = str(project / request.requirements)
    for row, make in (
        ("tree", partial(bring_tree, source, wanted.release, wanted.pin, wanted.version)),
        ("environment", partial(make_environment, requirements, request.python)),
    ):
        try:
            make()
        except RailyardError as error:
            words, _, fix = str(error).partition("\n  fix    ")
            fix = fix or "read its error, and run the same command yourself"
            shown = " ".join(words.split())
            yield lack(HERE, f"kubespray-{row}", shown, release=wanted.release, fix=fix)
    if shutil.which("ssh") is None:
        yield lack(HERE, "kubespray-ssh", "not on PATH")


def look_at_cloud(
    plan: CloudPlan | None, secrets: Mapping[str, str], applied: Applied
) -> Iterator[Finding]:
    """Report refusals of an update's first cloud step, in its words, without changes."""
    if plan is None:
        return
    recorded = applied.step(PREFLIGHT_STEP)
    previous = previous_of(recorded.stdout if recorded else "")
    try:
        api = open_api(plan.api, secrets, OBSERVE_PATIENCE)
        lacks = look(api, plan.preflight, previous)
    except CloudError as error:
        # A refusal is an answer: the keys are wrong or lack permission.
        severity = "error" if error.status in {401, 403} else "unreachable"
        yield lack(CLOUD, "cloud-api", " ".join(str(error).split())).rated(severity)
        return
    default = "correct environment.provision, or compare it with the cloud's console"
    for topic, words in lacks:
        actual, _, fix = words.partition(": ")
        yield lack(CLOUD, f"cloud-{topic}", actual, fix=fix or default)


def host_script() -> str:
    """Return the script for a host, as sent."""
    texts = (("components.hosts", "driver_signing.sh"), ("components.preflight", "host.sh"))
    files = (resources.files(room).joinpath("scripts", name) for room, name in texts)
    return "".join(strip_comments(file.read_text("utf-8")) for file in files)


@dataclass(slots=True)
class _Asked:
    """Answers collected while sessions are open."""

    wants: Mapping[str, HostWants]
    secrets: Mapping[str, str] = field(repr=False)
    hosts: dict[str, judge.HostAnswers | Unreachable] = field(default_factory=dict[str, Any])
    switches: dict[str, Identity] = field(default_factory=dict[str, Identity])

    async def ask_host(self, endpoint: Endpoint, session: HostSession) -> None:
        """Ask a host preflight's questions over its open session."""
        if (wants := self.wants.get(endpoint.device)) is None:
            return
        command = render_remote_command(host_script(), HOST_DEADLINE_S)
        asked, begun = wants.render(self.secrets), time.time()
        try:
            answer = await session.run(command, stdin=asked, deadline_s=HOST_DEADLINE_S)
        except DeviceError as error:
            self.hosts[wants.device] = Unreachable(str(error))
            return
        facts = dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line[1:])
        found: judge.HostAnswers | Unreachable = judge.HostAnswers(facts, begun, time.time())
        if answer.exit_status != 0 or facts.get("end") != "yes":
            found = Unreachable(refusal_words(endpoint, answer.stderr, answer.exit_status))
        self.hosts[wants.device] = found

    def read_switch(
        self, endpoint: Endpoint, system: str, desired: SwitchState, secrets: Mapping[str, str]
    ) -> SwitchState:
        """Read a switch and its identity."""
        state, self.switches[endpoint.device] = look_at_switch(endpoint, system, desired, secrets)
        return state


def run_preflight(
    spec: ClusterSpec,
    plan: ClusterPlan,
    secrets: Mapping[str, str],
    applied: Applied,
    project: Path,
    lock: Lock,
) -> Preflight:
    """Report everything that a site lacks; secrets may be missing, and the applied state empty."""
    asked = _Asked(wants_of(spec, plan, lock), secrets)
    reach = Reach(spec, secrets, logins=docker_logins())
    with ThreadPoolExecutor(max_workers=8) as pool:
        looks = Looks(asked.ask_host, asked.read_switch)
        seeing = pool.submit(observe_site, plan, secrets, applied, looks)
        here, fetched = artefacts.look_here, artefacts.fetched_here(reach)
        looked = [pool.submit(here, reach, each, lock, project) for each in fetched]
        others = (
            look_at_cluster(spec, plan, applied, secrets),
            look_at_kubespray(spec, project),
            look_at_cloud(plan.cloud, secrets, applied),
            artefacts.look_at_store(spec.evidence_store, plan.stack, secrets),
        )
        looked += [pool.submit(tuple[Finding, ...], each) for each in others]
        seen, found = seeing.result(), [found for each in looked for found in each.result()]
    ufm = spec.infiniband.ufm if spec.infiniband else None
    managed = (*spec.switches, *((ufm,) if ufm else ()), *spec.hypervisors, *spec.reached)
    devices, drifts = tuple(each.name for each in managed), judge_drift(plan, applied, seen)
    lacking = tuple(name for name in secret_names(spec) if not secrets.get(name))
    ends = (*(each.endpoint for each in plan.switches), *(w.step.endpoint for w in plan.watched))
    # Without a secret there is no login: its absence is the one cause.
    mute = {end.device for end in ends if {*end.secret_names} & {*lacking}}
    judged = tuple(_judge(devices, spec, plan, seen, asked))
    unread = {each.device for each in judged if each.rule in judge.NO_SESSION}
    charts = (f"{each.name} {each.version}" for each in artefacts.charts_without_images(spec, lock))
    findings = (
        *(lack(HERE, "secret", "none", name=name, variable=env_name(name)) for name in lacking),
        *(each for each in judged if each.rule not in judge.LOGINS or each.device not in mute),
        *judge.judge_links(drifts),
        *judge_situation(Situation(spec, plan, applied, seen, drifts), "preflight"),
        *(lack(HERE, "chart-images", f"{chart} is not in the lock") for chart in charts),
        *found,
    )
    unmade = tuple(each.name for each in spec.reached if has_placeholder(each.way.address))
    unmade = tuple(name for name in unmade if name not in seen.devices)
    read = tuple(name for name in devices if name not in {*unmade, *unread})
    no_login = tuple(host.name for host in spec.unreached)
    bgp = tuple(judge.list_neighbors(plan.switches, applied, seen))
    return Preflight(spec.name, read, tuple(dict.fromkeys(findings)), unmade, no_login, bgp)


def _judge(
    devices: tuple[str, ...], spec: ClusterSpec, plan: ClusterPlan, seen: Seen, asked: _Asked
) -> Iterator[Finding]:
    """Judge each device; report an unread device only as such."""
    hypervisors = {each.name: each for each in plan.hypervisors}
    hosts = {each.name: each for each in plan.hosts}
    switches = {each.name: each for each in spec.switches}
    ufm = spec.infiniband.ufm if spec.infiniband else None
    for name in devices:
        facts, identity = seen.devices.get(name), asked.switches.get(name)
        answers = facts if isinstance(facts, Unreachable) else asked.hosts.get(name)
        settings = facts.values if isinstance(facts, HostState) else {}
        if isinstance(answers, Unreachable):
            yield judge.judge_session(name, answers)
        elif name in hypervisors:
            yield from judge.judge_hypervisor(hypervisors[name], settings)
        elif answers is not None:
            yield from judge.judge_host(asked.wants[name], answers)
            yield from judge.judge_files(hosts[name], answers.facts)
            if not spec.hypervisors:  # GPUs of a guest appear with its first update
                yield from judge_gpus(name, asked.wants[name].gpus, settings)
        elif identity is not None and name in switches:
            yield from judge.judge_switch(switches[name], identity)
        elif identity is not None and ufm is not None:
            yield from judge.judge_ufm(ufm, identity)
