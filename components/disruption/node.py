"""One host as a node of its cluster: cordon, evict, and back into service.

All goes through the Kubernetes API as `kubectl drain` does it: the eviction API respects
disruption budgets, pods of DaemonSets and mirror pods stay (sources.md#reboots). An annotation
says that the cordon is ours, in the same request that cordons: a run that was killed can then be
finished, and a cordon of other origin stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from components.core.errors import DeviceError
from components.disruption.health import is_ready, part_of, read_nodes
from components.kubernetes.client import Body, Calls

POLL_S: Final = 2.0
"""Seconds between two looks."""
ANNOTATION: Final = "railyard/out-of-service"
"""On a node that we cordoned: what it offered before."""
SWITCH: Final = "railyard/out-of-service-for"
"""On a node that left for a change of this switch's ports."""
MIRROR: Final = "kubernetes.io/config.mirror"
"""On the copy of a static pod, which no eviction ends."""
PLUGIN_SOCKETS: Final = "/var/lib/kubelet/device-plugins"
"""Where device plugins talk to the kubelet: a pod that mounts it is one (sources.md#reboots)."""
_GPU: Final = re.compile(r"/(gpu|mig)\b")
"""In the name of what certainly comes from no VF: `nvidia.com/gpu`, `nvidia.com/mig-1g.5gb`."""
_CREATED: Final = (200, 201)
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
"""What the eviction API answers while a disruption budget allows no more."""


