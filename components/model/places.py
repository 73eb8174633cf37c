"""Paths to devices and secrets, subnets of leaves, and InfiniBand switches of a site."""

import hashlib
from collections.abc import Iterator, Mapping
from functools import reduce
from ipaddress import IPv4Address, IPv4Network
from typing import Final, TypeVar, cast

from components.catalogue.switches import find_plain
from components.catalogue.switches.switch_model import SwitchModel
from components.core.problem import SpecPath
from components.core.record import record
from components.model.cards import HcaPf
from components.model.cluster import ClusterSpec
from components.model.environments import Esxi, Hypervisor
from components.model.fabric import Rail, Switch
from components.model.hosts import Host, Nic
from components.model.once import once
from components.model.reach import is_machine_ipv4
from components.model.sources import JumpError, with_way
from components.model.units import SecretRef, Ssh

_Device = TypeVar("_Device", Switch, Host, Hypervisor)
_TWO_ENDS: Final = 31
"""Prefix length of a network of two addresses."""
SSH_SECRETS: Final = ("password", "private_key", "passphrase", "sudo_password", "enable_password")
_PLACES: Final = (
    "infiniband.ufm.password", "environment.instances.access_key",
    "environment.instances.secret_key", "kubernetes.token", "kubernetes.agent_token",
    "kubernetes.kubeconfig", "containers.login.password", "containers.build.login.password",
    "sources.mirror.login.password", "sources.registry.login.password",
    "evidence_store.signing_key", "evidence_store.login.password",
)  # fmt: skip
"""The references outside of logins to devices."""


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


def default_way(spec: ClusterSpec, path: SpecPath) -> tuple[str, ...]:
    """Return the jump hosts of a device without its own."""
    return spec.host_defaults.jump if path[0] == "hosts" else ()


def with_jump_hosts(spec: ClusterSpec) -> ClusterSpec:
    """Look up each device's jump hosts; an impossible path stays, and `jump-host` refuses it."""
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


@record
class RailSubnet:
    """One subnet of a rail, whose machines reach each other without a router."""

    rail: str
    leaf: str
    """The leaf with this subnet; empty if the rail is one subnet."""
    network: IPv4Network
    gateway: IPv4Address | None


@once
def is_flat(spec: ClusterSpec) -> bool:
    """Whether several rails have one VLAN and one subnet, so all cards and pods are neighbours."""
    networks = {(rail.vlan, rail.subnet) for rail in spec.rails}
    return len(spec.rails) > 1 and len(networks) == 1 and not any(r.leaves for r in spec.rails)


@once
def shares_resource(spec: ClusterSpec) -> bool:
    """Whether all rails share one extended resource: its VFs can be on any rail."""
    names = {rail.resource for rail in spec.rails}
    return spec.pod_network.mode == "sriov" and len(spec.rails) > 1 and len(names) == 1


def is_one_pool(spec: ClusterSpec) -> bool:
    """Whether the rails with one extended resource have one subnet too, as a flat fabric has."""
    return shares_resource(spec) and len({rail.subnet for rail in spec.rails}) == 1


def has_way(spec: ClusterSpec, one: Rail, other: Rail) -> bool:
    """Whether pods on one rail reach another one; in the host's network a gateway is enough."""
    ways = [route.to for route in spec.pod_network.routes if route.rail == one.name]
    by_host = spec.pod_network.host_network and all(each.gateway for each in subnets_of(one))
    return is_flat(spec) or by_host or any(other.subnet.subnet_of(to) for to in ways)


def subnets_of(rail: Rail) -> tuple[RailSubnet, ...]:
    """The subnets of a rail: one, or one on each of its leaves, in the order of the file."""
    if not rail.leaves:
        return (RailSubnet(rail.name, "", rail.subnet, rail.gateway),)
    return tuple(RailSubnet(rail.name, n, x.subnet, x.gateway) for n, x in rail.leaves.items())


@once
def leaves_of_hosts(spec: ClusterSpec) -> Mapping[tuple[str, str], str]:
    """Map host and rail to the switch of the host's card there; the first one of several."""
    found: dict[tuple[str, str], str] = {}
    for switch, _, card in _cabled(spec):
        found.setdefault(card, switch)
    return found


def _cabled(spec: ClusterSpec) -> Iterator[tuple[str, str | None, tuple[str, str]]]:
    """Yield switch, mode of the port, and host and rail, for each port with a host."""
    for switch in spec.switches:
        for port in switch.ports.values():
            host, slash, rail = port.to.partition("/")
            if slash:
                yield switch.name, port.mode, (host, rail)


@once
def routed_cards(spec: ClusterSpec) -> frozenset[tuple[str, str]]:
    """Return host and rail of each card on a routed port."""
    return frozenset(card for _, mode, card in _cabled(spec) if mode == "routed")


def link_of(address: IPv4Address) -> tuple[IPv4Network, IPv4Address]:
    """Return the /31 of a card on a routed port (RFC 3021), and the switch's address in it."""
    network = IPv4Network((address, _TWO_ENDS), strict=False)
    return network, next(each for each in network if each != address)


