"""The DaemonSets that install CNI programs on nodes, and the objects of whereabouts and nv-ipam.

nv-ipam without the network operator uses the objects of `deploy/overlays/no-webhook` of
nvidia-k8s-ipam v0.4.0. The image has a pinned release instead of upstream's `latest`, and the
folders are those of the cluster.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from components.catalogue.cluster_parts import CniPaths
from components.kubernetes.manifest import Body
from components.pod_network.manifests import (
    JsonObject,
    config_map,
    daemon_set,
    deployment,
    from_field,
    host_path,
    mount,
    resources,
    rule,
)

_WHEREABOUTS: Final = (
    "SLEEP=false source /install-cni.sh\n/token-watcher.sh &\n/ip-control-loop -log-level verbose\n"
)


def sriov_cni_daemon_set(image: str, paths: CniPaths) -> Body:
    """sriov-cni: installs its plugin in K3s' folder."""
    return _program_daemon_set(
        "sriov-cni",
        image,
        paths,
        {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    )


def program_daemon_set(name: str, image: str, paths: CniPaths) -> Body:
    """ib-sriov-cni, ipoib-cni or rdma-cni: each installs its program; upstream's own settings."""
    return _program_daemon_set(name, image, paths, {"privileged": True})


def _program_daemon_set(
    name: str, image: str, paths: CniPaths, security: JsonObject, **more: JsonValue
) -> Body:
    main: JsonObject = {
        "name": name,
        "image": image,
        **more,
        "resources": resources("100m", "50Mi"),
        "securityContext": security,
        "volumeMounts": [mount("cnibin", "/host/opt/cni/bin")],
    }
    pod: JsonObject = {"containers": [main], "volumes": [host_path("cnibin", paths.bin)]}
    return daemon_set(name, pod)


def reference_cni_daemon_set(
    plugin: str, image: str, paths: CniPaths, *, keep: bool = False
) -> Body:
    """Install one reference plugin that K3s lacks, macvlan or tuning, in K3s' folder.

    Only this plugin: the image's other plugins would overwrite those that K3s links there. With
    `keep` an existing program stays unchanged: the cluster belongs to others.
    """
    script = f"set -eu\n{_copied(plugin, keep=keep)}exec sleep infinity\n"
    command: list[JsonValue] = ["/bin/sh", "-c", script]
    privileged: JsonObject = {"privileged": True}
    return _program_daemon_set(f"{plugin}-cni", image, paths, privileged, command=command)


def _copied(plugin: str, *, keep: bool) -> str:
    unless = f"[ -x /host/opt/cni/bin/{plugin} ] || {{\n" if keep else ""
    return (
        f"{unless}cp /usr/src/cni/bin/{plugin} /host/opt/cni/bin/.{plugin}.new\n"
        f"mv -f /host/opt/cni/bin/.{plugin}.new /host/opt/cni/bin/{plugin}\n"
        f"{'}' + chr(10) if keep else ''}"
    )


def dhcp_daemon_set(image: str, paths: CniPaths, *, keep: bool) -> Body:
    """The DHCP plugin with its daemon, which asks for addresses in pods' names and renews them.

    The daemon enters the pods' network namespaces, which the container runtime mounts under
    /var/run/netns; it does not start while an earlier daemon's socket exists.
    """
    script = (
        f"set -eu\n{_copied('dhcp', keep=keep)}"
        "rm -f /host/run/cni/dhcp.sock\n"
        "exec /usr/src/cni/bin/dhcp daemon -hostprefix /host\n"
    )
    main: JsonObject = {
        "name": "dhcp-cni",
        "image": image,
        "command": ["/bin/sh", "-c", script],
        "resources": resources("100m", "50Mi"),
        "securityContext": {"privileged": True},
        "volumeMounts": [
            mount("cnibin", "/host/opt/cni/bin"),
            mount("socket", "/host/run/cni"),
            mount("netns", "/host/var/run/netns", mountPropagation="HostToContainer"),
        ],
    }
    pod: JsonObject = {
        "containers": [main],
        "volumes": [
            host_path("cnibin", paths.bin),
            host_path("socket", "/run/cni", "DirectoryOrCreate"),
            host_path("netns", "/var/run/netns", "DirectoryOrCreate"),
        ],
    }
    return daemon_set("dhcp-cni", pod)


def whereabouts_daemon_set(image: str, paths: CniPaths, *, own_path: bool = False) -> Body:
    """Whereabouts: cluster-wide addresses for rails; its files name the host's own paths.

    With `own_path` the node's files are also mounted under their own path, which attachments use:
    it reads attachments to free the addresses of deleted pods.
    """
    places = [f"/host{paths.net_d}", "/host/etc/cni/net.d", *([paths.net_d] if own_path else [])]
    main: JsonObject = {
        "name": "whereabouts",
        "image": image,
        "command": ["/bin/sh"],
        "args": ["-c", _WHEREABOUTS],
        "env": [
            from_field("NODENAME", "spec.nodeName"),
            from_field("WHEREABOUTS_NAMESPACE", "metadata.namespace"),
            # The install script strips /host from this path to name the kubeconfig on the host.
            {"name": "CNI_CONF_DIR", "value": f"/host{paths.net_d}"},
        ],
        "resources": resources("100m", "200Mi"),
        "securityContext": {"privileged": True},
        "volumeMounts": [
            mount("cnibin", "/host/opt/cni/bin"),
            # Mount equal paths once: the API refuses a second mount of a path.
            *(mount("cni", place) for place in dict.fromkeys(places)),
        ],
    }
    pod: JsonObject = {
        "serviceAccountName": "whereabouts",
        "containers": [main],
        "volumes": [host_path("cnibin", paths.bin), host_path("cni", paths.net_d)],
    }
    return daemon_set("whereabouts", pod)


SCHEDULE: Final = "30 4 * * *"
"""When addresses of lost pods are freed, in cron's form and UTC: upstream's own time. Not more
often: if a pod takes more than 1.25 s to get its addresses at that moment, they count as lost
(`isOrphanedIP` in pkg/reconciler/iploop.go of v0.9.4)."""
RECONCILER: Final = "whereabouts-reconciler"


def reconciler_config_map() -> Body:
    """The schedule of whereabouts' reconciler; it notices a change without a restart."""
    return config_map("whereabouts-config", {"cron-expression": SCHEDULE})


def reconciler_deployment(image: str) -> Body:
    """Free the addresses of pods whose node died: the DaemonSet does not see the end of such pods.

    Until v0.9.3 the DaemonSet did it; in v0.9.4 it is upstream's `reconciler-deployment.yaml`. Two
    reconcilers would do the work twice, since neither leads: so an update ends the old one first.
    """
    main: JsonObject = {
        "name": RECONCILER,
        "image": image,
        "command": ["/ip-reconciler"],
        "args": ["-log-level", "verbose"],
        "env": [from_field("WHEREABOUTS_NAMESPACE", "metadata.namespace")],
        "resources": resources("100m", "50Mi"),
        "volumeMounts": [mount("cron-scheduler-configmap", "/cron-schedule")],
    }
    schedule: JsonObject = {
        "name": "whereabouts-config",
        "items": [{"key": "cron-expression", "path": "config"}],
    }
    return deployment(
        RECONCILER,
        {
            "serviceAccountName": "whereabouts",
            "containers": [main],
            "volumes": [{"name": "cron-scheduler-configmap", "configMap": schedule}],
        },
        strategy="Recreate",
    )


CONTROLLER: Final = "nv-ipam-controller"
NODE: Final = "nv-ipam-node"
CRDS: Final = "nv-ipam-crds-v0.4.0.json.gz"
_STATE: Final = "/var/lib/cni/nv-ipam/"
_SOCKET: Final = "unix:///var/lib/cni/nv-ipam/daemon.sock"
_POOLS: Final = "ippools cidrpools"


def controller_rules() -> list[JsonValue]:
    """The controller reads nodes and pools, and records the block of each node."""
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
    """The daemon of a node reads its blocks, and the pods that still exist."""
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
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
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
    """The daemon of each node: it installs the plugin, and gives addresses of the node's blocks.

    It records given addresses in a file on the node, and reads that file after a restart.
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
