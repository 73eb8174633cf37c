"""Rules on the way to devices: host keys, credentials, jump hosts, rights, proxies."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from components.checks.rule import Finding, Findings, Here, at, find, places, walk
from components.checks.topology import block_path
from components.core.problem import SpecPath
from components.core.templates import typed_table
from components.fabric.systems import system_of
from components.model.cards import ContainerToolkit
from components.model.cluster import ClusterSpec
from components.model.environments import Esxi
from components.model.fabric import Switch
from components.model.hosts import Host
from components.model.kubernetes import ExistingPlane
from components.model.owners import firmware_by_operator, vfs_by_operator
from components.model.places import default_way, each_ssh
from components.model.reach import how_to_pin
from components.model.sources import JumpError, ReachedSsh, hops_of
from components.model.texts import fold_names
from components.model.units import Ssh
from components.reading.wording import did_you_mean

_LOGINS: Final = {"password": "a password", "private_key": "a private key", "agent": "the agent"}
_EXAMPLE_KEYS: Final = ("nPtrwJXr", "lnkv91E=")
"""Ends of the keys in the examples, which no real device has."""
_ASKED: Final = typed_table(dict[str, str], __file__, "asked")
"""Key below `host_defaults` to its words; a group can set the first five."""
_OF_NICS: Final = typed_table(dict[str, str], __file__, "of_nics")
"""Key of a card to its words."""


def _logins(spec: ClusterSpec) -> Iterator[tuple[str, Ssh, Here]]:
    return ((name, ssh, Here(ssh, path)) for name, ssh, path in each_ssh(spec))


def check_host_key(spec: ClusterSpec) -> Findings:
    """The SSH host key of each device and jump host is pinned: ed25519, ECDSA or RSA.

    Without it the first machine that answers at the address would be trusted.
    """
    by_port: dict[int, dict[str, Here]] = {}
    for name, ssh, here in _logins(spec):
        if ssh.host_key is None:
            by_port.setdefault(ssh.port, {})[name] = here
    for port, without in by_port.items():
        what = f"{fold_names(without)} {'has' if len(without) == 1 else 'have'} no pinned host key."
        addresses = " ".join(each("address")[0].value or "" for each in without.values())
        where = tuple(place for each in without.values() for place in each("host_key"))
        yield Finding(what, where, f"{how_to_pin(addresses, port)}.")


def check_jump_host(spec: ClusterSpec) -> Findings:
    """Each jump host that a device names is in `jump_hosts`, once, and reachable without a circle.

    Its login needs no rights: Railyard runs no commands there.
    """
    known = {hop.name: hop for hop in reversed(spec.jump_hosts)}
    for device, ssh, path in each_ssh(spec):
        names = default_way(spec, path) if ssh.jump is None else ssh.jump
        place = ("host_defaults", "jump") if ssh.jump is None else (*path, "jump")
        names = (device, *names) if path[0] == "jump_hosts" and names else names
        try:
            hops_of(names, known)
        except JumpError as error:
            unknown = next((name for name in names if name not in known), "")
            words = {"name": device, "error": error, "hint": did_you_mean(unknown, sorted(known))}
            yield find("jump-host", at(place, ", ".join(names)), **words)


def check_shared_host_key(spec: ClusterSpec) -> Findings:
    """Devices at different addresses have different host keys.

    Machines that were cloned with their key can each pose as the others.
    """
    by_key: dict[str, dict[str, tuple[str, SpecPath]]] = {}
    for name, ssh, path in each_ssh(spec):
        _, key, *_ = [*(ssh.host_key or "").split(), "", ""]
        if key and not key.endswith(_EXAMPLE_KEYS):
            by_key.setdefault(key, {}).setdefault(ssh.address, (name, path))
    for key, devices in by_key.items():
        what = f"{fold_names(name for name, _ in devices.values())} have one host key."
        where = tuple(at((*path, "host_key"), f"…{key[-8:]}") for _, path in devices.values())
        fix = "write the key of each (`ssh-keyscan ADDRESS`); on clones first run `ssh-keygen -A`."
        yield from [Finding(what, where, fix, "warning")] if len(devices) > 1 else ()


def check_credentials(spec: ClusterSpec) -> Findings:
    """Each device has one credential: a host a private key or the agent, a switch a password too.

    A host's password would have to travel with every command; for sudo there is `sudo_password`.
    """
    for name, ssh, here in _logins(spec):
        on_host = here.path[0] in {"hosts", "environment"}
        given = [key for key in _LOGINS if getattr(ssh, key)]
        if not given:
            example = "private_key: {secret: ssh_private_key}"
            fix = f"add {example if on_host else 'password: {secret: switch_password}'}, or agent: "
            what = f"{name} has neither a private key nor a password."
            yield Finding(what, (at(here.path),), f"{fix}true.")
        elif ssh.password is not None and on_host:
            yield find("credentials-password", *here("password"), name=name)
        elif len(given) > 1:
            what = f"{name} has {' and '.join(_LOGINS[key] for key in given)}."
            yield Finding(what, here(*given), "keep the one that the device accepts.")
        if ssh.passphrase is not None and ssh.private_key is None:
            yield find("credentials-passphrase", *here("passphrase"), name=name)


def check_login_rights(spec: ClusterSpec) -> Findings:
    """A password of sudo or `enable` is given only if something asks for it.

    Elsewhere a typo would stay unseen.
    """
    for name, ssh, path in each_ssh(spec):
        sudo, enable = "ESXi lacks sudo", "ESXi lacks `enable`"
        if path[0] == "jump_hosts":
            continue  # `jump-host` reports these
        if path[0] == "hosts":
            sudo = "root does not use sudo" if ssh.user == "root" else ""
            enable = "a Linux host lacks `enable`"
        elif path[0] == "switches":
            os = spec.switches[int(path[1])].os
            session = system_of(os).session
            sudo = "" if session.has_status else f"{os} lacks sudo"
            enable = "" if session.enables else f"{os} lacks `enable`"
        for key, why in (("sudo_password", sudo), ("enable_password", enable)):
            if why and getattr(ssh, key) is not None:
                yield find("login-rights", at((*path, key)), name=name, key=key, why=why)


def check_exec_reach(spec: ClusterSpec) -> Findings:
    """The command provider can reach a switch with `executor: exec`.

    Its SSH client takes one jump host, offers only SHA-1 for an RSA host key, and answers no
    prompt.
    """
    for switch, here in [s for s in walk(spec, "switches.*", Switch) if s[0].executor == "exec"]:
        from components.remote.endpoint import endpoint_of  # noqa: PLC0415 - slow, for exec alone

        ssh, reason = switch.ssh, ""
        if ssh.enable_password is not None:
            reason = "`enable` asks for a password"
        elif ssh.legacy_algorithms:
            reason = "it offers only old algorithms"
        elif not ssh.jump or isinstance(ssh, ReachedSsh):  # `jump-host` reports unknown ones
            reason = endpoint_of(switch.name, "switch", ssh).why_own_client
        if reason:
            yield find("exec-reach", *here("ssh", "executor"), switch=switch, reason=reason)


def check_legacy_algorithms(spec: ClusterSpec) -> Findings:
    """SHA-1 is allowed only for switches, and every report lists each of them.

    An attacker who can make a collision of SHA-1 can pose as the device. OpenSSH refuses such host
    keys since 8.8 (2021): update such a Linux host.
    """
    for name, ssh, here in _logins(spec):
        if ssh.legacy_algorithms and here.path[0] == "switches":
            yield find("legacy-algorithms-used", *here("legacy_algorithms"), name=name)
        elif ssh.legacy_algorithms:
            yield find("legacy-algorithms-host", *here("legacy_algorithms"), name=name)


def check_proxy(spec: ClusterSpec) -> Findings:
    """A proxy has an address, and the programs that download on hosts use it.

    Docker's daemon reads a separate file.
    """
    where = places(spec, "proxy")
    if spec.proxy is not None and spec.proxy.http is None and spec.proxy.https is None:
        yield Finding("the proxy lacks an address.", where, "add http or https, or remove proxy.")
    by_docker = spec.k3s is not None and spec.k3s.container_runtime == "docker"
    if spec.proxy is not None and (by_docker or spec.containers is not None):
        yield find("proxy-images", *where)


def _asks(key: str, value: object) -> bool:
    """Whether a value asks to set or to read something on the host."""
    if key == "driver.kind":
        return value in {"doca_ofed", "mlnx_ofed"}
    if isinstance(value, ContainerToolkit):
        return value.kind == "host"
    return value is not None and value != type(value)()


def check_host_login(spec: ClusterSpec) -> Findings:
    """Each host has an `ssh` login, or `login: none`.

    `login: none` is for workers of an existing cluster; Railyard sets up all other hosts itself.
    """
    foreign, guests = isinstance(spec.kubernetes, ExistingPlane), isinstance(spec.environment, Esxi)
    for host, here in walk(spec, "hosts.*", Host):
        if host.login != "none":
            if host.ssh is None:
                yield find("host-login-missing", at(here.path), host=host)
        elif host.ssh is not None:
            yield find("host-login-both", *here("login", "ssh.address"), host=host)
        elif host.role != "worker":
            where = here("login", "role")
            yield find("host-login-role", *where, host=host, role=host.role.replace("_", " "))
        elif not foreign or guests:
            ours = "its cluster" if spec.kubernetes else "its work"
            what = f"{host.name} has login: none, but Railyard must set up "
            what += f"{'its virtual machine' if foreign else ours}."
            plane = "kubernetes.plane" if spec.kubernetes else "containers"
            where = here("login") + places(spec, "environment.kind" if foreign else plane)
            fix = "add its ssh, or use plane: existing if others run the cluster."
            yield Finding(what, where, fix)


def check_untouched_host(spec: ClusterSpec) -> Findings:
    """The file asks for nothing that needs a login on a host without one.

    Drivers, QoS, VFs, firmware, names, kernel settings and checks would silently be skipped. The
    network operator makes VFs and firmware settings itself.
    """
    for h, host in enumerate(spec.hosts):
        foreign = isinstance(spec.kubernetes, ExistingPlane)
        if host.login != "none" or host.ssh is not None or not foreign:
            continue  # `host-login` says so
        for path, value, words in (*_of_settings(spec, host), *_of_cards(spec, h, host)):
            what = f"{host.name} has login: none, but {path[-1]} asks for {words} there."
            others = "" if path[0] == "hosts" else "; set it for other hosts by their host group"
            fix = "if the node has it already, add waive: {untouched-host: WHY}. Else remove "
            where = (at(path, value), at(("hosts", h, "login"), host.login))
            yield Finding(what, where, f"{fix}{path[-1]}{others}.")


def _of_settings(spec: ClusterSpec, host: Host) -> Iterator[tuple[SpecPath, object, str]]:
    settings, defaults = spec.settings_of(host), spec.host_defaults
    for keys, words in _ASKED.items():
        path = keys.split(".")
        if _asks(keys, value := attrgetter(keys)(settings)):
            shown = value if isinstance(value, str) else None
            yield (*block_path(spec, host, path[0]), *path[1:]), shown, words
    firmware = settings.firmware
    sets = firmware.sets_anything and not firmware_by_operator(spec)
    if sets or firmware.min_versions:
        yield block_path(spec, host, "firmware"), None, "firmware of its cards"
    if spec.reached:
        return  # all hosts with a login get the others
    if defaults.user is not None:
        yield ("host_defaults", "user"), defaults.user.name, "a user"
    for key in ("hostname", "etc_hosts"):
        if getattr(defaults.manage, key):
            yield ("host_defaults", "manage", key), True, "a file of its identity"


def _of_cards(spec: ClusterSpec, h: int, host: Host) -> Iterator[tuple[SpecPath, object, str]]:
    ports = {("nics", n): nic.vfs for n, nic in enumerate(host.nics)}
    ports |= {("hca_sriov", p): port.vfs for p, port in enumerate(host.hca_sriov)}
    for path, vfs in ports.items():
        if vfs and not vfs_by_operator(spec):
            yield ("hosts", h, *path, "vfs"), vfs, "VFs"
    for n, nic in enumerate(host.nics):
        for key, words in _OF_NICS.items():
            if _asks(key, value := getattr(nic, key)):
                shown = str(value) if key in {"address", "gpu_path"} else value
                path = ("hosts", h, "nics", n, key)
                yield path, None if key == "sriov" else shown, words
