"""`railyard device drain-nodes` and `apply-drained`: drain nodes before switches or hosts change.

`drain-nodes` runs before the update changes a switch or a host. If one node cannot be drained, all
of them take pods again, and the update ends without changes.

`apply-drained` is for `disruption.ports: drain`: it first finds the ports that its changes
interrupt. It cordons and drains the nodes behind them, changes the switch, and uncordons the nodes.
An annotation on a node names the switch that it left for, so the next run can finish after a killed
one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, cast

from components.core.errors import DeviceError
from components.core.templates import fault_text
from components.disruption.leave_plan import FIELD, NodesLeave, PortsLeave, parse_leave
from components.disruption.node import (
    LOCK_DEADLINE_S,
    Clock,
    Node,
    check_quorum,
    is_ours,
    is_ready,
    open_cluster,
    open_node,
    refuse_too_many,
)
from components.disruption.request import READY_DEADLINE_S
from components.fabric import device
from components.kubernetes.client import Calls
from components.remote.host_session import run_on_hosts
from components.remote.lines import as_json, read_request
from components.remote.one_run import hold_lock

AT_ONCE: Final = 8
"""Nodes drained at once; each sends a request every two seconds."""


@dataclass(slots=True)
class LeaveRun(Clock):
    """One run and its progress."""

    request: NodesLeave
    cluster: Callable[[], Calls | None]
    passed_over: dict[str, str] = field(default_factory=dict[str, str])
    left: str = "the cluster"
    """What the nodes leave, in the text of a refusal."""
    untouched: str = "nothing was changed on a switch or a host"
    way_out: str = ", or put the host back into the file"

    def perform(self) -> dict[str, object]:
        """Cordon all nodes, then drain them; return the evidence."""
        calls = self.cluster() if self.request.nodes else None
        nodes = self._nodes(calls) if calls is not None else []
        fresh = [node for node in nodes if not node.held]
        try:
            for node in nodes:  # cordon all first, or pods would move from one to the next
                node.cordon(ends_vfs=False)
            self._drain(nodes)
        except DeviceError as error:
            for node in fresh:
                with suppress(DeviceError):
                    node.uncordon()
            done = "; ".join(f"{node.name}: {', '.join(node.done)}" for node in nodes if node.done)
            words = {"nodes": ", ".join(self.request.nodes), "error": error}
            done = done or "nothing"
            text = fault_text(__file__, "cannot-leave", self=self, done=done, **words)
            raise type(error)(text) from error
        changed = {node.name: node.done for node in nodes}
        return {"changed": changed, "passed_over": self.passed_over}

    def _nodes(self, calls: Calls) -> list[Node]:
        found: list[Node] = []
        for name in self.request.nodes:
            node = open_node(name, calls, self, [])
            if node is None:
                self.passed_over[name] = "it left the cluster"
            elif not is_ready(node.read() or {}):
                self.passed_over[name] = "it is not Ready: no kubelet would end its pods"
            else:
                found.append(node)
        return found

    def _drain(self, nodes: list[Node]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            runs = {n.name: pool.submit(n.drain, self.request.drain_deadline_s) for n in nodes}
        failed: list[str] = []
        for name, run in runs.items():
            try:
                run.result()
            except DeviceError as error:
                failed.append(f"{name}: {error}")
        if failed:
            raise DeviceError("; ".join(failed))


def run_drain_nodes(text: str, environ: Mapping[str, str]) -> str:
    """Perform the request on stdin; the evidence is indented JSON."""
    request = parse_leave(text)
    run = run_on_hosts(request.endpoints, environ)
    cluster = partial(open_cluster, request.cluster, ", ".join(request.nodes), run, environ)
    busy = "another run has been draining nodes of this stack"
    with hold_lock(f"drain-{request.stack}", busy, LOCK_DEADLINE_S):
        evidence = LeaveRun(request, cluster).perform()
    return json.dumps(evidence, indent=2, sort_keys=True) + "\n"


@dataclass(slots=True, kw_only=True)
class PortsRun(LeaveRun):
    """Drains the nodes of one switch while its ports change."""

    ports: PortsLeave
    served: list[str] = field(default_factory=list[str])
    """Nodes back in service after their ports changed."""

    def __post_init__(self) -> None:
        """Say in a refusal that nodes leave service, and not the cluster."""
        self.left = f"service for a change of {self.ports.switch}"
        self.untouched, self.way_out = "the switch was not touched", ""

    @contextmanager
    def out_of_service(self, ports: Sequence[str]) -> Generator[tuple[str, ...]]:
        """Keep the nodes behind some ports out of service; yields the drained ones.

        After a DeviceError about the cluster or a pod they take pods again; after a failed change
        only if the switch is unchanged, and the text names them.
        """
        names, calls = self.ports.behind(ports), self.cluster()
        if calls is None:
            yield ()  # no cluster yet, so no pods
            return
        known = [Node(name, calls, self) for name in {*self.ports.nodes.values()}]
        # An earlier run took these out of service for this switch.
        marked = [node for node in known if node.signed_for == self.ports.switch]
        self.request = replace(self.ports.leave, nodes=names)
        self._ask(calls, names)
        nodes = [Node(name, calls, self) for name in names]
        fresh = [node for node in nodes if node.name not in {each.name for each in marked}]
        try:
            for node in nodes:
                node.sign(self.ports.switch)
            left = self.perform()["changed"]
        except DeviceError:
            for node in fresh:
                node.sign(None)
            raise
        try:
            yield tuple(cast("Mapping[str, object]", left))
        except DeviceError as error:
            back = fresh if error.kept else []
            raise type(error)(f"{error}{self._became_of(nodes, back)}") from error
        for node in (*nodes, *(each for each in marked if each.name not in names)):
            if node.signed_for == self.ports.switch:
                node.await_service((), READY_DEADLINE_S)
                node.uncordon()
                node.sign(None)
        self.served += names

    def _became_of(self, nodes: Sequence[Node], back: Sequence[Node]) -> str:
        """Return some nodes to service after a failure, and describe the state of all."""
        for node in back:
            with suppress(DeviceError):
                node.uncordon()
                node.sign(None)
        switch, lines = self.ports.switch, ""
        if self.served:
            lines = f"\n  before  the ports of {', '.join(self.served)} were changed, and saved"
        returned = [node.name for node in back if "uncordoned" in node.done]
        stay = [node.name for node in nodes if _may_be_held(node)]
        if returned:
            lines += f"\n  nodes   {', '.join(returned)} take pods again: {switch} is as it was"
        if stay:
            words = {"nodes": ", ".join(stay), "switch": switch, "words": " ".join(stay)}
            lines += f"\n  {fault_text(__file__, 'stay-cordoned', **words)}"
        return lines

    def _ask(self, calls: Calls, names: Sequence[str]) -> None:
        workers = [name for name in names if name in self.ports.workers]
        refuse_too_many(calls, workers, self.ports.workers, self.ports.max_unavailable)
        for name in names:
            if name not in workers:
                check_quorum(calls, name, ())


def _may_be_held(node: Node) -> bool:
    """Whether our cordon is still on a node, or the cluster does not answer."""
    try:
        return is_ours(node.read() or {})
    except DeviceError:
        return True


def run_apply_drained(text: str, environ: Mapping[str, str]) -> str:
    """Apply a switch's request after the nodes behind its ports left service."""
    asked = json.dumps(json.loads(as_json(text)).get(FIELD))
    ports = read_request(PortsLeave, asked, "request to drain hosts behind ports")
    run = run_on_hosts(ports.endpoints, environ)
    cluster = partial(open_cluster, ports.leave.cluster, ports.switch, run, environ)
    busy = "hosts behind the ports of another switch are out of service"
    with hold_lock(f"ports-{ports.leave.stack}", busy, 2 * ports.leave.drain_deadline_s):
        away = PortsRun(ports.leave, cluster, ports=ports)
        return device.run_apply(text, environ, away.out_of_service, ports.groups)
