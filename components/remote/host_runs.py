"""Running commands, and verbs of tools, on the hosts that a request names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from components.remote.host_session import HostAnswer, run_on_host
from components.remote.script import TOOL_MISSING, render_call, render_sent_call
from components.remote.step import Endpoint, secrets_for
from components.remote.tools import ToolCall

Run = Callable[[Endpoint, str, str, float], HostAnswer]
"""Run a command: endpoint, command, stdin, deadline in seconds."""
_GRACE_S: Final = 15.0
"""Seconds beyond a script's own deadline, after which the session is given up."""


def run_on_hosts(endpoints: Iterable[Endpoint], environ: Mapping[str, str]) -> Run:
    """Make what runs commands on these hosts, with their secrets from the environment.

    Raises:
        UsageError: A secret is not in the environment.
    """
    secrets = {endpoint.device: secrets_for(endpoint, environ) for endpoint in endpoints}

    def run(endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        own, given_up_s = secrets[endpoint.device], deadline_s + _GRACE_S
        return asyncio.run(run_on_host(endpoint, own, command, stdin=stdin, deadline_s=given_up_s))

    return run


def run_call(
    run: Run,
    endpoint: Endpoint,
    call: ToolCall,
    stdin: str,
    deadline_s: float,
    *,
    ash: bool = False,
) -> HostAnswer:
    """Run a verb; where the tool is missing or altered, its text travels with this run.

    Args:
        run: How commands are run on the host.
        endpoint: The host.
        call: Tool and verb.
        stdin: `key=value` lines.
        deadline_s: Seconds after which it is ended there.
        ash: It is an ESXi host.
    """
    answer = run(endpoint, render_call(call, deadline_s, ash=ash), stdin, deadline_s)
    if answer.exit_status != TOOL_MISSING:
        return answer
    return run(endpoint, render_sent_call(call, deadline_s, ash=ash), stdin, deadline_s)


async def look_with(
    run: Callable[[str], Awaitable[HostAnswer]],
    call: ToolCall,
    deadline_s: float,
    *,
    ash: bool = False,
) -> tuple[HostAnswer, bool]:
    """The same on an open session.

    Returns:
        The answer, and whether the tool lay on the host.
    """
    answer = await run(render_call(call, deadline_s, ash=ash))
    if answer.exit_status != TOOL_MISSING:
        return answer, True
    return await run(render_sent_call(call, deadline_s, ash=ash)), False
