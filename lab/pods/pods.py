"""Pods of a story: made, waited for, asked, and what the cluster says of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Final

from components.core.record import record
from components.pod_network.attachment import NETWORKS
from lab.cluster.document import Doc, Json, docs_at, pairs_at, text_at
from lab.cluster.pod_view import NETWORK_STATUS
from lab.pods.site import AnySite

NAMESPACE: Final = "default"
POD_DEADLINE_S: Final = 120.0
_ENDED: Final = ("Running", "Succeeded", "Failed")


@record
class PodWish:
    """One pod of a story."""

    name: str
    node: str = ""
    networks: str = ""
    command: Sequence[str] = ("sleep", "3600")
    resources: tuple[tuple[str, int], ...] = ()
    devices: str = ""
    """A folder of the node's devices that a privileged pod sees; default none, and no privilege."""


def create(site: AnySite, wish: PodWish) -> None:
    """Make a pod of the jobs' image."""
    metadata: Doc = {"name": wish.name, "namespace": NAMESPACE}
    if wish.networks:
        metadata["annotations"] = {NETWORKS: wish.networks}
    limits: dict[str, Json] = dict(wish.resources)
    container: Doc = {
        "name": "main",
        "image": site.job_image,
        "command": [*wish.command],
        "resources": {"limits": limits},
    }
    spec: Doc = {"restartPolicy": "Never", "containers": [container]}
    if wish.devices:
        container["securityContext"] = {"privileged": True}
        container["volumeMounts"] = [{"name": "devices", "mountPath": wish.devices}]
        spec["volumes"] = [{"name": "devices", "hostPath": {"path": wish.devices}}]
    if wish.node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": wish.node}
    site.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def read(site: AnySite, name: str, namespace: str = NAMESPACE) -> Doc:
    """A pod as the API has it; empty where it has none."""
    return site.api.find(f"/api/v1/namespaces/{namespace}/pods/{name}") or {}


def await_phase(site: AnySite, name: str, phases: Sequence[str] = _ENDED) -> Doc:
    """Wait until a pod is in one of some phases.

    Raises:
        DeviceError: It is not within the deadline; the text has the cluster's own words.
    """

    def there() -> bool:
        return text_at(read(site, name), "status", "phase") in phases

    site.wait(f"pod {name} to be {' or '.join(phases)}", there, POD_DEADLINE_S)
    return read(site, name)


def events_of(site: AnySite, name: str, namespace: str = NAMESPACE) -> list[tuple[str, str]]:
    """Reason and message of the events about an object, as they came."""
    found = site.api.items(f"/api/v1/namespaces/{namespace}/events")
    return [
        (text_at(event, "reason"), text_at(event, "message"))
        for event in found
        if text_at(event, "involvedObject", "name") == name
    ]


def await_event(site: AnySite, name: str, reason: str) -> str:
    """Wait for the first event of a reason, and give its message.

    Raises:
        DeviceError: There is none within the deadline.
    """

    def there() -> bool:
        return any(found == reason for found, _ in events_of(site, name))

    site.wait(f"an event {reason} of pod {name}", there, POD_DEADLINE_S)
    return next(message for found, message in events_of(site, name) if found == reason)


def delete(site: AnySite, name: str) -> None:
    """Delete a pod at once."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
    site.api.request("DELETE", path, {"gracePeriodSeconds": 0})


def network_status(pod: Doc) -> list[Doc]:
    """What Multus wrote on a pod."""
    text = pairs_at(pod, "metadata", "annotations").get(NETWORK_STATUS, "[]")
    return docs_at({"all": json.loads(text)}, "all")


def call_inside(site: AnySite, name: str, *words: str, deadline_s: float = 60.0) -> tuple[int, str]:
    """Run a command in a pod with `kubectl exec`; its exit status and output."""
    kubectl = [str(site.programs["kubectl"]), "--kubeconfig", str(site.plane.kubeconfig)]
    done = subprocess.run(
        [*kubectl, "exec", "-n", NAMESPACE, name, "--", *words],
        capture_output=True,
        text=True,
        timeout=deadline_s * site.patience,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def log_of(site: AnySite, name: str, container: str, namespace: str = NAMESPACE) -> str:
    """The log of a container, through the API server and the real kubelet."""
    target = f"/api/v1/namespaces/{namespace}/pods/{name}/log?container={container}"
    return site.api.raw("GET", target, None, "application/json")[1]
