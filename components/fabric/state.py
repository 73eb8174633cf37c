"""The state of one switch: the same type for wanted, actual and recorded.

It is vendor-neutral: a driver reads its system's `show` outputs into this type and turns the
difference between two of them into its system's commands.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from components.core.difference import Difference, diff_settings
from components.fabric.alike import spread_ports
from components.fabric.bond_state import Bonds, MlagState, bond_settings
from components.fabric.ib_state import IbState
from components.fabric.identity import Identity
from components.fabric.left_out import FILLED, SAID
from components.fabric.session_state import Sessions

_FULL = 100


def _is_full(value: object) -> bool:
    return value == _FULL


ValueT = TypeVar("ValueT")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class EcnState(_Frozen):
    """Marking thresholds of one traffic class: absolute, in KiB, as everything we want is."""

    min_kib: int
    max_kib: int
    kind: Literal["ecn", "red", "both"] = "ecn"
    """What a full queue does; we only want `ecn`, but must be able to put others back."""
    percent: Annotated[int, Field(exclude_if=_is_full)] = 100
    """How many packets are marked at the upper threshold."""
    relative: bool = False
    """Found on a device, never wanted: the two numbers are percent of the buffer, not KiB."""
    native: Annotated[str | None, SAID] = None
    """The system's own words for marking that two thresholds in KiB do not say, such as EOS'
    segments: found on a device and put back, never wanted; the two numbers are then 0."""

    def __str__(self) -> str:
        """The words of diffs: `150-1500` for what we set, with more for what others set."""
        if self.native is not None:
            return self.native
        unit = "%" if self.relative else ""
        share = "" if self.percent == _FULL else f" at {self.percent} %"
        kind = "" if self.kind == "ecn" else self.kind
        return f"{self.min_kib}-{self.max_kib}{unit}{kind}{share}"


class BgpState(_Frozen):
    """The BGP of the default VRF; an empty one: there is none."""

    asn: int | None = None
    """Autonomous system number."""
    router_id: str | None = None
    neighbors: dict[str, str] = {}
    """Port or address of each neighbour to its number. We want `external`, any other number than
    ours, on ports; blank: it has other settings and no number."""
    networks: tuple[str, ...] = ()
    """IPv4 networks that are announced to the neighbours, such as `10.10.111.0/24`."""
    bfd: Annotated[tuple[str, ...], FILLED] = ()
    """Neighbours whose loss is noticed by BFD, in a second or so, and not by BGP's hold time."""
    max_paths: Annotated[int | None, SAID] = None
    """Equal paths that are used at once, where the system takes one unless a line says otherwise
    (EOS, SONiC); None: not ours."""
    forwards: Annotated[bool | None, SAID] = None
    """Whether it routes IPv4, also over ports without an IPv4 address, where that is a line of its
    own (EOS); None: not ours, or off."""

    def settings(self) -> dict[tuple[str, str], str]:
        """As `SwitchState.settings`."""
        flat = {
            ("switch", f"bgp_{key}"): str(value)
            for key, value in (("asn", self.asn), ("router_id", self.router_id))
            if value is not None
        }
        flat |= {("switch", f"bgp_neighbor_{name}"): asn for name, asn in self.neighbors.items()}
        flat |= {("switch", f"bgp_network_{name}"): "announced" for name in self.networks}
        flat |= {("switch", f"bgp_bfd_{name}"): "on" for name in self.bfd}
        if self.max_paths is not None:
            flat["switch", "bgp_max_paths"] = str(self.max_paths)
        if self.forwards is not None:
            flat["switch", "ip_routing"] = "on" if self.forwards else "off"
        return flat


class Neighbour(_Frozen):
    """What LLDP says is plugged into a port."""

    system: str
    """Its host name."""
    port: str = ""
    """Identifier of its port: a name, or a MAC address where a host says no more."""
    description: str = ""
    """Description of its port: on Linux the name of the network device."""


