"""Keys of a login that are not to be had, in words; apart from any SSH client, which loads long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.core.errors import DeviceError
from components.remote.step import Endpoint

AGENT: Final = "SSH_AUTH_SOCK"
"""Where ssh-agent(1) says its socket is."""


def wrong_passphrase(endpoint: Endpoint) -> DeviceError:
    """A key with a passphrase, and which one is missing or wrong."""
    if endpoint.passphrase_secret is None:
        return DeviceError(
            f"{endpoint.where}: the private key {endpoint.private_key_secret} has a passphrase, and"
            " none is named. Nothing was sent.\n"
            "  fix        add passphrase: {secret: NAME} beside private_key, or use agent: true"
        )
    return DeviceError(
        f"{endpoint.where}: the secret {endpoint.passphrase_secret} does not open the private key"
        f" {endpoint.private_key_secret}. Nothing was sent.\n"
        "  fix        correct one of the two; `ssh-keygen -y -f FILE` asks for the passphrase"
    )


def agent_path(endpoint: Endpoint, environ: Mapping[str, str]) -> str:
    """The socket of the SSH agent.

    Raises:
        DeviceError: None runs here.
    """
    path = environ.get(AGENT, "")
    if not path:
        raise no_agent(endpoint, f"{AGENT} is not set")
    return path


def no_agent(endpoint: Endpoint, why: str) -> DeviceError:
    """No SSH agent, where the file asks for one."""
    return DeviceError(
        f"{endpoint.where}: the file says agent: true, and no SSH agent runs here: {why}. Nothing"
        " was sent.\n"
        '  fix        eval "$(ssh-agent)" && ssh-add FILE, in the shell that runs this; or give the'
        " key as private_key"
    )


def no_identity(endpoint: Endpoint, path: str) -> DeviceError:
    """An SSH agent without a key."""
    return DeviceError(
        f"{endpoint.where}: the file says agent: true, and the SSH agent at {path} has no identity."
        " Nothing was sent.\n"
        "  fix        ssh-add FILE; `ssh-add -l` lists what the agent has"
    )
