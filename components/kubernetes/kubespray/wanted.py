"""What `railyard device kubespray` is asked: the cluster as the file wants it, and the way there.

The request is the stdin of the step, a line a value, so that a preview shows what changed; what was
last done is kept in the same form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue, TypeAdapter

from components.core.to_json import to_json
from components.remote.lines import read_request, render_lines
from components.remote.step import Endpoint

Role = Literal["control_plane", "worker"]
STEP: Final = "kubespray"
"""Name of the step, and with it of its resource: an API."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node as kubespray knows it."""

    role: Role
    address: str
    """Its own address in the cluster."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The cluster: which release of it, its nodes in order, and its settings."""

    release: str
    """Of kubespray."""
    pin: str
    """Checksum or commit of the tree."""
    version: str
    """Of Kubernetes, with its `v`."""
    nodes: Mapping[str, Node]
    settings: Mapping[str, JsonValue]
    """Variables of all nodes, without the version."""
    order: tuple[str, ...]
    """The names of the control plane: the first one began the cluster."""

    def of_role(self, role: Role) -> tuple[str, ...]:
        """The names of the nodes of a role: the control plane in its order, others by name.

        A server that joined in a run that was killed is in no order yet, and comes last.
        """
        names = sorted(name for name, node in self.nodes.items() if node.role == role)
        known = [name for name in self.order if name in names]
        return (*known, *(name for name in names if name not in known))


@dataclass(frozen=True, slots=True)
class Source:
    """Where the tree is taken from."""

    kind: Literal["path", "archive", "git"]
    place: str


@dataclass(frozen=True, slots=True)
class Request:
    """What is on stdin."""

    stack: str
    wanted: Wanted
    source: Source
    requirements: str
    python: str
    endpoints: Mapping[str, Endpoint]
    """By node: how Ansible logs in."""
    max_unavailable: int
    drain_deadline_s: int
    disruption: Literal["allow", "deny"]
    """`disruption.reboots`: whether a worker may be drained."""
    reset: Literal["allow", "deny"]
    repair: str = field(default="")

    def render(self) -> str:
        """The request, a line a value."""
        return render_lines(to_json(self))


_REQUEST: Final = TypeAdapter(Request)


def parse_request(text: str) -> Request:
    """Read a request.

    Raises:
        UsageError: It is none; the text names the first fault.
    """
    return read_request(_REQUEST, text, "request to run kubespray")
