"""Wait until an object is ready, or gone."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from standins.kubernetes import readiness
from standins.kubernetes.client import ApiError, Client, ServedKind, UnreachableError
from standins.kubernetes.identity import (
    ANNOTATION_SKIP_AWAIT,
    ANNOTATION_WAIT_FOR,
    annotation,
    name_of,
    namespace_of,
)
from standins.kubernetes.values import JsonMap, as_list, as_map, as_text, dig
from standins.kubernetes.wait_for import Readiness, check_all, parse_wait_for
from standins.serve import EngineLog

TIMED_OUT = "timed out waiting for the condition"
CANCELLED = "context canceled"
FIRST_POLL_S = 0.1
LONGEST_POLL_S = 1.0
SETTLE_S = 10.0
"""How long the Endpoints of a Service must rest (sources.md#the-kubernetes-plugin)."""


class InitError(Exception):
    """An object exists but did not become ready (or did not go away)."""

    def __init__(self, message: str, live: JsonMap, reasons: list[str]) -> None:
        """Keeps the last known state and what the cluster complained about."""
        super().__init__(message)
        self.live = live
        self.reasons = reasons


@dataclass(slots=True)
class Rest:
    """Since when something has not changed."""

    version: str = ""
    since: float = 0.0

    def reached(self, version: str) -> bool:
        """Says whether a version that exists has been the same for long enough."""
        if version != self.version:
            self.version, self.since = version, time.monotonic()
        return bool(version) and time.monotonic() - self.since >= SETTLE_S


@dataclass(frozen=True, slots=True)
class Awaiter:
    """Waits for objects of one cluster on behalf of one resource."""

    client: Client
    cancelled: threading.Event
    log: EngineLog
    urn: str

    def until_ready(
        self, served: ServedKind, inputs: JsonMap, live: JsonMap, timeout_s: float
    ) -> JsonMap:
        """Waits until the object is ready and returns its last state.

        Raises:
            InitError: It failed, the time was over, or the user cancelled.
        """
        if annotation(inputs, ANNOTATION_SKIP_AWAIT) == "true":
            return live
        deadline = time.monotonic() + timeout_s
        pause_s, said, rest = FIRST_POLL_S, "", Rest()
        while True:
            state = self.judge(served, live)
            over = self.cancelled.is_set() or time.monotonic() > deadline
            if state.done and (self._is_settled(served, live, rest) or over):
                return live
            if state.message != said:
                self.log.info(self.urn, state.message, ephemeral=True)
                said = state.message
            self._stop_if_over(served, live, state, deadline)
            self.cancelled.wait(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_POLL_S)
            live = self._read(served, live) or live

    def judge(self, served: ServedKind, live: JsonMap) -> Readiness:
        """Says whether a live object is ready now."""
        expression = annotation(live, ANNOTATION_WAIT_FOR)
        if expression:
            return check_all(parse_wait_for(expression), live)
        state = readiness.judge(served.gvk, live) or readiness.READY
        if served.gvk.kind == "PersistentVolumeClaim" and not state.done:
            return self._claim(live, state)
        if state.done and served.gvk.kind == "Service" and readiness.needs_endpoints(live):
            return self._endpoints(live)
        return state

    def until_gone(self, served: ServedKind, live: JsonMap, timeout_s: float) -> None:
        """Waits until the object (the very one: by uid) does not exist any more.

        Raises:
            InitError: It still exists when the time is over or the user cancels.
        """
        deadline = time.monotonic() + timeout_s
        uid, pause_s = dig(live, "metadata", "uid"), FIRST_POLL_S
        while True:
            now = self._read(served, live)
            if now is None or (uid and dig(now, "metadata", "uid") != uid):
                return
            if self.cancelled.is_set() or time.monotonic() > deadline:
                raise InitError(CANCELLED if self.cancelled.is_set() else TIMED_OUT, now, [])
            self.cancelled.wait(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_POLL_S)

    def complaints(self, served: ServedKind, live: JsonMap) -> list[str]:
        """Collects what is missing on an object and on the pods that it owns."""
        kind = (served.gvk.group, served.gvk.kind)
        found = readiness.complaints_of(served.gvk, live)
        selector = readiness.selector_of(live)
        if selector and kind in readiness.ASKS_PODS:
            path = f"/api/v1/namespaces/{namespace_of(live)}/pods"
            pods = self.client.request("GET", path, query={"labelSelector": selector})
            for pod in as_list(pods.get("items")):
                found += readiness.pod_complaints(as_map(pod))
        return list(dict.fromkeys(found))

    def _stop_if_over(
        self, served: ServedKind, live: JsonMap, state: Readiness, deadline: float
    ) -> None:
        name, kind = name_of(live), (served.gvk.group, served.gvk.kind)
        if not (state.failed or self.cancelled.is_set() or time.monotonic() > deadline):
            return
        by_name = kind in readiness.NAMED_IN_ERRORS and not annotation(live, ANNOTATION_WAIT_FOR)
        if state.failed:
            message = f"Resource '{name}' was created but failed to initialize"
        elif self.cancelled.is_set():
            named = f'Resource operation was cancelled for "{name}"'
            message = named if by_name else CANCELLED
        else:
            message = f"'{name}' timed out waiting to be Ready" if by_name else TIMED_OUT
        raise InitError(message, live, self.complaints(served, live) if by_name else [])

    def _read(self, served: ServedKind, live: JsonMap) -> JsonMap | None:
        try:
            return self.client.request("GET", served.path(namespace_of(live), name_of(live)))
        except ApiError as error:
            if error.is_not_found:
                return None
            raise
        except UnreachableError:
            return live  # the API server may come back within the deadline

    def _claim(self, live: JsonMap, state: Readiness) -> Readiness:
        name = as_text(dig(live, "spec", "storageClassName"))
        try:
            found = self.client.request("GET", f"/apis/storage.k8s.io/v1/storageclasses/{name}")
        except ApiError:
            return state
        waits = found.get("volumeBindingMode") == "WaitForFirstConsumer"
        pending = dig(live, "status", "phase") == "Pending"
        return readiness.READY if waits and pending else state

    def _is_settled(self, served: ServedKind, live: JsonMap, rest: Rest) -> bool:
        if served.gvk.kind != "Service" or annotation(live, ANNOTATION_WAIT_FOR):
            return True
        if not readiness.needs_endpoints(live):
            return True
        found = self._endpoints_of(live)
        return rest.reached(as_text(dig(found, "metadata", "resourceVersion")))

    def _endpoints(self, live: JsonMap) -> Readiness:
        """Only pods that are not ready hold a Service up; no pods at all do not."""
        subsets = as_list(self._endpoints_of(live).get("subsets"))
        pending = any(as_list(dig(subset, "notReadyAddresses")) for subset in subsets)
        return Readiness(not pending, "[1/3] Finding Pods to direct traffic to")

    def _endpoints_of(self, live: JsonMap) -> JsonMap:
        path = f"/api/v1/namespaces/{namespace_of(live)}/endpoints/{name_of(live)}"
        try:
            return self.client.request("GET", path)
        except ApiError as error:
            if error.is_not_found:
                return {}
            raise
