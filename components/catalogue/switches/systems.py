"""The switch systems that a file may name: one line each, and what the layers below need of it.

Everything else about a system is in its folder, `components/fabric/systems/<name>/`, which is found
by this name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from components.catalogue.switches.port_names import (
    LANE_IN_PORT,
    LANE_IN_SWITCH,
    SLOT_AND_PORT,
    SWP,
    PortNaming,
)

Transport = Literal["roce", "infiniband"]


@dataclass(frozen=True, slots=True)
class SystemEntry:
    """What the model of a file, and the switch models, need to know of a system."""

    carries: Transport
    """The transport of its ports."""
    ports: PortNaming
    """How it calls a port, and a part of a split one."""
    mtu_range_bytes: tuple[int, int]
    """The least and the largest MTU of a port."""
    mtu_source: str = "lab/sources.md"
    """Who states it."""


SWITCH_SYSTEMS: Final[dict[str, SystemEntry]] = {
    "onyx": SystemEntry(
        "roce", SLOT_AND_PORT, (1500, 9612), "onyx.py of the mellanox.onyx collection"
    ),
    "cumulus": SystemEntry(
        "roce", SWP, (552, 9216), "NVUE reference, `nv set interface <interface-id> link mtu`"
    ),
    # `l2 mtu` takes 64 to 65535 (help text in aristanetworks/avd #3164); 68 is the least of IPv4
    # (RFC 791).
    "eos": SystemEntry(
        "roce", LANE_IN_PORT, (68, 9214), "public captures of EOS: `Ethernet MTU 9214 bytes`"
    ),
    "sonic": SystemEntry(
        "roce", LANE_IN_SWITCH, (68, 9216), "sonic-utilities, config/main.py: `interface mtu`"
    ),
    "mlnxos": SystemEntry("infiniband", SLOT_AND_PORT, (256, 4096), "the InfiniBand specification"),
}
"""By the name that the site file uses, in the order in which refusals list them."""
FOREIGN_SYSTEMS: Final = frozenset(
    {"dnos", "enterprise-sonic", "enterprise_sonic", "exos", "ios", "nvos", "nx-os", "nxos", "onos"}
)
"""Systems that Railyard does not set and whose names look like a slip of one of the above."""
FOREIGN_RELEASES: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "sonic": (
        re.compile(r"((Enterprise_)?SONiC[-_](OS[-_])?)?\d\.\d+(\.\d+)?([-_].*)?", re.IGNORECASE),
        "Enterprise SONiC of Dell or Broadcom, which has other commands and is not set here",
    ),
}
"""System to the form of releases of another edition of it, and what that is.

Images of Enterprise SONiC are called `SONiC-OS-4.4.0-Enterprise_Base` and
`Enterprise_SONiC_OS_4.1.1_Cloud_Advanced`; those of the community by their branch: 202405.
"""

if TYPE_CHECKING:
    SystemName = str
else:
    SystemName = Literal[tuple(SWITCH_SYSTEMS)]
"""The type of `os` in the file: one of the names above, so that the schema lists them."""
