"""The RDMA shared device plugin's rules: from its ConfigMap and a node's cards to resources.

Source: the plugin's README (sources.md#pod-network). A selector's lists are alternatives, and all
that are given must hold. One unit of a resource gives a pod every card of its entry, so the count
is `rdmaHcaMax` as soon as one card is there, and nothing without one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from components.core.errors import DeviceError
from components.core.record import record
from lab.cluster.devices import Card
from lab.cluster.document import Doc, Json, docs_at, number_at, text_at, texts_at

DEFAULT_PREFIX = "rdma"


@record
class SharedPool:
    """One shared resource of a node: how often it is there, and which cards it means."""

    resource: str
    count: int
    cards: tuple[Card, ...]


def plan_shared(config_text: str, cards: Sequence[Card]) -> tuple[SharedPool, ...]:
    """Decide which resources a node has.

    Args:
        config_text: the plugin's config.json.
        cards: the node's cards.

    Raises:
        DeviceError: the plugin would not start with this configuration.
    """
    try:
        document = cast("Json", json.loads(config_text))
    except json.JSONDecodeError as error:
        raise DeviceError(f"the shared device plugin cannot read its config: {error}") from error
    pools: list[SharedPool] = []
    for entry in docs_at(document, "configList"):
        resource = f"{text_at(entry, 'resourcePrefix') or DEFAULT_PREFIX}/{_name(entry)}"
        if any(pool.resource == resource for pool in pools):
            raise DeviceError(f"the shared device plugin: resource {resource} is there twice")
        taken = tuple(card for card in cards if _takes(entry, card))
        count = number_at(entry, "rdmaHcaMax") if taken else 0
        pools.append(SharedPool(resource, count, taken))
    return tuple(pools)


def _name(entry: Doc) -> str:
    name = text_at(entry, "resourceName")
    if not name:
        raise DeviceError("the shared device plugin: an entry has no resourceName")
    if not entry.get("selectors") and not entry.get("devices"):
        raise DeviceError(f"the shared device plugin: {name} has neither selectors nor devices")
    return name


def _takes(entry: Doc, card: Card) -> bool:
    link_type = "infiniband" if card.link_layer == "InfiniBand" else "ether"
    facts = {
        "vendors": card.vendor,
        "deviceIDs": card.device,
        "drivers": card.driver,
        "ifNames": card.netdev,
        "linkTypes": link_type,
    }
    if not card.rdma:
        return False
    if devices := texts_at(entry, "devices"):
        return card.netdev in devices
    wanted = {key: texts_at(entry, "selectors", key) for key in facts}
    return all(not wanted[key] or actual in wanted[key] for key, actual in facts.items())
