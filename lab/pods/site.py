"""The running site of `make lab-pods`: control plane, registry and nodes, in namespaces.

The process that makes it must be the first of its own network, mount and PID namespaces
(`lab.pods.enter`): then nothing of it can outlive that process.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from components.checks.site import load_checked_site
from components.core.errors import DeviceError
from components.kubernetes.manifest import Body, Manifest
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan, make_plan
from lab.cluster.api import Api
from lab.cluster.document import Doc, as_doc, docs_at, name_of, number_at, text_at
from lab.cluster.plane import ControlPlane, PlaneOptions
from lab.cluster.process import Child, wait_until
from lab.pods.cards import CardPlugin
from lab.pods.configs import CONTROL_PLANE, MIRROR, REGISTRY_PORT, SERVICES
from lab.pods.network import RailCable, lay_site, plug_in
from lab.pods.node import Node
from lab.pods.paths import place_of

SITE = Path(__file__).with_name("site.yaml")
API_PORT = 6443
FIRST_SERVICE = "10.43.0.1"
MANAGER = "pulumi-kubernetes"
"""The field manager of the Kubernetes provider."""
APPLY_DEADLINE_S = 30.0
READY_DEADLINE_S = 180.0
"""A node is Ready 1 to 26 s after the API answers (tried on two busy cores)."""
_REGISTRY = """version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: STORAGE}}
http: {addr: "ADDRESS"}
"""


def load_plan(site: Path = SITE) -> tuple[ClusterSpec, ClusterPlan]:
    """The product's spec and plan of a site.

    Raises:
        DeviceError: Its own checks refuse the site.
    """
    checked = load_checked_site(site)
    if checked.spec is None:
        raise DeviceError(f"{site.name} is refused: {[str(each) for each in checked.problems]}")
    return checked.spec, make_plan(checked.spec, "pods")


class Member(Protocol):
    """A node of a site, whatever it runs on."""

    @property
    def name(self) -> str:
        """What the API calls it."""
        ...

    def check_running(self) -> None:
        """Raise `DeviceError` where a process of the node has ended."""
        ...

    def kill(self) -> None:
        """Cut its power."""
        ...


AnyNode = TypeVar("AnyNode", bound=Member)


@dataclass(slots=True)
class ClusterSite(Generic[AnyNode]):
    """What runs, and where its files are."""

    folder: Path
    programs: Mapping[str, Path]
    """The control plane's, and `registry`."""
    node_programs: Path
    """Folder of those that run on nodes."""
    tree: Path
    spec: ClusterSpec
    plan: ClusterPlan
    patience: float = 1.0
    """Times each deadline: emulated processors need a multiple."""
    plane: ControlPlane = field(init=False)
    nodes: list[AnyNode] = field(default_factory=list[AnyNode])
    registry: Child | None = None

    def __post_init__(self) -> None:
        """Describe the control plane; nothing is started."""
        # kube-proxy leads pods to the API by the address of its Service, as on K3s.
        options = PlaneOptions(
            tls_sans=(FIRST_SERVICE,),
            api_args=(
                f"service-cluster-ip-range={SERVICES}",
                "endpoint-reconciler-type=lease",
            ),
        )
        self.plane = ControlPlane(
            self.folder / "plane", CONTROL_PLANE, API_PORT, self.programs, options
        )

    @property
    def api(self) -> Api:
        """A client with all rights."""
        return self.plane.admin

    @property
    def job_image(self) -> str:
        """The image of the jobs, where the site's registry has it."""
        return f"{MIRROR}/{self.spec.jobs.image}"

    def start_registry(self, storage: Path) -> None:
        """Serve images on the address of the control plane."""
        storage.mkdir(parents=True, exist_ok=True)
        text = _REGISTRY.replace("STORAGE", str(storage)).replace("ADDRESS", MIRROR)
        config = self.folder / "registry.yml"
        config.write_text(text)
        words = [str(self.programs["registry"]), "serve", str(config)]
        self.registry = Child("registry", words, self.folder / "registry.log")
        self.registry.start()
        wait_until("the registry", _serves, READY_DEADLINE_S)

    def node_ready(self, name: str) -> bool:
        """Whether the API calls a node Ready."""
        node = self.api.find(f"/api/v1/nodes/{name}") or {}
        return any(
            text_at(each, "type") == "Ready" and text_at(each, "status") == "True"
            for each in docs_at(node, "status", "conditions")
        )

    def wait(self, what: str, ready: Callable[[], bool], deadline_s: float) -> None:
        """Wait, and end at once where a process of the site has ended.

        Args:
            what: For the error.
            ready: Asked again and again.
            deadline_s: On a machine with idle cores; `patience` is a factor.

        Raises:
            DeviceError: It took too long, or a process ended.
        """

        def check() -> bool:
            self.plane.check_running()
            for node in self.nodes:
                node.check_running()
            return ready()

        wait_until(what, check, deadline_s * self.patience)

    def wait_for_nodes(self) -> None:
        """Wait until all nodes are Ready.

        Raises:
            DeviceError: One is not within the deadline.
        """
        for node in self.nodes:
            name = node.name
            self.wait(f"{name} to be Ready", lambda n=name: self.node_ready(n), READY_DEADLINE_S)

    def describe_nodes(self) -> list[str]:
        """What the nodes say of themselves."""
        nodes = self.api.items("/api/v1/nodes")
        keys = ("kubeletVersion", "containerRuntimeVersion", "kernelVersion", "osImage")
        return [
            f"{name_of(node)}: "
            + ", ".join(text_at(node, "status", "nodeInfo", key) for key in keys)
            for node in nodes
        ]

    def apply(self, body: Body) -> Doc:
        """Write one object of a plan, as the Kubernetes provider does (server-side apply)."""
        doc = as_doc(json.loads(json.dumps(body)))
        return self.api.apply(place_of(doc), doc, manager=MANAGER)

    def apply_all(self, manifests: Sequence[Manifest]) -> None:
        """Write manifests in their order; a kind that was just defined is served a moment later.

        Raises:
            DeviceError: The API refuses one for good.
        """
        for manifest in manifests:
            refused: list[DeviceError] = []
            path = manifest.resource_name

            def written(body: Body = manifest.body, refused: list[DeviceError] = refused) -> bool:
                try:
                    self.apply(body)
                except DeviceError as error:
                    refused.append(error)
                    return False
                return True

            try:
                self.wait(f"the API to take {path}", written, APPLY_DEADLINE_S)
            except DeviceError as error:
                words = str(refused[-1]) if refused else str(error)
                raise DeviceError(words) from error

    def daemons_ready(self, name: str, namespace: str = "kube-system") -> bool:
        """Whether a DaemonSet runs on every node, as its newest template wants it."""
        path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}"
        found = self.api.find(path) or {}
        counts = [
            number_at(found, "status", key)
            for key in ("desiredNumberScheduled", "numberReady", "updatedNumberScheduled")
        ]
        seen = number_at(found, "status", "observedGeneration")
        newest = seen == number_at(found, "metadata", "generation")
        return newest and counts == [len(self.nodes)] * len(counts)

    def deployment_ready(self, name: str, namespace: str = "kube-system") -> bool:
        """Whether all pods of a Deployment are ready."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        found = self.api.find(path) or {}
        wanted = number_at(found, "spec", "replicas")
        return wanted > 0 and number_at(found, "status", "readyReplicas") == wanted

    def stop(self) -> None:
        """End everything that was started, nodes first."""
        for node in self.nodes:
            node.kill()
        self.plane.stop()
        if self.registry:
            self.registry.stop()


@dataclass(slots=True)
class PodSite(ClusterSite[Node]):
    """A site whose nodes are namespaces of this machine."""

    cards: list[CardPlugin] = field(default_factory=list[CardPlugin])
    """Stand-ins of device plugins, of all nodes."""

    @property
    def rails(self) -> tuple[RailCable, ...]:
        """The cables of the site's rails; all nodes name their cards alike, as macvlan demands."""
        rdma = self.spec.rdma
        return tuple(
            RailCable(rail.name, self._card(rail.name), rdma.mtu_bytes, rdma.port_mtu_bytes or 9216)
            for rail in self.spec.rails
        )

    def _card(self, rail: str) -> str:
        return next(
            nic.netdev for host in self.spec.workers for nic in host.nics if nic.rail == rail
        )

    def start_nodes(self) -> None:
        """Boot all nodes, plug them in, and start what K3s starts on them."""
        self.nodes = [
            Node(host.node, number, self.folder / host.node, self.tree, self.node_programs)
            for number, host in enumerate(self.spec.workers, 1)
        ]
        for node in self.nodes:
            self.start_node(node)

    def start_node(self, node: Node) -> None:
        """Boot one node and let it join; again after a reboot."""
        node.boot()
        plug_in(node, self.nodes, self.rails)
        node.configure(self.plane)
        node.start()

    def power_cut(self, node: Node) -> None:
        """End all of a node at once, and boot it with what is on its disk."""
        node.kill()
        self.start_node(node)

    def lay_cables(self) -> None:
        """Make the bridges and an empty folder; once, before anything takes an address."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        lay_site(self.rails)

    def stop(self) -> None:
        """End everything that was started, device plugins first."""
        for plugin in self.cards:
            plugin.stop()
        ClusterSite[Node].stop(self)


AnySite = ClusterSite[Any]
"""A site of nodes of any kind."""


def _serves() -> bool:
    try:
        with socket.create_connection((CONTROL_PLANE, REGISTRY_PORT), timeout=1):
            return True
    except OSError:
        return False
