"""Kubernetes as Pulumi resources: the plane's steps, and the access that follows from them."""

from __future__ import annotations

from dataclasses import replace

import pulumi
import pulumi_kubernetes as kubernetes

from components.core.errors import Bug
from components.kubernetes.kubeconfig import choose_context, render_kubeconfig
from components.kubernetes.manifest import login_value
from components.kubernetes.objects import ClusterAccess
from components.kubernetes.planes.balancers import CLUSTER_CA, ca_facts
from components.kubernetes.planes.base import KubernetesPlan, Playbooks, secret_again
from components.kubernetes.planes.k3s import CLUSTER_FOUND
from components.remote.component import LocalCall, Remote, join_text, local_call
from components.remote.handoffs import HostsReady, gate
from components.remote.objects import host_step, host_steps
from components.remote.sending import with_repair
from components.remote.step import RemoteStep


class Cluster(pulumi.ComponentResource):
    """Install Kubernetes on prepared hosts."""

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
        for number, step in enumerate(plan.servers):
            # One by one: etcd refuses two that join together.
            after = [*servers, *hosts.of(step.endpoint.device)]
            servers = [self._chain(plan, step, remote, after)]
            if number == 0:
                servers = self._balanced(plan, remote, servers)
        if plan.playbooks is not None:
            servers = [self._played(plan.playbooks, remote, servers)]
        agents: list[pulumi.Resource] = []
        for step in plan.agents:
            # All steps of a worker's node are one resource.
            chain = [secret_again(each, remote.note(step.name)) for each in plan.chain_of(step)]
            after = [*servers, *hosts.of(step.endpoint.device)]
            options = pulumi.ResourceOptions(parent=self, depends_on=after)
            agents.append(host_steps(remote, chain, options, step.name))
        ready = gate(name, self, [*servers, *agents])
        kubeconfig = self._kubeconfig(plan, remote, servers)
        provider = kubernetes.Provider(
            f"{name}-provider",
            kubeconfig=kubeconfig,
            cluster_identifier=plan.cluster,
            enable_server_side_apply=True,
            enable_config_map_mutable=True,
            enable_secret_mutable=True,
            enable_patch_force=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        login = None
        if (account := plan.registry) is not None:
            password = remote.secrets.require_secret(account.secret)
            login = join_text(password, lambda text: login_value(account, text))
        self.access = ClusterAccess(ready, plan, kubeconfig, provider, login, remote.notes)
        self.register_outputs({})

    def _chain(
        self, plan: KubernetesPlan, step: RemoteStep, remote: Remote, after: list[pulumi.Resource]
    ) -> pulumi.Resource:
        """All steps of a server, one after the other: later ones may read what one printed."""
        shared = remote
        for each in plan.chain_of(step):
            opts = pulumi.ResourceOptions(parent=self, depends_on=after)
            done = host_step(shared, secret_again(each, remote.note(step.name)), opts)
            if each in plan.removals:
                shared = _knowing(remote, CLUSTER_FOUND, done.stdout)
            after = [done]
        return after[0]

    def _played(
        self, playbooks: Playbooks, remote: Remote, after: list[pulumi.Resource]
    ) -> pulumi.Resource:
        """The one step that runs playbooks on this machine; it gets the secrets of every node."""
        step = playbooks.step
        environment: dict[str, pulumi.Input[str]] = {}
        for endpoint in playbooks.endpoints:
            environment |= remote.environment(endpoint)
        call = LocalCall(
            step.name,
            str(step.apply),
            remote.filled(with_repair(step.desired, remote.note(step.name))),
            environment,
            delete=str(step.undo),
            previous_output=True,
        )
        return local_call(call, pulumi.ResourceOptions(parent=self, depends_on=after))

    def _balanced(
        self, plan: KubernetesPlan, remote: Remote, after: list[pulumi.Resource]
    ) -> list[pulumi.Resource]:
        """Set up the balancers before the first server, with the cluster's CA."""
        if plan.ca is None:
            return after
        opts = pulumi.ResourceOptions(parent=self, depends_on=after)
        ca = host_step(remote, plan.ca, opts)
        knowing = _knowing(remote, CLUSTER_CA, join_text(ca.stdout, ca_facts))
        done: list[pulumi.Resource] = [ca]
        for each in plan.balancing:
            opts = pulumi.ResourceOptions(parent=self, depends_on=done)
            done = [host_step(knowing, each, opts)]
        return done

    def _kubeconfig(
        self, plan: KubernetesPlan, remote: Remote, after: list[pulumi.Resource]
    ) -> pulumi.Output[str]:
        """The kubeconfig, from the first server or from the secret of an existing cluster."""
        if plan.existing is not None:
            raw = remote.secrets.require_secret(plan.existing.kubeconfig_secret)
            context = plan.existing.context
            return join_text(raw, lambda text: choose_context(text, context, plan.cluster))
        if plan.access is None:
            raise Bug("a plan has an access step or an existing cluster")
        opts = pulumi.ResourceOptions(parent=self, depends_on=after)
        access = host_step(remote, plan.access, opts)
        known = pulumi.Output.all(access.stdout, remote.filled(plan.server_url))
        return known.apply(
            lambda parts: render_kubeconfig(parts[0], parts[1], plan.cluster) if parts[0] else ""
        )


def _knowing(remote: Remote, name: str, facts: pulumi.Output[str]) -> Remote:
    """The same access to devices, with the facts of one more name for placeholders."""
    return replace(remote, instances={**remote.instances, name: facts})
