"""The payload without Kubernetes as Pulumi resources: keys, image, one container a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pulumi

from components.containers.container_plan import KEYS, PayloadPlan
from components.remote.component import LocalCall, Remote, local_call
from components.remote.handoffs import HostsReady, PayloadReady, gate
from components.remote.objects import WithMade, host_step
from components.remote.step import RemoteStep


class Payload(pulumi.ComponentResource):
    """Run one container on every worker, with MPI over SSH between them.

    The keys are made once and kept in the state as secrets. `pulumi up --replace '**payload-keys'`
    makes new ones and hands them out; the next `pulumi up` sees that they are not in use, and puts
    them there.

    Steps are named after their host.
    """

    ready: PayloadReady

    def __init__(
        self,
        name: str,
        plan: PayloadPlan,
        remote: Remote,
        hosts: HostsReady,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:payload:Payload", name, {"hosts": len(plan.hosts)}, opts)
        keys = local_call(
            LocalCall(f"{name}-keys", plan.keys, "", {}, secret_stdout=True),
            pulumi.ResourceOptions(parent=self, ignore_changes=["*"]),
        )
        secrets = WithMade(remote.secrets, {KEYS: pulumi.Output.secret(keys.stdout)})
        shared = replace(remote, secrets=secrets)
        stores = [
            self._steps(
                shared, host.stores, [hosts.gate, *hosts.of(host.container.endpoint.device)]
            )
            for host in plan.hosts
        ]
        image: list[pulumi.Resource] = []
        for step in plan.build:
            image = self._steps(shared, [step], image or stores[0])
        containers = [
            made
            for host, kept in zip(plan.hosts, stores, strict=True)
            for made in self._steps(shared, [host.container], [*kept, *image])
        ]
        self.ready = PayloadReady(gate(name, self, containers))
        self.register_outputs({})

    def _steps(
        self, shared: Remote, steps: Sequence[RemoteStep], after: Sequence[pulumi.Resource]
    ) -> list[pulumi.Resource]:
        opts = pulumi.ResourceOptions(parent=self, depends_on=list(after))
        return [host_step(shared, step, opts) for step in steps]
