"""Kubernetes objects as Pulumi resources: any kind, from a plain manifest."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components.kubernetes.manifest import Manifest


def apply_manifests(
    manifests: Sequence[Manifest],
    parent: pulumi.Resource,
    provider: pulumi.ProviderResource,
    after: Sequence[pulumi.Resource],
) -> list[pulumi.Resource]:
    """Register manifests in groups: a group starts when the one before it is ready.

    Args:
        manifests: In order; `group` numbers never fall.
        parent: The component that owns them.
        provider: The cluster.
        after: What must be ready before the first group.

    Returns:
        The objects of all groups.
    """
    made: list[pulumi.Resource] = []
    before, current, group = list(after), list[pulumi.Resource](), None
    for manifest in manifests:
        if manifest.group != group and current:
            before, current = current, []
        group = manifest.group
        opts = pulumi.ResourceOptions(parent=parent, provider=provider, depends_on=before)
        current.append(_object(manifest, opts))
        made.append(current[-1])
    return made


def _object(manifest: Manifest, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    return pulumi.CustomResource(
        _token(manifest), manifest.resource_name, dict(manifest.body), opts
    )


def _token(manifest: Manifest) -> str:
    """The provider's type token: `kubernetes:core/v1:ConfigMap`, `kubernetes:apps/v1:DaemonSet`."""
    version = manifest.api_version
    return f"kubernetes:{version if '/' in version else 'core/' + version}:{manifest.kind}"
