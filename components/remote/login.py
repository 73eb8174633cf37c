"""How an SSH client of asyncssh logs in: keys, passphrases, the agent, and the pinned host key."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from components.core.errors import DeviceError, HostKeyError
from components.remote.agent import AGENT, agent_path, no_agent, no_identity, wrong_passphrase
from components.remote.ssh_library import asyncssh
from components.remote.step import RSA, Endpoint

RSA_SHA2: Final = ("rsa-sha2-512", "rsa-sha2-256")
"""What an RSA host key signs with (RFC 8332); `ssh-rsa` is SHA-1, refused by
OpenSSH since 8.8."""

FAST_CIPHERS: Final = "^aes256-gcm@openssh.com,aes128-gcm@openssh.com"
"""Before the usual ones: asyncssh begins with ChaCha20, which it puts together of five ciphers for
each packet. That was a fifth of what a session takes here; AES-GCM is one call of OpenSSL, and
OpenSSH has it since 6.2. A server without it gets what it got before."""


class Stranger(asyncssh.SSHClient):
    """Keeps the host key that was presented in place of the pinned one, to name it."""

    presented = ""

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """Take none but the pinned key, which asyncssh compares itself."""
        del host, addr, port
        self.presented = key.export_public_key("openssh").decode().strip()
        return False


@asynccontextmanager
async def client_options(
    endpoint: Endpoint, secrets: Mapping[str, str], stranger: Stranger
) -> AsyncGenerator[asyncssh.SSHClientConnectionOptions]:
    """The options of one login; with an agent they hold until the login is done.

    Raises:
        HostKeyError: What is pinned is no public key.
        DeviceError: The secret is no key, or the agent has none.
    """
    # As a key and not as a line of known_hosts, whose form of an address depends on the port.
    pinned = _pinned_key(endpoint)
    none: list[asyncssh.SSHKey] = []
    algorithms = RSA_SHA2 if endpoint.host_key.startswith(RSA) else (pinned.get_algorithm(),)
    async with _client_keys(endpoint, secrets) as keys:
        yield asyncssh.SSHClientConnectionOptions(
            username=endpoint.user,
            client_keys=keys or None,
            password=secrets.get(endpoint.password_secret or ""),
            known_hosts=([pinned], none, none),
            server_host_key_algs=list(algorithms),
            encryption_algs=FAST_CIPHERS,
            config=None,
            agent_path=None,
            client_factory=lambda: stranger,
        )


def _pinned_key(endpoint: Endpoint) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_public_key(endpoint.host_key)
    except ValueError as error:
        raise HostKeyError(
            f"{endpoint.where}: the pinned host key is no public key ({error}); nothing was sent.\n"
            f"  fix        write the key as `ssh-keyscan -p {endpoint.port} {endpoint.address}`"
            " prints it after the address"
        ) from error


@asynccontextmanager
async def _client_keys(
    endpoint: Endpoint, secrets: Mapping[str, str]
) -> AsyncGenerator[list[asyncssh.SSHKey] | list[asyncssh.SSHKeyPair]]:
    if not endpoint.agent:
        yield [client_key(endpoint, secrets)] if endpoint.private_key_secret else []
        return
    path = agent_path(endpoint, os.environ)
    try:
        agent = await asyncssh.connect_agent(path)
        keys = list(await agent.get_keys())
    except (OSError, ValueError, asyncssh.Error) as error:
        raise no_agent(endpoint, f"nothing answers at {AGENT}={path} ({error})") from error
    async with agent:
        if not keys:
            raise no_identity(endpoint, path)
        yield keys


def client_key(endpoint: Endpoint, secrets: Mapping[str, str]) -> asyncssh.SSHKey:
    """The private key of a login, opened with its passphrase.

    Raises:
        DeviceError: It is none, or the passphrase is missing or wrong.
    """
    passphrase = secrets.get(endpoint.passphrase_secret or "")
    try:
        text = secrets.get(endpoint.private_key_secret or "", "")
        return asyncssh.import_private_key(text, passphrase)
    except asyncssh.KeyEncryptionError as error:
        raise wrong_passphrase(endpoint) from error
    except ValueError as error:
        if "passphrase" in str(error).lower():
            raise wrong_passphrase(endpoint) from error
        raise DeviceError(
            f"{endpoint.where}: the secret {endpoint.private_key_secret} is no private key"
            f" in OpenSSH form: {error}. Nothing was sent."
        ) from error
