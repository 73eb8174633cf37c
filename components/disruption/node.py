"""Take one node of a cluster out of service, and return it: cordon, evict, later uncordon.

This uses the Kubernetes API as `kubectl drain` does: the eviction API respects disruption budgets,
and pods of DaemonSets and mirror pods stay (sources.md#reboots). The request that cordons also adds
an annotation that marks our cordon, so the next run can finish after a killed one, and foreign
cordons stay.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Final, Generic, TypeAlias, TypeVar, cast

from components.core.errors import DeviceError, HostKeyError, UnreachableError
from components.core.templates import fault_text
from components.disruption.request import HostReboot, NodeUpgrade
from components.kubernetes.client import Answer, Body, Calls, KubernetesCalls, read_kubeconfig
from components.kubernetes.planes.base import ClusterRef
from components.model.texts import unfold_names
from components.remote.host_session import Run, run_call, run_on_hosts
from components.remote.one_run import hold_lock
from components.remote.step import secrets_from
from components.remote.tools import ToolCall

POLL_S: Final = 2.0
"""Seconds between two requests."""
ANNOTATION: Final = "railyard/out-of-service"
"""On nodes that we cordoned: the resources offered before."""
SWITCH: Final = "railyard/out-of-service-for"
"""On nodes that left for a change of this switch's ports."""
MIRROR: Final = "kubernetes.io/config.mirror"
"""On the copy of a static pod, which eviction cannot end."""
PLUGIN_SOCKETS: Final = "/var/lib/kubelet/device-plugins"
"""Folder of device plugin sockets; a pod that mounts it is a device plugin (sources.md#reboots)."""
_GPU: Final = re.compile(r"/(gpu|mig)\b")
"""Matches resources that are certainly not VFs: `nvidia.com/gpu`, `nvidia.com/mig-1g.5gb`."""
SERVER_LABELS: Final = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/etcd",
    "node-role.kubernetes.io/master",
)
"""Labels of nodes that run the control plane (sources.md#reboots)."""
_OK: Final = 200
_CREATED: Final = (_OK, 201)
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
"""Answer of the eviction API if a disruption budget allows no more."""
Asked: TypeAlias = HostReboot | NodeUpgrade
"""A request on stdin: one node, and its cluster."""
LOCK_DEADLINE_S: Final = 60.0
"""Seconds to wait for another run's lock on the node; a killed engine may leave a run behind."""
_Request = TypeVar("_Request", bound=Asked)


