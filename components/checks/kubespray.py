"""Rules on kubespray: what its playbooks cannot do, and what the file may not take from them."""

from __future__ import annotations

from components.catalogue.operator_versions import parse_numbers
from components.checks.rule import Finding, Findings, at, places
from components.kubernetes.kubespray.wanted import LEFT, fights_ours
from components.model.cluster import ClusterSpec


def check_kubespray_variable(spec: ClusterSpec) -> Findings:
    """`extra_vars` sets no variable that follows from the file, or that a run needs.

    Two values for one thing are two truths: the plan would say one and the nodes have the other.
    Among them are the addresses and logins of nodes, networks, the CNI, mirrors, the proxy and
    Multus, and what would switch kubespray's own checks off. A variable that left before this
    release is a warning: kubespray passes over it in silence.
    """
    plane = spec.kubespray
    for name, value in plane.extra_vars.items() if plane else ():
        if fights_ours(spec, name):
            yield Finding(
                f"the variable {name} of kubespray is one that Railyard sets.",
                (at(("kubernetes", "extra_vars", name), value),),
                "remove it, and change the key of this file that it follows from.",
            )
        left, instead = LEFT.get(name, ("", ""))
        if plane and left and parse_numbers(plane.source.release) >= parse_numbers(left):
            yield Finding(
                f"kubespray {plane.source.release} reads no variable {name}: it left in {left}.",
                (at(("kubernetes", "extra_vars", name), value),),
                f"write {instead}.",
                "warning",
            )


def check_kubespray_balancer(spec: ClusterSpec) -> Findings:
    """No host is a balancer: each of kubespray's nodes has one of its own.

    A proxy on every worker knows all API servers, so that the loss of one is not felt there.
    """
    if spec.kubespray is None:
        return
    for number, host in enumerate(spec.hosts):
        if host.role == "balancer":
            yield Finding(
                f"{host.name} is a balancer, and kubespray's nodes have one each.",
                places(spec, f"hosts.{number}.role"),
                "take the host out, or use plane: k3s.",
            )


def check_kubespray_nodes(spec: ClusterSpec) -> Findings:
    """The pod network has a block for each node.

    Each takes one of the length `node_prefix`; kubespray's own validation refuses less, but only
    when it runs.
    """
    plane = spec.kubespray
    if plane is None:
        return
    blocks = 2 ** max(plane.node_prefix - plane.pod_cidr.prefixlen, -1)
    nodes = len(spec.servers) + len(spec.workers)
    if blocks < nodes:
        yield Finding(
            f"{plane.pod_cidr} has {int(blocks)} blocks of /{plane.node_prefix} for {nodes} nodes.",
            places(spec, "kubernetes.pod_cidr", "kubernetes.node_prefix"),
            "choose a larger pod network, or a longer node_prefix.",
        )


def check_kubespray_registry(spec: ClusterSpec) -> Findings:
    """The site's registry is one that its nodes trust and pull from without a login.

    The containerd of kubespray 2.31 reads no login for a mirror, and its playbooks bring no
    certificate: the hosts must trust the registry by themselves.
    """
    registry = spec.sources.registry
    if spec.kubespray is None or registry is None:
        return
    for key, value in (("login", registry.login), ("ca", registry.ca)):
        if value is not None:
            yield Finding(
                f"the registry {registry.address} has a {key}, which nodes do not get.",
                (at(("sources", "registry", key)), at(("kubernetes", "plane"), "kubespray")),
                f"remove {key} and let the hosts' own settings have it, or use plane: k3s.",
            )


def check_kubespray_mtu(spec: ClusterSpec) -> Findings:
    """`mtu_bytes` is set only where the CNI takes it.

    flannel takes its MTU from the interface of the default route.
    """
    plane = spec.kubespray
    if plane is not None and plane.mtu_bytes is not None and plane.cni != "calico":
        yield Finding(
            f"mtu_bytes is set, and {plane.cni} takes its MTU from the node's interface.",
            places(spec, "kubernetes.mtu_bytes", "kubernetes.cni"),
            "remove mtu_bytes, or use cni: calico.",
        )


def check_kubespray_login(spec: ClusterSpec) -> Findings:
    """Jump hosts on the way to kubespray's nodes take a key or the agent, and no password.

    Ansible goes through them with OpenSSH, which asks a person for a password.
    """
    if spec.kubespray is None:
        return
    for number, jump in enumerate(spec.jump_hosts):
        if jump.ssh.password is not None:
            yield Finding(
                f"the jump host {jump.name} takes a password, which OpenSSH cannot be handed.",
                (at(("jump_hosts", number, "ssh", "password")),),
                "give it private_key, or agent: true.",
            )
