"""The objects of the pod network's programs; pods' needs on an existing cluster.

`objects.yaml` has their pods and permissions; their images are in the catalogue.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from pydantic import JsonValue

from components.catalogue.cluster_parts import CniPaths
from components.core.templates import object_of
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane

NAMESPACE: Final = "kube-system"
PLUGIN_CONFIG: Final = "sriovdp-config"
JsonObject = dict[str, JsonValue]
SCHEDULE: Final = "30 4 * * *"
"""When addresses of lost pods are freed, in cron's form and UTC: upstream's own time. Not more
often: if a pod takes more than 1.25 s to get its addresses at that moment, they count as lost
(`isOrphanedIP` in pkg/reconciler/iploop.go of v0.9.4). The reconciler notices a change without a
restart."""
RECONCILER: Final = "whereabouts-reconciler"
RECONCILED: Final = "whereabouts-config"
"""The object with the schedule."""
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


def make(template: str, /, **words: object) -> dict[str, Any]:
    """An object of this room; see `object_of`."""
    return object_of("components.pod_network", template, **words)


def permissions(name: str) -> list[tuple[str, Body]]:
    """The account of a program, and its role in the cluster, each with the program's name."""
    rules = [rule(*each) for each in make("rights")[name]]
    kinds = ("account", "role", "binding")
    return [(name, make(kind, name=name, rules=rules)) for kind in kinds]


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


def daemon_set(name: str, pod: JsonObject, *, host_network: bool = True) -> Body:
    """A DaemonSet of `kube-system` on every Linux node, by default in the host's network.

    A pod with a separate network omits the key: the API server drops a false value, and the engine
    would add it again in every update.
    """
    return make("daemon-set", name=name, pod=pod, host_network=host_network or None)


def program(name: str, image: str, paths: CniPaths, *, of: str = "", **words: str) -> Body:
    """The DaemonSet of a program whose pod is `of` in `objects.yaml`, by default its name."""
    return daemon_set(name, make(of or name, name=name, image=image, paths=paths, **words))


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
    pod = make("whereabouts", image=image, paths=paths)
    places = [f"/host{paths.net_d}", "/host/etc/cni/net.d", *([paths.net_d] if own_path else [])]
    # Mount equal paths once: the API refuses a second mount of a path.
    mounts = [{"name": "cni", "mountPath": place} for place in dict.fromkeys(places)]
    pod["containers"][0]["volumeMounts"] += mounts
    return daemon_set("whereabouts", pod)


def deployment(name: str, image: str, *, strategy: str = "RollingUpdate") -> Body:
    """A Deployment in `kube-system` of one pod, which has this name in `objects.yaml`."""
    return make("deployment", name=name, pod=make(name, image=image), strategy=strategy)


def config_map(name: str, data: Mapping[str, JsonValue], *, immutable: bool | None = None) -> Body:
    """A ConfigMap of `kube-system`."""
    return make("config-map", name=name, data=data, immutable=immutable)


def plugin_config_map(name: str, config: str) -> Body:
    """A device plugin's configuration, which cannot be edited; `config_name` gives the reason."""
    return config_map(config_name(name, config), {"config.json": config}, immutable=True)


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
