"""The variables of kubespray that follow from the site.

Names: kubespray v2.31.0, roles/*/defaults and docs/ (sources.md#kubespray).
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from components.artefacts.naming import registry_host, registry_path
from components.core.errors import Bug
from components.hosts.scripts import proxy_settings
from components.kubernetes.planes.alignment import kubelet_fields
from components.kubernetes.planes.registries import upstream_registries
from components.model.cluster import ClusterSpec
from components.model.operator_owned import toolkit_owner
from components.remote.step import bracketed

TOOLKIT_DROP_INS: Final = 'imports = ["/etc/containerd/conf.d/*.toml"]'
"""Where the GPU operator's toolkit says what its runtime is. kubespray writes containerd's file
whole at every run, and without this line the runtime would be lost (kubespray issue 12277)."""
KUBELET: Final = "kubelet_config_extra_args"
"""Fields of a kubelet's file. It is a variable of each worker, since the control plane runs no
jobs; kubespray had one of its own for workers until v2.26 (tests/kubernetes/variables.yaml)."""
LEFT: Final = {"kubelet_node_config_extra_args": ("v2.27.0", KUBELET)}
"""Variables that a release took out, and what replaced each: kubespray reads no other name."""
WORKERS_KUBELET: Final = "railyard_workers_kubelet"
"""Where the settings keep them until the inventory is written."""
_KUBELET_FIGHTS: Final = frozenset(
    {KUBELET, "kubelet_cpu_manager_policy", "kubelet_topology_manager_policy"}
    | {"kubelet_topology_manager_scope", "kube_reserved", "system_reserved"}
)
"""What writes the same fields, or a cgroup that a kubelet refuses beside `reservedSystemCPUs`
(kubespray v2.31.0, kubelet-config.v1beta1.yaml.j2; Kubernetes, kubelet's validation)."""
_PULLS: Final = ["pull", "resolve"]
OF_CONNECTION: Final = frozenset(
    {"ip", "access_ip", "etcd_member_name", "kube_version", "node", "serial", "drain_timeout"}
    | {
        "skip_confirmation",
        "reset_confirmation",
        "reset_restart_network",
        "reset_nodes",
        "drain_nodes",
    }
    | {"upgrade_node_always_cordon", "ansible_host", "ansible_user"}
    | {"credentials_dir", "http_proxy", "https_proxy", "no_proxy", "additional_no_proxy"}
    | {"kube_override_hostname", "etcd_deployment_type", "ignore_assert_errors"}
)
"""What Railyard sets for a node or for one run, or that would take its checks away."""
OWNED_PREFIXES: Final = ("ansible_", "railyard_", "multus_")


def cluster_settings(spec: ClusterSpec) -> dict[str, JsonValue]:
    """The variables of all nodes, without the version; the file's own `extra_vars` among them.

    Raises:
        Bug: The site has another control plane.
    """
    plane = spec.kubespray
    if plane is None:
        raise Bug("the variables of kubespray are asked for on a site without it")
    extra = plane.extra_vars
    return {**extra, **owned_settings(spec)}


def owned_settings(spec: ClusterSpec) -> dict[str, JsonValue]:
    """Those that follow from the site: `extra_vars` cannot change them."""
    plane = spec.kubespray
    if plane is None:
        return {}
    names = [name for host in spec.servers for name in (host.name, host.address, host.way.address)]
    settings: dict[str, JsonValue] = {
        "container_manager": plane.container_runtime,
        "kube_network_plugin": plane.cni,
        "kube_network_plugin_multus": False,
        "kube_pods_subnet": str(plane.pod_cidr),
        "kube_service_addresses": str(plane.service_cidr),
        "kube_network_node_prefix": plane.node_prefix,
        "kube_apiserver_port": plane.api_port,
        "kubeconfig_localhost": False,
        "kubectl_localhost": False,
        "nvidia_accelerator_enabled": False,
        "override_system_hostname": False,
        "supplementary_addresses_in_ssl_keys": list[JsonValue](dict.fromkeys(names)),
    }
    if plane.cni == "calico":
        settings["calico_ip_auto_method"] = "kubernetes-internal-ip"
        if plane.mtu_bytes is not None:
            settings["calico_mtu"] = plane.mtu_bytes
    if plane.alignment is not None:  # of workers alone: the others run no jobs
        settings[WORKERS_KUBELET] = {**kubelet_fields(plane.alignment)}
    if spec.operators.gpu is not None and toolkit_owner(spec) == "operator":
        settings["containerd_extra_args"] = TOOLKIT_DROP_INS
        settings["nri_enabled"] = True  # the operator's toolkit is a plugin of NRI
    if mirrors := _mirrors(spec):
        settings["containerd_registries_mirrors"] = mirrors
    return settings | _proxy(spec)


_VXLAN_BYTES: Final = 50
_IPIP_BYTES: Final = 20
"""What a packet between nodes has over the pods' MTU (kubespray's page on Calico)."""


def pod_overhead_bytes(spec: ClusterSpec) -> int:
    """What Calico adds to a packet of a pod on its way to another node.

    Without a word of it in `extra_vars`, kubespray's Calico has VXLAN between all nodes.
    """
    said = spec.kubespray.extra_vars if spec.kubespray else {}
    if said.get("calico_vxlan_mode", "Always") != "Never":
        return _VXLAN_BYTES
    return _IPIP_BYTES if said.get("calico_ipip_mode", "Never") != "Never" else 0


def fights_ours(spec: ClusterSpec, variable: str) -> bool:
    """Whether a variable of `extra_vars` is one that Railyard sets."""
    own = {*owned_settings(spec), *OF_CONNECTION, "calico_mtu", "containerd_registries_mirrors"}
    if spec.kubespray and spec.kubespray.alignment and variable in _KUBELET_FIGHTS:
        return True
    return variable in own or variable.startswith(OWNED_PREFIXES)


def _proxy(spec: ClusterSpec) -> dict[str, JsonValue]:
    """Kubespray finds the nodes itself; ours has the networks beside them."""
    found = proxy_settings(spec)
    if not found:
        return {}
    return {
        "http_proxy": found["http_proxy"],
        "https_proxy": found["https_proxy"],
        "additional_no_proxy": found["no_proxy"],
    }


def _mirrors(spec: ClusterSpec) -> list[JsonValue]:
    """Where containerd pulls from, registry by registry; nothing: from upstream."""
    plane, registry = spec.kubespray, spec.sources.registry
    short = plane.registry_mirror if plane else None
    found: list[JsonValue] = []
    if short is not None:
        found.append(_mirror(short, f"http://{short}", own_path=False))
    if registry is None:
        return found
    host = registry_host(registry)
    scheme = "http" if registry.insecure else "https"
    for name in sorted(upstream_registries(spec) - {host, short}):
        below = f"{registry_path(registry)}{name.replace(':', '_')}"
        found.append(_mirror(name, f"{scheme}://{host}/v2/{below}", own_path=True))
    return [*found, _mirror(host, f"{scheme}://{host}", own_path=False)]


def _mirror(prefix: str, host: str, *, own_path: bool) -> JsonValue:
    """One registry: `server` is the mirror too, so that nothing is asked of upstream."""
    mirror: dict[str, JsonValue] = {"host": host, "capabilities": list[JsonValue](_PULLS)}
    if own_path:
        mirror["override_path"] = True
    return {"prefix": prefix, "server": host, "mirrors": [mirror]}


def server_url(spec: ClusterSpec) -> str:
    """Address of the API for its users: that of the first of the control plane.

    Raises:
        Bug: There is none; the check `control-plane` refuses that before.
    """
    if spec.kubespray is None or not spec.servers:
        raise Bug("a plan of kubespray needs a control-plane host")
    return f"https://{bracketed(spec.servers[0].way.address)}:{spec.kubespray.api_port}"
