"""Rules on the control plane: servers and their balancer, clusters that are there already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, at
from components.core.problem import SpecPath
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import ExistingPlane
from components.model.ways import each_ssh

_PAIR: Final = 2
"""What a balancer is for begins here; two servers are refused by etcd-members."""


def _with_role(spec: ClusterSpec, role: str) -> list[tuple[int, Host]]:
    return [(number, host) for number, host in enumerate(spec.hosts) if host.role == role]


def check_balancer(spec: ClusterSpec) -> Iterator[Finding]:
    """Several servers have a balancer before them, or two with one address; one server has none.

    Without it agents and users hold the address of one server, whose loss cuts them off from the
    two that live. Two balancers need `kubernetes.virtual_address`, which moves between them, and a
    third one would add only a machine. Of a cloud's
    instances cloud-balancer says the same; kubespray-balancer has what holds there.
    """
    balancers = _with_role(spec, "balancer")
    servers = _with_role(spec, "control_plane")
    places = tuple(at(("hosts", number, "role"), host.role) for number, host in balancers)
    shared = spec.k3s.virtual_address if spec.k3s is not None else None
    if len(balancers) > (_PAIR if shared else 1) and spec.cloud is None:
        yield Finding(
            f"{len(balancers)} hosts are balancers; agents and users know one address.",
            places,
            "set kubernetes.virtual_address and keep two of them, or give one host that role.",
        )
    if balancers and len(servers) < _PAIR and spec.k3s is not None:
        yield Finding(
            f"the balancer has {'one server' if servers else 'no server'} behind it, so it only "
            "adds one more machine that can fail.",
            places,
            "use three control-plane hosts, or take the balancer out.",
        )
    bare = len(servers) > _PAIR and not balancers and spec.cloud is None
    if bare and spec.kubespray is None:
        yield Finding(
            f"{len(servers)} control-plane hosts have no balancer before them: agents and users "
            f"would hold the address of {servers[0][1].name} alone.",
            tuple(at(("hosts", number, "role"), host.role) for number, host in servers),
            "give one more host the role balancer, or use one control-plane host.",
        )


def check_virtual_address(spec: ClusterSpec) -> Iterator[Finding]:
    """The virtual address moves between two balancers, and nothing else has it.

    It lies in the network of both, which the hosts themselves are asked for at the first update.
    That it lies in no network of rails, pods or services is the rule `subnet-overlap`. In a cloud
    no address moves: `cloud-balancer`.
    """
    shared = spec.k3s.virtual_address if spec.k3s is not None else None
    if shared is None:
        return
    path: SpecPath = ("kubernetes", "virtual_address", "address")
    balancers = _with_role(spec, "balancer")
    if spec.cloud is not None:
        yield Finding(
            f"the address {shared.address} would have to move between instances, and a cloud does "
            "not let it.",
            (at(path, shared.address),),
            "remove virtual_address, and keep one balancer.",
        )
    elif len(balancers) < _PAIR:
        yield Finding(
            f"the virtual address {shared.address} has {len(balancers) or 'no'} balancer to be at, "
            "and is for two.",
            (
                at(path, shared.address),
                *(at(("hosts", h, "role"), "balancer") for h, _ in balancers),
            ),
            "give two hosts the role balancer, or remove virtual_address.",
        )
    taken = [(name, ssh.address, (*place, "address")) for name, ssh, place in each_ssh(spec)]
    taken += [(host.name, host.address, ("hosts", h)) for h, host in enumerate(spec.hosts)]
    owner = next((each for each in taken if each[1] == str(shared.address)), None)
    if owner is not None:
        yield Finding(
            f"the virtual address {shared.address} is the address of {owner[0]}.",
            (at(path, shared.address), at(owner[2], owner[1])),
            "choose a free address of the network that both balancers are in.",
        )


def check_existing_plane(spec: ClusterSpec) -> Iterator[Finding]:
    """Nothing is installed on a cluster that is there already."""
    plane = spec.kubernetes
    if not isinstance(plane, ExistingPlane):
        return
    for number, host in enumerate(spec.hosts):
        if host.role in {"control_plane", "balancer"}:
            yield Finding(
                f'{host.name} is a {host.role}, but with "plane: existing" Railyard installs none.',
                (
                    at(("hosts", number, "role"), host.role),
                    at(("kubernetes", "plane"), plane.plane),
                ),
                "list only the workers that Railyard prepares, or use plane: k3s.",
            )


def check_node_name(spec: ClusterSpec) -> Iterator[Finding]:
    """Each node has a name of its own: two nodes of one name would be one."""
    first: dict[str, int] = {}
    for number, host in enumerate(spec.hosts):
        place = at(("hosts", number, "node_name"), host.node_name)
        other = first.setdefault(host.node, number)
        if {host.node_name, spec.hosts[other].node_name} != {None} and other != number:
            yield Finding(
                f"{spec.hosts[other].name} and {host.name} are both the node {host.node}.",
                (place, at(("hosts", other, "name"), spec.hosts[other].name)),
                "correct one of them: `kubectl get nodes` shows the names.",
            )
