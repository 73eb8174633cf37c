"""What a probe's pod has of RDMA: for its own script, and for the lab's physics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.core.record import field, record, replace
from lab.cluster.attach import plugins_of
from lab.cluster.devices import Card
from lab.cluster.document import Doc, Json, at, docs_at, number_at, text_at, texts_at
from lab.cluster.image_files import GpuAccess
from lab.cluster.images import Image, find_image
from lab.cluster.ipam import with_file
from lab.cluster.pod_shell import Container, Gid, ShownDevice
from lab.cluster.pod_view import NodeState, Pod

GPU = "nvidia.com/gpu"


@record
class World:
    """Everything a probe can see: nodes, pods and attachment definitions."""

    nodes: Mapping[str, NodeState]
    pods: Sequence[Pod]
    definitions: Mapping[str, Doc]
    hostfiles: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the MPI operator wrote for its jobs, by `namespace/job`."""
    services: frozenset[str] = frozenset()
    """The cluster's headless Services, as `namespace/name`."""


def probe_pod(pod: Pod, world: World) -> Doc:
    """A pod as the physics is told of it (`lab/physics/request.py`)."""
    node = world.nodes.get(pod.node)
    environment: dict[str, Json] = {**_device_env(pod, node), **pod.env}
    known = node.devices.files if node else ()
    files = [inside for inside, path in pod.host_files().items() if path in known]
    networks = networks_of(pod, node, world) if node else []
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "node": node.machine if node else pod.node,
        "command": list(pod.command),
        "env": environment,
        "gpus": pod.requested(GPU),
        "nccl": image_of(pod).release_of_nccl,
        "capabilities": list(pod.capabilities),
        "networks": [*networks],
        # Without a device plugin's resource it opens no verbs device there either.
        "host_network": pod.host_network and bool(networks),
        "files": [*files],
    }


def addresses_of(pod: Pod, world: World) -> set[str]:
    """The addresses at which a pod is reached, on rails and else, without prefix lengths."""
    node = world.nodes.get(pod.node)
    own = {text_at(pod.document, "status", "podIP")} - {""}
    if pod.host_network and node:
        return own | {ip for card in node.devices.cards for ip in card.addresses}
    return own | {address.partition("/")[0] for address in pod.addresses()}


def networks_of(pod: Pod, node: NodeState, world: World) -> list[Doc]:
    """The RDMA interfaces of a pod; a device without a verbs device is none."""
    found: list[Doc] = []
    for status in pod.network_status():
        definition = world.definitions.get(text_at(status, "name"), {})
        bare: list[Doc] = [{}]
        chain = plugins_of(definition) if definition else bare
        main, kinds = chain[0], {text_at(each, "type") for each in chain}
        moved = "rdma" in kinds or at(main, "rdmaIsolation") is True
        if node.devices.exclusive and not moved:
            continue  # its RDMA device stayed in the host's namespace
        by_source: Doc = {"by_source": True} if "sbr" in kinds else {}
        if kinds & {"macvlan", "ipoib"}:
            made = _on_card(pod, node, status, main, world)
        else:
            made = _on_function(pod, node, status, main)
        found += [{**each, **by_source} for each in made]
    for card in allocated_cards(pod, node):
        layer = {"rdma": card.rdma, "pf": card.rdma, "kind": "hca"}
        found.append({"interface": card.netdev, "ip": "", **_flat(card.mtu_bytes), **layer})
    if pod.host_network:
        found += [_of_host(card) for card in node.shared_cards(pod) if card.netdev]
    return found


def allocated_cards(pod: Pod, node: NodeState) -> list[Card]:
    """The whole cards that a device plugin gave to a pod by count."""
    cards = (node.card(pci) for devices in pod.allocated().values() for pci in devices)
    return [card for card in cards if card is not None]


def _flat(mtu_bytes: int) -> Doc:
    """Untagged, as everything but a VF with a VLAN is."""
    return {"vlan": 0, "pcp": 0, "mtu_bytes": mtu_bytes}


def _on_card(pod: Pod, node: NodeState, status: Doc, main: Doc, world: World) -> list[Doc]:
    """A macvlan interface: RDMA goes through the card itself, if the pod may use that."""
    card = node.card(text_at(main, "master"))
    if card is None or card not in node.shared_cards(pod):
        return []
    head: Doc = {"name": text_at(status, "name"), "interface": text_at(status, "interface")}
    fabric = card.link_layer == "InfiniBand"
    end: Doc = {
        "pf": card.rdma if fabric else card.pci,
        "rdma": card.rdma,
        "kind": "hca" if fabric else "pf",
    }
    if any(gid.hidden and gid.ip for gid in _card_gids(card, pod, node, world)):
        end["hidden_gids"] = True
    mtu = pod.mtu_of(text_at(status, "interface"))
    return [{**head, **_addressed(status, main, node), **_flat(mtu), **end}]


def _of_host(card: Card) -> Doc:
    end: Doc = {"pf": card.pci, "rdma": card.rdma, "kind": "pf"}
    ip = card.addresses[0] if card.addresses else ""
    return {"interface": card.netdev, "ip": ip, **_flat(card.mtu_bytes), **end}


