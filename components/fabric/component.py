"""The switches as Pulumi resources: a baseline and an apply step each."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pulumi

from components.fabric.device import BASELINE_VARIABLE
from components.fabric.plan import SwitchPlan
from components.handoffs import FabricReady, gate
from components.remote.component import LocalCall, Remote, join_text, local_call
from components.remote.step import render_request


class Fabric(pulumi.ComponentResource):
    """Configure switches from their plans.

    Args:
        name: Prefix of nothing but the component itself; steps are named after their switch.
        plans: One plan a switch, from `plan_fabric`.
        remote: Secrets and repair notes of this run.
        opts: Resource options of the component.
    """

    ready: FabricReady

    def __init__(
        self,
        name: str,
        plans: Sequence[SwitchPlan],
        remote: Remote,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:fabric:Fabric", name, {"switches": len(plans)}, opts)
        applied = [self._switch(plan, remote) for plan in plans]
        self.ready = FabricReady(gate(name, self, applied))
        self.register_outputs({})

    def _switch(self, plan: SwitchPlan, remote: Remote) -> pulumi.Resource:
        environment = remote.environment(plan.endpoint)
        desired = plan.desired.model_dump(mode="json")
        request = render_request(plan.endpoint, os=plan.os, desired=desired)
        # The baseline is taken once, before the first change, and kept: its inputs are ignored.
        baseline = local_call(
            LocalCall(
                f"{plan.name}-baseline",
                f"device baseline --stack {pulumi.get_stack()}",
                request,
                environment,
            ),
            pulumi.ResourceOptions(parent=self, ignore_changes=["*"]),
        )
        recorded = join_text(
            baseline.stdout, lambda text: json.dumps(json.loads(text), separators=(",", ":"))
        )
        note = remote.note(plan.step)
        return local_call(
            LocalCall(
                plan.step,
                "device apply",
                render_request(plan.endpoint, os=plan.os, desired=desired, repair=note),
                environment | {BASELINE_VARIABLE: recorded},
                delete="device restore",
                previous_output=True,
            ),
            pulumi.ResourceOptions(parent=self, depends_on=[baseline]),
        )
