"""The operators as Pulumi resources."""

from __future__ import annotations

import pulumi
from pulumi_kubernetes.helm.v3 import Release, ReleaseArgs, RepositoryOptsArgs

from components.kubernetes.handoffs import ClusterAccess, GpuReady
from components.kubernetes.objects import apply_manifests
from components.operators.plan import ChartPlan, OperatorsPlan
from components.remote.handoffs import gate


class Operators(pulumi.ComponentResource):
    """Install the operators that make GPUs and RDMA cards resources of the cluster.

    Args:
        name: Name of the component.
        plan: What `plan_operators` decided.
        access: The cluster.
        opts: Resource options of the component.
    """

    ready: GpuReady

    def __init__(
        self,
        name: str,
        plan: OperatorsPlan,
        access: ClusterAccess,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:operators:Operators", name, {"charts": len(plan.charts)}, opts)
        done = apply_manifests(plan.labels, self, access.provider, [access.gate])
        for chart in plan.charts:
            # One after another: a chart may use definitions that the one before it brings.
            done.append(self._release(chart, access, [access.gate, *done]))
        done += apply_manifests(plan.gates, self, access.provider, [access.gate, *done])
        self.ready = GpuReady(gate(name, self, [access.gate, *done]), access)
        self.register_outputs({})

    def _release(
        self, chart: ChartPlan, access: ClusterAccess, after: list[pulumi.Resource]
    ) -> pulumi.Resource:
        return Release(
            chart.release,
            ReleaseArgs(
                name=chart.release,
                chart=chart.chart,
                version=chart.version,
                repository_opts=RepositoryOptsArgs(repo=chart.repo) if chart.repo else None,
                namespace=chart.namespace,
                create_namespace=True,
                values=dict(chart.values),
                timeout=int(chart.deadline_s),
            ),
            pulumi.ResourceOptions(parent=self, provider=access.provider, depends_on=after),
        )
