"""nv-ipam without the network operator: the objects of its own deployment, v0.4.0, without webhook.

Source: `deploy/overlays/no-webhook` of nvidia-k8s-ipam v0.4.0. The image has a pinned release where
upstream writes `latest`, and the folders are those of the cluster.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from components.catalogue.cluster_parts import CniPaths
from components.kubernetes.manifest import Body
from components.pod_network.manifests import (
    JsonObject,
    daemon_set,
    deployment,
    from_field,
    host_path,
    mount,
    rule,
)

CONTROLLER: Final = "nv-ipam-controller"
NODE: Final = "nv-ipam-node"
CRDS: Final = "nv-ipam-crds-v0.4.0.json.gz"
_STATE: Final = "/var/lib/cni/nv-ipam/"
_SOCKET: Final = "unix:///var/lib/cni/nv-ipam/daemon.sock"
_POOLS: Final = "ippools cidrpools"


def controller_rules() -> list[JsonValue]:
    """The controller reads nodes and pools, and writes who has which block."""
    group = "nv-ipam.nvidia.com"
    return [
        rule("core", "nodes", "get list patch update watch"),
        rule("core", "configmaps", "get list watch delete"),
        rule(group, _POOLS, "get list watch create"),
        rule(group, "ippools/status cidrpools/status", "get update patch"),
        rule("coordination.k8s.io", "leases", "get list watch create update patch delete"),
        rule("core", "events", "create patch"),
    ]


def node_rules() -> list[JsonValue]:
    """The daemon of a node reads its blocks, and which pods are still there."""
    return [
        rule("core", "pods", "get list watch"),
        rule("nv-ipam.nvidia.com", _POOLS, "get list watch"),
    ]


def controller_deployment(image: str) -> Body:
    """The controller, which gives each node its block of each pool."""
    pod: JsonObject = {
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": CONTROLLER,
        "containers": [_controller(image)],
    }
    return deployment(CONTROLLER, pod)


def _controller(image: str) -> JsonObject:
    probe: JsonObject = {"port": 8081}
    return {
        "name": "controller",
        "image": image,
        "command": ["/ipam-controller"],
        "args": [
            "--leader-elect=true",
            "--leader-elect-namespace=$(POD_NAMESPACE)",
            "--ippools-namespace=$(POD_NAMESPACE)",
        ],
        "env": [from_field("POD_NAMESPACE", "metadata.namespace")],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "livenessProbe": {
            "httpGet": {"path": "/healthz", **probe},
            "initialDelaySeconds": 15,
            "periodSeconds": 20,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", **probe},
            "initialDelaySeconds": 5,
            "periodSeconds": 10,
        },
        "resources": {"requests": {"cpu": "100m", "memory": "300Mi"}},
    }


def node_daemon_set(image: str, paths: CniPaths) -> Body:
    """The daemon of each node: puts the plugin there, and gives addresses of the node's blocks.

    What it gave is in a file of the node, so that it knows it after a restart.
    """
    config = f"{paths.net_d}/nv-ipam.d"
    pod: JsonObject = {
        "serviceAccountName": NODE,
        "containers": [_node(image)],
        "volumes": [
            host_path("cnibin", paths.bin, "DirectoryOrCreate"),
            host_path("cniconf", config, "DirectoryOrCreate"),
            host_path("daemonstate", _STATE, "DirectoryOrCreate"),
        ],
    }
    return daemon_set(NODE, pod, host_network=False)


def _node(image: str) -> JsonObject:
    return {
        "name": "node",
        "image": image,
        "command": ["/ipam-node"],
        "args": [
            "--node-name=$(NODE_NAME)",
            "--v=1",
            "--logging-format=json",
            f"--bind-address={_SOCKET}",
            f"--store-file={_STATE}store",
            f"--cni-daemon-socket={_SOCKET}",
            "--cni-daemon-call-timeout=5",
            "--cni-bin-dir=/opt/cni/bin",
            "--cni-conf-dir=/etc/cni/net.d/nv-ipam.d",
            "--cni-log-file=/var/log/nv-ipam-cni.log",
            "--cni-log-level=info",
            "--ippools-namespace=$(POD_NAMESPACE)",
        ],
        "env": [
            from_field("POD_NAMESPACE", "metadata.namespace"),
            from_field("NODE_NAME", "spec.nodeName"),
        ],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "resources": {
            "requests": {"cpu": "100m", "memory": "50Mi"},
            "limits": {"cpu": "300m", "memory": "300Mi"},
        },
        "volumeMounts": [
            mount("cnibin", "/opt/cni/bin"),
            mount("cniconf", "/etc/cni/net.d/nv-ipam.d"),
            mount("daemonstate", _STATE),
        ],
    }
