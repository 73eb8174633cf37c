"""Whether a probe runs now: is it asked for, are its nodes free, and is time left?"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

from components.acceptance.acceptance_plan import Policy, ProbePlan
from components.acceptance.collect.cluster_jobs import Api, Body, Patience, pause
from components.acceptance.evidence import ProbeEvidence
from components.acceptance.judge.site import NOT_ASKED
from components.acceptance.judge.workload_findings import judge_image
from components.core.errors import DeviceError
from components.core.record import record
from components.jobs.templates import GPU
from components.kubernetes.live.why import troubles_of
from components.kubernetes.manifest import map_at

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_HOST: Final = "kubernetes.io/hostname"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_WORKER: Final = ("spec", "mpiReplicaSpecs", "Worker")
_POD_OF: Final = {
    "MPIJob": (*_WORKER, "template", "spec"),
    "Job": ("spec", "template", "spec"),
    "Pod": ("spec",),
}
"""Kind to the place of its pods, of an MPIJob those of its workers."""
_FRESH_S: Final = 5.0
"""Seconds for which a list of all nodes and pods stays valid: a large cluster has long ones."""
NOT_READY_WAIT_S: Final = 60.0
"""A restarted kubelet reports within this time (its default lease is 40 s)."""
_PODS: Final = "/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
PROGRESS: Final = "progress.txt"  # in the folder of a run, until it ends
NEVER: Final = f"{NOT_ASKED}acceptance.accept is never"


@record
class NodeUse:
    """One node: its resources, and how much of them each pod holds."""

    name: str
    offers: Mapping[str, int] = field(default_factory=dict[str, int])
    """Extended resource to count."""
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """Extended resource to pod (`namespace/name`) to count."""
    node: Body | None = field(default=None, repr=False)
    """The Node object; None if the cluster has no such node."""


@record
class Need:
    """The resources that pods of a probe need, each pod on a separate node."""

    nodes: tuple[str, ...]
    """Nodes that may take them."""
    count: int
    resources: Mapping[str, int]
    tolerations: tuple[Body, ...] = ()


@record
class Hindrance:
    """Why a probe cannot run now."""

    kind: Literal["busy", "closed", "broken"]
    """`busy`: pods hold the resources that it needs. `closed`: an administrator has closed a node
    to pods. `broken`: a node is missing or not ready."""
    reason: str


def read_nodes(nodes: Iterable[Body], pods: Iterable[Body]) -> dict[str, NodeUse]:
    """The nodes of a cluster by name."""
    held: dict[str, dict[str, dict[str, int]]] = {}
    for pod in pods:
        node = pod.get("spec", {}).get("nodeName")
        if not node or pod.get("status", {}).get("phase") in _ENDED:
            continue
        meta = pod["metadata"]
        for resource, count in _requests(pod["spec"]).items():
            by_pod = held.setdefault(node, {}).setdefault(resource, {})
            by_pod[f"{meta.get('namespace', 'default')}/{meta['name']}"] = count
    found: dict[str, NodeUse] = {}
    for node in nodes:
        name, offers = node["metadata"]["name"], _counts(map_at(node, "status", "allocatable"))
        found[name] = NodeUse(name, offers, held.get(name, {}), node)
    return found


def _counts(amounts: Mapping[str, Any]) -> dict[str, int]:
    """The extended resources among amounts: only their names have a domain."""
    return {name: int(count) for name, count in amounts.items() if "/" in name}


def _requests(spec: Body) -> dict[str, int]:
    """Add up a pod's requests as the scheduler does: all containers, or a larger init container."""
    running = list(spec.get("containers") or [])
    first = list(spec.get("initContainers") or [])
    running += [each for each in first if each.get("restartPolicy") == "Always"]
    total = Counter[str]()
    for container in running:
        total.update(_of_container(container))
    for container in first:
        total |= Counter(_of_container(container))
    return {name: count for name, count in total.items() if count}


