"""The plan of the control plane: kubespray's one step, or the steps of another plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from components.core.errors import Bug
from components.core.key_values import HostState
from components.kubernetes.kubespray.wanted import (
    STEP,
    Node,
    Request,
    Source,
    Wanted,
    cluster_settings,
    server_url,
)
from components.kubernetes.manifest import registry_account
from components.kubernetes.planes.base import ExistingAccess, KubernetesPlan, Playbooks
from components.kubernetes.planes.k3s import plan_k3s
from components.kubernetes.planes.node_files import kubernetes_call
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane, KubespraySource
from components.remote.endpoint import host_endpoint
from components.remote.step import RemoteStep

DEADLINE_S: float = 86_400.0
"""Seconds, only printed: users report 15 minutes to 10 hours, and Railyard does not end a longer
run (facts of kubespray's issues 478 and 5954 in sources.md#kubespray)."""
ACCESS_DEADLINE_S: float = 60.0


def plan_kubespray(spec: ClusterSpec, stack: str) -> KubernetesPlan:
    """Plan the one step of kubespray for all nodes."""
    plane = spec.kubespray
    if plane is None or not spec.servers:
        raise Bug("a plan of kubespray needs a control-plane host")
    first = spec.servers[0]
    request = plan_request(spec, stack)
    step = RemoteStep(
        name=STEP,
        endpoint=host_endpoint(first),
        dialect="device",
        desired=request.render(),
        apply="device kubespray",
        undo="device kubespray-reset",
        deadline_s=DEADLINE_S,
    )
    url = server_url(spec)
    return KubernetesPlan(
        plane="kubespray",
        cluster=spec.name,
        server_url=url,
        version=plane.version,
        tokens=(),
        servers=(),
        agents=(),
        access=_access(spec, url),
        registry=registry_account(spec),
        playbooks=Playbooks(step, tuple(request.endpoints.values())),
    )


def _access(spec: ClusterSpec, url: str) -> RemoteStep:
    first = spec.servers[0]
    return RemoteStep(
        name=f"{first.name}-cluster-access",
        endpoint=host_endpoint(first),
        dialect="sh",
        desired=HostState({"cluster": spec.name, "server": url}).render(),
        apply=kubernetes_call("kubespray_access"),
        why_no_undo="it only reads",
        secret_stdout=True,
        deadline_s=ACCESS_DEADLINE_S,
    )


def plan_request(spec: ClusterSpec, stack: str) -> Request:
    """Plan the request of the step."""
    plane = spec.kubespray
    if plane is None:
        raise Bug("a request to kubespray is asked for on a site without it")
    hosts = [*spec.servers, *spec.workers]
    wanted = Wanted(
        release=plane.source.release,
        pin=plane.source.pin,
        version=plane.version,
        nodes={
            host.node: Node(
                "control_plane" if host.role == "control_plane" else "worker", host.address
            )
            for host in hosts
        },
        settings=cluster_settings(spec),
        order=tuple(host.node for host in spec.servers),
    )
    return Request(
        stack=stack,
        wanted=wanted,
        source=_source(plane.source),
        requirements=plane.requirements,
        python=plane.python,
        # kubespray's inventory, keys and known hosts all use the name of the node.
        endpoints={host.node: replace(host_endpoint(host), device=host.node) for host in hosts},
        max_unavailable=spec.disruption.max_unavailable,
        drain_deadline_s=spec.disruption.drain_deadline_s,
        disruption=spec.disruption.reboots,
        reset=plane.reset,
    )


def _source(source: KubespraySource) -> Source:
    if source.path is not None:
        return Source("path", source.path)
    if source.archive is not None:
        return Source("archive", source.archive)
    return Source("git", source.git or "")


def plan_existing(spec: ClusterSpec, stack: str) -> KubernetesPlan:
    """Plan access to an existing cluster by its secret kubeconfig, without a step."""
    del stack
    plane = spec.kubernetes
    if not isinstance(plane, ExistingPlane):
        raise Bug("a plan of an existing cluster needs kubernetes.plane: existing")
    return KubernetesPlan(
        plane="existing",
        cluster=spec.name,
        server_url="",
        version=plane.version,
        tokens=(),
        servers=(),
        agents=(),
        access=None,
        registry=registry_account(spec),
        existing=ExistingAccess(plane.kubeconfig.name, plane.context),
    )


PLANES: Final[Mapping[str, Callable[[ClusterSpec, str], KubernetesPlan]]] = {
    "existing": plan_existing,
    "k3s": plan_k3s,
    "kubespray": plan_kubespray,
}
"""`kubernetes.plane` to its planner."""


def plan_kubernetes(spec: ClusterSpec, stack: str | None = None) -> KubernetesPlan | None:
    """Plan the control plane of the site; None for a site without Kubernetes.

    `stack` names the folder on the hosts that records what this stack installed; by default it is
    the cluster's name.
    """
    if spec.kubernetes is None:
        return None
    return PLANES[spec.kubernetes.plane](spec, stack or spec.name)
