"""Collect each host's requirements before its first update as plain data, from the plan.

They include ports of other machines that a host must reach, and own ports that must be free.
Testing all pairs of hosts would grow with the square of the site. So each node tests the few
servers, and the next node in the file, in a ring. A firewall in front of one machine, or between
two groups, blocks part of the ring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final, Literal
from urllib.parse import urlsplit

from components.artefacts.lock import Lock
from components.catalogue.cluster_parts import CniPaths
from components.core.plain_text import has_placeholder
from components.hosts.host_plan import HostPlan
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
_QOS_TOOL: Final = re.compile(r"nic\..*\.(trust|pfc|buffers|dcbx|cable_length_m|dscp\d+_priority)")
_PAUSE: Final = re.compile(r"nic\..*\.global_pause")
_FIRMWARE: Final = re.compile(r"nic\..*\.(ats|fw_(?!floor)\w+)")
_SERIAL: Final = re.compile(r"nic\..*\.serial")
_MODULE: Final = re.compile(r"module\.(\w+)")


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that a step calls."""

    names: tuple[str, ...]
    """Any one of them is enough."""
    why: str
    fix: str


Peer = tuple[str, int]
"""Address and port."""


@dataclass(frozen=True, slots=True)
class HostWants:
    """One host's requirements, and the questions to it."""

    device: str
    tools: tuple[Tool, ...] = ()
    modules: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Host names that it must resolve."""
    own_addresses: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    """Ports that must be free."""
    peers: tuple[Peer, ...] = ()
    """Addresses and ports that it must reach."""
    artefacts: tuple[Artefact, ...] = ()
    images: tuple[Artefact, ...] = ()
    registry: Registry | None = None
    """The site's own registry, which has some of the images."""
    cgroup_v2: bool = False
    kubelet: bool = False
    unit: str = "k3s"
    """The fact that a host already runs this Kubernetes, which then uses the ports itself."""
    selinux_policy: bool = False
    """The file names K3s' SELinux policy, which a step installs by dnf."""
    ansible: bool = False
    """Ansible runs its modules here."""
    ipoib: bool = False
    """The device plugin finds its InfiniBand functions by their IPoIB network devices."""
    gpus: int = 0
    gpu_driver: Literal["host", "operator"] | None = None
    packages: bool = False
    """A step installs packages here."""
    driver_room: bool = False
    node_address: str = ""
    """The address that its pods' packets leave by."""
    pod_mtu_bytes: int = 0
    """MTU of the cluster's own network if the file has one; else 0."""
    pod_overhead_bytes: int = 0
    """Bytes that this network adds to a packet."""
    cni: CniPaths | None = None
    """CNI folders of a node in an existing cluster, into which Railyard installs programs."""

    def render(self, secrets: Mapping[str, str]) -> str:
        """Render the questions for the script, a line each."""
        lines = [f"tool {name}" for tool in self.tools for name in tool.names]
        lines += [f"module {name}" for name in self.modules]
        lines += [f"name {name}" for name in self.names]
        lines += [f"port {port} {' '.join(self.own_addresses)}" for port in self.ports]
        lines += [f"peer {address} {port}" for address, port in self.peers]
        lines += [f"sum {each.name} {each.address}" for each in self.artefacts if each.sha256]
        lines += [f"reach {each.name} {each.address}" for each in self.artefacts if not each.sha256]
        lines += access_lines(self.registry, secrets)
        lines += [f"{_asks(each)} {each.name} {each.manifest}" for each in self.images]
        lines += [f"cni {self.cni.net_d} {self.cni.bin}"] if self.cni else []
        lines += ["packages of the system"] if self.kubelet or self.packages else []
        lines += ["ipoib of functions"] if self.ipoib else []
        lines += ["python of Ansible"] if self.ansible else []
        lines += [f"node {self.node_address}"] if self.pod_mtu_bytes else []
        return "\n".join(lines) + "\n"


def _picks_by_link_type(spec: ClusterSpec) -> bool:
    """Whether the plugin selects devices by link type, as in `host_device_config`."""
    network = spec.operators.network
    return network is not None and spec.pod_network.mode == "host_device" and not spec.infiniband


def _cni(spec: ClusterSpec, host: Host) -> CniPaths | None:
    foreign = isinstance(spec.kubernetes, ExistingPlane) and cni_check_image(spec) is not None
    return cni_paths(spec) if foreign and host.role == "worker" else None


def _asks(image: Artefact) -> str:
    return "own" if image.own else "image"


