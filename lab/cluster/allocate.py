"""What a kubelet does for extended resources that go to pods by count: it picks the devices."""

from __future__ import annotations

import json

from lab.cluster.pod_view import DEVICES, NodeState, Pod


def allocate(pod: Pod, node: NodeState) -> dict[str, list[str]]:
    """Pick devices for a pod, the lowest free PCI addresses first.

    Returns:
        PCI addresses by resource; empty where the pod wants none, or has them already. A pod that
        wants more than there are gets none: the scheduler would not have placed it.
    """
    if DEVICES in pod.annotations:
        return {}
    held = {pci for other in node.pods if other.live for pci in other.devices_in_use()}
    picked: dict[str, list[str]] = {}
    for pool in node.pools:
        wanted = pod.requested(pool.resource) if pool.whole else 0
        free = sorted(device.pci for device in pool.devices if device.pci not in held)
        if wanted and len(free) >= wanted:
            picked[pool.resource] = free[:wanted]
    return picked


def awaits_devices(pod: Pod, node: NodeState) -> bool:
    """Whether a kubelet would not have started the pod yet: its devices are not picked."""
    wants = any(pool.whole and pod.requested(pool.resource) for pool in node.pools)
    return wants and pod.live and not pod.deleting and DEVICES not in pod.annotations


def dump_allocation(picked: dict[str, list[str]]) -> str:
    """The annotation's text."""
    return json.dumps(picked, sort_keys=True)
