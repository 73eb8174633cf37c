"""The lab's node agent: what kubelet, CNI, device plugins and operators do on real nodes.

It works from two sources alone: what each node reports of its own /sys, and what the cluster's
objects say. Readiness is never scripted: a missing VF lowers the allocatable count and pods stay
Pending, a missing CNI part keeps a pod in ContainerCreating.
"""

from __future__ import annotations

import datetime as dt
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from components.errors import RailyardError
from lab.cluster.api import Api
from lab.cluster.attach import AttachError, Site, attach
from lab.cluster.device_plugin import DEFAULT_PREFIX, Pool, plan_pools
from lab.cluster.devices import NodeDevices
from lab.cluster.document import (
    Doc,
    Json,
    docs_at,
    name_of,
    namespace_of,
    pairs_at,
    text_at,
)
from lab.cluster.gpu_operator import (
    GPU,
    POLICIES,
    Policy,
    discovered_labels,
    gpus_of,
    operator_ready,
    policy_status,
)
from lab.cluster.lab_link import LabLink
from lab.cluster.mpi import MpiOperator
from lab.cluster.pod_events import report_sandbox_failure
from lab.cluster.pod_logs import PodLogs
from lab.cluster.pod_runner import Ended, World, run_pods
from lab.cluster.pod_view import CNI_DONE, EXIT_CODE, NETWORK_STATUS, NETWORKS, NodeState, Pod
from lab.cluster.pod_view import dump_status as dump_network_status

_PASS_S = 0.5
SILENT_S = 10.0
"""A node whose K3s reported nothing for so long is down (a kubelet: 40 s; the lab is quicker)."""
_DOWN = "lab.railyard.dev/down"
_NADS = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster's objects at the start of a pass."""

    nodes: Sequence[Doc]
    pods: Sequence[Pod]
    definitions: Mapping[str, Doc]
    policies: Sequence[Doc]
    deployments: Sequence[Doc]


