"""Sites of any size, as text of a `site.yaml`: what large sites cost is measured on them.

Each rail has leaves of its own, and switches join them as a tree, so that every rail is one VLAN
without a loop. Switches and cards are those that the two forms are bought with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from components.core.record import record

_KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAjcWkKbzsgcpbZ0Gp5aPnzxdCsz2R4QMQ5HnPtrwJXr"
_BLOCK: Final = 250
"""Addresses that are used of each 256, from .1 on."""


@record
class Form:
    """What every host and every switch of a site is."""

    rails: int
    card: str
    speed_gbit_s: int
    switch: str
    hosts_a_leaf: int
    links_a_spine: int
    gpus: int = 8


TWO_RAILS: Final = Form(2, "ConnectX-5", 100, "SN4600C", hosts_a_leaf=33, links_a_spine=63)
"""Two rails of 100 Gbit/s: 1,000 hosts have 62 leaves below one spine."""
EIGHT_RAILS: Final = Form(8, "ConnectX-7", 400, "SN5600", hosts_a_leaf=63, links_a_spine=63)
"""Eight rails of 400 Gbit/s: 1,000 hosts have 128 leaves below four spines."""


@dataclass(slots=True)
class _Tree:
    """Switches and what is plugged into each; filled from the leaves upwards."""

    form: Form
    ports: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def grow(self, hosts: int) -> None:
        tops = [leaf for rail in range(self.form.rails) for leaf in self._leaves(rail, hosts)]
        level = 1
        while len(tops) > 1:
            tops = self._joined(tops, level)
            level += 1

    def _leaves(self, rail: int, hosts: int) -> Iterator[str]:
        size = self.form.hosts_a_leaf
        for number, start in enumerate(range(0, hosts, size), 1):
            name = f"leaf-{rail}-{number:04d}"
            plugged = range(start, min(start + size, hosts))
            self.ports[name] = [f"{host_name(host)}/rail-{rail}" for host in plugged]
            yield name

    def _joined(self, below: list[str], level: int) -> list[str]:
        size, tops = self.form.links_a_spine, list[str]()
        for number, start in enumerate(range(0, len(below), size), 1):
            top = f"spine-{level}-{number:03d}"
            self.ports[top] = []
            for name in below[start : start + size]:
                ends = len(self.ports[top]) + 1, len(self.ports[name]) + 1
                self.ports[top].append(f"{name}:swp{ends[1]}")
                self.ports[name].append(f"{top}:swp{ends[0]}")
            tops.append(top)
        return tops


def host_name(number: int) -> str:
    """The name of a worker, counted from 0."""
    return f"gpu{number + 1:05d}"


def count_switches(hosts: int, form: Form) -> int:
    """How many switches such a site has."""
    tree = _Tree(form)
    tree.grow(hosts)
    return len(tree.ports)


def site_text(hosts: int, form: Form) -> str:
    """Write a site.

    Args:
        hosts: Number of workers; one control-plane host comes on top.
        form: What they are.

    Returns:
        A `site.yaml` in which `railyard check` finds no error.
    """
    tree = _Tree(form)
    tree.grow(hosts)
    lines = [*_head(form), "switches:"]
    for number, (name, ports) in enumerate(tree.ports.items()):
        lines += _switch(number, name, ports, form)
    lines += ["hosts:", *_host("mgmt00001", "control_plane", f"172.16.255.{1}")]
    for number in range(hosts):
        lines += _host(host_name(number), "worker", _address("172.16", number))
        lines += [f"    gpus: {form.gpus}", "    nics:"]
        lines += [_nic(rail, form) for rail in range(form.rails)]
    return "\n".join([*lines, _TAIL])


def _address(block: str, number: int) -> str:
    head, _, second = block.rpartition(".")
    third, last = divmod(number, _BLOCK)
    return f"{head}.{int(second) + third // _BLOCK}.{third % _BLOCK}.{last + 1}"


def _head(form: Form) -> Iterator[str]:
    yield "name: large"
    yield "environment: {kind: onprem}"
    yield "rdma: {transport: roce, mode: lossless, mtu_bytes: 9000, port_mtu_bytes: 9216}"
    yield "rails:"
    for rail in range(form.rails):
        vlan, subnet = 111 + rail, f"10.{16 * rail}.0.0/12"
        names = f"resource: sriov_{vlan}, network: sriov{vlan}"
        yield f"  - {{name: rail-{rail}, vlan: {vlan}, subnet: {subnet}, {names}}}"


def _ssh(address: str, user: str, secret: str) -> Iterator[str]:
    yield "    ssh:"
    yield f"      address: {address}"
    yield f"      user: {user}"
    yield f"      {secret}"
    yield f"      host_key: {_KEY}"


def _switch(number: int, name: str, ports: list[str], form: Form) -> Iterator[str]:
    yield f"  - name: {name}"
    yield "    os: cumulus"
    yield f"    model: {form.switch}"
    yield "    release: 5.11.0"
    yield from _ssh(_address("172.24", number), "cumulus", "password: {secret: switch_password}")
    yield "    ports:"
    for place, plugged in enumerate(ports, 1):
        yield f'      swp{place}: "{plugged}"'


def _host(name: str, role: str, address: str) -> Iterator[str]:
    yield f"  - name: {name}"
    yield f"    role: {role}"
    yield from _ssh(address, "nvidia", "private_key: {secret: ssh_private_key}")


def _nic(rail: int, form: Form) -> str:
    return (
        f'      - {{rail: rail-{rail}, pci: "0000:{0x18 + 8 * rail:02x}:00.0", netdev: rdma{rail}, '
        f"model: {form.card}, speed_gbit_s: {form.speed_gbit_s}, vfs: 8, "
        f"numa: {2 * rail // form.rails}}}"
    )


_DIGEST: Final = "ab" * 32
_TAIL: Final = f"""\
kubernetes:
  plane: k3s
  version: v1.36.3+k3s1
  source:
    binary: /opt/mirror/k3s
    binary_sha256: "{_DIGEST}"
    install_script: /opt/mirror/install.sh
    install_script_sha256: "{_DIGEST}"
  token: {{secret: k3s_token}}
  agent_token: {{secret: k3s_agent_token}}
  secrets_encryption: true
  registry_mirror: 192.168.100.10:5000
  pod_cidr: 10.128.0.0/10
  service_cidr: 10.192.0.0/16
disruption: {{ports: allow, reboots: allow, max_unavailable: 1}}
host_defaults: {{driver: {{kind: present}}}}
operators: {{gpu: {{driver: host}}}}
pod_network: {{mode: sriov, ipam: whereabouts, resource_prefix: intel.com, namespace: default}}
jobs: {{image: "192.168.100.10:5000/nccl-roce-test:1", mpi_operator: true}}
"""
