"""The reboots as Pulumi resources: groups one after the other, the hosts of one group together."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components.disruption.plan import VERB, HostRebootStep, RebootGroup
from components.remote.component import LocalCall, Remote, local_call
from components.remote.handoffs import HostsReady, gate
from components.remote.step import env_name
from components.remote.tool_files import keep_text


class Reboots(pulumi.ComponentResource):
    """Take hosts out of service where something waits for that, and put them back.

    A host that fails fails alone within its group; the groups after it are not touched.

    Args:
        name: Name of the component; steps are named after their host.
        groups: From `plan_reboots`, in the order of the work.
        remote: Secrets and repair notes of this run.
        hosts: The handoff of the hosts, after their converge steps.
        opts: Resource options of the component.
    """

    ready: HostsReady

    def __init__(
        self,
        name: str,
        groups: Sequence[RebootGroup],
        remote: Remote,
        hosts: HostsReady,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:reboots:Reboots", name, {"groups": len(groups)}, opts)
        if not pulumi.runtime.is_dry_run():
            steps = (step for group in groups for step in group.steps)
            for text in {text for step in steps for text in step.request.texts}:
                keep_text(text)
        previous = hosts.gate
        for group in groups:
            done = [self._step(remote, step, previous) for step in group.steps]
            many = len(done) > 1
            previous = gate(f"{name}-{group.number}", self, done) if many else done[0]
        self.ready = HostsReady(gate(name, self, [previous]))
        self.register_outputs({})

    def _step(
        self, remote: Remote, step: HostRebootStep, after: pulumi.Resource
    ) -> pulumi.Resource:
        """One `railyard device reboot-host`; a repair of its host or what waits there runs it."""
        request = step.request
        environment: dict[str, pulumi.Input[str]] = {}
        for endpoint in request.endpoints:
            environment |= remote.environment(endpoint)
        if request.cluster is not None and (name := request.cluster.kubeconfig_secret):
            environment[env_name(name)] = remote.secrets.require_secret(name)
        notes = filter(None, (remote.note(step.serves), remote.note(step.name)))
        stdin = remote.filled(request.render("; ".join(notes)))
        opts = pulumi.ResourceOptions(parent=self, depends_on=[after])
        call = LocalCall(step.name, VERB, stdin, environment)
        return local_call(call, remote.on_machine(request.endpoint, opts))
