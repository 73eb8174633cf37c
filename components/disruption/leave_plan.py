"""Nodes that are drained before a change: those gone from the file, those behind ports. Pure.

The engine deletes after it has updated: a switch would give the ports of a worker back, and only
then would the worker be drained. The step is in a state from the first node that leaves on. With
`disruption.ports: drain`, the nodes behind the ports that a switch changes leave too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from pydantic import TypeAdapter

from components.core.key_values import parse_state
from components.core.to_json import to_json
from components.drift.applied import Applied
from components.kubernetes.planes.base import (
    NODE_SUFFIX,
    ClusterRef,
    KubernetesPlan,
    node_in,
    refer_to,
)
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.remote.lines import parse_lines, read_request, render_lines
from components.remote.step import Endpoint

DRAIN_VERB: Final = "device drain-nodes"
STEP: Final = "departures-drain"
"""Name of the step, and with it of its resource: an API."""


@dataclass(frozen=True, slots=True)
class NodesLeave:
    """What is on stdin."""

    stack: str
    cluster: ClusterRef
    drain_deadline_s: float
    nodes: tuple[str, ...] = ()
    """Names of the nodes that the file has no more."""
    run: int = 0
    """Counts the updates that found such nodes: one that failed later on drains them again, since
    pods may have come back meanwhile."""

    def render(self) -> str:
        """The request, a line a value: a preview shows the changed ones."""
        return render_lines(to_json(self))

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Everything that the step connects to by SSH."""
        return tuple(each.endpoint for each in self.cluster.servers)


_REQUEST: Final = TypeAdapter(NodesLeave)


def parse_leave(text: str) -> NodesLeave:
    """Read a request.

    Raises:
        UsageError: It is none; the text names the first fault.
    """
    return read_request(_REQUEST, text, "request to drain nodes that leave")


@dataclass(frozen=True, slots=True)
class DepartureStep:
    """Who leaves in this update."""

    request: NodesLeave
    kept: str = field(default="")
    """The stdin of a drain that is done: it stays as it was recorded, and does not run again."""


def plan_departures(
    spec: ClusterSpec, stack: str, kubernetes: KubernetesPlan | None
) -> DepartureStep | None:
    """Plan the step of a site that has switches and makes its own nodes; nothing leaves yet.

    In a cluster of others a node stays when its host is gone from the file, and taking it out of
    service is for its owners.
    """
    cluster = refer_to(spec, kubernetes)
    if kubernetes is None or cluster is None or kubernetes.existing or not spec.switches:
        return None
    return DepartureStep(NodesLeave(stack, cluster, spec.disruption.drain_deadline_s))


def leaving_nodes(kubernetes: KubernetesPlan | None, applied: Applied) -> tuple[str, ...]:
    """The nodes that a stack made and that the file has no more."""
    if kubernetes is None or kubernetes.existing is not None:
        return ()
    kept = {*kubernetes.own_nodes}
    return tuple(name for name in _recorded_nodes(kubernetes, applied) if name not in kept)


def renamed_nodes(kubernetes: KubernetesPlan | None, applied: Applied) -> tuple[str, ...]:
    """Refuse another name for a node that is there: Kubernetes has no such change."""
    found: list[str] = []
    for step in (*kubernetes.servers, *kubernetes.agents) if kubernetes else ():
        recorded, host = applied.step(step.name), step.endpoint.device
        was = parse_state(recorded.stdin).values.get("node") if recorded else None
        if was and was != node_in(step):
            found.append(
                f"node: the node of {host} is {was}, and the file calls it {node_in(step)}: a node"
                " cannot be renamed\n"
                f"  where  hosts: {host}: node_name. Nothing was changed on any device.\n"
                f"  fix    write `node_name: {was}` for it, or take {host} out in another update"
            )
    return tuple(found)


def _recorded_nodes(kubernetes: KubernetesPlan, applied: Applied) -> Sequence[str]:
    if kubernetes.playbooks is None:
        steps = {n: step for n, step in applied.steps.items() if n.endswith(NODE_SUFFIX)}
        found = {name: parse_state(step.stdin).values.get("node") for name, step in steps.items()}
        return [node or name.removesuffix(NODE_SUFFIX) for name, node in found.items()]
    recorded = applied.step(kubernetes.playbooks.step.name)
    if recorded is None or not recorded.stdin:
        return ()
    wanted = cast("Mapping[str, object]", parse_lines(recorded.stdin).get("wanted") or {})
    return [*cast("Mapping[str, object]", wanted.get("nodes") or {})]


