"""Requests of `railyard device reboot-hosts` and `upgrade-node`: a host, its work, its cluster.

A request refers by digest to long texts: the lines of a step, and the list of workers. This machine
keeps the texts, so a state has them only once. Lines with facts of a new instance are on stdin,
which the engine fills in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from pydantic import JsonValue

from components.core.key_values import HostState, parse_state
from components.core.plain_text import has_placeholder
from components.core.to_json import HIDDEN, OMIT_EMPTY, to_json
from components.kubernetes.planes.base import ClusterRef
from components.model.hosts import HostRole
from components.model.texts import fold_names, unfold_names
from components.remote.lines import parse_lines, read_request, render_lines
from components.remote.step import Endpoint
from components.remote.tools import digest_of, load_current, load_text

READY_DEADLINE_S: Final = 600.0
"""Seconds from the boot until cards, node and device plugins are ready: the boot unit alone may
take 300 s (`TimeoutStartSec`), and device plugins start after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """The parts of both requests."""

    endpoint: Endpoint
    stack: str
    cluster: ClusterRef | None
    reboots: Literal["allow", "deny"]
    max_unavailable: int
    drain_deadline_s: float
    workers: str = field(default="", metadata=HIDDEN)
    """The nodes that count against `max_unavailable`, as a list of names with ranges."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All SSH endpoints of the step."""
        servers = self.cluster.servers if self.cluster else ()
        return (self.endpoint, *(each.endpoint for each in servers))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReboot(NodeRequest):
    """The request on stdin to reboot a host; `workers` is stored with the groups."""

    role: HostRole
    settings: Mapping[str, str] = field(metadata=HIDDEN)
    """The stdin of the host's converge step: the settings to apply before it returns to service.
    The state has them in that step, so this stdin has only their digest."""
    loads_firmware: bool
    """A boot loads the firmware settings of its cards, except on a guest."""
    group: tuple[str, ...] = field(metadata=HIDDEN)
    """All nodes that may be out of service together, including this one. Another worker would
    change all groups behind it, so `groups_text` has them for all hosts, and stdin does not."""
    converge_deadline_s: float
    boot_deadline_s: float
    hcas: int = 0
    """Number of InfiniBand adapters that must work before it returns to service."""
    node: str = ""
    """Name of its node if it differs from the host's."""

    def render(self) -> str:
        """Render the request, one value per line, so a preview shows the changed ones."""
        return _render_named(self, {"settings": self.text}, split_lines(self.settings)[1])

    @property
    def text(self) -> str:
        """The settings that the request refers to by digest."""
        return HostState(split_lines(self.settings)[0]).render_short()

    @property
    def node_name(self) -> str:
        """Name of its node in the cluster."""
        return self.node or self.endpoint.device


def groups_file(stack: str) -> str:
    """Return the name of the file with the groups of a stack."""
    return f"groups-{stack}"


def groups_text(requests: Iterable[HostReboot]) -> str:
    """Render the counted workers, then each group of a stack, one line each."""
    asked = tuple(requests)
    groups = dict.fromkeys(fold_names(request.group) for request in asked)
    return "".join(f"{line}\n" for line in (asked[0].workers if asked else "", *groups))


def parse_request(text: str) -> HostReboot:
    """Parse a request, and load the texts that it refers to."""
    document = _load_named(text, "settings")
    if "settings" in document and isinstance(stack := document.get("stack"), str):
        text = load_current("the groups of the hosts", groups_file(stack))
        endpoint = cast("Mapping[str, JsonValue]", document.get("endpoint") or {})
        name = str(document.get("node") or endpoint.get("device", ""))
        document["workers"], *groups = text.splitlines() or [""]
        members = (unfold_names(line) for line in groups)
        # Only itself if an earlier update's file lacks it.
        document["group"] = [*next((each for each in members if name in each), (name,))]
    return read_request(HostReboot, json.dumps(document), "request to reboot a host")


def split_lines(lines: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split lines into known ones and those that need facts of a new instance."""
    waiting = {key: value for key, value in lines.items() if has_placeholder(value)}
    return {key: lines[key] for key in lines.keys() - waiting.keys()}, waiting


def _render_named(request: object, texts: Mapping[str, str], waiting: Mapping[str, str]) -> str:
    """Render a request with digests of `texts` and the lines that wait for a new instance."""
    digests = {key: digest_of(text) for key, text in texts.items()}
    return render_lines({**to_json(request), **digests, "of_instance": {**waiting}})


def _load_named(text: str, field: str, *others: str) -> dict[str, JsonValue]:
    """Load a request as a document, with `field` as lines and other fields as texts."""
    try:
        document = parse_lines(text)
    except ValueError:
        document = {}
    digests = {key: document.pop(key, None) for key in (field, *others)}
    texts = {key: load_text(key, name) for key, name in digests.items() if isinstance(name, str)}
    if len(texts) == len(digests):
        own = cast("dict[str, JsonValue]", document.pop("of_instance", {}))
        lines = parse_state(texts.pop(field)).values
        document |= {field: {**lines, **own}, **texts}
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUpgrade(NodeRequest):
    """The request on stdin to upgrade a node."""

    role: Literal["control_plane", "worker"]
    version: str
    """The release to install."""
    group: tuple[str, ...]
    """All nodes that may be out of service together, including this one."""
    cluster: ClusterRef
    install_deadline_s: float
    arguments: tuple[str, ...] = ()
    """Arguments of the install verb: the download proxy."""
    install: str = field(default="", metadata=HIDDEN)
    """The stdin of the node's install step. The state has it in that step, so this stdin has only
    its digest."""
    kubelet: str = field(default="", metadata=OMIT_EMPTY)
    """The kubelet arguments in the file, in words."""
    leaves: str = field(default="", metadata=OMIT_EMPTY)
    """The kubelet arguments of an earlier file, if this one has none."""
    before: str = ""
    """The release at the time of the request, only for reports."""

    def render(self) -> str:
        """Render the request, one value per line, so a preview shows the changed ones."""
        install, workers = self.texts
        named = {"install": install, "workers": workers}
        return _render_named(self, named, split_lines(parse_state(self.install).values)[1])

    @property
    def texts(self) -> tuple[str, str]:
        """The texts that the request refers to by digest: install, workers."""
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


def parse_upgrade(text: str) -> NodeUpgrade:
    """Parse a request, and load the texts that it refers to."""
    document = _load_named(text, "install", "workers")
    if isinstance(lines := document.get("install"), dict):
        document["install"] = HostState({key: str(lines[key]) for key in lines}).render()
    return read_request(NodeUpgrade, json.dumps(document), "request to upgrade a node")
