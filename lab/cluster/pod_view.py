"""Pods and nodes as the node agent sees them: typed views of the API's documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from lab.cluster.device_plugin import Pool
from lab.cluster.devices import NodeDevices
from lab.cluster.document import (
    Doc,
    Json,
    as_list,
    command_of,
    docs_at,
    env_of,
    name_of,
    namespace_of,
    number_at,
    pairs_at,
    text_at,
    texts_at,
)

NETWORKS = "k8s.v1.cni.cncf.io/networks"
NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
CNI_DONE = "lab.railyard.dev/cni"
EXIT_CODE = "lab.railyard.dev/exit-code"
CNI_BIN_DIR = "/var/lib/rancher/k3s/data/cni"
"""K3s' CNI folder since v1.28.15 (sources.md#k3s)."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod."""

    document: Doc

    @property
    def name(self) -> str:
        """Its name."""
        return name_of(self.document)

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return namespace_of(self.document)

    @property
    def uid(self) -> str:
        """Its uid."""
        return text_at(self.document, "metadata", "uid")

    @property
    def path(self) -> str:
        """Where the API serves it."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def node(self) -> str:
        """The node it is bound to; empty while it is not."""
        return text_at(self.document, "spec", "nodeName")

    @property
    def phase(self) -> str:
        """Its phase."""
        return text_at(self.document, "status", "phase")

    @property
    def live(self) -> bool:
        """Whether it still holds its devices and addresses."""
        return self.phase not in {"Succeeded", "Failed"}

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return bool(text_at(self.document, "metadata", "deletionTimestamp"))

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return pairs_at(self.document, "metadata", "annotations")

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return pairs_at(self.document, "metadata", "labels")

    @property
    def containers(self) -> list[Doc]:
        """Its containers."""
        return docs_at(self.document, "spec", "containers")

    @property
    def command(self) -> tuple[str, ...]:
        """What its first container runs."""
        return tuple(command_of(self.containers[0])) if self.containers else ()

    @property
    def env(self) -> dict[str, str]:
        """The environment of its first container."""
        return env_of(self.containers[0]) if self.containers else {}

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Capabilities that its first container adds."""
        first = self.containers[0] if self.containers else {}
        return texts_at(first, "securityContext", "capabilities", "add")

    @property
    def owned_by_job(self) -> bool:
        """Whether a Job made it: its end counts."""
        owners = docs_at(self.document, "metadata", "ownerReferences")
        return any(text_at(owner, "kind") == "Job" for owner in owners)

    def requested(self, resource: str) -> int:
        """How many of an extended resource its containers ask for."""
        return sum(number_at(c, "resources", "limits", resource) for c in self.containers)

    def runs_image(self, part: str) -> bool:
        """Whether an image of its containers has a name with this part."""
        return any(part in text_at(container, "image") for container in self.containers)

    def mounts_cni_folder(self) -> bool:
        """Whether it mounts K3s' folder of CNI programs, so that it can put one there."""
        paths = [text_at(v, "hostPath", "path") for v in docs_at(self.document, "spec", "volumes")]
        return any(path.rstrip("/") == CNI_BIN_DIR for path in paths)

    def network_status(self) -> list[Doc]:
        """What Multus wrote on it; empty where nothing was attached."""
        text = self.annotations.get(NETWORK_STATUS)
        items = as_list(cast("Json", json.loads(text))) if text else []
        return [item for item in items if isinstance(item, dict)]

    def devices_in_use(self) -> set[str]:
        """PCI addresses of the VFs it holds."""
        held = (text_at(n, "device-info", "pci", "pci-address") for n in self.network_status())
        return {address for address in held if address}

    def addresses(self) -> set[str]:
        """Addresses it has on its attached networks."""
        return {ip for status in self.network_status() for ip in texts_at(status, "ips")}


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node with its devices, its resources and what runs on it."""

    name: str
    devices: NodeDevices
    pools: tuple[Pool, ...]
    pods: Sequence[Pod]

    def running(self, image: str) -> Pod | None:
        """A running pod of this node whose image has this part in its name."""
        found = (p for p in self.pods if p.phase == "Running" and p.runs_image(image))
        return next(found, None)

    def installed(self, image: str) -> bool:
        """Whether a running pod put its CNI program into K3s' folder."""
        return any(
            pod.phase == "Running" and pod.runs_image(image) and pod.mounts_cni_folder()
            for pod in self.pods
        )


def dump_status(statuses: Sequence[Doc]) -> str:
    """Write network-status as Multus does: indented JSON."""
    return json.dumps(statuses, indent=4)
