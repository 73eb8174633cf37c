"""Log in with our SSH client, and give `sudo` its password.

A login has keys, passphrases, the agent, passwords, and the pinned host key.

The password goes to `sudo -S` on standard input after sudo's own prompt, and the state follows
after the command has started. So no argument, environment or file of the host has it, and a sudo
that does not ask never gets it (decision 19 in docs/decisions.md).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from components.core.errors import DeviceError, HostKeyError
from components.core.limits import TooLongError
from components.core.templates import fault_text
from components.remote.ssh_library import asyncssh
from components.remote.step import RSA, Endpoint

AGENT: Final = "SSH_AUTH_SOCK"
SSH_RSA: Final = "ssh-rsa"
"""RSA signed with SHA-1 (RFC 4253, section 6.6), refused by OpenSSH since 8.8."""
RSA_SHA2: Final = ("rsa-sha2-512", "rsa-sha2-256")
"""Signature algorithms of an RSA host key (RFC 8332)."""
FAST_CIPHERS: Final = "^aes256-gcm@openssh.com,aes128-gcm@openssh.com"
"""Preferred ciphers: asyncssh's default is ChaCha20, which it computes with five ciphers for each
packet. This took a fifth of a session's time here; AES-GCM is one call of OpenSSL, and OpenSSH has
it since 6.2. A server without it uses the default."""
_SHA1_EXCHANGE: Final = "diffie-hellman-group14-sha1"
_OLD_CIPHERS: Final = "+aes128-cbc,aes192-cbc,aes256-cbc,3des-cbc"
_OLD_MACS: Final = "+hmac-md5,hmac-sha1-96,hmac-md5-96"
"""Offered by asyncssh only on request: OpenSSH last accepted them by default in 6.6 (2014)."""
AS_ROOT: Final = "sudo -n "
"""Start of every command that runs as root: sudo never asks."""
CHUNK: Final = 4096
LONGEST_TALK: Final = 1 << 20
"""Most characters before the command starts; the lecture of sudo has some 500."""


class Client(asyncssh.SSHClient):
    """Answers the server during a login, and keeps facts for errors.

    It gives the password once, by keyboard-interactive if the server offers that. Onyx and EOS
    offer nothing else, and stricter servers end the connection for a second try.
    """

    presented = ""
    """The host key that the server presented instead of the pinned one."""
    asked = ""
    """The server's further question after the password, such as for a new one."""

    def __init__(self, password: str | None) -> None:
        self._password = password

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """Refuse the key, since asyncssh asks only about keys that do not match the pinned one."""
        del host, addr, port
        self.presented = key.export_public_key("openssh").decode().strip()
        return False

    def password_auth_requested(self) -> str | None:
        """Give the password only once."""
        password, self._password = self._password, None
        return password

    def password_change_requested(self, prompt: str, lang: str) -> tuple[str, str]:
        """Never change a password."""
        del lang
        self.asked = prompt or "a new password"
        no_answer: Any = NotImplemented
        return no_answer

    def kbdint_auth_requested(self) -> str | None:
        """Accept keyboard-interactive while the password is unused."""
        return None if self._password is None else ""

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> Sequence[str] | None:
        """Answer the first question with the password; refuse a second one."""
        del name, lang
        if not prompts:
            return []
        password = self.password_auth_requested()
        if password is None:
            self.asked = prompts[-1][0].strip() or instructions
            return None
        return [password] * len(prompts)


@asynccontextmanager
async def client_options(
    endpoint: Endpoint, secrets: Mapping[str, str], client: Client
) -> AsyncGenerator[asyncssh.SSHClientConnectionOptions]:
    """Yield a login's options, with its agent open; HostKeyError or DeviceError for wrong keys."""
    # This is a key, not a line of known_hosts, where the form of an address depends on the port.
    if not endpoint.host_key.strip():
        raise HostKeyError(f"{endpoint.where}: no host key is pinned; without it nothing connects")
    try:
        pinned = asyncssh.import_public_key(endpoint.host_key)
    except ValueError as error:
        text = fault_text(__file__, "no-public-key", endpoint=endpoint, error=error)
        raise HostKeyError(text) from error
    none: list[asyncssh.SSHKey] = []
    old = endpoint.legacy_algorithms
    signed_by_rsa = (*RSA_SHA2, SSH_RSA) if old else RSA_SHA2
    algorithms = signed_by_rsa if endpoint.host_key.startswith(RSA) else (pinned.get_algorithm(),)
    async with _client_keys(endpoint, secrets) as keys:
        yield asyncssh.SSHClientConnectionOptions(
            username=endpoint.user, client_keys=keys or None, known_hosts=([pinned], none, none),
            server_host_key_algs=list(algorithms), mac_algs=_OLD_MACS if old else (),
            kex_algs=f"{'+' if old else '-'}{_SHA1_EXCHANGE}",
            encryption_algs=_OLD_CIPHERS if old else FAST_CIPHERS,
            config=None, agent_path=None, client_factory=lambda: client,
        )  # fmt: skip