class PortState(_Frozen):
    """One port. None, or an absent class, means: not ours (desired) or not read (actual)."""

    admin_up: bool | None = None
    mtu_bytes: int | None = None
    mode: Literal["access", "trunk", "hybrid", "routed"] | None = None
    """`routed`, in no bridge: Cumulus ports are so at first, EOS ports may be, and routed links
    shall be."""
    access_vlan: int | None = None
    """VLAN of frames without a tag on an access or hybrid port; 0: a hybrid port drops them."""
    trunk_vlans: Literal["all"] | tuple[int, ...] | None = None
    """Allowed VLANs of a trunk or hybrid port that we own, ascending; others stay.

    `all` is found on devices and put back, never wanted.
    """
    native_vlan: Annotated[int | None, SAID] = None
    """VLAN of frames without a tag on a trunk, where that is beside the access VLAN (EOS), and is
    in `trunk_vlans` too; 0: such frames are dropped. Elsewhere such a port is `hybrid`."""
    trust: Literal["L2", "L3", "both", "port"] | None = None
    ecn: dict[int, EcnState | None] = {}
    """Traffic class to thresholds; None: ECN is off there."""
    pfc: bool | None = None
    pfc_priorities: Annotated[tuple[int, ...] | None, SAID] = None
    """Priorities that PFC keeps from being dropped, where each port has its own list (EOS, SONiC).
    """
    strict_classes: tuple[int, ...] | None = None
    """Traffic classes served strictly that we own (the CNP class)."""
    wrr_weights: dict[int, int] = {}
    """Weights of the classes that are not strict: found on devices, to put them back."""
    pfc_watchdog: Annotated[bool | None, SAID] = None
    """The watchdog over pause storms."""
    pfc_watchdog_ms: Annotated[tuple[int, int] | None, SAID] = None
    """Its times: until it drops, and for how long."""
    adaptive_routing: Annotated[bool | None, SAID] = None
    """Whether the port spreads what it routes by load (Cumulus)."""
    speed: Annotated[str | None, SAID] = None
    """Speed in the system's words, such as `400000`; where these are what splits a port (EOS), with
    lanes: `400g-4`; blank: no line says it."""
    fec: Annotated[str | None, SAID] = None
    """Error correction, `rs`, `fc` or `none`; blank: no line says it. Other words are a system's
    own: found and put back."""
    autoneg: Annotated[str | None, SAID] = None
    """Auto-negotiation, `on` or `off`, with what is offered where that is set apart (SONiC):
    `on 400000`; blank: no line says it."""
    dscp_priorities: Annotated[dict[int, int], FILLED] = {}
    """DSCP to switch priority, for the DSCPs that we own; SONiC's own map has other ones."""
    priority_classes: Annotated[dict[int, int], FILLED] = {}
    """Switch priority to traffic class, for the priorities that we own, on SONiC."""
    lossless_buffers: Annotated[tuple[int, ...] | None, SAID] = None
    """Priorities that we own with a lossless buffer on this port (SONiC)."""
    cable_m: Annotated[int | None, SAID] = None
    """Length of the cable that the headroom of this port is for (SONiC); 0: nothing says, or
    table and buffers differ."""
    rewrite_dscp: Annotated[bool | None, SAID] = None
    """Whether the port writes another DSCP into what it sends: found, and wanted off by a guard."""
    class_shares: Annotated[dict[int, int], FILLED] = {}
    """Weight or percent of each class that is not strict; 0: it has none. Where the file says
    nothing of it: found beside ours, never wanted."""
    native: Annotated[dict[str, str], FILLED] = {}
    """Setting to what the driver needs beside its value to put it back: found on devices and put
    back, never wanted. Only the driver that wrote a text looks into it.

    The settings are `admin_up`, `mtu_bytes`, `mode`, `trust`, `pfc`, `buffers`, `cable`,
    `pfc_watchdog`, `ecn_<class>` and `schedule_<class>`; a text under another name is not put back.
    """


class OtherPorts(_Frozen):
    """Ports beside ours, by what they carry: found, never wanted."""

    by_vlan: dict[int, tuple[str, ...]] = {}
    """VLAN to the ports and bundles that name it."""
    of_all: tuple[str, ...] = ()
    """Trunks without a list of their own: they carry every VLAN of the switch."""


