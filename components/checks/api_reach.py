"""Rules on who reaches the API, and with which token a node joins."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from components.checks.rule import Finding, at
from components.core.placeholder import has_placeholder
from components.model.cluster import ClusterSpec
from components.model.kubernetes import K3sPlane


def check_api_from(spec: ClusterSpec) -> Iterator[Finding]:
    """`kubernetes.api_from` shuts out no node, and no way of our own to a host.

    Nodes join by the API's port and keep to it, and a balancer asks the servers from its own
    address. The filter names that port alone: where SSH of the same host has it too, SSH would be
    shut with it. Whether Railyard's own address is in the list is looked at by every preview, since
    the servers alone know where it comes from.
    """
    plane = spec.k3s
    if plane is None or not plane.api_from:
        return
    here = at(("kubernetes", "api_from"), [str(each) for each in plane.api_from])
    for number, host in enumerate(spec.hosts):
        if host.is_outside or not host.address:
            continue
        key = ("node_ip",) if host.node_ip else ("ssh", "address")
        place = at(("hosts", number, *key), host.address)
        if has_placeholder(host.address):
            yield Finding(
                f"the address of {host.name} is not known before it is made, so that api_from may "
                "shut it out.",
                (here,),
                "leave api_from out: the cloud's own firewall says who reaches the API.",
            )
            return
        if not any(IPv4Address(host.address) in network for network in plane.api_from):
            yield Finding(
                f"{host.name} has the address {host.address}, which api_from does not have: it "
                "would not reach the API.",
                (place, here),
                "add the network of the nodes to api_from.",
            )
    yield from _ssh_on_the_port(spec, plane)


def _ssh_on_the_port(spec: ClusterSpec, plane: K3sPlane) -> Iterator[Finding]:
    for number, host in enumerate(spec.hosts):
        port = host.ssh.port if host.ssh else 0
        if host.role in {"control_plane", "balancer"} and port == plane.api_port:
            yield Finding(
                f"SSH of {host.name} has port {port}, which is that of the API: api_from "
                "would shut it too.",
                (
                    at(("hosts", number, "ssh", "port"), port),
                    at(("kubernetes", "api_port"), plane.api_port),
                ),
                "give the API another port.",
            )


def check_k3s_secrets(spec: ClusterSpec) -> Iterator[Finding]:
    """K3s keeps the servers' token from workers, and Secrets encrypted.

    Without `agent_token` each worker holds the servers' token: whoever is root on one GPU node can
    join as a server and read all that is stored. Without `secrets_encryption` a snapshot of etcd
    shows every Secret. K3s takes both at the first install alone: on a running cluster waive the
    rule with that reason. `api_from`, which can be set later, says who reaches the API at all.
    """
    plane = spec.k3s
    if plane is None:
        return
    given = {"agent_token": plane.agent_token, "secrets_encryption": plane.secrets_encryption}
    missing = [key for key, value in given.items() if not value]
    if missing:
        more = "" if plane.api_from else "; think of api_from too, which says who reaches the API"
        yield Finding(
            f"kubernetes has no {' and no '.join(missing)}.",
            (at(("kubernetes",)),),
            "add agent_token: {secret: k3s_agent_token} and secrets_encryption: true before the "
            f"first install; a running K3s keeps what it has, and the rule is waived{more}.",
            "warning",
        )


def check_agent_token(spec: ClusterSpec) -> Iterator[Finding]:
    """The token of agents is another secret than the one of servers.

    With the servers' token a machine joins as a server, gets the cluster's own keys, and reads all
    that is stored in it. Whether two secrets have one value is looked at on the servers.
    """
    plane = spec.k3s
    if plane is not None and plane.agent_token == plane.token:
        yield Finding(
            f"agent_token and token are both the secret {plane.token.name}, so that every worker "
            "gets the servers' token.",
            (
                at(("kubernetes", "agent_token"), plane.token.name),
                at(("kubernetes", "token"), plane.token.name),
            ),
            "make another secret for agents, or leave agent_token out.",
        )
