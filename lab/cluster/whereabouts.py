"""What whereabouts v0.9.4 keeps in the API: its pools, its reservations, and who frees them.

After the source at that tag: `pkg/storage/kubernetes/ipam.go` (names and form of the objects),
`pkg/controlloop/pod.go` (the DaemonSet frees on a DELETE event of a pod of its own node, seen while
it runs), `cmd/reconciler` and `pkg/reconciler` (all other addresses come back by its schedule).
"""

from __future__ import annotations

import ipaddress
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from components.core.record import record
from lab.cluster.api import NOT_FOUND, Api, ApiError
from lab.cluster.document import Doc, Json, doc_at, docs_at, name_of, namespace_of, text_at
from lab.cluster.ipam import Reservation
from lab.cluster.network_operator import NAMESPACE
from lab.cluster.pod_view import NodeState, Pod

KINDS: Final = "/apis/whereabouts.cni.cncf.io/v1alpha1"
IMAGE: Final = "whereabouts"
DAY_S: Final = 5.0
"""How long a day of the reconciler's schedule lasts: it works once a day, whatever the hour."""
_FIELD: Final = re.compile(r"(\*|\d+(-\d+)?)(/[1-9]\d*)?(,(\*|\d+(-\d+)?)(/[1-9]\d*)?)*")
_LIMITS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""Minute, hour, day of month, month and day of week of a cron expression."""


@record
class _Held:
    """One allocation of a pool."""

    pool: Doc
    offset: str
    owner: Doc

    @property
    def address(self) -> str:
        first = ipaddress.IPv4Network(text_at(self.pool, "spec", "range"), strict=False)[0]
        return str(first + int(self.offset))

    @property
    def pod(self) -> str:
        """`namespace/name`."""
        return text_at(self.owner, "podref")

    @property
    def container(self) -> str:
        """The sandbox; the lab has the pod's uid in its place."""
        return text_at(self.owner, "id")


def is_schedule(text: str) -> bool:
    """Whether the reconciler's cron takes an expression; with another one the program ends."""
    fields = text.split()
    if len(fields) != len(_LIMITS) or not all(map(_FIELD.fullmatch, fields)):
        return False
    return all(
        low <= int(number) <= high
        for part, (low, high) in zip(fields, _LIMITS, strict=True)
        for number in re.findall(r"(?<![/\d])\d+", part)
    )


