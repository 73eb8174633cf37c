"""The request to `railyard device kubespray`: the wanted cluster, and how to reach its nodes.

The request is the stdin of the step, one value a line, which lets a preview show each change; the
state keeps the last cluster in the same form. Together with the site's variables it gives
kubespray's inventory. Names: kubespray v2.31.0, roles/*/defaults and docs/ (sources.md#kubespray).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import yaml
from pydantic import JsonValue

from components.core.record import field, record
from components.core.to_json import to_json
from components.hosts.scripts import proxy_settings
from components.kubernetes.planes.node_files import kubelet_fields, mirrors_of
from components.model.cluster import ClusterSpec
from components.model.owners import toolkit_owner
from components.remote.lines import read_request, render_lines
from components.remote.step import Endpoint

Role = Literal["control_plane", "worker"]
STEP: Final = "kubespray"
"""Name of the step and so of its Pulumi resource: changing it breaks stacks."""
TOOLKIT_DROP_INS: Final = 'imports = ["/etc/containerd/conf.d/*.toml"]'
"""The file in which the GPU operator's toolkit configures its runtime. kubespray rewrites
containerd's file at every run, and without this line the runtime would be lost (kubespray issue
12277)."""
KUBELET: Final = "kubelet_config_extra_args"
"""Fields of a kubelet's file. Each worker has this variable, since the control plane runs no jobs;
kubespray had a separate variable for workers until v2.26 (tests/kubernetes/variables.yaml)."""
LEFT: Final = {"kubelet_node_config_extra_args": ("v2.27.0", KUBELET)}
"""Variables that a release removed, and their replacements: kubespray ignores the old names."""
WORKERS_KUBELET: Final = "railyard_workers_kubelet"
"""Variable that keeps the workers' fields until the inventory is written."""
_KUBELET_FIGHTS: Final = frozenset(
    {KUBELET, "kubelet_cpu_manager_policy", "kubelet_topology_manager_policy"}
    | {"kubelet_topology_manager_scope", "kube_reserved", "system_reserved"}
)
"""Variables that write the same fields, or set a cgroup that a kubelet refuses together with
`reservedSystemCPUs` (kubespray v2.31.0, kubelet-config.v1beta1.yaml.j2; Kubernetes, kubelet's
validation)."""
OF_CONNECTION: Final = frozenset(
    {"ip", "access_ip", "etcd_member_name", "kube_version", "node", "serial", "drain_timeout"}
    | {"skip_confirmation", "reset_confirmation", "reset_restart_network", "reset_nodes"}
    | {"drain_nodes", "upgrade_node_always_cordon", "ansible_host", "ansible_user"}
    | {"credentials_dir", "http_proxy", "https_proxy", "no_proxy", "additional_no_proxy"}
    | {"kube_override_hostname", "etcd_deployment_type", "ignore_assert_errors"}
)
"""Variables that Railyard sets for a node or for one run, or that would disable its checks."""
OWNED_PREFIXES: Final = ("ansible_", "railyard_", "multus_")
_VXLAN_BYTES: Final = 50
_IPIP_BYTES: Final = 20
"""Bytes that IP-in-IP adds to a packet between nodes (kubespray's page on Calico)."""
HOSTS: Final = "hosts.yaml"
VARIABLES: Final = "group_vars/all.yaml"
KNOWN_HOSTS: Final = "known_hosts"
SSH_CONFIG: Final = "ssh_config"
SECRETS: Final = "railyard_secrets"
"""Variable with the folder of this run's private keys; never in a file that remains."""
BECOME: Final = "railyard_become"
"""Variable with the passwords for `sudo`, by node; never in a file that remains."""
_WITHOUT_V: Final = (2, 28)
"""The first kubespray whose `kubelet_checksums` lack the `v` (roles/kubespray_defaults/vars/main;
at v2.27.1 `v1.31.9` is a key, and the URL uses `kube_version` unchanged)."""
_HEAD: Final = "# Written by Railyard from the site file: an edit here stops the next run.\n"


