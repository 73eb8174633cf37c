"""K3s: servers with embedded etcd, and agents, from a pinned binary and install script.

K3s keeps a node's password and its etcd member after the machine is gone: it refuses a new machine
of that name, and the dead member counts for the quorum. So, with several servers, a running one
forgets the old machine before the new one joins; and the first server removes each node before its
machine is uninstalled.

Sources: K3s' documentation and install script (lab/sources.md#k3s).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from components.artefacts.listing import k3s_key
from components.artefacts.resolve import UNPINNED, k3s_source
from components.core.errors import Bug
from components.core.key_values import HostState
from components.core.plain_text import placeholder
from components.drift.device_drift import Watched
from components.hosts.scripts import proxy_file, through_proxy
from components.kubernetes.manifest import registry_account
from components.kubernetes.planes import base, node_files
from components.kubernetes.planes.balancers import ca_step, plan_balancers, plan_filters
from components.kubernetes.planes.node_files import kubernetes_call, numbered_lines, script_step
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import K3sPlane
from components.model.owners import toolkit_owner
from components.remote.endpoint import host_endpoint
from components.remote.step import RemoteStep

TOKEN_FILE: Final = "/etc/rancher/k3s/token"  # noqa: S105 - the place of a secret, not one
AGENT_TOKEN_FILE: Final = "/etc/rancher/k3s/agent-token"  # noqa: S105 - the same
TOKEN_DEADLINE_S: Final = 60.0
RESTART_DEADLINE_S: Final = 240.0
"""Seconds for K3s to start again with a new password."""
INSTALL_DEADLINE_S: Final = 600.0
"""Seconds: a download, a first start, and 300 s in the script for the node to be Ready."""
ALLOWS_RESET: Final = "\nreset=allow\n"
"""In a server's last stdin if its uninstall may delete etcd; without it, the uninstall refuses."""
_PARAMETERS: Final = frozenset(
    {"node", "version", "binary", "install_script", "install_script_sha256"}
    | {"api_port", "peers", "cluster", "images", "images_sha256", "reset"}
    | {"selinux_policy", "selinux_policy_sha256"}
)
"""Stdin lines that do not set up the node itself: the source of K3s, and the server to join."""
DISABLED: Final = ("servicelb", "traefik")
"""K3s' own load balancer and ingress: a training cluster uses neither, and both open host ports."""
REMOVAL_DEADLINE_S: Final = 420.0
"""Seconds: 60 for the API, 120 until a lost node counts as lost, 180 for its etcd member."""
NODE_DEADLINE_S: Final = 420.0
"""Seconds: 300 until the node is Ready; to take it out, 120 to drain and 180 for its member."""
FOUND_CLUSTER: Final = placeholder("cluster-found", "state")
"""Placeholder in the first server's stdin for the earlier step's result: `none` or `running`."""
CLUSTER_FOUND: Final = "cluster-found"


def plan_k3s(spec: ClusterSpec, stack: str) -> base.KubernetesPlan:
    """Plan all nodes of K3s on the hosts of the site."""
    if not spec.servers:
        raise Bug("a K3s plan needs a control-plane host")
    plane, several, account = k3s_plane(spec), len(spec.servers) > 1, registry_account(spec)
    nodes, of_agents = (*spec.servers, *spec.workers), plane.agent_token
    servers = tuple(_install_step(spec, host, stack) for host in spec.servers)
    agents = tuple(_install_step(spec, host, stack) for host in spec.workers)
    # Of each node its files, its binary and its service.
    observe, own = kubernetes_call("k3s_observe"), HostState({})
    watched = (
        Watched(f"{each.endpoint.device} k3s", each, own, observe, _PARAMETERS)
        for each in (*servers, *agents)
    )
    # Workers never get the servers' token if agents have a separate one.
    tokens = {"control_plane": plane.token.name, "worker": (of_agents or plane.token).name}
    return base.KubernetesPlan(
        plane="k3s",
        cluster=spec.name,
        server_url=server_url(spec),
        version=plane.version,
        tokens=tuple(
            _secret_step(host, base.TOKEN_SUFFIX, "k3s_token", tokens[host.role]) for host in nodes
        ),
        agent_tokens=tuple(
            _secret_step(host, base.AGENT_TOKEN_SUFFIX, "k3s_token", of_agents.name, "kind=agent")
            for host in spec.servers
            if of_agents
        ),
        filters=plan_filters(spec, plane, stack),
        servers=servers,
        agents=agents,
        access=node_files.access_step(spec, server_url(spec), "k3s_access"),
        # The registry's password on each node, in a separate file.
        logins=tuple(
            _secret_step(host, base.LOGIN_SUFFIX, "k3s_registry", account.secret)
            for host in nodes
            if account
        ),
        registry=account,
        removals=tuple(_removal(spec, host, stack) for host in nodes) if several else (),
        # An only server gets no step: it is uninstalled last, and the cluster with it.
        nodes=tuple(_node(spec, host, stack) for host in (nodes if several else spec.workers)),
        ca=ca_step(spec) if spec.balancers else None,
        balancers=plan_balancers(spec, plane, stack),
        watched_nodes=tuple(replace(it, desired=it.settings_in(it.step.desired)) for it in watched),
    )


