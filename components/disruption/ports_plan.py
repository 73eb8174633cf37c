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

    def describe(self, nodes: Sequence[str]) -> Iterator[str]:
        """What a preview says of the nodes that leave."""
        if nodes:
            names = ", ".join(nodes)
            yield f"WILL LEAVE SERVICE: {names}: drained before their ports of {self.switch} change"

    def refused(self, nodes: Sequence[str]) -> Iterator[str]:
        """Why so many nodes cannot leave at once: the step refuses it too."""
        going = [name for name in nodes if name in self.workers]
        if len(going) > self.max_unavailable:
            yield (
                f"disruption: {', '.join(going)} would leave service at once, for a change of"
                f" {self.switch}\n"
                f"  where  disruption.ports = drain, max_unavailable = {self.max_unavailable}\n"
                "  fix    raise max_unavailable, or plan a window and set ports to allow"
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
