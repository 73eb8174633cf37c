"""Drain nodes before a change: those that left the file, and those behind changing ports. Pure.

The engine deletes after it has updated, so without this step a switch would reset a worker's ports
before the worker is drained. A state has the step from the first departure on. With
`disruption.ports: drain`, the nodes behind the ports that a switch changes leave too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, cast

from components.core.key_values import parse_state
from components.core.problem import Finding, Place, refusal
from components.core.record import record, replace
from components.core.templates import fault_text, finding_of
from components.core.to_json import to_json
from components.drift.applied import Applied
from components.kubernetes.planes import base
from components.kubernetes.planes.base import ClusterRef, KubernetesPlan
from components.model.cluster import ClusterSpec
from components.remote.lines import parse_lines, read_request, render_lines
from components.remote.step import Endpoint

DRAIN_VERB: Final = "device drain-nodes"
STEP: Final = "departures-drain"
"""Name of the step and its resource; it is an API."""
FIELD: Final = "leave"
"""The key for `PortsLeave` in a switch's request."""


@record
class NodesLeave:
    """The request on stdin."""

    stack: str
    cluster: ClusterRef
    drain_deadline_s: float
    nodes: tuple[str, ...] = ()
    """Names of the nodes that left the file."""
    run: int = 0
    """Number of updates with such nodes: if a later part failed, the next update drains again,
    since pods may have returned."""

    def render(self) -> str:
        """Render the request, one value per line, so a preview shows the changed ones."""
        return render_lines(to_json(self))

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All SSH endpoints of the step."""
        return tuple(each.endpoint for each in self.cluster.servers)


def parse_leave(text: str) -> NodesLeave:
    """Parse a request; UsageError names the first fault."""
    return read_request(NodesLeave, text, "request to drain nodes that leave")


@record
class DepartureStep:
    """The nodes that leave in this update."""

    request: NodesLeave
    kept: str = ""
    """The recorded stdin of a finished drain, which keeps it from running again."""


def plan_departures(
    spec: ClusterSpec, stack: str, kubernetes: KubernetesPlan | None
) -> DepartureStep | None:
    """Plan the step for a site with switches and its own nodes; nothing leaves yet."""
    cluster = base.refer_to(spec, kubernetes)
    if kubernetes is None or cluster is None or kubernetes.existing or not spec.switches:
        return None
    return DepartureStep(NodesLeave(stack, cluster, spec.disruption.drain_deadline_s))


def leaving_nodes(kubernetes: KubernetesPlan | None, applied: Applied) -> tuple[str, ...]:
    """Return the nodes that the stack made and that left the file."""
    if kubernetes is None or kubernetes.existing is not None:
        return ()
    nodes, own = list[str](), frozenset(kubernetes.own_nodes)
    if kubernetes.playbooks is not None:
        recorded = parse_lines(applied.stdin(kubernetes.playbooks.step.name))
        wanted = cast("Mapping[str, object]", recorded.get("wanted") or {})
        nodes = [*cast("Mapping[str, object]", wanted.get("nodes") or {})]
    for name, step in applied.steps.items() if kubernetes.playbooks is None else ():
        if name.endswith(base.NODE_SUFFIX):
            node = parse_state(step.stdin).values.get("node")
            nodes.append(node or name.removesuffix(base.NODE_SUFFIX))
    return tuple(name for name in nodes if name not in own)


def renamed_nodes(kubernetes: KubernetesPlan | None, applied: Applied) -> Iterator[Finding]:
    """Refuse another name for an existing node, since Kubernetes cannot rename one."""
    for step in (*kubernetes.servers, *kubernetes.agents) if kubernetes else ():
        host, was = step.endpoint.device, parse_state(applied.stdin(step.name)).values.get("node")
        if was and was != base.node_in(step):
            words = {"host": host, "was": was, "now": base.node_in(step)}
            yield finding_of(__file__, "renamed", device=host, **words)


def choose_departures(
    step: DepartureStep | None, kubernetes: KubernetesPlan | None, applied: Applied
) -> DepartureStep | None:
    """Return this update's step, or None; a node that returned may be drained again later."""
    if step is None or kubernetes is None:
        return None
    stdin, leaving = applied.stdin(STEP), leaving_nodes(kubernetes, applied)
    last = parse_leave(stdin) if stdin else step.request
    if leaving:
        return replace(step, request=replace(step.request, nodes=leaving, run=last.run + 1))
    if not stdin:
        return None
    own = frozenset(kubernetes.own_nodes)
    left = tuple(name for name in last.nodes if name not in own)
    if left == last.nodes:
        return replace(step, kept=stdin)
    return replace(step, request=replace(step.request, nodes=left, run=last.run))


