"""What `railyard device reboot-host` and `upgrade-node` are asked: a host, its work, its cluster.

A request names by digest what may be long: the lines of a step, and the list of workers. The texts
are kept on this machine, so that a state holds them once; lines that wait for a created instance
are on stdin, where holes are filled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, cast

from pydantic import JsonValue, TypeAdapter

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
"""Seconds from the boot until the cards, the node and its device plugins are back: the boot unit
alone may take 300 s (`TimeoutStartSec`), and device plugins start after it."""


@dataclass(frozen=True, slots=True)
class HostReboot:
    """What is on stdin."""

    endpoint: Endpoint
    role: HostRole
    stack: str
    settings: Mapping[str, str] = field(metadata=HIDDEN)
    """The stdin of the host's converge step: what it shall have when it is back in service. That
    step has them in the state; on stdin here, their text is named by its digest."""
    loads_firmware: bool
    """A boot of this machine loads the firmware settings of its cards; not so of a guest."""
    group: tuple[str, ...] = field(metadata=HIDDEN)
    """The nodes that may be out of service together with this one, this one among them. One worker
    more changes the groups behind it: `groups_text` has them for all hosts, and not on stdin."""
    cluster: ClusterRef | None
    reboots: Literal["allow", "deny"]
    max_unavailable: int
    converge_deadline_s: float
    drain_deadline_s: float
    boot_deadline_s: float
    hcas: int = 0
    """InfiniBand adapters that must be usable before it is back in service."""
    workers: str = field(default="", metadata=HIDDEN)
    """The nodes that count against `max_unavailable`, as a list of names with ranges; kept as the
    groups are."""
    node: str = ""
    """Name of its node, where it is another than the host's."""
    repair: str = ""
    """Why this runs although the plan is the same: the note of the step that it serves."""

    def render(self, repair: str = "") -> str:
        """The request, a line a value: a preview shows the changed ones."""
        waiting = split_lines(self.settings)[1]
        return render_named(replace(self, repair=repair), {"settings": self.text}, waiting)

    @property
    def text(self) -> str:
        """The settings, which the request names by their digest."""
        return HostState(split_lines(self.settings)[0]).render_short()

    @property
    def node_name(self) -> str:
        """Name of its node in the cluster."""
        return self.node or self.endpoint.device

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Everything that the step connects to by SSH."""
        servers = self.cluster.servers if self.cluster else ()
        return (self.endpoint, *(each.endpoint for each in servers))


_REQUEST: Final = TypeAdapter(HostReboot)


def groups_file(stack: str) -> str:
    """Name of the file that has what `groups_text` says of a stack."""
    return f"groups-{stack}"


def groups_text(requests: Iterable[HostReboot]) -> str:
    """The workers that count, then each group: a line each, for all hosts of a stack at once."""
    asked = tuple(requests)
    groups = dict.fromkeys(fold_names(request.group) for request in asked)
    return "".join(f"{line}\n" for line in (asked[0].workers if asked else "", *groups))


def parse_request(text: str) -> HostReboot:
    """Read a request, and what it names by digest.

    Raises:
        UsageError: It is no request, and the text names the first fault; or what it names is not
            on this machine.
    """
    document = load_named(text, "settings")
    if "settings" in document and isinstance(stack := document.get("stack"), str):
        document |= _of_group(document, load_current("the groups of the hosts", groups_file(stack)))
    return read_request(_REQUEST, json.dumps(document), "request to reboot a host")


def _of_group(document: Mapping[str, JsonValue], text: str) -> dict[str, JsonValue]:
    """Group and workers of one host; alone, where the file of an earlier update lacks it."""
    endpoint = cast("Mapping[str, JsonValue]", document.get("endpoint") or {})
    name = str(document.get("node") or endpoint.get("device", ""))
    workers, *groups = text.splitlines() or [""]
    members = (unfold_names(line) for line in groups)
    return {"workers": workers, "group": list(next((m for m in members if name in m), (name,)))}


def split_lines(lines: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The lines that are known, and those that wait for a created instance."""
    waiting = {key: value for key, value in lines.items() if has_placeholder(value)}
    return {key: lines[key] for key in lines.keys() - waiting.keys()}, waiting


def render_named(request: object, texts: Mapping[str, str], waiting: Mapping[str, str]) -> str:
    """A request, a line a value: a preview shows the changed ones.

    Args:
        request: The request.
        texts: Field to the text that is named by its digest.
        waiting: Lines that wait for a created instance.
    """
    digests = {key: digest_of(text) for key, text in texts.items()}
    return render_lines({**to_json(request), **digests, "of_instance": {**waiting}})


def load_named(text: str, field: str, *others: str) -> dict[str, JsonValue]:
    """A request as a document, with `field` as its lines and the others as their texts.

    Raises:
        UsageError: What it names is not on this machine.
    """
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


_UPGRADE: Final = TypeAdapter(NodeUpgrade)


def parse_upgrade(text: str) -> NodeUpgrade:
    """Read a request, and what it names by digest.

    Raises:
        UsageError: It is no request, and the text names the first fault; or what it names is not
            on this machine.
    """
    document = load_named(text, "install", "workers")
    if isinstance(lines := document.get("install"), dict):
        document["install"] = HostState({key: str(lines[key]) for key in lines}).render()
    return read_request(_UPGRADE, json.dumps(document), "request to upgrade a node")
