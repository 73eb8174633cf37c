"""The switches as Pulumi resources: a baseline and an apply step each, or one plain exec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Protocol

import pulumi

from components.fabric.device import BASELINE_VARIABLE, OUTPUT_VARIABLE, judge_request
from components.fabric.edit import pack_baseline
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.gate import place_file, place_text
from components.fabric.parts import fold_ports
from components.fabric.targets import ExecPlan, numbered
from components.remote.component import LocalCall, Remote, join_text, local_call
from components.remote.handoffs import FabricReady, NodesDrained, gate
from components.remote.objects import Sent, printed, switch_exec
from components.remote.step import Endpoint, env_name, render_request
from components.remote.tools import keep_current


class HostsLeave(Protocol):
    """Who leaves service while the ports of a switch change: `components.disruption.ports`."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints that the step connects to besides the switch."""
        ...

    @property
    def secret(self) -> str:
        """Name of the secret with the kubeconfig; empty without one."""
        ...

    def document(self) -> Mapping[str, object]:
        """Its part of the request."""
        ...


class Fabric(pulumi.ComponentResource):
    """Bring switches to their plans; the steps are named after their switch.

    `drained`: nodes that leave a cluster, and whose ports these plans let go. `leaves`: switch to
    who leaves service while its ports change.
    """

    ready: FabricReady

    def __init__(
        self,
        name: str,
        plans: Sequence[SwitchPlan],
        remote: Remote,
        drained: NodesDrained | None = None,
        leaves: Mapping[str, HostsLeave] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:fabric:Fabric", name, {"switches": len(plans)}, opts)
        self._leaves = leaves or {}
        first: list[pulumi.Resource] = [drained.gate] if drained else []
        self._before = first
        applied: list[pulumi.Resource] = []
        for _, wave in groupby(sorted(plans, key=lambda plan: plan.wave), lambda plan: plan.wave):
            done = [
                self._exec(plan, plan.exec, remote) if plan.exec else self._switch(plan, remote)
                for plan in wave
            ]
            applied += done
            self._before = [*first, *done]
        if not pulumi.runtime.is_dry_run():
            for plan in plans:
                keep_current(place_file(plan.endpoint), place_text(plan))
        self.ready = FabricReady(gate(name, self, applied))
        self.register_outputs({})

    def _switch(self, plan: SwitchPlan, remote: Remote) -> pulumi.Resource:
        environment = remote.environment(plan.endpoint)
        desired = plan.desired.model_dump(mode="json")
        who = {"serial": plan.serial} if plan.serial else {}
        who |= {"stack": remote.stack or pulumi.get_stack()} if plan.marks else {}
        request = render_request(plan.endpoint, os=plan.os, desired=fold_ports(desired), **who)
        # The baseline is taken once, before the first change, and kept: its inputs are ignored.
        baseline = local_call(
            LocalCall(
                plan.step_named("baseline"),
                f"device baseline --stack {remote.stack or pulumi.get_stack()}",
                request,
                environment,
            ),
            pulumi.ResourceOptions(parent=self, ignore_changes=["*"]),
        )
        recorded = join_text(baseline.stdout, pack_baseline)
        note = remote.note(plan.step)
        # Only if the policy refuses: a request that allows everything keeps its old text.
        policy: dict[str, object] = dict(who)
        policy |= {"ports": plan.ports} if plan.ports != "allow" else {}
        leave = self._leaves.get(plan.name)
        if leave:
            policy |= leave.document()
            for endpoint in leave.endpoints:
                environment |= remote.environment(endpoint)
            if leave.secret:
                environment[env_name(leave.secret)] = remote.secrets.require_secret(leave.secret)
        return local_call(
            LocalCall(
                plan.step,
                "device apply-drained" if leave else "device apply",
                render_request(plan.endpoint, os=plan.os, desired=desired, repair=note, **policy),
                environment | {BASELINE_VARIABLE: recorded},
                delete="device restore",
                previous_output=True,
            ),
            pulumi.ResourceOptions(parent=self, depends_on=[baseline, *self._before]),
        )

    def _exec(self, plan: SwitchPlan, texts: ExecPlan, remote: Remote) -> pulumi.Resource:
        """Send the lines and judge the output; only then save, and judge that output."""
        name = plan.step_named("exec")
        run = remote.note(name)
        apply, save = (numbered(plan.os, text, run) for text in (texts.apply, texts.save))
        opts = pulumi.ResourceOptions(parent=self, depends_on=self._before)
        sent = switch_exec(remote, plan.endpoint, name, opts, apply, texts.undo)
        note = remote.note(plan.step)
        judged = self._judge(plan.step, judge_request(plan, "apply", apply, note), sent)
        opts = pulumi.ResourceOptions(parent=self, depends_on=[judged])
        saved = switch_exec(remote, plan.endpoint, plan.step_named("save"), opts, save)
        return self._judge(plan.step_named("saved"), judge_request(plan, "save", save, ""), saved)

    def _judge(self, step: str, request: str, sent: Sent) -> pulumi.Resource:
        call = LocalCall(step, "device judge", request, {OUTPUT_VARIABLE: printed(sent)})
        return local_call(call, pulumi.ResourceOptions(parent=self, depends_on=[sent]))