@record
class Node:
    """One node as kubespray knows it."""

    role: Role
    address: str
    """Its own address within the cluster."""


@record
class Wanted:
    """The cluster: its release, its nodes in order, and its settings."""

    release: str
    """Of kubespray."""
    pin: str
    """Checksum or commit of the tree."""
    version: str
    """Release of Kubernetes, with its `v`."""
    nodes: Mapping[str, Node]
    settings: Mapping[str, JsonValue]
    """Variables of all nodes, without the version."""
    order: tuple[str, ...]
    """The names of the control plane: the first node began the cluster."""

    @property
    def made_by(self) -> tuple[str, str]:
        """The release of Kubernetes, and the tree that installs it."""
        return self.version, self.pin

    def of_role(self, role: Role) -> tuple[str, ...]:
        """The names of the nodes of a role: the control plane in its order, others by name.

        A server that joined in a killed run is not in the order yet, and comes last.
        """
        names = sorted(name for name, node in self.nodes.items() if node.role == role)
        known = [name for name in self.order if name in names]
        return (*known, *(name for name in names if name not in known))


@record
class Source:
    """The source of the tree."""

    kind: Literal["path", "archive", "git"]
    place: str


@record
class Request:
    """The request on stdin."""

    stack: str
    wanted: Wanted
    source: Source
    requirements: str
    python: str
    endpoints: Mapping[str, Endpoint]
    """By node: the SSH endpoint for Ansible."""
    max_unavailable: int
    drain_deadline_s: int
    disruption: Literal["allow", "deny"]
    """`disruption.reboots`: whether a worker may be drained."""
    reset: Literal["allow", "deny"]
    repair: str = field(default="")

    def render(self) -> str:
        """The request, one value a line."""
        return render_lines(to_json(self))


def parse_request(text: str) -> Request:
    """Read a request; UsageError names the first fault."""
    return read_request(Request, text, "request to run kubespray")


def owned_settings(spec: ClusterSpec) -> dict[str, JsonValue]:
    """The variables that follow from the site: `extra_vars` cannot change them."""
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
    if plane.alignment is not None:  # only on workers: other nodes run no jobs
        settings[WORKERS_KUBELET] = {**kubelet_fields(plane.alignment)}
    if spec.operators.gpu is not None and toolkit_owner(spec) == "operator":
        settings["containerd_extra_args"] = TOOLKIT_DROP_INS
        settings["nri_enabled"] = True  # the operator's toolkit is a plugin of NRI
    if mirrors := mirrors_of(spec):
        settings["containerd_registries_mirrors"] = [_mirror(*each) for each in mirrors]
    # kubespray adds the nodes to `no_proxy`, Railyard the networks.
    if proxy := proxy_settings(spec):
        settings |= {key: proxy[key] for key in ("http_proxy", "https_proxy")}
        settings["additional_no_proxy"] = proxy["no_proxy"]
    return settings


def pod_overhead_bytes(spec: ClusterSpec) -> int:
    """Bytes that Calico adds to a pod's packet to another node; by default kubespray's is VXLAN."""
    said = spec.kubespray.extra_vars if spec.kubespray else {}
    if said.get("calico_vxlan_mode", "Always") != "Never":
        return _VXLAN_BYTES
    return _IPIP_BYTES if said.get("calico_ipip_mode", "Never") != "Never" else 0


def is_owned_variable(spec: ClusterSpec, variable: str) -> bool:
    """Whether Railyard sets this variable of `extra_vars` itself."""
    own = {*owned_settings(spec), *OF_CONNECTION, "calico_mtu", "containerd_registries_mirrors"}
    if spec.kubespray and spec.kubespray.alignment and variable in _KUBELET_FIGHTS:
        return True
    return variable in own or variable.startswith(OWNED_PREFIXES)


