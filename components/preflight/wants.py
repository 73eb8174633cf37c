"""Collect each host's requirements before its first update as plain data, from the plan.

They include ports of other machines that a host must reach, and own ports that must be free.
Testing all pairs of hosts would grow with the square of the site. So each node tests the few
servers, and the next node in the file, in a ring. A firewall in front of one machine, or between
two groups, blocks part of the ring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from components.artefacts.lock import Lock
from components.catalogue.cluster_parts import CniPaths
from components.core.plain_text import has_placeholder
from components.core.record import record
from components.core.templates import read_table
from components.kubernetes.kubespray.wanted import pod_overhead_bytes
from components.kubernetes.planes.k3s import render_config
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import ExistingPlane
from components.model.owners import cni_check_image, cni_paths, toolkit_owner
from components.model.sources import Registry
from components.plan.make import ClusterPlan
from components.preflight.artefacts import Artefact, access_lines, artefacts_of

DRIVER_ROOM_KIB: Final = 1 << 20
"""As the host's script requires for an RDMA driver package: 1 GiB in / and in /var."""
_MODULE: Final = re.compile(r"module\.(\w+)")
_NODES: Final = frozenset({"control_plane", "worker"})
ETCD_PORTS: Final = (2379, 2380)
KUBELET_PORT: Final = 10250
"""Ports of K3s' parts (K3s' page "Requirements", networking), and of kubeadm's."""
CONTROLLER_PORTS: Final = (10257, 10259)
"""Controller manager and scheduler, which kubeadm runs as separate pods."""


@record
class Tool:
    """A program that a step calls."""

    names: tuple[str, ...]
    """Any one of them is enough."""
    why: str
    fix: str


@record
class HostWants:
    """One host's requirements, and the questions to it."""

    device: str
    tools: tuple[Tool, ...] = ()
    modules: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Host names that it must resolve."""
    own_addresses: tuple[str, ...] = ()
    """Its pods' packets leave by the first one."""
    ports: tuple[int, ...] = ()
    """Ports that must be free."""
    peers: tuple[tuple[str, int], ...] = ()
    """Addresses and ports that it must reach."""
    artefacts: tuple[Artefact, ...] = ()
    registry: Registry | None = None
    """The site's own registry, which has some of the images."""
    cgroup_v2: bool = False
    unit: Literal["", "k3s", "kubelet"] = ""
    """The Kubernetes that Railyard installs here: K3s, or kubespray's kubelet; empty for none."""
    selinux_policy: bool = False
    """The file names K3s' SELinux policy, which a step installs by dnf."""
    ipoib: bool = False
    """The device plugin finds its InfiniBand functions by their IPoIB network devices."""
    gpus: int = 0
    """0 in a guest of ESXi: its GPUs come with the first update."""
    gpu_driver: Literal["host", "operator"] | None = None
    packages: bool = False
    """A step installs packages here."""
    driver_room: bool = False
    pod_mtu_bytes: int = 0
    """MTU of the cluster's own network if the file has one; else 0."""
    pod_overhead_bytes: int = 0
    """Bytes that this network adds to a packet."""
    cni: CniPaths | None = None
    """CNI folders of a node in an existing cluster, into which Railyard installs programs."""

    def render(self, secrets: Mapping[str, str]) -> str:
        """Render the questions for the script, a line each."""
        files = [each for each in self.artefacts if each.kind == "file"]
        lines = [f"tool {name}" for tool in self.tools for name in tool.names]
        lines += [f"module {name}" for name in self.modules]
        lines += [f"name {name}" for name in self.names]
        lines += [f"port {port} {' '.join(self.own_addresses)}" for port in self.ports]
        lines += [f"peer {address} {port}" for address, port in self.peers]
        lines += [f"sum {each.name} {each.address}" for each in files if each.sha256]
        lines += [f"reach {each.name} {each.address}" for each in files if not each.sha256]
        lines += access_lines(self.registry, secrets)
        images = [each for each in self.artefacts if each.kind == "image"]
        lines += [f"{'own' if e.own else 'image'} {e.name} {e.manifest}" for e in images]
        lines += [f"cni {self.cni.net_d} {self.cni.bin}"] if self.cni else []
        lines += ["packages of the system"] if self.unit or self.packages else []
        lines += ["ipoib of functions"] if self.ipoib else []
        lines += ["python of Ansible"] if self.unit == "kubelet" else []
        lines += [f"node {self.own_addresses[0]}"] if self.pod_mtu_bytes else []
        return "\n".join(lines) + "\n"


