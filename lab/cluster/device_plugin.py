"""The SR-IOV network device plugin's rules: from its ConfigMap and a node's VFs to resources.

Source: the plugin's README (sources.md#pod-network). A selector's lists are alternatives, its keys
must all hold, and a device belongs to the first resource that takes it. `isRdma` counts only inside
of selectors; at the level of the resource it is an unknown key, and has no effect.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from components.core.errors import DeviceError
from components.core.record import record
from lab.cluster.devices import VirtualFunction
from lab.cluster.document import Doc, Json, as_doc, at, docs_at, text_at, texts_at

DEFAULT_PREFIX = "intel.com"


@record
class Pool:
    """One resource of a node: its name and its devices."""

    resource: str
    devices: tuple[VirtualFunction, ...]
    rdma: bool
    """The plugin mounts /dev/infiniband of the VF into the pod."""
    whole: bool = False
    """Its devices go to pods by count, without a network attachment."""


def _pf_names(patterns: Sequence[str], vf: VirtualFunction) -> bool:
    for pattern in patterns:
        name, hashed, ranges = pattern.partition("#")
        if name == vf.pf_netdev and (not hashed or _in_ranges(ranges, vf.index)):
            return True
    return False


def _in_ranges(ranges: str, index: int) -> bool:
    for part in ranges.split(","):
        low, dash, high = part.partition("-")
        if low.isdigit() and int(low) <= index <= int(high if dash and high.isdigit() else low):
            return True
    return False


def _takes(selector: Doc, vf: VirtualFunction) -> bool:
    facts = {
        "vendors": vf.vendor,
        "devices": vf.device,
        "drivers": vf.driver,
        "pciAddresses": vf.pci,
        "rootDevices": vf.pf_pci,
        "linkTypes": vf.link_type,
    }
    for key, actual in facts.items():
        wanted = texts_at(selector, key)
        if wanted and actual not in wanted:
            return False
    names = texts_at(selector, "pfNames")
    if names and not _pf_names(names, vf):
        return False
    return at(selector, "isRdma") is not True or bool(vf.rdma)


def _selectors(resource: Doc) -> list[Doc]:
    value = at(resource, "selectors")
    return [as_doc(value)] if isinstance(value, dict) else docs_at(resource, "selectors")


def plan_pools(
    config_text: str,
    vfs: Sequence[VirtualFunction],
    prefix: str = DEFAULT_PREFIX,
    *,
    whole: bool = False,
) -> tuple[Pool, ...]:
    """Decide which resource each VF belongs to.

    Args:
        config_text: the plugin's config.json.
        vfs: the node's VFs, and its cards without VFs.
        prefix: the resource prefix where a resource names none.
        whole: pods get the devices by count alone, as they get cards that are no VFs.

    Raises:
        DeviceError: the plugin would not start with this configuration.
    """
    try:
        document = cast("Json", json.loads(config_text))
    except json.JSONDecodeError as error:
        raise DeviceError(f"error getting resources: unmarshal config: {error}") from error
    pools: list[Pool] = []
    taken: set[str] = set()
    for resource in docs_at(document, "resourceList"):
        name = text_at(resource, "resourceName")
        if not name or "-" in name:
            raise DeviceError(f'resource name "{name}" contains invalid characters')
        selectors = _selectors(resource)
        devices = tuple(
            vf
            for vf in vfs
            if vf.pci not in taken and any(_takes(selector, vf) for selector in selectors)
        )
        taken |= {vf.pci for vf in devices}
        rdma = any(at(selector, "isRdma") is True for selector in selectors)
        owner = text_at(resource, "resourcePrefix") or prefix
        cards = bool(devices) and not any(device.pf_pci for device in devices)
        pools.append(Pool(f"{owner}/{name}", devices, rdma, whole or cards))
    return tuple(pools)
