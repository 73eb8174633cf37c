"""Explain why an object is not ready, by its status, pods and events; or a node. Pure.

A node keeps pods off if it is absent, not ready, cordoned, or tainted.

Sources: Kubernetes' API types (DaemonSetStatus, DeploymentStatus, PodStatus); the states of
NicClusterPolicy (`status.appliedStates`) and the conditions of ClusterPolicy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from components.core.plain_text import one_line
from components.core.record import record
from components.kubernetes.manifest import list_at, map_at

Body = Mapping[str, Any]
_MOST: Final = 3
"""The number of pods of a workload to name; further ones are only counted."""
_LONGEST: Final = 200
"""Characters of one message: kubelet repeats whole names of images."""
_QUIET: Final = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons of a pod that still starts; its events name the cause of the wait."""
OPERATOR_POLICIES: Final = frozenset({"ClusterPolicy", "NicClusterPolicy"})
"""Kinds of the objects that tell the operators of the vendor what to do."""
Trouble = Literal["not ready", "cordoned", "tainted", "absent"]
_KEEPS_OUT: Final = frozenset({"NoSchedule", "NoExecute"})
_OF_NODE: Final = "node.kubernetes.io/"
"""Taints that Kubernetes sets itself for a condition; the condition is reported instead."""


@record
class NotReady:
    """One object, and why it is not ready."""

    name: str
    """`DaemonSet kube-system/multus`."""
    state: str
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line, and a line below it for each reason."""
        return "\n  ".join(map(one_line, (f"{self.name}: {self.state}", *self.why)))


def state_of(body: Body) -> str:
    """Why an object is not ready, by its status alone; empty if it is."""
    status, kind = map_at(body, "status"), body.get("kind")
    generation = map_at(body, "metadata").get("generation")
    if selects_pods(body):
        if generation is not None and int(status.get("observedGeneration") or 0) < int(generation):
            return "its controller has not seen the last change"
        wanted, ready = body["spec"].get("replicas", 1), status.get("readyReplicas", 0)
        updated = wanted
        if kind == "DaemonSet":
            wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
            updated = status.get("updatedNumberScheduled", wanted)
        if ready < wanted:
            return f"{ready} of {wanted} pods are ready"
        return f"{updated} of {wanted} pods are of the last change" if updated < wanted else ""
    if kind == "CustomResourceDefinition":
        conditions = {each["type"]: each for each in list_at(status, "conditions")}
        states = ((name, conditions.get(name, {})) for name in ("NamesAccepted", "Established"))
        faults = (
            f"{name} is not true: {found.get('message') or 'not judged yet'}"
            for name, found in states
            if found.get("status") != "True"
        )
        return next(faults, "")
    state = status.get("state", "not judged yet")
    if kind not in OPERATOR_POLICIES or state == "ready":
        return ""
    # An operator's policy: its state, and its message about each part not ready.
    parts = [
        f"{each.get('name')} {each.get('state')}{_colon(each.get('message'))}"
        for each in list_at(status, "appliedStates")
        if each.get("state") not in {"ready", "ignore"}
    ]
    conditions = [
        f"{each['type']}: {each.get('message')}"
        for each in list_at(status, "conditions")
        if each.get("message") and each.get("type") == "Error" and each.get("status") == "True"
    ]
    reason = [str(status["reason"])] if status.get("reason") else []
    return "; ".join([f"its state is {state}", *reason, *parts, *conditions])


def selects_pods(body: Body) -> bool:
    """Whether an object has pods that can explain why it is not ready."""
    return str(body.get("kind")) in {"DaemonSet", "Deployment"}


def reasons_of(pods: Sequence[Body], events: Iterable[Body]) -> tuple[str, ...]:
    """Why the pods of a workload are not ready, a line each, the longest explanation first."""
    times = ("lastTimestamp", "eventTime")
    ordered = sorted(events, key=lambda each: str(next(filter(None, map(each.get, times)), "")))
    last = {str(event.get("involvedObject", {}).get("name")): event for event in ordered}
    found: list[str] = []
    for pod in pods:
        name, node = pod["metadata"]["name"], pod.get("spec", {}).get("nodeName")
        conditions = [(each["type"], each) for each in list_at(pod, "status", "conditions")]
        reasons = [
            f"{each.get('reason')}: {_short(each.get('message'))}"
            for kind, each in conditions
            if kind == "PodScheduled" and each.get("status") == "False"
        ]
        status = map_at(pod, "status")
        keys = ("initContainerStatuses", "containerStatuses")
        for each in (each for key in keys for each in list_at(status, key)):
            if waiting := map_at(each, "state", "waiting"):
                # The message of its last end says more than that of the wait.
                ended = map_at(each, "lastState", "terminated").get("message")
                reason, said = str(waiting.get("reason")), _colon(ended or waiting.get("message"))
                reasons.append(reason if reason in _QUIET else f"{each['name']} {reason}{said}")
        ready = any(kind == "Ready" and each.get("status") == "True" for kind, each in conditions)
        if not reasons and (ready or status.get("phase") == "Succeeded"):
            continue
        event = last.get(name)
        if event is not None and all(each in _QUIET for each in reasons):
            reasons.append(f"{event.get('reason')}: {_short(event.get('message'))}")
        place = f"pod {name}{f' on {node}' if node else ''}"
        found.append(f"{place}: {'; '.join(reasons) or 'not ready yet'}")
    more = [f"and {len(found) - _MOST} more pods"] if len(found) > _MOST else []
    return (*found[:_MOST], *more)


def _colon(text: object) -> str:
    return f": {_short(text)}" if text else ""


def _short(text: object) -> str:
    words = " ".join(str(text or "").split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


@record
class NodeTrouble:
    """One fault that keeps pods off one node."""

    kind: Trouble
    detail: str = ""

    def words(self, node: str) -> str:
        """The node's fault, and the command that clears it."""
        words = {
            "absent": "is not in the cluster",
            "not ready": f"is not ready: {self.detail}",
            "cordoned": f"is cordoned: {self.detail}",
            "tainted": f"is tainted {self.detail}: kubectl taint node {node} {self.detail}-",
        }
        return f"node {node} {words[self.kind]}"


def troubles_of(node: Body, tolerations: Sequence[Body] = ()) -> Iterator[NodeTrouble]:
    """The faults that keep pods off a node; a taint that `tolerations` covers is none."""
    conditions: list[Body] = list(node.get("status", {}).get("conditions") or [])
    ready = next((each for each in conditions if each["type"] == "Ready"), None)
    if ready is None or ready.get("status") != "True":
        words = (ready or {}).get("message") or "it reports no condition Ready"
        yield NodeTrouble("not ready", str(words))
    spec = node.get("spec", {})
    if spec.get("unschedulable"):
        yield NodeTrouble("cordoned", "kubectl uncordon opens it")
    taints: list[Body] = list(spec.get("taints") or [])
    for taint in taints:
        key, value, effect = str(taint["key"]), taint.get("value") or "", taint.get("effect")
        # Kubernetes' documentation, "Taints and Tolerations".
        tolerated = any(
            each.get("key") in {None, "", key}
            if each.get("operator") == "Exists"
            else each.get("key") == key and (each.get("value") or "") == value
            for each in tolerations
            if each.get("effect") in {None, "", effect}
        )
        if effect in _KEEPS_OUT and not key.startswith(_OF_NODE) and not tolerated:
            shown = f"={value}" if value else ""
            yield NodeTrouble("tainted", f"{key}{shown}:{effect}")
