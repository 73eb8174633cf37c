"""The pod networks as Pulumi resources."""

from __future__ import annotations

import pulumi

from components.kubernetes.objects import GpuReady, PodNetworkReady, apply_manifests
from components.pod_network.pod_network_plan import PodNetworkPlan
from components.remote.handoffs import gate


class PodNetwork(pulumi.ComponentResource):
    """Install the pod network: plugins, address management, attachments."""

    ready: PodNetworkReady

    def __init__(
        self,
        name: str,
        plan: PodNetworkPlan,
        gpus: GpuReady,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            "railyard:pod_network:PodNetwork", name, {"manifests": len(plan.manifests)}, opts
        )
        access = gpus.access
        made = apply_manifests(name, plan.manifests, self, access, [gpus.gate])
        self.ready = PodNetworkReady(gate(name, self, made or [gpus.gate]), access)
        self.register_outputs({})
