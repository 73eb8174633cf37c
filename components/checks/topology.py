"""NICs, ports and cables of the file with their paths."""

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from components.checks.rule import Here, at
from components.core.problem import Place, SpecPath
from components.model.cards import HcaPf
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch, SwitchPort
from components.model.hosts import Host, Nic
from components.model.once import once

_T = TypeVar("_T")


class PlacedNic(NamedTuple):
    """One NIC and its place in the file."""

    host: Host
    nic: Nic
    path: SpecPath

    def __str__(self) -> str:
        """`gpu01 eth2`, for people."""
        return f"{self.host.name} {self.nic.netdev}"

    def at(self, *keys: str) -> tuple[Place, ...]:
        """Return the places of values in it: `nic.at("sriov.vlan", "vfs")`."""
        return Here(self.nic, self.path)(*keys)


class PlacedPort(NamedTuple):
    """One switch port and its place in the file."""

    switch: Switch
    name: str
    port: SwitchPort
    path: SpecPath

    def __str__(self) -> str:
        """`port 1/1 of leaf-01`, for people."""
        return f"port {self.name} of {self.switch.name}"

    @property
    def place(self) -> Place:
        """The place in the file with the other end of the port."""
        return at(self.path, self.port.to)

    def at(self, *keys: str) -> tuple[Place, ...]:
        """Return the places of values in it: `port.at("mode")`."""
        return Here(self.port, self.path)(*keys)

    @property
    def host(self) -> str:
        """The host that the port's entry names."""
        return self.port.to.partition("/")[0]

    @property
    def rail(self) -> str:
        """The rail that the port's entry names."""
        return self.port.to.partition("/")[2]


class Cable(NamedTuple):
    """A NIC and the port it is plugged into."""

    nic: PlacedNic
    port: PlacedPort


class HostBlock(NamedTuple, Generic[_T]):
    """Settings of hosts at one place in the file, and the hosts that they apply to."""

    path: SpecPath
    value: _T
    hosts: tuple[Host, ...]

    def at(self, *keys: str) -> tuple[Place, ...]:
        """Return the places of values in it: `block.at("kind", "version")`."""
        return Here(self.value, self.path)(*keys)


def host_blocks(spec: ClusterSpec, key: str, kind: type[_T]) -> Iterator[HostBlock[_T]]:
    """Yield the values of one key in `host_defaults` and in each group of `host_groups`."""
    groups = [(group.name, getattr(group, key)) for group in spec.host_groups]
    own = {name for name, value in groups if value is not None}
    if isinstance(value := getattr(spec.host_defaults, key), kind):
        hosts = tuple(host for host in spec.hosts if host.group not in own)
        yield HostBlock(("host_defaults", key), value, hosts)
    for g, (name, value) in enumerate(groups):
        if isinstance(value, kind):
            hosts = tuple(host for host in spec.hosts if host.group == name)
            yield HostBlock(("host_groups", g, key), value, hosts)


def block_path(spec: ClusterSpec, host: Host, key: str) -> SpecPath:
    """Return the place of a host's setting: at its group, or for all hosts."""
    for g, group in enumerate(spec.host_groups):
        if group.name == host.group and getattr(group, key, None) is not None:
            return ("host_groups", g, key)
    return ("host_defaults", key)


@once
def list_nics(spec: ClusterSpec) -> tuple[PlacedNic, ...]:
    """List all NICs in the order of the file."""
    return tuple(
        PlacedNic(host, nic, ("hosts", h, "nics", n))
        for h, host in enumerate(spec.hosts)
        for n, nic in enumerate(host.nics)
    )


def list_cards(spec: ClusterSpec) -> Iterator[tuple[Host, Nic | HcaPf, SpecPath]]:
    """Yield each port of each host: its NICs, then its InfiniBand ports."""
    for h, host in enumerate(spec.hosts):
        yield from ((host, nic, ("hosts", h, "nics", n)) for n, nic in enumerate(host.nics))
        yield from ((host, pf, ("hosts", h, "hca_sriov", p)) for p, pf in enumerate(host.hca_sriov))


@once
def list_ports(spec: ClusterSpec) -> tuple[PlacedPort, ...]:
    """List all ports on rails, in the order of the file."""
    return tuple(port for port in list_all_ports(spec) if port.port.peer is None)


@once
def list_link_ports(spec: ClusterSpec) -> tuple[PlacedPort, ...]:
    """List the switch ports that lead to other switches, in the order of the file."""
    return tuple(port for port in list_all_ports(spec) if port.port.peer is not None)


@once
def list_all_ports(spec: ClusterSpec) -> tuple[PlacedPort, ...]:
    """List the ports of all Ethernet switches, in the order of the file."""
    return tuple(port for port in list_any_ports(spec) if port.switch.carries == "roce")


@once
def list_any_ports(spec: ClusterSpec) -> tuple[PlacedPort, ...]:
    """List the ports of all switches, also those of InfiniBand, in the order of the file."""
    return tuple(
        PlacedPort(switch, name, port, ("switches", s, "ports", name))
        for s, switch in enumerate(spec.switches)
        for name, port in switch.ports.items()
    )


@once
def list_cables(spec: ClusterSpec) -> tuple[Cable, ...]:
    """List each NIC with each port that names its host and rail."""
    plugged: dict[str, list[PlacedPort]] = {}
    for port in list_ports(spec):
        plugged.setdefault(port.port.to, []).append(port)
    return tuple(
        Cable(nic, port)
        for nic in list_nics(spec)
        for port in plugged.get(f"{nic.host.name}/{nic.nic.rail}", ())
    )
