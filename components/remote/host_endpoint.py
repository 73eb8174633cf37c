"""How a planned host is reached, as the remote door wants it."""

from __future__ import annotations

from components.model.hosts import Host
from components.remote.endpoint import endpoint_of
from components.remote.step import Endpoint


def host_endpoint(host: Host) -> Endpoint:
    """Address, pinned key and secret names of one host."""
    return endpoint_of(host.name, "host", host.ssh)