def _mirror(prefix: str, address: str, below: str) -> JsonValue:
    """One registry: `server` is the mirror too, to keep containerd from asking upstream."""
    host = f"{address}/v2/{below}" if below else address
    mirror: dict[str, JsonValue] = {"host": host, "capabilities": ["pull", "resolve"]}
    if below:
        mirror["override_path"] = True
    return {"prefix": prefix, "server": host, "mirrors": [mirror]}


def render_inventory(wanted: Wanted, endpoints: Mapping[str, Endpoint]) -> dict[str, str]:
    """All files of the inventory, by their relative path."""
    names = sorted(wanted.nodes)
    servers = wanted.of_role("control_plane")
    groups = {"kube_control_plane": servers, "etcd": servers, "kube_node": wanted.of_role("worker")}
    hosts: dict[str, JsonValue] = {}
    for name in names:
        node, endpoint = wanted.nodes[name], endpoints[name]
        # The pinned key by the node's name, whatever its address; and the jump hosts.
        ssh = f"-F {{{{ {SECRETS} }}}}/{SSH_CONFIG} -o HostKeyAlias={name}"
        ssh += f" -o IdentitiesOnly={'no' if endpoint.agent else 'yes'}"
        if endpoint.jump:
            ssh += f" -o ProxyJump={','.join(hop.device for hop in endpoint.jump)}"
        found: dict[str, JsonValue] = {
            "ansible_host": endpoint.address,
            "ansible_port": endpoint.port,
            "ansible_user": endpoint.user,
            "ansible_ssh_common_args": ssh,
            "ip": node.address,
            "access_ip": node.address,
        }
        if node.role == "control_plane":
            found["etcd_member_name"] = name
        elif WORKERS_KUBELET in wanted.settings:
            found[KUBELET] = wanted.settings[WORKERS_KUBELET]
        if endpoint.private_key_secret is not None:
            found["ansible_ssh_private_key_file"] = f"{{{{ {SECRETS} }}}}/{name}"
        if endpoint.sudo_secret is not None:
            found["ansible_become_password"] = f"{{{{ {BECOME}[inventory_hostname] }}}}"
        hosts[name] = found
    children = {
        group: {"hosts": {name: dict[str, str]() for name in members}}
        for group, members in groups.items()
    }
    inventory = {"all": {"hosts": hosts, "children": children}}
    version = wanted.version
    if tuple(map(int, wanted.release.removeprefix("v").split(".")[:2])) >= _WITHOUT_V:
        version = version.removeprefix("v")
    variables = {**wanted.settings, "kube_version": version}
    variables.pop(WORKERS_KUBELET, None)
    return {HOSTS: _render(inventory), VARIABLES: _render(dict(sorted(variables.items())))}


def render_ssh_config(ends: Iterable[Endpoint], folder: str) -> str:
    """`ssh_config(5)`: the pinned keys, and each jump host by its name."""
    hops = {hop.device: hop for end in ends for hop in end.jump}
    lines: list[str] = []
    for name, hop in sorted(hops.items()):
        lines += [f"Host {name}", f"  HostName {hop.address}", f"  Port {hop.port}"]
        lines += [f"  User {hop.user}", f"  HostKeyAlias {name}"]
        if hop.private_key_secret is not None:
            lines += [f"  IdentityFile {folder}/{name}", "  IdentitiesOnly yes"]
    lines += ["Host *", f"  UserKnownHostsFile {folder}/{KNOWN_HOSTS}"]
    lines += ["  GlobalKnownHostsFile /dev/null", "  StrictHostKeyChecking yes"]
    lines += ["  UpdateHostKeys no", "  BatchMode yes"]
    return "".join(f"{line}\n" for line in lines)


def _render(value: Mapping[str, object]) -> str:
    # Not sorted: the first node of a group began the cluster, and new nodes follow it.
    return _HEAD + yaml.safe_dump(dict(value), sort_keys=False, width=1000)
