"""Running commands on the hosts that a request names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from components.core.errors import UsageError
from components.remote.host_session import HostAnswer, run_on_host
from components.remote.step import Endpoint, env_name

Run = Callable[[Endpoint, str, str, float], HostAnswer]
"""Run a command: endpoint, command, stdin, deadline in seconds."""
_GRACE_S: Final = 15.0
"""Seconds beyond a script's own deadline, after which the session is given up."""


def run_with_keys(endpoints: Iterable[Endpoint], environ: Mapping[str, str]) -> Run:
    """Make what runs commands on these hosts, with their private keys from the environment.

    Raises:
        UsageError: A key is not in the environment.
    """
    keys = {endpoint.device: private_key(endpoint, environ) for endpoint in endpoints}

    def run(endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        key, given_up_s = keys[endpoint.device], deadline_s + _GRACE_S
        return asyncio.run(run_on_host(endpoint, key, command, stdin=stdin, deadline_s=given_up_s))

    return run


def private_key(endpoint: Endpoint, environ: Mapping[str, str]) -> str:
    """The private key of a host's user, from the environment.

    Raises:
        UsageError: It is not there.
    """
    name = env_name(endpoint.private_key_secret or "")
    if not endpoint.private_key_secret or name not in environ:
        raise UsageError(
            f"{endpoint.where}: no private key: set {name} in the environment, or `private_key` in"
            " the site file"
        )
    return environ[name]
