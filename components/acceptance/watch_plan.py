"""Plan the CronJob of `watch`: its site, its rights, and the job itself. Pure.

The objects are not in the plan's digest: another schedule does not make an update prove the network
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from components.acceptance.acceptance_plan import AcceptancePlan
from components.artefacts.lock import Lock, render_lock
from components.jobs.templates import JsonObject
from components.kubernetes.manifest import Body, Manifest, login_manifests, make_manifest, pulling
from components.kubernetes.rights import (
    RBAC,
    READS,
    Right,
    joined,
    of_charts,
    of_jobs,
    of_looks,
    of_object,
    role_of,
)
from components.model.cluster import ClusterSpec
from components.model.jobs import Watch
from components.operators.operators_plan import OperatorsPlan

OWNER: Final = "railyard-watch"
"""Name of the objects, and the beginning of their resources' names."""
USER: Final = 65532
"""The user without rights of distroless images (their `nonroot`)."""
FOLDER: Final = "/work"
"""Where the job writes: evidence and logs in `.railyard`."""
_SITE_FOLDER: Final = "/site"
SITE: Final = f"{_SITE_FOLDER}/site.yaml"
MOST_BYTES: Final = 1_000_000
"""Of a site in a ConfigMap: the API refuses more than 1 MiB (core/validation, MaxSecretSize)."""
_CLASSES: Final = "scheduling.k8s.io"
_CONTROL: Final = "node-role.kubernetes.io/control-plane"
_GROUPS: Final = {"Namespace": 0, "CronJob": 3}


def plan_watch(
    spec: ClusterSpec,
    files: Mapping[str, str],
    acceptance: AcceptancePlan,
    operators: OperatorsPlan,
    managed: Iterable[Manifest],
) -> tuple[Manifest, ...]:
    """Plan the objects of `watch`; none without it or without Kubernetes.

    Args:
        spec: The site with all sources.
        files: The site that the job reads, as `site_files` gives it.
        acceptance: Its probes need rights.
        operators: Its charts are read.
        managed: The objects that the audit reads.
    """
    watch = spec.watch
    if watch is None or spec.kubernetes is None:
        return ()
    bodies = [*_own_objects(watch, files), pulling(spec, _cron_job(watch))]
    # Its own roles are read too.
    roles = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
    rights = [*of_looks(*((RBAC, each) for each in roles))]
    for body in (*(each.body for each in managed), *bodies):
        rights += _readable(of_object(body))
    rights += _readable(of_charts(chart.namespace for chart in operators.charts))
    if watch.accept:
        rights += of_jobs(spec, acceptance.objects)
        # With a class of their own, its pods preempt no others (`lend_class`).
        rights.append(Right("", _CLASSES, "priorityclasses", (), ("create", "delete")))
    if watch.conditions:
        nodes = tuple(sorted(host.node for host in spec.workers))
        rights.append(Right("", "", "nodes/status", nodes, ("update",)))
    granted = sorted(joined(rights))
    subject: Body = {"kind": "ServiceAccount", "name": OWNER, "namespace": watch.namespace}
    for place in dict.fromkeys(each.namespace for each in granted):
        name = f"{OWNER}-{place}" if place else OWNER
        bodies += role_of(name, place, granted, subject)
    login = login_manifests(spec, OWNER, watch.namespace, 1)
    made = [make_manifest(OWNER, each, _GROUPS.get(str(each["kind"]), 2)) for each in bodies]
    return tuple(sorted((*made, *login), key=lambda each: each.group))


def _readable(rights: Iterable[Right]) -> Iterator[Right]:
    """Yield what remains of rights without their verbs that change something."""
    for each in rights:
        if verbs := tuple(verb for verb in each.verbs if verb in READS):
            yield Right(each.namespace, each.group, each.resource, each.names, verbs)


def site_files(spec: ClusterSpec, lock: Lock) -> Mapping[str, str]:
    """Return a site as JSON, which is YAML too, with ranges written out; and its lock."""
    values = spec.model_dump(mode="json", exclude_unset=True, by_alias=True)
    files = {"site.yaml": json.dumps(values, separators=(",", ":")) + "\n"}
    return files | ({"site.lock.yaml": render_lock(lock.entries)} if lock.exists else {})


def _own_objects(watch: Watch, files: Mapping[str, str]) -> Iterator[Body]:
    data: JsonObject = {**files}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": watch.namespace}}
    yield _object(watch, "v1", "ServiceAccount", automountServiceAccountToken=False)
    yield _object(watch, "v1", "ConfigMap", data=data)


def _object(watch: Watch, version: str, kind: str, **body: JsonValue) -> Body:
    metadata: JsonObject = {"name": OWNER, "namespace": watch.namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}


def _cron_job(watch: Watch) -> Body:
    """One run at a time, with a deadline, and no second try: the next run comes anyway."""
    run: JsonObject = {"backoffLimit": 0, "activeDeadlineSeconds": watch.deadline_s}
    spec: JsonObject = {
        "schedule": watch.schedule,
        "timeZone": watch.time_zone,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 3600,
        "successfulJobsHistoryLimit": watch.keep,
        "failedJobsHistoryLimit": watch.keep,
        "jobTemplate": {"spec": {**run, "template": {"spec": _pod(watch)}}},
    }
    return _object(watch, "batch/v1", "CronJob", spec=spec)


def _pod(watch: Watch) -> JsonObject:
    """A pod without rights on its node; it prefers nodes of the control plane."""
    control: JsonObject = {"key": _CONTROL, "operator": "Exists"}
    rule: JsonObject = {"weight": 100, "preference": {"matchExpressions": [control]}}
    affinity: JsonObject = {"preferredDuringSchedulingIgnoredDuringExecution": [rule]}
    place: JsonObject = {"affinity": {"nodeAffinity": affinity}}
    if watch.node is not None:
        place = {"nodeSelector": {"kubernetes.io/hostname": watch.node}}
    user: JsonObject = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), USER)
    user |= {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        **place,
        "serviceAccountName": OWNER,
        "automountServiceAccountToken": True,
        "restartPolicy": "Never",
        "tolerations": [{**control, "effect": "NoSchedule"}],
        "securityContext": user,
        "containers": [_container(watch)],
        "volumes": [{"name": name, **volume} for name, _, volume in _volumes(watch)],
    }


def _container(watch: Watch) -> JsonObject:
    mounts: list[JsonValue] = [
        {"name": name, "mountPath": path, **({"readOnly": True} if path == _SITE_FOLDER else {})}
        for name, path, _ in _volumes(watch)
    ]
    secrets: JsonObject = {}
    if watch.secret is not None:
        secrets = {"envFrom": [{"secretRef": {"name": watch.secret}}]}
    return {
        "name": "railyard",
        "image": watch.image,
        "command": ["railyard", "watch", SITE],
        "workingDir": FOLDER,
        # The user has no entry in /etc/passwd.
        "env": [{"name": "HOME", "value": FOLDER}, {"name": "USER", "value": "railyard"}],
        **secrets,
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "4Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _volumes(watch: Watch) -> Iterator[tuple[str, str, JsonObject]]:
    """Yield the name, the path and the source of each volume."""
    claim: JsonObject = {"persistentVolumeClaim": {"claimName": watch.claim}}
    yield "site", _SITE_FOLDER, {"configMap": {"name": OWNER}}
    yield "work", FOLDER, {"emptyDir": {}} if watch.claim is None else claim
    yield "tmp", "/tmp", {"emptyDir": {}}  # noqa: S108 - the pod's own
    if watch.folder is not None:
        yield "metrics", watch.folder, {"hostPath": {"path": watch.folder, "type": "Directory"}}