@dataclass(slots=True, kw_only=True)
class Clock:
    """The time of a run, and how it waits."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = Event().wait

    def tries(self, deadline_s: float) -> Iterator[None]:
        """Begin a try every `POLL_S` seconds, until one ends after the deadline."""
        ends_at_s = self.now() + deadline_s
        yield
        while self.now() < ends_at_s:
            self.pause(POLL_S)
            yield


@dataclass(slots=True)
class Node:
    """A node, and the changes made to it."""

    name: str
    calls: Calls
    clock: Clock
    done: list[str] = field(default_factory=list[str])
    held: bool = False
    """Our cordon is on it, as far as this run knows."""

    def read(self) -> Body | None:
        """Return the node, or None if the cluster does not have it."""
        what = f"the cluster does not show node {self.name}"
        answer = self._call("GET", self._path, what, also=(_NOT_FOUND,))
        return None if answer.status == _NOT_FOUND else answer.body

    @property
    def _path(self) -> str:
        return f"/api/v1/nodes/{self.name}"

    def _call(
        self, verb: str, path: str, what: str, body: Body | None = None, also: tuple[int, ...] = ()
    ) -> Answer:
        answer = self.calls.call(verb, path, body)
        if answer.status not in {*_CREATED, *also}:
            raise DeviceError(f"{what}: {answer.words}")
        return answer

    def cordon(self, *, ends_vfs: bool) -> None:
        """Stop new pods, unless others cordoned the node; `ends_vfs`: its VFs will not return."""
        node = self.read() or {}
        ours, cordoned = is_ours(node), _is_cordoned(node)
        if cordoned and not ours:
            return
        offered = _recorded(node) if ours else sorted(_offered(node))
        kept = [each for each in offered if not ends_vfs or _GPU.search(each)]
        if not cordoned or kept != offered:
            self._patch({ANNOTATION: json.dumps(kept)}, unschedulable=True)
        if not cordoned:
            self.done.append("cordoned")
        self.held = True

    def drain(self, deadline_s: float) -> None:
        """Evict all evictable pods, and wait until they are gone; DeviceError names the rest."""
        left = self._pods()
        if orphans := [_name(pod) for pod in left if not _owner(pod)]:
            # Eviction would end them; kubectl refuses them too.
            raise DeviceError(fault_text(__file__, "ownerless", self=self, pods=", ".join(orphans)))
        evicted: dict[str, Body] = {}
        try:
            if left:
                self._evict_all(left, evicted, deadline_s)
        finally:  # evicted pods are gone, even if another pod stays
            local = [
                name
                for name, pod in evicted.items()
                if any("emptyDir" in volume for volume in _list_of(pod, "spec", "volumes"))
            ]
            if evicted:
                self.done.append(f"evicted {', '.join(evicted)}")
            if local:
                self.done.append(f"ended with their local data: {', '.join(local)}")

    def _evict_all(self, left: list[Body], evicted: dict[str, Body], deadline_s: float) -> None:
        """Repeat until no pods remain; `evicted` gets each pod whose eviction was granted."""
        held: dict[str, str] = {}
        for _ in self.clock.tries(deadline_s):
            held = {_name(pod): words for pod in left if (words := self._evict(pod, evicted))}
            left = self._pods()
            if not left:
                return
        stay = "; ".join(f"{_name(pod)} ({held.get(_name(pod)) or 'is ending'})" for pod in left)
        raise DeviceError(fault_text(__file__, "pods-left", limit_s=deadline_s, pods=stay))

    def restart_device_plugins(self) -> None:
        """Restart the device plugins, because they count devices only at their start."""
        plugins: list[Body] = []
        for pod in self._all_pods():
            mounts = (part_of(each, "hostPath") for each in _list_of(pod, "spec", "volumes"))
            paths = {str(each.get("path", "")).rstrip("/") for each in mounts}
            if PLUGIN_SOCKETS in paths and _owner(pod) == "DaemonSet" and not _is_over(pod):
                plugins.append(pod)
        for pod in plugins:
            what = f"pod {_name(pod)} cannot be restarted"
            self._call("DELETE", _path(pod), what, also=(202, _NOT_FOUND))
        if plugins:
            self.done.append(f"restarted {', '.join(_name(pod) for pod in plugins)}")

    def await_service(self, over: Collection[str], deadline_s: float) -> None:
        """Wait until the node is ready with a boot id outside `over`, and offers its resources."""
        missing = ""
        for _ in self.clock.tries(deadline_s):
            missing = self._missing(over)
            if not missing:
                return
        raise DeviceError(f"node {self.name} {missing} after {deadline_s:g} s")

    def _missing(self, over: Collection[str]) -> str:
        try:
            node = self.read()
        except DeviceError as error:  # a starting API refuses before it answers
            return f"cannot be seen: {error}"
        if node is None:
            return "is not in the cluster any more"
        if part_of(node, "status", "nodeInfo").get("bootID") in over:
            return "was not heard of since it booted"
        if not is_ready(node):
            return "is not Ready"
        offers = _offered(node)
        gone = [each for each in _recorded(node) if each not in offers]
        return f"does not offer {', '.join(gone)}" if gone else ""

    def uncordon(self) -> None:
        """Remove the cordon if it is ours."""
        node = self.read()
        if node is None or not is_ours(node):
            return
        self._patch({ANNOTATION: None}, unschedulable=None)
        self.held = False
        self.done.append("uncordoned")

    @property
    def signed_for(self) -> str | None:
        """The switch that the node left service for, as `sign` wrote it."""
        return _annotations(self.read() or {}).get(SWITCH)

    def sign(self, switch: str | None) -> None:
        """Record the switch before the node leaves service; None removes the record."""
        body: Body = {"metadata": {"annotations": {SWITCH: switch}}}
        what = f"node {self.name} cannot be marked"
        self._call("PATCH", self._path, what, body, also=(_NOT_FOUND,))

    def _patch(self, annotations: Mapping[str, str | None], *, unschedulable: bool | None) -> None:
        notes, spec = {"annotations": dict(annotations)}, {"unschedulable": unschedulable}
        what = f"node {self.name} cannot be cordoned or freed"
        self._call("PATCH", self._path, what, {"metadata": notes, "spec": spec})

    def _pods(self) -> list[Body]:
        return [
            pod
            for pod in self._all_pods()
            if not (_is_over(pod) or MIRROR in _annotations(pod) or _owner(pod) == "DaemonSet")
        ]

    def _all_pods(self) -> list[Body]:
        path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}"
        answer = self._call("GET", path, f"the pods of node {self.name} cannot be listed")
        return sorted(_list_of(answer.body, "items"), key=_name)

    def _evict(self, pod: Body, evicted: dict[str, Body]) -> str:
        """Request one eviction; return why the pod stays, or an empty text."""
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            return ""
        body: Body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            "deleteOptions": {"preconditions": {"uid": meta.get("uid")}},
        }
        also = (_NOT_FOUND, 409, _TOO_MANY)  # 409: the name belongs to another pod now
        what = f"pod {_name(pod)} cannot be evicted"
        answer = self._call("POST", f"{_path(pod)}/eviction", what, body, also)
        if answer.status in _CREATED:
            evicted[_name(pod)] = pod
        return answer.words if answer.status == _TOO_MANY else ""


def read_nodes(calls: Calls) -> Mapping[str, Body]:
    """Return all nodes of the cluster by name."""
    answer = calls.call("GET", "/api/v1/nodes")
    if answer.status != _OK:
        raise DeviceError(f"the nodes of the cluster cannot be listed: {answer.words}")
    return {str(node["metadata"]["name"]): node for node in _list_of(answer.body, "items")}


def part_of(body: Body, *keys: str) -> Body:
    """Return one part of an object, or an empty one."""
    for key in keys:
        body = cast("Body", body.get(key) or {})
    return body


def _list_of(body: Body, *keys: str) -> list[Body]:
    """Return a list in an object, or an empty one."""
    return cast("list[Body]", part_of(body, *keys[:-1]).get(keys[-1]) or [])


def is_ready(node: Body) -> bool:
    """Whether its condition Ready is True."""
    conditions = _list_of(node, "status", "conditions")
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def check_quorum(calls: Calls, host: str, planned: tuple[str, ...]) -> str:
    """Refuse to take a server out of service while another one is unhealthy.

    With one or two servers it is permitted, since no better time will come: the rest has no
    majority, so the API is down while the server boots. That loss is returned, in words. `planned`
    has all servers of the file; it is empty for an existing cluster, whose labels count.
    """
    nodes = read_nodes(calls)
    labels = {name: part_of(node, "metadata", "labels") for name, node in nodes.items()}
    servers = {name for name in nodes if not labels[name].keys().isdisjoint(SERVER_LABELS)}
    servers |= {*planned}
    others = sorted(servers - {host})
    if absent := ", ".join(each for each in others if not is_ready(nodes.get(each, {}))):
        words = {"absent": absent, "count": len(servers), "host": host}
        raise DeviceError(fault_text(__file__, "quorum", **words))
    if not others:
        return f"the API is away while {host}, its only server, boots"
    answer = calls.call("GET", "/readyz?verbose")
    bad = [line for line in answer.text.splitlines() if line.startswith("[-]")]
    if answer.status != _OK or bad:
        words = "; ".join(bad) or answer.words
        raise DeviceError(f"the cluster's API is not ready to lose {host}: {words}")
    if len(others) == 1:
        return f"the API is away while {host} boots: {others[0]} alone is not a majority of etcd"
    return ""


def open_node(name: str, calls: Calls, clock: Clock, done: list[str]) -> Node | None:
    """Return the node of a host, which adds to `done`; None if the cluster does not have it."""
    node = Node(name, calls, clock, done)
    found = node.read()
    if found is None:
        return None
    node.held = is_ours(found) and _is_cordoned(found)
    return node


def refuse_other_name(calls: Calls, host: str, boot_id: str) -> None:
    """Refuse a host that is a node under another name, with its boot id: it may run jobs."""
    for name, node in read_nodes(calls).items():
        if part_of(node, "status", "nodeInfo").get("bootID") == boot_id:
            words = {"host": host, "name": name, "boot_id": boot_id}
            raise DeviceError(fault_text(__file__, "other-name", **words))


def _is_cordoned(node: Body) -> bool:
    """Whether the node is cordoned."""
    return bool(part_of(node, "spec").get("unschedulable"))


def is_ours(node: Body) -> bool:
    """Whether one of our runs took it out of service and has not returned it."""
    return ANNOTATION in _annotations(node)


def _annotations(meta: Body) -> Mapping[str, str]:
    return part_of(meta, "metadata", "annotations")


def _offered(node: Body) -> frozenset[str]:
    """Return the extended resources that the node offers: GPUs and VFs, from device plugins."""
    allocatable = part_of(node, "status", "allocatable")
    return frozenset(name for name, count in allocatable.items() if "/" in name and count != "0")


def _recorded(node: Body) -> list[str]:
    try:
        found: object = json.loads(_annotations(node).get(ANNOTATION, "[]"))
    except ValueError:
        return []
    return [str(each) for each in cast("list[object]", found)] if isinstance(found, list) else []


def _name(pod: Body) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _path(pod: Body) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _owner(pod: Body) -> str:
    """Return the kind of the controller that would recreate the pod, or an empty text."""
    owners = _list_of(pod, "metadata", "ownerReferences")
    return next((str(each["kind"]) for each in owners if each.get("controller")), "")


def _is_over(pod: Body) -> bool:
    return part_of(pod, "status").get("phase") in {"Succeeded", "Failed"}


def open_cluster(
    cluster: ClusterRef,
    host: str,
    run: Run,
    environ: Mapping[str, str],
    connect: Callable[[str], Calls] = KubernetesCalls,
) -> Calls | None:
    """Open the cluster, at the API of `host` last; None: it does not exist yet, or DeviceError."""
    try:
        kubeconfig = read_kubeconfig(cluster, run, secrets_from(environ), last=host)
    except UnreachableError as error:
        words = f"cannot find out whether {host} must be drained: {error}"
        raise DeviceError(words) from error
    return None if kubeconfig is None else connect(kubeconfig)


def check_allowance(calls: Calls, request: Asked) -> None:
    """Refuse if this worker would exceed the file's limit of workers out of service.

    The hosts of a group ask at the same time. So each asks before its cordon, to refuse without
    changes, and again after it: if there are too many, the last one to cordon sees all others.
    """
    name, most = request.node_name, max(1, request.max_unavailable)
    nodes = read_nodes(calls)
    workers = unfold_names(request.workers)
    away = [each for each in workers if each != name and _is_away(nodes, each)]
    if len(away) < most:
        return
    leaving = [each for each in away if each in request.group and is_ours(nodes[each])]
    out = ", ".join(each for each in away if each not in leaving)
    with_it = f"{', '.join(leaving)} of its group left before it, and " if leaving else ""
    words = {"out": out, "with_it": with_it, "name": name, "count": len(away) + 1}
    raise DeviceError(fault_text(__file__, "allowance", request=request, **words))


def refuse_too_many(
    calls: Calls, names: Sequence[str], workers: Sequence[str], max_unavailable: int
) -> None:
    """Refuse if workers that leave together, and those out already, would exceed the limit."""
    nodes = read_nodes(calls)
    away = [each for each in workers if each not in names and _is_away(nodes, each)]
    count = len(names) + len(away)
    if names and count > max_unavailable:
        out = f", and {', '.join(away)} is out of service already" if away else ""
        words = {"names": ", ".join(names), "out": out, "limit": max_unavailable}
        raise DeviceError(fault_text(__file__, "too-many", count=count, **words))


def _is_away(nodes: Mapping[str, Body], name: str) -> bool:
    """Whether a node is not Ready, or cordoned. A host without a node runs no jobs."""
    node = nodes.get(name)
    return node is not None and (_is_cordoned(node) or not is_ready(node))


@dataclass(slots=True)
class Turn(Clock, Generic[_Request]):
    """One run: the request, connections to host and cluster, and its progress."""

    request: _Request
    run: Run
    cluster: Callable[[], Calls | None]
    done: list[str] = field(default_factory=list[str])
    phase: str = "the first look"
    node: Node | None = None
    loss: str = ""
    """What is lost while this server is down, if it is not a boot."""

    def perform(self) -> dict[str, object]:
        """Do the work, or finish an earlier run; return the evidence."""
        raise NotImplementedError

    def _patient_cluster(self, deadline_s: float) -> Calls | None:
        """Open the cluster, and wait for its API if its only server is starting."""
        failed = DeviceError("the cluster was not asked")
        for _ in self.tries(deadline_s):
            try:
                calls = self.cluster()
                if calls is not None:
                    read_nodes(calls)
            except HostKeyError:
                raise
            except DeviceError as error:  # a starting API refuses before it answers
                failed = error
            else:
                return calls
        raise failed

    def _ask_to_go(self, calls: Calls) -> None:
        if self.request.role != "control_plane":
            check_allowance(calls, self.request)
            return
        planned = self.request.cluster.servers if self.request.cluster else ()
        names = tuple(each.node_name for each in planned)
        lost = check_quorum(calls, self.request.node_name, names)
        said = self.loss or lost
        if lost and said not in self.done:
            self.done.append(said)

    def _take_out(self, node: Node, *, ends_vfs: bool, drains: bool, begun: bool) -> None:
        """Cordon and drain the node; undo both after a refusal, unless an earlier run began."""
        self.phase = "draining"
        try:
            node.cordon(ends_vfs=ends_vfs)
            self._ask_to_go(node.calls)  # another host of its group may have asked at the same time
            if drains:
                node.drain(self.request.drain_deadline_s)
        except DeviceError:
            if not begun:  # without changes yet, do not leave a node idle
                with suppress(DeviceError):
                    self._stay(node)
            raise

    def _stay(self, node: Node) -> None:
        node.uncordon()

    def _on_host(self, call: ToolCall, stdin: str, deadline_s: float) -> str:
        answer = run_call(self.run, self.request.endpoint, call, stdin, deadline_s)
        if answer.exit_status:
            words = answer.stderr.strip() or f"status {answer.exit_status} and no words"
            raise DeviceError(words)
        return answer.stdout

    def _say_stuck(self, what: str, last: str, look: str) -> str:
        """Return the text for a failed run; `look` is the user's task before the next one."""
        words = {"what": what, "last": last, "done": ", ".join(self.done) or "nothing"}
        return fault_text(__file__, "stuck", self=self, look=look, **words)


def run_alone(
    make: Callable[[_Request, Run, Callable[[], Calls | None]], Turn[_Request]],
    request: _Request,
    environ: Mapping[str, str],
    name: str,
    busy: str,
) -> str:
    """Run one node's turn under a lock; the evidence is indented JSON."""
    run = run_on_hosts(request.endpoints, environ)

    def cluster() -> Calls | None:
        if request.cluster is None:
            return None
        return open_cluster(request.cluster, request.endpoint.device, run, environ)

    with hold_lock(name, busy, LOCK_DEADLINE_S):
        evidence = make(request, run, cluster).perform()
    return json.dumps(evidence, indent=2, sort_keys=True) + "\n"