def k3s_plane(spec: ClusterSpec) -> K3sPlane:
    """The K3s part of a K3s site."""
    if spec.k3s is None:
        raise Bug("a K3s plan needs kubernetes.plane: k3s")
    return spec.k3s


def server_url(spec: ClusterSpec) -> str:
    """Address of the API for users: of two balancers, the one's SSH address, else a server's."""
    plane = k3s_plane(spec)
    if plane.virtual_address is not None:
        address = str(plane.virtual_address.address)
    else:
        address = spec.balancers[0].way.address if spec.balancers else spec.servers[0].address
    return f"https://{address}:{plane.api_port}"


def join_url(spec: ClusterSpec, host: Host) -> str:
    """The URL at which a node joins: for an agent the balancers', for a server the first server's.

    A server never joins through a balancer, which could send it back to itself.
    """
    plane = k3s_plane(spec)
    through = spec.balancers if host.role == "worker" else ()
    address = (*through, spec.servers[0])[0].address
    if through and plane.virtual_address is not None:
        address = str(plane.virtual_address.address)
    return f"https://{address}:{plane.api_port}"


def _secret_step(host: Host, suffix: str, verb: str, secret: str, *words: str) -> RemoteStep:
    """A step whose stdin is only a secret; the verb and its undo write and remove its file."""
    calls = kubernetes_call(verb, *words), kubernetes_call(f"{verb}_undo", *words)
    deadline_s = TOKEN_DEADLINE_S + (RESTART_DEADLINE_S if suffix == base.LOGIN_SUFFIX else 0)
    return replace(script_step(host, suffix, {}, *calls, deadline_s), secret_stdin=secret)


def _install_step(spec: ClusterSpec, host: Host, stack: str) -> RemoteStep:
    kubernetes, serves = k3s_plane(spec), host.role == "control_plane"
    lines = {"role": "server" if serves else "agent", "node": host.node, "stack": stack}
    lines["version"] = kubernetes.version
    # The files of K3s for the node's processor, each with its checksum.
    source, architecture = k3s_source(spec), spec.settings_of(host).architecture
    keys = {each: each for each in ("install_script", "selinux_policy")}
    keys |= {each: k3s_key(each, architecture) for each in ("binary", "images")}
    for line, key in keys.items():
        place: str | None = getattr(source, key)
        checksum: str | None = getattr(source, f"{key}_sha256")
        if place is not None:
            lines |= {line: place, f"{line}_sha256": checksum or UNPINNED}
    if serves and len(spec.servers) > 1:
        others = [each.address for each in spec.servers if each != host]
        lines |= {"api_port": str(kubernetes.api_port), "peers": " ".join(others)}
        lines["cluster"] = FOUND_CLUSTER if host == spec.servers[0] else "running"
    secrets = ["token", *(["agent-token"] if serves and kubernetes.agent_token else [])]
    secrets += ["registry-password"] if registry_account(spec) else []
    lines |= {f"{base.SECRETS}.{name}": "kept" for name in secrets}
    if serves and kubernetes.reset == "allow":
        lines["reset"] = "allow"
    lines["k3s.service" if serves else "k3s-agent.service"] = "enabled/active"
    lines |= numbered_lines("config.yaml", render_config(spec, host))
    lines |= numbered_lines("registries.yaml", node_files.render_registries(spec))
    if (registry := spec.sources.registry) is not None and registry.ca is not None:
        lines |= numbered_lines(node_files.CA_FILE, registry.ca.strip())
    lines |= numbered_lines("proxy.env", proxy_file(spec))
    apply = through_proxy(spec, kubernetes_call("k3s_install"))
    return script_step(host, "-k3s", lines, apply, kubernetes_call("k3s_undo"), INSTALL_DEADLINE_S)


