"""Rules on who reaches the API, and with which token a node joins."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.addresses import as_ipv4
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
        address = as_ipv4(host.address)
        if address is None:
            continue  # a name: the host itself knows where it comes from
        if not any(address in network for network in plane.api_from):
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
    """Workers of K3s join with a token of their own, and Secrets are encrypted in etcd.

    Without `agent_token` each worker holds the servers' token: root on one GPU node can join as a
    server, and read everything that the cluster stores. Without `secrets_encryption` a snapshot of
    etcd shows every Secret. Choose both before the first install. An update refuses to add either
    to a cluster that runs: waive the rule there, until the cluster is made again. `api_from` can be
    added at any time; it lists the networks of the nodes and of whoever runs Railyard.
    """
    plane = spec.k3s
    if plane is None:
        return
    wanted = {
        "agent_token": (plane.agent_token, "agent_token: {secret: k3s_agent_token}"),
        "secrets_encryption": (plane.secrets_encryption, "secrets_encryption: true"),
    }
    missing = {key: line for key, (value, line) in wanted.items() if not value}
    if missing:
        later = (
            ""
            if plane.api_from
            else " api_from limits who reaches the API, and can be added later."
        )
        yield Finding(
            f"kubernetes has no {' and no '.join(missing)}.",
            (at(("kubernetes",)),),
            f"add {' and '.join(missing.values())} before the first install. A cluster that runs "
            f"cannot get {'them' if len(missing) > 1 else 'it'} by an update: waive the rule there."
            + later,
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
