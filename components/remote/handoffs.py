"""What one stage hands to the next: plan values and a gate, never the output of an install.

A stage takes the handoff of the stage before it, so a wrong order does not type-check. Each
stage ends in one gate resource: depending on a gate is one edge, whatever is behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pulumi


@dataclass(frozen=True, slots=True)
class NodesDrained:
    """Nodes that leave the cluster in this update run no pods any more."""

    gate: pulumi.Resource


@dataclass(frozen=True, slots=True)
class FabricReady:
    """All switches are as planned."""

    gate: pulumi.Resource


@dataclass(frozen=True, slots=True)
class HypervisorsReady:
    """All ESXi hosts run as planned, and their virtual machines are powered on."""

    gate: pulumi.Resource


@dataclass(frozen=True, slots=True)
class InstancesReady:
    """All cloud instances run and answer SSH with the key that was pinned."""

    gate: pulumi.Resource
    facts: Mapping[str, pulumi.Output[str]]
    """Instance to a JSON object of texts: `public_ip`, `private_ip`, `host_key`."""
    machines: Mapping[str, pulumi.Resource]
    """Instance to its resource: steps on it are deleted with it."""


Underlay = FabricReady | HypervisorsReady | InstancesReady
"""What hosts stand on: cabled switches, hypervisors, or a cloud."""


@dataclass(frozen=True, slots=True)
class HostsReady:
    """All hosts are as planned; what they stand on was before them."""

    gate: pulumi.Resource
    hosts: Mapping[str, pulumi.Resource] = field(default_factory=dict[str, pulumi.Resource])
    """Host to the last of its own steps. What is installed on a host waits for that one too: the
    engine deletes in the order of the edges between what is deleted, and a gate stays."""

    def behind(self, gate: pulumi.Resource) -> HostsReady:
        """The same after one more stage."""
        return replace(self, gate=gate)

    def of(self, host: str) -> list[pulumi.Resource]:
        """What the first step of another room on a host waits for, beside the gate."""
        return [self.hosts[host]] if host in self.hosts else []


@dataclass(frozen=True, slots=True)
class PayloadReady:
    """Containers run on all workers and reach each other by SSH; there is no Kubernetes."""

    gate: pulumi.Resource


@dataclass(frozen=True, slots=True)
class AcceptanceReport:
    """The path was proven, or the update failed with the verdict table."""

    verdict: pulumi.Output[str]


def gate(name: str, parent: pulumi.Resource, after: Sequence[pulumi.Resource]) -> pulumi.Resource:
    """The one resource that represents a stage; its input never changes."""
    opts = pulumi.ResourceOptions(parent=parent, depends_on=list(after))
    return pulumi.Stash(f"{name}-ready", input=name, opts=opts)
