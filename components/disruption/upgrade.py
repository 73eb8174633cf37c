"""`railyard device upgrade-node`: take one K3s node out of service and change its release.

The cluster reports a node's release; a step's record does not count. Our annotation on the node
(`node.ANNOTATION`) lets the next run finish after a killed one: a node with the right release and
the annotation only returns to service.

A worker is drained first. A server is cordoned but not drained: K3s keeps containers running during
a restart (`KillMode=process`), and jobs run on workers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, cast

from components.core.errors import DeviceError, HostKeyError
from components.core.templates import fault_text
from components.disruption.node import Node, Turn, is_ready, open_node, part_of, run_alone
from components.disruption.request import READY_DEADLINE_S, NodeUpgrade, parse_upgrade
from components.kubernetes.client import Body, Calls
from components.kubernetes.planes.node_files import kubernetes_call, site_arguments

NODE_ARGUMENTS: Final = "k3s.io/node-args"
"""The annotation in which K3s records its start arguments (its pkg/nodeconfig)."""
START_DEADLINE_S: Final = 60.0
"""Seconds to wait for an API before its only server is restarted, since a killed run may have left
it stopped."""


@dataclass(slots=True)
class UpgradeRun(Turn[NodeUpgrade]):
    """One run, with the node's release at its start."""

    phase: str = "asking the cluster"
    found: str = ""

    def perform(self) -> dict[str, object]:
        """Upgrade the node, or finish an earlier run; do nothing if it already has the release."""
        self.loss = f"the API is away while K3s starts again on {self.request.name}"
        try:
            self._upgrade()
        except DeviceError as error:
            held = self.node is not None and self.node.held
            service = f"its node is {'cordoned' if held else 'not cordoned'} by us"
            last = f"K3s {self.found or 'of an unknown release'}; {service}"
            what = self._say_stuck(str(error), last, "Correct the fault above")
            raise type(error)(what) from error
        return {"before": self.found, "changed": self.done, "version": self.request.version}

    def _upgrade(self) -> None:
        calls = self._first_look()
        if calls is not None:
            self.node = open_node(self.request.node_name, calls, self, self.done)
            if self.node is None:
                return  # not a node yet: its install step will add it
            self.found = release_of(self.node.read() or {})
            if self._is_as_asked(self.node.read() or {}):
                if self.node.held:
                    self._return_to_service(self.node)
                return
            if self.request.reboots == "deny":
                other = self.found != self.request.version
                what = "its kubelet's alignment"
                what = f"an upgrade to {self.request.version}" if other else what
                raise DeviceError(fault_text(__file__, "denied-upgrade", self=self, what=what))
            self.phase, begun = "draining", self.node.held
            self._ask_to_go(calls)
            drains = self.request.role == "worker"
            self._take_out(self.node, ends_vfs=False, drains=drains, begun=begun)
        self.phase = f"installing K3s {self.request.version}"
        call = replace(kubernetes_call("k3s_install"), arguments=self.request.arguments)
        answer = self._on_host(call, self.request.install, self.request.install_deadline_s)
        report: dict[str, list[str]] = json.loads(answer.splitlines()[-1])
        self.done += [f"set {', '.join(report['changed'])}"] if report["changed"] else []
        self._return_to_service(self._awaited())

    def _is_as_asked(self, node: Body) -> bool:
        """Whether it runs the release with the kubelet arguments that K3s records on its node."""
        if release_of(node) != self.request.version:
            return False
        kubelet = site_arguments(kubelet_arguments_of(node))
        if self.request.kubelet:
            return kubelet == self.request.kubelet
        return not self.request.leaves or kubelet != self.request.leaves

    def _first_look(self) -> Calls | None:
        """Return the cluster; None if its only server does not answer and needs a restart."""
        only = self.request.role == "control_plane" and len(self.request.cluster.servers) == 1
        try:
            calls = self._patient_cluster(START_DEADLINE_S if only else READY_DEADLINE_S)
        except DeviceError as error:
            if not only or isinstance(error, HostKeyError):
                raise
            self.done.append("its API did not answer")
            return None
        if calls is None:
            raise DeviceError(fault_text(__file__, "no-kubeconfig"))
        return calls

    def _awaited(self) -> Node:
        self.phase = "waiting for the node"
        body: Body = {}
        for _ in self.tries(READY_DEADLINE_S):
            calls = self._patient_cluster(READY_DEADLINE_S)
            name = self.request.node_name
            node = open_node(name, calls, self, self.done) if calls else None
            body = node.read() or {} if node else {}
            if node is not None and is_ready(body) and self._is_as_asked(body):
                return node
        state = "Ready" if is_ready(body) else "not Ready"
        kubelet = site_arguments(kubelet_arguments_of(body)) or "no arguments of ours"
        words = {"release": release_of(body) or "no release", "limit_s": READY_DEADLINE_S}
        told = f", its kubelet with {kubelet}," if self.request.kubelet else ""
        raise DeviceError(fault_text(__file__, "not-upgraded", kubelet=told, state=state, **words))

    def _return_to_service(self, node: Node) -> None:
        self.phase, self.node = "putting it back into service", node
        node.await_service((), READY_DEADLINE_S)
        node.uncordon()


def release_of(node: Body) -> str:
    """Return the release that its kubelet reports; empty if it reports none."""
    return str(part_of(node, "status", "nodeInfo").get("kubeletVersion", ""))


def kubelet_arguments_of(node: Body) -> tuple[str, ...]:
    """Return its kubelet arguments from K3s' start arguments on its node."""
    notes = cast("Mapping[str, str]", part_of(node, "metadata", "annotations"))
    try:
        words = cast("list[str]", json.loads(notes.get(NODE_ARGUMENTS, "[]")))
    except ValueError:
        return ()
    return tuple(value for key, value in pairwise(words) if key == "--kubelet-arg")


def run_upgrade_node(text: str, environ: Mapping[str, str]) -> str:
    """Perform the request on stdin; the evidence is indented JSON."""
    request = parse_upgrade(text)
    lock = f"upgrade-{request.stack}-{request.name}"
    busy = f"another run has been upgrading {request.name}"
    return run_alone(UpgradeRun, request, environ, lock, busy)
