"""Read every device of a plan: read-only, together, each under its own deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from components.cloud.observe import CloudFacts, observe_cloud, silent_instances
from components.core.errors import DeviceError, HostKeyError
from components.core.key_values import HostState, parse_state
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable, asked_of_step
from components.drift.watched import Watched
from components.fabric.device import observe_switch
from components.fabric.drift import asked_of_switch
from components.fabric.plan import SwitchPlan
from components.hypervisor.access import explain_refusal
from components.plan.make import ClusterPlan
from components.remote.host_session import HostAnswer, HostSession, connect_to_host
from components.remote.sending import TOOL_LACKS
from components.remote.step import OBSERVE_DEADLINE_S, Endpoint
from components.remote.tool_runs import look_with
from components.update.seen import Facts, Seen

AT_ONCE: Final = 32
"""Sessions that are open together: a deadline counts from a device's own turn."""


def observe_site(plan: ClusterPlan, secrets: Mapping[str, str], applied: Applied) -> Seen:
    """Look at the cloud, then at every switch and every watched device at once.

    Args:
        plan: What is wanted, and how each device is reached.
        secrets: Secret name to value.
        applied: What was last applied: it says where the instances of a cloud are.

    Returns:
        What was seen, or why nothing was seen; an instance that is gone or stopped is
        not read.
    """
    cloud = observe_cloud(plan.cloud, applied, secrets) if plan.cloud else Seen().cloud
    # The caller may stand in an event loop of its own (the Pulumi program does).
    with ThreadPoolExecutor(max_workers=1) as pool:
        looking = _observe_all(plan, secrets, applied, cloud)
        return Seen(pool.submit(asyncio.run, looking).result(), cloud)


async def _observe_all(
    plan: ClusterPlan,
    secrets: Mapping[str, str],
    applied: Applied,
    cloud: CloudFacts,
) -> dict[str, Facts]:
    silent = silent_instances(plan.cloud, cloud) if plan.cloud else frozenset[str]()
    switches = [asyncio.to_thread(_switch, switch, secrets, applied) for switch in plan.switches]
    known = applied.instances
    there = [each.known(known) for each in plan.watched]
    there = [
        each
        for each in there
        if each.step.endpoint.reachable and each.step.endpoint.device not in silent
    ]
    slots = asyncio.Semaphore(AT_ONCE)
    looks = [_Look(each, asked_of_step(each, applied)) for each in there]
    by_host: dict[Endpoint, list[_Look]] = {}
    for each in looks:
        by_host.setdefault(each.watched.step.endpoint, []).append(each)
    hosts = [_host(endpoint, each, secrets, slots) for endpoint, each in by_host.items()]
    facts, found = await asyncio.gather(asyncio.gather(*switches), asyncio.gather(*hosts))
    seen = dict(zip((switch.name for switch in plan.switches), facts, strict=True))
    return {**seen, **{name: each for host in found for name, each in host.items()}}


def _switch(switch: SwitchPlan, secrets: Mapping[str, str], applied: Applied) -> Facts:
    secret = secrets.get(switch.endpoint.password_secret or "", "")
    asked = asked_of_switch(switch.step, switch.desired, applied)
    try:
        return observe_switch(switch.endpoint, switch.os, asked, secret)
    except DeviceError as error:
        return Unreachable(str(error), isinstance(error, HostKeyError))


@dataclass(frozen=True, slots=True)
class _Look:
    """One script to run on a host, and the settings that it is asked for."""

    watched: Watched
    asked: HostState

    async def run(self, session: HostSession) -> Facts:
        step, call, stdin = self.watched.step, self.watched.observe, self.asked.render()
        stdin += self.watched.looks

        def run(command: str) -> Awaitable[HostAnswer]:
            return session.run(command, stdin=stdin, deadline_s=OBSERVE_DEADLINE_S)

        try:
            answer, lay = await look_with(run, call, OBSERVE_DEADLINE_S, ash=step.dialect == "ash")
            if answer.exit_status != 0:
                return Unreachable(refusal_words(step.endpoint, answer.stderr, answer.exit_status))
            seen = parse_state(answer.stdout)
        except DeviceError as error:
            return self.failed(error)
        return seen if lay else HostState({**seen.values, f"{TOOL_LACKS}{call.tool.digest}": "yes"})

    def failed(self, error: DeviceError) -> Unreachable:
        words = explain_refusal(error) if self.watched.step.dialect == "ash" else str(error)
        return Unreachable(words, isinstance(error, HostKeyError))


async def _host(
    endpoint: Endpoint,
    looks: Sequence[_Look],
    secrets: Mapping[str, str],
    slots: asyncio.Semaphore,
) -> dict[str, Facts]:
    """All that is watched on one host, over one connection."""
    key = secrets.get(endpoint.private_key_secret or "", "")
    names = [each.watched.device for each in looks]
    try:
        async with slots, connect_to_host(endpoint, key) as session:
            facts = await asyncio.gather(*(each.run(session) for each in looks))
    except DeviceError as error:
        facts = [each.failed(error) for each in looks]
    return dict(zip(names, facts, strict=True))


def refusal_words(endpoint: Endpoint, stderr: str, status: int) -> str:
    """Why a script that only looks ended with an error."""
    if "sudo" in stderr and "password" in stderr:
        return (
            f"{endpoint.where} wants a password for sudo. Add as root, with visudo:\n"
            f"          {endpoint.user} ALL=(root) NOPASSWD: ALL"
        )
    last = stderr.strip().splitlines()[-1:] or ["no error text"]
    return f"{endpoint.where}: observing ended with status {status}: {last[0]}"
