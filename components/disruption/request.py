"""What `railyard device reboot-host` is asked: one host, what may wait there, and its cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, cast

from pydantic import JsonValue, TypeAdapter

from components.core.key_values import HostState, parse_state
from components.core.placeholder import has_placeholder
from components.core.to_json import HIDDEN, to_json
from components.kubernetes.reference import ClusterRef
from components.model.hosts import HostRole
from components.model.name_lists import fold_names, unfold_names
from components.remote.lines import parse_lines, render_lines
from components.remote.request import read_request
from components.remote.step import Endpoint
from components.remote.tool_files import digest_of, load_current, load_text

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
        parts = {"settings": digest_of(self.text), "of_instance": self._of_instance}
        return render_lines({**to_json(replace(self, repair=repair)), **parts})

    @property
    def text(self) -> str:
        """The settings, which the request names by their digest."""
        known = {key: self.settings[key] for key in self.settings.keys() - self._of_instance.keys()}
        return HostState(known).render_short()

    @property
    def _of_instance(self) -> dict[str, str]:
        """Settings that wait for a created instance: they are on stdin, where holes are filled."""
        return {key: value for key, value in self.settings.items() if has_placeholder(value)}

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
    try:
        document = parse_lines(text)
    except ValueError:
        document = {}
    settings, stack = document.pop("settings", None), document.get("stack")
    if isinstance(settings, str) and isinstance(stack, str):
        own = cast("dict[str, JsonValue]", document.pop("of_instance", {}))
        kept = parse_state(load_text("settings", settings)).values
        document["settings"] = {**kept, **own}
        document |= _of_group(document, load_current("the groups of the hosts", groups_file(stack)))
    return read_request(_REQUEST, json.dumps(document), "request to reboot a host")


def _of_group(document: Mapping[str, JsonValue], text: str) -> dict[str, JsonValue]:
    """Group and workers of one host; alone, where the file of an earlier update lacks it."""
    endpoint = cast("Mapping[str, JsonValue]", document.get("endpoint") or {})
    name = str(document.get("node") or endpoint.get("device", ""))
    workers, *groups = text.splitlines() or [""]
    members = (unfold_names(line) for line in groups)
    return {"workers": workers, "group": list(next((m for m in members if name in m), (name,)))}
