"""What `railyard device upgrade-node` is asked: one node, the release it shall run, its cluster."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pydantic import TypeAdapter

from components.core.key_values import HostState, parse_state
from components.core.to_json import HIDDEN, OMIT_EMPTY
from components.disruption.request import load_named, render_named, split_lines
from components.kubernetes.reference import ClusterRef
from components.remote.request import read_request
from components.remote.step import Endpoint


@dataclass(frozen=True, slots=True)
class NodeUpgrade:
    """What is on stdin."""

    endpoint: Endpoint
    role: Literal["control_plane", "worker"]
    stack: str
    version: str
    """The release that it shall run."""
    group: tuple[str, ...]
    """The nodes that may be out of service together with this one, this one among them."""
    cluster: ClusterRef
    reboots: Literal["allow", "deny"]
    max_unavailable: int
    drain_deadline_s: float
    install_deadline_s: float
    arguments: tuple[str, ...] = ()
    """Of the verb that installs: the proxy that it downloads through."""
    install: str = field(default="", metadata=HIDDEN)
    """The stdin of the node's install step. That step has it in the state; on stdin here it is
    named by its digest."""
    workers: str = field(default="", metadata=HIDDEN)
    """The nodes that count against `max_unavailable`, as a list of names with ranges."""
    kubelet: str = field(default="", metadata=OMIT_EMPTY)
    """The arguments of its kubelet that the file sets, in words."""
    leaves: str = field(default="", metadata=OMIT_EMPTY)
    """Those that an earlier file set, where this one sets none."""
    before: str = ""
    """The release that it ran when the step was asked for; for reports alone."""

    def render(self) -> str:
        """The request, a line a value: a preview shows the changed ones."""
        install, workers = self.texts
        named = {"install": install, "workers": workers}
        return render_named(self, named, split_lines(parse_state(self.install).values)[1])

    @property
    def texts(self) -> tuple[str, str]:
        """What the request names by digest: install, workers."""
        known, _ = split_lines(parse_state(self.install).values)
        return HostState(known).render(), self.workers

    @property
    def node_name(self) -> str:
        """Name of its node in the cluster."""
        return parse_state(self.install).values.get("node") or self.name

    @property
    def name(self) -> str:
        """Name of its host."""
        return self.endpoint.device

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Everything that the step connects to by SSH."""
        return (self.endpoint, *(each.endpoint for each in self.cluster.servers))

    def from_release(self, before: str) -> NodeUpgrade:
        """The same for a node that runs a release now."""
        return replace(self, before=before)


_REQUEST: Final = TypeAdapter(NodeUpgrade)


def parse_upgrade(text: str) -> NodeUpgrade:
    """Read a request, and what it names by digest.

    Raises:
        UsageError: It is no request, and the text names the first fault; or what it names is not
            on this machine.
    """
    document = load_named(text, "install", "workers")
    if isinstance(lines := document.get("install"), dict):
        document["install"] = HostState({key: str(lines[key]) for key in lines}).render()
    return read_request(_REQUEST, json.dumps(document), "request to upgrade a node")
