"""The kernel of a host: modules, limits, settings, and the PCI path between GPU and card."""

from __future__ import annotations

from typing import Final

from components.hosts.routing import rail_sysctls
from components.hosts.settings import Settings
from components.model.cluster import ClusterSpec
from components.model.gpu_direct import gpu_driver_owner
from components.model.hosts import Host
from components.model.kernel import KernelSettings

_PEER_MODULES: Final = {"peermem": "nvidia_peermem", "nv_peer_mem": "nv_peer_mem"}
"""GPUDirect RDMA to the module that it needs; DMA-BUF needs none."""
_SYSCTL_MODULES: Final = {
    "net.bridge.": "br_netfilter",
    "net.netfilter.nf_conntrack_": "nf_conntrack",
    "net.nf_conntrack_max": "nf_conntrack",
    "net.ipv4.vs.": "ip_vs",
    "sunrpc.rdma_": "rpcrdma",
    "sunrpc.svc_rdma.": "rpcrdma",
    "sunrpc.": "sunrpc",
}
"""Kernel settings to the module that brings them; the first that fits counts (kernel documentation,
networking/nf_conntrack-sysctl, ipvs-sysctl, admin-guide/sysctl). At boot, before Kubernetes, they
are not loaded. `sysctl_module` in scripts/kernel.sh has the same table."""


def kernel_settings(spec: ClusterSpec, host: Host) -> Settings:
    """Modules, limits and kernel settings of one host.

    The adapters that a cloud hands in have no settings of ours, and their driver is the image's.
    """
    kernel = spec.settings_of(host).kernel
    lost = _modules(spec, host) | _hugepages(kernel)
    sysctls = rail_sysctls(spec, host) | kernel.sysctls
    lost |= {f"kernel.sysctl.{name}": value for name, value in sysctls.items()}
    if kernel.cpu_governor is not None:
        lost["kernel.governor"] = kernel.cpu_governor
    if kernel.numa_balancing is not None:
        lost["kernel.numa_balancing"] = "on" if kernel.numa_balancing else "off"
    if acs_off(spec, host):
        lost["kernel.acs"] = "off"
    kept = _memory_limits(spec, host)
    if kernel.iommu != "keep":
        kept["kernel.cmdline.iommu"] = kernel.iommu
    if kernel.rdma_netns != "keep":
        kept["kernel.rdma_netns"] = kernel.rdma_netns
    return Settings(kept, lost)


def acs_off(spec: ClusterSpec, host: Host) -> bool:
    """Whether ACS of the bridges between GPUs and cards is to be off.

    Without being asked only where nothing else can be meant: a bare machine with GPUs and RDMA
    cards, whose VFs no virtual machine takes. There ACS has no use, and GPUDirect RDMA is slow
    or hangs with it (sources.md#host-kernel).
    """
    acs = spec.settings_of(host).kernel.acs
    if acs != "auto":
        return acs == "off"
    bare = spec.environment.kind == "onprem"
    bare = bare and not any(nic.passes_vfs for nic in host.nics)
    return bare and host.gpus > 0 and bool(host.nics or host.hcas)


def _modules(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """Modules to load at each boot."""
    loaded: list[str] = []
    if host.nics:
        loaded.append("rdma_cm")
    if host.hcas and spec.infiniband is not None:
        # Without it no program of the host reaches the subnet manager: sminfo, saquery, ibdiagnet.
        loaded.append("ib_umad")
    module = _PEER_MODULES.get(spec.settings_of(host).gpu_path)
    by_container = gpu_driver_owner(spec) == "operator"  # which loads the module, too
    if module and not by_container and host.gpus and (host.nics or host.hcas):
        loaded.append(module)
    for name in spec.settings_of(host).kernel.sysctls:
        fitting = (brings for start, brings in _SYSCTL_MODULES.items() if name.startswith(start))
        if brings := next(fitting, None):
            loaded.append(brings)
    return {f"module.{name}": "loaded" for name in loaded}


def _hugepages(kernel: KernelSettings) -> dict[str, str]:
    sizes = {
        "2mib": (kernel.hugepages_2mib, kernel.hugepages_2mib_per_node),
        "1gib": (kernel.hugepages_1gib, kernel.hugepages_1gib_per_node),
    }
    wanted: dict[str, str] = {}
    for size, (total, nodes) in sizes.items():
        if total is not None:
            wanted[f"kernel.hugepages.{size}"] = str(total)
        wanted |= {
            f"kernel.hugepages.{size}.node{node}": str(pages) for node, pages in enumerate(nodes)
        }
    return wanted


def _memory_limits(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The locked-memory limit of what starts pods, and of the common user's logins.

    RDMA pins memory. A unit's limit reaches its pods; logins have theirs from PAM, so that
    `mpirun` and perftest of the common user can pin memory too.
    """
    limits: dict[str, str] = {}
    if host.nics or host.hcas:
        limits[f"kernel.limits.{spec.settings_of(host).user.name}.memlock"] = "unlimited"
    if spec.k3s is None or host.role == "balancer":
        return limits
    units = ["k3s" if host.role == "control_plane" else "k3s-agent"]
    if spec.k3s.container_runtime == "docker":
        units += ["docker", "containerd"]  # the kubelet sets no limits: pods have dockerd's
    # systemd's word for unlimited
    return limits | {f"unit.{unit}.limit_memlock": "infinity" for unit in units}
