"""How a planned host is reached, as the remote door wants it."""

from __future__ import annotations

from components.model.hosts import Host
from components.remote.step import Endpoint


def host_endpoint(host: Host) -> Endpoint:
    """Address, pinned key and secret names of one host.

    A missing host key stays empty here: the check `host-key` refuses it before anything connects.
    """
    return Endpoint(
        device=host.name,
        kind="host",
        address=host.ssh.address,
        port=host.ssh.port,
        user=host.ssh.user,
        host_key=host.ssh.host_key or "",
        password_secret=host.ssh.password.secret if host.ssh.password else None,
        private_key_secret=host.ssh.private_key.secret if host.ssh.private_key else None,
    )
