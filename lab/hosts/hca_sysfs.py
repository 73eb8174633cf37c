"""/sys of InfiniBand adapters: on own switches, or VFs without a PF of a cloud.

Fields and forms: lab/sources.md#hosts, and the kernel's Documentation/ABI
(sysfs-class-infiniband).
"""

from __future__ import annotations

import ipaddress

from lab.hosts.model import HostModel
from lab.infiniband.ports import DOWN, STATES, PortState
from lab.views import HcaConfig

FIRMWARE = "28.39.2048"
"""A ConnectX-7 release of the H100 generation."""
PKEY_TABLE = 128
"""Entries of the key table of a ConnectX port (a report of a ConnectX-3: 0 to 127)."""
KERNEL_STATES = {1: "1: DOWN", 2: "2: INIT", 3: "3: ARMED", 4: "4: ACTIVE"}
"""The kernel's words for the states of a port (Documentation/ABI, sysfs-class-infiniband)."""
WIDTHS = {800: "4X XDR", 400: "4X NDR", 200: "4X HDR", 100: "4X EDR"}
"""Rate in Gbit/s to the kernel's words for width and speed."""


def port_guid(model: HostModel, hca: HcaConfig) -> str:
    """The port's GUID, 16 hex digits, the same at each start."""
    return model.hca_guid(hca)


def _port(model: HostModel, hca: HcaConfig) -> PortState:
    """The port's state on a fabric of the lab's switches; a cloud shows its own end alone."""
    if hca.link_layer == "InfiniBand" and model.fabric is not None:
        return model.fabric.port(port_guid(model, hca))
    if hca.name in model.down_hcas:
        return DOWN
    return PortState(STATES["Active"], True, 16 + model.config.hcas.index(hca), 1)  # noqa: FBT003 - a record


def is_active(model: HostModel, hca: HcaConfig) -> bool:
    """The port is up: it has a link, and a subnet manager has set it up."""
    return _port(model, hca).state == STATES["Active"]


def phys_text(model: HostModel, hca: HcaConfig) -> str:
    """The physical state as the kernel words it."""
    return "5: LinkUp" if _port(model, hca).link_up else "2: Polling"


def state_text(model: HostModel, hca: HcaConfig) -> str:
    """The logical state as the kernel words it; a new link without a subnet manager is in INIT."""
    return KERNEL_STATES[_port(model, hca).state]


def pkey_text(model: HostModel, hca: HcaConfig, index: int) -> str:
    """One entry of the port's key table; a cloud's shows Default alone."""
    keys = (0xFFFF,) if model.fabric is None else model.fabric.keys(port_guid(model, hca))
    return f"0x{keys[index] if index < len(keys) else 0:04x}"


def lid_of(model: HostModel, hca: HcaConfig) -> int:
    """LID of a port."""
    return _port(model, hca).lid


def sm_lid_of(model: HostModel, hca: HcaConfig) -> int:
    """LID of the subnet manager that set the port up; a cloud's is 1."""
    return _port(model, hca).sm_lid


def rate_text(hca: HcaConfig) -> str:
    """The rate as the kernel words it."""
    kind = WIDTHS.get(hca.rate_gbit_s, "4X EDR")
    return f"{hca.rate_gbit_s} Gb/sec ({kind})"


def gid_text(model: HostModel, hca: HcaConfig) -> str:
    """GID 0: the default subnet prefix and the port's GUID."""
    guid = bytes.fromhex(port_guid(model, hca))
    return ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + guid).exploded
