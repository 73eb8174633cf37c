"""Whether a probe runs now: what was asked for, what is free, and how much time is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from components.acceptance.collect.cluster_jobs import pause
from components.acceptance.collect.cluster_objects import Api
from components.acceptance.collect.cluster_use import (
    Body,
    Hindrance,
    NodeUse,
    find_hindrance,
    read_nodes,
)
from components.acceptance.evidence import ProbeEvidence
from components.acceptance.judge.image import judge_image
from components.acceptance.judge.site import NOT_ASKED
from components.acceptance.plan import Policy, ProbePlan
from components.core.errors import DeviceError

_FRESH_S: Final = 5.0
"""For how long a look at all nodes and pods is good: the lists are long on a large cluster."""
NOT_READY_WAIT_S: Final = 60.0
"""A kubelet that was just restarted reports within this time (its default lease is 40 s)."""
_PODS: Final = "/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
NEVER: Final = f"{NOT_ASKED}acceptance.accept is never"


@dataclass
class Turn:
    """Decides before each probe of one run whether it is run, and says why if not."""

    policy: Policy
    api: Api | None
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[], None] = pause
    _started_s: float = field(init=False)
    _waited_s: float = field(default=0.0, init=False)
    _seen: tuple[float, Mapping[str, NodeUse]] | None = field(default=None, init=False)
    _unfit: dict[str, str] = field(default_factory=dict[str, str], init=False)

    def __post_init__(self) -> None:
        """Begin to count the time."""
        self._started_s = self.clock()

    def why_skipped(self, probe: ProbePlan, objects: Sequence[Body]) -> str:
        """Why the probe is not run, as a sentence; empty if it is.

        It waits for what is busy as long as the site says.
        """
        if not self.policy.asked:
            return NEVER
        budget = self.policy.time_budget_s
        if budget is not None and self.clock() - self._started_s >= budget:
            return f"time: acceptance.time_budget_s of {budget:g} s was spent before"
        unfit = self._unfit.get(probe.job.image if probe.job else "", "")
        if unfit:
            return unfit
        found = self.hindrance(objects)
        return found.reason if found is not None and found.kind != "broken" else ""

    def hindrance(self, objects: Sequence[Body]) -> Hindrance | None:
        """What is in the way of a probe, after the waiting that the site allows."""
        found = find_hindrance(objects, self._nodes())
        allowed = self.policy.busy_wait_s if self.policy.when_busy == "wait" else 0.0
        while found is not None:
            limit = NOT_READY_WAIT_S if found.kind == "broken" else allowed
            if self._waited_s >= limit:
                return found
            before = self.clock()
            self.pause()
            self._waited_s += self.clock() - before
            found = find_hindrance(objects, self._nodes())
        return None

    def is_busy_now(self, objects: Sequence[Body]) -> str:
        """Why a probe that was not scheduled could not be: another pod was quicker."""
        self._seen = None
        found = find_hindrance(objects, self._nodes())
        return found.reason if found is not None and found.kind == "busy" else ""

    def learn(self, item: ProbeEvidence) -> None:
        """Keep what the look at an image showed: jobs in an unfit one are not begun."""
        image, name = item.probe.image, item.probe.name
        if item.probe.kind != "image" or item.outcome == "skipped":
            return
        if item.outcome == "completed" and item.image is not None:
            lacks = [each for each in judge_image(item, item.image) if each.verdict != "passed"]
            if lacks:
                self._unfit[image] = f"image: {lacks[0].actual} ({name})"
        else:
            self._unfit[image] = f"image: {image} could not be looked at ({name})"

    def _nodes(self) -> Mapping[str, NodeUse]:
        """All nodes as they are now; none where the cluster does not say."""
        now = self.clock()
        if self.api is None:
            return {}
        if self._seen is None or now - self._seen[0] >= _FRESH_S:
            try:
                nodes, pods = self.api.get("/api/v1/nodes"), self.api.get(_PODS)
            except DeviceError:
                nodes = pods = None
            items = (nodes or {}).get("items") or ()
            self._seen = (now, read_nodes(items, (pods or {}).get("items") or ()))
        return self._seen[1]
