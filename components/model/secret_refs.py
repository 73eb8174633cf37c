"""The secrets that a site names, each with its place in the file."""

from collections.abc import Iterator
from functools import reduce
from typing import Final, cast

from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.places import each_ssh
from components.model.units import SecretRef, Ssh

SSH_SECRETS: Final = ("password", "private_key", "passphrase", "sudo_password", "enable_password")
_PLACES: Final = (
    "infiniband.ufm.password", "environment.instances.access_key",
    "environment.instances.secret_key", "kubernetes.token", "kubernetes.agent_token",
    "kubernetes.kubeconfig", "containers.login.password", "containers.build.login.password",
    "sources.mirror.login.password", "sources.registry.login.password",
    "evidence_store.signing_key", "evidence_store.login.password",
)  # fmt: skip
"""The references outside of logins to devices."""


def list_secrets(spec: ClusterSpec) -> Iterator[tuple[SecretRef, SpecPath]]:
    """List each reference to a secret, with its place."""
    found = [*device_secrets(spec)]
    for keys in _PLACES:
        path: SpecPath = (*keys.split("."),)
        part = reduce(lambda part, key: getattr(part, str(key), None), path, cast("object", spec))
        found += [(part, path)] if isinstance(part, SecretRef) else []
    for reference, path in found:
        source = next(key for key in ("secret", "env", "command") if getattr(reference, key))
        yield reference, (*path, source)


def device_secrets(spec: ClusterSpec) -> Iterator[tuple[SecretRef, SpecPath]]:
    """The references with which readings log in to devices."""
    for _, ssh, path in each_ssh(spec):
        yield from ssh_secrets(ssh, path)


def ssh_secrets(ssh: Ssh, path: SpecPath) -> Iterator[tuple[SecretRef, SpecPath]]:
    """The references of one `ssh`, with their places."""
    for key in SSH_SECRETS:
        reference = getattr(ssh, key)
        if isinstance(reference, SecretRef):
            yield reference, (*path, key)
