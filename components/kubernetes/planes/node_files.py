"""The tool of the Kubernetes room, and files of nodes as lines of a step's stdin.

The files configure the NUMA policies of workers' kubelets, and the registries of a node's
containerd. Sources: Kubernetes' documentation, "Control CPU Management Policies on the Node" and
"Control Topology Management Policies on a node"; the state with which kubelet refuses to start, in
its source (pkg/kubelet/cm/cpumanager). `/etc/rancher/k3s/registries.yaml`: K3s' documentation,
"Private Registry Configuration" (sources.md#k3s).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from string import Template
from typing import Final, cast

from components.artefacts.listing import artefacts_of
from components.artefacts.naming import parse_image, registry_host, registry_path
from components.core.errors import Bug
from components.core.key_values import HostState
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.jobs import DOCKER_HUB
from components.model.kubernetes import Alignment
from components.remote.endpoint import host_endpoint
from components.remote.step import RemoteStep
from components.remote.tools import Tool, ToolCall, assemble, linux_text

ACCESS_DEADLINE_S: Final = 60.0
READS: Final = "it only reads"
_BALANCER: Final = ("service", "haproxy_reading")
_FILTER: Final = ("service", "api_filter_reading")
_MOVER: Final = ("service", "keepalived_reading", "keepalived_others")
PARTS: Final[dict[str, tuple[str, ...]]] = {
    "api_filter": (*_FILTER, "api_filter"),
    "api_filter_observe": (*_FILTER, "api_filter_observe"),
    "api_filter_undo": (*_FILTER, "api_filter_undo"),
    "k3s_access": ("k3s_access",),
    "k3s_ca": ("k3s_ca",),
    "k3s_install": ("registry", "k3s_install"),
    "k3s_node": ("member", "k3s_node"),
    "k3s_node_undo": ("member", "k3s_node_undo"),
    "k3s_observe": ("registry", "k3s_observe"),
    "k3s_registry": ("registry", "k3s_registry"),
    "k3s_registry_undo": ("registry", "k3s_registry_undo"),
    "k3s_removal": ("member", "k3s_removal"),
    "k3s_token": ("k3s_token",),
    "k3s_token_undo": ("k3s_token_undo",),
    "k3s_undo": ("k3s_undo",),
    "kubespray_access": ("kubespray_access",),
    "haproxy": (*_BALANCER, "service_change", "haproxy"),
    "haproxy_observe": (*_BALANCER, "service_observe"),
    "haproxy_undo": (*_BALANCER, "service_undo"),
    "keepalived": (*_MOVER, "service_change", "keepalived"),
    "keepalived_observe": (*_MOVER, "keepalived_observe"),
    "keepalived_undo": ("service", "keepalived_reading", "service_undo"),
}
"""Verb to the files of `scripts/` that form it, in order."""
FIELDS: Final[Mapping[str, str]] = {
    "cpu-manager-policy": "cpuManagerPolicy",
    "reserved-cpus": "reservedSystemCPUs",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
}
"""kubelet's argument to the field of its file."""
ARGUMENT: Final = "kubelet-arg: "
"""Prefix of a line in K3s' config.yaml."""
CA_FILE: Final = "registry-ca.crt"
PASSWORD_MARK: Final = "@registry-password@"  # noqa: S105 - the place of a secret, not one
"""`scripts/registry.sh` replaces it with the password."""
_PLAIN: Final = re.compile(r"[a-z_]+")
_UPSTREAM: Final = (DOCKER_HUB, "ghcr.io", "nvcr.io", "quay.io", "registry.k8s.io")
"""Registries in charts or in K3s itself: their images come from the site's registry too."""


@cache
def _file(name: str) -> str:
    return resources.files("components.kubernetes").joinpath("scripts", name).read_text("utf-8")


def script_text(name: str) -> str:
    """One script of `scripts/`, by its name without `.sh`."""
    return _file(f"{name}.sh")


def file_text(name: str, /, **words: object) -> str:
    """One file of `scripts/`; with `$words` filled in, lines that become empty are left out."""
    if not words:
        return _file(name)
    lines = Template(_file(name)).substitute(words).splitlines()
    return "".join(f"{line}\n" for line in lines if line)


@cache
def kubernetes_tool() -> Tool:
    """All scripts that install, read and remove Kubernetes and the balancer on a host."""
    verbs = {verb: "".join(map(script_text, parts)) for verb, parts in PARTS.items()}
    return assemble("kubernetes", (linux_text(), script_text("input")), verbs)


def kubernetes_call(verb: str, *arguments: str) -> ToolCall:
    """One verb of the tool of this room, with its `key=value` words."""
    if verb not in PARTS:
        raise Bug(f"the tool of Kubernetes has no verb {verb}")
    return ToolCall(kubernetes_tool(), verb, arguments)


