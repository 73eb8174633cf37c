"""Rules on the way to devices: jump hosts, rights after the login, old algorithms, proxies."""

from __future__ import annotations

from components.checks.rule import Finding, Findings, at, places, unique
from components.core.problem import SpecPath
from components.fabric.systems import system_of
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch
from components.model.jump_hosts import JumpError, ReachedSsh, hops_of
from components.model.units import Ssh
from components.model.ways import default_way, each_ssh
from components.reading.wording import did_you_mean
from components.remote.endpoint import endpoint_of


def check_jump_host(spec: ClusterSpec) -> Findings:
    """Each jump host that a device names is in `jump_hosts`, once, and lies behind no circle.

    Railyard runs nothing on a jump host: it needs no rights there, and asks for none.
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
            yield Finding(
                f"{device} cannot be reached: {error}.{did_you_mean(unknown, sorted(known))}",
                (at(place, ", ".join(names)),),
                "name jump hosts of jump_hosts, the nearest first.",
            )
    for j, hop in enumerate(spec.jump_hosts):
        for key in ("sudo_password", "enable_password"):
            if getattr(hop.ssh, key) is not None:
                yield Finding(
                    f"the jump host {hop.name} has {key}, and nothing is run on it.",
                    (at(("jump_hosts", j, "ssh", key)),),
                    "remove it.",
                )


def check_login_rights(spec: ClusterSpec) -> Findings:
    """A password of sudo or `enable` is where there is something that asks for it.

    Elsewhere it would be decrypted and handed out for nothing, and a typo would stay unseen.
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
    """A switch with `executor: exec` is reached by what the command provider can do.

    Its SSH client takes one jump host, offers SHA-1 alone for an RSA host key, and answers no
    question: the whole configuration is one request, and has no room for a password.
    """
    for s, switch in enumerate(spec.switches):
        if switch.executor != "exec":
            continue
        path: SpecPath = ("switches", s, "ssh")
        unknown = switch.ssh.jump and not isinstance(switch.ssh, ReachedSsh)  # `jump-host` says so
        endpoint = None if unknown else endpoint_of(switch.name, "switch", switch.ssh)
        reason = _provider_lacks(switch.ssh) or (endpoint.why_own_client if endpoint else "")
        if reason:
            yield Finding(
                f"{switch.name} cannot take its configuration as one exec: {reason}.",
                (at(path), at(("switches", s, "executor"), switch.executor)),
                "remove executor: `device` has its own SSH client.",
            )


def _provider_lacks(ssh: Ssh) -> str:
    if ssh.enable_password is not None:
        return "`enable` asks for a password"
    return "it has nothing but old algorithms" if ssh.legacy_algorithms else ""


def check_legacy_algorithms(spec: ClusterSpec) -> Findings:
    """SHA-1 is let pass for switches alone, and each of them is named in every report.

    Who can make a collision of SHA-1 can stand in for the device. OpenSSH refuses such host keys
    since 8.8 (2021), so a Linux host that has nothing else is one to update.
    """
    for name, ssh, path in each_ssh(spec):
        if not ssh.legacy_algorithms:
            continue
        place = (at((*path, "legacy_algorithms"), value=True),)
        if path[0] == "switches":
            yield Finding(
                f"{name} may use SHA-1 for its host key and key exchange.",
                place,
                "update its system when there is a release, and remove legacy_algorithms.",
                "warning",
            )
        else:
            yield Finding(
                f"{name} is no switch, and SHA-1 is let pass for old switches alone.",
                place,
                "remove legacy_algorithms; update its SSH server.",
            )


def check_proxy(spec: ClusterSpec) -> Findings:
    """A proxy has an address, and what downloads on the hosts knows of it.

    Its own scripts and K3s get it from Railyard. Docker's daemon reads a file of its own.
    """
    proxy = spec.proxy
    if proxy is None:
        return
    if proxy.http is None and proxy.https is None:
        yield Finding(
            "the proxy has no address.",
            places(spec, "proxy"),
            "add http or https, or remove proxy.",
        )
    by_docker = spec.k3s is not None and spec.k3s.container_runtime == "docker"
    if by_docker or spec.containers is not None:
        yield Finding(
            "images are pulled by Docker, whose daemon does not know of the proxy.",
            places(spec, "proxy"),
            "set `proxies` in /etc/docker/daemon.json of the hosts, or use a mirror of the site.",
            "warning",
        )
