"""What `railyard device reboot-host` is asked: one host, what may wait there, and its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal

from pydantic import TypeAdapter

from components.remote.lines import render_lines
from components.remote.request import read_request
from components.remote.step import Endpoint

READY_DEADLINE_S: Final = 600.0
"""Seconds from the boot until the cards, the node and its device plugins are back: the boot unit
alone may take 300 s (`TimeoutStartSec`), and device plugins start after it."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server of our own K3s: where its kubeconfig is read, and where its API answers."""

    endpoint: Endpoint
    url: str


@dataclass(frozen=True, slots=True)
class ClusterRef:
    """The cluster in which a host may be a node. It holds names of secrets, never their values."""

    name: str
    servers: tuple[Server, ...] = ()
    """Of a K3s that we install; the kubeconfig is read from one of them at the moment of use."""
    kubeconfig_secret: str = ""
    """Of an existing cluster."""
    context: str | None = None
    workers: str = ""
    """The nodes that count against `max_unavailable`, as a list of names with ranges: each host's
    request holds it, so it must not grow with the hosts."""


@dataclass(frozen=True, slots=True)
class HostReboot:
    """What is on stdin."""

    endpoint: Endpoint
    role: Literal["control_plane", "worker", "balancer"]
    stack: str
    settings: Mapping[str, str]
    """The stdin of the host's converge step: what it shall have when it is back in service."""
    loads_firmware: bool
    """A boot of this machine loads the firmware settings of its cards; not so of a guest."""
    group: tuple[str, ...]
    """The hosts that may be out of service together with this one, this one among them."""
    cluster: ClusterRef | None
    reboots: Literal["allow", "deny"]
    max_unavailable: int
    converge_deadline_s: float
    drain_deadline_s: float
    boot_deadline_s: float
    hcas: int = 0
    """InfiniBand adapters that must be usable before it is back in service."""
    repair: str = ""
    """Why this runs although the plan is the same: the note of the step that it serves."""

    def render(self, repair: str = "") -> str:
        """The request, a line a value: a preview shows the changed ones."""
        return render_lines(asdict(replace(self, repair=repair)))

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Everything that the step connects to by SSH."""
        servers = self.cluster.servers if self.cluster else ()
        return (self.endpoint, *(each.endpoint for each in servers))


_REQUEST: Final = TypeAdapter(HostReboot)


def parse_request(text: str) -> HostReboot:
    """Read a request.

    Raises:
        UsageError: It is no request; the text names the first fault.
    """
    return read_request(_REQUEST, text, "request to reboot a host")