def wants_of(spec: ClusterSpec, plan: ClusterPlan, lock: Lock) -> Mapping[str, HostWants]:
    """Return requirements by host name, without hosts that do not exist yet or have no login.

    Only the first worker tests images, since all of them pull from one registry.
    """
    settings = {each.name: each.desired.values for each in plan.hosts}
    puller = next((host.name for host in (*spec.workers, *spec.hosts) if host.ssh), "")
    artefacts = [
        (each, (puller,) if each.kind == "image" else each.hosts)
        for each in artefacts_of(spec, lock)
    ]
    found: dict[str, HostWants] = {}
    network, gpu, spray = spec.operators.network, spec.operators.gpu, spec.kubespray
    by_link_type = network and spec.pod_network.mode == "host_device" and not spec.infiniband
    foreign = isinstance(spec.kubernetes, ExistingPlane) and cni_check_image(spec) is not None
    gpu_driver = spec.host_defaults.gpu_driver or (gpu.driver if gpu else "host")
    for host in (each for each in spec.reached if not has_placeholder(each.way.address)):
        values, driver = settings[host.name], spec.settings_of(host).driver
        own = tuple(each for each, hosts in artefacts if host.name in hosts)
        installs = driver.kind != "inbox" and (driver.source or driver.repository) is not None
        unit = ("kubelet" if spray else "k3s" if spec.k3s else "") if host.role in _NODES else ""
        found[host.name] = HostWants(
            device=host.name,
            tools=tuple(_tools(spec, host, values, own)),
            modules=tuple(name[1] for key in values if (name := _MODULE.fullmatch(key))),
            names=tuple(_names(host, own, kubelet=bool(unit))),
            own_addresses=tuple(dict.fromkeys((host.address, host.way.address))),
            ports=tuple(_ports(spec, host)),
            peers=_peers(spec, host),
            artefacts=own,
            registry=spec.sources.registry,
            cgroup_v2=bool(unit) and "kernel.cgroup" in values,
            unit=unit,
            selinux_policy=spec.k3s is not None and spec.k3s.source.selinux_policy is not None,
            ipoib=host.hcas > 0 and bool(by_link_type),  # as in `host_device_config`
            gpus=0 if spec.hypervisors else host.gpus,
            gpu_driver=gpu_driver if host.gpus else None,
            packages=installs or "docker.engine" in values or host.role == "balancer",
            driver_room=installs,
            pod_mtu_bytes=(spray.mtu_bytes or 0) if spray and unit else 0,
            pod_overhead_bytes=pod_overhead_bytes(spec),
            cni=cni_paths(spec) if foreign and host.role == "worker" else None,
        )
    return found


def _tools(
    spec: ClusterSpec, host: Host, settings: Mapping[str, str], own: tuple[Artefact, ...]
) -> Iterator[Tool]:
    every: Mapping[str, Mapping[str, Any]] = read_table(__file__, "tools")
    patterns = {row: each["settings"] for row, each in every.items() if "settings" in each}
    rows = ["flock"]
    rows += (row for row, key in patterns.items() if any(map(re.compile(key).fullmatch, settings)))
    plane, balances = spec.k3s, host.role == "balancer"
    fetches = any(each.kind == "file" and each.address.startswith("https:") for each in own)
    rows += ["download"] if fetches or (plane is not None and _has_etcd(spec, host)) else []
    filters = plane and plane.api_from and host.role in {"control_plane", "balancer"}
    rows += ["nft"] if filters else []
    if balances:
        has_address = plane is not None and plane.virtual_address is not None
        rows += ["haproxy", *(("keepalived", "ask-haproxy") if has_address else ())]
    elif (
        plane is not None
        and "default-runtime" in render_config(spec, host)
        and toolkit_owner(spec) == "present"  # else Railyard installs its own runtime before K3s
    ):
        rows.append("runtime")
    elif "toolkit.runtime" in settings:
        rows.append("docker-runtime")
    for each in map(every.__getitem__, rows):
        yield Tool(tuple(each["names"]), each["why"], each["fix"])


def _names(host: Host, artefacts: tuple[Artefact, ...], *, kubelet: bool) -> Iterator[str]:
    """Yield the node's own name, and the names of machines that it downloads from."""
    found = [host.name] if kubelet else []
    for each in artefacts:
        address = each.manifest if each.kind == "image" else each.address
        found.append(urlsplit(address).hostname or "")
    for name in filter(None, dict.fromkeys(found)):
        try:
            ip_address(name)
        except ValueError:
            yield name


def _ports(spec: ClusterSpec, host: Host) -> Iterator[int]:
    """Yield the ports that must be free before Kubernetes starts."""
    plane = spec.k3s or spec.kubespray
    if plane is None:
        return
    has_proxy = host.role == "worker" and spec.kubespray is not None  # its own, to the servers
    if has_proxy or host.role in {"control_plane", "balancer"}:
        yield plane.api_port
    if host.role in _NODES:
        yield KUBELET_PORT
    if _has_etcd(spec, host):
        yield from ETCD_PORTS
    if spec.kubespray is not None and host.role == "control_plane":
        yield from CONTROLLER_PORTS


def _has_etcd(spec: ClusterSpec, host: Host) -> bool:
    """Whether etcd listens to other hosts: on K3s with several servers, on kubespray always."""
    several = spec.kubespray is not None or (spec.k3s is not None and len(spec.servers) > 1)
    return several and host.role == "control_plane"


def _peers(spec: ClusterSpec, host: Host) -> tuple[tuple[str, int], ...]:
    """Return the addresses and ports that a host must reach: the servers, and the next node."""
    plane, found = spec.k3s or spec.kubespray, list[tuple[str, int]]()
    if plane is not None and not host.is_outside and spec.servers:
        if host.role == "worker":  # a virtual address does not answer before the first update
            found += [(each.address, plane.api_port) for each in spec.balancers]
        ports = (plane.api_port, *(ETCD_PORTS if _has_etcd(spec, host) else ()))
        others = (server for server in spec.servers if server != host)
        found += [(server.address, port) for server in others for port in ports]
    ring: Sequence[Host] = spec.workers if spec.containers is not None else ()
    if spec.kubernetes is not None:
        ring = tuple(each for each in spec.reached if each.role in _NODES)
    if host in ring and len(ring) > 1:
        after = ring[(ring.index(host) + 1) % len(ring)]
        port = (spec.containers.ssh_port if spec.containers else None) or after.way.port
        found.append((after.address, port if spec.kubernetes is None else KUBELET_PORT))
    return tuple(dict.fromkeys(each for each in found if not has_placeholder(each[0])))
