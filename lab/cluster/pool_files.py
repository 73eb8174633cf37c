"""Files that a pod writes on its node for IPAM plugins: what `rail-pools` of the plan does.

The lab does not run the pod's script; it reads the table and the files that the script copies,
where a pod with both mounts runs on the node (tests/pod_network runs the script itself).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, cast

from lab.cluster.document import Doc, Json, as_doc, docs_at, text_at
from lab.cluster.pod_view import NodeState, Pod

_TABLE: Final = "/pools/nodes"
_PLACE: Final = re.compile(r"file=/host/(\S+)")
"""Where the script puts the file of a rail."""
ReadConfigMap = Callable[[str, str], dict[str, str]]
"""Namespace and name to its data."""


def written_files(node: NodeState, read: ReadConfigMap) -> dict[str, Doc]:
    """Path of each file on the node to what is in it."""
    found: dict[str, Doc] = {}
    for pod in node.pods:
        if pod.phase == "Running" and _TABLE in " ".join(pod.command):
            found |= _written_by(pod, node, read)
    return found


def _written_by(pod: Pod, node: NodeState, read: ReadConfigMap) -> dict[str, Doc]:
    volumes = docs_at(pod.document, "spec", "volumes")
    folders = [text_at(volume, "hostPath", "path") for volume in volumes if "hostPath" in volume]
    names = [text_at(volume, "configMap", "name") for volume in volumes if "configMap" in volume]
    if node.cni.net_d not in folders or not names:
        return {}
    data = read(pod.namespace, names[0])
    rows = (line.split() for line in data.get("nodes", "").splitlines())
    place = _PLACE.search(" ".join(pod.command))
    return {
        f"{node.cni.net_d}/{place[1]}".replace("$rail", rail): as_doc(
            cast("Json", json.loads(text))
        )
        for name, rail, leaf in rows
        if place is not None and name == node.name
        for text in [data.get(f"{rail}.{leaf}.conf", "{}")]
    }
