"""Run a verb of a tool from this machine: as it lies on the host, else sent for this one run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from components.remote.host_runs import Run
from components.remote.host_session import HostAnswer
from components.remote.script import TOOL_MISSING, render_call, render_sent_call
from components.remote.step import Endpoint
from components.remote.tools import ToolCall


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