@dataclass(slots=True)
class Node:
    """A host that is a node, and what was done to it."""

    name: str
    calls: Calls
    now: Callable[[], float]
    pause: Callable[[float], object]
    done: list[str] = field(default_factory=list[str])
    held: bool = False
    """A cordon of ours is on it, as far as this run has seen."""

    def read(self) -> Body | None:
        """The node, or None where the cluster has none of that name.

        Raises:
            DeviceError: The cluster refuses to say.
        """
        answer = self.calls.call("GET", f"/api/v1/nodes/{self.name}")
        if answer.status == _NOT_FOUND:
            return None
        if answer.status not in _CREATED:
            raise DeviceError(f"the cluster does not show node {self.name}: {answer.words}")
        return answer.body

    def cordon(self, *, ends_vfs: bool) -> None:
        """Take no more pods; nothing is changed on a node with another cordon.

        Args:
            ends_vfs: This run takes VFs away, so that the node must not offer them again.
        """
        node = self.read() or {}
        ours, cordoned = is_ours(node), is_cordoned(node)
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
        """Evict all pods that can be evicted, and wait until they are gone.

        Raises:
            DeviceError: A pod has no owner that would recreate it, or pods are left after the
                deadline: their names, and the words of what holds them.
        """
        left = self._pods()
        _refuse_orphans(self.name, left)
        evicted: dict[str, Body] = {}
        try:
            self._evict_all(left, evicted, deadline_s)
        finally:  # what was evicted is gone, also where another pod stays
            local = [name for name, pod in evicted.items() if _has_local_data(pod)]
            if evicted:
                self.done.append(f"evicted {', '.join(evicted)}")
            if local:
                self.done.append(f"ended with their local data: {', '.join(local)}")

    def _evict_all(self, left: list[Body], evicted: dict[str, Body], deadline_s: float) -> None:
        """Go on until none is left; `evicted` gets each pod whose eviction was granted."""
        ends_at_s = self.now() + deadline_s
        held: dict[str, str] = {}
        while left:
            held = {_name(pod): words for pod in left if (words := self._evict(pod, evicted))}
            left = self._pods()
            if left and self.now() >= ends_at_s:
                raise DeviceError(_still_there(left, held, deadline_s))
            if left:
                self.pause(POLL_S)

    def restart_device_plugins(self) -> None:
        """Let the plugins look again at what the host has: they count devices when they start.

        Raises:
            DeviceError: The cluster refuses it.
        """
        plugins = [pod for pod in self._all_pods() if _is_device_plugin(pod)]
        for pod in plugins:
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            answer = self.calls.call("DELETE", path)
            if answer.status not in {*_CREATED, 202, _NOT_FOUND}:
                raise DeviceError(f"pod {_name(pod)} cannot be restarted: {answer.words}")
        if plugins:
            self.done.append(f"restarted {', '.join(_name(pod) for pod in plugins)}")

    def await_service(self, over: Collection[str], deadline_s: float) -> None:
        """Wait until the node is ready with the boot of now, and offers what it offered before.

        Args:
            over: Boot ids that are over: the node shows the last of them until it is heard of.
            deadline_s: Seconds.

        Raises:
            DeviceError: It does not, within the deadline.
        """
        ends_at_s = self.now() + deadline_s
        while True:
            missing = self._missing(over)
            if not missing:
                return
            if self.now() >= ends_at_s:
                raise DeviceError(f"node {self.name} {missing} after {deadline_s:g} s")
            self.pause(POLL_S)

    def _missing(self, over: Collection[str]) -> str:
        try:
            node = self.read()
        except DeviceError as error:  # an API that starts refuses before it answers
            return f"cannot be seen: {error}"
        if node is None:
            return "is not in the cluster any more"
        info = cast("Mapping[str, str]", part_of(node, "status").get("nodeInfo") or {})
        if info.get("bootID") in over:
            return "was not heard of since it booted"
        if not is_ready(node):
            return "is not Ready"
        offers = _offered(node)
        gone = [each for each in _recorded(node) if each not in offers]
        return f"does not offer {', '.join(gone)}" if gone else ""

    def uncordon(self) -> None:
        """Let pods come back, where the cordon is ours."""
        node = self.read()
        if node is None or not is_ours(node):
            return
        self._patch({ANNOTATION: None}, unschedulable=None)
        self.held = False
        self.done.append("uncordoned")

    @property
    def signed_for(self) -> str | None:
        """The switch for which it is out of service, as `sign` left it."""
        return _annotations(self.read() or {}).get(SWITCH)

    def sign(self, switch: str | None) -> None:
        """Note for which switch it leaves, before it does; None: it is back."""
        body: Body = {"metadata": {"annotations": {SWITCH: switch}}}
        answer = self.calls.call("PATCH", f"/api/v1/nodes/{self.name}", body)
        if answer.status not in {*_CREATED, _NOT_FOUND}:
            raise DeviceError(f"node {self.name} cannot be marked: {answer.words}")

    def _patch(self, annotations: Mapping[str, str | None], *, unschedulable: bool | None) -> None:
        body = {
            "metadata": {"annotations": dict(annotations)},
            "spec": {"unschedulable": unschedulable},
        }
        answer = self.calls.call("PATCH", f"/api/v1/nodes/{self.name}", body)
        if answer.status not in _CREATED:
            raise DeviceError(f"node {self.name} cannot be cordoned or freed: {answer.words}")

    def _pods(self) -> list[Body]:
        """The pods that have to leave."""
        return [pod for pod in self._all_pods() if _must_leave(pod)]

    def _all_pods(self) -> list[Body]:
        path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}"
        answer = self.calls.call("GET", path)
        if answer.status not in _CREATED:
            raise DeviceError(f"the pods of node {self.name} cannot be listed: {answer.words}")
        pods = cast("list[Body]", answer.body.get("items") or [])
        return sorted(pods, key=_name)

    def _evict(self, pod: Body, evicted: dict[str, Body]) -> str:
        """Ask for one eviction; the words of what holds the pod, empty when it goes."""
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            return ""
        body: Body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            "deleteOptions": {"preconditions": {"uid": meta.get("uid")}},
        }
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
        answer = self.calls.call("POST", path, body)
        if answer.status in _CREATED:
            evicted[_name(pod)] = pod
            return ""
        if answer.status in {_NOT_FOUND, 409}:  # 409: another pod has that name by now
            return ""
        if answer.status == _TOO_MANY:
            return answer.words
        raise DeviceError(f"pod {_name(pod)} cannot be evicted: {answer.words}")


