"""How an SSH client of paramiko logs in to a switch: keys, the agent, and jump hosts."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final

from paramiko import (
    Agent,
    Channel,
    ECDSAKey,
    Ed25519Key,
    PKey,
    RSAKey,
    SSHClient,
    SSHException,
)
from paramiko.hostkeys import HostKeyEntry

from components.core.errors import Bug, DeviceError, SpecError, UnreachableError
from components.remote.agent import AGENT, agent_path, no_agent, no_identity
from components.remote.step import Endpoint
from components.remote.switch_errors import classified

CONNECT_S: Final = 10.0
"""To open a TCP connection and log in: a switch that is up answers in about one second."""
_KINDS: Final = (("ssh-ed25519", Ed25519Key), ("ecdsa-", ECDSAKey), ("ssh-rsa", RSAKey))


def known_name(endpoint: Endpoint) -> str:
    """The name of a device in a file of known hosts.

    Raises:
        SpecError: No host key is pinned.
    """
    if not endpoint.host_key.strip():
        raise SpecError(f"{endpoint.where}: no host key is pinned; without it nothing connects")
    return endpoint.address if endpoint.port == 22 else f"[{endpoint.address}]:{endpoint.port}"  # noqa: PLR2004 - SSH's default port, as known_hosts writes it


def credentials(endpoint: Endpoint, secrets: Mapping[str, str]) -> dict[str, Any]:
    """With what paramiko logs in: a password, a key, or the keys of the agent.

    Raises:
        DeviceError: The secret is no key, its passphrase is wrong, or there is no agent with a key.
    """
    if endpoint.agent:
        _demand_identity(endpoint)
        return {"allow_agent": True}
    if endpoint.private_key_secret:
        return {"pkey": _paramiko_key(endpoint, secrets), "allow_agent": False}
    return {"password": secrets.get(endpoint.password_secret or "", ""), "allow_agent": False}


def _demand_identity(endpoint: Endpoint) -> None:
    """Tell an agent that is not there from one without a key: paramiko takes both for no keys."""
    path = agent_path(endpoint, os.environ)
    try:
        with socket.socket(socket.AF_UNIX) as there:
            there.connect(path)
    except OSError as error:
        raise no_agent(endpoint, f"nothing answers at {AGENT}={path} ({error})") from error
    agent = Agent()
    try:
        if not agent.get_keys():
            raise no_identity(endpoint, path)
    finally:
        agent.close()


def _paramiko_key(endpoint: Endpoint, secrets: Mapping[str, str]) -> PKey:
    """The key as paramiko wants it; read by the client of hosts, so that refusals are the same."""
    from components.remote.login import client_key  # noqa: PLC0415 - asyncssh, for keys alone

    key = client_key(endpoint, secrets)
    text = key.export_private_key("openssh").decode()
    name = key.get_algorithm()
    kind = next((kind for begin, kind in _KINDS if name.startswith(begin)), None)
    if kind is None:
        raise DeviceError(
            f"{endpoint.where}: the private key {endpoint.private_key_secret} is of the type"
            f" {name}, and switches are logged in to with ed25519, ECDSA or RSA. Nothing was sent."
        )
    return kind.from_private_key(io.StringIO(text))


@dataclass(slots=True)
class _Shared:
    """A connection to a jump host, and how many sessions go through it."""

    users: int = 0
    lock: Lock = field(default_factory=Lock)
    client: SSHClient | None = None
    failed: DeviceError | None = None
    before: ExitStack = field(default_factory=ExitStack)
    """Holds the way to it, where it lies behind other jump hosts."""

    def close(self) -> None:
        """End the connection, and give back the way to it."""
        if self.client is not None:
            self.client.close()
        self.before.close()


_POOL: Final[dict[tuple[Endpoint, ...], _Shared]] = {}
_POOL_LOCK: Final = Lock()


@contextmanager
def way_to(
    endpoint: Endpoint, secrets: Mapping[str, str], deadline_s: float
) -> Generator[Channel | None]:
    """A channel to a switch through its jump hosts, or None where it is reached directly.

    Sessions that are open together share one connection to each jump host.

    Args:
        endpoint: The switch.
        secrets: Secret name to value.
        deadline_s: Seconds for each jump host, and for the channel.

    Raises:
        DeviceError: A jump host is not reached, refuses us, or does not open the way.
    """
    if not endpoint.jump:
        yield None
        return
    with _through(endpoint.jump, secrets, deadline_s) as client:
        yield _channel(client, endpoint, deadline_s)


def _channel(client: SSHClient, endpoint: Endpoint, deadline_s: float) -> Channel:
    transport = client.get_transport()
    if transport is None:
        raise Bug("a jump host that is logged in to has a transport")
    try:
        target, source = (endpoint.address, endpoint.port), ("127.0.0.1", 0)
        return transport.open_channel("direct-tcpip", target, source, timeout=deadline_s)
    except (SSHException, OSError, EOFError) as error:
        raise UnreachableError(
            f"{endpoint.where}: the jump host {endpoint.jump[-1].where} does not open the way to"
            f" {endpoint.place}: {error}\n"
            "  fix        see its AllowTcpForwarding and PermitOpen, and its route to that address"
        ) from error


@contextmanager
def _through(
    hops: tuple[Endpoint, ...], secrets: Mapping[str, str], deadline_s: float
) -> Generator[SSHClient]:
    with _POOL_LOCK:
        shared = _POOL.setdefault(hops, _Shared())
        shared.users += 1
    try:
        with shared.lock:
            if shared.client is None and shared.failed is None:
                _open(shared, hops, secrets, deadline_s)
        if shared.client is None:
            raise shared.failed or Bug("a jump host is either reached or not")
        yield shared.client
    finally:
        with _POOL_LOCK:
            shared.users -= 1
            last = shared.users == 0
            if last:
                _POOL.pop(hops, None)
        if last:
            shared.close()


def _open(
    shared: _Shared, hops: tuple[Endpoint, ...], secrets: Mapping[str, str], deadline_s: float
) -> None:
    """Log in to the last jump host of a way, through those before it."""
    hop = hops[-1]
    client = SSHClient()
    entry = HostKeyEntry.from_line(f"{known_name(hop)} {hop.host_key}")
    try:
        if entry is None:
            raise SpecError(f"{hop.where}: the pinned host key is no public key; nothing was sent")
        client.get_host_keys().add(known_name(hop), entry.key.get_name(), entry.key)
        with classified(hop, deadline_s):
            client.connect(
                hop.address,
                hop.port,
                hop.user,
                **credentials(hop, secrets),
                look_for_keys=False,
                timeout=deadline_s,
                banner_timeout=deadline_s,
                auth_timeout=deadline_s,
                sock=_before(shared, hops, secrets, deadline_s),
            )
    except DeviceError as error:
        client.close()
        shared.failed = error
    else:
        shared.client = client


def _before(
    shared: _Shared, hops: tuple[Endpoint, ...], secrets: Mapping[str, str], deadline_s: float
) -> Channel | None:
    """The channel to a jump host that lies behind others."""
    if len(hops) == 1:
        return None
    client = shared.before.enter_context(_through(hops[:-1], secrets, deadline_s))
    return _channel(client, replace(hops[-1], jump=hops[:-1]), deadline_s)
