"""Events that a kubelet writes when a pod's sandbox cannot be made."""

from __future__ import annotations

import datetime as dt
import hashlib

from lab.cluster.api import CONFLICT, Api, ApiError
from lab.cluster.document import Doc
from lab.cluster.pod_view import Pod

_LONGEST_MESSAGE = 1024
"""The API refuses longer messages."""


def sandbox_failure(pod: Pod, message: str) -> str:
    """What a real kubelet with containerd says of a refused network (real-kernels.md)."""
    sandbox = hashlib.sha256(f"{pod.uid}/sandbox".encode()).hexdigest()
    return (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for"
        f' sandbox "{sandbox}": plugin type="multus" failed (add): {message}'
    )


def report_sandbox_failure(api: Api, pod: Pod, message: str) -> None:
    """Write the `FailedCreatePodSandBox` event, once per pod and message."""
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hashlib.sha256(f"{pod.uid}/{message}".encode()).hexdigest()[:16]
    text = sandbox_failure(pod, message)
    body: Doc = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pod.name}.{digest}", "namespace": pod.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
        },
        "reason": "FailedCreatePodSandBox",
        "message": text[:_LONGEST_MESSAGE],
        "type": "Warning",
        "source": {"component": "kubelet", "host": pod.node},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        api.request("POST", f"/api/v1/namespaces/{pod.namespace}/events", body)
    except ApiError as error:
        if error.status != CONFLICT:
            raise