class SwitchState(_Frozen):
    """One switch."""

    vlans: tuple[int, ...] = ()
    """VLANs that must exist, ascending (actual: all that exist)."""
    pfc_priorities: tuple[int, ...] | None = None
    """Switch priorities with PFC enabled globally; None: PFC is not ours."""
    pfc_enabled: bool | None = None
    """The global PFC switch; None: not ours."""
    dscp_classes: Annotated[dict[int, int] | None, SAID] = None
    """DSCP to traffic class, where the system has one map for all ports and we own entries of it
    (EOS); None: not ours."""
    roce: (
        Literal[
            "none", "lossless", "semi-lossless", "lossy", "lossless-single-ipool", "lossy-multi-tc"
        ]
        | None
    ) = None
    """The one-shot RoCE mode where the system has one; None: not ours.

    `semi-lossless` is Onyx'; the last two are Cumulus': found and put back, never wanted.
    """
    roce_cable_m: Annotated[int | None, SAID] = None
    """Length of the longest cable, which the headroom of the profile follows; 0: not said."""
    addresses: Annotated[dict[str, tuple[str, ...]] | None, SAID] = None
    """Routed interface of the switch (`lo`, `vlan111`, a port) to its addresses with prefix length;
    beside them `link-local`, where the IPv6 address over which BGP speaks must be asked for,
    `mtu 9214`, where a routed interface has a line of its own for that, and `always-up`. None: not
    ours."""
    bgp: Annotated[BgpState | None, SAID] = None
    """None: not ours."""
    bonds: Annotated[Bonds | None, SAID] = None
    """Bundles of ports by name; None: not ours, or there is none."""
    mlag: Annotated[MlagState | None, SAID] = None
    """None: not ours, or it is half of no pair."""
    adaptive_routing: Annotated[bool | None, SAID] = None
    """The same of the switch as a whole (Cumulus); None: not ours."""
    splits: Annotated[dict[str, tuple[str, ...]] | None, SAID] = None
    """Whole port to the ports that are there in its place: its parts, `swp1: [swp1s0, swp1s1]`, or
    itself alone. None: not ours; a whole port that it does not name is not ours either."""
    configured_parts: Annotated[tuple[str, ...] | None, SAID] = None
    """Parts of split ports of which the configuration says something: found, never wanted."""
    rewrite_dscp: Annotated[bool | None, SAID] = None
    """The same of all ports together, where the system has one switch for it (EOS): found only."""
    ports: dict[str, PortState] = {}
    others: Annotated[OtherPorts | None, SAID] = None
    """None: not looked at."""
    neighbours: Annotated[dict[str, Neighbour] | None, SAID] = None
    """What LLDP says of each port: found, and compared with the file's cables, no setting."""
    sessions: Annotated[Sessions | None, SAID] = None
    """What BGP says of each neighbour: likewise, compared with the file's routed links."""
    identity: Annotated[Identity | None, SAID] = None
    """Which switch it is: found, recorded, and compared at every look and before every write."""
    ib: Annotated[IbState | None, SAID] = None
    """Subnet manager and partitions of an InfiniBand switch; None: not ours, or an Ethernet one."""
    native: Annotated[dict[str, str], FILLED] = {}
    """The same of the whole switch: a recorded state is put back with all of it."""

    @model_validator(mode="before")
    @classmethod
    def _read_folded(cls, value: object) -> object:
        return spread_ports(value)

    def settings(self) -> dict[tuple[str, str], str]:
        """Flat (where, setting) to text, for diffs that people read."""
        flat = {("switch", f"vlan_{vlan}"): "present" for vlan in self.vlans}
        if self.pfc_priorities is not None:
            flat["switch", "pfc_priorities"] = ",".join(map(str, self.pfc_priorities)) or "none"
        if self.pfc_enabled is not None:
            flat["switch", "pfc"] = "on" if self.pfc_enabled else "off"
        for dscp, tc in (self.dscp_classes or {}).items():
            flat["switch", f"dscp_{dscp}_class"] = str(tc)
        if self.adaptive_routing is not None:
            flat["switch", "adaptive_routing"] = "on" if self.adaptive_routing else "off"
        for name, parts in (self.splits or {}).items():
            flat[f"port {name}", "breakout"] = f"{len(parts)}x"
        profile = (("roce", self.roce), ("roce_cable_m", self.roce_cable_m))
        flat |= {("switch", key): str(value) for key, value in profile if value}
        for name, addresses in (self.addresses or {}).items():
            flat |= {_address_setting(name, each): _address_text(each) for each in addresses}
        flat |= self.bgp.settings() if self.bgp else {}
        flat |= bond_settings(self.bonds, self.mlag)
        for name, port in self.ports.items():
            flat |= {(f"port {name}", key): text for key, text in _port_settings(port).items()}
        return flat | (self.ib.settings() if self.ib else {})


