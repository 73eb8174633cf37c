"""Handoffs between stages: plan values and a gate, but no output of an install.

A stage takes the previous stage's handoff, so a wrong order fails the type check. Each stage ends
in one gate resource, so a dependency on a stage is one edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from components.core.record import field, record, replace


@record
class _Stage:
    gate: pulumi.Resource


class NodesDrained(_Stage):
    """Nodes that leave the cluster in this update no longer run pods."""


class FabricReady(_Stage):
    """All switches are as planned."""


class HypervisorsReady(_Stage):
    """All ESXi hosts run as planned, and their virtual machines are powered on."""


@record
class InstancesReady(_Stage):
    """All cloud instances run and answer SSH with the pinned key."""

    facts: Mapping[str, pulumi.Output[str]]
    """Instance to a JSON object of texts: `public_ip`, `private_ip`, `host_key`."""
    machines: Mapping[str, pulumi.Resource]
    """Instance to its resource; its deletion also deletes the steps on it."""


Underlay = FabricReady | HypervisorsReady | InstancesReady
"""The stage below hosts: cabled switches, hypervisors, or a cloud."""


@record
class HostsReady(_Stage):
    """All hosts are as planned, after the stage below them."""

    hosts: Mapping[str, pulumi.Resource] = field(default_factory=dict[str, pulumi.Resource])
    """Host to its last own step. Later installs on a host depend on it too: the engine orders
    deletions by the edges between deleted resources, and a gate is not deleted."""

    def behind(self, gate: pulumi.Resource) -> HostsReady:
        """Return the same handoff after one more stage."""
        return replace(self, gate=gate)

    def of(self, host: str) -> list[pulumi.Resource]:
        """Return dependencies, besides the gate, for another room's first step on a host."""
        return [self.hosts[host]] if host in self.hosts else []


class PayloadReady(_Stage):
    """Containers run on all workers and reach each other by SSH, without Kubernetes."""


@record
class AcceptanceReport:
    """Acceptance passed, or the update failed with the verdict table."""

    verdict: pulumi.Output[str]
    kubeconfig: pulumi.Output[str] | None = None
    """None if the site has no Kubernetes."""


def gate(name: str, parent: pulumi.Resource, after: Sequence[pulumi.Resource]) -> pulumi.Resource:
    """The one resource that represents a stage; its input never changes."""
    opts = pulumi.ResourceOptions(parent=parent, depends_on=list(after))
    return pulumi.Stash(f"{name}-ready", input=name, opts=opts)
