"""Read every device of a plan: read-only, together, each under its own deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from components.drift import Facts, Unreachable
from components.errors import DeviceError, HostKeyError
from components.fabric.device import observe_switch
from components.fabric.plan import SwitchPlan
from components.hosts.plan import HostPlan, observe_script
from components.hosts.state import parse_state
from components.planning import ClusterPlan
from components.remote.host_session import OBSERVE_DEADLINE_S, run_on_host
from components.remote.script import render_remote_command


def observe_site(plan: ClusterPlan, secrets: Mapping[str, str]) -> dict[str, Facts]:
    """Look at every switch and host at once.

    Args:
        plan: What is wanted, and how each device is reached.
        secrets: Secret name to value.

    Returns:
        Device name to what was seen, or to why nothing was seen.
    """
    # The caller may stand in an event loop of its own (the Pulumi program does).
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(lambda: asyncio.run(_observe_all(plan, secrets))).result()


async def _observe_all(plan: ClusterPlan, secrets: Mapping[str, str]) -> dict[str, Facts]:
    switches = [asyncio.to_thread(_switch, switch, secrets) for switch in plan.switches]
    hosts = [_host(host, secrets) for host in plan.hosts]
    facts = await asyncio.gather(*switches, *hosts)
    names = [switch.name for switch in plan.switches] + [host.name for host in plan.hosts]
    return dict(zip(names, facts, strict=True))


def _switch(switch: SwitchPlan, secrets: Mapping[str, str]) -> Facts:
    secret = secrets.get(switch.endpoint.password_secret or "", "")
    try:
        return observe_switch(switch.endpoint, switch.os, switch.desired, secret)
    except DeviceError as error:
        return Unreachable(str(error), isinstance(error, HostKeyError))


async def _host(host: HostPlan, secrets: Mapping[str, str]) -> Facts:
    try:
        answer = await run_on_host(
            host.endpoint,
            secrets.get(host.endpoint.private_key_secret or "", ""),
            render_remote_command(observe_script(), OBSERVE_DEADLINE_S),
            stdin=host.desired.render(),
            deadline_s=OBSERVE_DEADLINE_S,
        )
        if answer.exit_status != 0:
            return Unreachable(_refusal(host, answer.stderr, answer.exit_status))
        return parse_state(answer.stdout)
    except DeviceError as error:
        return Unreachable(str(error), isinstance(error, HostKeyError))


def _refusal(host: HostPlan, stderr: str, status: int) -> str:
    if "sudo" in stderr and "password" in stderr:
        user = host.endpoint.user
        return (
            f"{host.endpoint.where} wants a password for sudo. Add as root, with visudo:\n"
            f"          {user} ALL=(root) NOPASSWD: ALL"
        )
    last = stderr.strip().splitlines()[-1:] or ["no error text"]
    return f"{host.endpoint.where}: observing ended with status {status}: {last[0]}"