ALWAYS_UP: Final = "always-up"
"""An entry of `SwitchState.addresses`: the interface of a VLAN is up without a port in it."""
MTU_WORD: Final = "mtu "
"""How an entry of `SwitchState.addresses` begins that is an MTU."""


def _address_setting(name: str, entry: str) -> tuple[str, str]:
    is_mtu = entry.startswith(MTU_WORD)
    return "switch", f"mtu_{name}" if is_mtu else f"address_{name}_{entry}"


def _address_text(entry: str) -> str:
    return entry.removeprefix(MTU_WORD) if entry.startswith(MTU_WORD) else "set"


def _port_settings(port: PortState) -> dict[str, str]:
    flat = {
        key: str(value)
        for key, value in (
            ("mtu_bytes", port.mtu_bytes),
            ("mode", port.mode),
            ("access_vlan", port.access_vlan),
            ("native_vlan", port.native_vlan),
            ("trust", port.trust),
        )
        if value is not None
    }
    if port.admin_up is not None:
        flat["admin_state"] = "up" if port.admin_up else "down"
    switched = (
        ("pfc", port.pfc),
        ("pfc_watchdog", port.pfc_watchdog),
        ("rewrite_dscp", port.rewrite_dscp),
        ("adaptive_routing", port.adaptive_routing),
    )
    flat |= {key: "on" if value else "off" for key, value in switched if value is not None}
    linked = (("speed", port.speed), ("fec", port.fec), ("autoneg", port.autoneg))
    flat |= {key: value or "default" for key, value in linked if value is not None}
    flat |= {f"trunk_vlan_{vlan}": "allowed" for vlan in list_vlans(port.trunk_vlans or ())}
    flat |= {f"tc{tc}_schedule": "strict" for tc in port.strict_classes or ()}
    strict = port.strict_classes or ()
    shares = port.class_shares.items()
    flat |= {f"tc{tc}_share": "strict" if tc in strict else str(n) for tc, n in shares}
    flat |= {f"dscp_{dscp}_priority": str(n) for dscp, n in port.dscp_priorities.items()}
    flat |= {f"priority_{n}_class": str(tc) for n, tc in port.priority_classes.items()}
    flat |= {f"priority_{n}_buffer": "lossless" for n in port.lossless_buffers or ()}
    flat |= {"cable_m": str(port.cable_m)} if port.cable_m else {}
    if port.pfc_watchdog_ms is not None:
        flat["pfc_watchdog_ms"] = "/".join(map(str, port.pfc_watchdog_ms))
    if port.pfc_priorities is not None:
        flat["pfc_priorities"] = ",".join(map(str, port.pfc_priorities)) or "none"
    for tc, ecn in port.ecn.items():
        flat[f"tc{tc}_ecn_kib"] = str(ecn) if ecn else "off"
    return flat


ALL_VLANS = tuple(range(1, 4095))
"""IEEE 802.1Q: 0 and 4095 are reserved."""


def first(one: ValueT | None, other: ValueT | None) -> ValueT | None:
    """What one state says, or else another."""
    return other if one is None else one


def list_vlans(vlans: Literal["all"] | tuple[int, ...]) -> tuple[int, ...]:
    """Spell out `all`."""
    return ALL_VLANS if vlans == "all" else vlans


def diff_states(actual: SwitchState, desired: SwitchState) -> tuple[Difference, ...]:
    """The wanted settings that the switch does not have; what we do not own is not compared."""
    return diff_settings(actual.settings(), desired.settings())
