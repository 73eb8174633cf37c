"""Kubernetes as Pulumi resources: the plane's steps, and the access that follows from them."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as kubernetes

from components.handoffs import ClusterAccess, HostsReady, gate
from components.kubernetes.kubeconfig import render_kubeconfig
from components.kubernetes.planes.base import KubernetesPlan
from components.remote.component import Remote, host_step, join_text
from components.remote.step import RemoteStep


class Cluster(pulumi.ComponentResource):
    """Install Kubernetes on prepared hosts.

    Args:
        name: Name of the component; steps are named after their host.
        plan: What `plan_kubernetes` decided.
        remote: Secrets and repair notes of this run.
        hosts: The handoff of the stage before.
        opts: Resource options of the component.
    """

    access: ClusterAccess

    def __init__(
        self,
        name: str,
        plan: KubernetesPlan,
        remote: Remote,
        hosts: HostsReady,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railyard:kubernetes:Cluster", name, {"plane": plan.plane}, opts)
        servers: list[pulumi.Resource] = [hosts.gate]
        for step in plan.servers:  # one by one: etcd refuses two that join together
            servers = [self._node(plan, step, remote, servers)]
        agents = [self._node(plan, step, remote, servers) for step in plan.agents]
        ready = gate(name, self, [*servers, *agents])
        access = host_step(
            remote, plan.access, pulumi.ResourceOptions(parent=self, depends_on=servers)
        )
        kubeconfig = join_text(
            access.stdout, lambda raw: render_kubeconfig(raw, plan.server_url, plan.cluster)
        )
        provider = kubernetes.Provider(
            f"{name}-provider",
            kubeconfig=kubeconfig,
            cluster_identifier=plan.cluster,
            enable_server_side_apply=True,
            enable_config_map_mutable=True,
            enable_patch_force=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.access = ClusterAccess(ready, plan, kubeconfig, provider)
        self.register_outputs({})

    def _node(
        self,
        plan: KubernetesPlan,
        step: RemoteStep,
        remote: Remote,
        after: list[pulumi.Resource],
    ) -> pulumi.Resource:
        """The token of a node, then its install."""
        token = plan.token_of(step)
        if token is not None:
            opts = pulumi.ResourceOptions(parent=self, depends_on=after)
            after = [host_step(remote, token, opts)]
        return host_step(remote, step, pulumi.ResourceOptions(parent=self, depends_on=after))
