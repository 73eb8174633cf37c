"""The lab's node agent: what kubelet, CNI, device plugins and operators do on real nodes.

It works from two sources alone: what each node reports of its own /sys, and what the cluster's
objects say. Readiness is never scripted: a missing VF lowers the allocatable count and pods stay
Pending, a missing CNI part keeps a pod in ContainerCreating.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence

from components.core.errors import RailyardError
from components.core.record import record, replace
from lab.cluster.allocate import allocate, dump_allocation
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
from lab.cluster.etcd_members import Status
from lab.cluster.fake_nodes import HOST
from lab.cluster.gpu_operator import (
    GPU,
    POLICIES,
    Policy,
    discovered_labels,
    gpus_of,
    operator_ready,
    policy_status,
)
from lab.cluster.gpu_plugin import default_runtime, plugin_gpus
from lab.cluster.lab_link import LabLink
from lab.cluster.launcher import JOB_NAME, JOB_ROLE
from lab.cluster.mpi import MpiOperator
from lab.cluster.network_operator import (
    MOFED_WAIT,
    NicPolicy,
    network_operator_ready,
    nic_policy_status,
)
from lab.cluster.network_operator import POLICIES as NIC_POLICIES
from lab.cluster.nv_ipam import NodeStore
from lab.cluster.operator_parts import (
    policy_images,
    policy_pools,
    policy_shared,
    settle_blocks,
)
from lab.cluster.pod_events import report_sandbox_failure
from lab.cluster.pod_logs import PodLogs
from lab.cluster.pod_probe import World
from lab.cluster.pod_runner import is_awaited, run_pods
from lab.cluster.pod_start import why_not_started
from lab.cluster.pod_view import (
    CNI_DONE,
    DEVICES,
    EXIT_CODE,
    MESSAGE,
    MTUS,
    NETWORK_STATUS,
    NETWORKS,
    NOT_STARTED,
    NodeState,
    Pod,
    cni_of,
)
from lab.cluster.pod_view import dump_status as dump_network_status
from lab.cluster.pool_files import written_files
from lab.cluster.probe_end import Ended
from lab.cluster.reports import SILENT_S, Passes, Reports
from lab.cluster.shared_plugin import SharedPool, plan_shared
from lab.cluster.torch_pods import is_torch
from lab.cluster.whereabouts import KINDS, Whereabouts

_PASS_S = 0.5
_DOWN = "lab.railyard.dev/down"
_NADS = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"


@record
class Snapshot:
    """The cluster's objects at the start of a pass."""

    nodes: Sequence[Doc]
    pods: Sequence[Pod]
    definitions: Mapping[str, Doc]
    policies: Sequence[Doc]
    nic_policies: Sequence[NicPolicy]
    deployments: Sequence[Doc]
    address_pools: bool

    def labels(self) -> dict[str, dict[str, str]]:
        """The labels of all nodes."""
        return {name_of(node): pairs_at(node, "metadata", "labels") for node in self.nodes}


