"""What Multus, the SR-IOV and macvlan CNIs and the IPAM plugins do for a pod: pure.

Forms: the networks annotation, network-status and the net-conf keys of sources.md#pod-network, and
as real nodes wrote them (docs/explanation/real-pods.md). An absent part refuses the pod with the
words of the real part; without Multus the annotation is only a comment, as on a real node.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from components.catalogue.cni_folders import UPSTREAM
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
from lab.cluster.pod_view import NETWORKS, NodeState, Pod

RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
_REFERENCE = "k8snetworkplumbingwg/plugins"
_IMAGES = {"sriov": "sriov-cni", "macvlan": _REFERENCE}
"""CNI plugin to a part of the image that brings it; K3s has neither (sources.md#k3s)."""
_OF_K3S = frozenset(
    ("bandwidth", "bridge", "firewall", "flannel", "host-local", "loopback", "portmap")
)
"""The reference plugins that K3s brings (sources.md#pod-network); the lab plays none for a rail."""


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
        AttachError: it is neither a list of names nor JSON; Go's own words for the place of the
            mistake are left out.
    """
    entries: list[tuple[str, str]] = []
    if text.strip().startswith("["):
        try:
            items = as_list(cast("Json", json.loads(text)))
        except json.JSONDecodeError as error:
            raise AttachError(
                "parsePodNetworkAnnotation: failed to parse pod Network Attachment Selection"
                f" Annotation JSON format: {error}"
            ) from error
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
    address_pools: bool
    """The API knows whereabouts' own kinds, in which it keeps what it gave out."""


@dataclass(frozen=True, slots=True)
class Attached:
    """What a pod has got."""

    statuses: Sequence[Doc]
    """The entries of network-status."""
    mtus: Mapping[str, int]
    """MTU by interface; Multus does not write it (its results are CNI 1.0.0)."""


def attach(pod: Pod, node: NodeState, site: Site) -> Attached | None:
    """Attach a pod's networks; None where Multus is not on the node and nothing is done.

    Raises:
        AttachError: a part is missing; the pod stays in ContainerCreating.
    """
    if not node.installed("multus"):
        return None
    statuses: list[Doc] = [
        {"name": "cbr0", "interface": "eth0", "ips": [], "default": True, "dns": {}}
    ]
    mtus: dict[str, int] = {}
    held = {address for other in node.pods if other.live for address in other.devices_in_use()}
    used = set(site.used_addresses)
    taken = _Taken(held, used, site.address_pools)
    # Multus reads all definitions before it calls the first plugin.
    for ref, definition in _load(pod, site):
        status, mtus[ref.interface] = _delegate(pod, node, ref, definition, taken)
        statuses.append(status)
        used |= set(texts_at(status, "ips"))
    return Attached(statuses, mtus)


def _load(pod: Pod, site: Site) -> list[tuple[NetworkRef, Doc]]:
    try:
        refs = parse_networks(pod.annotations[NETWORKS], pod.namespace)
        return [(ref, _definition(ref, site)) for ref in refs]
    except AttachError as error:
        raise AttachError(
            f"Multus: [{pod.namespace}/{pod.name}/{pod.uid}]: error loading k8s delegates k8s args:"
            f" {error}"
        ) from error


def _definition(ref: NetworkRef, site: Site) -> Doc:
    definition = site.definitions.get(ref.key)
    frame = (
        "TryLoadPodDelegates: error in getting k8s network for pod: GetNetworkDelegates: failed"
        " getting the delegate: "
    )
    if definition is None:
        raise AttachError(
            f"{frame}getKubernetesDelegate: cannot find a network-attachment-definition"
            f" ({ref.name}) in namespace ({ref.namespace}): network-attachment-"
            f'definitions.k8s.cni.cncf.io "{ref.name}" not found'
        )
    try:
        plugins_of(definition)
    except AttachError as error:
        raise AttachError(f"{frame}{error}") from error
    return definition


def plugins_of(definition: Doc) -> list[Doc]:
    """Read the chain of CNI plugins of an attachment definition.

    Raises:
        AttachError: its configuration is no JSON.
    """
    config = _config_of(definition)
    return docs_at(config, "plugins") or [config]


def _config_of(definition: Doc) -> Doc:
    text = text_at(definition, "spec", "config")
    try:
        return as_doc(cast("Json", json.loads(text)))
    except json.JSONDecodeError as error:
        wrong = text[error.pos : error.pos + 1]
        raise AttachError(
            "GetCNIConfig: err in getCNIConfigFromSpec: failed to unmarshal Spec.Config: invalid"
            f" character '{wrong}' looking for beginning of object key string"
        ) from error


@dataclass(frozen=True, slots=True)
class _Call:
    """One network of a pod, with the chain of CNI plugins that is called for it."""

    pod: Pod
    node: NodeState
    ref: NetworkRef
    definition: Doc
    main: Doc
    chained: tuple[Doc, ...]


@dataclass(frozen=True, slots=True)
class _Taken:
    """What others have: devices and addresses, which the attachments of one pod add to."""

    devices: set[str]
    addresses: set[str]
    address_pools: bool


def _delegate(
    pod: Pod, node: NodeState, ref: NetworkRef, definition: Doc, taken: _Taken
) -> tuple[Doc, int]:
    """One entry of network-status, and the interface's MTU."""
    main, *chained = plugins_of(definition)
    config, kind = _config_of(definition), text_at(main, "type")
    call = _Call(pod, node, ref, definition, main, tuple(chained))
    try:
        with _named(kind, config):
            _find_plugin(kind, node)
            mtu, more = _sriov(call, taken.devices) if kind == "sriov" else _macvlan(call)
            ips = _ipam(as_doc(main.get("ipam")), node, taken)
        for each in chained:
            with _named(text_at(each, "type"), config):
                _require_chained(node, text_at(each, "type"))
    except AttachError as error:
        network = text_at(config, "name") or ref.name
        raise AttachError(
            f"[{pod.namespace}/{pod.name}/{pod.uid}:{network}]: error adding container to network"
            f' "{network}": {error}'
        ) from error
    mac = "02:" + hashlib.sha256(f"{pod.uid}/{ref.interface}".encode()).digest()[:5].hex(":")
    head: Doc = {"name": ref.key, "interface": ref.interface, "ips": ips, "mac": mac, "dns": {}}
    return {**head, **more}, mtu


@contextmanager
def _named(kind: str, config: Doc) -> Generator[None]:
    """In a list of plugins an error says which of them it is of; a single one is not named."""
    try:
        yield
    except AttachError as error:
        if "plugins" not in config:
            raise
        raise AttachError(f'plugin type="{kind}" failed (add): {error}') from error


def _require_chained(node: NodeState, kind: str) -> None:
    """A plugin of the chain is K3s' own, or of the image with the reference plugins."""
    if kind not in _OF_K3S and not node.installed(_REFERENCE, kind):
        raise AttachError(f'failed to find plugin "{kind}" in path {_searched(node)}')


def _find_plugin(kind: str, node: NodeState) -> None:
    if kind in _OF_K3S:
        raise AttachError(f"the lab plays no CNI plugin {kind!r}: use {' or '.join(_IMAGES)}")
    program = kind if kind == "macvlan" else ""
    if kind not in _IMAGES or not node.installed(_IMAGES[kind], program):
        raise AttachError(f'failed to find plugin "{kind}" in path {_searched(node)}')


def _sriov(call: _Call, held: set[str]) -> tuple[int, Doc]:
    resource = pairs_at(call.definition, "metadata", "annotations").get(RESOURCE_NAME, "")
    pool = next((pool for pool in call.node.pools if pool.resource == resource), None)
    vf = _free_vf(call.pod, pool, resource, held)
    held.add(vf.pci)
    return _tuned_mtu(call) or vf.mtu_bytes, {
        "device-info": {
            "type": "pci",
            "version": "1.1.0",
            "pci": {"pci-address": vf.pci, "pf-pci-address": vf.pf_pci},
        },
    }


def _macvlan(call: _Call) -> tuple[int, Doc]:
    """The MTU of an interface on top of a card; the texts are those of the plugin."""
    master = text_at(call.main, "master")
    card = call.node.card(master)
    if card is None:
        raise AttachError("Link not found")
    mtu = number_at(call.main, "mtu") or card.mtu_bytes
    if mtu > card.mtu_bytes:
        raise AttachError(f"invalid MTU {mtu}, must be [0, master MTU({card.mtu_bytes})]")
    return _tuned_mtu(call) or mtu, {}


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


def _searched(node: NodeState) -> str:
    """Multus looks into its own default folder first (seen on real nodes)."""
    return f"[{' '.join(dict.fromkeys((UPSTREAM.bin, node.cni.bin)))}]"


def _ipam(ipam: Doc, node: NodeState, taken: _Taken) -> list[Json]:
    kind = text_at(ipam, "type")
    if not kind:
        return []
    if kind in _OF_K3S:
        raise AttachError(f"the lab plays no IPAM plugin {kind!r}: use whereabouts")
    if kind != "whereabouts" or not node.installed("whereabouts"):
        raise AttachError(f'failed to find plugin "{kind}" in path {_searched(node)}')
    configuration = text_at(ipam, "configuration_path") or UPSTREAM.whereabouts_config
    if configuration != node.cni.whereabouts_config:
        # It looks into /etc alone by itself, and K3s' folder is another one.
        raise AttachError("config file not found")
    if not taken.address_pools:
        raise AttachError(
            "error at storage engine: the server could not find the requested resource"
            " (get ippools.whereabouts.cni.cncf.io)"
        )
    return [allocate(ipam, taken.addresses)]


def allocate(ipam: Doc, used: set[str]) -> str:
    """Give the lowest free address of a whereabouts range.

    Raises:
        AttachError: the range is no network, or it is full.
    """
    text = text_at(ipam, "range") or next(
        (text_at(item, "range") for item in docs_at(ipam, "ipRanges")), ""
    )
    try:
        if "/" not in text:
            raise AttachError(f"invalid CIDR {text}: invalid CIDR address: {text}")
        network = ipaddress.IPv4Network(text, strict=False)
        start = _address(ipam, "range_start", network[1])
        end = _address(ipam, "range_end", network[-2])
        excluded = [ipaddress.IPv4Network(item) for item in texts_at(ipam, "exclude")]
    except (ValueError, IndexError) as error:
        raise AttachError(f"invalid range {text!r} of whereabouts: {error}") from error
    for address in _candidates(start, end, excluded):
        if str(address) not in used and str(address) != text_at(ipam, "gateway"):
            return str(address)
    left_out = " ".join(texts_at(ipam, "exclude"))
    raise AttachError(
        f"error at storage engine: Could not allocate IP in range: ip: {start} / - {end} / range:"
        f" {network} / excludeRanges: [{left_out}]"
    )


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
