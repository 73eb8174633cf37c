"""Asking the hosts of an InfiniBand fabric what they see of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from components.acceptance.logs.ib_facts import IbFacts, parse_ib_look
from components.acceptance.probes.ib_limits import IbLook
from components.core.errors import DeviceError
from components.remote.host_session import run_on_host
from components.remote.script import KILL_AFTER_S, render_remote_command

ASK_AGAIN_S: Final = 5.0
"""Seconds between two looks while a standby may be taking over."""


async def look_at_fabric(look: IbLook, secrets: Mapping[str, str]) -> IbFacts:
    """Ask one host; one that does not answer is reported as such.

    Where the file has a standby and no master answers, the host is asked again until the standby
    had the time to take over.
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
