"""What Multus, the SR-IOV and macvlan CNIs and the IPAM plugins do for a pod: pure.

Forms: the networks annotation, network-status and the net-conf keys of sources.md#pod-network.
An absent part refuses the pod with the plugin's own kind of message; without Multus the annotation
is only a comment, as on a real node.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from components.core.errors import DeviceError
from lab.cluster.device_plugin import Pool
from lab.cluster.devices import VirtualFunction
from lab.cluster.document import (
    Doc,
    Json,
    as_doc,
    as_list,
    docs_at,
    number_at,
    pairs_at,
    text_at,
    texts_at,
)
from lab.cluster.pod_view import CNI_BIN_DIR, NETWORKS, NodeState, Pod

RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
_IMAGES = {"sriov": "sriov-cni", "macvlan": "k8snetworkplumbingwg/plugins"}
"""CNI plugin to a part of the image that brings it; K3s has neither (sources.md#k3s)."""


class AttachError(DeviceError):
    """The pod's sandbox cannot be made (yet); the text is the event's message."""


@dataclass(frozen=True, slots=True)
class NetworkRef:
    """One entry of the networks annotation."""

    namespace: str
    name: str
    interface: str

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def parse_networks(text: str, namespace: str) -> tuple[NetworkRef, ...]:
    """Read the networks annotation in either of its forms.

    Raises:
        AttachError: it is neither a list of names nor JSON.
    """
    entries: list[tuple[str, str]] = []
    if text.strip().startswith("["):
        try:
            items = as_list(cast("Json", json.loads(text)))
        except json.JSONDecodeError as error:
            raise AttachError(f"parsePodNetworkAnnotation: failed to parse: {error}") from error
        for item in items:
            name, space = text_at(item, "name"), text_at(item, "namespace") or namespace
            entries.append((f"{space}/{name}", text_at(item, "interface")))
    else:
        for part in text.split(","):
            name, _, interface = part.strip().partition("@")
            entries.append((name if "/" in name else f"{namespace}/{name}", interface))
    refs: list[NetworkRef] = []
    for number, (key, interface) in enumerate(entries, 1):
        space, _, name = key.partition("/")
        refs.append(NetworkRef(space, name, interface or f"net{number}"))
    return tuple(refs)


@dataclass(frozen=True, slots=True)
class Site:
    """What all nodes share: attachment definitions and the addresses in use."""

    definitions: Mapping[str, Doc]
    used_addresses: frozenset[str]


def attach(pod: Pod, node: NodeState, site: Site) -> list[Doc] | None:
    """Attach a pod's networks.

    Returns:
        The entries of network-status, or None where Multus is not on the node and nothing is done.

    Raises:
        AttachError: a part is missing; the pod stays in ContainerCreating.
    """
    if not node.installed("multus"):
        return None
    statuses: list[Doc] = [{"name": "cbr0", "interface": "eth0", "ips": [], "default": True}]
    held = {address for other in node.pods if other.live for address in other.devices_in_use()}
    used = set(site.used_addresses)
    for ref in parse_networks(pod.annotations[NETWORKS], pod.namespace):
        definition = site.definitions.get(ref.key)
        if definition is None:
            raise AttachError(
                f"[{pod.namespace}/{pod.name}/{pod.uid}:cbr0]: error adding pod to CNI network "
                '"multus-cni-network": getKubernetesDelegate: cannot find a network-attachment-'
                f"definition ({ref.name}) in namespace ({ref.namespace}): network-attachment-"
                f'definitions.k8s.cni.cncf.io "{ref.name}" not found'
            )
        status = _delegate(pod, node, ref, definition, (held, used))
        statuses.append(status)
        used |= set(texts_at(status, "ips"))
    return statuses


def plugins_of(definition: Doc) -> list[Doc]:
    """Read the chain of CNI plugins of an attachment definition.

    Raises:
        AttachError: its configuration is no JSON.
    """
    try:
        config = as_doc(cast("Json", json.loads(text_at(definition, "spec", "config"))))
    except json.JSONDecodeError as error:
        raise AttachError(f"error parsing CNI configuration: {error}") from error
    return docs_at(config, "plugins") or [config]


@dataclass(frozen=True, slots=True)
class _Call:
    """One network of a pod, with the chain of CNI plugins that is called for it."""

    pod: Pod
    node: NodeState
    ref: NetworkRef
    definition: Doc
    main: Doc
    chained: tuple[Doc, ...]


def _delegate(
    pod: Pod, node: NodeState, ref: NetworkRef, definition: Doc, taken: tuple[set[str], set[str]]
) -> Doc:
    held, used = taken
    main, *chained = plugins_of(definition)
    kind = text_at(main, "type")
    if kind not in _IMAGES:
        known = " or ".join(_IMAGES)
        raise AttachError(f"the lab plays no CNI plugin {kind!r}, wanted by {ref.key}: use {known}")
    if not node.installed(_IMAGES[kind]):
        raise AttachError(f'{ref.key}: failed to find plugin "{kind}" in path [{CNI_BIN_DIR}]')
    call = _Call(pod, node, ref, definition, main, tuple(chained))
    made = _sriov(call, held) if kind == "sriov" else _macvlan(call)
    head: Doc = {"name": ref.key, "interface": ref.interface, "mac": ""}
    return {**head, "ips": _ipam(ref, as_doc(main.get("ipam")), node, used), **made}


def _sriov(call: _Call, held: set[str]) -> Doc:
    resource = pairs_at(call.definition, "metadata", "annotations").get(RESOURCE_NAME, "")
    pool = next((pool for pool in call.node.pools if pool.resource == resource), None)
    vf = _free_vf(call.pod, pool, resource, held)
    held.add(vf.pci)
    return {
        "mtu": _tuned_mtu(call) or vf.mtu_bytes,
        "device-info": {
            "type": "pci",
            "version": "1.1.0",
            "pci": {"pci-address": vf.pci, "pf-pci-address": vf.pf_pci},
        },
    }


def _macvlan(call: _Call) -> Doc:
    """An interface on top of a card; the texts are those of the plugin (its main/macvlan)."""
    master = text_at(call.main, "master")
    card = call.node.card(master)
    if card is None:
        raise AttachError(f'{call.ref.key}: failed to lookup master "{master}": Link not found')
    mtu = number_at(call.main, "mtu") or card.mtu_bytes
    if mtu > card.mtu_bytes:
        raise AttachError(f"invalid MTU {mtu}, must be [0, master MTU({card.mtu_bytes})]")
    return {"mtu": _tuned_mtu(call) or mtu}


def _tuned_mtu(call: _Call) -> int:
    mtus = [number_at(each, "mtu") for each in call.chained if text_at(each, "type") == "tuning"]
    return mtus[0] if mtus else 0


def _free_vf(pod: Pod, pool: Pool | None, resource: str, held: set[str]) -> VirtualFunction:
    if not resource or not pod.requested(resource):
        raise AttachError(
            "SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required: the pod "
            f"requests no {resource or 'device resource'}"
        )
    for vf in pool.devices if pool else ():
        if vf.pci not in held:
            return vf
    raise AttachError(f"no free device of {resource} on the node")


def _ipam(ref: NetworkRef, ipam: Doc, node: NodeState, used: set[str]) -> list[Json]:
    kind = text_at(ipam, "type")
    if not kind:
        return []
    if kind == "dhcp":
        raise AttachError(
            "error calling DHCP.Allocate: error dialing DHCP daemon: dial unix /run/cni/dhcp.sock:"
            " connect: no such file or directory"
        )
    if kind != "whereabouts":
        raise AttachError(f"the lab plays no IPAM plugin {kind!r}, wanted by {ref.key}")
    if not node.installed("whereabouts"):
        raise AttachError(f'{ref.key}: failed to find plugin "whereabouts" in path [{CNI_BIN_DIR}]')
    return [allocate(ipam, used)]


def allocate(ipam: Doc, used: set[str]) -> str:
    """Give the lowest free address of a whereabouts range.

    Raises:
        AttachError: the range is no network, or it is full.
    """
    text = text_at(ipam, "range") or next(
        (text_at(item, "range") for item in docs_at(ipam, "ipRanges")), ""
    )
    try:
        network = ipaddress.IPv4Network(text, strict=False)
        start = _address(ipam, "range_start", network[1])
        end = _address(ipam, "range_end", network[-2])
        excluded = [ipaddress.IPv4Network(item) for item in texts_at(ipam, "exclude")]
    except (ValueError, IndexError) as error:
        raise AttachError(f"invalid range {text!r} of whereabouts: {error}") from error
    for address in _candidates(start, end, excluded):
        if str(address) not in used and str(address) != text_at(ipam, "gateway"):
            return str(address)
    raise AttachError(f"Could not allocate IP in range: {text}")


def _address(ipam: Doc, key: str, default: ipaddress.IPv4Address) -> ipaddress.IPv4Address:
    text = text_at(ipam, key)
    return ipaddress.IPv4Address(text) if text else default


def _candidates(
    start: ipaddress.IPv4Address,
    end: ipaddress.IPv4Address,
    excluded: Sequence[ipaddress.IPv4Network],
) -> Iterable[ipaddress.IPv4Address]:
    for number in range(int(start), int(end) + 1):
        address = ipaddress.IPv4Address(number)
        if not any(address in network for network in excluded):
            yield address
