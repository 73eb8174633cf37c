"""Look at hosts: one connection each, all at once, read-only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from components.core.errors import DeviceError
from components.hosts.look import HostLook, parse_look
from components.hosts.scripts import discover_text
from components.remote.host_session import connect_to_host
from components.remote.jump import JumpHosts, jump_hosts
from components.remote.script import render_remote_command
from components.remote.step import Endpoint
from components.update.observe import AT_ONCE, refusal_words

LOOK_DEADLINE_S: Final = 60.0
"""Seconds for one host: the look itself is short, reading a card's product data is not always."""


def look_at_hosts(
    endpoints: Sequence[Endpoint], secrets: Mapping[str, str]
) -> tuple[HostLook | DeviceError, ...]:
    """Look at each host, or say why there was nothing to see.

    Args:
        endpoints: The hosts, each with its pinned key and its way.
        secrets: Secret name to value.
    """
    return asyncio.run(_look_at_all(endpoints, secrets))


async def _look_at_all(
    endpoints: Sequence[Endpoint], secrets: Mapping[str, str]
) -> tuple[HostLook | DeviceError, ...]:
    slots = asyncio.Semaphore(AT_ONCE)
    async with jump_hosts(secrets) as jumps:
        looks = [_look_at(each, secrets, jumps, slots) for each in endpoints]
        return tuple(await asyncio.gather(*looks))


async def _look_at(
    endpoint: Endpoint, secrets: Mapping[str, str], jumps: JumpHosts, slots: asyncio.Semaphore
) -> HostLook | DeviceError:
    try:
        async with slots, connect_to_host(endpoint, secrets, jumps=jumps) as session:
            command = render_remote_command(discover_text(), LOOK_DEADLINE_S)
            answer = await session.run(command, deadline_s=LOOK_DEADLINE_S)
    except DeviceError as error:
        return error
    if answer.exit_status != 0:
        return DeviceError(refusal_words(endpoint, answer.stderr, answer.exit_status))
    look = parse_look(answer.stdout.splitlines())
    if not look.seen:
        return DeviceError(f"{endpoint.where} answered nothing that the look knows: is it Linux?")
    return look
