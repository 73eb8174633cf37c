"""What keeps pods off a node: it is absent, not ready, closed by a decision, or tainted. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Body = Mapping[str, Any]
Trouble = Literal["not ready", "cordoned", "tainted", "absent"]
_KEEPS_OUT: Final = frozenset({"NoSchedule", "NoExecute"})
_OF_NODE: Final = "node.kubernetes.io/"
"""Taints that Kubernetes sets itself for a condition; the condition is named in their place."""


@dataclass(frozen=True, slots=True)
class NodeTrouble:
    """One thing that keeps pods off one node."""

    kind: Trouble
    detail: str = ""

    def words(self, node: str) -> str:
        """What is wrong with the node, and how to mend it."""
        if self.kind == "absent":
            return f"node {node} is not in the cluster"
        if self.kind == "not ready":
            return f"node {node} is not ready: {self.detail}"
        if self.kind == "cordoned":
            return f"node {node} is cordoned: {self.detail}"
        return f"node {node} is tainted {self.detail}: kubectl taint node {node} {self.detail}-"


def troubles_of(node: Body, tolerations: Sequence[Body] = ()) -> Iterator[NodeTrouble]:
    """What keeps pods off a node.

    Args:
        node: The Node object.
        tolerations: Of the pods in question: a taint that they tolerate keeps none of them off.
    """
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
        own = str(taint["key"]).startswith(_OF_NODE)
        if taint.get("effect") in _KEEPS_OUT and not own and not _tolerated(taint, tolerations):
            value = f"={taint['value']}" if taint.get("value") else ""
            yield NodeTrouble("tainted", f"{taint['key']}{value}:{taint['effect']}")


def _tolerated(taint: Body, tolerations: Iterable[Body]) -> bool:
    """Source: Kubernetes' documentation, "Taints and Tolerations"."""

    def matches(each: Body) -> bool:
        if each.get("effect") and each["effect"] != taint.get("effect"):
            return False
        if each.get("operator") == "Exists":
            return each.get("key") in {None, "", taint["key"]}
        return each.get("key") == taint["key"] and (each.get("value") or "") == (
            taint.get("value") or ""
        )

    return any(matches(each) for each in tolerations)