def open_node(
    name: str, calls: Calls, now: Callable[[], float], pause: Callable[[float], object]
) -> Node | None:
    """The node of a host, or None where it is none."""
    node = Node(name, calls, now, pause)
    found = node.read()
    if found is None:
        return None
    node.held = is_ours(found) and is_cordoned(found)
    return node


def refuse_other_name(calls: Calls, host: str, boot_id: str) -> None:
    """Refuse a host that is a node under another name: it would be rebooted under its jobs.

    Args:
        calls: The cluster, which has no node of the host's name.
        host: Its name in the file.
        boot_id: Its boot: a kubelet tells it, and no other machine has it.

    Raises:
        DeviceError: Which node it is.
    """
    for name, node in read_nodes(calls).items():
        if part_of(part_of(node, "status"), "nodeInfo").get("bootID") == boot_id:
            raise DeviceError(
                f"the cluster has no node {host}, and its node {name} runs on this host (boot"
                f" {boot_id}): a node is drained by its host's name. Let the kubelet join as {host}"
                " (--hostname-override), or give the host the node's name in the file"
            )


def is_cordoned(node: Body) -> bool:
    """Whether it takes no more pods."""
    return bool(part_of(node, "spec").get("unschedulable"))


def is_ours(node: Body) -> bool:
    """Whether a run of ours took it out of service and did not put it back yet."""
    return ANNOTATION in _annotations(node)


def _annotations(meta: Body) -> Mapping[str, str]:
    return cast("Mapping[str, str]", part_of(meta, "metadata").get("annotations") or {})


def _offered(node: Body) -> frozenset[str]:
    """Extended resources of which the node has some: GPUs and VFs, from device plugins."""
    allocatable = cast("Mapping[str, str]", part_of(node, "status").get("allocatable") or {})
    return frozenset(name for name, count in allocatable.items() if "/" in name and count != "0")


def _recorded(node: Body) -> list[str]:
    try:
        found: object = json.loads(_annotations(node).get(ANNOTATION, "[]"))
    except ValueError:
        return []
    return [str(each) for each in cast("list[object]", found)] if isinstance(found, list) else []


def _name(pod: Body) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _owner(pod: Body) -> str:
    """Kind of what would recreate the pod; empty for none."""
    owners = cast("list[Body]", pod["metadata"].get("ownerReferences") or [])
    return next((str(each["kind"]) for each in owners if each.get("controller")), "")


def _is_over(pod: Body) -> bool:
    return part_of(pod, "status").get("phase") in {"Succeeded", "Failed"}


def _must_leave(pod: Body) -> bool:
    return not (_is_over(pod) or MIRROR in _annotations(pod) or _owner(pod) == "DaemonSet")


def _has_local_data(pod: Body) -> bool:
    volumes = cast("list[Body]", part_of(pod, "spec").get("volumes") or [])
    return any("emptyDir" in volume for volume in volumes)


def _is_device_plugin(pod: Body) -> bool:
    volumes = cast("list[Body]", part_of(pod, "spec").get("volumes") or [])
    paths = [str(part_of(volume, "hostPath").get("path", "")) for volume in volumes]
    mounted = any(path.rstrip("/") == PLUGIN_SOCKETS for path in paths)
    return mounted and _owner(pod) == "DaemonSet" and not _is_over(pod)


def _refuse_orphans(node: str, pods: list[Body]) -> None:
    """An eviction would end for good what nothing recreates; `kubectl drain` refuses it too."""
    orphans = [_name(pod) for pod in pods if not _owner(pod)]
    if orphans:
        raise DeviceError(
            f"nothing would start these pods of {node} again: {', '.join(orphans)}. Delete them,"
            " or let a Job or a Deployment own them"
        )


def _still_there(left: list[Body], held: Mapping[str, str], deadline_s: float) -> str:
    lines = [f"{_name(pod)} ({held.get(_name(pod)) or 'is ending'})" for pod in left]
    return f"pods are left after {deadline_s:g} s (disruption.drain_deadline_s): {'; '.join(lines)}"
