"""The objects of the pod network's programs; pods' needs on an existing cluster.

`pods.yaml` has their pods and permissions; their images are in the catalogue.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import yaml
from pydantic import JsonValue

from components.catalogue.cluster_parts import CniPaths
from components.catalogue.switches.switch_model import LOADER
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


def permissions(name: str) -> list[tuple[str, Body]]:
    """The account of a program, and its role in the cluster, each with the program's name."""
    api = "rbac.authorization.k8s.io"
    rules = [rule(*each) for each in _parts()["rights"][name]]
    role: Body = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRole",
        "metadata": metadata(name, None),
        "rules": rules,
    }
    binding: Body = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata(name, None),
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
    }
    return [(name, service_account(name)), (name, role), (name, binding)]


def rule(groups: str, resources: str, verbs: str) -> JsonValue:
    """One permission; `core` is the group without a name."""
    return {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": [*resources.split()],
        "verbs": [*verbs.split()],
    }


def config_name(name: str, config: str) -> str:
    """The name of a plugin's ConfigMap: a changed configuration gets a new object.

    A plugin reads its configuration only when it starts. A new name changes its pods, so they
    restart; and the object is immutable, so an edit cannot change it while they run.
    """
    return f"{name}-{hashlib.sha256(config.encode()).hexdigest()[:10]}"


@cache
def _parts() -> dict[str, dict[str, Any]]:
    text = Path(__file__).with_name("pods.yaml").read_text("utf-8")
    return yaml.load(text, LOADER)  # noqa: S506 - a safe one


def pod_of(of: str, **words: object) -> dict[str, Any]:
    """A pod of `pods.yaml`, with its words in braces filled in."""

    def filled(value: Any) -> Any:  # noqa: ANN401 - any YAML
        if isinstance(value, dict):
            return {key: filled(item) for key, item in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            return [filled(item) for item in cast("list[Any]", value)]
        return value.format(**words) if isinstance(value, str) else value

    return filled(_parts()["pods"][of])


def daemon_set(name: str, pod: JsonObject, *, host_network: bool = True) -> Body:
    """A DaemonSet of `kube-system` on every Linux node, by default in the host's network.

    A pod with a separate network omits the key: the API server drops a false value, and the engine
    would add it again in every update.
    """
    labels: JsonObject = {"app": name, "tier": "node", "name": name}
    everywhere: JsonObject = {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 10,
        **({"hostNetwork": True} if host_network else {}),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(name),
        "spec": {
            "selector": {"matchLabels": {"name": name}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": everywhere | pod},
        },
    }


def program(name: str, image: str, paths: CniPaths, *, of: str = "", **words: str) -> Body:
    """The DaemonSet of a program whose pod is `of` in `pods.yaml`, by default its name."""
    return daemon_set(name, pod_of(of or name, name=name, image=image, paths=paths, **words))


def reference_cni(plugin: str, image: str, paths: CniPaths, *, keep: bool = False) -> Body:
    """Install one reference plugin that K3s lacks, as macvlan or tuning, and for dhcp its daemon.

    With `keep` an existing program stays unchanged: the cluster belongs to others.
    """
    copied = (
        f"cp /usr/src/cni/bin/{plugin} /host/opt/cni/bin/.{plugin}.new\n"
        f"mv -f /host/opt/cni/bin/.{plugin}.new /host/opt/cni/bin/{plugin}\n"
    )
    if keep:
        copied = f"[ -x /host/opt/cni/bin/{plugin} ] || {{\n{copied}}}\n"
    of = "dhcp-cni" if plugin == "dhcp" else "reference-cni"
    return program(f"{plugin}-cni", image, paths, of=of, copied=copied)


def whereabouts(image: str, paths: CniPaths, *, own_path: bool) -> Body:
    """Cluster-wide addresses for rails.

    With `own_path` the node's files are also mounted under their own path, which attachments use:
    it reads attachments to free the addresses of deleted pods.
    """
    pod = pod_of("whereabouts", image=image, paths=paths)
    places = [f"/host{paths.net_d}", "/host/etc/cni/net.d", *([paths.net_d] if own_path else [])]
    # Mount equal paths once: the API refuses a second mount of a path.
    mounts = [{"name": "cni", "mountPath": place} for place in dict.fromkeys(places)]
    pod["containers"][0]["volumeMounts"] += mounts
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
    """Two reconcilers would do the work twice, since neither leads: an update ends the old one."""
    return deployment(RECONCILER, pod_of(RECONCILER, image=image), strategy="Recreate")


_SHUT_OUT: Final = (
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/control-plane",
    "nvidia.com/gpu",
)
"""Taints that a Deployment tolerates: those of nv-ipam v0.4.0."""


def deployment(name: str, pod: JsonObject, *, strategy: str = "RollingUpdate") -> Body:
    """A Deployment of one pod in `kube-system`, which may run on any node of a cluster."""
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
            "template": {
                "metadata": {"labels": {"app": name, "name": name}},
                "spec": anywhere | pod,
            },
        },
    }


def config_map(name: str, data: JsonObject, **more: JsonValue) -> Body:
    """A ConfigMap of `kube-system`."""
    body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name), **more}
    return {**body, "data": data}


def plugin_config_map(name: str, config: str) -> Body:
    """A device plugin's configuration, which cannot be edited; `config_name` gives the reason."""
    return config_map(config_name(name, config), {"config.json": config}, immutable=True)


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
