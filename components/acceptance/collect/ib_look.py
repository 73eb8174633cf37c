"""Asking the hosts of an InfiniBand fabric what they see of it."""

from __future__ import annotations

from collections.abc import Mapping

from components.acceptance.logs.ib_facts import IbFacts, parse_ib_look
from components.acceptance.probes.ib_limits import IbLook
from components.core.errors import DeviceError
from components.remote.host_session import run_on_host
from components.remote.script import KILL_AFTER_S, render_remote_command


async def look_at_fabric(look: IbLook, secrets: Mapping[str, str]) -> IbFacts:
    """Ask one host; one that does not answer is reported as such."""
    endpoint = look.endpoint
    try:
        answer = await run_on_host(
            endpoint,
            secrets.get(endpoint.private_key_secret or "", ""),
            render_remote_command(look.script, look.deadline_s),
            deadline_s=look.deadline_s + 2 * KILL_AFTER_S,
        )
    except DeviceError as error:
        return IbFacts(why_nothing=str(error).splitlines()[0])
    if answer.exit_status != 0 and not answer.stdout:
        last = (answer.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        return IbFacts(why_nothing=f"the look ended with status {answer.exit_status}: {last}")
    return parse_ib_look(answer.stdout)
