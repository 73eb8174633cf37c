"""Kubernetes objects as Pulumi resources, and the handoffs of the stages before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pulumi

from components.core.record import field, record
from components.kubernetes.client import KEEP, LEAVE, STEP, LeaveRequest
from components.kubernetes.manifest import AGAIN, HELD, LOGIN_DATA, Manifest, outlives, repaired
from components.kubernetes.planes.base import ClusterRef, KubernetesPlan
from components.remote.component import LocalCall, Remote, local_call
from components.remote.handoffs import gate
from components.remote.step import env_name

MANY: Final = 20
"""From this number of names in the state, a gate takes less space: it costs some six names."""


@record
class ClusterAccess:
    """Kubernetes answers; `kubeconfig` contains the address that reaches it from here."""

    gate: pulumi.Resource
    plan: KubernetesPlan
    kubeconfig: pulumi.Output[str]
    provider: pulumi.ProviderResource
    login: pulumi.Output[str] | None = None
    """The value of the Secrets with which pods pull; None if the registry wants no login."""
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Repair notes of this run; those for objects use the names of their resources."""

    def options(self, name: str, opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
        """The options of an object or a chart, changed by the repair notes of this run."""
        own = pulumi.ResourceOptions(provider=self.provider)
        if HELD in self.notes:
            own.ignore_changes = ["*"]
        elif name + AGAIN in self.notes:
            own.replace_on_changes, own.delete_before_replace = ["metadata"], True
        return pulumi.ResourceOptions.merge(opts, own)


@record
class _Ready:
    gate: pulumi.Resource
    access: ClusterAccess


class GpuReady(_Ready):
    """The GPUs are resources of the cluster."""


class PodNetworkReady(_Ready):
    """Pods can be attached to the rails."""


class JobsReady(_Ready):
    """MPI jobs run."""


def apply_manifests(
    name: str,
    manifests: Sequence[Manifest],
    parent: pulumi.Resource,
    access: ClusterAccess,
    after: Sequence[pulumi.Resource],
) -> list[pulumi.Resource]:
    """Register manifests in groups: a group starts when the one before it is ready.

    A gate named after `name` separates two groups of many objects; otherwise the state would name
    each object of the first in each of the second. The `group` numbers of the manifests never fall.
    To wait for the returned objects, those of the last group, is to wait for all.
    """
    before, current, group = list(after), list[pulumi.Resource](), None
    for manifest in manifests:
        if manifest.group != group and current:
            following = sum(each.group == manifest.group for each in manifests)
            wide = len(current) * following > MANY
            before = [gate(f"{name}-group-{group}", parent, current)] if wide else current
            current = []
        group = manifest.group
        opts = pulumi.ResourceOptions(
            parent=parent,
            depends_on=before,
            retain_on_delete=outlives(manifest, foreign=access.plan.existing is not None) or None,
        )
        body = repaired(manifest.body, access.notes.get(manifest.resource_name, ""))
        properties: dict[str, object] = {**body}
        if access.login is not None and body.get("data") == LOGIN_DATA:
            properties["data"] = dict.fromkeys(LOGIN_DATA, access.login)
        # The provider's type token: `kubernetes:core/v1:ConfigMap`, `kubernetes:apps/v1:DaemonSet`.
        version = manifest.api_version
        version = version if "/" in version else f"core/{version}"
        token, own = f"kubernetes:{version}:{manifest.kind}", manifest.resource_name
        current.append(pulumi.CustomResource(token, own, properties, access.options(own, opts)))
    return current


def access_environment(cluster: ClusterRef, remote: Remote) -> dict[str, pulumi.Input[str]]:
    """The secrets with which a local step reaches a cluster."""
    environment: dict[str, pulumi.Input[str]] = {}
    if secret := cluster.kubeconfig_secret:
        environment[env_name(secret)] = remote.secrets.require_secret(secret)
    for server in cluster.servers:
        environment |= remote.environment(server.endpoint)
    return environment


def ask_before_deletion(
    cluster: ClusterRef, stack: str, remote: Remote, opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    """The step that asks the API before a deletion: `opts` depends on all objects."""
    call = LocalCall(
        STEP,
        KEEP,
        remote.filled(LeaveRequest(cluster, stack).render()),
        access_environment(cluster, remote),
        delete=LEAVE,
    )
    return local_call(call, opts)
