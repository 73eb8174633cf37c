"""The state of one switch: the same type for wanted, actual and recorded.

It is vendor-neutral: a driver reads its system's `show` outputs into this type and turns the
difference between two of them into its system's commands.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from components.core.difference import Difference, diff_settings
from components.core.settings import (
    OMIT_EMPTY,
    OMIT_NONE,
    Setting,
    Texts,
    always,
    if_any,
    or_default,
    texts,
    up_down,
)
from components.fabric.identity import Identity
from components.fabric.parts import IbState, Sessions

ALL_VLANS = tuple(range(1, 4095))
"""IEEE 802.1Q: 0 and 4095 are reserved."""
DSCP_COUNT: Final = 64
"""Six bits of the IP header (RFC 2474)."""
_FULL = 100


def list_vlans(vlans: Literal["all"] | tuple[int, ...]) -> tuple[int, ...]:
    """Spell out `all`."""
    return ALL_VLANS if vlans == "all" else vlans


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class EcnState(_Frozen):
    """Marking thresholds of one traffic class: absolute, in KiB, as everything we want is."""

    min_kib: int
    max_kib: int
    kind: Literal["ecn", "red", "both"] = "ecn"
    """What a full queue does; we only want `ecn`, but must be able to put others back."""
    percent: Annotated[int, Field(exclude_if=lambda percent: percent == _FULL)] = 100
    """How many packets are marked at the upper threshold."""
    relative: bool = False
    """Found on a device, never wanted: the two numbers are percent of the buffer, not KiB."""
    native: Annotated[str | None, OMIT_NONE] = None
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

    asn: Annotated[int | None, Setting(text="bgp_asn")] = None
    """Autonomous system number."""
    router_id: Annotated[str | None, Setting(text="bgp_router_id")] = None
    neighbors: Annotated[dict[str, str], Setting("shared", "bgp_neighbor_{}")] = {}
    """Port or address of each neighbour to its number. We want `external`, any other number than
    ours, on ports; blank: it has other settings and no number."""
    networks: Annotated[
        tuple[str, ...], Setting("shared", "bgp_network_{}", always("announced"))
    ] = ()
    """IPv4 networks that are announced to the neighbours, such as `10.10.111.0/24`."""
    bfd: Annotated[tuple[str, ...], OMIT_EMPTY, Setting("shared", "bgp_bfd_{}", always("on"))] = ()
    """Neighbours whose loss is noticed by BFD, in a second or so, and not by BGP's hold time."""
    max_paths: Annotated[int | None, OMIT_NONE, Setting(text="bgp_max_paths", blank=0)] = None
    """Equal paths that are used at once, where the system takes one unless a line says otherwise
    (EOS, SONiC); None: not ours."""
    forwards: Annotated[bool | None, OMIT_NONE, Setting(text="ip_routing", blank=False)] = None
    """Whether it routes IPv4, also over ports without an IPv4 address, where that is a line of its
    own (EOS); None: not ours, or off."""


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

    admin_up: Annotated[
        bool | None, Setting(text="admin_state", say=up_down, native="admin_up", asked=True)
    ] = None
    mtu_bytes: Annotated[int | None, Setting(native="mtu_bytes", asked=0)] = None
    mode: Annotated[
        Literal["access", "trunk", "hybrid", "routed"] | None,
        Setting(native="mode", asked="access"),
    ] = None
    """`routed`, in no bridge: Cumulus ports are so at first, EOS ports may be, and routed links
    shall be."""
    access_vlan: Annotated[int | None, Setting()] = None
    """VLAN of frames without a tag on an access or hybrid port; 0: a hybrid port drops them."""
    trunk_vlans: Annotated[
        Literal["all"] | tuple[int, ...] | None,
        Setting("shared", "trunk_vlan_{}", always("allowed"), spell=list_vlans),
    ] = None
    """Allowed VLANs of a trunk or hybrid port that we own, ascending; others stay.

    `all` is found on devices and put back, never wanted.
    """
    native_vlan: Annotated[int | None, OMIT_NONE, Setting(asked=0)] = None
    """VLAN of frames without a tag on a trunk, where that is beside the access VLAN (EOS), and is
    in `trunk_vlans` too; 0: such frames are dropped. Elsewhere such a port is `hybrid`."""
    trust: Annotated[
        Literal["L2", "L3", "both", "port"] | None, Setting(native="trust", asked="L2")
    ] = None
    ecn: Annotated[
        dict[int, EcnState | None],
        Setting("own", "tc{}_ecn_kib", native="ecn_{}", blank=None, asked={0: None}),
    ] = {}
    """Traffic class to thresholds; None: ECN is off there."""
    pfc: Annotated[bool | None, Setting()] = None
    pfc_priorities: Annotated[
        tuple[int, ...] | None, OMIT_NONE, Setting(native="pfc", asked=())
    ] = None
    """Priorities that PFC keeps from being dropped, where each port has its own list (EOS, SONiC).
    """
    strict_classes: Annotated[
        tuple[int, ...] | None,
        Setting("shared", "tc{}_schedule", always("strict"), native="schedule_{}", asked=()),
    ] = None
    """Traffic classes served strictly that we own (the CNP class)."""
    wrr_weights: Annotated[dict[int, int], Setting("kept", None)] = {}
    """Weights of the classes that are not strict: found on devices, to put them back."""
    pfc_watchdog: Annotated[bool | None, OMIT_NONE, Setting(native="pfc_watchdog")] = None
    """The watchdog over pause storms."""
    pfc_watchdog_ms: Annotated[
        tuple[int, int] | None, OMIT_NONE, Setting(say=lambda times: "/".join(map(str, times)))
    ] = None
    """Its times: until it drops, and for how long."""
    adaptive_routing: Annotated[
        bool | None, OMIT_NONE, Setting(native="adaptive_routing", blank=False)
    ] = None
    """Whether the port spreads what it routes by load (Cumulus)."""
    speed: Annotated[str | None, OMIT_NONE, Setting(say=or_default)] = None
    """Speed in the system's words, such as `400000`; where these are what splits a port (EOS), with
    lanes: `400g-4`; blank: no line says it."""
    fec: Annotated[str | None, OMIT_NONE, Setting(say=or_default)] = None
    """Error correction, `rs`, `fc` or `none`; blank: no line says it. Other words are a system's
    own: found and put back."""
    autoneg: Annotated[str | None, OMIT_NONE, Setting(say=or_default)] = None
    """Auto-negotiation, `on` or `off`, with what is offered where that is set apart (SONiC):
    `on 400000`; blank: no line says it."""
    edge_port: Annotated[str | None, OMIT_NONE, Setting(say=or_default)] = None
    """Whether spanning tree takes the port for one to a host, which forwards at once: `on` or
    `off`; blank: no line says it. Other words are a system's own: found and put back."""
    bpdu_guard: Annotated[str | None, OMIT_NONE, Setting(say=or_default)] = None
    """Whether the port goes down if it hears a BPDU, which no host sends; likewise."""
    dscp_priorities: Annotated[
        dict[int, int],
        OMIT_EMPTY,
        Setting("own", "dscp_{}_priority", native="trust", puts_back=False),
    ] = {}
    """DSCP to switch priority, for the DSCPs that we own; SONiC's own map has other ones."""
    priority_classes: Annotated[
        dict[int, int],
        OMIT_EMPTY,
        Setting("own", "priority_{}_class", native="trust", puts_back=False),
    ] = {}
    """Switch priority to traffic class, for the priorities that we own, on SONiC."""
    lossless_buffers: Annotated[
        tuple[int, ...] | None,
        OMIT_NONE,
        Setting("one", "priority_{}_buffer", always("lossless"), native="buffers", puts_back=False),
    ] = None
    """Priorities that we own with a lossless buffer on this port (SONiC)."""
    cable_m: Annotated[int | None, OMIT_NONE, Setting(say=if_any, native="cable")] = None
    """Length of the cable that the headroom of this port is for (SONiC); 0: nothing says, or
    table and buffers differ."""
    rewrite_dscp: Annotated[bool | None, OMIT_NONE, Setting(asked=False)] = None
    """Whether the port writes another DSCP into what it sends: found, and wanted off by a guard."""
    class_shares: Annotated[
        dict[int, int], OMIT_EMPTY, Setting("own", "tc{}_share", native="schedule_{}", blank=0)
    ] = {}
    """Weight or percent of each class that is not strict; 0: it has none. Where the file says
    nothing of it: found beside ours, never wanted."""
    native: Annotated[dict[str, str], OMIT_EMPTY, Setting("kept", None)] = {}
    """Setting to what the driver needs beside its value to put it back: found on devices and put
    back, never wanted. Only the driver that wrote a text looks into it.

    The settings are `admin_up`, `mtu_bytes`, `mode`, `trust`, `pfc`, `buffers`, `cable`,
    `pfc_watchdog`, `ecn_<class>` and `schedule_<class>`; a text under another name is not put back.
    """


