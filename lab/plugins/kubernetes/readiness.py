"""When an object of a built-in kind is ready: pure judgements over its live state.

The conditions are those of the real plugin's awaiters (sources.md#the-kubernetes-plugin).
"""

from __future__ import annotations

from collections.abc import Callable

from lab.plugins.kubernetes.identity import Gvk
from lab.plugins.kubernetes.values import Json, JsonMap, as_int, as_list, as_map, as_text, dig
from lab.plugins.kubernetes.wait_for import Readiness

READY = Readiness(done=True)
DEPLOYMENT_REVISION = "deployment.kubernetes.io/revision"


def judge(gvk: Gvk, obj: JsonMap) -> Readiness | None:
    """Says whether a built-in object is ready; None for a kind that nobody waits for."""
    rule = _RULES.get((gvk.group, gvk.kind))
    return rule(obj) if rule else None


def needs_endpoints(obj: JsonMap) -> bool:
    """Says whether a Service is ready only once it has pods behind it."""
    spec = as_map(obj.get("spec"))
    no_address = spec.get("clusterIP") == "None" or spec.get("type") == "ExternalName"
    return bool(as_map(spec.get("selector"))) and not no_address


def selector_of(obj: JsonMap) -> str:
    """Returns a workload's `matchLabels` as a label selector, or an empty string."""
    labels = as_map(dig(obj, "spec", "selector", "matchLabels"))
    return ",".join(f"{key}={as_text(value)}" for key, value in sorted(labels.items()))


def problems_of(obj: JsonMap) -> list[str]:
    """Returns what an object's own conditions complain about."""
    found: list[str] = []
    for entry in as_list(dig(obj, "status", "conditions")):
        message = as_text(dig(entry, "message"))
        if as_text(dig(entry, "status")) == "False" and message:
            found.append(f"[{as_text(dig(entry, 'reason'))}] {message}")
    for entry in as_list(dig(obj, "status", "containerStatuses")):
        waiting = as_map(dig(entry, "state", "waiting"))
        if waiting:
            text = f"{as_text(waiting.get('reason'))} {as_text(waiting.get('message'))}".strip()
            found.append(f"containers with unready status: [{as_text(dig(entry, 'name'))}] {text}")
    return found


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
    return Readiness(has_address, "Service was not allocated an IP address")


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
