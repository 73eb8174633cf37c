"""The addresses of a pod's interface: what whereabouts, nv-ipam, static and DHCP do. Pure.

The texts are those of the plugins: whereabouts v0.9.4, nvidia-k8s-ipam v0.4.0, and static and dhcp
of the reference plugins v1.6.2 (lab/sources.md#pod-network).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence

from components.catalogue.cluster_parts import UPSTREAM
from components.core.errors import DeviceError
from components.core.record import field, record
from lab.cluster.document import Doc, Json, at, docs_at, text_at, texts_at
from lab.cluster.nv_ipam import IMAGE, NoAddressError, NodeStore, give_address
from lab.cluster.pod_view import NodeState

REFERENCE = "k8snetworkplumbingwg/plugins"
"""A part of the image with the reference plugins."""
_OWN_IMAGES = {"whereabouts": "whereabouts", "nv-ipam": IMAGE}
"""What comes in an image of its own, to a part of its name."""
OF_K3S = frozenset(
    ("bandwidth", "bridge", "firewall", "flannel", "host-local", "loopback", "portmap")
)
"""The reference plugins that K3s brings (sources.md#pod-network); the lab plays none for a rail."""


class AttachError(DeviceError):
    """The pod's sandbox cannot be made (yet); the text is the event's message."""


@record
class Asked:
    """Who asks a DHCP server: it hears whoever is in its VLAN."""

    node: str
    card: str
    """PCI address of the card through which it is asked."""
    vlan: int
    """The tag of the question; 0 for none."""
    client: str
    """Pod and interface: the client id of the CNI plugin."""


Dhcp = Callable[[Asked], str]
"""The answer of the server that hears the question, `10.10.111.20/24`; empty: silence."""


@record
class Reservation:
    """An address that the plugin gave to an interface of a pod."""

    range: str
    """The range of its network, as written in the network's configuration."""
    address: str
    interface: str

    @property
    def network(self) -> ipaddress.IPv4Network:
        """The range without bits of a host, as the plugin stores it."""
        return ipaddress.IPv4Network(self.range, strict=False)

    @property
    def pool(self) -> str:
        """The name of its IPPool."""
        return str(self.network).replace("/", "-")

    @property
    def offset(self) -> str:
        """Its key in the pool: the distance from the first address."""
        return str(int(ipaddress.IPv4Address(self.address)) - int(self.network[0]))


@record
class Addresses:
    """What addresses are made of, for one pod."""

    used: set[str]
    pools: bool
    """The API knows whereabouts' own kinds, in which it keeps what it gave out."""
    dhcp: Dhcp
    ip_pools: Sequence[Doc] = ()
    """The pools that nv-ipam looks at."""
    stores: NodeStore = field(default_factory=NodeStore)
    reservations: list[Reservation] = field(default_factory=list[Reservation])
    """What whereabouts gave to this pod, which it keeps in the API."""


def searched(node: NodeState) -> str:
    """Multus looks into its own default folder first (seen on real nodes)."""
    return f"[{' '.join(dict.fromkeys((UPSTREAM.bin, node.cni.bin)))}]"


def give_addresses(
    main: Doc, node: NodeState, given: Addresses, asked: Asked, wishes: Sequence[str]
) -> list[Json]:
    """The addresses of one interface; empty where its network manages none.

    Args:
        main: The plugin that makes the interface.
        node: The node.
        given: What is in use, and who gives.
        asked: How a DHCP server would be asked.
        wishes: Addresses of the pod's annotation; they count only where the plugin takes them.

    Raises:
        AttachError: There is no address; the text is the plugin's.
    """
    ipam = main.get("ipam")
    kind = text_at(ipam, "type")
    if not kind:
        return []
    if kind in OF_K3S:
        raise AttachError(f"the lab plays no IPAM plugin {kind!r}: use whereabouts")
    image = _OWN_IMAGES.get(kind, REFERENCE)
    program = "" if kind in _OWN_IMAGES else kind
    if kind not in {*_OWN_IMAGES, "static", "dhcp"} or not node.installed(image, program):
        raise AttachError(f'failed to find plugin "{kind}" in path {searched(node)}')
    if kind == "static":
        return _static(main, wishes)
    if kind == "dhcp":
        return [_dhcp(main, node, given.dhcp, asked)]
    config = ipam if isinstance(ipam, dict) else {}
    if kind == "nv-ipam":
        return [
            _nv_ipam({"poolName": text_at(main, "name"), **_own_file(config, node)}, node, given)
        ]
    return [_whereabouts(config, node, given, asked)]


def _own_file(ipam: Doc, node: NodeState) -> Doc:
    """What `nv-ipam.conf` in the plugin's folder says, where the attachment does not."""
    return {**node.pool_files.get(f"{text_at(ipam, 'confDir')}/nv-ipam.conf", {}), **ipam}


def _nv_ipam(ipam: Doc, node: NodeState, given: Addresses) -> str:
    try:
        return give_address(ipam, node.name, given.ip_pools, given.used, given.stores)
    except NoAddressError as error:
        raise AttachError(str(error)) from error


def _static(main: Doc, wishes: Sequence[str]) -> list[Json]:
    taken = wishes if at(main, "capabilities", "ips") is True else ()
    written = [text_at(each, "address") for each in docs_at(main, "ipam", "addresses")]
    found = [*taken] or written
    if not found:
        raise AttachError("IPAM plugin returned missing IP config")
    return [address.partition("/")[0] for address in found]


def _dhcp(main: Doc, node: NodeState, dhcp: Dhcp, asked: Asked) -> str:
    if text_at(main, "type") == "ib-sriov":
        raise AttachError("ipam type dhcp is not supported")
    if text_at(main, "type") == "ipoib":
        raise AttachError("ipam dhcp type is not supported")
    if not any(_runs_daemon(" ".join(pod.command)) for pod in node.pods if pod.phase == "Running"):
        raise AttachError(
            "error dialing DHCP daemon: dial unix /run/cni/dhcp.sock: connect: no such file or"
            " directory"
        )
    answer = dhcp(asked)
    if not answer:
        # After 208 s on a real node; the lab does not wait.
        raise AttachError("error calling DHCP.Allocate: no more tries")
    return answer.partition("/")[0]


def _runs_daemon(command: str) -> bool:
    return "/dhcp daemon" in command


def _whereabouts(ipam: Doc, node: NodeState, given: Addresses, asked: Asked) -> str:
    ipam = with_file(ipam, node)
    if not given.pools:
        raise AttachError(
            "error at storage engine: the server could not find the requested resource"
            " (get ippools.whereabouts.cni.cncf.io)"
        )
    if not text_at(ipam, "range") and not docs_at(ipam, "ipRanges"):
        raise AttachError("IPAM plugin returned missing IP config")  # the calling plugin's words
    address = allocate(ipam, given.used)
    interface = asked.client.partition("/")[2]
    given.reservations.append(Reservation(_range(ipam), address, interface))
    return address


def with_file(ipam: Doc, node: NodeState) -> Doc:
    """The IPAM part of an attachment, with what it leaves out from the first file that is there.

    It looks at `configuration_path`, then into /etc; K3s' folder is another one.

    Raises:
        AttachError: There is no file.
    """
    installed: dict[str, Doc] = {node.cni.whereabouts_config: {}, **node.pool_files}
    named = text_at(ipam, "configuration_path")
    found = next((p for p in (named, UPSTREAM.whereabouts_config) if p in installed), None)
    if found is None:
        raise AttachError("config file not found")
    return {**installed[found], **ipam}


def allocate(ipam: Doc, used: set[str]) -> str:
    """Give the lowest free address of a whereabouts range.

    Raises:
        AttachError: the range is no network, or it is full.
    """
    text = _range(ipam)
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


def _range(ipam: Doc) -> str:
    ranges = (text_at(item, "range") for item in docs_at(ipam, "ipRanges"))
    return text_at(ipam, "range") or next(ranges, "")


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
