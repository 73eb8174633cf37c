"""Rules on the way to devices: host keys, credentials, jump hosts, rights, proxies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, Findings, at, places, unique
from components.core.problem import SpecPath
from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.jobs import Containers
from components.model.kubernetes import ExistingPlane
from components.model.places import default_way, each_ssh
from components.model.reach import how_to_pin
from components.model.sources import JumpError, ReachedSsh, Sources, hops_of
from components.model.texts import fold_names
from components.model.units import SecretRef, Ssh
from components.model.worker_kinds import crusoe_of
from components.reading.wording import did_you_mean
from components.remote.endpoint import endpoint_of

_LOGINS: Final = {"password": "a password", "private_key": "a private key", "agent": "the agent"}
_EXAMPLE_KEYS: Final = ("nPtrwJXr", "lnkv91E=")
"""Ends of the keys in the examples, which no real device has."""
SSH_SECRETS: Final = ("password", "private_key", "passphrase", "sudo_password", "enable_password")


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
        where = tuple(at((*path, "host_key"), ssh.host_key) for ssh, path in without.values())
        fix = f"{how_to_pin(addresses, port)}."
        yield Finding(f"{names} {verb} no pinned host key.", where, fix)


def check_shared_host_key(spec: ClusterSpec) -> Findings:
    """Devices at different addresses have different host keys.

    If someone copies a key to another entry, every login there fails. Machines that were cloned
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
            fix = f"add {example}, or agent: true."
            yield Finding(f"{name} has neither a private key nor a password.", (at(path),), fix)
        elif ssh.password is not None and on_host:
            what = f"{name} is reached with a password, and hosts are reached by key only."
            fix = "use private_key or agent; what its sudo asks for is sudo_password."
            yield Finding(what, (at((*path, "password"), ssh.password.name),), fix)
        elif len(given) > 1:
            where = tuple(at((*path, key), _shown(ssh, key)) for key in given)
            fix = "keep the one that the device accepts."
            yield Finding(f"{name} has {' and '.join(_LOGINS[key] for key in given)}.", where, fix)
        if ssh.passphrase is not None and ssh.private_key is None:
            where = (at((*path, "passphrase"), ssh.passphrase.name),)
            fix = "remove it: an SSH agent has the key open, and a password has no passphrase."
            yield Finding(f"{name} has a passphrase, and no private key that it opens.", where, fix)


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


def check_jump_host(spec: ClusterSpec) -> Findings:
    """Each jump host that a device names is in `jump_hosts`, once, and reachable without a circle.

    Railyard runs no commands on a jump host, so its login needs no rights there.
    """
    known = {hop.name: hop for hop in reversed(spec.jump_hosts)}
    hops = enumerate(spec.jump_hosts)
    named = ((hop.name, at(("jump_hosts", j, "name"), hop.name)) for j, hop in hops)
    yield from unique(named, "two jump hosts are called {}.", "rename one of them.")
    for device, ssh, path in each_ssh(spec):
        names = default_way(spec, path) if ssh.jump is None else ssh.jump
        place = ("host_defaults", "jump") if ssh.jump is None else (*path, "jump")
        names = (device, *names) if path[0] == "jump_hosts" and names else names
        try:
            hops_of(names, known)
        except JumpError as error:
            unknown = next((name for name in names if name not in known), "")
            what = f"{device} cannot be reached: {error}.{did_you_mean(unknown, sorted(known))}"
            fix = "name jump hosts of jump_hosts, the nearest first."
            yield Finding(what, (at(place, ", ".join(names)),), fix)
    for j, hop in enumerate(spec.jump_hosts):
        for key in ("sudo_password", "enable_password"):
            if getattr(hop.ssh, key) is not None:
                what = f"the jump host {hop.name} has {key}, and nothing is run on it."
                yield Finding(what, (at(("jump_hosts", j, "ssh", key)),), "remove it.")


