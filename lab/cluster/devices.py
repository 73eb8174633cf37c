"""What a node's kernel shows of its GPUs, RDMA cards and virtual functions, read from its /sys.

The device plugins of a real node read the same files (sources.md#pod-network), so a VF that is
missing there is missing here.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import cast

from components.core.record import record
from lab.cluster.document import Doc, Json, as_doc, docs_at, number_at, pairs_at, text_at, texts_at

NVIDIA = "10de"
MELLANOX = "15b3"


TOPOLOGIES = "etc/crusoe/nccl_topo"
"""Where a cloud's image keeps NCCL's topology files (sources.md#cloud-ib)."""


@record
class VirtualFunction:
    """One VF, or a whole card without VFs, as the SR-IOV device plugin sees it."""

    pci: str
    vendor: str
    device: str
    driver: str
    index: int
    netdev: str
    rdma: str
    mtu_bytes: int
    pf_pci: str
    pf_netdev: str
    node_guid: str = ""
    """Zeros until an Ethernet VF has a MAC of its PF (sources.md#vfs); empty if nobody says it."""
    link_type: str = "ether"
    """`ether` or `infiniband`, as the plugin's `linkTypes` say it."""

    @property
    def has_node_guid(self) -> bool:
        """RDMA-CM finds its device."""
        return not self.node_guid or self.node_guid.strip("0:") != ""


@record
class Card:
    """One port of an RDMA card that is not a VF of this machine's own PFs."""

    pci: str
    vendor: str
    device: str
    driver: str
    netdev: str
    """Empty for an InfiniBand adapter without IPoIB."""
    rdma: str
    link_layer: str
    """`Ethernet` or `InfiniBand`."""
    state: str
    """As the kernel words it, for example `4: ACTIVE`."""
    rate: str
    """As the kernel words it, for example `400 Gb/sec (4X NDR)`."""
    mtu_bytes: int
    addresses: tuple[str, ...]
    """IPv4 addresses that its GID table shows."""
    vfs: int
    """VFs that it has at present."""

    def as_function(self) -> VirtualFunction:
        """The whole card as the SR-IOV device plugin sees it."""
        return VirtualFunction(
            pci=self.pci,
            vendor=self.vendor,
            device=self.device,
            driver=self.driver,
            index=0,
            netdev=self.netdev,
            rdma=self.rdma,
            mtu_bytes=self.mtu_bytes,
            pf_pci="",  # the plugin finds a root only for a VF (its GetPfAddr and GetPfName)
            pf_netdev="",
            link_type="infiniband" if self.link_layer == "InfiniBand" else "ether",
        )


@record
class NodeDevices:
    """The devices and limits of one node."""

    vfs: tuple[VirtualFunction, ...] = ()
    cards: tuple[Card, ...] = ()
    gpus: int = 0
    gpu_device: str = ""
    """PCI device id of the first GPU."""
    mellanox_cards: int = 0
    nvidia_driver: bool = False
    """The nvidia kernel module is loaded."""
    memlock_kib: int | None = None
    """What `ulimit -l` prints in a container; None is unlimited."""
    nvidia_runtime: bool = False
    """K3s found NVIDIA's container runtime at its start; it looks no second time."""
    docker_runtime: str = ""
    """`default-runtime` of the docker daemon; empty where it names none."""
    files: tuple[str, ...] = ()
    """NCCL topology files of the image."""
    gpu_folders: tuple[str, ...] = ()
    """Of each GPU its folder under /sys, which shows the way to it: `devices/pci0000:00/…`."""
    folders: Mapping[str, str] = field(default_factory=dict[str, str])
    """RDMA device to the folder of its PCI function under /sys."""
    exclusive: bool = False
    """An RDMA device is in one network namespace alone (ib_core's `netns_mode`)."""

    @property
    def functions(self) -> tuple[VirtualFunction, ...]:
        """What the SR-IOV device plugin looks at: VFs, and cards that have none."""
        return (*self.vfs, *(card.as_function() for card in self.cards if not card.vfs))

    @property
    def runs_gpu_containers(self) -> bool:
        """Its containers can get GPUs: by containerd's runtime, or by docker's."""
        return self.nvidia_runtime or self.docker_runtime == "nvidia"


_KNOWN_IDS: dict[Path, tuple[str, str]] = {}
_KNOWN_FOLDERS: dict[Path, str] = {}


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _first(folder: Path) -> str:
    try:
        return next(iter(sorted(entry.name for entry in folder.iterdir())), "")
    except OSError:
        return ""


def _link_name(path: Path) -> str:
    try:
        return path.readlink().name
    except OSError:
        return ""


def _ids(device: Path) -> tuple[str, str]:
    """Vendor and device of a PCI function: what stays while the machine runs is read once."""
    known = _KNOWN_IDS.get(device)
    if known is None:
        vendor, model = (_read(device / name).removeprefix("0x") for name in ("vendor", "device"))
        known = (vendor, model)
        if vendor and model:  # a function that goes meanwhile shows nothing
            _KNOWN_IDS[device] = known
    return known


def _folder(device: Path) -> str:
    """Where a PCI function is under /sys, as its entry in `bus/pci/devices` says; read once."""
    if device not in _KNOWN_FOLDERS:
        _KNOWN_FOLDERS[device] = str(device.resolve().relative_to(device.parents[3].resolve()))
    return _KNOWN_FOLDERS[device]


def _vfs_of(pf: Path) -> Iterable[VirtualFunction]:
    links = sorted(pf.glob("virtfn*"), key=lambda link: int(link.name.removeprefix("virtfn")))
    if not links:
        return
    pf_netdev, pf_type = _first(pf / "net"), _link_type(pf, _first(pf / "infiniband"))
    for link in links:
        pci = _link_name(link)
        device = pf.parent / pci
        vendor, model = _ids(device)
        netdev, rdma = _first(device / "net"), _first(device / "infiniband")
        yield VirtualFunction(
            pci=pci,
            vendor=vendor,
            device=model,
            driver=_link_name(device / "driver"),
            index=int(link.name.removeprefix("virtfn")),
            netdev=netdev,
            rdma=rdma,
            mtu_bytes=int(_read(device / "net" / netdev / "mtu") or 0) if netdev else 0,
            pf_pci=pf.name,
            pf_netdev=pf_netdev,
            node_guid=_read(device / "infiniband" / rdma / "node_guid") if rdma else "",
            link_type=_link_type(device, rdma) or pf_type or "ether",
        )


def _link_type(device: Path, rdma: str) -> str:
    layer = _read(device / "infiniband" / rdma / "ports/1/link_layer") if rdma else ""
    return {"InfiniBand": "infiniband", "Ethernet": "ether"}.get(layer, "")


def _card(device: Path) -> Card:
    rdma, netdev = _first(device / "infiniband"), _first(device / "net")
    port = device / "infiniband" / rdma / "ports/1"
    vendor, model = _ids(device)
    return Card(
        pci=device.name,
        vendor=vendor,
        device=model,
        driver=_link_name(device / "driver"),
        netdev=netdev,
        rdma=rdma,
        link_layer=_read(port / "link_layer") or "Ethernet",
        state=_read(port / "state"),
        rate=_read(port / "rate"),
        mtu_bytes=int(_read(device / "net" / netdev / "mtu") or 0) if netdev else 0,
        addresses=_addresses(port / "gids") if rdma else (),
        vfs=int(_read(device / "sriov_numvfs") or 0),
    )


def _addresses(gids: Path) -> tuple[str, ...]:
    if not gids.is_dir():
        return ()
    found: dict[str, None] = {}
    for entry in sorted(gids.iterdir(), key=lambda entry: int(entry.name)):
        mapped = ipaddress.IPv6Address(_read(entry) or "::").ipv4_mapped
        if mapped is not None:
            found[str(mapped)] = None
    return tuple(found)


def _docker_runtime(root: Path) -> str:
    text = _read(root / "etc/docker/daemon.json")
    try:
        return text_at(as_doc(cast("Json", json.loads(text or "{}"))), "default-runtime")
    except json.JSONDecodeError:
        return ""


def _files(root: Path) -> tuple[str, ...]:
    return tuple(f"/{TOPOLOGIES}/{path.name}" for path in sorted((root / TOPOLOGIES).glob("*.xml")))


def scan_devices(
    sys_root: Path, memlock_kib: int | None, *, nvidia_runtime: bool = False
) -> NodeDevices:
    """Read a node's devices.

    Args:
        sys_root: the node's /sys.
        memlock_kib: the limit of its container runtime in KiB; None is unlimited.
        nvidia_runtime: K3s found NVIDIA's container runtime at its start.
    """
    folder = sys_root / "bus/pci/devices"
    devices = sorted(folder.iterdir()) if folder.is_dir() else []
    vendors = {device: _ids(device)[0] for device in devices}
    gpus = [device for device, vendor in vendors.items() if vendor == NVIDIA]
    own = [
        device
        for device, vendor in vendors.items()
        if vendor == MELLANOX and not (device / "physfn").exists()
    ]
    physical = [device for device in devices if (device / "sriov_numvfs").exists()]
    vfs = tuple(vf for pf in physical for vf in _vfs_of(pf))
    cards = tuple(_card(device) for device in own)
    return NodeDevices(
        vfs=vfs,
        gpus=len(gpus),
        gpu_device=_ids(gpus[0])[1] if gpus else "",
        cards=cards,
        mellanox_cards=len(own),
        nvidia_driver=(sys_root / "module/nvidia").exists(),
        memlock_kib=memlock_kib,
        nvidia_runtime=nvidia_runtime,
        docker_runtime=_docker_runtime(sys_root.parent),
        files=_files(sys_root.parent),
        gpu_folders=tuple(map(_folder, gpus)),
        folders={each.rdma: _folder(folder / each.pci) for each in (*vfs, *cards) if each.rdma},
        # Y, the default, is shared: the file shows what `rdma system set netns` sets as well.
        exclusive=_read(sys_root / "module/ib_core/parameters/netns_mode") == "N",
    )


def dump_devices(devices: NodeDevices) -> Doc:
    """The JSON form of a node's devices."""
    vfs: list[Json] = [cast("Doc", asdict(vf)) for vf in devices.vfs]
    cards: list[Json] = [
        {**cast("Doc", asdict(card)), "addresses": [*card.addresses]} for card in devices.cards
    ]
    lists: Doc = {"vfs": vfs, "cards": cards, "files": [*devices.files]}
    lists |= {"gpu_folders": [*devices.gpu_folders], "folders": {**devices.folders}}
    return {**cast("Doc", asdict(devices)), **lists}


def parse_devices(value: Json) -> NodeDevices:
    """Read the JSON form of a node's devices; what is missing counts as absent."""
    memlock = value.get("memlock_kib") if isinstance(value, dict) else None
    return NodeDevices(
        vfs=tuple(_parse_vf(item) for item in docs_at(value, "vfs")),
        gpus=number_at(value, "gpus"),
        gpu_device=text_at(value, "gpu_device"),
        mellanox_cards=number_at(value, "mellanox_cards"),
        nvidia_driver=isinstance(value, dict) and value.get("nvidia_driver") is True,
        nvidia_runtime=isinstance(value, dict) and value.get("nvidia_runtime") is True,
        memlock_kib=memlock if isinstance(memlock, int) else None,
        cards=tuple(_parse_card(item) for item in docs_at(value, "cards")),
        docker_runtime=text_at(value, "docker_runtime"),
        files=texts_at(value, "files"),
        gpu_folders=texts_at(value, "gpu_folders"),
        folders=pairs_at(value, "folders"),
        exclusive=isinstance(value, dict) and value.get("exclusive") is True,
    )


def _parse_card(item: Doc) -> Card:
    return Card(
        pci=text_at(item, "pci"),
        vendor=text_at(item, "vendor"),
        device=text_at(item, "device"),
        driver=text_at(item, "driver"),
        netdev=text_at(item, "netdev"),
        rdma=text_at(item, "rdma"),
        link_layer=text_at(item, "link_layer"),
        state=text_at(item, "state"),
        rate=text_at(item, "rate"),
        mtu_bytes=number_at(item, "mtu_bytes"),
        addresses=texts_at(item, "addresses"),
        vfs=number_at(item, "vfs"),
    )


def _parse_vf(item: Doc) -> VirtualFunction:
    return VirtualFunction(
        pci=text_at(item, "pci"),
        vendor=text_at(item, "vendor"),
        device=text_at(item, "device"),
        driver=text_at(item, "driver"),
        index=number_at(item, "index"),
        netdev=text_at(item, "netdev"),
        rdma=text_at(item, "rdma"),
        mtu_bytes=number_at(item, "mtu_bytes"),
        pf_pci=text_at(item, "pf_pci"),
        pf_netdev=text_at(item, "pf_netdev"),
        node_guid=text_at(item, "node_guid"),
        link_type=text_at(item, "link_type") or "ether",
    )
