"""What Multus and the CNI plugins of rails do for a pod: pure; `ipam.py` has the addresses.

Forms: the networks annotation, network-status and the net-conf keys of sources.md#pod-network, and
as real nodes wrote them (docs/howto/real-kernels.md). An absent part refuses the pod with the
words of the real part; without Multus the annotation is only a comment, as on a real node.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from components.core.record import field, record
from lab.cluster.device_plugin import Pool
from lab.cluster.devices import VirtualFunction
from lab.cluster.document import (
    Doc,
    Json,
    as_doc,
    as_list,
    at,
    docs_at,
    number_at,
    pairs_at,
    text_at,
    texts_at,
)
from lab.cluster.ipam import (
    OF_K3S,
    REFERENCE,
    Addresses,
    Asked,
    AttachError,
    Dhcp,
    Reservation,
    give_addresses,
    searched,
)
from lab.cluster.nv_ipam import NodeStore
from lab.cluster.pod_view import NETWORKS, NodeState, Pod

RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
_IMAGES = {
    "sriov": "/sriov-cni",
    "ib-sriov": "/ib-sriov-cni",
    "ipoib": "/ipoib-cni",
    "macvlan": REFERENCE,
    "rdma": "/rdma-cni",
}
"""CNI plugin to a part of the image that brings it; K3s has none (sources.md#k3s)."""
_SHARED_MODE = (
    "RDMA subsystem namespace awareness mode is set to shared, expecting it to be set to"
    " exclusive, invalid system configurations"
)
"""Said by rdma-cni v1.6.0 and ib-sriov-cni v1.3.0."""

_NO_UFM = (
    'infiniBand SRIOV-CNI failed, InfiniBand status "mellanox.infiniband.app" is not "configured"'
    " please check mellanox ib-kubernetes"
)
"""Said by ib-sriov-cni v1.3.0 as long as ib-kubernetes did not reach UFM; the lab plays no UFM."""


@record
class NetworkRef:
    """One entry of the networks annotation."""

    namespace: str
    name: str
    interface: str
    ips: tuple[str, ...] = ()
    """Addresses that the pod asks for itself."""

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
    entries: list[tuple[str, str, tuple[str, ...]]] = []
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
            entries.append((f"{space}/{name}", text_at(item, "interface"), texts_at(item, "ips")))
    else:
        for part in text.split(","):
            name, _, interface = part.strip().partition("@")
            entries.append((name if "/" in name else f"{namespace}/{name}", interface, ()))
    refs: list[NetworkRef] = []
    for number, (key, interface, ips) in enumerate(entries, 1):
        space, _, name = key.partition("/")
        refs.append(NetworkRef(space, name, interface or f"net{number}", ips))
    return tuple(refs)


@record
class Site:
    """What all nodes share: attachment definitions and the addresses in use."""

    definitions: Mapping[str, Doc]
    used_addresses: frozenset[str]
    address_pools: bool
    """The API knows whereabouts' own kinds, in which it keeps what it gave out."""
    dhcp: Dhcp = lambda _: ""
    """Who answers DHCP; nobody unless the site has a server."""
    ip_pools: Sequence[Doc] = ()
    """The pools of nv-ipam."""
    stores: NodeStore = field(default_factory=NodeStore)
    """What nv-ipam's daemons wrote down."""


@record
class Attached:
    """What a pod has got."""

    statuses: Sequence[Doc]
    """The entries of network-status."""
    mtus: Mapping[str, int]
    """MTU by interface; Multus does not write it (its results are CNI 1.0.0)."""
    reservations: Sequence[Reservation] = ()
    """What whereabouts gave."""


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
    addresses = Addresses(used, site.address_pools, site.dhcp, site.ip_pools, site.stores)
    taken = _Taken(held, addresses)
    # Multus reads all definitions before it calls the first plugin.
    for ref, definition in _load(pod, site):
        status, mtus[ref.interface] = _delegate(pod, node, ref, definition, taken)
        statuses.append(status)
        used |= set(texts_at(status, "ips"))
    return Attached(statuses, mtus, addresses.reservations)


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


@record
class _Call:
    """One network of a pod, with the chain of CNI plugins that is called for it."""

    pod: Pod
    node: NodeState
    ref: NetworkRef
    definition: Doc
    main: Doc
    chained: tuple[Doc, ...]


@record
class _Taken:
    """What others have: devices and addresses, which the attachments of one pod add to."""

    devices: set[str]
    addresses: Addresses


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
            mtu, more, card = _made(call, taken.devices)
            asked = Asked(node.machine, card, number_at(main, "vlan"), f"{pod.uid}/{ref.interface}")
            named: Doc = {"name": text_at(config, "name"), **main}
            ips = give_addresses(named, node, taken.addresses, asked, ref.ips)
        for each in chained:
            with _named(text_at(each, "type"), config):
                _chained(call, text_at(each, "type"), ips)
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


def _chained(call: _Call, kind: str, ips: Sequence[Json]) -> None:
    """A plugin of the chain is K3s' own, of the image with the reference plugins, or `rdma`."""
    if kind == "rdma":
        _find_plugin(kind, call.node)
        if not call.node.devices.exclusive:
            raise AttachError(_SHARED_MODE)
    elif kind not in OF_K3S and not call.node.installed(REFERENCE, kind):
        raise AttachError(f'failed to find plugin "{kind}" in path {searched(call.node)}')
    if kind == "sbr" and not ips:
        raise AttachError(f"No IP addresses supplied on interface: {call.ref.interface}")


def _find_plugin(kind: str, node: NodeState) -> None:
    if kind in OF_K3S:
        raise AttachError(f"the lab plays no CNI plugin {kind!r}: use {' or '.join(_IMAGES)}")
    program = kind if kind == "macvlan" else ""
    if kind not in _IMAGES or not node.installed(_IMAGES[kind], program):
        raise AttachError(f'failed to find plugin "{kind}" in path {searched(node)}')


def _made(call: _Call, held: set[str]) -> tuple[int, Doc, str]:
    """MTU of the interface, what Multus says of its device, and the card that it sends through."""
    kind = text_at(call.main, "type")
    if kind == "macvlan":
        return _macvlan(call)
    if kind == "ipoib":
        return _ipoib(call)
    if kind == "ib-sriov" and at(call.main, "ibKubernetesEnabled") is True:
        raise AttachError(_NO_UFM)
    isolated = kind == "ib-sriov" and at(call.main, "rdmaIsolation") is True
    if isolated and not call.node.devices.exclusive:
        raise AttachError(_SHARED_MODE)
    return _sriov(call, held)


def _sriov(call: _Call, held: set[str]) -> tuple[int, Doc, str]:
    resource = pairs_at(call.definition, "metadata", "annotations").get(RESOURCE_NAME, "")
    pool = next((pool for pool in call.node.pools if pool.resource == resource), None)
    vf = _free_vf(call, pool, resource, held)
    held.add(vf.pci)
    device: Doc = {"pci-address": vf.pci, "pf-pci-address": vf.pf_pci}
    more: Doc = {"device-info": {"type": "pci", "version": "1.1.0", "pci": device}}
    return _tuned_mtu(call) or vf.mtu_bytes, more, vf.pf_pci


def _ipoib(call: _Call) -> tuple[int, Doc, str]:
    """An interface beside a card's IPoIB device, in the same partition."""
    master = text_at(call.main, "master")
    card = call.node.card(master)
    if card is None:
        raise AttachError(f'failed to lookup master "{master}": Link not found')
    if card.link_layer != "InfiniBand":
        raise AttachError("master device is (device) not of type ipoib")
    return _tuned_mtu(call) or card.mtu_bytes, {}, card.pci


def _macvlan(call: _Call) -> tuple[int, Doc, str]:
    """The MTU of an interface on top of a card; the texts are those of the plugin."""
    master = text_at(call.main, "master")
    card = call.node.card(master)
    if card is None:
        raise AttachError("Link not found")
    mtu = number_at(call.main, "mtu") or card.mtu_bytes
    if mtu > card.mtu_bytes:
        raise AttachError(f"invalid MTU {mtu}, must be [0, master MTU({card.mtu_bytes})]")
    return _tuned_mtu(call) or mtu, {}, card.pci


def _tuned_mtu(call: _Call) -> int:
    mtus = [number_at(each, "mtu") for each in call.chained if text_at(each, "type") == "tuning"]
    return mtus[0] if mtus else 0


def _free_vf(call: _Call, pool: Pool | None, resource: str, held: set[str]) -> VirtualFunction:
    if not resource or not call.pod.requested(resource):
        if text_at(call.main, "type") == "ib-sriov":
            raise AttachError("deviceID is required")
        raise AttachError(
            "SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required: the pod "
            f"requests no {resource or 'device resource'}"
        )
    for vf in pool.devices if pool else ():
        if vf.pci not in held:
            return vf
    raise AttachError(f"no free device of {resource} on the node")
