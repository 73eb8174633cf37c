"""Host settings outside the plan that can harm our traffic: the values to read, or to repair.

`harms` judges the values that were read. If `guards.host` of the file says repair, the plan
contains the setting like any other: the host's step sets, keeps and undoes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from components.core.key_values import HostState
from components.hosts.settings import CARD_SYSCTLS, conf_name, routed_cards
from components.model.cluster import ClusterSpec
from components.model.fabric import DSCP_PER_PRIORITY
from components.model.hosts import Host, Nic

OWN_CLASSES: Final = "1,0,2,3,4,5,6,7"
"""The driver's traffic class of each priority: 1 is the lowest (sources.md#host-guards)."""
OWN_ALGORITHMS: Final = ",".join(["vendor"] * 8)
"""The driver's default schedule: all classes take turns."""
_ANY_BUFFERS: Final = "/".join([",".join("0" * 8)] * 2)
_DSCPS: Final = 64
ALL: Final = "net.ipv4.conf.all"
_ARP_FILTER: Final = "arp_filter"
"""A second way to a single ARP answer: by the route to the asking host."""


@dataclass(frozen=True, slots=True)
class GuardedCard:
    """The facts of a card's plan by which the rules judge other settings."""

    pci: str
    netdev: str
    gbit_s: int
    mtu_bytes: int
    vfs: int = 0
    """VFs whose settings the card has: 0 in switchdev mode."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """The facts of a host's plan by which the rules judge other settings."""

    cards: tuple[GuardedCard, ...] = ()
    priority: int = 0
    """Of RoCE."""
    cnp_priority: int = 0
    pauses: bool = False
    """The cards send and obey pause frames on `priority`."""
    attached: bool = False
    """Pods get VFs, and a network attachment sets their spoof check and trust."""
    rails: tuple[str, ...] = ()
    """Network devices with addresses on rails, if there are several."""

    def asked(self) -> HostState:
        """The settings to read besides the planned ones, each with a harmless value."""
        values: dict[str, str] = {}
        for card in self.cards:
            values |= {f"nic.{card.pci}.{key}": value for key, value in self._of_card().items()}
            for number in range(card.vfs):
                vf = f"vf.{card.pci}.{number}"
                values |= {f"{vf}.{key}": value for key, value in self._of_vf().items()}
        names = (ALL, *map(conf_name, self.rails)) if self.rails else ()
        values |= {
            f"kernel.sysctl.{name}.{key}": value
            for name in names
            for key, value in {**CARD_SYSCTLS, _ARP_FILTER: "0"}.items()
        }
        return HostState(values)

    def _of_card(self) -> Mapping[str, str]:
        rates = {f"tc{number}_rate": "unlimited" for number in range(8)}
        buffers = {"buffers": _ANY_BUFFERS, "cable_length_m": "7"} if self.pauses else {}
        classes = {"priority_classes": OWN_CLASSES, "ets": OWN_ALGORITHMS, "dscp_map": "any"}
        return {**classes, **rates, **buffers}

    def _of_vf(self) -> Mapping[str, str]:
        attached = {"trust": "on", "spoofchk": "off", "place": "here"} if self.attached else {}
        return {**_VF_RATES, "link_state": "auto", **attached}


_VF_RATES: Final = {"min_rate_mbit_s": "0", "max_rate_mbit_s": "0"}


def plan_guards(spec: ClusterSpec, host: Host) -> Guarded:
    """Collect the facts of a host's plan that the rules need."""
    cards = tuple(
        GuardedCard(
            nic.pci,
            nic.netdev,
            nic.speed_gbit_s,
            nic.mtu_bytes or spec.rdma.mtu_bytes,
            _legacy_vfs(nic),
        )
        for nic in host.nics
    )
    rails = tuple(nic.netdev for _, _, nic in routed_cards(spec, host))
    return Guarded(
        cards,
        spec.rdma.priority,
        spec.rdma.cnp_priority,
        spec.rdma.host_pfc,
        spec.kubernetes is not None and spec.pod_network.mode == "sriov",
        rails if len(rails) > 1 else (),
    )


def _legacy_vfs(nic: Nic) -> int:
    return 0 if nic.sriov.eswitch == "switchdev" else nic.vfs


def repaired_settings(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The settings that the file asks to repair; a value that the file sets itself wins."""
    repaired = {kind for kind in _REPAIRS if spec.guards.way(f"host.{kind}") == "repair"}
    settings: dict[str, str] = {}
    for nic in host.nics:
        each = {key: value for kind in repaired for key, value in _card(spec, kind).items()}
        settings |= {f"nic.{nic.pci}.{key}": value for key, value in each.items()}
        each = {key: value for kind in repaired for key, value in _VF_REPAIRS.get(kind, {}).items()}
        for number in range(_legacy_vfs(nic)):
            settings |= {f"vf.{nic.pci}.{number}.{key}": value for key, value in each.items()}
    if "ip" in repaired:
        settings |= _sysctls(spec, host)
    return settings


_VF_REPAIRS: Final[Mapping[str, Mapping[str, str]]] = {
    "rate_limit": _VF_RATES,
    "vf_rights": {"link_state": "auto"},
}
_REPAIRS: Final = (
    "priority_classes", "ets", "rate_limit", "dscp_map", "vf_rights", "ip",
)  # fmt: skip


def _card(spec: ClusterSpec, kind: str) -> Mapping[str, str]:
    if kind == "dscp_map":
        ours = {spec.rdma.dscp, spec.rdma.cnp_dscp}
        return {
            f"dscp{dscp}_priority": str(dscp // DSCP_PER_PRIORITY)
            for dscp in range(_DSCPS)
            if dscp not in ours
        }
    own_class = OWN_CLASSES.split(",")[spec.rdma.priority]
    return {
        "priority_classes": {"priority_classes": OWN_CLASSES},
        "ets": {"ets": OWN_ALGORITHMS},
        "rate_limit": {f"tc{own_class}_rate": "unlimited"},
    }.get(kind, {})


def _sysctls(spec: ClusterSpec, host: Host) -> Mapping[str, str]:
    """The values used with routes by source; `all.arp_ignore` is 0, since the greater counts."""
    cards = routed_cards(spec, host)
    if len(cards) < 2:  # noqa: PLR2004 - one card cannot be confused
        return {}
    of_cards = {
        f"kernel.sysctl.{conf_name(nic.netdev)}.{key}": value
        for _, _, nic in cards
        for key, value in CARD_SYSCTLS.items()
    }
    return of_cards | {f"kernel.sysctl.{ALL}.arp_ignore": "0"}