def _of_container(container: Body) -> dict[str, int]:
    # A limit of an extended resource is its request too.
    parts = (map_at(container, "resources", key) for key in ("limits", "requests"))
    return _counts({name: count for part in parts for name, count in part.items()})


def needs_of(objects: Sequence[Body]) -> Iterator[Need]:
    """The resources that the pods of a probe need, and the nodes that may give them."""
    for body in objects:
        if path := _POD_OF.get(body["kind"]):
            spec, workers = map_at(body, *path), map_at(body, *_WORKER)
            tolerations = tuple(spec.get("tolerations") or ())
            count = int(workers.get("replicas", 1))
            required = map_at(spec, "affinity", "nodeAffinity", _REQUIRED)
            allowed: list[str] = [
                name
                for term in required.get("nodeSelectorTerms") or ()
                for each in term.get("matchExpressions") or ()
                if each["key"] == _HOST and each["operator"] == "In"
                for name in each["values"]
            ]
            selected: str | None = map_at(spec, "nodeSelector").get(_HOST)
            nodes = (selected,) if selected else tuple(allowed)
            yield Need(nodes, count, _requests(spec), tolerations)


def find_hindrance(objects: Sequence[Body], nodes: Mapping[str, NodeUse]) -> Hindrance | None:
    """The gravest reason why a probe could not run now; None if it can, or without known nodes.

    A node that offers too little does not count: a device plugin may be about to register, and the
    scheduler names the shortage best.
    """
    found: list[Hindrance] = []
    for need in needs_of(objects) if nodes else ():
        uses = [nodes.get(name, NodeUse(name)) for name in need.nodes]
        own = [each for use in uses if (each := _hindrance(use, need)) is not None]
        found += own if len(uses) - len(own) < need.count else []
    order = ("broken", "closed", "busy")
    return min(found, key=lambda each: order.index(each.kind), default=None)


def lacks_places(objects: Sequence[Body], nodes: Mapping[str, NodeUse]) -> bool:
    """Whether too few nodes offer the resources of the probe's pods, free or in use."""
    for need in needs_of(objects) if nodes else ():
        offers = [nodes[name].offers for name in need.nodes if name in nodes]
        wanted = need.resources.items()
        fit = sum(all(each.get(name, 0) >= count for name, count in wanted) for each in offers)
        if need.nodes and fit < need.count:
            return True
    return False


def _hindrance(use: NodeUse, need: Need) -> Hindrance | None:
    if use.node is None:
        return Hindrance("broken", f"{use.name} is not a node of the cluster")
    trouble = next(troubles_of(use.node, need.tolerations), None)
    if trouble is not None:
        if trouble.kind == "not ready":
            return Hindrance("broken", trouble.words(use.name))
        words = f"{trouble.kind}: node {use.name} refuses pods ({trouble.detail})"
        return Hindrance("closed", words)
    for resource, count in need.resources.items():
        offered, holders = use.offers.get(resource, 0), use.held.get(resource, {})
        taken = sum(holders.values())
        if offered >= count > offered - taken:
            shares = ", ".join(f"{pod} ({held})" for pod, held in sorted(holders.items()))
            who = f"pods {shares} use" if len(holders) > 1 else f"pod {next(iter(holders))} uses"
            things = "GPUs" if resource == GPU else resource
            words = f"busy: {who} {taken} of {offered} {things} of {use.name}"
            return Hindrance("busy", words)
    return None


