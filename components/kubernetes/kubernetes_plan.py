"""The plan of the control plane: kubespray's one step, or the steps of another plane."""

from __future__ import annotations

from dataclasses import replace

from components.core.errors import Bug
from components.kubernetes.kubespray import wanted as kubespray
from components.kubernetes.manifest import registry_account
from components.kubernetes.planes.base import ExistingAccess, KubernetesPlan, Playbooks
from components.kubernetes.planes.k3s import plan_k3s
from components.kubernetes.planes.node_files import access_step
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane
from components.remote.endpoint import host_endpoint
from components.remote.step import RemoteStep, bracketed

DEADLINE_S: float = 86_400.0
"""Seconds, only printed: users report 15 minutes to 10 hours, and Railyard does not end a longer
run (facts of kubespray's issues 478 and 5954 in sources.md#kubespray)."""


def plan_kubespray(spec: ClusterSpec, stack: str) -> KubernetesPlan:
    """Plan the one step of kubespray for all nodes."""
    plane = spec.kubespray
    if plane is None or not spec.servers:
        raise Bug("a plan of kubespray needs a control-plane host")
    first = spec.servers[0]
    request = plan_request(spec, stack)
    step = RemoteStep(
        name=kubespray.STEP,
        endpoint=host_endpoint(first),
        dialect="device",
        desired=request.render(),
        apply="device kubespray",
        undo="device kubespray-reset",
        deadline_s=DEADLINE_S,
    )
    # Users reach the API at the first control-plane node.
    url = f"https://{bracketed(first.way.address)}:{plane.api_port}"
    return KubernetesPlan(
        plane="kubespray",
        cluster=spec.name,
        server_url=url,
        version=plane.version,
        access=access_step(spec, url, "kubespray_access"),
        registry=registry_account(spec),
        playbooks=Playbooks(step, tuple(request.endpoints.values())),
    )


def plan_request(spec: ClusterSpec, stack: str) -> kubespray.Request:
    """Plan the request of the step."""
    plane = spec.kubespray
    if plane is None:
        raise Bug("a request to kubespray is asked for on a site without it")
    tree = plane.source
    source = kubespray.Source("git", tree.git or "")
    if tree.path is not None:
        source = kubespray.Source("path", tree.path)
    elif tree.archive is not None:
        source = kubespray.Source("archive", tree.archive)
    nodes = {host.node: kubespray.Node("control_plane", host.address) for host in spec.servers}
    nodes |= {host.node: kubespray.Node("worker", host.address) for host in spec.workers}
    wanted = kubespray.Wanted(
        release=tree.release,
        pin=tree.pin,
        version=plane.version,
        nodes=nodes,
        settings={**plane.extra_vars, **kubespray.owned_settings(spec)},
        order=tuple(host.node for host in spec.servers),
    )
    return kubespray.Request(
        stack=stack,
        wanted=wanted,
        source=source,
        requirements=plane.requirements,
        python=plane.python,
        # kubespray's inventory, keys and known hosts all use the name of the node.
        endpoints={
            host.node: replace(host_endpoint(host), device=host.node)
            for host in (*spec.servers, *spec.workers)
        },
        max_unavailable=spec.disruption.max_unavailable,
        drain_deadline_s=spec.disruption.drain_deadline_s,
        disruption=spec.disruption.reboots,
        reset=plane.reset,
    )


def plan_kubernetes(spec: ClusterSpec, stack: str | None = None) -> KubernetesPlan | None:
    """Plan the control plane of the site; None for a site without Kubernetes.

    `stack`, else the cluster's name, names the folder on the hosts that records what it installed.
    """
    plane, stack = spec.kubernetes, stack or spec.name
    if plane is None:
        return None
    if not isinstance(plane, ExistingPlane):
        return plan_k3s(spec, stack) if spec.kubespray is None else plan_kubespray(spec, stack)
    return KubernetesPlan(
        plane="existing",
        cluster=spec.name,
        server_url="",
        version=plane.version,
        registry=registry_account(spec),
        existing=ExistingAccess(plane.kubeconfig.name, plane.context),
    )
