"""The operators as Pulumi resources."""

from __future__ import annotations

from typing import Final, cast

import pulumi
from pulumi.runtime import rpc
from pulumi_kubernetes.helm.v3 import Release, ReleaseArgs, RepositoryOptsArgs

from components.core.record import record
from components.kubernetes.objects import (
    ClusterAccess,
    GpuReady,
    access_environment,
    apply_manifests,
)
from components.kubernetes.planes.base import ClusterRef
from components.operators.operators_plan import ChartPlan, OperatorsPlan
from components.operators.restore import VERB, RestoreRequest, restore_step_name
from components.remote.component import LocalCall, Remote, local_call
from components.remote.handoffs import gate

_UNKNOWN: Final = cast("str", rpc.UNKNOWN)
"""A value known only in an update; the plugin reads no chart if a Release contains one."""


@record
class Repairs:
    """How differences within a Helm release are repaired."""

    cluster: ClusterRef
    remote: Remote
    """Secrets and repair notes of this run."""


class Operators(pulumi.ComponentResource):
    """Install the operators; without `repairs`, differences within a release stay."""

    ready: GpuReady

    def __init__(
        self,
        name: str,
        plan: OperatorsPlan,
        access: ClusterAccess,
        opts: pulumi.ResourceOptions | None = None,
        repairs: Repairs | None = None,
    ) -> None:
        super().__init__("railyard:operators:Operators", name, {"charts": len(plan.charts)}, opts)
        done = apply_manifests(name, plan.labels, self, access, [access.gate])
        for chart in plan.charts:
            # One after another: a chart may use the definitions of an earlier one.
            done += self._chart(chart, access, [access.gate, *done], repairs)
        done += apply_manifests(name, plan.gates, self, access, [access.gate, *done])
        self.ready = GpuReady(gate(name, self, [access.gate, *done]), access)
        self.register_outputs({})

    def _chart(
        self,
        chart: ChartPlan,
        access: ClusterAccess,
        after: list[pulumi.Resource],
        repairs: Repairs | None,
    ) -> list[pulumi.Resource]:
        """A release, after the step that restores it, if that was ever needed."""
        before: list[pulumi.Resource] = []
        name = restore_step_name(chart.release)
        if repairs and (note := repairs.remote.note(name)):
            cluster, remote = repairs.cluster, repairs.remote
            request = RestoreRequest(cluster, chart.release, chart.namespace, note)
            environment = access_environment(cluster, remote)
            call = LocalCall(name, VERB, remote.filled(request.render()), environment)
            opts = pulumi.ResourceOptions(parent=self, depends_on=after)
            before.append(local_call(call, opts))
        # A new description upgrades a release, although nothing else differs.
        description = repairs.remote.note(chart.release) if repairs else ""
        release = Release(
            chart.release,
            ReleaseArgs(
                name=chart.release, chart=_UNKNOWN if chart.away else chart.chart,
                version=chart.version, namespace=chart.namespace, create_namespace=True,
                repository_opts=RepositoryOptsArgs(repo=chart.repo) if chart.repo else None,
                values=dict(chart.values), timeout=int(chart.deadline_s),
                description=description or None,
            ),
            access.options(
                chart.release, pulumi.ResourceOptions(parent=self, depends_on=[*after, *before])
            ),
        )  # fmt: skip
        return [*before, release]
