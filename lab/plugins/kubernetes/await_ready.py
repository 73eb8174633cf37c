"""Wait until an object is ready, or gone."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from lab.plugins.kubernetes import readiness
from lab.plugins.kubernetes.client import ApiError, Client, ServedKind, UnreachableError
from lab.plugins.kubernetes.identity import (
    ANNOTATION_SKIP_AWAIT,
    ANNOTATION_WAIT_FOR,
    annotation,
    name_of,
    namespace_of,
)
from lab.plugins.kubernetes.values import JsonMap, as_list, as_map, as_text, dig
from lab.plugins.kubernetes.wait_for import Readiness, check_all, parse_wait_for
from lab.plugins.serve import EngineLog

FIRST_POLL_S = 0.1
LONGEST_POLL_S = 1.0


class InitError(Exception):
    """An object exists but did not become ready (or did not go away)."""

    def __init__(self, message: str, live: JsonMap, reasons: list[str]) -> None:
        """Keeps the last known state and what the cluster complained about."""
        super().__init__(message)
        self.live = live
        self.reasons = reasons


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
        pause_s, said = FIRST_POLL_S, ""
        while True:
            state = self.judge(served, live)
            if state.done:
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
            finalizers = [as_text(item) for item in as_list(dig(now, "metadata", "finalizers"))]
            waiting = Readiness(done=False, message=f"waiting for finalizers {finalizers}")
            self._stop_if_over(served, now, waiting, deadline)
            self.cancelled.wait(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_POLL_S)

    def complaints(self, served: ServedKind, live: JsonMap, first: str) -> list[str]:
        """Collects what the cluster says about an object and the pods that it owns."""
        found = [first, *readiness.problems_of(live)]
        selector = readiness.selector_of(live)
        if selector and served.gvk.is_built_in:
            path = f"/api/v1/namespaces/{namespace_of(live)}/pods"
            pods = self.client.request("GET", path, query={"labelSelector": selector})
            for pod in as_list(pods.get("items")):
                pod_name = as_text(dig(pod, "metadata", "name"))
                found += [
                    f"[Pod {pod_name}]: {text}" for text in readiness.problems_of(as_map(pod))
                ]
        return [text for text in dict.fromkeys(found) if text]

    def _stop_if_over(
        self, served: ServedKind, live: JsonMap, state: Readiness, deadline: float
    ) -> None:
        name = name_of(live)
        if state.failed:
            message = f"Resource '{name}' was created but failed to initialize"
        elif self.cancelled.is_set():
            message = f'Resource operation was cancelled for "{name}"'
        elif time.monotonic() > deadline:
            message = f"'{name}' timed out waiting to be Ready"
        else:
            return
        raise InitError(message, live, self.complaints(served, live, state.message))

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

    def _endpoints(self, live: JsonMap) -> Readiness:
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace_of(live)}/endpointslices"
        query = {"labelSelector": f"kubernetes.io/service-name={name_of(live)}"}
        for item in as_list(self.client.request("GET", path, query=query).get("items")):
            for endpoint in as_list(dig(item, "endpoints")):
                if dig(endpoint, "conditions", "ready") is not False:
                    return readiness.READY
        return Readiness(
            done=False,
            message="Service does not target any Pods. Selected Pods may not be ready, "
            "or field '.spec.selector' may not match labels on any Pods",
        )