class OtherPorts(_Frozen):
    """Ports beside ours, by what they carry: found, never wanted."""

    by_vlan: dict[int, tuple[str, ...]] = {}
    """VLAN to the ports that name it."""
    of_all: tuple[str, ...] = ()
    """Trunks without a list of their own: they carry every VLAN of the switch."""


class SwitchState(_Frozen):
    """One switch."""

    vlans: Annotated[tuple[int, ...], Setting("shared", "vlan_{}", always("present"))] = ()
    """VLANs that must exist, ascending (actual: all that exist)."""
    pfc_priorities: Annotated[tuple[int, ...] | None, Setting(asked=())] = None
    """Switch priorities with PFC enabled globally; None: PFC is not ours."""
    pfc_enabled: Annotated[bool | None, Setting(text="pfc", asked=False)] = None
    """The global PFC switch; None: not ours."""
    dscp_classes: Annotated[
        dict[int, int] | None,
        OMIT_NONE,
        Setting("own", "dscp_{}_class", asked=dict.fromkeys(range(DSCP_COUNT), 0)),
    ] = None
    """DSCP to traffic class, where the system has one map for all ports and we own entries of it
    (EOS); None: not ours."""
    roce: Annotated[
        (
            Literal[
                "none",
                "lossless",
                "semi-lossless",
                "lossy",
                "lossless-single-ipool",
                "lossy-multi-tc",
            ]
            | None
        ),
        Setting(say=if_any, blank="none"),
    ] = None
    """The one-shot RoCE mode where the system has one; None: not ours.

    `semi-lossless` is Onyx'; the last two are Cumulus': found and put back, never wanted.
    """
    roce_cable_m: Annotated[int | None, OMIT_NONE, Setting(say=if_any, blank=0)] = None
    """Length of the longest cable, which the headroom of the profile follows; 0: not said."""
    addresses: Annotated[
        dict[str, tuple[str, ...]] | None, OMIT_NONE, Setting("own", None, each="shared", asked={})
    ] = None
    """Routed interface of the switch (`lo`, `vlan111`, a port) to its addresses with prefix length;
    beside them `link-local`, where the IPv6 address over which BGP speaks must be asked for,
    `mtu 9214`, where a routed interface has a line of its own for that, and `always-up`. None: not
    ours."""
    bgp: Annotated[BgpState | None, OMIT_NONE, Setting("shared", asked=BgpState())] = None
    """None: not ours."""
    adaptive_routing: Annotated[bool | None, OMIT_NONE, Setting(blank=False)] = None
    """Whether the switch as a whole spreads what it routes by load (Cumulus); None: not ours."""
    splits: Annotated[
        dict[str, tuple[str, ...]] | None,
        OMIT_NONE,
        Setting("own", "breakout", lambda parts: f"{len(parts)}x", where="port {}"),
    ] = None
    """Whole port to the ports that are there in its place: its parts, `swp1: [swp1s0, swp1s1]`, or
    itself alone. None: not ours; a whole port that it does not name is not ours either."""
    configured_parts: Annotated[tuple[str, ...] | None, OMIT_NONE] = None
    """Parts of split ports of which the configuration says something: found, never wanted."""
    rewrite_dscp: Annotated[bool | None, OMIT_NONE] = None
    """Whether the switch rewrites DSCP on all ports at once (EOS). Read only."""
    ports: Annotated[dict[str, PortState], Setting("own", where="port {}")] = {}
    others: Annotated[OtherPorts | None, OMIT_NONE] = None
    """None: not looked at."""
    neighbours: Annotated[dict[str, Neighbour] | None, OMIT_NONE] = None
    """What LLDP says of each port: found, and compared with the file's cables, no setting."""
    sessions: Annotated[Sessions | None, OMIT_NONE] = None
    """What BGP says of each neighbour: likewise, compared with the file's routed links."""
    identity: Annotated[Identity | None, OMIT_NONE] = None
    """Which switch it is: found, recorded, and compared at every look and before every write."""
    ib: Annotated[IbState | None, OMIT_NONE, Setting(where="subnet manager")] = None
    """Subnet manager and partitions of an InfiniBand switch; None: not ours, or an Ethernet one."""
    native: Annotated[dict[str, str], OMIT_EMPTY, Setting("kept", None)] = {}
    """The same of the whole switch: a recorded state is put back with all of it."""

    @model_validator(mode="before")
    @classmethod
    def _read_folded(cls, value: object) -> object:
        return spread_ports(value)

    def settings(self) -> Texts:
        """Flat (where, setting) to text, for diffs that people read."""
        flat = texts(self)
        for name, addresses in (self.addresses or {}).items():
            flat |= {_address_setting(name, each): _address_text(each) for each in addresses}
        for name, port in self.ports.items():
            # A class that is served strictly has no share, whatever the system shows.
            for tc in {*(port.strict_classes or ())} & {*port.class_shares}:
                flat[f"port {name}", f"tc{tc}_share"] = "strict"
        return flat


