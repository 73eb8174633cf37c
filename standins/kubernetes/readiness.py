"""When an object of a built-in kind is ready: pure judgements over its live state.

The conditions are those of the real plugin's awaiters (sources.md#the-kubernetes-plugin).
"""

from __future__ import annotations

from collections.abc import Callable

from standins.kubernetes.identity import Gvk
from standins.kubernetes.values import Json, JsonMap, as_int, as_list, as_map, as_text, dig
from standins.kubernetes.wait_for import Readiness

READY = Readiness(done=True)
DEPLOYMENT_REVISION = "deployment.kubernetes.io/revision"
NO_PODS = (
    "Service does not target any Pods. Selected Pods may not be ready, "
    "or field '.spec.selector' may not match labels on any Pods"
)


def judge(gvk: Gvk, obj: JsonMap) -> Readiness | None:
    """Says whether a built-in object is ready; None for a kind that nobody waits for."""
    rule = _RULES.get((gvk.group, gvk.kind))
    return rule(obj) if rule else None


def needs_endpoints(obj: JsonMap) -> bool:
    """Says whether a Service is ready only once it has pods behind it."""
    spec = as_map(obj.get("spec"))
    no_address = spec.get("clusterIP") == "None" or spec.get("type") == "ExternalName"
    return obj.get("apiVersion") == "v1" and bool(as_map(spec.get("selector"))) and not no_address


def selector_of(obj: JsonMap) -> str:
    """Returns a workload's `matchLabels` as a label selector, or an empty string."""
    labels = as_map(dig(obj, "spec", "selector", "matchLabels"))
    return ",".join(f"{key}={as_text(value)}" for key, value in sorted(labels.items()))


def complaints_of(gvk: Gvk, obj: JsonMap) -> list[str]:
    """Returns what the plugin says is still missing on an object that it waited for.

    The plugin hides why a pod is not scheduled: it counts that as progress, not as a problem.
    """
    rule = _COMPLAINTS.get((gvk.group, gvk.kind))
    return rule(obj) if rule else []


def pod_complaints(pod: JsonMap) -> list[str]:
    """Returns what a pod's first condition that is not met complains about, or nothing."""
    if not _is_true(pod, "PodScheduled"):
        return []
    kind = "Ready" if _is_true(pod, "Initialized") else "Initialized"
    unmet = _condition(pod, kind)
    if not unmet or unmet.get("status") == "True" or dig(pod, "status", "phase") == "Succeeded":
        return []
    said = as_text(unmet.get("message")) if unmet.get("reason") else ""
    errors = [_container_error(item) for item in as_list(dig(pod, "status", "containerStatuses"))]
    text = said + "\n".join(error for error in errors if error)
    name = as_text(dig(pod, "metadata", "name"))
    namespace = as_text(dig(pod, "metadata", "namespace"))
    full = name if namespace in ("", "default") else f"{namespace}/{name}"
    return [f"[Pod {full}]: {text}"] if text else []


def _container_error(status: Json) -> str:
    waiting = as_map(dig(status, "state", "waiting"))
    if dig(status, "ready") is True or not waiting or waiting["reason"] == "ContainerCreating":
        return ""
    return f"[{as_text(waiting.get('reason'))}] {as_text(waiting.get('message'))}"


def _condition(obj: JsonMap, kind: str) -> JsonMap:
    for entry in as_list(dig(obj, "status", "conditions")):
        if dig(entry, "type") == kind:
            return as_map(entry)
    return {}


def _is_true(obj: JsonMap, kind: str) -> bool:
    return _condition(obj, kind).get("status") == "True"


def _replicas(obj: JsonMap) -> int:
    wanted = dig(obj, "spec", "replicas")
    return 1 if wanted is None else as_int(wanted)


def _observed(obj: JsonMap) -> bool:
    observed = dig(obj, "status", "observedGeneration")
    return observed is not None and as_int(observed) >= as_int(dig(obj, "metadata", "generation"))


def _deployment(obj: JsonMap) -> Readiness:
    if not _observed(obj):
        return Readiness(done=False, message="Waiting for the Deployment controller")
    wanted, status = _replicas(obj), as_map(obj.get("status"))
    updated = as_int(status.get("updatedReplicas"))
    ready = as_int(status.get("readyReplicas"))
    first = dig(obj, "metadata", "annotations", DEPLOYMENT_REVISION) == "1"
    rolled = first or _condition(obj, "Progressing").get("reason") == "NewReplicaSetAvailable"
    done = _is_true(obj, "Available") and rolled and updated >= wanted and ready >= wanted
    return Readiness(done, f"Waiting for app ReplicaSet to be available ({ready}/{wanted} Pods)")


def _stateful_set(obj: JsonMap) -> Readiness:
    wanted, status = _replicas(obj), as_map(obj.get("status"))
    updated, ready = as_int(status.get("updatedReplicas")), as_int(status.get("readyReplicas"))
    done = _observed(obj) and updated >= wanted and ready >= wanted
    return Readiness(done, f"Waiting for StatefulSet Pods ({ready}/{wanted} ready)")