def describe_leaving(leaving: Sequence[str]) -> tuple[str, ...]:
    """Return the preview's lines for leaving nodes."""
    words = "it is drained first, and only then its switch ports and its host lose their settings"
    return tuple(
        f"WILL LEAVE THE CLUSTER: {name}: {words}; its jobs end or move" for name in leaving
    )


def leaving_refused(leaving: Sequence[str]) -> tuple[Finding, ...]:
    """Refuse departures at preview; call it only if `disruption.reboots` is `deny`."""
    words = "would be drained: it leaves the cluster, since the file has it no more"
    return tuple(denied(f"{name} {words}", name, "put it back into the file") for name in leaving)


def denied(what: str, device: str, undo: str = "take the change back") -> Finding:
    """Refuse that a device leaves service, since `disruption.reboots` is `deny`."""
    fix = f"plan a window and set disruption.reboots to allow, or {undo}"
    return refusal("disruption", what, Place(("disruption", "reboots"), "deny"), fix, device)


@record
class PortsLeave:
    """The nodes behind the ports of one switch, and how they leave."""

    switch: str
    nodes: Mapping[str, str]
    """Port to its cabled node, without ports to other switches."""
    leave: NodesLeave
    """The cluster and the deadline of a drain; its nodes depend on the changed ports."""
    workers: tuple[str, ...]
    """The nodes that count against `max_unavailable`."""
    max_unavailable: int

    def document(self) -> Mapping[str, object]:
        """Return the request's part for these nodes."""
        return {FIELD: to_json(self)}

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """SSH endpoints of the step besides the switch."""
        return self.leave.endpoints

    @property
    def secret(self) -> str:
        """Name of the secret kubeconfig of an existing cluster; empty for other clusters."""
        return self.leave.cluster.kubeconfig_secret

    def behind(self, ports: Sequence[str]) -> tuple[str, ...]:
        """Return the nodes behind some ports; an empty name means the whole switch."""
        named = self.nodes if "" in ports else ports
        return tuple(dict.fromkeys(self.nodes[port] for port in named if port in self.nodes))

    def groups(self, ports: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Group ports that change together; the groups change one after the other.

        A group has the ports of `max_unavailable` workers, or of one server. The first group also
        has the ports without a node. A change of the whole switch is one group.
        """
        if "" in ports:
            return (tuple(ports),)
        behind: dict[str, tuple[str, ...]] = {}
        for port in ports:
            name = self.nodes.get(port, "")
            behind[name] = (*behind.get(name, ()), port)
        free, size = behind.pop("", ()), max(1, self.max_unavailable)
        workers = [name for name in behind if name in self.workers]
        parts = [workers[start : start + size] for start in range(0, len(workers), size)]
        parts += [[name] for name in behind if name not in workers]
        groups = [tuple(port for name in part for port in behind[name]) for part in parts]
        return ((*free, *(groups[0] if groups else ())), *groups[1:])

    def describe(self, ports: Sequence[str]) -> Iterator[str]:
        """Yield the preview's line about nodes that leave while ports change."""
        nodes, parts = self.behind(ports), self.groups(ports)
        if nodes:
            turns = f", in {len(parts)} groups, one after the other" if len(parts) > 1 else ""
            words = {"nodes": ", ".join(nodes), "switch": self.switch, "turns": turns}
            yield fault_text(__file__, "leaving", **words)

    def refused(self, ports: Sequence[str]) -> Iterator[Finding]:
        """Yield why too many nodes would leave at once; the step refuses this too."""
        for part in self.groups(ports):
            going = [name for name in self.behind(part) if name in self.workers]
            if len(going) > self.max_unavailable:
                where = Place(("disruption", "max_unavailable"), str(self.max_unavailable))
                find = partial(finding_of, __file__, "whole-switch", where, device=self.switch)
                yield find(names=", ".join(going), count=len(going))


def plan_ports(
    spec: ClusterSpec, stack: str, kubernetes: KubernetesPlan | None
) -> dict[str, PortsLeave]:
    """Plan each switch's leaving nodes; empty without a cluster or `disruption.ports: drain`."""
    cluster = base.refer_to(spec, kubernetes)
    if spec.disruption.ports != "drain" or cluster is None:
        return {}
    leave = NodesLeave(stack, cluster, spec.disruption.drain_deadline_s)
    workers = tuple(host.node for host in spec.workers)
    most = spec.disruption.max_unavailable
    nodes = {host.name: host.node for host in (*spec.workers, *spec.servers)}
    found: dict[str, PortsLeave] = {}
    for switch in spec.switches:
        hosts = {name: port.to.partition("/")[0] for name, port in switch.ports.items()}
        behind = {port: nodes[host] for port, host in hosts.items() if host in nodes}
        found[switch.name] = PortsLeave(switch.name, behind, leave, workers, most)
    return found
