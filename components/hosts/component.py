"""The hosts as Pulumi resources: one converge step each, after the fabric."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components.handoffs import FabricReady, HostsReady, gate
from components.hosts.plan import HostPlan
from components.remote.component import Remote, host_step


class Hosts(pulumi.ComponentResource):
    """Prepare hosts from their plans.

    Args:
        name: Name of the component; steps are named after their host.
        plans: One plan a host, from `plan_hosts`.
        remote: Secrets and repair notes of this run.
        fabric: The handoff of the stage before.
        opts: Resource options of the component.
    """

    ready: HostsReady

    def __init__(
        self,
        name: str,
        plans: Sequence[HostPlan],
        remote: Remote,
        fabric: FabricReady,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:hosts:Hosts", name, {"hosts": len(plans)}, opts)
        done = [self._host(plan, remote, fabric) for plan in plans]
        self.ready = HostsReady(gate(name, self, done))
        self.register_outputs({})

    def _host(self, plan: HostPlan, remote: Remote, fabric: FabricReady) -> pulumi.Resource:
        previous = fabric.gate
        for step in plan.steps:
            opts = pulumi.ResourceOptions(parent=self, depends_on=[previous])
            previous = host_step(remote, step, opts)
        return previous