def wants_of(spec: ClusterSpec, plan: ClusterPlan, lock: Lock) -> Mapping[str, HostWants]:
    """Return requirements by host name, without hosts that do not exist yet or have no login.

    Only the first worker tests images, since all of them pull from one registry.
    """
    by_name = {each.name: each for each in plan.hosts}
    puller = next((host.name for host in (*spec.workers, *spec.hosts) if host.ssh), "")
    artefacts = artefacts_of(spec, lock)
    return {
        host.name: _wants(spec, host, by_name[host.name], artefacts, pulls=host.name == puller)
        for host in spec.reached
        if not has_placeholder(host.way.address)
    }


def _wants(
    spec: ClusterSpec, host: Host, plan: HostPlan, artefacts: tuple[Artefact, ...], *, pulls: bool
) -> HostWants:
    settings = plan.desired.values
    own = tuple(each for each in artefacts if host.name in each.hosts)
    images = tuple(each for each in artefacts if each.kind == "image") if pulls else ()
    driver = spec.settings_of(host).driver
    installs = driver.kind != "inbox" and (driver.source or driver.repository) is not None
    kubelet = bool(spec.k3s or spec.kubespray) and host.role in {"control_plane", "worker"}
    return HostWants(
        device=host.name,
        tools=tuple(_tools(spec, host, settings, own)),
        modules=tuple(found[1] for key in settings if (found := _MODULE.fullmatch(key))),
        names=tuple(_names(host, own, images, kubelet=kubelet)),
        own_addresses=tuple(dict.fromkeys((host.address, host.way.address))),
        ports=tuple(ports_of(spec, host)),
        peers=peers_of(spec, host),
        artefacts=own,
        images=images,
        registry=spec.sources.registry,
        cgroup_v2=kubelet and "kernel.cgroup" in settings,
        kubelet=kubelet,
        unit="kubelet" if spec.kubespray else "k3s",
        selinux_policy=spec.k3s is not None and spec.k3s.source.selinux_policy is not None,
        ansible=kubelet and spec.kubespray is not None,
        ipoib=host.hcas > 0 and _picks_by_link_type(spec),
        gpus=host.gpus,
        gpu_driver=_gpu_owner(spec) if host.gpus else None,
        packages=installs or "docker.engine" in settings or host.role == "balancer",
        driver_room=installs,
        node_address=host.address,
        pod_mtu_bytes=(spec.kubespray.mtu_bytes or 0) if spec.kubespray and kubelet else 0,
        pod_overhead_bytes=pod_overhead_bytes(spec),
        cni=_cni(spec, host),
    )


def _tools(
    spec: ClusterSpec, host: Host, settings: Mapping[str, str], own: tuple[Artefact, ...]
) -> Iterator[Tool]:
    yield Tool(("flock",), "keep two runs apart", "install util-linux")
    for pattern, tool in _BY_SETTING:
        if any(map(pattern.fullmatch, settings)):
            yield tool
    if any(each.address.startswith("https:") for each in own) or joins_servers(spec, host):
        yield Tool(("curl",), "download, and look for the other servers", "install curl")
    if spec.k3s and spec.k3s.api_from and host.role in {"control_plane", "balancer"}:
        yield Tool(("nft",), "say who reaches the API", "install nftables")
    if host.role == "balancer":
        yield from _tools_of_balancer(spec)
    elif _runs_on_runtime(spec, host) and toolkit_owner(spec) == "present":
        yield _RUNTIME  # Railyard installs its own runtime before K3s
    elif "toolkit.runtime" in settings:
        yield replace(_RUNTIME, why="show GPUs to the containers that Docker runs")


def _tools_of_balancer(spec: ClusterSpec) -> Iterator[Tool]:
    yield Tool(("haproxy", "apt-get"), "forward to the servers", "install HAProxy 2.2 or later")
    if spec.k3s is not None and spec.k3s.virtual_address is not None:
        yield Tool(("keepalived", "apt-get"), "move the address", "install keepalived 2.2 or later")
        yield Tool(("curl",), "ask HAProxy whether it answers", "install curl")


def _runs_on_runtime(spec: ClusterSpec, host: Host) -> bool:
    return spec.k3s is not None and "default-runtime" in render_config(spec, host)


