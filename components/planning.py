"""`make_plan`: from the checked file to everything that will be done, as plain values."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from components.acceptance.plan import AcceptancePlan, plan_acceptance
from components.fabric.plan import SwitchPlan, plan_fabric
from components.hosts.plan import HostPlan, plan_hosts
from components.jobs.plan import JobsPlan, plan_jobs
from components.kubernetes.plan import plan_kubernetes
from components.kubernetes.planes.base import KubernetesPlan
from components.model.cluster import ClusterSpec
from components.operators.plan import OperatorsPlan, plan_operators
from components.plan_json import to_json
from components.pod_network.plan import PodNetworkPlan, plan_pod_network


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """All that `pulumi up` will ask for: no secrets, no unknowns, no Pulumi."""

    name: str
    stack: str
    switches: tuple[SwitchPlan, ...]
    hosts: tuple[HostPlan, ...]
    kubernetes: KubernetesPlan
    operators: OperatorsPlan
    pod_network: PodNetworkPlan
    jobs: JobsPlan
    acceptance: AcceptancePlan

    @property
    def digest(self) -> str:
        """A short fingerprint: acceptance is proven again when it changes."""
        text = json.dumps(to_json(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_plan(spec: ClusterSpec, stack: str) -> ClusterPlan:
    """Plan every room of a site. Decides nothing itself.

    Args:
        spec: A spec that passed `check_site`.
        stack: Name of the stack: devices keep one baseline a stack.
    """
    jobs = plan_jobs(spec)
    return ClusterPlan(
        name=spec.name,
        stack=stack,
        switches=plan_fabric(spec),
        hosts=plan_hosts(spec, stack),
        kubernetes=plan_kubernetes(spec, stack),
        operators=plan_operators(spec),
        pod_network=plan_pod_network(spec),
        jobs=jobs,
        acceptance=plan_acceptance(spec, jobs),
    )
