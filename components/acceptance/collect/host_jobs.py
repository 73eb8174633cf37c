"""Running the probes of hosts without a cluster, over one SSH connection each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from components.acceptance.collect.cluster_jobs import ProbeRun
from components.acceptance.probes.on_hosts import HostCommand, HostProbe
from components.core.errors import DeviceError
from components.core.limits import LOG_BYTES
from components.remote.host_session import HostAnswer, run_on_host
from components.remote.script import KILL_AFTER_S, render_remote_command

_TIMED_OUT: Final = (124, 137)
"""Exit status of timeout(1): it sent SIGTERM, or SIGKILL."""


async def run_host_probe(probe: HostProbe, secrets: Mapping[str, str]) -> ProbeRun:
    """Run one probe and give its log; what a host refused is the reason of a run that did not end.

    Args:
        probe: From `plan_payload_probes`.
        secrets: Secret name to value: the hosts' private keys.
    """
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