def script_step(
    host: Host,
    suffix: str,
    stdin: Mapping[str, str],
    apply: ToolCall,
    undo: ToolCall | str,
    deadline_s: float,
) -> RemoteStep:
    """A step on a host, named after it; `undo` is the call for `destroy`, or why there is none."""
    return RemoteStep(
        name=f"{host.name}{suffix}",
        endpoint=host_endpoint(host),
        dialect="sh",
        desired=HostState({**stdin}).render(),
        apply=apply,
        undo=None if isinstance(undo, str) else undo,
        why_no_undo=undo if isinstance(undo, str) else None,
        deadline_s=deadline_s,
    )


def access_step(spec: ClusterSpec, server_url: str, verb: str) -> RemoteStep:
    """Read the administrator's kubeconfig from the first server."""
    stdin = {"cluster": spec.name, "server": server_url}
    call = kubernetes_call(verb)
    step = script_step(spec.servers[0], "-cluster-access", stdin, call, READS, ACCESS_DEADLINE_S)
    return replace(step, secret_stdout=True)


def numbered_lines(file: str, text: str) -> dict[str, str]:
    """A file as lines of a step's stdin, which a preview then shows line by line.

    The number of lines is included: then an added line at the end is drift too.
    """
    lines = text.splitlines()
    numbered = {f"{file}.{number:02}": line for number, line in enumerate(lines, 1)}
    return {**numbered, f"{file}.lines": str(len(lines))}


def _kubelet_values(alignment: Alignment) -> dict[str, str]:
    """Argument to value."""
    values = "static", alignment.reserved_cpus, alignment.policy, alignment.scope
    return dict(zip(FIELDS, values, strict=True))


def kubelet_fields(alignment: Alignment) -> dict[str, str]:
    """The NUMA settings as fields of kubelet's own file."""
    return {FIELDS[key]: value for key, value in _kubelet_values(alignment).items()}


def kubelet_arguments(spec: ClusterSpec, host: Host) -> tuple[str, ...]:
    """The arguments of one node's kubelet; empty except on workers."""
    alignment = spec.kubernetes.alignment if spec.kubernetes else None
    if alignment is None or host.role != "worker":
        return ()
    return tuple(f"{key}={value}" for key, value in _kubelet_values(alignment).items())


def arguments_in(lines: Mapping[str, str]) -> str:
    """The kubelet arguments in the lines of an install step, in words; possibly empty."""
    found = (text.removeprefix(ARGUMENT) for text in lines.values() if text.startswith(ARGUMENT))
    return " ".join(part.strip('" ') for part in next(found, "").strip("[]").split(", "))


def site_arguments(arguments: tuple[str, ...]) -> str:
    """The kubelet arguments that the site sets, in words and in its order."""
    given = dict(each.split("=", 1) for each in arguments if "=" in each)
    return " ".join(f"{key}={given[key]}" for key in FIELDS if key in given)


def render_registries(spec: ClusterSpec) -> str:
    """The registries file of every node; empty if all registries are upstream's."""
    mirrors = {
        name: {"endpoint": [address], **({"rewrite": {"^(.*)$": f"{below}/$1"}} if below else {})}
        for name, address, below in mirrors_of(spec)
    }
    found: dict[str, object] = {"mirrors": mirrors} if mirrors else {}
    config: dict[str, object] = {}
    if (registry := spec.sources.registry) is not None:
        if registry.login is not None:
            config["auth"] = {"username": registry.login.user, "password": PASSWORD_MARK}
        if registry.ca is not None:
            config["tls"] = {"ca_file": f"/etc/rancher/k3s/{CA_FILE}"}
        found |= {"configs": {registry_host(registry): config}} if config else {}
    return "".join(f"{line}\n" for line in _lines(found))


def mirrors_of(spec: ClusterSpec) -> list[tuple[str, str, str]]:
    """Each registry with a mirror: its name, the address of the mirror, and the path below it."""
    plane, registry = spec.k3s or spec.kubespray, spec.sources.registry
    short = plane.registry_mirror if plane else None
    found = [] if short is None else [(short, f"http://{short}", "")]
    if registry is None:
        return found
    host = registry_host(registry)
    address = f"{'http' if registry.insecure else 'https'}://{host}"
    images = (each.address for each in artefacts_of(spec) if each.kind == "image")
    named = {parse_image(image).registry for image in images}
    upstream = sorted({*_UPSTREAM, *named} - {host, short})
    below = registry_path(registry)
    found += [(name, address, f"{below}{name.replace(':', '_')}") for name in upstream]
    return [*found, (host, address, "")]


def _lines(value: object) -> Iterator[str]:
    """Every text in double quotes, which YAML 1.1 and 1.2 read alike; keys only if necessary."""
    if isinstance(value, Mapping):
        for key, item in sorted(cast("Mapping[str, object]", value).items()):
            name = key if _PLAIN.fullmatch(key) else json.dumps(key)
            if isinstance(item, str):
                yield f"{name}: {json.dumps(item)}"
            else:
                yield f"{name}:"
                yield from (f"  {line}" for line in _lines(item))
    else:
        for item in cast("list[object]", value):
            yield f"- {json.dumps(item)}"
