"""`railyard device drain-nodes`: nodes that leave their cluster give up their pods.

It runs before the update changes a switch or a host. Where a node cannot be drained, all of them
take pods again: the update ends with nothing changed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Final

from components.core.errors import DeviceError
from components.disruption.access import open_cluster
from components.disruption.health import is_ready
from components.disruption.leave_plan import NodesLeave, parse_leave
from components.disruption.node import Node, open_node
from components.disruption.turn import LOCK_DEADLINE_S
from components.kubernetes.calls import Calls
from components.remote.host_runs import run_on_hosts
from components.remote.lock import hold_lock

AT_ONCE: Final = 8
"""Nodes that are drained together: each asks the API every two seconds."""


@dataclass(slots=True)
class LeaveRun:
    """One run, with what was done so far."""

    request: NodesLeave
    cluster: Callable[[], Calls | None]
    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = Event().wait
    passed_over: dict[str, str] = field(default_factory=dict[str, str])

    def perform(self) -> dict[str, object]:
        """Close all of them to new pods, then drain them; the evidence.

        Raises:
            DeviceError: Which node cannot leave, why, what was done, and the next command.
        """
        calls = self.cluster() if self.request.nodes else None
        nodes = self._nodes(calls) if calls is not None else []
        fresh = [node for node in nodes if not node.held]
        try:
            for node in nodes:  # all of them first, so that no pod moves from one to the other
                node.cordon(ends_vfs=False)
            self._drain(nodes)
        except DeviceError as error:
            for node in fresh:
                with suppress(DeviceError):
                    node.uncordon()
            raise type(error)(self._stuck(str(error), nodes)) from error
        return {
            "changed": {node.name: node.done for node in nodes},
            "passed_over": self.passed_over,
        }

    def _nodes(self, calls: Calls) -> list[Node]:
        """Those that are there and run pods."""
        found: list[Node] = []
        for name in self.request.nodes:
            node = open_node(name, calls, self.now, self.pause)
            if node is None:
                self.passed_over[name] = "it is no node any more"
            elif not is_ready(node.read() or {}):
                self.passed_over[name] = "it is not Ready: no kubelet would end its pods"
            else:
                found.append(node)
        return found

    def _drain(self, nodes: list[Node]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            failed = [words for words in pool.map(self._drain_one, nodes) if words]
        if failed:
            raise DeviceError("; ".join(failed))

    def _drain_one(self, node: Node) -> str:
        """Why it cannot be drained; empty when it is."""
        try:
            node.drain(self.request.drain_deadline_s)
        except DeviceError as error:
            return f"{node.name}: {error}"
        return ""

    def _stuck(self, what: str, nodes: list[Node]) -> str:
        names = ", ".join(self.request.nodes)
        done = "; ".join(f"{node.name}: {', '.join(node.done)}" for node in nodes if node.done)
        return (
            f"{names} cannot leave the cluster: {what}\n"
            f"  done   {done or 'nothing'}\n"
            "  next   nothing was changed on a switch or a host. End what holds the pods, or put"
            " the host back into the file, then run `pulumi up` again"
        )


def run_drain_nodes(text: str, environ: Mapping[str, str]) -> str:
    """Do what the request on stdin asks; the evidence is indented JSON.

    Raises:
        UsageError: It is no request, or a key is not in the environment.
        DeviceError: See `LeaveRun.perform`.
    """
    request = parse_leave(text)
    run = run_on_hosts(request.endpoints, environ)

    def cluster() -> Calls | None:
        return open_cluster(request.cluster, ", ".join(request.nodes), run, environ)

    busy = "another run has been draining nodes of this stack"
    with hold_lock(f"drain-{request.stack}", busy, LOCK_DEADLINE_S):
        evidence = LeaveRun(request, cluster).perform()
    return json.dumps(evidence, indent=2, sort_keys=True) + "\n"
