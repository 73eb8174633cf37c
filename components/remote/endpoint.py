"""From the `ssh` block of the file to what the remote door needs."""

from __future__ import annotations

from typing import Literal

from components.model.hosts import Host
from components.model.units import Ssh
from components.remote.step import Endpoint


def endpoint_of(device: str, kind: Literal["switch", "host"], ssh: Ssh) -> Endpoint:
    """Address, pinned key and names of the secrets of one device.

    A missing host key stays empty here: the check `host-key` refuses it before anything connects.
    """
    return Endpoint(
        device=device,
        kind=kind,
        address=ssh.address,
        port=ssh.port,
        user=ssh.user,
        host_key=ssh.host_key or "",
        password_secret=ssh.password.secret if ssh.password else None,
        private_key_secret=ssh.private_key.secret if ssh.private_key else None,
    )


def host_endpoint(host: Host) -> Endpoint:
    """Address, pinned key and secret names of one host."""
    return endpoint_of(host.name, "host", host.ssh)
