"""Pods and nodes as the node agent sees them: typed views of the API's documents."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from components.catalogue.cluster_parts import DISTRIBUTIONS, CniPaths
from components.core.record import field, record
from lab.cluster.device_plugin import Pool
from lab.cluster.devices import Card, NodeDevices
from lab.cluster.document import (
    Doc,
    Json,
    as_doc,
    as_list,
    at,
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
from lab.cluster.shared_plugin import SharedPool

NETWORKS = "k8s.v1.cni.cncf.io/networks"
NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
CNI_DONE = "lab.railyard.dev/cni"
MTUS = "lab.railyard.dev/mtus"
"""MTU of its attached interfaces: JSON, interface to bytes; Multus writes no such thing."""
NOT_STARTED = "lab.railyard.dev/not-started"
"""Reason of a container that ended at once; its words are in `MESSAGE`."""
MESSAGE = "lab.railyard.dev/message"
EXIT_CODE = "lab.railyard.dev/exit-code"
DEVICES = "lab.railyard.dev/devices"
"""What a device plugin gave to a pod by count: JSON, resource to PCI addresses."""
CNI_BIN_DIR = DISTRIBUTIONS["k3s"].bin
"""K3s' CNI folder since v1.28.15 (sources.md#k3s)."""
DISTRIBUTION = "lab.railyard.dev/distribution"
"""Label of a node that was not made by K3s: it tells the node's CNI folders."""


@record
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

    def noted(self, notes: Mapping[str, Json]) -> Pod:
        """The same pod with these annotations more."""
        metadata = as_doc(self.document.get("metadata"))
        more: Doc = {**metadata, "annotations": {**self.annotations, **notes}}
        return Pod({**self.document, "metadata": more})

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
        """What its first container runs, as kubelet hands it on."""
        words = command_of(self.containers[0]) if self.containers else ()
        return tuple(expand(word, self.env) for word in words)

    @property
    def hostname(self) -> str:
        """What its containers call their machine: its own name, or its node's."""
        return (
            self.node
            if self.host_network
            else text_at(self.document, "spec", "hostname") or self.name
        )

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
    def host_network(self) -> bool:
        """Whether it runs in its node's network."""
        return at(self.document, "spec", "hostNetwork") is True

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

    def mounts_cni_folder(self, folder: str = CNI_BIN_DIR) -> bool:
        """Whether it mounts a node's folder of CNI programs, so that it can put one there."""
        paths = [text_at(v, "hostPath", "path") for v in docs_at(self.document, "spec", "volumes")]
        return any(path.rstrip("/") == folder for path in paths)

    def network_status(self) -> list[Doc]:
        """What Multus wrote on it; empty where nothing was attached."""
        text = self.annotations.get(NETWORK_STATUS)
        items = as_list(cast("Json", json.loads(text))) if text else []
        return [item for item in items if isinstance(item, dict)]

    def mtu_of(self, interface: str) -> int:
        """The MTU of an attached interface in bytes; 0 where there is none."""
        text = self.annotations.get(MTUS)
        return number_at(as_doc(cast("Json", json.loads(text))), interface) if text else 0

    def allocated(self) -> dict[str, tuple[str, ...]]:
        """PCI addresses of the devices it has by count, by resource."""
        text = self.annotations.get(DEVICES)
        given = as_doc(cast("Json", json.loads(text))) if text else {}
        return {resource: texts_at(given, resource) for resource in given}

    def devices_in_use(self) -> set[str]:
        """PCI addresses of all devices it holds, by attachment or by count."""
        held = (text_at(n, "device-info", "pci", "pci-address") for n in self.network_status())
        counted = (pci for devices in self.allocated().values() for pci in devices)
        return {address for address in (*held, *counted) if address}

    def host_files(self) -> dict[str, str]:
        """Files of the node that its first container sees: path there to path on the node."""
        volumes = {
            text_at(volume, "name"): text_at(volume, "hostPath", "path")
            for volume in docs_at(self.document, "spec", "volumes")
            if "hostPath" in volume
        }
        mounts = docs_at(self.containers[0], "volumeMounts") if self.containers else []
        return {
            text_at(mount, "mountPath"): volumes[text_at(mount, "name")]
            for mount in mounts
            if text_at(mount, "name") in volumes
        }

    def addresses(self) -> set[str]:
        """Addresses it has on its attached networks."""
        return {ip for status in self.network_status() for ip in texts_at(status, "ips")}


@record
class NodeState:
    """One node with its devices, its resources and what runs on it."""

    name: str
    devices: NodeDevices
    pools: tuple[Pool, ...]
    pods: Sequence[Pod]
    shared: tuple[SharedPool, ...] = ()
    cni: CniPaths = DISTRIBUTIONS["k3s"]
    """Where its containerd looks for networks."""
    brought: frozenset[str] = frozenset()
    """Parts of the names of images that the network operator's DaemonSets run here."""
    pool_files: Mapping[str, Doc] = field(default_factory=dict[str, Doc])
    """Files of addresses that a pod wrote beside those of whereabouts, by their path."""
    host: str = ""
    """The machine, where the node is called otherwise."""

    @property
    def machine(self) -> str:
        """What the lab calls the machine of this node."""
        return self.host or self.name

    def card(self, key: str) -> Card | None:
        """The card with that PCI address or network device."""
        cards = self.devices.cards
        return next((c for c in cards if key and key in (c.pci, c.netdev)), None)

    def shared_cards(self, pod: Pod) -> tuple[Card, ...]:
        """The cards that the shared resources of a pod give it, in the node's order."""
        names = {
            card.rdma for pool in self.shared if pod.requested(pool.resource) for card in pool.cards
        }
        return tuple(card for card in self.devices.cards if card.rdma in names)

    def running(self, image: str) -> Pod | None:
        """A running pod of this node whose image has this part in its name."""
        found = (p for p in self.pods if p.phase == "Running" and p.runs_image(image))
        return next(found, None)

    def installed(self, image: str, program: str = "") -> bool:
        """Whether a running pod put its CNI program into the node's folder.

        Args:
            image: A part of its image's name.
            program: Of an image that has many: the one that is meant. A pod with a script of its
                own brings those that the script names; the image's own entrypoint brings all.
        """
        return image in self.brought or any(
            pod.phase == "Running"
            and pod.runs_image(image)
            and pod.mounts_cni_folder(self.cni.bin)
            and (not program or not pod.command or f"/{program} " in " ".join(pod.command))
            for pod in self.pods
        )


def cni_of(labels: Mapping[str, str]) -> CniPaths:
    """The CNI folders of a node, by its labels."""
    return DISTRIBUTIONS[labels.get(DISTRIBUTION, "k3s")]


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by a variable of the container, and `$$` by `$`, as kubelet does.

    What names no variable of the container stays: a shell script's `$(command)` does.
    """

    def replaced(found: re.Match[str]) -> str:
        name = found[1]
        return "$" if name is None else env.get(name, found[0])

    return re.sub(r"\$(?:\$|\(([^()]*)\))", replaced, text)


def dump_status(statuses: Sequence[Doc]) -> str:
    """Write network-status as Multus does: indented JSON."""
    return json.dumps(statuses, indent=4)