@dataclass(slots=True)
class Whereabouts:
    """The objects of one cluster, and what its programs on the nodes saw of pods."""

    api: Api
    node_of: dict[str, str] = field(default_factory=dict[str, str])
    """The node of each pod of the last pass, by the pod's uid."""
    worked_s: float = 0.0
    """When the reconciler worked last, by `time.monotonic`."""

    def taken(self) -> set[str]:
        """The addresses that the plugin gives to nobody."""
        reserved = self.api.items(f"{KINDS}/overlappingrangeipreservations")
        return {name_of(each) for each in reserved} | {each.address for each in self._held()}

    def keep(self, pod: Pod, node: NodeState, given: Iterable[Reservation]) -> None:
        """Write down what a pod was given, as the plugin does before it answers Multus."""
        home = f"{KINDS}/namespaces/{_namespace(node)}"
        podref = f"{pod.namespace}/{pod.name}"
        for each in given:
            path = f"{home}/ippools"
            if self.api.find(f"{path}/{each.pool}") is None:
                spec: Doc = {"range": str(each.network), "allocations": {}}
                self._create(path, "IPPool", each.pool, spec)
            owner: Doc = {"id": pod.uid, "podref": podref, "ifname": each.interface}
            change: Doc = {"spec": {"allocations": {each.offset: owner}}}
            self.api.merge(f"{path}/{each.pool}", change)
            claim: Doc = {"podref": podref, "ifname": each.interface}
            kind = "OverlappingRangeIPReservation"
            self._create(f"{home}/overlappingrangeipreservations", kind, each.address, claim)

    def settle(self, pods: Sequence[Pod], alive: Mapping[str, NodeState]) -> None:
        """Free what the programs on the nodes free: those of pods' own nodes, and the reconciler.

        Args:
            pods: All pods of the cluster.
            alive: The nodes whose kubelet works.
        """
        now = {pod.uid: pod.node for pod in pods}
        live = {pod.uid for pod in pods if pod.live}
        held = list(self._held())
        seen = {**self.node_of, **now}
        self._free(
            each
            for each in held
            if each.container not in live
            and (node := alive.get(seen.get(each.container, ""))) is not None
            and node.installed(IMAGE)
        )
        self.node_of = now
        if time.monotonic() - self.worked_s >= DAY_S and self._is_reconciled(pods, alive):
            self.worked_s = time.monotonic()
            self._free(each for each in self._held() if _is_orphan(each, pods))

    def _held(self) -> Iterator[_Held]:
        for pool in self.api.items(f"{KINDS}/ippools"):
            allocations = doc_at(pool, "spec", "allocations")
            yield from (_Held(pool, key, doc_at(allocations, key)) for key in allocations)

    def _create(self, path: str, kind: str, name: str, spec: Doc) -> None:
        body: Doc = {
            "apiVersion": KINDS.removeprefix("/apis/"),
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        self.api.request("POST", path, body)

    def _free(self, held: Iterable[_Held]) -> None:
        for each in held:
            home = f"{KINDS}/namespaces/{namespace_of(each.pool)}"
            gone: dict[str, Json] = {each.offset: None}
            change: Doc = {"spec": {"allocations": gone}}
            self.api.merge(f"{home}/ippools/{name_of(each.pool)}", change)
            try:
                path = f"{home}/overlappingrangeipreservations/{each.address}"
                self.api.request("DELETE", path)
            except ApiError as error:
                if error.status != NOT_FOUND:
                    raise

    def _is_reconciled(self, pods: Sequence[Pod], alive: Mapping[str, NodeState]) -> bool:
        return any(
            pod.phase == "Running"
            and pod.node in alive
            and pod.runs_image(IMAGE)
            and "/ip-reconciler" in pod.command
            and self._is_scheduled(pod)
            for pod in pods
        )

    def _is_scheduled(self, pod: Pod) -> bool:
        """Whether the file of a schedule, `/cron-schedule/config`, is there and can be read."""
        schedule = next(self._schedules(pod), "")
        if not is_schedule(schedule):
            text = f"{pod.name}: no schedule for the reconciler: {schedule!r}"
            print(text, file=sys.stderr, flush=True)
            return False
        return True

    def _schedules(self, pod: Pod) -> Iterator[str]:
        mounts = docs_at(pod.containers[0], "volumeMounts")
        names = [text_at(m, "name") for m in mounts if text_at(m, "mountPath") == "/cron-schedule"]
        for volume in docs_at(pod.document, "spec", "volumes"):
            if text_at(volume, "name") in names:
                data = self.api.config_map(pod.namespace, text_at(volume, "configMap", "name"))
                items = docs_at(volume, "configMap", "items")
                keys = [text_at(item, "key") for item in items if text_at(item, "path") == "config"]
                yield data.get(next(iter(keys), "config"), "").strip()


def _namespace(node: NodeState) -> str:
    """Where the plugin of a node keeps its objects: the namespace of the DaemonSet's pods."""
    brought = (p for p in node.pods if p.runs_image(IMAGE) and p.mounts_cni_folder(node.cni.bin))
    own = next(brought, None)
    return own.namespace if own else NAMESPACE


def _is_orphan(held: _Held, pods: Sequence[Pod]) -> bool:
    """`isOrphanedIP`: no pod of that name has the address in its network-status.

    A pod that Kubernetes deletes because its node has gone counts as none (`indexPods`).
    """
    return not any(
        f"{pod.namespace}/{pod.name}" == held.pod
        and held.address in pod.addresses()
        and not _is_evicted(pod)
        for pod in pods
    )


def _is_evicted(pod: Pod) -> bool:
    return any(
        text_at(each, "type") == "DisruptionTarget"
        and text_at(each, "status") == "True"
        and text_at(each, "reason") == "DeletionByTaintManager"
        for each in docs_at(pod.document, "status", "conditions")
    )
