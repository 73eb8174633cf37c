"""K3s: servers with embedded etcd, and agents, from a pinned binary and install script.

Sources: K3s' documentation and install script (docs/explanation/sources.md#k3s).
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

from components.errors import Bug
from components.hosts.endpoint import host_endpoint
from components.hosts.state import HostState
from components.kubernetes.planes.base import KubernetesPlan
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.kubernetes import Kubernetes
from components.remote.step import RemoteStep

TOKEN_FILE: Final = "/etc/rancher/k3s/token"  # noqa: S105 - the place of a secret, not one
DEFAULT_API_PORT: Final = 6443
TOKEN_DEADLINE_S: Final = 60.0
INSTALL_DEADLINE_S: Final = 600.0
"""Seconds: a download, a first start, and 300 s in the script for the node to be Ready."""
ACCESS_DEADLINE_S: Final = 60.0
DISABLED: Final = ("servicelb", "traefik")
"""K3s' own load balancer and ingress: a training cluster uses neither, and both open host ports."""


class K3s:
    """K3s on the hosts of the site."""

    def plan(self, spec: ClusterSpec, stack: str) -> KubernetesPlan:
        """Plan all nodes.

        Raises:
            Bug: There is no control-plane host; the check `no-control-plane` refuses that before.
        """
        if not spec.servers:
            raise Bug("a K3s plan needs a control-plane host")
        first = spec.servers[0]
        nodes = (*spec.servers, *spec.workers)
        return KubernetesPlan(
            plane="k3s",
            cluster=spec.name,
            server_url=server_url(spec),
            tokens=tuple(_token_step(spec.kubernetes, host) for host in nodes),
            servers=tuple(_install_step(spec, host, stack) for host in spec.servers),
            agents=tuple(_install_step(spec, host, stack) for host in spec.workers),
            access=RemoteStep(
                name=f"{first.name}-cluster-access",
                endpoint=host_endpoint(first),
                dialect="sh",
                desired=HostState({"cluster": spec.name, "server": server_url(spec)}).render(),
                apply=_script("k3s_access"),
                why_no_undo="it only reads",
                deadline_s=ACCESS_DEADLINE_S,
                secret_stdout=True,
            ),
        )


def server_url(spec: ClusterSpec) -> str:
    """Address of the API: the first server's."""
    return f"https://{spec.servers[0].address}:{spec.kubernetes.api_port}"


@cache
def _script(name: str) -> str:
    folder = resources.files("components.kubernetes")
    return folder.joinpath("scripts", f"{name}.sh").read_text("utf-8")


def _token_step(kubernetes: Kubernetes, host: Host) -> RemoteStep:
    return RemoteStep(
        name=f"{host.name}-k3s-token",
        endpoint=host_endpoint(host),
        dialect="sh",
        desired="",
        apply=_script("k3s_token"),
        undo=_script("k3s_token_undo"),
        deadline_s=TOKEN_DEADLINE_S,
        secret_stdin=kubernetes.token.secret,
    )


def _install_step(spec: ClusterSpec, host: Host, stack: str) -> RemoteStep:
    kubernetes = spec.kubernetes
    source = kubernetes.source
    lines = {
        "role": "server" if host.role == "control_plane" else "agent",
        "node": host.name,
        "stack": stack,
        "version": kubernetes.version,
        "binary": source.binary,
        "binary_sha256": source.binary_sha256,
        "install_script": source.install_script,
        "install_script_sha256": source.install_script_sha256,
    }
    lines |= _numbered("config.yaml", render_config(spec, host))
    lines |= _numbered("registries.yaml", render_registries(kubernetes.registry_mirror))
    return RemoteStep(
        name=f"{host.name}-k3s",
        endpoint=host_endpoint(host),
        dialect="sh",
        desired=HostState(lines).render(),
        apply=_script("k3s_install"),
        undo=_script("k3s_undo"),
        deadline_s=INSTALL_DEADLINE_S,
    )


def _numbered(file: str, text: str) -> dict[str, str]:
    """A file as lines of the step's stdin, which a preview then shows line by line."""
    return {f"{file}.{number:02}": line for number, line in enumerate(text.splitlines(), 1)}


def render_config(spec: ClusterSpec, host: Host) -> str:
    """`/etc/rancher/k3s/config.yaml` of one node, keys sorted."""
    lines = {
        "node-ip": f'"{host.address}"',
        "node-name": f'"{host.name}"',
        "token-file": f'"{TOKEN_FILE}"',
    }
    if host.role == "control_plane":
        lines |= _server_lines(spec, host)
    if host.gpus and _runtime_is_on_host(spec):
        lines["default-runtime"] = "nvidia"  # else pods get runc, which shows them no GPU
    if spec.servers[0] != host:
        lines["server"] = f'"{server_url(spec)}"'
    return "".join(f"{key}: {value}\n" for key, value in sorted(lines.items()))


def _server_lines(spec: ClusterSpec, host: Host) -> dict[str, str]:
    kubernetes = spec.kubernetes
    names = sorted({address for server in spec.servers for address in _names(server)})
    lines = {
        "cluster-cidr": f'"{kubernetes.pod_cidr}"',
        "disable": "[" + ", ".join(DISABLED) + "]",
        "service-cidr": f'"{kubernetes.service_cidr}"',
        "tls-san": "[" + ", ".join(f'"{name}"' for name in names) + "]",
        "write-kubeconfig-mode": '"0600"',
    }
    if spec.servers[0] == host:
        lines["cluster-init"] = "true"  # etcd from the start: servers can join later
    if kubernetes.api_port != DEFAULT_API_PORT:
        lines["https-listen-port"] = str(kubernetes.api_port)
    return lines


def _runtime_is_on_host(spec: ClusterSpec) -> bool:
    """K3s finds NVIDIA's container runtime at its start only where the host brings it."""
    return spec.operators.gpu is not None and spec.operators.gpu.driver == "host"


def _names(host: Host) -> tuple[str, ...]:
    return (host.name, host.address, host.ssh.address)


def render_registries(mirror: str | None) -> str:
    """`/etc/rancher/k3s/registries.yaml`: the site's registry, over plain HTTP; else empty."""
    if mirror is None:
        return ""
    return f'mirrors:\n  "{mirror}":\n    endpoint:\n      - "http://{mirror}"\n'
