"""What the nodes report of themselves, and whether a pass over the cluster would find news."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass

from components.core.record import record
from lab.cluster.devices import NodeDevices

REPORT_S = 2.0
SILENT_S = 10.0
"""A node whose K3s reported nothing for so long is down (a kubelet: 40 s; the lab is quicker)."""
QUIET_S = 5.0
"""At least one pass in so long: a process of an operator may have ended by itself."""


@record
class Report:
    """The last report of a node and when it came (`time.monotonic`)."""

    devices: NodeDevices
    seen_s: float


class Reports:
    """The nodes' reports, written by the supervisor's threads."""

    def __init__(self) -> None:
        """Start with no report at all."""
        self._reports: dict[str, Report] = {}
        self._lock = threading.Lock()

    def put(self, node: str, devices: NodeDevices) -> None:
        """Take the report of a node."""
        with self._lock:
            self._reports[node] = Report(devices, time.monotonic())

    def fresh(self) -> dict[str, NodeDevices]:
        """The devices of all nodes that are alive."""
        now = time.monotonic()
        with self._lock:
            items = list(self._reports.items())
        return {name: r.devices for name, r in items if now - r.seen_s < SILENT_S}


@dataclass(slots=True)
class Passes:
    """Keeps what the last pass saw: an idle cluster is not read twice a second."""

    revision: Hashable = None
    """Of etcd; whatever is written, by whomever, makes another one."""
    fresh: dict[str, NodeDevices] | None = None
    begun_s: float = 0.0

    def is_due(self, revision: Hashable, fresh: dict[str, NodeDevices], now_s: float) -> bool:
        """Whether a pass must begin now; if so it counts as begun.

        Args:
            revision: Of etcd, read before anything else is.
            fresh: The devices of all nodes that are alive.
            now_s: By `time.monotonic`.
        """
        same = revision == self.revision and fresh == self.fresh
        if same and now_s - self.begun_s < QUIET_S:
            return False
        self.revision, self.fresh, self.begun_s = revision, fresh, now_s
        return True

    def forget(self) -> None:
        """Let the next pass begin whatever it sees: something changes with time alone."""
        self.revision = self.fresh = None
