"""Reboots, upgrades and departures as resources: groups in order, hosts of a group in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pulumi

from components.disruption import disruption_plan as plans
from components.disruption.disruption_plan import HostRebootStep, UpgradeStep
from components.disruption.leave_plan import DRAIN_VERB, STEP, DepartureStep
from components.disruption.request import groups_file, groups_text
from components.kubernetes.objects import access_environment
from components.remote.component import LocalCall, Remote, local_call
from components.remote.handoffs import HostsReady, NodesDrained, gate
from components.remote.sending import render_parts
from components.remote.step import RemoteStep
from components.remote.tools import keep_current, keep_text


class Reboots(pulumi.ComponentResource):
    """Take hosts out of service for waiting changes, and return them.

    A failed host does not stop the others in its group, but it stops the following groups. One
    resource has up to `HOSTS_A_STEP` hosts, and visits only those whose request changed.
    """

    ready: HostsReady

    def __init__(
        self,
        name: str,
        groups: Sequence[plans.RebootGroup],
        remote: Remote,
        hosts: HostsReady,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:reboots:Reboots", name, {"groups": len(groups)}, opts)
        if not pulumi.runtime.is_dry_run():
            asked = [step.request for group in groups for step in group.steps]
            for text in {request.text for request in asked}:
                keep_text(text)
            for stack in {request.stack for request in asked}:
                keep_current(groups_file(stack), groups_text(asked))
        previous = hosts.gate
        for part, steps in plans.reboot_parts(groups).items():
            previous = self._step(f"{name}-{part}", remote, steps, previous)
        self.ready = hosts.behind(gate(name, self, [previous]))
        self.register_outputs({})

    def _step(
        self, name: str, remote: Remote, steps: Sequence[HostRebootStep], after: pulumi.Resource
    ) -> pulumi.Resource:
        """Run `railyard device reboot-hosts`; a repair or a waiting change of a host repeats it."""
        environment: dict[str, pulumi.Input[str]] = {}
        noted: list[tuple[RemoteStep, str]] = []
        for each in steps:
            environment |= remote.environment(each.request.endpoint)
            if each.request.cluster is not None:
                environment |= access_environment(each.request.cluster, remote)
            notes = filter(None, (remote.note(each.serves), remote.note(each.name)))
            kept = remote.kept.get(each.name)
            noted.append(
                (replace(each.step, desired=kept), "") if kept else (each.step, "; ".join(notes))
            )
        stdin = remote.filled(render_parts(noted))
        call = LocalCall(name, plans.REBOOT_VERB, stdin, environment, previous_output=True)
        return local_call(call, pulumi.ResourceOptions(parent=self, depends_on=[after]))


class Upgrades(pulumi.ComponentResource):
    """Upgrade K3s nodes: servers one at a time, then workers in groups."""

    ready: HostsReady

    def __init__(
        self,
        name: str,
        groups: Sequence[plans.UpgradeGroup],
        remote: Remote,
        hosts: HostsReady,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:upgrades:Upgrades", name, {"groups": len(groups)}, opts)
        previous = hosts.gate
        for number, group in enumerate(groups, 1):
            done = [self._step(remote, step, previous) for step in group.steps]
            previous = gate(f"{name}-{number}", self, done) if len(done) > 1 else done[0]
        self.ready = hosts.behind(gate(name, self, [previous]))
        self.register_outputs({})

    def _step(self, remote: Remote, step: UpgradeStep, after: pulumi.Resource) -> pulumi.Resource:
        """Run `railyard device upgrade-node`; a finished upgrade keeps its recorded stdin."""
        request = step.request
        if not (step.kept or pulumi.runtime.is_dry_run()):
            for text in request.texts:
                keep_text(text)
        environment = remote.environment(request.endpoint)
        environment |= access_environment(request.cluster, remote)
        stdin = step.kept or remote.filled(request.render())
        opts = pulumi.ResourceOptions(parent=self, depends_on=[after])
        call = LocalCall(step.name, plans.UPGRADE_VERB, stdin, environment)
        return local_call(call, remote.on_machine(request.endpoint, opts))


class Departures(pulumi.ComponentResource):
    """Drain the nodes that left the file, before the switches reset their ports."""

    ready: NodesDrained

    def __init__(
        self,
        name: str,
        step: DepartureStep,
        remote: Remote,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:departures:Departures", name, {}, opts)
        environment = access_environment(step.request.cluster, remote)
        stdin = step.kept or step.request.render()
        call = LocalCall(STEP, DRAIN_VERB, stdin, environment)
        self.ready = NodesDrained(local_call(call, pulumi.ResourceOptions(parent=self)))
        self.register_outputs({})
