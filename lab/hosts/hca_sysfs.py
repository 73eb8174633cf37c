"""/sys of the InfiniBand adapters that a cloud hands to an instance: VFs without a PF.

Fields and forms: docs/explanation/sources.md#hosts, and the kernel's Documentation/ABI
(sysfs-class-infiniband).
"""

from __future__ import annotations

import ipaddress

from lab.hosts.model import HostModel
from lab.hosts.nic import stable_mac
from lab.views import HcaConfig

FIRMWARE = "28.39.2048"
"""A ConnectX-7 release of the H100 generation."""
WIDTHS = {400: "4X NDR", 200: "4X HDR", 100: "4X EDR"}
"""Rate in Gbit/s to the kernel's words for width and speed."""


def port_guid(model: HostModel, hca: HcaConfig) -> str:
    """The port's GUID, 16 hex digits, the same at each start."""
    mac = stable_mac(f"{model.config.name}/{hca.pci}").replace(":", "")
    return f"{mac[:6]}0300{mac[6:]}"


def is_active(model: HostModel, hca: HcaConfig) -> bool:
    """The port is up: the cloud's subnet manager sees it."""
    return hca.name not in model.down_hcas


def rate_text(hca: HcaConfig) -> str:
    """The rate as the kernel words it."""
    kind = WIDTHS.get(hca.rate_gbit_s, "4X EDR")
    return f"{hca.rate_gbit_s} Gb/sec ({kind})"


def gid_text(model: HostModel, hca: HcaConfig) -> str:
    """GID 0: the default subnet prefix and the port's GUID."""
    guid = bytes.fromhex(port_guid(model, hca))
    return ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + guid).exploded
