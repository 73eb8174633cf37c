"""The secrets that a site names, each with its place in the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.jobs import Containers
from components.model.kubernetes import ExistingPlane
from components.model.places import each_ssh
from components.model.sources import EvidenceStore, Sources
from components.model.units import SecretRef, Ssh
from components.model.worker_kinds import crusoe_of

SSH_SECRETS: Final = ("password", "private_key", "passphrase", "sudo_password", "enable_password")


def list_secrets(spec: ClusterSpec) -> Iterator[tuple[SecretRef, SpecPath]]:
    """List each reference to a secret, with its place."""
    for reference, path in _references(spec):
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


def _references(spec: ClusterSpec) -> Iterator[tuple[SecretRef, SpecPath]]:
    yield from device_secrets(spec)
    if spec.infiniband is not None and spec.infiniband.ufm is not None:
        yield spec.infiniband.ufm.password, ("infiniband", "ufm", "password")
    if (provision := crusoe_of(spec)) is not None:
        place = ("environment", "instances")
        yield provision.access_key, (*place, "access_key")
        yield provision.secret_key, (*place, "secret_key")
    if spec.k3s is not None:
        yield spec.k3s.token, ("kubernetes", "token")
        if spec.k3s.agent_token is not None:
            yield spec.k3s.agent_token, ("kubernetes", "agent_token")
    if isinstance(spec.kubernetes, ExistingPlane):
        yield spec.kubernetes.kubeconfig, ("kubernetes", "kubeconfig")
    if spec.containers is not None:
        yield from _registry_secrets(spec.containers)
    yield from _source_secrets(spec.sources)
    yield from _store_secrets(spec.evidence_store)


def _source_secrets(sources: Sources) -> Iterator[tuple[SecretRef, SpecPath]]:
    for key, source in (("mirror", sources.mirror), ("registry", sources.registry)):
        if source is not None and source.login is not None:
            yield source.login.password, ("sources", key, "login", "password", "secret")


def _store_secrets(store: EvidenceStore | None) -> Iterator[tuple[SecretRef, SpecPath]]:
    if store is not None:
        yield store.signing_key, ("evidence_store", "signing_key")
        for password in store.secrets:
            yield password, ("evidence_store", "login", "password")


def _registry_secrets(containers: Containers) -> Iterator[tuple[SecretRef, SpecPath]]:
    path: SpecPath = ("containers",)
    if containers.login is not None:
        yield containers.login.password, (*path, "login", "password")
    if containers.build is not None and containers.build.login is not None:
        yield containers.build.login.password, (*path, "build", "login", "password")
