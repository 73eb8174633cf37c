"""The way to each device: names of jump hosts, looked up once for the whole site."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.environments import Esxi, Hypervisor
from components.model.fabric import Switch
from components.model.hosts import Host
from components.model.jump_hosts import JumpError, with_way
from components.model.units import Ssh

_Device = TypeVar("_Device", Switch, Host, Hypervisor)


def each_ssh(spec: ClusterSpec) -> Iterator[tuple[str, Ssh, SpecPath]]:
    """Each `ssh` of the site with the name of its device and its place, jump hosts last."""
    for s, switch in enumerate(spec.switches):
        yield switch.name, switch.ssh, ("switches", s, "ssh")
    for h, host in enumerate(spec.hosts):
        if host.ssh is not None:
            yield host.name, host.ssh, ("hosts", h, "ssh")
    for y, hypervisor in enumerate(spec.hypervisors):
        yield hypervisor.name, hypervisor.ssh, ("environment", "hypervisors", y, "ssh")
    for j, hop in enumerate(spec.jump_hosts):
        yield hop.name, hop.ssh, ("jump_hosts", j, "ssh")


def default_way(spec: ClusterSpec, path: SpecPath) -> tuple[str, ...]:
    """The jump hosts of a device that names none itself."""
    return spec.host_defaults.jump if path[0] == "hosts" else ()


def with_ways(spec: ClusterSpec) -> ClusterSpec:
    """The same site with each device's jump hosts looked up.

    A way that cannot be gone stays as it is written: the rule `jump-host` refuses it.
    """
    known = {hop.name: hop for hop in reversed(spec.jump_hosts)}
    if not known:
        return spec

    def along(ssh: Ssh, default: tuple[str, ...]) -> Ssh:
        try:
            return with_way(ssh, default, known)
        except JumpError:
            return ssh

    def reached(device: _Device, default: tuple[str, ...] = ()) -> _Device:
        if device.ssh is None:
            return device
        return device.model_copy(update={"ssh": along(device.ssh, default)})

    update: dict[str, object] = {
        "switches": tuple(reached(each) for each in spec.switches),
        "hosts": tuple(reached(each, spec.host_defaults.jump) for each in spec.hosts),
    }
    if isinstance(spec.environment, Esxi):
        hypervisors = tuple(reached(each) for each in spec.hypervisors)
        update["environment"] = spec.environment.model_copy(update={"hypervisors": hypervisors})
    return spec.model_copy(update=update)
