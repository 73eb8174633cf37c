"""The DaemonSets of the pod network and their permissions; pods' needs on an existing cluster.

They follow the upstream release manifests of Multus v4.3.0, whereabouts v0.9.4, sriov-cni v2.10.0
and sriov-network-device-plugin v3.11.0; their images are in the catalogue. Thin Multus: the thick
one runs the delegates in its own container, in which K3s' absolute links do not resolve.
"""

from __future__ import annotations

import hashlib
from typing import Final

from pydantic import JsonValue

from components.catalogue.cluster_parts import CniPaths
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane

NAMESPACE: Final = "kube-system"
PLUGIN_CONFIG: Final = "sriovdp-config"
JsonObject = dict[str, JsonValue]


def metadata(name: str, namespace: str | None = NAMESPACE) -> JsonObject:
    """Name, labels and namespace of an object; None for a cluster-scoped one."""
    place: JsonObject = {"namespace": namespace} if namespace else {}
    labels: JsonObject = {"app": name, "tier": "node"}
    named: JsonObject = {"name": name, "labels": labels}
    return named | place


def service_account(name: str) -> Body:
    """The identity of a DaemonSet."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name)}


def cluster_role(name: str, rules: list[JsonValue]) -> Body:
    """The permissions of a DaemonSet in the cluster."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata(name, None),
        "rules": rules,
    }


