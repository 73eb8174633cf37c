"""`railyard device run LINE`: one step on a host by our own SSH client, in place of the provider's.

It runs the same line with the same stdin as `command.remote.Command` would. What is needed beside
them comes by the environment: the endpoint in clear, its secrets as secrets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from pydantic import TypeAdapter

from components.core.errors import UnreachableError
from components.remote.host_session import HostAnswer, connect_to_host
from components.remote.request import read_request
from components.remote.script import KILL_AFTER_S
from components.remote.step import ENDPOINT_VARIABLE, Endpoint, secrets_for

ATTEMPTS: Final = 4
"""Logins until a host counts as unreachable: an sshd that just started, or has many logins under
way, drops one now and then."""
PAUSE_S: Final = 2.0
_ENDPOINT: Final = TypeAdapter(Endpoint)


def run_line(line: str, stdin: str, deadline_s: float, environ: Mapping[str, str]) -> HostAnswer:
    """Run one line on the host that the environment names.

    Args:
        line: Text for its login shell.
        stdin: What the line reads.
        deadline_s: Seconds after which the line ends itself there.
        environ: Has the endpoint, and its secrets.

    Raises:
        UsageError: Something is missing in the environment.
        DeviceError: The host is not reached, or refuses.
    """
    endpoint = read_request(_ENDPOINT, environ.get(ENDPOINT_VARIABLE, ""), ENDPOINT_VARIABLE)
    secrets = secrets_for(endpoint, environ)
    return asyncio.run(_run(endpoint, secrets, line, stdin, deadline_s + 2 * KILL_AFTER_S))


async def _run(
    endpoint: Endpoint, secrets: Mapping[str, str], line: str, stdin: str, deadline_s: float
) -> HostAnswer:
    for attempt in range(ATTEMPTS):
        connected = False
        try:
            async with connect_to_host(endpoint, secrets) as session:
                connected = True
                return await session.run(line, stdin=stdin, deadline_s=deadline_s)
        except UnreachableError:
            if connected or attempt == ATTEMPTS - 1:  # what was begun is not begun again
                raise
        await asyncio.sleep(PAUSE_S)
    raise AssertionError("the last attempt returns or raises")
