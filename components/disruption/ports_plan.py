"""Who leaves service while the ports of a switch change: `disruption.ports: drain`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from components.core.to_json import to_json
from components.disruption.leave_plan import NodesLeave
from components.kubernetes.planes.base import KubernetesPlan
from components.kubernetes.reference import refer_to
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.remote.step import Endpoint


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
