"""Rules on how devices are reached: pinned host keys, and secrets by name."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, at
from components.core.placeholder import has_placeholder
from components.core.problem import Place, SpecPath
from components.model.cluster import ClusterSpec
from components.model.containers import Containers
from components.model.instances import crusoe_of
from components.model.kubernetes import ExistingPlane
from components.model.units import SecretRef, Ssh
from components.reading.load import StackSecrets

_KEY_TYPES: Final = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
)
_LENGTH_BYTES: Final = 4
"""Each field of a public key begins with its length in four bytes (RFC 4253, section 6.6)."""


def _devices(spec: ClusterSpec) -> Iterator[tuple[str, Ssh, SpecPath]]:
    for s, switch in enumerate(spec.switches):
        yield switch.name, switch.ssh, ("switches", s, "ssh")
    for h, host in enumerate(spec.hosts):
        yield host.name, host.ssh, ("hosts", h, "ssh")
    for y, hypervisor in enumerate(spec.hypervisors):
        yield hypervisor.name, hypervisor.ssh, ("environment", "hypervisors", y, "ssh")


def _waits_for_instance(ssh: Ssh) -> bool:
    """A made instance shows its key at the first contact, and that one is pinned."""
    return ssh.host_key is not None and has_placeholder(ssh.host_key)


def check_host_key(spec: ClusterSpec) -> Iterator[Finding]:
    """The SSH host key of each device is pinned, as an ed25519 or ECDSA key.

    Without it the first machine that answers at the address would be trusted. RSA is refused: the
    Pulumi command provider offers only SHA-1 signatures for RSA host keys, which servers refuse.
    """
    for name, ssh, path in _devices(spec):
        if _waits_for_instance(ssh):
            continue
        reason = "has no pinned host key" if ssh.host_key is None else _flaw(ssh.host_key)
        if reason:
            yield Finding(
                f"{name} {reason}.",
                (at((*path, "host_key"), ssh.host_key),),
                f"{how_to_pin(ssh.address, ssh.port)}.",
            )


def how_to_pin(address: str, port: int) -> str:
    """How a person gets at a device's host key without trusting the first machine that answers."""
    return (
        f"run `ssh-keyscan -t ed25519 -p {port} {address}` on a trusted network, "
        "compare the key with the device's console, and write what follows the address"
    )


def _flaw(key: str) -> str | None:
    if len(key.strip().splitlines()) > 1:
        return "has a host key of several lines, and one key is pinned"
    words = key.split()
    kind = words[0] if words else ""
    if kind in {"ssh-rsa", "rsa-sha2-256", "rsa-sha2-512"}:
        return "has an RSA host key, which the command provider can only check with SHA-1"
    if kind not in _KEY_TYPES:
        if len(words) > 1 and words[1] in _KEY_TYPES:
            return f"has a host key that begins with {kind!r}; only `<type> <key>` belongs there"
        return f"has a host key of the unknown type {kind!r}"
    if len(words) == 1 or not _holds_type(words[1], kind):
        return f"has a host key that is cut off or is no {kind} key"
    return None


def _holds_type(encoded: str, kind: str) -> bool:
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return False
    end = _LENGTH_BYTES + len(kind)
    if blob[:_LENGTH_BYTES] != len(kind).to_bytes(_LENGTH_BYTES, "big"):
        return False
    size = int.from_bytes(blob[end : end + _LENGTH_BYTES], "big")
    return blob[_LENGTH_BYTES:end] == kind.encode() and 0 < size <= len(blob) - end - _LENGTH_BYTES


def check_credentials(spec: ClusterSpec) -> Iterator[Finding]:
    """Each device has one credential: a host a private key, a switch a password.

    Hosts are reached by key, as root or with `sudo -n`: a password on a host would also be the
    password of sudo, and would have to travel with every command.
    """
    for name, ssh, path in _devices(spec):
        on_host = path[0] != "switches"
        if ssh.password is None and ssh.private_key is None:
            example = "private_key: {secret: ssh_private_key}"
            yield Finding(
                f"{name} has neither a private key nor a password.",
                (at(path),),
                f"add {example if on_host else 'password: {secret: switch_password}'}.",
            )
        elif ssh.password is not None and on_host:
            yield Finding(
                f"{name} is reached with a password, and hosts are reached by key only.",
                (at((*path, "password"), ssh.password.secret),),
                "use private_key, and allow sudo without a password: "
                f"`{ssh.user} ALL=(ALL) NOPASSWD: ALL` in /etc/sudoers.d/railyard.",
            )
        elif ssh.password is None and not on_host:
            yield Finding(
                f"{name} is reached with a private key, and switches are reached by password only.",
                (at((*path, "private_key"), ssh.private_key and ssh.private_key.secret),),
                "use password: {secret: switch_password}.",
            )
        elif ssh.password is not None and ssh.private_key is not None:
            yield Finding(
                f"{name} has both a password and a private key.",
                (
                    at((*path, "password"), ssh.password.secret),
                    at((*path, "private_key"), ssh.private_key.secret),
                ),
                "keep the one that the device accepts.",
            )


def list_secrets(spec: ClusterSpec) -> Iterator[tuple[SecretRef, SpecPath]]:
    """List each reference to a secret, with its place."""
    for _, ssh, path in _devices(spec):
        if ssh.password is not None:
            yield ssh.password, (*path, "password", "secret")
        if ssh.private_key is not None:
            yield ssh.private_key, (*path, "private_key", "secret")
    if (provision := crusoe_of(spec)) is not None:
        place = ("environment", "instances")
        yield provision.access_key, (*place, "access_key", "secret")
        yield provision.secret_key, (*place, "secret_key", "secret")
    if spec.k3s is not None:
        yield spec.k3s.token, ("kubernetes", "token", "secret")
    if isinstance(spec.kubernetes, ExistingPlane):
        yield spec.kubernetes.kubeconfig, ("kubernetes", "kubeconfig", "secret")
    if spec.containers is not None:
        yield from _registry_secrets(spec.containers)


def _registry_secrets(containers: Containers) -> Iterator[tuple[SecretRef, SpecPath]]:
    path: SpecPath = ("containers",)
    if containers.login is not None:
        yield containers.login.password, (*path, "login", "password", "secret")
    if containers.build is not None and containers.build.login is not None:
        yield containers.build.login.password, (*path, "build", "login", "password", "secret")


def check_secret_value(spec: ClusterSpec, secrets: StackSecrets) -> Iterator[Finding]:
    """Each secret that the site names is in the stack's configuration, encrypted.

    It is checked only for a stack file; a plain site file holds no secrets.
    """
    places: dict[str, list[Place]] = {}
    for ref, path in list_secrets(spec):
        places.setdefault(ref.secret, []).append(at(path, ref.secret))
    for name, where in places.items():
        command = f"`pulumi config set --secret railyard:{name}`"
        if name in secrets.in_clear:
            yield Finding(
                f"the secret railyard:{name} is in the stack file in clear text.",
                tuple(where),
                f"set it again with {command}, and change it on the device: it has been readable.",
            )
        elif name not in secrets.encrypted and secrets.complete:
            yield Finding(
                f"the secret railyard:{name} is not in the stack's configuration.",
                tuple(where),
                f"run {command}.",
            )