@dataclass
class Turn:
    """Decides before each probe of one run whether it is run, and says why if not."""

    policy: Policy
    api: Api | None
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[], None] = pause
    progress: Path | None = None
    """The file with the current action of the run: Pulumi shows no output of a running step."""
    probes: Sequence[ProbePlan] = ()
    _started_s: float = field(init=False)
    _waited_s: float = field(default=0.0, init=False)
    _seen: tuple[float, Mapping[str, NodeUse]] | None = field(default=None, init=False)
    _one_look: Lock = field(default_factory=Lock, init=False)
    _unfit: dict[str, str] = field(default_factory=dict[str, str], init=False)
    _places: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count the time."""
        self._started_s = self.clock()
        self._places = {each.probe.name: place for place, each in enumerate(self.probes, 1)}

    def why_skipped(self, probe: ProbePlan, objects: Sequence[Body]) -> str:
        """Why the probe is not run, in a sentence, after a wait for busy nodes; empty if it is."""
        if not self.policy.asked:
            return NEVER
        budget = self.policy.time_budget_s
        if budget is not None and self.clock() - self._started_s >= budget:
            return f"time: acceptance.time_budget_s of {budget:g} s was spent before"
        if unfit := self._unfit.get(probe.job.image if probe.job else ""):
            return unfit
        found = self.hindrance(objects, probe.probe.name)
        return found.reason if found is not None and found.kind != "broken" else ""

    def patience(self, name: str, objects: Sequence[Body], place_s: float | None) -> Patience:
        """How to wait for a probe that runs now."""
        self._tell(name, "is run")
        return Patience(
            place_s, lambda: lacks_places(objects, self.nodes()), partial(self._tell, name)
        )

    def _tell(self, name: str, words: str) -> None:
        place = self._places.get(name)
        number = f"probe {place} of {len(self._places)}, " if place else ""
        if self.progress:
            with suppress(OSError):  # a full disk ends no probe
                self.progress.write_text(f"acceptance: {number}{name}: {words}\n")

    def hindrance(self, objects: Sequence[Body], name: str = "a probe") -> Hindrance | None:
        """Wait as long as the site allows, and give the reason if the probe still cannot run."""
        found = find_hindrance(objects, self.nodes())
        allowed = self.policy.busy_wait_s if self.policy.when_busy == "wait" else 0.0
        while found is not None:
            limit = NOT_READY_WAIT_S if found.kind == "broken" else allowed
            if self._waited_s >= limit:
                return found
            self._tell(name, found.reason)
            before = self.clock()
            self.pause()
            self._waited_s += self.clock() - before
            found = find_hindrance(objects, self.nodes())
        return None

    def why(
        self, kind: Literal["busy", "broken"], objects: Sequence[Body], *, again: bool = False
    ) -> str:
        """Which pods hold the resources of a probe, or which of its nodes is missing or not ready.

        `again` reads the nodes again: a pod could not be scheduled, as another one was quicker.
        """
        self._seen = None if again else self._seen
        found = find_hindrance(objects, self.nodes())
        return found.reason if found is not None and found.kind == kind else ""

    def learn(self, item: ProbeEvidence) -> None:
        """Keep the result for an image: jobs do not start in an unfit image."""
        image, name = item.probe.image, item.probe.name
        if item.probe.kind != "image" or item.outcome == "skipped":
            return
        if item.outcome == "completed" and item.image is not None:
            lacks = [each for each in judge_image(item, item.image) if each.verdict != "passed"]
            if lacks:
                self._unfit[image] = f"image: {lacks[0].actual} ({name})"
        else:
            self._unfit[image] = f"image: {image} could not be inspected ({name})"

    def nodes(self) -> Mapping[str, NodeUse]:
        """All nodes as they are now, by name; empty if the cluster gives no answer."""
        if self.api is None:
            return {}
        with self._one_look:  # the probes of a round ask at once
            now, seen = self.clock(), self._seen
            if seen is None or now - seen[0] >= _FRESH_S:
                try:
                    nodes, pods = self.api.get("/api/v1/nodes"), self.api.get(_PODS)
                except DeviceError:
                    nodes = pods = None
                items = (nodes or {}).get("items") or ()
                seen = self._seen = (now, read_nodes(items, (pods or {}).get("items") or ()))
            return seen[1]