class NodeAgent:
    """Reconciles all nodes and pods of one cluster, twice a second while anything happens there."""

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
        self._stores = NodeStore()
        self._whereabouts = Whereabouts(api)
        self._started_s = time.monotonic()
        self._passes = Passes()

    def run(self, stop: threading.Event, ask: Callable[[], Status]) -> None:
        """Reconcile until told to stop; an error of one pass is logged and tried again.

        Args:
            stop: Ends it.
            ask: Asks etcd for the revision of its data.
        """
        while not stop.wait(_PASS_S):
            try:
                if self._passes.is_due(ask().revision, self._reports.fresh(), time.monotonic()):
                    self.reconcile()
            except RailyardError as error:
                print(f"node agent: {error}", file=sys.stderr, flush=True)
                self._passes.forget()
            except Exception:  # noqa: BLE001 - a surprise must not stop all nodes; it is logged whole
                traceback.print_exc()
                self._passes.forget()
        self._mpi.stop()

    def reconcile(self) -> None:
        """Do one pass over everything."""
        snapshot = self._read()
        fresh = self._reports.fresh()
        states = {name_of(node): self._state(node, snapshot, fresh) for node in snapshot.nodes}
        self._settle_nodes(snapshot, states, fresh)
        alive = {name: state for name, state in states.items() if name in fresh}
        if snapshot.address_pools:
            self._whereabouts.settle(snapshot.pods, alive)
        self._attach_pods(snapshot, alive)
        self._allocate_devices(snapshot, alive)
        self._mpi.follow()
        for ended in run_pods(self._world(snapshot, alive), self._link, dt.datetime.now(dt.UTC)):
            self._end(ended)
        if self._is_settling() or any(_moves(pod) for pod in snapshot.pods if pod.node in alive):
            self._passes.forget()

    def _read(self) -> Snapshot:
        api = self._api
        definitions = api.items(_NADS)
        deployments = api.items("/apis/apps/v1/deployments")
        nics_ready = network_operator_ready(deployments)
        return Snapshot(
            nodes=api.items("/api/v1/nodes"),
            pods=[Pod(item) for item in api.items("/api/v1/pods")],
            definitions={f"{namespace_of(d)}/{name_of(d)}": d for d in definitions},
            policies=api.items(POLICIES),
            nic_policies=[NicPolicy(item, nics_ready) for item in api.items(NIC_POLICIES)],
            deployments=deployments,
            address_pools=api.find(KINDS) is not None,
        )

    def _world(self, snapshot: Snapshot, alive: Mapping[str, NodeState]) -> World:
        running = [
            pod
            for pod in snapshot.pods
            if pod.phase == "Running" and EXIT_CODE not in pod.annotations
        ]
        launchers = [pod for pod in running if pod.labels.get(JOB_ROLE) == "launcher"]
        if not launchers and not any(map(is_torch, running)):
            return World(alive, snapshot.pods, snapshot.definitions)
        hostfiles: dict[str, str] = {}
        for pod in launchers:
            job = pod.labels.get(JOB_NAME, "")
            data = self._api.config_map(pod.namespace, f"{job}-config")
            hostfiles[f"{pod.namespace}/{job}"] = data.get("hostfile", "")
        services = self._api.items("/api/v1/services")
        headless = {
            f"{namespace_of(item)}/{name_of(item)}"
            for item in services
            if text_at(item, "spec", "clusterIP") == "None"
        }
        return World(alive, snapshot.pods, snapshot.definitions, hostfiles, frozenset(headless))

    def _state(self, node: Doc, snapshot: Snapshot, fresh: Mapping[str, NodeDevices]) -> NodeState:
        name = name_of(node)
        pods = [pod for pod in snapshot.pods if pod.node == name]
        labels = pairs_at(node, "metadata", "labels")
        policies = snapshot.nic_policies
        own = NodeState(
            name,
            fresh.get(name, NodeDevices()),
            (),
            pods,
            cni=cni_of(labels),
            brought=policy_images(policies),
            host=pairs_at(node, "metadata", "annotations").get(HOST, ""),
        )
        bare = replace(own, pool_files=written_files(own, self._api.config_map))
        pools = (*self._pools(bare), *policy_pools(policies, bare, labels))
        shared = (*self._shared(bare), *policy_shared(policies, bare, labels))
        return replace(bare, pools=pools, shared=shared)

    def _pools(self, node: NodeState) -> tuple[Pool, ...]:
        """What the SR-IOV device plugin on a node publishes."""
        plugin = node.running("sriov-network-device-plugin")
        if plugin is None:
            return ()
        try:
            return plan_pools(self._started_with(plugin), node.devices.functions, _prefix(plugin))
        except RailyardError as error:
            print(f"device plugin on {node.name}: {error}", file=sys.stderr, flush=True)
            return ()

    def _shared(self, node: NodeState) -> tuple[SharedPool, ...]:
        """What the RDMA shared device plugin on a node publishes."""
        plugin = node.running("k8s-rdma-shared-dev-plugin")
        if plugin is None:
            return ()
        try:
            return plan_shared(self._started_with(plugin), node.devices.cards)
        except RailyardError as error:
            print(f"shared device plugin on {node.name}: {error}", file=sys.stderr, flush=True)
            return ()

    def _started_with(self, plugin: Pod) -> str:
        """The configuration at a plugin's start: it reads the file once."""
        if plugin.uid not in self._plugin_configs:
            self._plugin_configs[plugin.uid] = self._plugin_config(plugin)
        return self._plugin_configs[plugin.uid]

    def _plugin_config(self, plugin: Pod) -> str:
        for volume in docs_at(plugin.document, "spec", "volumes"):
            name = text_at(volume, "configMap", "name")
            if not name:
                continue
            items = docs_at(volume, "configMap", "items")
            keys = [text_at(i, "key") for i in items if text_at(i, "path") == "config.json"]
            data = self._api.config_map(plugin.namespace, name)
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
        labels = snapshot.labels()
        for node in snapshot.nodes:
            name = name_of(node)
            if self._settle_liveness(node, alive=name in fresh):
                self._settle_labels(states[name], labels[name], snapshot.nic_policies)
                gpus = gpus_of(states[name], policies[0] if policies else None, labels[name])
                gpus = gpus or plugin_gpus(states[name], default_runtime(node, states[name]))
                self._settle_resources(node, states[name], gpus)
        for policy in policies:
            alive = [states[name] for name in fresh if name in states]
            status = policy_status(policy, alive, labels)
            self._settle_status(f"{POLICIES}/{name_of(policy.document)}", policy.document, status)
        for nics in snapshot.nic_policies:
            status = nic_policy_status(nics, fresh, labels)
            self._settle_status(f"{NIC_POLICIES}/{name_of(nics.document)}", nics.document, status)

    def _settle_liveness(self, node: Doc, *, alive: bool) -> bool:
        marked = _DOWN in pairs_at(node, "metadata", "annotations")
        if marked == alive and not (self._is_settling() and not alive):
            value: Json = None if alive else "k3s-silent"
            body: Doc = {"metadata": {"annotations": {_DOWN: value}}}
            self._api.merge(f"/api/v1/nodes/{name_of(node)}", body)
        return alive

    def _is_settling(self) -> bool:
        """Whether a node may still be alive that this server has not heard of."""
        return time.monotonic() - self._started_s < SILENT_S

    def _settle_labels(
        self, node: NodeState, labels: Mapping[str, str], policies: Sequence[NicPolicy]
    ) -> None:
        wanted = discovered_labels(node)
        if any(policy.serves(node.devices, labels) for policy in policies):
            wanted[MOFED_WAIT] = "false"
        missing: dict[str, Json] = {k: v for k, v in wanted.items() if labels.get(k) != v}
        if missing:
            self._api.merge(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": missing}})

    def _settle_resources(self, node: Doc, state: NodeState, gpus: int) -> None:
        wanted = {pool.resource: len(pool.devices) for pool in state.pools if pool.devices}
        wanted |= {pool.resource: pool.count for pool in state.shared if pool.count}
        if gpus:
            wanted[GPU] = gpus
        actual = pairs_at(node, "status", "allocatable")
        change: dict[str, Json] = {
            name: str(count) for name, count in wanted.items() if actual.get(name) != str(count)
        }
        gone = [n for n, count in actual.items() if "/" in n and n not in wanted and count != "0"]
        change |= dict.fromkeys(gone, "0")  # a kubelet keeps the name (howto/real-kernels.md)
        if change:
            body: Doc = {"status": {"capacity": change, "allocatable": dict(change)}}
            self._api.merge(f"/api/v1/nodes/{state.name}/status", body)

    def _settle_status(self, path: str, document: Doc, status: Doc) -> None:
        if document.get("status") != status:
            self._api.merge(f"{path}/status", {"status": status})

    def _allocate_devices(self, snapshot: Snapshot, states: Mapping[str, NodeState]) -> None:
        for pod in snapshot.pods:
            if pod.node not in states or not pod.live or pod.deleting:
                continue
            picked = allocate(pod, states[pod.node])
            if picked:
                notes: Doc = {DEVICES: dump_allocation(picked)}
                self._api.merge(pod.path, {"metadata": {"annotations": notes}})
                # One at a time: the next pass sees this pod's devices as taken.
                return

    def _attach_pods(self, snapshot: Snapshot, states: Mapping[str, NodeState]) -> None:
        blocks = settle_blocks(self._api, snapshot.nic_policies, snapshot.pods, snapshot.labels())
        for pod in snapshot.pods:
            if pod.node not in states or not _awaits_networks(pod):
                continue
            used = {each for other in snapshot.pods if other.live for each in other.addresses()}
            site = Site(
                snapshot.definitions,
                frozenset(used | self._whereabouts.taken()),
                snapshot.address_pools,
                self._link.ask_dhcp,
                blocks,
                self._stores,
            )
            try:
                attached = attach(pod, states[pod.node], site)
            except AttachError as error:
                report_sandbox_failure(self._api, pod, str(error))
                continue
            notes: dict[str, Json] = {CNI_DONE: "attached" if attached else "default-only"}
            if attached:
                self._whereabouts.keep(pod, states[pod.node], attached.reservations)
                notes[NETWORK_STATUS] = dump_network_status(attached.statuses)
                notes[MTUS] = json.dumps(dict(attached.mtus))
            world = World(states, snapshot.pods, snapshot.definitions)
            notes |= self._not_started(pod.noted(notes), world)
            self._api.merge(pod.path, {"metadata": {"annotations": notes}})
            # One at a time: the next pass sees this pod's devices and addresses as taken.
            return

    def _not_started(self, pod: Pod, world: World) -> dict[str, Json]:
        """Annotations of a pod whose container ends at once; empty where it runs."""
        end = why_not_started(pod, world)
        if end is None:
            return {}
        self._logs.write(pod, end.log)
        return {NOT_STARTED: end.reason, MESSAGE: end.message, EXIT_CODE: str(end.exit_code)}

    def _end(self, ended: Ended) -> None:
        self._logs.write(ended.pod, ended.log)
        notes: Doc = {EXIT_CODE: str(ended.exit_code)}
        self._api.merge(ended.pod.path, {"metadata": {"annotations": notes}})


def _awaits_networks(pod: Pod) -> bool:
    notes = pod.annotations
    waits = pod.phase == "Pending" and not pod.deleting
    return waits and NETWORKS in notes and CNI_DONE not in notes


def _moves(pod: Pod) -> bool:
    """What is asked again: a DHCP server may answer by now, a command's time may have come."""
    return _awaits_networks(pod) or is_awaited(pod)


def _prefix(plugin: Pod) -> str:
    for word in plugin.command:
        name, _, value = word.partition("=")
        if name == "--resource-prefix":
            return value
    return DEFAULT_PREFIX