def cluster_role_binding(name: str) -> Body:
    """Give the role of that name to the account of that name."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata(name, None),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
    }


def rule(groups: str, resources: str, verbs: str) -> JsonValue:
    """One permission; `core` is the group without a name."""
    return {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": [*resources.split()],
        "verbs": [*verbs.split()],
    }


def multus_rules() -> list[JsonValue]:
    """Multus reads attachments and writes network-status on pods."""
    return [
        rule("k8s.cni.cncf.io", "*", "*"),
        rule("core", "pods pods/status", "get update"),
        rule("core events.k8s.io", "events", "create patch update"),
    ]


def whereabouts_rules() -> list[JsonValue]:
    """Whereabouts keeps its allocations in objects of the cluster."""
    return [
        rule(
            "whereabouts.cni.cncf.io",
            "ippools overlappingrangeipreservations",
            "get list watch create update patch delete",
        ),
        rule("coordination.k8s.io", "leases", "*"),
        rule("core", "pods nodes", "get list watch"),
        rule("k8s.cni.cncf.io", "network-attachment-definitions", "get list watch"),
        rule("core events.k8s.io", "events", "create patch update get"),
    ]


def host_path(name: str, path: str, kind: str | None = None) -> JsonObject:
    """A volume with a folder of the node; `kind` as `hostPath.type`."""
    place: JsonObject = {"path": path}
    if kind:
        place["type"] = kind
    return {"name": name, "hostPath": place}


def mount(name: str, path: str, **more: JsonValue) -> JsonObject:
    """The path of a volume in a container."""
    return {"name": name, "mountPath": path} | more


def resources(cpu: str, memory: str) -> JsonObject:
    """Equal requests and limits."""
    amount: JsonObject = {"cpu": cpu, "memory": memory}
    return {"requests": amount, "limits": amount}


def config_name(name: str, config: str) -> str:
    """The name of a plugin's ConfigMap: a changed configuration gets a new object.

    A plugin reads its configuration only when it starts. A new name changes its pods, so they
    restart; and the object is immutable, so an edit cannot change it while they run.
    """
    return f"{name}-{hashlib.sha256(config.encode()).hexdigest()[:10]}"


def daemon_set(name: str, pod: JsonObject, *, host_network: bool = True) -> Body:
    """A DaemonSet of `kube-system` on every Linux node, by default in the host's network.

    A pod with a separate network omits the key: the API server drops a false value, and the engine
    would add it again in every update.
    """
    labels: JsonObject = {"app": name, "tier": "node", "name": name}
    template: JsonObject = {"labels": labels}
    everywhere: JsonObject = {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 10,
    }
    if host_network:
        everywhere["hostNetwork"] = True
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(name),
        "spec": {
            "selector": {"matchLabels": {"name": name}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": template, "spec": everywhere | pod},
        },
    }


def multus_daemon_set(image: str, paths: CniPaths) -> Body:
    """Multus: passes a pod's networks to the CNI plugins of its attachments."""
    binaries = mount("cnibin", "/host/opt/cni/bin", mountPropagation="Bidirectional")
    install: JsonObject = {
        "name": "install-multus-binary",
        "image": image,
        "command": ["/install_multus"],
        "args": ["--type", "thin"],
        "resources": {"requests": {"cpu": "10m", "memory": "15Mi"}},
        "securityContext": {"privileged": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [binaries],
    }
    main: JsonObject = {
        "name": "kube-multus",
        "image": image,
        "command": ["/thin_entrypoint"],
        "args": [
            "--multus-conf-file=auto",
            "--multus-autoconfig-dir=/host/etc/cni/net.d",
            "--cni-conf-dir=/host/etc/cni/net.d",
            f"--multus-kubeconfig-file-host={paths.multus_kubeconfig}",
        ],
        "resources": resources("100m", "50Mi"),
        "securityContext": {"privileged": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount("cni", "/host/etc/cni/net.d"), mount("cnibin", "/host/opt/cni/bin")],
    }
    pod: JsonObject = {
        "serviceAccountName": "multus",
        "initContainers": [install],
        "containers": [main],
        "volumes": [host_path("cni", paths.net_d), host_path("cnibin", paths.bin)],
    }
    return daemon_set("multus", pod)


def cni_check(paths: CniPaths) -> str:
    """A script that fails on a node whose kubelet has its CNI elsewhere.

    If the node's own network plugin lacks a configuration here, the runtime would never call
    Multus: pods would start without their rails. If the program in this configuration is missing in
    the other folder, the runtime does not search that folder for our programs either.
    """
    fix = "write kubernetes.distribution, or kubernetes.cni with net_d and bin"
    return (
        "for file in /host/etc/cni/net.d/*.conf /host/etc/cni/net.d/*.conflist; do\n"
        '  case "$file" in *multus*) continue ;; esac\n'
        '  [ -f "$file" ] || continue\n'
        '  types=$(tr -d \' \\t\\n\' <"$file" | grep -o \'"type":"[^"]*"\' | cut -d\'"\' -f4)\n'
        "  for type in $types; do\n"
        '    [ -x "/host/opt/cni/bin/$type" ] && exit 0\n'
        "  done\n"
        f'  echo "none of the programs of ${{file##*/}} is in {paths.bin} of this node:"'
        ' $types "(kubelet reads another folder:"'
        f" '{fix})' >&2\n"
        "  exit 1\n"
        "done\n"
        f"echo 'no CNI configuration in {paths.net_d} of this node, so kubelet reads another '\\\n"
        f"'folder: {fix}' >&2\n"
        "exit 1\n"
    )


def cni_check_daemon_set(image: str, paths: CniPaths) -> Body:
    """A pod on every node that is ready only if the CNI folders are those of the site."""
    look: JsonObject = {
        "name": "check-cni-folders",
        "image": image,
        "command": ["/bin/sh", "-c", cni_check(paths)],
        "resources": resources("10m", "15Mi"),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            mount("cni", "/host/etc/cni/net.d", readOnly=True),
            mount("cnibin", "/host/opt/cni/bin", readOnly=True),
        ],
    }
    stay: JsonObject = {
        "name": "stay",
        "image": image,
        "command": ["/bin/sh", "-c", "exec sleep infinity"],
        "resources": resources("10m", "15Mi"),
    }
    pod: JsonObject = {
        "initContainers": [look],
        "containers": [stay],
        "volumes": [host_path("cni", paths.net_d), host_path("cnibin", paths.bin)],
    }
    return daemon_set("cni-folders", pod)