def link_address(card: Nic) -> IPv4Address | None:
    """Return the address at the host's end of a routed port: of the card, or of its one pod.

    None: the card has no address, or the file has a placeholder there.
    """
    text = card.address or card.pod_address or ""
    return IPv4Address(text) if is_machine_ipv4(text) else None


@once
def pod_links(spec: ClusterSpec) -> Mapping[str, Mapping[str, IPv4Address]]:
    """Map rail to worker to the address of its one pod, for cards on routed ports."""
    found: dict[str, dict[str, IPv4Address]] = {}
    for host in spec.workers:
        for nic in host.nics:
            if nic.pod_address is not None and (host.name, nic.rail) in routed_cards(spec):
                found.setdefault(nic.rail, {})[host.name] = IPv4Address(nic.pod_address)
    return found


def subnet_of(spec: ClusterSpec, rail: Rail, host: Host) -> RailSubnet | None:
    """Return the subnet of a host's card on a rail; None if its leaf lacks this rail.

    A card on a routed port has its own network, with the switch as its gateway.
    """
    card = next((nic for nic in host.nics if nic.rail == rail.name), None)
    address = link_address(card) if card is not None else None
    if address is not None and (host.name, rail.name) in routed_cards(spec):
        return RailSubnet(rail.name, "", *link_of(address))
    if not rail.leaves:
        return RailSubnet(rail.name, "", rail.subnet, rail.gateway)
    leaf = leaves_of_hosts(spec).get((host.name, rail.name), "")
    found = rail.leaves.get(leaf)
    return RailSubnet(rail.name, leaf, found.subnet, found.gateway) if found else None


@record
class IbSwitch:
    """One InfiniBand switch: its place in the file, its model, and the other end of each port."""

    name: str
    path: SpecPath
    model: str
    described: str
    """The model with its article, for people."""
    names: tuple[str, ...]
    """Its ports on the front; empty for an unknown model."""
    halves: tuple[tuple[str, ...], ...]
    """Its ports, grouped by the switches in its housing."""
    speeds_gbit_s: tuple[int, ...]
    ports: Mapping[str, str]
    """Port to `host/hca-n`, or to `switch:port` for a link."""

    hardware: SwitchModel | None
    """The facts of a managed switch's model, from the catalogue or the file."""

    def has_port(self, name: str) -> bool:
        """Whether a port, or the port that it is a part of, is on the front."""
        model = self.hardware
        return name in self.names if model is None else model.has_port("mlnxos", name)

    def describe_ports(self) -> str:
        """Describe the names of its ports."""
        if self.hardware is not None:
            return self.hardware.describe_ports("mlnxos")
        return ", and ".join(f"{half[0]} to {half[-1]}" for half in self.halves)

    def peer(self, port: str) -> tuple[str, str] | None:
        """Return the switch and the port at the other end; None if that end is a host."""
        switch, colon, far = self.ports[port].partition(":")
        return (switch, far) if colon else None


@once
def list_ib_switches(spec: ClusterSpec) -> tuple[IbSwitch, ...]:
    """List the InfiniBand switches in `switches`, then those in `infiniband.switches`."""
    found: list[IbSwitch] = []
    for s, switch in enumerate(spec.switches):
        if switch.carries != "infiniband":
            continue
        model = switch.hardware
        names = model.ports.get(switch.os, ()) if model else ()
        own = IbSwitch(
            name=switch.name,
            path=("switches", s),
            model=switch.model,
            described=model.described if model else f"a {switch.model}",
            names=names,
            halves=(names,),
            speeds_gbit_s=model.port_speeds_gbit_s if model and names else (),
            hardware=model,
            ports={name: port.to for name, port in switch.ports.items()},
        )
        found.append(own)
    for s, switch in enumerate(spec.infiniband.switches if spec.infiniband else ()):
        plain = find_plain(switch.model)
        own = IbSwitch(
            name=switch.name,
            path=("infiniband", "switches", s),
            model=switch.model,
            described=f"a {switch.model}",
            names=plain.ports if plain else (),
            halves=plain.halves if plain else (),
            speeds_gbit_s=plain.speeds_gbit_s if plain else (),
            hardware=None,
            ports=dict(switch.ports),
        )
        found.append(own)
    return tuple(found)


def vf_guids(site: str, host: Host, pf: HcaPf) -> tuple[str, ...]:
    """Return the GUIDs of a port's VFs: those of the file, or derived ones, the same each time.

    A derived GUID begins with 02, which marks a GUID that no vendor assigned (EUI-64's local bit);
    seven bytes of a hash follow. Random ones would fall out of their partitions at each boot.
    """
    names = [f"{site}/{host.name}/{pf.pci}/{number}" for number in range(pf.vfs)]
    digests = (hashlib.sha256(name.encode()).hexdigest() for name in names)
    return pf.guids or tuple(f"02{digest[:14]}" for digest in digests)
