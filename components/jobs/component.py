"""The MPI operator and the sample jobs as Pulumi resources."""

from __future__ import annotations

import pulumi

from components.jobs.job_plan import JobsPlan
from components.kubernetes.objects import JobsReady, PodNetworkReady, apply_manifests
from components.remote.handoffs import gate


class Jobs(pulumi.ComponentResource):
    """Install the MPI operator, and the job of `watch`."""

    ready: JobsReady

    def __init__(
        self,
        name: str,
        plan: JobsPlan,
        pods: PodNetworkReady,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:jobs:Jobs", name, {"manifests": len(plan.all_manifests)}, opts)
        access = pods.access
        made = apply_manifests(name, plan.all_manifests, self, access, [pods.gate])
        self.ready = JobsReady(gate(name, self, made), access)
        self.register_outputs({})
