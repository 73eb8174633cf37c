"""Read every device of a plan at once, without changes, each under its own deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Final

from components.cloud.observe import CloudFacts, observe_cloud, silent_instances
from components.core.errors import DeviceError, HostKeyError
from components.core.key_values import HostState, parse_state
from components.core.record import record
from components.core.templates import fault_text
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable, Watched, asked_of_step
from components.fabric.device import observe_switch
from components.fabric.edit import asked_of_switch
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.state import SwitchState
from components.hypervisor.reboot import explain_refusal
from components.kubernetes.live.look import ClusterLook, look_at_cluster
from components.plan.make import ClusterPlan
from components.remote.host_session import HostAnswer, HostSession, connect_to_host, look_with
from components.remote.sending import TOOL_LACKS
from components.remote.ssh import JumpHosts
from components.remote.step import Endpoint
from components.update.cluster import asked_of_cluster
from components.update.seen import Facts, Seen

AT_ONCE: Final = 32
"""Sessions open at once; a device's deadline starts when its session does."""
Beside = Callable[[Endpoint, HostSession], Awaitable[None]]
"""A further question to a host over the open connection."""
ReadSwitch = Callable[[Endpoint, str, SwitchState, Mapping[str, str]], SwitchState]
"""Reads one switch: its endpoint, its system, the settings to read, and the secrets."""


@record
class Looks:
    """Functions that read the devices."""

    beside: Beside | None = None
    switch: ReadSwitch = observe_switch
    only: frozenset[str] = frozenset()
    """Names of the devices to read, without the cluster; empty for all."""

    def takes(self, device: str) -> bool:
        """Whether to read this device."""
        return not self.only or device in self.only


def observe_site(
    plan: ClusterPlan, secrets: Mapping[str, str], applied: Applied, looks: Looks | None = None
) -> Seen:
    """Read the cloud, then every switch, every watched device and the cluster at once.

    `applied` has the addresses of cloud instances; those that are gone or stopped stay unread.
    `looks` are functions that read devices; the default is that of an update.
    """
    cloud = observe_cloud(plan.cloud, applied, secrets) if plan.cloud else Seen().cloud
    # The caller may be in an event loop already, as the Pulumi program is.
    with ThreadPoolExecutor(max_workers=1) as pool:
        looking = _observe_all(plan, secrets, applied, cloud, looks or Looks())
        devices, cluster = pool.submit(asyncio.run, looking).result()
        return Seen(devices, cloud, cluster)


async def _observe_all(
    plan: ClusterPlan, secrets: Mapping[str, str], applied: Applied, cloud: CloudFacts, how: Looks
) -> tuple[dict[str, Facts], ClusterLook | Unreachable | None]:
    def read_switch(switch: SwitchPlan) -> Facts:
        asked = asked_of_switch(switch, applied)
        try:
            return how.switch(switch.endpoint, switch.os, asked, secrets)
        except DeviceError as error:
            return Unreachable(str(error), isinstance(error, HostKeyError))

    known = applied.instances

    def read_cluster() -> ClusterLook | Unreachable | None:
        asked = None if how.only else asked_of_cluster(plan, applied, secrets)
        if asked is None or plan.acceptance.access is None:
            return None
        found = look_at_cluster(plan.acceptance.access.known(known), secrets, asked)
        return found or Unreachable("no server has a kubeconfig: K3s did not start on any server")

    silent = silent_instances(plan.cloud, cloud) if plan.cloud else frozenset[str]()
    chosen = [switch for switch in plan.switches if how.takes(switch.name)]
    switches = [asyncio.to_thread(read_switch, each) for each in chosen]
    by_host: dict[Endpoint, list[_Look]] = {}
    for watched in (each.known(known) for each in plan.watched):
        end = watched.step.endpoint
        if end.reachable and end.device not in silent and how.takes(end.device):
            look = _Look(watched, asked_of_step(watched, applied), plan.look_s)
            by_host.setdefault(end, []).append(look)
    slots = asyncio.Semaphore(AT_ONCE)
    async with aclosing(JumpHosts(secrets)) as jumps:
        hosts = [_host(end, own, secrets, jumps, slots, how.beside) for end, own in by_host.items()]
        facts, found, cluster = await asyncio.gather(
            asyncio.gather(*switches), asyncio.gather(*hosts), asyncio.to_thread(read_cluster)
        )
    seen = dict(zip((switch.name for switch in chosen), facts, strict=True))
    return seen | {name: each for host in found for name, each in host.items()}, cluster


@record
class _Look:
    """A script to run on a host, and the settings that it reads."""

    watched: Watched
    asked: HostState
    deadline_s: float

    async def run(self, session: HostSession) -> Facts:
        step, call, stdin = self.watched.step, self.watched.observe, self.asked.render_short()
        stdin += self.watched.looks

        def run(command: str) -> Awaitable[HostAnswer]:
            return session.run(command, stdin=stdin, deadline_s=self.deadline_s)

        try:
            answer, lay = await look_with(run, call, self.deadline_s, ash=step.dialect == "ash")
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
    jumps: JumpHosts,
    slots: asyncio.Semaphore,
    beside: Beside | None,
) -> dict[str, Facts]:
    """Read every watched step of one host over one connection."""
    names = [each.watched.device for each in looks]
    try:
        async with slots, connect_to_host(endpoint, secrets, jumps=jumps) as session:
            answers = asyncio.gather(*(each.run(session) for each in looks))
            if beside is not None:
                await beside(endpoint, session)
            facts = await answers
    except DeviceError as error:
        facts = [each.failed(error) for each in looks]
    return dict(zip(names, facts, strict=True))


def refusal_words(endpoint: Endpoint, stderr: str, status: int) -> str:
    """Explain why a reading script failed."""
    if "sudo" in stderr and "password" in stderr:
        return fault_text(__file__, "sudo", where=endpoint.where, user=endpoint.user)
    last = stderr.strip().splitlines()[-1:] or ["no error text"]
    return f"{endpoint.where}: observing ended with status {status}: {last[0]}"
