"""What an update does on a host, without the engine: its tools first, then the step's own line."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from components.remote.host_session import HostAnswer, HostSession, connect_to_host
from components.remote.lines import read_request
from components.remote.send import Sender
from components.remote.sending import SendRequest, plan_sending
from components.remote.step import RemoteStep, render_step_command
from components.remote.tools import Tool, ToolCall


def sender_of(step: RemoteStep, session: HostSession, sending: RemoteStep | None = None) -> Sender:
    """What sends the tools of one step, from memory.

    Args:
        step: Its tools are sent.
        session: Open session of its host.
        sending: The sending step of the plan; default one for these tools alone.
    """
    planned = sending or plan_sending(step.endpoint, step.tools)
    tools: tuple[Tool, ...] = (*step.tools, *planned.reads)
    texts = {tool.digest: tool.text for tool in tools}
    request = read_request(SendRequest, planned.desired, "request to send tools")
    return Sender(request, session, lambda _name, it: texts[it])


async def run_step(
    session: HostSession,
    step: RemoteStep,
    call: ToolCall,
    stdin: str,
    *,
    sending: RemoteStep | None = None,
) -> HostAnswer:
    """Send what is not there, and run one verb; after an undo that worked, take the tools away.

    Args:
        session: Open session of the step's host.
        step: Its deadline and its name count.
        call: `step.apply`, `step.undo`, or another verb.
        stdin: What the verb reads.
        sending: The sending step of the plan; default one for the tools of the step.
    """
    sender = sender_of(step, session, sending)
    await sender.send()
    command = render_step_command(step, call)
    answer = await session.run(command, stdin=stdin, deadline_s=step.deadline_s)
    if call == step.undo and answer.exit_status == 0:
        await sender.remove()
    return answer


def run_step_on_host(
    step: RemoteStep,
    call: ToolCall,
    stdin: str,
    secrets: Mapping[str, str],
    *,
    sending: RemoteStep | None = None,
    deadline_s: float | None = None,
) -> HostAnswer:
    """The same over a connection of its own."""
    timed = replace(step, deadline_s=deadline_s or step.deadline_s)

    async def run() -> HostAnswer:
        async with connect_to_host(step.endpoint, secrets) as session:
            return await run_step(session, timed, call, stdin, sending=sending)

    return asyncio.run(run())
