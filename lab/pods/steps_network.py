"""The story's steps about the pod network: the product's manifests, attachments, refusals."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from components.core.record import record
from components.kubernetes.manifest import Body
from components.pod_network.attachment import pod_attachment
from lab.cluster.document import (
    Doc,
    name_of,
    pairs_at,
    text_at,
    texts_at,
)
from lab.pods.cards import CardPlugin
from lab.pods.configs import K3S
from lab.pods.network import SPARE_CARD, plug_in_spare
from lab.pods.node import PROGRAMS, Node
from lab.pods.pods import (
    POD_DEADLINE_S,
    PodWish,
    await_event,
    await_phase,
    call_inside,
    create,
    delete,
    log_of,
    network_status,
    read,
)
from lab.pods.site import PodSite
from lab.vm.judging import StoryError

DAEMONS_DEADLINE_S: Final = 180.0
SHARED_PLUGIN: Final = "rdma-shared-dp-ds"
RDMA_CLASS: Final = Path("/sys/class/infiniband")
NO_RDMA: Final = "can not get RDMA subsystem network namespace mode"
"""What the plugin v1.5.3 ends with on a kernel without the RDMA subsystem (seen here)."""
MISSING: Final = "nowhere"
"""The attachment that there is none of."""
FRAME: Final = 28
"""Bytes of the IPv4 and ICMP headers."""


@dataclass(slots=True)
class Network:
    """The steps, and the stand-ins of device plugins that run."""

    site: PodSite
    cards: list[CardPlugin] = field(default_factory=list[CardPlugin])

    def apply_plan(self) -> str:
        """The plan's objects in their groups; its DaemonSets run on both nodes."""
        self.site.apply_all(self.site.plan.pod_network.manifests)
        wanted = [
            manifest.name
            for manifest in self.site.plan.pod_network.manifests
            if manifest.kind == "DaemonSet" and manifest.name != SHARED_PLUGIN
        ]
        self.site.wait(
            f"DaemonSets {', '.join(wanted)} on all nodes",
            lambda: all(self.site.daemons_ready(name) for name in wanted),
            DAEMONS_DEADLINE_S,
        )
        deployed = [
            each.name for each in self.site.plan.pod_network.manifests if each.kind == "Deployment"
        ]
        self.site.wait(
            f"Deployments {', '.join(deployed)}",
            lambda: all(self.site.deployment_ready(name) for name in deployed),
            DAEMONS_DEADLINE_S,
        )
        wanted += deployed
        return f"ready on all nodes: {', '.join(wanted)}\n{self._shared_plugin()}"

    def _shared_plugin(self) -> str:
        """The real plugin starts, and ends where the kernel has no RDMA at all."""
        seen: list[str] = []

        def said_enough() -> bool:
            seen[:] = self._plugin_logs()  # a container that starts again has an empty one
            return bool(seen) and all(_said_enough(text) for text in seen)

        what = "the log of the RDMA shared device plugin"
        self.site.wait(what, said_enough, DAEMONS_DEADLINE_S)
        lines = seen[0].splitlines()
        ended = next((line for line in lines if NO_RDMA in line), "")
        if RDMA_CLASS.is_dir() == bool(ended):
            raise StoryError(f"{SHARED_PLUGIN} judges this kernel otherwise than known: {lines}")
        return f"{SHARED_PLUGIN}, the real one: {ended or lines[-1]}"

    def _plugin_logs(self) -> list[str]:
        pods = self.site.api.items("/api/v1/namespaces/kube-system/pods")
        names = [name_of(pod) for pod in pods if name_of(pod).startswith(SHARED_PLUGIN)]
        return [log_of(self.site, name, "k8s-rdma-shared-dp-ds", "kube-system") for name in names]

    def wait_without_cards(self) -> str:
        """No plugin has published the rail's resource, so the scheduler keeps the pod."""
        resources = tuple(self._attachment().items())
        create(self.site, PodWish("asks", "", self._network, ("true",), resources))
        said = await_event(self.site, "asks", "FailedScheduling")
        if "Insufficient rdma/" not in said:
            raise StoryError(f"the pod waits for another reason: {said}")
        return said

    def register_cards(self) -> str:
        """Registration, admission and counts are the real kubelet's; the devices are played."""
        lines: list[str] = []
        for node in self.site.nodes:
            offered = self.site.plan.acceptance.limits.allocatable[node.name]
            for resource, count in (*offered.items(), ("nvidia.com/gpu", 1)):
                plugin = CardPlugin(node.root, resource, count)
                plugin.start()
                self.cards.append(plugin)
            self.site.cards = self.cards
            self.site.wait(
                f"{node.name} to offer {dict(offered)}",
                lambda name=node.name, wanted=offered: _offers(self.site, name, wanted),
                DAEMONS_DEADLINE_S,
            )
            lines.append(f"{node.name} offers {dict(offered)}")
        await_phase(self.site, "asks", ("Succeeded",))
        return "\n".join([*lines, "the pod that waited ran"])

    def reach(self) -> str:
        """Two pods with the product's attachment, one a node."""
        names = [f"on-{node.name}" for node in self.site.nodes]
        for name, node in zip(names, self.site.nodes, strict=True):
            create(self.site, PodWish(name, node.name, self._network))
        statuses = [network_status(await_phase(self.site, name, ("Running",))) for name in names]
        address = texts_at(statuses[1][1], "ips")[0]
        mtu = self.site.spec.rdma.mtu_bytes
        size = str(mtu - FRAME)
        for more in ((), ("-M", "do", "-s", size)):
            code, said = call_inside(
                self.site, names[0], "ping", "-c", "2", "-I", "net1", *more, address
            )
            if code:
                raise StoryError(f"{names[0]} does not reach {address} over net1: {said}")
        code, _ = call_inside(
            self.site, names[0], "ping", "-c", "1", "-W", "2", "-I", "net1",
            "-M", "do", "-s", str(mtu - FRAME + 1), address,
        )  # fmt: skip
        if not code:
            raise StoryError(f"a frame of {mtu + 1} bytes went over a rail of {mtu}")
        self._compare(statuses[0])
        return "\n".join([f"frames of {mtu} bytes arrive, larger ones do not", *_shown(statuses)])

    def _compare(self, status: list[Doc]) -> None:
        """The played Multus writes the same keys."""
        keys = [sorted(entry) for entry in status]
        wanted = [
            ["default", "dns", "gateway", "interface", "ips", "mac", "name"],
            ["dns", "interface", "ips", "mac", "name"],
        ]
        if keys != wanted:
            raise StoryError(f"network-status has keys {keys}, the lab's Multus writes {wanted}")

    def hand_over(self) -> str:
        """The real host-device plugin moves a card into a pod, and it comes back."""
        node, rail = self.site.nodes[0], self.site.spec.rails[0]
        plug_in_spare(node, self.site.rails[0])
        # It is none of the plan's plugins, nor of K3s'.
        node.run("ln", "-sf", f"{PROGRAMS}/host-device", f"{K3S.bin}/host-device")
        address = node.run("cat", f"/sys/class/net/{SPARE_CARD}/address").stdout.strip()
        config = {"cniVersion": "1.0.0", "name": "whole", "type": "host-device"}
        whole: Body = {
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": "whole", "namespace": self.site.spec.pod_network.namespace},
            "spec": {"config": json.dumps(config | {"device": SPARE_CARD})},
        }
        self.site.apply(whole)
        create(self.site, PodWish("has-card", node.name, "whole"))
        given = network_status(await_phase(self.site, "has-card", ("Running",)))[1]
        if text_at(given, "mac") != address or self._has_card(node):
            raise StoryError(f"the pod has {given}, the card was {address}")
        delete(self.site, "has-card")
        self.site.wait(f"the card on {node.name}", lambda: self._has_card(node), POD_DEADLINE_S)
        return f"{SPARE_CARD} ({address}, {rail.name}) was net1 of a pod, and is back"

    def _has_card(self, node: Node) -> bool:
        return node.run("test", "-e", f"/sys/class/net/{SPARE_CARD}", check=False).returncode == 0

    def refusals(self) -> str:
        """Every way to ask for a network that cannot be had, and the real words for it."""
        node, known = self.site.nodes[0].name, recorded_refusals()
        for refusal in known:
            if refusal.name != MISSING:
                self.site.apply(_definition(self.site, refusal))
        create(self.site, PodWish("holds-full", node, "full"))
        await_phase(self.site, "holds-full", ("Running",))
        for refusal in known:
            create(self.site, PodWish(f"asks-{refusal.name}", node, refusal.name))
        seen = {refusal.name: self._refusal(refusal.name) for refusal in known}
        for name in (*(f"asks-{refusal.name}" for refusal in known), "holds-full"):
            delete(self.site, name)
        other = [
            f"{each.name}: {seen[each.name]}\n  recorded: {each.said}"
            for each in known
            if seen[each.name] != each.said
        ]
        if other:
            raise StoryError("\n".join(["real parts say other words than recorded:", *other]))
        return "\n".join(f"{name}: {said}" for name, said in seen.items())

    def _refusal(self, name: str) -> str:
        said = await_event(self.site, f"asks-{name}", "FailedCreatePodSandBox")
        uid = text_at(read(self.site, f"asks-{name}"), "metadata", "uid")
        return neutral(said, uid)

    @property
    def _network(self) -> str:
        return self.site.spec.rails[0].network

    def _attachment(self) -> dict[str, int]:
        return dict(pod_attachment(self.site.spec).resources)