def render_config(spec: ClusterSpec, host: Host) -> str:
    """`/etc/rancher/k3s/config.yaml` of one node, keys sorted."""
    lines = {"node-ip": f'"{host.address}"', "node-name": f'"{host.node}"'}
    lines["token-file"] = f'"{TOKEN_FILE}"'
    if spec.sources.registry is not None:
        lines["disable-default-registry-endpoint"] = "true"  # never pull an image from elsewhere
    if host.role == "control_plane":
        lines |= _server_lines(spec, host)
    wanted = spec.operators.gpu is not None or spec.operators.gpu_device_plugin is not None
    if k3s_plane(spec).container_runtime == "docker":
        lines["docker"] = "true"  # the hosts' docker has its own default runtime
    elif host.gpus and wanted and toolkit_owner(spec) != "operator":
        # K3s finds NVIDIA's runtime when it starts; without it pods get runc, and see no GPU.
        lines["default-runtime"] = "nvidia"
    if arguments := node_files.kubelet_arguments(spec, host):
        lines["kubelet-arg"] = "[" + ", ".join(f'"{each}"' for each in arguments) + "]"
    if spec.servers[0] != host:
        lines["server"] = f'"{join_url(spec, host)}"'
    return "".join(f"{key}: {value}\n" for key, value in sorted(lines.items()))


def _server_lines(spec: ClusterSpec, host: Host) -> dict[str, str]:
    kubernetes = k3s_plane(spec)
    shared = kubernetes.virtual_address
    names = {str(shared.address)} if shared else set[str]()
    for end in (*spec.servers, *spec.balancers):
        names |= {end.name, end.address, end.way.address}
    lines = {
        "cluster-cidr": f'"{kubernetes.pod_cidr}"',
        "disable": "[" + ", ".join(DISABLED) + "]",
        "service-cidr": f'"{kubernetes.service_cidr}"',
        "tls-san": "[" + ", ".join(f'"{name}"' for name in sorted(names)) + "]",
        "write-kubeconfig-mode": '"0600"',
    }
    if spec.servers[0] == host:
        lines["cluster-init"] = "true"  # etcd from the start: servers can join later
    if (snapshots := kubernetes.snapshots) is not None:
        lines["etcd-snapshot-schedule-cron"] = f'"{snapshots.schedule}"'
        lines["etcd-snapshot-retention"] = str(snapshots.keep)
        if snapshots.folder is not None:
            lines["etcd-snapshot-dir"] = f'"{snapshots.folder}"'
    if kubernetes.agent_token is not None:
        lines["agent-token-file"] = f'"{AGENT_TOKEN_FILE}"'
    if kubernetes.secrets_encryption:
        lines["secrets-encryption"] = "true"
    if kubernetes.api_port != base.DEFAULT_API_PORT:
        lines["https-listen-port"] = str(kubernetes.api_port)
    return lines


def _removal(spec: ClusterSpec, host: Host, stack: str) -> RemoteStep:
    """Forget the earlier machine of a node's name; the host key in stdin makes it run again."""
    first, second = spec.servers[:2]
    call, why = kubernetes_call("k3s_removal"), "it forgets only a machine that no longer exists"
    stdin = _machine(host, stack)
    step = script_step(host, base.REMOVAL_SUFFIX, stdin, call, why, REMOVAL_DEADLINE_S)
    return replace(step, endpoint=host_endpoint(second if host == first else first))


def _node(spec: ClusterSpec, host: Host, stack: str) -> RemoteStep:
    """Wait for a node; the undo removes it from the cluster."""
    first, call = spec.servers[0], kubernetes_call("k3s_node")
    last = "the first server goes last, and the cluster with it"
    undo = last if host == first else kubernetes_call("k3s_node_undo")
    step = script_step(host, base.NODE_SUFFIX, _machine(host, stack), call, undo, NODE_DEADLINE_S)
    return replace(step, endpoint=host_endpoint(first))


def _machine(host: Host, stack: str) -> dict[str, str]:
    if not host.way.host_key:
        raise Bug(f"{host.name} lacks a host key, which the check host-key refuses")
    role = "server" if host.role == "control_plane" else "agent"
    return {"machine": host.way.host_key, "node": host.node, "role": role, "stack": stack}