@asynccontextmanager
async def _client_keys(
    endpoint: Endpoint, secrets: Mapping[str, str]
) -> AsyncGenerator[list[asyncssh.SSHKey] | list[asyncssh.SSHKeyPair]]:
    if not endpoint.agent:
        yield [client_key(endpoint, secrets)] if endpoint.private_key_secret else []
        return
    path = os.environ.get(AGENT, "")
    if not path:
        raise _no_agent(endpoint, f"{AGENT} is not set")
    try:
        agent = await asyncssh.connect_agent(path)
        keys = list(await agent.get_keys())
    except (OSError, ValueError, asyncssh.Error) as error:
        raise _no_agent(endpoint, f"nothing answers at {AGENT}={path} ({error})") from error
    async with agent:
        if not keys:
            raise DeviceError(fault_text(__file__, "empty-agent", endpoint=endpoint, path=path))
        yield keys


def _no_agent(endpoint: Endpoint, why: str) -> DeviceError:
    return DeviceError(fault_text(__file__, "no-agent", endpoint=endpoint, why=why))


def client_key(endpoint: Endpoint, secrets: Mapping[str, str]) -> asyncssh.SSHKey:
    """Return a login's private key, decrypted; DeviceError if it or its passphrase is wrong."""
    passphrase = secrets.get(endpoint.passphrase_secret or "")
    text = secrets.get(endpoint.private_key_secret or "", "")
    try:
        return asyncssh.import_private_key(text, passphrase)
    except ValueError as error:
        key, opener = endpoint.private_key_secret, endpoint.passphrase_secret
        locked = isinstance(error, asyncssh.KeyEncryptionError)
        row = "wrong-passphrase" if opener else "no-passphrase"
        row = row if locked or "passphrase" in str(error).lower() else "no-private-key"
        words = {"endpoint": endpoint, "key": key, "opener": opener, "error": error}
        raise DeviceError(fault_text(__file__, row, **words)) from error


def asking(command: str) -> tuple[str, str, str]:
    """Return a command whose sudo prompts on stderr, the prompt, and the mark of its start.

    Both texts are random, so nothing on the host can know them in advance. `-k` ignores earlier
    logins of sudo, so it always asks in the same way.
    """
    mark = secrets.token_hex(8)
    prompt, ready = f"railyard-asks-{mark}:", f"railyard-begins-{mark}"
    begin = f'echo {ready} >&2; exec "$@"'
    line = f"sudo -k -S -p {prompt} sh -c '{begin}' sh {command.removeprefix(AS_ROOT)}"
    return line, prompt, ready


async def start_sudo(
    connection: asyncssh.SSHClientConnection, endpoint: Endpoint, command: str, password: str
) -> tuple[asyncssh.SSHClientProcess[str], str]:
    """Return a command's process as root, and its stderr so far; DeviceError: sudo refuses."""
    line, prompt, ready = asking(command)
    process = await connection.create_process(line)
    heard, asked = "", False
    while f"{ready}\n" not in heard:
        chunk = await process.stderr.read(CHUNK)
        heard += chunk
        if len(heard) > LONGEST_TALK:
            process.close()
            raise TooLongError(LONGEST_TALK)
        if prompt in heard:
            before, _, heard = heard.rpartition(prompt)
            if asked:
                process.close()
                last = (before.strip().splitlines() or ["it asks again"])[-1]
                text = fault_text(__file__, "sudo-password", endpoint=endpoint, last=last)
                raise DeviceError(text)
            asked = True
            process.stdin.write(f"{password}\n")
        if not chunk:
            return process, heard
    return process, heard.partition(f"{ready}\n")[2]
