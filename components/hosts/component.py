"""The hosts as Pulumi resources: one each for its tools, files and settings, after the fabric."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components.hosts.host_plan import HostPlan, names_of
from components.remote.component import Remote
from components.remote.handoffs import HostsReady, Underlay, gate
from components.remote.objects import host_step, host_steps


class Hosts(pulumi.ComponentResource):
    """Prepare hosts from their plans; the steps are named after their host."""

    ready: HostsReady

    def __init__(
        self,
        name: str,
        plans: Sequence[HostPlan],
        remote: Remote,
        underlay: Underlay,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        properties = {"hosts": len(plans), "names": names_of(plans)}
        super().__init__("railyard:hosts:Hosts", name, properties, opts)
        after = pulumi.ResourceOptions(parent=self, depends_on=[underlay.gate])
        steps = {plan.name: [plan.sending, *plan.all_steps] for plan in plans}
        done = {name: host_steps(remote, each, after) for name, each in steps.items()}
        self.ready = HostsReady(gate(name, self, [*done.values()] or [underlay.gate]), done)
        self.register_outputs({})


class GuestProofs(pulumi.ComponentResource):
    """Check on virtual machines the settings that need a restart of their hypervisors."""

    ready: HostsReady

    def __init__(
        self,
        name: str,
        plans: Sequence[HostPlan],
        remote: Remote,
        hosts: HostsReady,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        steps = [plan.verify for plan in plans if plan.verify is not None]
        super().__init__("railyard:hosts:GuestProofs", name, {"steps": len(steps)}, opts)
        after = pulumi.ResourceOptions(parent=self, depends_on=[hosts.gate])
        done = [host_step(remote, step, after) for step in steps]
        self.ready = hosts.behind(gate(name, self, done or [hosts.gate]))
        self.register_outputs({})