def from_field(name: str, path: str) -> JsonObject:
    """A variable of a container that Kubernetes fills in from the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


_SHUT_OUT: Final = (
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/control-plane",
    "nvidia.com/gpu",
)
"""Taints that a Deployment tolerates: those of nv-ipam v0.4.0."""


def deployment(name: str, pod: JsonObject, *, strategy: str = "RollingUpdate") -> Body:
    """A Deployment of one pod in `kube-system`, which may run on any node of a cluster."""
    labels: JsonObject = {"app": name, "name": name}
    anywhere: JsonObject = {
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in _SHUT_OUT
        ]
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name),
        "spec": {
            "replicas": 1,
            "strategy": {"type": strategy},
            "selector": {"matchLabels": {"name": name}},
            "template": {"metadata": {"labels": labels}, "spec": anywhere | pod},
        },
    }


def config_map(name: str, data: JsonObject, **more: JsonValue) -> Body:
    """A ConfigMap of `kube-system`."""
    body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name), **more}
    return {**body, "data": data}


def plugin_config_map(name: str, config: str) -> Body:
    """A device plugin's configuration, which cannot be edited; `config_name` gives the reason."""
    return config_map(config_name(name, config), {"config.json": config}, immutable=True)


def device_plugin_daemon_set(image: str, config: str, prefix: str) -> Body:
    """The device plugin: VFs as extended resources; restarted when its configuration changes."""
    devices = "/var/run/k8s.cni.cncf.io/devinfo/dp"
    main: JsonObject = {
        "name": "kube-sriovdp",
        "image": image,
        "args": ["--log-dir=sriovdp", "--log-level=10", f"--resource-prefix={prefix}"],
        "resources": {
            "requests": {"cpu": "250m", "memory": "40Mi"},
            "limits": {"cpu": "1", "memory": "200Mi"},
        },
        "securityContext": {"privileged": True},
        "volumeMounts": [
            mount("devicesock", "/var/lib/kubelet/device-plugins"),
            mount("plugins-registry", "/var/lib/kubelet/plugins_registry"),
            mount("log", "/var/log"),
            mount("config-volume", "/etc/pcidp"),
            mount("device-info", devices),
        ],
    }
    pod: JsonObject = {
        "serviceAccountName": "sriov-device-plugin",
        "containers": [main],
        "volumes": [
            host_path("devicesock", "/var/lib/kubelet/device-plugins"),
            host_path("plugins-registry", "/var/lib/kubelet/plugins_registry"),
            host_path("log", "/var/log"),
            host_path("device-info", devices, "DirectoryOrCreate"),
            {
                "name": "config-volume",
                "configMap": {
                    "name": config_name(PLUGIN_CONFIG, config),
                    "items": [{"key": "config.json", "path": "config.json"}],
                },
            },
        ],
    }
    return daemon_set("sriov-device-plugin", pod)


GPU: Final[dict[str, JsonValue]] = {
    "key": "nvidia.com/gpu",
    "operator": "Exists",
    "effect": "NoSchedule",
}
"""The taint that NVIDIA's charts tolerate by default."""
_CONTROL_PLANE: Final[dict[str, JsonValue]] = {
    "key": "node-role.kubernetes.io/control-plane",
    "operator": "Exists",
    "effect": "NoSchedule",
}


def tolerated(spec: ClusterSpec, *before: dict[str, JsonValue]) -> list[JsonValue]:
    """The tolerations of a chart, then those of the file; empty if the file lists none."""
    ours = tolerations(spec).get("tolerations")
    if not isinstance(ours, list):
        return []
    return [*before, *(each for each in ours if each not in before)]


def discovery_values(spec: ClusterSpec) -> dict[str, JsonValue]:
    """Node feature discovery as a part of a chart: its workers label the GPU nodes."""
    found = tolerated(spec, _CONTROL_PLANE, GPU)
    return {"node-feature-discovery": {"worker": {"tolerations": found}}} if found else {}


def gpu_runtime(spec: ClusterSpec) -> dict[str, JsonValue]:
    """The RuntimeClass of a pod with GPUs; empty if the file does not name one."""
    plane = spec.kubernetes
    name = plane.runtime_class if isinstance(plane, ExistingPlane) else None
    return {"runtimeClassName": name} if name is not None else {}


def tolerations(spec: ClusterSpec) -> dict[str, JsonValue]:
    """The tolerations in a pod's spec; empty if the file does not name a taint."""
    plane = spec.kubernetes
    if not isinstance(plane, ExistingPlane) or not plane.tolerations:
        return {}
    return {
        "tolerations": [
            each.model_dump(mode="json", exclude_none=True) for each in plane.tolerations
        ]
    }