def choose_departures(
    step: DepartureStep | None, kubernetes: KubernetesPlan | None, applied: Applied
) -> DepartureStep | None:
    """The step of this update; None where no node leaves and none ever left.

    A name that left and is in the file again goes from the list, so that it can leave once more.
    """
    if step is None or kubernetes is None:
        return None
    recorded, leaving = applied.step(STEP), leaving_nodes(kubernetes, applied)
    stdin = recorded.stdin if recorded else ""
    last = parse_leave(stdin) if stdin else step.request
    if leaving:
        return replace(step, request=replace(step.request, nodes=leaving, run=last.run + 1))
    if not stdin:
        return None
    left = tuple(name for name in last.nodes if name not in kubernetes.own_nodes)
    if left == last.nodes:
        return replace(step, kept=stdin)
    return replace(step, request=replace(step.request, nodes=left, run=last.run))


def describe_leaving(leaving: Sequence[str]) -> tuple[str, ...]:
    """What a preview says of the nodes that leave."""
    return tuple(
        f"WILL LEAVE THE CLUSTER: {name}: it is drained first, and only then its switch ports and"
        " its host lose their settings; its jobs end or move"
        for name in leaving
    )


def leaving_refused(leaving: Sequence[str]) -> tuple[str, ...]:
    """Refuse at preview, where `disruption.reboots` is `deny`."""
    return tuple(
        f"disruption: {name} would be drained: it leaves the cluster, since the file has it no"
        " more\n"
        "  where  disruption.reboots = deny\n"
        "  fix    plan a window and set disruption.reboots to allow, or put it back into the file"
        for name in leaving
    )


def how_to_allow(count: int) -> str:
    """What to write if so many workers have to leave service at once."""
    return (
        f"write `disruption: {{max_unavailable: {count}}}` if the jobs can spare them, or plan a"
        " window and write `disruption: {ports: allow}`"
    )


FIELD: Final = "leave"
"""The key of a switch's request that has a `PortsLeave`."""


@dataclass(frozen=True, slots=True)
class PortsLeave:
    """Who is behind the ports of one switch, and how they leave."""

    switch: str
    nodes: Mapping[str, str]
    """Port to the node that is cabled to it; ports to other switches are left out."""
    leave: NodesLeave
    """The cluster, and how long a drain may take; the nodes are those of the ports that change."""
    workers: tuple[str, ...]
    """The nodes that count against `max_unavailable`."""
    max_unavailable: int

    def document(self) -> Mapping[str, object]:
        """What the request has of it."""
        return {FIELD: to_json(self)}

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Everything that the step connects to beside the switch."""
        return self.leave.endpoints

    @property
    def secret(self) -> str:
        """Name of the secret kubeconfig of an existing cluster; mostly there is none."""
        return self.leave.cluster.kubeconfig_secret

    def behind(self, ports: Sequence[str]) -> tuple[str, ...]:
        """The nodes behind some ports; an empty name means the switch as a whole."""
        named = self.nodes if "" in ports else ports
        return tuple(dict.fromkeys(self.nodes[port] for port in named if port in self.nodes))

    def groups(self, ports: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Which of some ports change together, one group after the other.

        A group has the ports of `max_unavailable` workers, or of one server. Ports without a node
        are in the first group. A change of the whole switch is one group.
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
        """The preview's line about the nodes that leave while some ports change."""
        nodes, parts = self.behind(ports), self.groups(ports)
        if nodes:
            turns = f", in {len(parts)} groups, one after the other" if len(parts) > 1 else ""
            yield (
                f"WILL LEAVE SERVICE: {', '.join(nodes)}: drained before their ports of"
                f" {self.switch} change{turns}"
            )

    def refused(self, ports: Sequence[str]) -> Iterator[str]:
        """Why so many nodes cannot leave at once: the step refuses it too."""
        for part in self.groups(ports):
            going = [name for name in self.behind(part) if name in self.workers]
            if len(going) > self.max_unavailable:
                yield (
                    f"disruption: {', '.join(going)} would leave service at once, for a change of"
                    f" {self.switch} as a whole\n"
                    f"  where  disruption.ports = drain, max_unavailable = {self.max_unavailable}\n"
                    f"  fix    {how_to_allow(len(going))}"
                )


def plan_ports(
    spec: ClusterSpec, stack: str, kubernetes: KubernetesPlan | None
) -> dict[str, PortsLeave]:
    """Who leaves for each switch; empty if the file does not say `drain`, or has no cluster."""
    cluster = refer_to(spec, kubernetes)
    if spec.disruption.ports != "drain" or cluster is None:
        return {}
    leave = NodesLeave(stack, cluster, spec.disruption.drain_deadline_s)
    workers = tuple(host.node for host in spec.workers)
    most = spec.disruption.max_unavailable
    return {
        switch.name: PortsLeave(switch.name, _behind(spec, switch), leave, workers, most)
        for switch in spec.switches
    }


def _behind(spec: ClusterSpec, switch: Switch) -> dict[str, str]:
    hosts = {name: spec.host(port.to.partition("/")[0]) for name, port in switch.ports.items()}
    inside = {host.name for host in (*spec.workers, *spec.servers)}
    return {port: host.node for port, host in hosts.items() if host and host.name in inside}
