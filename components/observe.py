"""Read every device of a plan: read-only, together, each under its own deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from components.applied import Applied
from components.cloud.observe import CloudFacts, observe_cloud, silent_instances
from components.drift import Facts, Unreachable, asked_of_step, asked_of_switch
from components.errors import DeviceError, HostKeyError
from components.fabric.device import observe_switch
from components.fabric.plan import SwitchPlan
from components.hosts.state import HostState, parse_state
from components.hosts.watched import Watched
from components.hypervisor.access import explain_refusal
from components.planning import ClusterPlan
from components.remote.host_session import OBSERVE_DEADLINE_S, run_on_host
from components.remote.script import render_step_command
from components.remote.step import Endpoint
from components.seen import Seen

AT_ONCE: Final = 32
"""Sessions that are open together: a deadline counts from a device's own turn."""


def observe_site(plan: ClusterPlan, secrets: Mapping[str, str], applied: Applied) -> Seen:
    """Look at the cloud, then at every switch and every watched device at once.

    Args:
        plan: What is wanted, and how each device is reached.
        secrets: Secret name to value.
        applied: What was last applied: it says where the instances of a cloud are.

    Returns:
        What was seen, or why nothing was seen; nobody looks at an instance that is gone or
        stopped.
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
    watched = [_watched(each, asked_of_step(each, applied), secrets, slots) for each in there]
    facts = await asyncio.gather(*switches, *watched)
    names = [switch.name for switch in plan.switches] + [each.device for each in there]
    return dict(zip(names, facts, strict=True))


def _switch(switch: SwitchPlan, secrets: Mapping[str, str], applied: Applied) -> Facts:
    secret = secrets.get(switch.endpoint.password_secret or "", "")
    asked = asked_of_switch(switch.step, switch.desired, applied)
    try:
        return observe_switch(switch.endpoint, switch.os, asked, secret)
    except DeviceError as error:
        return Unreachable(str(error), isinstance(error, HostKeyError))


async def _watched(
    watched: Watched, asked: HostState, secrets: Mapping[str, str], slots: asyncio.Semaphore
) -> Facts:
    endpoint = watched.step.endpoint
    look = replace(watched.step, deadline_s=OBSERVE_DEADLINE_S)
    try:
        async with slots:
            answer = await run_on_host(
                endpoint,
                secrets.get(endpoint.private_key_secret or "", ""),
                render_step_command(look, watched.observe),
                stdin=asked.render(),
                deadline_s=OBSERVE_DEADLINE_S,
            )
        if answer.exit_status != 0:
            return Unreachable(_refusal(endpoint, answer.stderr, answer.exit_status))
        return parse_state(answer.stdout)
    except DeviceError as error:
        words = explain_refusal(error) if watched.step.dialect == "ash" else str(error)
        return Unreachable(words, isinstance(error, HostKeyError))


def _refusal(endpoint: Endpoint, stderr: str, status: int) -> str:
    if "sudo" in stderr and "password" in stderr:
        return (
            f"{endpoint.where} wants a password for sudo. Add as root, with visudo:\n"
            f"          {endpoint.user} ALL=(root) NOPASSWD: ALL"
        )
    last = stderr.strip().splitlines()[-1:] or ["no error text"]
    return f"{endpoint.where}: observing ended with status {status}: {last[0]}"
