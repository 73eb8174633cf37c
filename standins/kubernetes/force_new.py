"""Fields that cannot be changed in place: a change replaces the object.

The list is the one of the real plugin (pulumi-kubernetes: "immutable or identity
changes"); a `*` stands for any element of a list.
"""

from __future__ import annotations

from standins.kubernetes.identity import Gvk
from standins.kubernetes.values import JsonMap

IDENTITY = (".metadata.name", ".metadata.namespace")

_SELECTOR = (".spec.selector",)
_STATEFUL_SET = (
    ".spec.podManagementPolicy",
    ".spec.revisionHistoryLimit",
    ".spec.selector",
    ".spec.serviceName",
    ".spec.volumeClaimTemplates",
)
_JOB = (".spec.completions", ".spec.parallelism", ".spec.selector", ".spec.template")
_CLAIM = (".spec.accessModes", ".spec.selector", ".spec.storageClassName", ".spec.volumeName")
_VOLUME_SOURCES = ("csi", "fc", "hostPath", "iscsi", "local", "nfs", "rbd", "cephfs")
_POD_FIELDS = (  # noqa: SIM905 - one word a line would be longer than the module
    "affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostAliases "
    "hostIPC hostNetwork hostPID hostname imagePullSecrets nodeName nodeSelector overhead "
    "preemptionPolicy priority priorityClassName readinessGates restartPolicy runtimeClassName "
    "schedulerName securityContext serviceAccount serviceAccountName shareProcessNamespace "
    "subdomain terminationGracePeriodSeconds volumes"
).split()
_CONTAINER_FIELDS = (  # noqa: SIM905 - as above
    "args command env image imagePullPolicy lifecycle livenessProbe ports readinessProbe "
    "resources securityContext stdin stdinOnce terminationMessagePath terminationMessagePolicy "
    "tty volumeDevices volumeMounts workingDir"
).split()
_POD = (
    *(f".spec.{field}" for field in _POD_FIELDS),
    *(f".spec.containers[*].{field}" for field in _CONTAINER_FIELDS),
    *(f".spec.initContainers[*].{field}" for field in _CONTAINER_FIELDS),
)

_BY_KIND: dict[tuple[str, str], tuple[str, ...]] = {
    ("apps", "DaemonSet"): _SELECTOR,
    ("apps", "Deployment"): _SELECTOR,
    ("apps", "StatefulSet"): _STATEFUL_SET,
    ("batch", "Job"): _JOB,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (".roleRef",),
    ("rbac.authorization.k8s.io", "RoleBinding"): (".roleRef",),
    ("storage.k8s.io", "StorageClass"): (".parameters", ".provisioner"),
    ("", "PersistentVolume"): tuple(f".spec.{source}" for source in _VOLUME_SOURCES),
    ("", "PersistentVolumeClaim"): _CLAIM,
    ("", "Pod"): _POD,
    ("", "ResourceQuota"): (".spec.scopes",),
    ("", "Service"): (".spec.clusterIP",),
}


def force_new_fields(
    gvk: Gvk, obj: JsonMap, *, mutable_config_maps: bool, mutable_secrets: bool
) -> tuple[str, ...]:
    """Returns the fields of an object whose change replaces it."""
    immutable = obj.get("immutable") is True
    if gvk.group == "" and gvk.kind == "Secret":
        frozen = immutable or not mutable_secrets
        return (*IDENTITY, ".type", *((".stringData", ".data") if frozen else ()))
    if gvk.group == "" and gvk.kind == "ConfigMap" and (immutable or not mutable_config_maps):
        return (*IDENTITY, ".binaryData", ".data")
    return (*IDENTITY, *_BY_KIND.get((gvk.group, gvk.kind), ()))
