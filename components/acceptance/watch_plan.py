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
from components.kubernetes.rights import LOOKS, READS, Right, joined, of_charts, of_jobs, of_object
from components.kubernetes.rights import rule_of as rule
from components.model.cluster import ClusterSpec
from components.model.jobs import Watch
from components.operators.operators_plan import OperatorsPlan

OWNER: Final = "railyard-watch"
"""Name of the objects, and the beginning of their resources' names."""
USER: Final = 65532
"""The user without rights of distroless images (their `nonroot`)."""
FOLDER: Final = "/work"
"""Where the job writes: evidence and logs in `.railyard`."""
SITE: Final = "/site/site.yaml"
MOST_BYTES: Final = 1_000_000
"""Of a site in a ConfigMap: the API refuses more than 1 MiB (core/validation, MaxSecretSize)."""
_CLASSES: Final = "scheduling.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"
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
    own = [_namespace(watch), _account(watch), _site(watch, files)]
    bodies = [*own, pulling(spec, _cron_job(watch))]
    rights = [
        *(Right("", group, resource, (), READS) for group, resource in LOOKS),
        *_readable(
            right
            for found in (
                *(of_object(each.body) for each in managed),
                *(of_object(body) for body in bodies),
                of_charts(chart.namespace for chart in operators.charts),
            )
            for right in found
        ),
    ]
    # Its own roles are read too.
    roles = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
    rights += [Right("", _RBAC, each, (), READS) for each in roles]
    if watch.accept:
        rights += of_jobs(spec, acceptance.objects)
        # With a class of their own, its pods preempt no others (`lend_class`).
        rights.append(Right("", _CLASSES, "priorityclasses", (), ("create", "delete")))
    if watch.conditions:
        nodes = tuple(sorted(host.node for host in spec.workers))
        rights.append(Right("", "", "nodes/status", nodes, ("update",)))
    bodies += _roles(watch, sorted(joined(rights)))
    login = login_manifests(spec, OWNER, watch.namespace, 1)
    made = [make_manifest(OWNER, each, _GROUPS.get(str(each["kind"]), 2)) for each in bodies]
    return tuple(sorted((*made, *login), key=lambda each: each.group))


def _readable(rights: Iterable[Right]) -> Iterator[Right]:
    """Yield what remains of rights without their verbs that change something."""
    for each in rights:
        if verbs := tuple(verb for verb in each.verbs if verb in READS):
            yield Right(each.namespace, each.group, each.resource, each.names, verbs)


def site_files(spec: ClusterSpec, lock: Lock) -> Mapping[str, str]:
    """The site as JSON, which is YAML too, and its lock; ranges of hosts are written out.

    `spec` is the site as its file has it.
    """
    values = spec.model_dump(mode="json", exclude_unset=True, by_alias=True)
    files = {"site.yaml": json.dumps(values, separators=(",", ":")) + "\n"}
    return files | ({"site.lock.yaml": render_lock(lock.entries)} if lock.exists else {})


def _meta(watch: Watch, kind: str, version: str = "v1", name: str = OWNER) -> Body:
    metadata: JsonObject = {"name": name, "namespace": watch.namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _namespace(watch: Watch) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": watch.namespace}}


def _account(watch: Watch) -> Body:
    return {**_meta(watch, "ServiceAccount"), "automountServiceAccountToken": False}


def _site(watch: Watch, files: Mapping[str, str]) -> Body:
    data: JsonObject = {**files}
    return {**_meta(watch, "ConfigMap"), "data": data}


def _roles(watch: Watch, rights: Iterable[Right]) -> Iterator[Body]:
    """Yield a role and its binding for the cluster, and for each namespace."""
    by_place: dict[str, list[JsonValue]] = {}
    for each in rights:
        by_place.setdefault(each.namespace, []).append(rule(each))
    subject: Body = {"kind": "ServiceAccount", "name": OWNER, "namespace": watch.namespace}
    for place, rules in by_place.items():
        kind = "Role" if place else "ClusterRole"
        name = f"{OWNER}-{place}" if place else OWNER
        metadata: Body = {"name": name, **({"namespace": place} if place else {})}
        head: Body = {"apiVersion": f"{_RBAC}/v1", "metadata": metadata}
        yield {**head, "kind": kind, "rules": rules}
        reference: Body = {"apiGroup": _RBAC, "kind": kind, "name": name}
        yield {**head, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]}


def _cron_job(watch: Watch) -> Body:
    """One run at a time, with a deadline, and no second try: the next run comes anyway."""
    return {
        **_meta(watch, "CronJob", "batch/v1"),
        "spec": {
            "schedule": watch.schedule,
            "timeZone": watch.time_zone,
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 3600,
            "successfulJobsHistoryLimit": watch.keep,
            "failedJobsHistoryLimit": watch.keep,
            "jobTemplate": {
                "spec": {
                    "backoffLimit": 0,
                    "activeDeadlineSeconds": watch.deadline_s,
                    "template": {"spec": _pod(watch)},
                }
            },
        },
    }


def _pod(watch: Watch) -> JsonObject:
    """A pod without rights on its node; it prefers nodes of the control plane."""
    control: JsonObject = {"key": _CONTROL, "operator": "Exists"}
    preference: JsonObject = {"weight": 100, "preference": {"matchExpressions": [control]}}
    place: JsonObject = {
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
        }
    }
    if watch.node is not None:
        place = {"nodeSelector": {"kubernetes.io/hostname": watch.node}}
    return {
        **place,
        "serviceAccountName": OWNER,
        "automountServiceAccountToken": True,
        "restartPolicy": "Never",
        "tolerations": [{**control, "effect": "NoSchedule"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(watch)],
        "volumes": _volumes(watch),
    }


def _container(watch: Watch) -> JsonObject:
    mounts: list[JsonValue] = [
        {"name": "site", "mountPath": "/site", "readOnly": True},
        {"name": "work", "mountPath": FOLDER},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
    ]
    if watch.folder is not None:
        mounts.append({"name": "metrics", "mountPath": watch.folder})
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
        "resources": {
            "requests": {"cpu": "250m", "memory": "512Mi"},
            "limits": {"memory": "4Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _volumes(watch: Watch) -> list[JsonValue]:
    work: JsonObject = {"emptyDir": {}}
    if watch.claim is not None:
        work = {"persistentVolumeClaim": {"claimName": watch.claim}}
    found: list[JsonValue] = [
        {"name": "site", "configMap": {"name": OWNER}},
        {"name": "work", **work},
        {"name": "tmp", "emptyDir": {}},
    ]
    if watch.folder is not None:
        path: JsonObject = {"path": watch.folder, "type": "Directory"}
        found.append({"name": "metrics", "hostPath": path})
    return found
