"""The story's steps about time: what is changed by hand, drained, rebooted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from components.disruption.node import Clock
from components.disruption.node import Node as ServiceNode
from components.kubernetes.client import KubernetesCalls
from lab.cluster.document import Doc, Json, docs_at, name_of, text_at
from lab.pods.cards import CardPlugin
from lab.pods.pods import PodWish, await_phase, create, read
from lab.pods.site import PodSite
from lab.vm.judging import StoryError

DEADLINE_S: Final = 240.0
_SETS: Final = "/apis/apps/v1/namespaces/kube-system/daemonsets"
_PODS: Final = "/api/v1/namespaces/kube-system/pods"
_DEPLOYMENT: Final = "/apis/apps/v1/namespaces/default/deployments/stays"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(slots=True)
class Life:
    """The steps."""

    site: PodSite

    def repair(self) -> str:
        """Edit one DaemonSet and delete another, by hand; the plan's objects bring both back."""
        wrong = "registry.example.com/other:1"
        change: Doc = {"containers": [{"name": "macvlan-cni", "image": wrong}]}
        self.site.api.request(
            "PATCH",
            f"{_SETS}/macvlan-cni",
            {"spec": {"template": {"spec": change}}},
            "application/strategic-merge-patch+json",
        )
        self.site.api.request("DELETE", f"{_SETS}/multus")
        self.site.wait("Multus' pods to go", lambda: not self._pods_of("multus"), DEADLINE_S)
        self.site.wait("a pod that cannot pull", lambda: bool(self._pulls()), DEADLINE_S)
        reason = self._pulls()[0]
        self.site.apply_all(self.site.plan.pod_network.manifests)
        for name in ("macvlan-cni", "multus"):
            self.site.wait(
                f"DaemonSet {name}", lambda n=name: self.site.daemons_ready(n), DEADLINE_S
            )
        image = docs_at(
            self.site.api.find(f"{_SETS}/macvlan-cni"), "spec", "template", "spec", "containers"
        )[0]
        if text_at(image, "image") == wrong:
            raise StoryError(f"macvlan-cni still has the image {wrong}")
        self._runs_on_rail("after-repair", self.site.nodes[0].name)
        return f"by hand: {reason}; both are back, and a pod gets its rail"

    def reboot(self) -> str:
        """The product's own drain; then the power goes, and the node comes back."""
        node = self.site.nodes[0]
        self._keep_one_pod()
        calls = KubernetesCalls(self.site.plane.kubeconfig.read_text())
        served = ServiceNode(node.name, calls, Clock())
        before = self._boot_of(node.name)
        for name in ("on-node01", "after-repair"):
            self._forget(name)
        served.cordon(ends_vfs=False)
        served.drain(DEADLINE_S)
        self.site.power_cut(node)
        self.site.wait(
            f"another boot of {node.name}",
            lambda: self._boot_of(node.name) != before and self.site.node_ready(node.name),
            DEADLINE_S,
        )
        for resource, count in self._cards_of(node.name).items():
            plugin = CardPlugin(node.root, resource, count)
            plugin.start()
            self.site.cards.append(plugin)
        served.await_service([before], DEADLINE_S)
        served.uncordon()
        self._runs_on_rail("after-reboot", node.name)
        return "\n".join(served.done)

    def _boot_of(self, node: str) -> str:
        shown = self.site.api.find(f"/api/v1/nodes/{node}")
        return text_at(shown, "status", "nodeInfo", "bootID")

    def _cards_of(self, node: str) -> dict[str, int]:
        return {**self.site.plan.acceptance.limits.allocatable[node], "nvidia.com/gpu": 1}

    def _keep_one_pod(self) -> None:
        """A Deployment whose pod is on the node, so that something has to move."""
        labels: dict[str, Json] = {"app": "stays"}
        pod: Doc = {
            "affinity": {"nodeAffinity": {_PREFERRED: [_towards(self.site.nodes[0].name)]}},
            "containers": [
                {"name": "main", "image": self.site.job_image, "command": ["sleep", "3600"]}
            ],
            "terminationGracePeriodSeconds": 1,
        }
        self.site.api.apply(
            _DEPLOYMENT,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "stays", "namespace": "default"},
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            },
        )
        self.site.wait("Deployment stays", self._stays, DEADLINE_S)

    def _stays(self) -> bool:
        found = self.site.api.find(_DEPLOYMENT) or {}
        return text_at(found, "metadata", "name") == "stays" and any(
            text_at(each, "type") == "Available" and text_at(each, "status") == "True"
            for each in docs_at(found, "status", "conditions")
        )

    def _forget(self, name: str) -> None:
        """Pods without an owner keep a drain from ending, as the product says."""
        path = f"/api/v1/namespaces/default/pods/{name}"
        if read(self.site, name):
            self.site.api.request("DELETE", path, {"gracePeriodSeconds": 0})
            self.site.wait(f"pod {name} to go", lambda: not read(self.site, name), DEADLINE_S)

    def _runs_on_rail(self, name: str, node: str) -> None:
        rail = self.site.spec.rails[0].network
        create(self.site, PodWish(name, node, rail))
        await_phase(self.site, name, ("Running",))

    def _pods_of(self, name: str) -> list[str]:
        pods = self.site.api.items(_PODS, {"labelSelector": f"name={name}"})
        return [name_of(pod) for pod in pods]

    def _pulls(self) -> list[str]:
        pods = self.site.api.items(_PODS, {"labelSelector": "name=macvlan-cni"})
        states = [each for pod in pods for each in docs_at(pod, "status", "containerStatuses")]
        reasons = [text_at(each, "state", "waiting", "reason") for each in states]
        return [each for each in reasons if each in {"ErrImagePull", "ImagePullBackOff"}]


def _towards(node: str) -> Doc:
    here: Doc = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"weight": 100, "preference": {"matchExpressions": [here]}}
