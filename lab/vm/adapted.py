"""The plan's objects for pods with VFs, less what these cards and these plugins cannot have.

The objects are the product's own. Cards are of Intel and not of NVIDIA, software RDMA has no card
below it, and the plugins are the newest that Go's module proxy has, of 2019 and 2022: what follows
from that is changed, by name and each with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from components.kubernetes.manifest import Manifest
from lab.cluster.document import Doc, as_doc, docs_at, text_at

VENDOR: Final = "8086"
VF_DEVICE: Final = "10ca"
"""VFs of the emulated card, an 82576."""
CNI_VERSION: Final = "0.3.1"
"""The newest that the SR-IOV plugin of 2019 speaks."""
CHANGES: Final = {
    "selectors": "an object for a list of one: the device plugin of 2022 knows no lists",
    "selectors.vendors": f"{VENDOR}: the card is of Intel",
    "selectors.devices": f"{VF_DEVICE}: its VFs, for those of a ConnectX",
    "selectors.isRdma": "software RDMA has no PCI parent, so the plugin would find no device",
    "cniVersion": f"{CNI_VERSION}: the newest of the SR-IOV CNI plugin v2.1.0",
}
"""What is changed to why."""
NOT_KNOWN: Final = {
    "spoofchk": "v2.1.0 of the SR-IOV CNI plugin passes it over",
    "trust": "v2.1.0 of the SR-IOV CNI plugin passes it over",
}
"""What the plan says and these plugins do not do; the attachments keep it."""


def adapt(manifests: Sequence[Manifest]) -> list[Manifest]:
    """The objects as the guests get them, in the plan's order."""
    return [replace(each, body=_adapt(json.loads(json.dumps(each.body)))) for each in manifests]


def _adapt(body: Doc) -> Doc:
    if text_at(body, "data", "config.json"):
        body["data"] = {"config.json": _plugin_config(text_at(body, "data", "config.json"))}
    if text_at(body, "kind") == "NetworkAttachmentDefinition":
        config = json.loads(text_at(body, "spec", "config"))
        body["spec"] = {"config": json.dumps(config | {"cniVersion": CNI_VERSION}, indent=1)}
    return body


def _plugin_config(text: str) -> str:
    resources = docs_at(as_doc(json.loads(text)), "resourceList")
    for resource in resources:
        (selector,) = docs_at(resource, "selectors")
        del selector["isRdma"]
        selector["vendors"], selector["devices"] = [VENDOR], [VF_DEVICE]
        resource["selectors"] = selector
    return json.dumps({"resourceList": resources}, indent=1)
