"""Rules on hosts without a login: where they are allowed, and which settings they exclude."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, Final

from components.checks.rule import Finding, Findings, at
from components.checks.topology import block_path
from components.core.problem import Place, SpecPath
from components.model.cards import Firmware, HostQos, Sriov
from components.model.cluster import ClusterSpec
from components.model.environments import Esxi
from components.model.hosts import Host
from components.model.kernel import KernelSettings
from components.model.kubernetes import ExistingPlane
from components.model.owners import firmware_by_operator, vfs_by_operator

Asks = Callable[[Any], bool]
"""Whether a value asks to set or to read something on the host."""

_IN_GROUPS: Final[tuple[tuple[str, str, Asks], ...]] = (
    ("driver.kind", "an RDMA driver", lambda it: it in {"doca_ofed", "mlnx_ofed"}),
    ("driver.at_least", "a release to be verified", lambda it: it is not None),
    ("gpu_driver_version", "a GPU driver to be verified", lambda it: it is not None),
    ("qos", "quality of service on its cards", lambda it: it != HostQos()),
    ("kernel", "kernel settings", lambda it: it != KernelSettings()),
)
"""Key below `host_defaults` that a group can set, its words, and the condition that asks for it."""
_OF_ALL: Final[tuple[tuple[str, str, Asks], ...]] = (
    ("rail_names", "names for its cards", bool),
    ("docker", "Docker", bool),
    ("toolkit", "the container toolkit", lambda it: it is not None and it.kind == "host"),
)
"""Keys that hold for all hosts, with their words and conditions."""
_OF_NICS: Final[tuple[tuple[str, str, Asks], ...]] = (
    ("sriov", "settings of VFs", lambda it: it != Sriov()),
    ("address", "an address of the card", lambda it: it is not None),
    ("mtu_bytes", "an MTU of the card", lambda it: it is not None),
    ("rdma", "a name of the RDMA device", lambda it: it is not None),
    ("serial", "a serial number to be verified", lambda it: it is not None),
    ("link_gt_s", "a PCIe speed to be verified", lambda it: it is not None),
    ("link_width", "a PCIe width to be verified", lambda it: it is not None),
    ("lanes", "lanes to be verified", lambda it: it is not None),
    ("gpu_path", "a way to the GPU to be verified", lambda it: it is not None),
)
"""Keys of a card, with their words and conditions."""


def check_host_login(spec: ClusterSpec) -> Findings:
    """Each host has an `ssh` login, or `login: none`.

    `login: none` is for workers of an existing cluster, such as managed nodes of AKS, EKS and OKE.
    Railyard installs or sets up all other hosts itself, which takes a login.
    """
    for h, host in enumerate(spec.hosts):
        if host.login == "none":
            yield from _none(spec, h, host)
        elif host.ssh is None:
            yield Finding(
                f"{host.name} has no ssh, so nothing says how it is logged in to.",
                (at(("hosts", h)),),
                "add ssh with address, user, private_key and host_key; or login: none for a "
                "worker of an existing cluster that nothing logs in to.",
            )


def _none(spec: ClusterSpec, h: int, host: Host) -> Findings:
    """Report why `login: none` is impossible."""
    path: SpecPath = ("hosts", h)
    place = at((*path, "login"), host.login)
    foreign, guests = isinstance(spec.kubernetes, ExistingPlane), isinstance(spec.environment, Esxi)
    if host.ssh is not None:
        what = f"{host.name} has an ssh, and login: none says that nothing logs in to it."
        fix = "remove one of the two."
        yield Finding(what, (place, at((*path, "ssh", "address"), host.ssh.address)), fix)
    elif host.role != "worker":
        what = f"{host.name} is a {host.role.replace('_', ' ')} host, and nothing logs in to it."
        fix = "add its ssh: login: none is for workers of an existing cluster."
        yield Finding(what, (place, at((*path, "role"), host.role)), fix)
    elif not foreign or guests:
        ours = (
            "its virtual machine" if foreign else "its cluster" if spec.kubernetes else "its work"
        )
        kind = at(("environment", "kind"), spec.environment.kind)
        what = f"nothing logs in to {host.name}, and {ours} is Railyard's to set up."
        fix = "add its ssh; or use plane: existing if someone else runs the cluster."
        yield Finding(what, (place, kind if foreign else _plane(spec)), fix)


def _plane(spec: ClusterSpec) -> Place:
    if spec.kubernetes is None:
        return at(("containers",))
    return at(("kubernetes", "plane"), spec.kubernetes.plane)


def check_untouched_host(spec: ClusterSpec) -> Findings:
    """The file asks for nothing that needs a login on a host without one.

    Drivers, QoS, VFs, firmware, names, kernel settings and checks on a host would silently be
    skipped. The network operator makes its VFs and firmware settings itself.
    """
    for h, host in enumerate(spec.hosts):
        foreign = isinstance(spec.kubernetes, ExistingPlane)
        if host.login != "none" or host.ssh is not None or not foreign:
            continue  # `host-login` says so
        for path, value, words in (*_of_settings(spec, host), *_of_cards(spec, h, host)):
            others = "" if path[0] == "hosts" else "; set it for other hosts by their host group"
            yield Finding(
                f"nothing logs in to {host.name}, and {path[-1]} asks for {words} there.",
                (at(path, value), at(("hosts", h, "login"), host.login)),
                "if the node has it already, add waive: {untouched-host: WHY}: it stays untouched. "
                f"Else remove {path[-1]}{others}.",
            )


_Asked = Iterator[tuple[SpecPath, object, str]]


def _of_settings(spec: ClusterSpec, host: Host) -> _Asked:
    settings = spec.settings_of(host)
    for keys, words, asks in _IN_GROUPS:
        path = keys.split(".")
        if asks(value := attrgetter(keys)(settings)):
            shown = value if isinstance(value, str) else None
            yield (*block_path(spec, host, path[0]), *path[1:]), shown, words
    if _sets_firmware(spec, settings.firmware):
        yield block_path(spec, host, "firmware"), None, "firmware of its cards"
    for key, words, asks in _OF_ALL:
        if asks(getattr(settings, key)):
            yield ("host_defaults", key), None, words
    if not spec.reached:
        yield from _of_identity(spec)


def _sets_firmware(spec: ClusterSpec, asked: Firmware) -> bool:
    sets = asked.sets_anything and not firmware_by_operator(spec)
    return sets or bool(asked.min_versions)


def _of_identity(spec: ClusterSpec) -> _Asked:
    """Yield settings that all hosts with a login get, for a site without any."""
    defaults = spec.host_defaults
    if defaults.user is not None:
        yield ("host_defaults", "user"), defaults.user.name, "a user"
    for key in ("hostname", "etc_hosts"):
        if getattr(defaults.manage, key):
            yield ("host_defaults", "manage", key), True, "a file of its identity"


def _of_cards(spec: ClusterSpec, h: int, host: Host) -> _Asked:
    made = vfs_by_operator(spec)
    for n, nic in enumerate(host.nics):
        path: SpecPath = ("hosts", h, "nics", n)
        if nic.vfs and not made:
            yield (*path, "vfs"), nic.vfs, "VFs"
        for key, words, asks in _OF_NICS:
            if asks(value := getattr(nic, key)):
                yield (*path, key), _shown(key, value), words
    for p, port in enumerate(host.hca_sriov):
        if port.vfs and not made:
            yield ("hosts", h, "hca_sriov", p, "vfs"), port.vfs, "VFs"


def _shown(key: str, value: object) -> object:
    return None if key == "sriov" else str(value) if key in {"address", "gpu_path"} else value