def check_login_rights(spec: ClusterSpec) -> Findings:
    """A password of sudo or `enable` is given only if something asks for it.

    Elsewhere Railyard would decrypt and pass it on for nothing, and a typo would stay unseen.
    """
    for h, host in enumerate(spec.hosts):
        if host.ssh is not None:
            yield from _host_rights(host.name, host.ssh, ("hosts", h, "ssh"))
    for y, hypervisor in enumerate(spec.hypervisors):
        path: SpecPath = ("environment", "hypervisors", y, "ssh")
        if hypervisor.ssh.sudo_password is not None:
            yield _needless(hypervisor.name, path, "sudo_password", "ESXi has no sudo")
        if hypervisor.ssh.enable_password is not None:
            yield _needless(hypervisor.name, path, "enable_password", "ESXi has no `enable`")
    for s, switch in enumerate(spec.switches):
        yield from _switch_rights(switch, ("switches", s, "ssh"))


def _host_rights(name: str, ssh: Ssh, path: SpecPath) -> Findings:
    if ssh.sudo_password is not None and ssh.user == "root":
        yield _needless(name, path, "sudo_password", "root needs no sudo")
    if ssh.enable_password is not None:
        yield _needless(name, path, "enable_password", "a Linux host has no `enable`")


def _switch_rights(switch: Switch, path: SpecPath) -> Findings:
    session = system_of(switch.os).session
    if switch.ssh.sudo_password is not None and not session.has_status:
        yield _needless(switch.name, path, "sudo_password", f"{switch.os} has no sudo")
    if switch.ssh.enable_password is not None and not session.enables:
        yield _needless(switch.name, path, "enable_password", f"{switch.os} has no `enable`")


def _needless(device: str, path: SpecPath, key: str, why: str) -> Finding:
    return Finding(f"{device} has {key}, and {why}.", (at((*path, key)),), f"remove {key}.")


def check_exec_reach(spec: ClusterSpec) -> Findings:
    """The command provider can reach a switch with `executor: exec`.

    Its SSH client takes one jump host, offers only SHA-1 for an RSA host key, and answers no
    prompt: the whole configuration is one request, which cannot include a password.
    """
    for s, switch in enumerate(spec.switches):
        if switch.executor != "exec":
            continue
        path: SpecPath = ("switches", s, "ssh")
        unknown = switch.ssh.jump and not isinstance(switch.ssh, ReachedSsh)  # `jump-host` says so
        endpoint = None if unknown else endpoint_of(switch.name, "switch", switch.ssh)
        reason = _provider_lacks(switch.ssh) or (endpoint.why_own_client if endpoint else "")
        if reason:
            what = f"{switch.name} cannot take its configuration as one exec: {reason}."
            fix = "remove executor: `device` has its own SSH client."
            yield Finding(what, (at(path), at(("switches", s, "executor"), switch.executor)), fix)


def _provider_lacks(ssh: Ssh) -> str:
    if ssh.enable_password is not None:
        return "`enable` asks for a password"
    return "it has nothing but old algorithms" if ssh.legacy_algorithms else ""


def check_legacy_algorithms(spec: ClusterSpec) -> Findings:
    """SHA-1 is allowed only for switches, and every report lists each of them.

    An attacker who can make a collision of SHA-1 can pose as the device. OpenSSH refuses such host
    keys since 8.8 (2021), so update a Linux host that offers no other.
    """
    for name, ssh, path in each_ssh(spec):
        if not ssh.legacy_algorithms:
            continue
        place = (at((*path, "legacy_algorithms"), value=True),)
        if path[0] == "switches":
            what = f"{name} may use SHA-1 for its host key and key exchange."
            fix = "update its system when there is a release, and remove legacy_algorithms."
            yield Finding(what, place, fix, "warning")
        else:
            what = f"{name} is no switch, and SHA-1 is let pass for old switches alone."
            yield Finding(what, place, "remove legacy_algorithms; update its SSH server.")


def check_proxy(spec: ClusterSpec) -> Findings:
    """A proxy has an address, and the programs that download on hosts use it.

    Railyard passes it to its own scripts and K3s. Docker's daemon reads a separate file.
    """
    proxy = spec.proxy
    if proxy is None:
        return
    if proxy.http is None and proxy.https is None:
        fix = "add http or https, or remove proxy."
        yield Finding("the proxy has no address.", places(spec, "proxy"), fix)
    by_docker = spec.k3s is not None and spec.k3s.container_runtime == "docker"
    if by_docker or spec.containers is not None:
        what = "images are pulled by Docker, whose daemon does not know of the proxy."
        fix = "set `proxies` in /etc/docker/daemon.json of the hosts, or use a mirror of the site."
        yield Finding(what, places(spec, "proxy"), fix, "warning")
