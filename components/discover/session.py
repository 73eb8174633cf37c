"""Look at hosts: one connection each, all at once, read-only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from components.core.errors import DeviceError
from components.hosts.look import HostLook, parse_look
from components.hosts.scripts import discover_text
from components.remote.host_session import run_on_host
from components.remote.script import render_remote_command
from components.remote.step import Endpoint
from components.update.observe import AT_ONCE, refusal_words

LOOK_DEADLINE_S: Final = 60.0
"""Seconds for one host: the look itself is short, reading a card's product data is not always."""


def look_at_hosts(
    endpoints: Sequence[Endpoint], private_keys: Mapping[str, str]
) -> tuple[HostLook | DeviceError, ...]:
    """Look at each host, or say why there was nothing to see.

    Args:
        endpoints: The hosts, each with its pinned key.
        private_keys: Secret name to the client's key in OpenSSH form.
    """
    return asyncio.run(_look_at_all(endpoints, private_keys))


async def _look_at_all(
    endpoints: Sequence[Endpoint], private_keys: Mapping[str, str]
) -> tuple[HostLook | DeviceError, ...]:
    slots = asyncio.Semaphore(AT_ONCE)
    looks = [_look_at(each, private_keys, slots) for each in endpoints]
    return tuple(await asyncio.gather(*looks))


async def _look_at(
    endpoint: Endpoint, private_keys: Mapping[str, str], slots: asyncio.Semaphore
) -> HostLook | DeviceError:
    try:
        async with slots:
            answer = await run_on_host(
                endpoint,
                private_keys.get(endpoint.private_key_secret or "", ""),
                render_remote_command(discover_text(), LOOK_DEADLINE_S),
                deadline_s=LOOK_DEADLINE_S,
            )
    except DeviceError as error:
        return error
    if answer.exit_status != 0:
        return DeviceError(refusal_words(endpoint, answer.stderr, answer.exit_status))
    look = parse_look(answer.stdout.splitlines())
    if not look.seen:
        return DeviceError(f"{endpoint.where} answered nothing that the look knows: is it Linux?")
    return look
