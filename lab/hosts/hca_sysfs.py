"""/sys of InfiniBand adapters: on own switches, or VFs without a PF of a cloud.

Fields and forms: docs/explanation/sources.md#hosts, and the kernel's Documentation/ABI
(sysfs-class-infiniband).
"""

from __future__ import annotations

import ipaddress

from lab.hosts.model import HostModel
from lab.views import HcaConfig

FIRMWARE = "28.39.2048"
"""A ConnectX-7 release of the H100 generation."""
PKEY_TABLE = 128
"""Entries of the key table of a ConnectX port (a report of a ConnectX-3: 0 to 127)."""
WIDTHS = {400: "4X NDR", 200: "4X HDR", 100: "4X EDR"}
"""Rate in Gbit/s to the kernel's words for width and speed."""


def port_guid(model: HostModel, hca: HcaConfig) -> str:
    """The port's GUID, 16 hex digits, the same at each start."""
    return model.hca_guid(hca)


def is_active(model: HostModel, hca: HcaConfig) -> bool:
    """The port is up: it has a link, and a subnet manager has set it up."""
    subnet = model.subnet() if hca.link_layer == "InfiniBand" else None
    return has_link(model, hca) and (subnet is None or subnet.is_active(port_guid(model, hca)))


def has_link(model: HostModel, hca: HcaConfig) -> bool:
    """The cable is in at both ends; a cloud shows one end only."""
    subnet = model.subnet() if hca.link_layer == "InfiniBand" else None
    if subnet is None:
        return hca.name not in model.down_hcas
    port = subnet.find(port_guid(model, hca))
    return port is not None and subnet.has_link(port)


def state_text(model: HostModel, hca: HcaConfig) -> str:
    """The logical state as the kernel words it; a link without a subnet manager stays in INIT."""
    if is_active(model, hca):
        return "4: ACTIVE"
    return "2: INIT" if has_link(model, hca) else "1: DOWN"


def pkey_text(model: HostModel, hca: HcaConfig, index: int) -> str:
    """One entry of the port's key table; a cloud's shows Default alone."""
    subnet = model.subnet()
    keys = (0xFFFF,) if subnet is None else subnet.pkeys_of(port_guid(model, hca))
    return f"0x{keys[index] if index < len(keys) else 0:04x}"


def lid_of(model: HostModel, hca: HcaConfig) -> int:
    """LID of a port."""
    subnet = model.subnet()
    if subnet is None:
        return 16 + model.config.hcas.index(hca)
    return subnet.lid_of(port_guid(model, hca))


def sm_lid_of(model: HostModel) -> int:
    """LID of the master subnet manager; a cloud's is 1."""
    subnet = model.subnet()
    if subnet is None:
        return 1
    return subnet.lid_of(subnet.master.guid) if subnet.master else 0


def rate_text(hca: HcaConfig) -> str:
    """The rate as the kernel words it."""
    kind = WIDTHS.get(hca.rate_gbit_s, "4X EDR")
    return f"{hca.rate_gbit_s} Gb/sec ({kind})"


def gid_text(model: HostModel, hca: HcaConfig) -> str:
    """GID 0: the default subnet prefix and the port's GUID."""
    guid = bytes.fromhex(port_guid(model, hca))
    return ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + guid).exploded
