"""Firmware of cards by the NIC configuration operator: a template for each kind of node.

Sources: README and definitions of nic-configuration-operator 8bfbeb3 and of network operator
v26.4.1 (docs/explanation/sources.md#operators). Of two templates that take one card the operator
applies none, so each takes the cards of nodes with a label of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from components.core.errors import SpecError
from components.hosts.firmware import asked_settings
from components.hosts.keys.ask import parameter_of
from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, Nic
from components.model.operator_owned import firmware_by_operator
from components.pod_network.pools import NETWORK_NAMESPACE

_LABELS: Final = "firmware.railyard.dev"
_OWN_FIELDS: Final = frozenset(
    {"fw_sriov_en", "fw_num_of_vfs", "fw_link_type_p1", "fw_link_type_p2"}
)
"""Settings for which a template has fields."""
_SWITCHES: Final = {"on": "True", "off": "False"}
"""As mlxconfig calls them; the operator takes its words."""


def firmware_labels(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The labels by which templates find a node."""
    return {f"{_LABELS}/{name}": "true" for name, _ in _templates(spec, host)}


def firmware_templates(spec: ClusterSpec) -> tuple[Body, ...]:
    """The templates of a site, each once, sorted by their names."""
    found = {name: wanted for host in spec.workers for name, wanted in _templates(spec, host)}
    return tuple(
        {
            "apiVersion": "configuration.net.nvidia.com/v1alpha1",
            "kind": "NicConfigurationTemplate",
            "metadata": {"name": name, "namespace": NETWORK_NAMESPACE},
            "spec": {"nodeSelector": {f"{_LABELS}/{name}": "true"}, **found[name]},
        }
        for name in sorted(found)
    )


def _templates(spec: ClusterSpec, host: Host) -> Iterator[tuple[str, Body]]:
    """What a node's cards are asked for: one for each model and set of settings.

    The name carries a digest of it, so that it follows from this node alone.

    Raises:
        SpecError: The device id of a card is not known, and a template names it.
    """
    if host.role != "worker" or not firmware_by_operator(spec):
        return
    cards: dict[str, list[Nic]] = {}
    for nic in host.nics:
        settings = asked_settings(spec, host, nic)
        if settings:
            shown = json.dumps([_device(host, nic), settings], sort_keys=True)
            cards.setdefault(shown, []).append(nic)
    for shown, nics in cards.items():
        device, settings = json.loads(shown)
        addresses: list[JsonValue] = [*sorted(nic.pci for nic in nics)]
        wanted: Body = {
            "nicSelector": {"nicType": device, "pciAddresses": addresses},
            "template": {
                "numVfs": int(settings.get("fw_num_of_vfs", "0")),
                "linkType": "Infiniband" if "ib" in settings.values() else "Ethernet",
                **_raw(settings),
            },
        }
        digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
        yield f"{device}-{digest[:8]}", wanted


def _device(host: Host, nic: Nic) -> str:
    if nic.pf_device is None:
        raise SpecError(
            f"the PCI device id of {host.name} {nic.netdev}, a {nic.model}, is not known, and a "
            "template of the NIC configuration operator names it. Write pci_id in nic_models"
        )
    return nic.pf_device


def _raw(settings: dict[str, str]) -> Body:
    """The parameters for which a template has no field, as mlxconfig calls them."""
    raw: list[JsonValue] = [
        {"name": parameter_of(f"nic.0000:00:00.0.{key}"), "value": _SWITCHES.get(value, value)}
        for key, value in sorted(settings.items())
        if key not in _OWN_FIELDS
    ]
    return {"rawNvConfig": raw} if raw else {}