def _on_function(pod: Pod, node: NodeState, status: Doc, main: Doc) -> list[Doc]:
    vfs = {vf.pci: (vf, pool) for pool in node.pools for vf in pool.devices}
    pci = text_at(status, "device-info", "pci", "pci-address")
    vf, pool = vfs.get(pci, (None, None))
    # A resource without isRdma mounts no verbs device, so the pod has no RDMA interface there.
    if vf is None or pool is None or not pool.rdma:
        return []
    return [
        {
            "name": text_at(status, "name"),
            "interface": text_at(status, "interface"),
            **_addressed(status, main, node),
            "vlan": number_at(main, "vlan"),
            "pcp": number_at(main, "vlanQoS"),
            "mtu_bytes": pod.mtu_of(text_at(status, "interface")),
            "pf": vf.pf_pci,
            "rdma": vf.rdma,
            "has_node_guid": vf.has_node_guid,
            **({"kind": "hca"} if vf.link_type == "infiniband" else {}),
        }
    ]


def _addressed(status: Doc, main: Doc, node: NodeState) -> Doc:
    """Address of an interface, and its routes as the IPAM plugin gave them."""
    part = main.get("ipam")
    ipam: Doc = part if isinstance(part, dict) else {}
    if text_at(ipam, "type") == "whereabouts":
        ipam = with_file(ipam, node)
    network = text_at(ipam, "range")
    routes: list[Json] = [
        [text_at(route, "dst"), text_at(route, "gw")] for route in docs_at(ipam, "routes")
    ]
    prefix: Json = int(network.partition("/")[2]) if "/" in network else 0
    return {"ip": _ip(status), "prefix": prefix, "routes": routes}


def _ip(status: Doc) -> str:
    ips = texts_at(status, "ips")
    return ips[0].partition("/")[0] if ips else ""


def container_of(
    pod: Pod, world: World, control: Path | None = None, **more: Mapping[str, str]
) -> Container:
    """What a pod's script finds in its container.

    Args:
        pod: The pod.
        world: What is around it.
        control: Socket of the lab daemon, for programs that run on the pod's GPUs.
        more: `files` and `names` of the container.
    """
    node = world.nodes.get(pod.node)
    if node is None:
        return Container(pod.env, memlock_kib=0, image=image_of(pod), hostname=pod.hostname)
    env = {**_device_env(pod, node), **pod.env}
    folders = node.devices.folders
    shown = [
        replace(each, folder=folders.get(each.rdma, ""))
        for each in _shown_devices(pod, node, world)
    ]
    return Container(
        env,
        shown,
        node.devices.memlock_kib,
        image=image_of(pod),
        files=more.get("files", {}),
        names=more.get("names", {}),
        hostname=pod.hostname,
        gpu_folders=node.devices.gpu_folders,
        gpus=GpuAccess(control, probe_pod(pod, world)) if control and pod.requested(GPU) else None,
    )


def image_of(pod: Pod) -> Image:
    """What the image of a pod's first container holds."""
    return find_image(text_at(pod.containers[0], "image") if pod.containers else "")


def _shown_devices(pod: Pod, node: NodeState, world: World) -> list[ShownDevice]:
    """The devices under the container's /sys.

    In the shared mode of RDMA namespaces a container sees all cards of its node there, whichever
    it may open; a VF's own interface moves into the pod, and its device is shown with it.
    """
    networks = networks_of(pod, node, world)
    functions = [
        ShownDevice(
            text_at(each, "rdma"),
            text_at(each, "interface"),
            _gids([text_at(each, "ip")], text_at(each, "interface")),
        )
        for each in networks
        if "kind" not in each
    ]
    if functions:
        return functions
    return [_shown_card(card, pod, node, world) for card in node.devices.cards if card.rdma]


def _shown_card(card: Card, pod: Pod, node: NodeState, world: World) -> ShownDevice:
    return ShownDevice(
        card.rdma,
        card.netdev if pod.host_network else "",
        _card_gids(card, pod, node, world),
        card.link_layer,
        card.state,
        card.rate,
    )


def _gids(ips: Sequence[str], interface: str) -> tuple[Gid, ...]:
    return tuple(Gid(ip, interface) for ip in ips if ip)


def _card_gids(card: Card, pod: Pod, node: NodeState, world: World) -> tuple[Gid, ...]:
    """A card's GID table: the host's own entries, those of other pods on it, and the pod's.

    The drivers of MLNX_OFED and DOCA hide entries of another network namespace on RoCE
    (sources.md#pod-network), and the lab plays them. The kernel's own driver would show them.
    """
    roce = card.link_layer == "Ethernet"
    own = roce and not pod.host_network
    found = [Gid(ip, card.netdev, own) for ip in ("", *card.addresses)]
    others = [each for each in world.pods if each.node == pod.node and each.uid != pod.uid]
    for each in (*(other for other in others if other.live), pod):
        hidden = roce and each is not pod
        for name, address in _on_top(each, card, node, world):
            found += [Gid(ip, name, hidden) for ip in dict.fromkeys(("", address))]
    return tuple(found)


def _on_top(pod: Pod, card: Card, node: NodeState, world: World) -> list[tuple[str, str]]:
    """Interfaces of a pod on top of a card, each with its address."""
    if pod.host_network:
        return []
    found: list[tuple[str, str]] = []
    for status in pod.network_status():
        definition = world.definitions.get(text_at(status, "name"))
        master = text_at(plugins_of(definition)[0], "master") if definition else ""
        if master and node.card(master) == card:
            found.append((text_at(status, "interface"), _ip(status)))
    return found


def _device_env(pod: Pod, node: NodeState | None) -> dict[str, str]:
    """What the device plugin puts into a container: PCIDEVICE_<PREFIX>_<NAME>."""
    held = pod.devices_in_use()
    env: dict[str, str] = {}
    for pool in node.pools if node else ():
        mine = [vf.pci for vf in pool.devices if vf.pci in held]
        if mine:
            key = re.sub(r"[^A-Za-z0-9]", "_", pool.resource).upper()
            env[f"PCIDEVICE_{key}"] = ",".join(mine)
    return env
