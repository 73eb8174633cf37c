"""Rules on how devices are logged in to: pinned host keys, and secrets by reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, Findings, at
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.containers import Containers
from components.model.instances import crusoe_of
from components.model.kubernetes import ExistingPlane
from components.model.name_lists import fold_names
from components.model.reach import how_to_pin
from components.model.sources import Sources
from components.model.units import SecretRef, Ssh
from components.model.ways import each_ssh

_LOGINS: Final = {"password": "a password", "private_key": "a private key", "agent": "the agent"}
_EXAMPLE_KEYS: Final = ("nPtrwJXr", "lnkv91E=")
"""How the keys of the examples end, which no device has: all examples hold the same ones."""
SSH_SECRETS: Final = (
    "password",
    "private_key",
    "passphrase",
    "sudo_password",
    "enable_password",
)


def check_host_key(spec: ClusterSpec) -> Findings:
    """The SSH host key of each device and jump host is pinned: ed25519, ECDSA or RSA.

    Without it the first machine that answers at the address would be trusted.
    """
    by_port: dict[int, dict[str, tuple[Ssh, SpecPath]]] = {}
    for name, ssh, path in each_ssh(spec):
        if ssh.host_key is None:
            by_port.setdefault(ssh.port, {})[name] = (ssh, path)
    for port, without in by_port.items():
        names, verb = fold_names(without), "has" if len(without) == 1 else "have"
        addresses = " ".join(ssh.address for ssh, _ in without.values())
        yield Finding(
            f"{names} {verb} no pinned host key.",
            tuple(at((*path, "host_key"), ssh.host_key) for ssh, path in without.values()),
            f"{how_to_pin(addresses, port)}.",
        )


def check_shared_host_key(spec: ClusterSpec) -> Findings:
    """Devices at different addresses have different host keys.

    A key that was copied to another entry makes every login there fail. Machines that were cloned
    with their key can each pose as the others.
    """
    by_key: dict[str, dict[str, tuple[str, SpecPath]]] = {}
    for name, ssh, path in each_ssh(spec):
        words = (ssh.host_key or "").split()
        if len(words) > 1 and not words[1].endswith(_EXAMPLE_KEYS):
            by_key.setdefault(words[1], {}).setdefault(ssh.address, (name, path))
    for key, devices in by_key.items():
        if len(devices) > 1:
            yield Finding(
                f"{fold_names(name for name, _ in devices.values())} have one host key.",
                tuple(at((*path, "host_key"), f"…{key[-8:]}") for _, path in devices.values()),
                "write the key of each (`ssh-keyscan ADDRESS` on a trusted network); on clones "
                "remove /etc/ssh/ssh_host_* and run `ssh-keygen -A` first.",
                "warning",
            )


def check_credentials(spec: ClusterSpec) -> Findings:
    """Each device has one credential: a host a private key or the agent, a switch a password too.

    A host's password would have to travel with every command; what its sudo asks for is
    `sudo_password`.
    """
    for name, ssh, path in each_ssh(spec):
        on_host = path[0] in {"hosts", "environment"}
        given = [key for key in _LOGINS if getattr(ssh, key)]
        if not given:
            example = "private_key: {secret: ssh_private_key}"
            example = example if on_host else "password: {secret: switch_password}"
            yield Finding(
                f"{name} has neither a private key nor a password.",
                (at(path),),
                f"add {example}, or agent: true.",
            )
        elif ssh.password is not None and on_host:
            yield Finding(
                f"{name} is reached with a password, and hosts are reached by key only.",
                (at((*path, "password"), ssh.password.name),),
                "use private_key or agent; what its sudo asks for is sudo_password.",
            )
        elif len(given) > 1:
            yield Finding(
                f"{name} has {' and '.join(_LOGINS[key] for key in given)}.",
                tuple(at((*path, key), _shown(ssh, key)) for key in given),
                "keep the one that the device accepts.",
            )
        if ssh.passphrase is not None and ssh.private_key is None:
            yield Finding(
                f"{name} has a passphrase, and no private key that it opens.",
                (at((*path, "passphrase"), ssh.passphrase.name),),
                "remove it: an SSH agent has the key open, and a password has no passphrase.",
            )


def _shown(ssh: Ssh, key: str) -> object:
    value = getattr(ssh, key)
    return value.name if isinstance(value, SecretRef) else value


def list_secrets(spec: ClusterSpec) -> Iterator[tuple[SecretRef, SpecPath]]:
    """List each reference to a secret, with its place."""
    for reference, path in _references(spec):
        source = next(key for key in ("secret", "env", "command") if getattr(reference, key))
        yield reference, (*path, source)


def ssh_secrets(ssh: Ssh, path: SpecPath) -> Iterator[tuple[SecretRef, SpecPath]]:
    """The references of one `ssh`, with their places."""
    for key in SSH_SECRETS:
        reference = getattr(ssh, key)
        if isinstance(reference, SecretRef):
            yield reference, (*path, key)


def _references(spec: ClusterSpec) -> Iterator[tuple[SecretRef, SpecPath]]:
    for _, ssh, path in each_ssh(spec):
        yield from ssh_secrets(ssh, path)
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


def _source_secrets(sources: Sources) -> Iterator[tuple[SecretRef, SpecPath]]:
    for key, source in (("mirror", sources.mirror), ("registry", sources.registry)):
        if source is not None and source.login is not None:
            yield source.login.password, ("sources", key, "login", "password", "secret")


def _registry_secrets(containers: Containers) -> Iterator[tuple[SecretRef, SpecPath]]:
    path: SpecPath = ("containers",)
    if containers.login is not None:
        yield containers.login.password, (*path, "login", "password")
    if containers.build is not None and containers.build.login is not None:
        yield containers.build.login.password, (*path, "build", "login", "password")