def _daemon_set(obj: JsonMap) -> Readiness:
    if not _observed(obj):
        return Readiness(done=False, message="Waiting for the DaemonSet controller")
    status = as_map(obj.get("status"))
    wanted = as_int(status.get("desiredNumberScheduled"))
    least = min(
        as_int(status.get("currentNumberScheduled")),
        as_int(status.get("updatedNumberScheduled")),
        as_int(status.get("numberAvailable")),
        as_int(status.get("numberReady")),
    )
    return Readiness(least >= wanted, f"Available: {least}, less than desired: {wanted}")


def _pod(obj: JsonMap) -> Readiness:
    phase = dig(obj, "status", "phase")
    done = phase == "Succeeded" or (phase == "Running" and _is_true(obj, "Ready"))
    return Readiness(done, f"Waiting for the Pod ({as_text(phase) or 'Pending'})")


def _job(obj: JsonMap) -> Readiness:
    failed = _condition(obj, "Failed")
    if failed.get("status") == "True":
        text = f"[{as_text(failed.get('reason'))}] {as_text(failed.get('message'))}"
        return Readiness(done=False, message=text, failed=True)
    return Readiness(_is_true(obj, "Complete"), "Waiting for the Job to complete")


def _service(obj: JsonMap) -> Readiness:
    if dig(obj, "spec", "type") != "LoadBalancer":
        return READY
    has_address = bool(as_list(dig(obj, "status", "loadBalancer", "ingress")))
    return Readiness(
        has_address,
        "Service was not allocated an IP address; does your cloud provider support this?",
    )


def _phase_in(*phases: Json) -> Callable[[JsonMap], Readiness]:
    def rule(obj: JsonMap) -> Readiness:
        phase = dig(obj, "status", "phase")
        return Readiness(phase in phases, f"Waiting for a phase out of {phases}, found {phase}")

    return rule


def _resource_quota(obj: JsonMap) -> Readiness:
    done = dig(obj, "spec", "hard") == dig(obj, "status", "hard")
    return Readiness(done, "Waiting for the quota to be counted")


_RULES: dict[tuple[str, str], Callable[[JsonMap], Readiness]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("", "Pod"): _pod,
    ("", "Service"): _service,
    ("", "PersistentVolume"): _phase_in("Available", "Bound"),
    ("", "PersistentVolumeClaim"): _phase_in("Bound"),
    ("", "ResourceQuota"): _resource_quota,
}


def _deployment_complaints(obj: JsonMap) -> list[str]:
    unmet = [_condition(obj, kind) for kind in ("Progressing", "Available")]
    found = [
        f"[{as_text(one.get('reason'))}] {as_text(one.get('message'))}"
        for one in unmet
        if one and one.get("status") != "True"
    ]
    first = dig(obj, "metadata", "annotations", DEPLOYMENT_REVISION) == "1"
    rolled = first or _condition(obj, "Progressing").get("reason") == "NewReplicaSetAvailable"
    if not _is_true(obj, "Available"):
        found.append("Minimum number of live Pods was not attained")
    elif first or not rolled:
        found.append("Minimum number of Pods to consider the application live was not attained")
    else:
        found.append(
            "Attempted to roll forward to new ReplicaSet, "
            "but minimum number of Pods did not become live"
        )
    return found


def _stateful_set_complaints(obj: JsonMap) -> list[str]:
    ready = as_int(dig(obj, "status", "readyReplicas"))
    return [f"{ready} out of {_replicas(obj)} replicas succeeded readiness checks"]


def _job_complaints(obj: JsonMap) -> list[str]:
    state = _job(obj)
    return [state.message] if state.failed else []


def _service_complaints(obj: JsonMap) -> list[str]:
    found: list[str] = [NO_PODS] if needs_endpoints(obj) else []
    address = _service(obj)
    return found if address.done else [*found, address.message]


_COMPLAINTS: dict[tuple[str, str], Callable[[JsonMap], list[str]]] = {
    ("apps", "Deployment"): _deployment_complaints,
    ("apps", "StatefulSet"): _stateful_set_complaints,
    ("batch", "Job"): _job_complaints,
    ("", "Pod"): pod_complaints,
    ("", "Service"): _service_complaints,
}

# Only these say which object they gave up on; the others end with the words of client-go.
NAMED_IN_ERRORS = frozenset(_COMPLAINTS)

# Of these, the pods are asked too.
ASKS_PODS = frozenset({("apps", "Deployment"), ("apps", "StatefulSet"), ("batch", "Job")})

# Only these are looked at again when state is refreshed.
READ_AGAIN = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("", "Pod"),
        ("", "Service"),
    }
)

# `skipAwait` also skips the wait for the end of a deleted object, of these kinds only.
SKIPS_DELETE_AWAIT = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("", "Pod"),
        ("", "Namespace"),
        ("", "ReplicationController"),
    }
)
