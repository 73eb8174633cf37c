"""The hypervisors as Pulumi resources, one after the other, so only one is out of service."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components.hypervisor.hypervisor_plan import HypervisorPlan, RebootStep
from components.remote.component import LocalCall, Remote, local_call
from components.remote.handoffs import FabricReady, HostsReady, HypervisorsReady, gate
from components.remote.objects import host_steps


class Hypervisors(pulumi.ComponentResource):
    """Converge ESXi hosts from their plans, and reboot a host if a setting waits for it."""

    ready: HypervisorsReady

    def __init__(
        self,
        name: str,
        plans: Sequence[HypervisorPlan],
        remote: Remote,
        fabric: FabricReady,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:hypervisor:Hypervisors", name, {"hypervisors": len(plans)}, opts)
        previous = fabric.gate
        for plan in plans:
            opts = pulumi.ResourceOptions(parent=self, depends_on=[previous])
            converged = host_steps(remote, [plan.sending, plan.converge], opts)
            previous = _reboot_step(self, remote, plan.reboot, converged)
        self.ready = HypervisorsReady(gate(name, self, [previous]))
        self.register_outputs({})


class FirmwareReboots(pulumi.ComponentResource):
    """Reboot hypervisors whose guests set firmware for the next boot of a passed-through card.

    A reboot of the guest does not load it (sources.md#esxi), so this follows the guests' steps.
    """

    ready: HostsReady

    def __init__(
        self,
        name: str,
        plans: Sequence[HypervisorPlan],
        remote: Remote,
        hosts: HostsReady,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        steps = [plan.firmware_reboot for plan in plans if plan.firmware_reboot]
        super().__init__("railyard:hypervisor:FirmwareReboots", name, {"steps": len(steps)}, opts)
        previous = hosts.gate
        for step in steps:
            previous = _reboot_step(self, remote, step, previous)
        self.ready = hosts.behind(gate(name, self, [previous]))
        self.register_outputs({})


def _reboot_step(
    parent: pulumi.Resource, remote: Remote, step: RebootStep, after: pulumi.Resource
) -> pulumi.Resource:
    """One `railyard device reboot`; a repair of a step in `serves` makes it run again."""
    notes = [f"{name} {note}" for name in step.serves if (note := remote.note(name))]
    environment: dict[str, pulumi.Input[str]] = {}
    for endpoint in step.request.endpoints:
        environment |= remote.environment(endpoint)
    return local_call(
        LocalCall(step.name, "device reboot", step.request.render("; ".join(notes)), environment),
        pulumi.ResourceOptions(parent=parent, depends_on=[after]),
    )
