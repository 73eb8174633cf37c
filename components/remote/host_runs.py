"""Running commands on the hosts that a request names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from components.remote.host_session import HostAnswer, run_on_host
from components.remote.step import Endpoint, secrets_for

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