_BY_SETTING: Final = (
    (
        _QOS_TOOL,
        Tool(
            ("mlnx_qos", "dcb"),
            "set trust, PFC and buffers of the cards",
            "install iproute2 5.12 or later (dcb), or DOCA-OFED or MLNX_OFED (mlnx_qos)",
        ),
    ),
    (_PAUSE, Tool(("ethtool",), "switch off global pause", "install ethtool")),
    (
        _FIRMWARE,
        Tool(
            ("mlxconfig", "mstconfig"),
            "set the firmware of the cards",
            "install mstflint, or MFT (part of DOCA-OFED and MLNX_OFED)",
        ),
    ),
    (_SERIAL, Tool(("lspci",), "read the serial numbers of the cards", "install pciutils")),
    (
        re.compile(r"kernel\.acs"),
        Tool(
            ("setpci",),
            "take ACS off the bridges between GPUs and cards",
            "install pciutils, or set host_defaults.kernel.acs: keep",
        ),
    ),
    (
        re.compile(r"docker\.runtime"),
        Tool(("python3",), "write /etc/docker/daemon.json", "install python3"),
    ),
)
_RUNTIME: Final = Tool(
    ("nvidia-container-runtime",),
    "run pods: it is K3s' default runtime here, and K3s does not start without it",
    "install nvidia-container-toolkit from NVIDIA's repository"
    " (https://nvidia.github.io/libnvidia-container)",
)


def _names(
    host: Host, own: tuple[Artefact, ...], images: tuple[Artefact, ...], *, kubelet: bool
) -> Iterator[str]:
    """Yield the node's own name, and the names of machines that it downloads from."""
    found = [host.name] if kubelet else []
    found += [urlsplit(each.address).hostname or "" for each in own]
    found += [urlsplit(each.manifest).hostname or "" for each in images]
    yield from (name for name in dict.fromkeys(found) if name and not _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _gpu_owner(spec: ClusterSpec) -> Literal["host", "operator"]:
    if spec.host_defaults.gpu_driver is not None:
        return spec.host_defaults.gpu_driver
    return spec.operators.gpu.driver if spec.operators.gpu else "host"


ETCD_PORTS: Final = (2379, 2380)
KUBELET_PORT: Final = 10250
"""Ports of K3s' parts (K3s' page "Requirements", networking), and of kubeadm's."""
CONTROLLER_PORTS: Final = (10257, 10259)
"""Controller manager and scheduler, which kubeadm runs as separate pods."""


def ports_of(spec: ClusterSpec, host: Host) -> Iterator[int]:
    """Yield the ports that must be free before Kubernetes starts."""
    plane = spec.k3s or spec.kubespray
    if plane is None:
        return
    if host.role in {"control_plane", "balancer"}:
        yield plane.api_port
    elif host.role == "worker" and spec.kubespray is not None:
        yield plane.api_port  # for its own proxy to the servers
    if host.role != "balancer":
        yield KUBELET_PORT
    if _has_etcd(spec, host):
        yield from ETCD_PORTS
    if spec.kubespray is not None and host.role == "control_plane":
        yield from CONTROLLER_PORTS


def _has_etcd(spec: ClusterSpec, host: Host) -> bool:
    """Whether etcd listens to other hosts: on K3s with several servers, on kubespray always."""
    return joins_servers(spec, host) or (
        spec.kubespray is not None and host.role == "control_plane"
    )


def joins_servers(spec: ClusterSpec, host: Host) -> bool:
    """Whether the host is one of several servers."""
    return spec.k3s is not None and host.role == "control_plane" and len(spec.servers) > 1


def peers_of(spec: ClusterSpec, host: Host) -> tuple[Peer, ...]:
    """Return the addresses and ports that a host must reach: the servers, and the next node."""
    found = (*_servers(spec, host), *_next(spec, host))
    return tuple(dict.fromkeys(each for each in found if not has_placeholder(each[0])))


def _servers(spec: ClusterSpec, host: Host) -> Iterator[Peer]:
    plane = spec.k3s or spec.kubespray
    if plane is None or host.role not in {"control_plane", "worker"} or not spec.servers:
        return
    if host.role == "worker":  # a shared virtual address does not answer before the first update
        yield from ((each.address, plane.api_port) for each in spec.balancers)
    for server in spec.servers:
        if server != host:
            yield server.address, plane.api_port
            if _has_etcd(spec, host):
                yield from ((server.address, port) for port in ETCD_PORTS)


def _next(spec: ClusterSpec, host: Host) -> Iterator[Peer]:
    ring: Sequence[Host] = ()
    if spec.kubernetes is not None:
        ring = tuple(each for each in spec.reached if each.role in {"control_plane", "worker"})
    elif spec.containers is not None:
        ring = spec.workers
    if host not in ring or len(ring) == 1:
        return
    after = ring[(ring.index(host) + 1) % len(ring)]
    port = (spec.containers.ssh_port if spec.containers else None) or after.way.port
    yield after.address, port if spec.kubernetes is None else KUBELET_PORT
