"""The cloud's objects as Pulumi resources: one local command each, in the order of the plan."""

from __future__ import annotations

from dataclasses import replace

import pulumi

from components.cloud.cloud_plan import CloudPlan, list_calls
from components.remote.component import LocalCall, Remote, local_call
from components.remote.handoffs import InstancesReady, gate
from components.remote.step import env_name


class Instances(pulumi.ComponentResource):
    """Make network, firewall, IB partition and instances, and wait until they answer."""

    ready: InstancesReady

    def __init__(
        self, name: str, plan: CloudPlan, remote: Remote, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railyard:cloud:Instances", name, {"instances": len(plan.instances)}, opts)
        printed, steps = dict[str, pulumi.Output[str]](), dict[str, pulumi.Resource]()
        keys = (plan.api.access_key, plan.api.secret_key)
        environment = {env_name(key): remote.secrets.require_secret(key) for key in keys}
        for call in list_calls(plan, remote.notes):
            filled = replace(remote, instances=printed).filled
            command = local_call(
                LocalCall(
                    call.step, f"cloud {call.verb}", filled(call.stdin), environment,
                    delete=f"cloud {call.delete}" if call.delete else None, previous_output=True,
                    triggers=[filled(text) for text in call.triggers],
                ),
                pulumi.ResourceOptions(
                    parent=self, depends_on=[steps[step] for step in call.needs],
                    delete_before_replace=True,
                ),
            )  # fmt: skip
            steps[call.step], printed[call.step] = command, command.stdout
        self.ready = InstancesReady(
            gate(name, self, [steps[each.step] for each in plan.instances]),
            facts={each.name: printed[each.step] for each in plan.instances},
            machines={each.name: steps[each.create] for each in plan.instances},
        )
        self.register_outputs({})