ALWAYS_UP: Final = "always-up"
"""An entry of `SwitchState.addresses`: the interface of a VLAN is up without a port in it."""
MTU_WORD: Final = "mtu "
"""How an entry of `SwitchState.addresses` begins that is an MTU."""


def _address_setting(name: str, entry: str) -> tuple[str, str]:
    is_mtu = entry.startswith(MTU_WORD)
    return "switch", f"mtu_{name}" if is_mtu else f"address_{name}_{entry}"


def _address_text(entry: str) -> str:
    return entry.removeprefix(MTU_WORD) if entry.startswith(MTU_WORD) else "set"


def diff_states(actual: SwitchState, desired: SwitchState) -> tuple[Difference, ...]:
    """The wanted settings that the switch does not have; what we do not own is not compared."""
    return diff_settings(actual.settings(), desired.settings())


ALL: Final = "all"
"""No port of any system is called so: each has a digit in its name."""
_Port = Mapping[str, JsonValue]


def fold_ports(state: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The JSON form of a switch with the most common value of each key of its ports once."""
    ports = cast("Mapping[str, _Port]", state.get("ports", {}))
    if len(ports) <= 1:
        return dict(state)
    common = _common([*ports.values()])
    own: dict[str, JsonValue] = {
        name: {key: value for key, value in port.items() if common.get(key, _OTHER) != value}
        for name, port in ports.items()
    }
    return {**state, "ports": {ALL: common, **own}}


_OTHER: Final = ("no value of JSON",)


def _common(ports: list[_Port]) -> dict[str, JsonValue]:
    """Of each key that every port has: one without it would get a value that it does not have."""
    keys = [key for key in ports[0] if all(key in port for port in ports)]
    return {key: _most([port[key] for port in ports]) for key in keys}


def _most(values: list[JsonValue]) -> JsonValue:
    texts = Counter(json.dumps(value, sort_keys=True) for value in values)
    return cast("JsonValue", json.loads(texts.most_common(1)[0][0]))


def spread_ports(state: object) -> object:
    """The same with each port by itself; what has no `all` is so already."""
    if not isinstance(state, Mapping):
        return state
    document = cast("Mapping[str, object]", state)
    ports = document.get("ports")
    if not isinstance(ports, Mapping) or ALL not in ports:
        return document
    named = dict(cast("Mapping[str, _Port]", ports))
    common = named.pop(ALL)
    return {**document, "ports": {name: {**common, **port} for name, port in named.items()}}
