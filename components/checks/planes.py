"""Rules on the control plane: servers and balancers, existing clusters, kubespray."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from components.catalogue.operator_versions import parse_numbers
from components.checks.rule import Finding, Findings, Here, at, find, places, twins, values, walk
from components.core.judge import needs
from components.core.plain_text import has_placeholder
from components.core.problem import Place
from components.kubernetes.planes.node_files import kubelet_fields
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import Alignment, ExistingPlane, KubesprayPlane, cpus_of
from components.model.places import each_ssh
from components.model.reach import as_ipv4

_PAIR: Final = 2
"""With more servers than this a balancer is required; etcd-members refuses two servers."""


def with_role(spec: ClusterSpec, role: str) -> list[tuple[Host, Here]]:
    """The hosts of one role, each with its place."""
    return [each for each in walk(spec, "hosts.*", Host) if each[0].role == role]


@needs("roles")
def check_balancer(spec: ClusterSpec) -> Findings:
    """Several servers need a balancer, or two with one address; one server needs none.

    Without it, the loss of the one server that agents and users address loses the others too. Two
    balancers need `kubernetes.virtual_address`, which moves between them. See also cloud-balancer
    and kubespray-balancer.
    """
    balancers, servers = with_role(spec, "balancer"), with_role(spec, "control_plane")
    where, on_prem = _roles(balancers), spec.cloud is None
    shared = spec.k3s.virtual_address if spec.k3s is not None else None
    if len(balancers) > (_PAIR if shared else 1) and on_prem:
        yield find("balancer-several", *where, count=len(balancers))
    if balancers and len(servers) < _PAIR and spec.k3s is not None:
        yield find("balancer-needless", *where, count=len(servers))
    if len(servers) > _PAIR and not balancers and on_prem and spec.kubespray is None:
        yield find("no-balancer", *_roles(servers), count=len(servers), first=servers[0][0].name)


def check_virtual_address(spec: ClusterSpec) -> Findings:
    """The virtual address moves between two balancers, and no other device uses it.

    It is in the network of both, which the first update checks on the hosts. In a cloud no address
    moves: `cloud-balancer`.
    """
    taken = [(name, ssh.address, (*path, "address")) for name, ssh, path in each_ssh(spec)]
    taken += [(host.name, host.address, ("hosts", h)) for h, host in enumerate(spec.hosts)]
    balancers = with_role(spec, "balancer")
    for each in values(spec, "kubernetes.virtual_address.address"):
        shared = each.value
        if spec.cloud is not None:
            yield find("virtual-address-cloud", each.place, shared=shared)
        elif len(balancers) < _PAIR:
            where = (each.place, *_roles(balancers))
            yield find("virtual-address-balancers", *where, shared=shared, count=len(balancers))
        for name, address, path in [device for device in taken if device[1] == str(shared)][:1]:
            yield find("address-taken", each.place, at(path, address), shared=shared, name=name)


def check_node_name(spec: ClusterSpec) -> Findings:
    """Each node needs a unique name: two nodes with one name would be one."""
    hosts = walk(spec, "hosts.*", Host)
    for (host, here), (other, there) in twins(hosts, lambda each: each[0].node):
        if {host.node_name, other.node_name} != {None}:
            yield find("node-name", *here("node_name"), *there("name"), other=other, host=host)


def check_alignment_owner(spec: ClusterSpec) -> Findings:
    """`kubernetes.alignment` needs kubelets that Railyard installs.

    On an existing cluster its installer sets them. It drains each worker first: a kubelet does not
    start with the state of another policy.
    """
    plane = spec.kubernetes
    if isinstance(plane, ExistingPlane) and plane.alignment is not None:
        values = kubelet_fields(plane.alignment).items()
        fields = ", ".join(f"{key}: {value}" for key, value in values)
        where = places(spec, "kubernetes.alignment", "kubernetes.plane")
        yield find("alignment-owner", *where, fields=fields)


def check_alignment_numa(spec: ClusterSpec) -> Findings:
    """The policy of `kubernetes.alignment` accepts the pods of jobs, which use all cards of a host.

    `single-numa-node` refuses each pod with cards on two NUMA nodes (TopologyAffinityError).
    `restricted` refuses it if its CPUs would fit into one node, which is a warning.
    """
    for alignment, here in walk(spec, "kubernetes.alignment", Alignment):
        policy, which, severity = alignment.policy, "may refuse", "warning"
        if policy == "single-numa-node":
            which, severity = "refuses", "error"
        cards = ((h.name, {nic.numa for nic in h.nics if nic.numa >= 0}) for h in spec.workers)
        split = [(name, sorted(on)) for name, on in cards if len(on) > 1]
        for name, on in split[:1] if policy != "best-effort" else ():
            what = f"{name} has cards on NUMA nodes {' and '.join(map(str, on))}, but "
            what += f"alignment.policy {policy} {which} pods that use all of them."
            yield Finding(what, here("policy"), "write policy: best-effort.", severity)


def check_reserved_cpus(spec: ClusterSpec) -> Findings:
    """`reserved_cpus` names each CPU once, in rising order, and includes CPU 0.

    CPU 0 handles interrupts and the kernel's own work: a rank there would be late, and all others
    would wait for it.
    """
    for alignment, here in walk(spec, "kubernetes.alignment", Alignment):
        text, where = alignment.reserved_cpus, here("reserved_cpus")
        cpus = cpus_of(text)
        if not cpus or list(cpus) != sorted(set(cpus)):
            yield find("reserved-cpus-name", *where, text=text)
        elif 0 not in cpus:
            yield find("reserved-cpus-handles", *where, text=text)


def check_api_from(spec: ClusterSpec) -> Findings:
    """`kubernetes.api_from` shuts out no node, and does not cut Railyard's SSH to a host.

    A balancer asks the servers from its own address. The filter shuts SSH too if it uses the API's
    port. Every preview checks whether Railyard's own address, as the servers see it, is in the
    list.
    """
    plane = spec.k3s
    if plane is None or not plane.api_from:
        return
    here = at(("kubernetes", "api_from"), [str(each) for each in plane.api_from])
    hosts = [each for each in walk(spec, "hosts.*", Host) if not each[0].is_outside]
    for host, own in hosts:
        address = as_ipv4(host.address)  # None for a name: only the host can resolve it
        if has_placeholder(host.address):
            yield find("api-from-unknown", here, host=host)
            return
        if address is not None and not any(address in network for network in plane.api_from):
            where = (*own("node_ip" if host.node_ip else "ssh.address"), here)
            yield find("api-from-outside", *where, host=host)
    for host, own in hosts:
        port = host.ssh.port if host.ssh and host.role != "worker" else 0
        if port == plane.api_port:
            where = own("ssh.port") + places(spec, "kubernetes.api_port")
            yield find("api-from-ssh", *where, host=host, port=port)


def check_k3s_secrets(spec: ClusterSpec) -> Findings:
    """Workers of K3s join with a separate token, and Secrets are encrypted in etcd.

    Without `agent_token` root on one GPU node can join as a server, and read everything that the
    cluster stores. Without `secrets_encryption` a snapshot of etcd shows every Secret. An update
    refuses to add either to a running cluster: waive the rule there, until the cluster is made
    again. `api_from` can be added at any time.
    """
    plane = spec.k3s
    if plane is None or (plane.agent_token and plane.secrets_encryption):
        return
    missing = {
        "agent_token": "agent_token: {secret: k3s_agent_token}",
        "secrets_encryption": "secrets_encryption: true",
    }
    missing = {key: line for key, line in missing.items() if not getattr(plane, key)}
    fix = f"add {' and '.join(missing.values())} before the first install. An update cannot add "
    fix += f"{'them' if len(missing) > 1 else 'it'} to a running cluster: waive the rule there."
    if not plane.api_from:
        fix += " You can add api_from later; it limits who reaches the API."
    yield find("k3s-secrets", *places(spec, "kubernetes"), keys=" and ".join(missing), fix=fix)


def check_kubespray_variable(spec: ClusterSpec) -> Findings:
    """`extra_vars` sets no variable that follows from the file, or that a run needs.

    Among these are addresses and logins of nodes, networks, the CNI, mirrors, the proxy and Multus,
    and those that switch off kubespray's own checks. A variable that was removed before this
    release is a warning: kubespray silently ignores it.
    """
    plane = spec.kubespray
    if plane is None or not plane.extra_vars:
        return
    from components.kubernetes.kubespray import wanted  # noqa: PLC0415 - slow, for kubespray alone

    release = plane.source.release
    for name, value in plane.extra_vars.items():
        where = (at(("kubernetes", "extra_vars", name), value),)
        if wanted.is_owned_variable(spec, name):
            yield find("kubespray-variable-extra-vars", *where, name=name)
        left, instead = wanted.LEFT.get(name, ("", ""))
        if left and parse_numbers(release) >= parse_numbers(left):
            what = f"kubespray {release} ignores {name}: release {left} removed it."
            yield Finding(what, where, f"write {instead}.", "warning")


def check_kubespray_nodes(spec: ClusterSpec) -> Findings:
    """The pod network has a block for each node.

    Each node takes one of the length `node_prefix`.
    """
    for plane, here in walk(spec, "kubernetes", KubesprayPlane):
        blocks = 2 ** max(plane.node_prefix - plane.pod_cidr.prefixlen, -1)
        nodes, length = len(spec.servers) + len(spec.workers), plane.node_prefix
        if blocks < nodes:
            words = {"plane": plane, "blocks": int(blocks), "length": length, "nodes": nodes}
            yield find("kubespray-nodes", *here("pod_cidr", "node_prefix"), **words)


@needs("roles")
def check_control_plane(spec: ClusterSpec) -> Findings:
    """The site has at least one control-plane host."""
    if (spec.k3s or spec.kubespray) is not None and not spec.servers:
        yield find("control-plane", *places(spec, "hosts"))


@needs("roles")
def check_worker_count(spec: ClusterSpec) -> Findings:
    """The site has at least two workers: RDMA is proven between two hosts."""
    if len(spec.workers) < _PAIR:
        yield find("worker-count", *places(spec, "hosts"), count=len(spec.workers))


@needs("roles")
def check_etcd_members(spec: ClusterSpec) -> Findings:
    """The number of control-plane hosts is odd.

    etcd needs a majority: four members survive one failure, as three do; two survive none.
    """
    count = len(spec.servers)
    if count and count % 2 == 0:
        what = f"{count} servers survive {(count - 1) // 2} failures, like {count - 1}."
        where = _roles(with_role(spec, "control_plane"))
        yield Finding(what, where, f"use {count - 1} or {count + 1}.")


def _roles(hosts: Iterable[tuple[Host, Here]]) -> tuple[Place, ...]:
    return tuple(place for _, here in hosts for place in here("role"))
