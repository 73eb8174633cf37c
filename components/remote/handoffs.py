"""What one stage hands to the next: plan values and a gate, never the output of an install.

A stage takes the handoff of the stage before it, so a wrong order does not type-check. Each
stage ends in one gate resource: depending on a gate is one edge, whatever is behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi


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