class NodeAgent:
    """Reconciles all nodes and pods of one cluster, twice a second."""

    def __init__(
        self, api: Api, reports: Reports, logs: PodLogs, link: LabLink, mpi: MpiOperator
    ) -> None:
        """Prepare; nothing happens before `run`."""
        self._api = api
        self._reports = reports
        self._logs = logs
        self._link = link
        self._mpi = mpi
        self._plugin_configs: dict[str, str] = {}
        self._started_s = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Reconcile until told to stop; an error of one pass is logged and tried again."""
        while not stop.wait(_PASS_S):
            try:
                self.reconcile()
            except RailyardError as error:
                print(f"node agent: {error}", file=sys.stderr, flush=True)
            except Exception:  # noqa: BLE001 - a surprise must not stop all nodes; it is logged whole
                traceback.print_exc()
        self._mpi.stop()

    def reconcile(self) -> None:
        """Do one pass over everything."""
        snapshot = self._read()
        fresh = self._reports.fresh()
        states = {name_of(node): self._state(node, snapshot, fresh) for node in snapshot.nodes}
        self._settle_nodes(snapshot, states, fresh)
        alive = {name: state for name, state in states.items() if name in fresh}
        self._attach_pods(snapshot, alive)
        self._mpi.follow()
        world = World(alive, snapshot.pods, snapshot.definitions)
        for ended in run_pods(world, self._link, dt.datetime.now(dt.UTC)):
            self._end(ended)

    def _read(self) -> Snapshot:
        api = self._api
        definitions = api.items(_NADS)
        return Snapshot(
            nodes=api.items("/api/v1/nodes"),
            pods=[Pod(item) for item in api.items("/api/v1/pods")],
            definitions={f"{namespace_of(d)}/{name_of(d)}": d for d in definitions},
            policies=api.items(POLICIES),
            deployments=api.items("/apis/apps/v1/deployments"),
        )

    def _state(self, node: Doc, snapshot: Snapshot, fresh: Mapping[str, NodeDevices]) -> NodeState:
        name = name_of(node)
        pods = [pod for pod in snapshot.pods if pod.node == name]
        devices = fresh.get(name, NodeDevices())
        bare = NodeState(name, devices, (), pods)
        return NodeState(name, devices, self._pools(bare), pods)

    def _pools(self, node: NodeState) -> tuple[Pool, ...]:
        plugin = node.running("sriov-network-device-plugin")
        if plugin is None:
            return ()
        # The plugin reads its configuration when it starts and not again.
        if plugin.uid not in self._plugin_configs:
            self._plugin_configs[plugin.uid] = self._plugin_config(plugin)
        try:
            config = self._plugin_configs[plugin.uid]
            return plan_pools(config, node.devices.vfs, _prefix(plugin))
        except RailyardError as error:
            print(f"device plugin on {node.name}: {error}", file=sys.stderr, flush=True)
            return ()

    def _plugin_config(self, plugin: Pod) -> str:
        for volume in docs_at(plugin.document, "spec", "volumes"):
            name = text_at(volume, "configMap", "name")
            if not name:
                continue
            items = docs_at(volume, "configMap", "items")
            keys = [text_at(i, "key") for i in items if text_at(i, "path") == "config.json"]
            path = f"/api/v1/namespaces/{plugin.namespace}/configmaps/{name}"
            data = pairs_at(self._api.find(path), "data")
            text = data.get((keys or ["config.json"])[0], "")
            if text:
                return text
        return "{}"

    def _settle_nodes(
        self,
        snapshot: Snapshot,
        states: Mapping[str, NodeState],
        fresh: Mapping[str, NodeDevices],
    ) -> None:
        ready = operator_ready(snapshot.deployments)
        policies = [Policy(document, ready) for document in snapshot.policies]
        labels = {name_of(node): pairs_at(node, "metadata", "labels") for node in snapshot.nodes}
        for node in snapshot.nodes:
            name = name_of(node)
            if self._settle_liveness(node, alive=name in fresh):
                self._settle_labels(states[name], labels[name])
                gpus = gpus_of(states[name], policies[0] if policies else None, labels[name])
                self._settle_resources(node, states[name], gpus)
        for policy in policies:
            alive = [states[name] for name in fresh if name in states]
            self._settle_policy(policy, alive, labels)

    def _settle_liveness(self, node: Doc, *, alive: bool) -> bool:
        marked = _DOWN in pairs_at(node, "metadata", "annotations")
        settling = time.monotonic() - self._started_s < SILENT_S
        if marked == alive and not (settling and not alive):
            value: Json = None if alive else "k3s-silent"
            body: Doc = {"metadata": {"annotations": {_DOWN: value}}}
            self._api.merge(f"/api/v1/nodes/{name_of(node)}", body)
        return alive

    def _settle_labels(self, node: NodeState, labels: Mapping[str, str]) -> None:
        wanted = discovered_labels(node)
        missing: dict[str, Json] = {k: v for k, v in wanted.items() if labels.get(k) != v}
        if missing:
            self._api.merge(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": missing}})

    def _settle_resources(self, node: Doc, state: NodeState, gpus: int) -> None:
        wanted = {pool.resource: len(pool.devices) for pool in state.pools if pool.devices}
        if gpus:
            wanted[GPU] = gpus
        actual = pairs_at(node, "status", "allocatable")
        change: dict[str, Json] = {
            name: str(count) for name, count in wanted.items() if actual.get(name) != str(count)
        }
        gone = [n for n in actual if "/" in n and n not in wanted]
        change |= dict.fromkeys(gone)
        if change:
            body: Doc = {"status": {"capacity": change, "allocatable": dict(change)}}
            self._api.merge(f"/api/v1/nodes/{state.name}/status", body)

    def _settle_policy(
        self, policy: Policy, nodes: Sequence[NodeState], labels: Mapping[str, Mapping[str, str]]
    ) -> None:
        status = policy_status(policy, nodes, labels)
        if policy.document.get("status") != status:
            path = f"{POLICIES}/{name_of(policy.document)}/status"
            self._api.merge(path, {"status": status})

    def _attach_pods(self, snapshot: Snapshot, states: Mapping[str, NodeState]) -> None:
        for pod in snapshot.pods:
            waiting = pod.phase == "Pending" and pod.node in states and not pod.deleting
            if not waiting or NETWORKS not in pod.annotations or CNI_DONE in pod.annotations:
                continue
            used = {
                address for other in snapshot.pods if other.live for address in other.addresses()
            }
            site = Site(snapshot.definitions, frozenset(used))
            try:
                statuses = attach(pod, states[pod.node], site)
            except AttachError as error:
                report_sandbox_failure(self._api, pod, str(error))
                continue
            notes: dict[str, Json] = {CNI_DONE: "attached" if statuses else "default-only"}
            if statuses:
                notes[NETWORK_STATUS] = dump_network_status(statuses)
            self._api.merge(pod.path, {"metadata": {"annotations": notes}})
            # One at a time: the next pass sees this pod's devices and addresses as taken.
            return

    def _end(self, ended: Ended) -> None:
        self._logs.write(ended.pod, ended.log)
        notes: Doc = {EXIT_CODE: str(ended.exit_code)}
        self._api.merge(ended.pod.path, {"metadata": {"annotations": notes}})


def _prefix(plugin: Pod) -> str:
    for word in plugin.command:
        name, _, value = word.partition("=")
        if name == "--resource-prefix":
            return value
    return DEFAULT_PREFIX
