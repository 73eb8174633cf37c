"""NVIDIA's k8s-device-plugin on its own: GPUs of a node, from its pod, driver and runtime.

Source: the plugin's README (sources.md#operators): its container sees GPUs only if the node's
runtime is nvidia's, by default or by a RuntimeClass. K3s makes that class whether it found the
runtime or not.
"""

from __future__ import annotations

import json
from typing import cast

from lab.cluster.document import Doc, Json, as_list, pairs_at, text_at
from lab.cluster.pod_view import NodeState

_IMAGE = "nvidia/k8s-device-plugin"
_RUNTIME = "nvidia"


def default_runtime(node: Doc, state: NodeState) -> str:
    """The runtime of a node's containers: K3s' `default-runtime`, or docker's own."""
    text = pairs_at(node, "metadata", "annotations").get("k3s.io/node-args", "[]")
    words = [str(word) for word in as_list(cast("Json", json.loads(text)))]
    if "--docker" in words:
        return state.devices.docker_runtime
    at = words.index("--default-runtime") + 1 if "--default-runtime" in words else len(words)
    return words[at] if at < len(words) else ""


def plugin_gpus(state: NodeState, runtime: str) -> int:
    """How many GPUs the plugin publishes on a node."""
    plugin = state.running(_IMAGE)
    devices = state.devices
    if plugin is None or not devices.nvidia_driver or not devices.runs_gpu_containers:
        return 0
    chosen = text_at(plugin.document, "spec", "runtimeClassName") or runtime
    return devices.gpus if chosen == _RUNTIME else 0