def neutral(message: str, uid: str) -> str:
    """A message of a refused sandbox without what is random: the sandbox's id, the pod's uid."""
    return re.sub(r'sandbox "[0-9a-f]{64}"', 'sandbox "ID"', message.replace(uid, "UID"))


def _said_enough(text: str) -> bool:
    return NO_RDMA in text or ("Starting" in text and RDMA_CLASS.is_dir())


def _offers(site: PodSite, node: str, wanted: dict[str, int]) -> bool:
    found = site.api.find(f"/api/v1/nodes/{node}") or {}
    return all(
        str(pairs_at(found, "status", "allocatable").get(key)) == str(count)
        for key, count in wanted.items()
    )


def _shown(statuses: list[list[Doc]]) -> list[str]:
    return [json.dumps(entry) for status in statuses for entry in status]


@record
class Refusal:
    """One way to ask for a network that cannot be had."""

    name: str
    """Of the attachment."""
    changes: Doc | None
    """What is wrong with its configuration; None where it is no JSON, or there is none."""
    said: str
    """What kubelet, containerd, Multus and the plugin said together, without what is random."""


def recorded_refusals() -> tuple[Refusal, ...]:
    """The real words, as a run of this story saw them; the lab's played parts say the same."""
    found = json.loads((Path(__file__).parent / "recorded" / "refusals.json").read_text())
    return tuple(
        Refusal(name, entry["changes"], entry["said"]) for name, entry in sorted(found.items())
    )


def broken(config: str, refusal: Refusal) -> str:
    """The configuration of a rail's attachment with something wrong in it."""
    if refusal.changes is None:
        return "{nope"
    good = json.loads(config)
    # In a list of plugins the one plugin has no place beside it.
    kept = {"cniVersion": good["cniVersion"]} if "plugins" in refusal.changes else good
    return json.dumps({**kept, "name": refusal.name, **refusal.changes})


def _definition(site: PodSite, refusal: Refusal) -> Body:
    """The attachment of the rail with something wrong in it."""
    rail = next(
        manifest.body
        for manifest in site.plan.pod_network.manifests
        if manifest.name == site.spec.rails[0].network
    )
    config = text_at(json.loads(json.dumps(rail)), "spec", "config")
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": refusal.name, "namespace": site.spec.pod_network.namespace},
        "spec": {"config": broken(config, refusal)},
    }
