"""The state of one switch: the same type for wanted, actual and recorded.

It is vendor-neutral: a driver reads its system's `show` outputs into this type and turns the
difference between two states into its system's commands.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from components.core.difference import Difference, Effect, diff_settings
from components.core.settings import (
    OMIT_EMPTY,
    OMIT_NONE,
    Impact,
    Setting,
    Texts,
    always,
    if_any,
    or_default,
    texts,
    up_down,
)
from components.fabric.parts import (
    NONE,
    TRAFFIC,
    WHOLE,
    BgpState,
    IbState,
    Identity,
    Neighbour,
    OtherPorts,
    Sessions,
    read_list,
    spread_ports,
)

ALL_VLANS = tuple(range(1, 4095))
"""IEEE 802.1Q: 0 and 4095 are reserved."""
DSCP_COUNT: Final = 64
"""Six bits of the IP header (RFC 2474)."""
_FULL = 100
RoceMode = Literal[
    "none", "lossless", "semi-lossless", "lossy", "lossless-single-ipool", "lossy-multi-tc"
]
CLASS, LINK = Effect.CLASS, Effect.LINK
_BUFFERS: Final = "unproven, so link: no page says whether the port keeps what its buffers hold"
_MTU: Final = Impact(
    LINK,
    "unproven, so link: no page says that the port stays up",
    systems={"onyx": (LINK, "the port must be shut for a new MTU (ESXi guide)")},
)
_ONE_SHOT: Final = Impact(
    LINK,
    "unproven, so link: every port gets new buffers",
    systems={"onyx": (LINK, "the one-shot may toggle every port (manual)")},
)
_PFC: Final = Impact(
    LINK,
    _BUFFERS,
    systems={"onyx": (LINK, "unproven, so link: `force`, which elsewhere shuts a port first")},
)
_LINK: Final = Impact(LINK, "the link ends and comes back")
_ROOM: Final = Impact(LINK, _BUFFERS)
_SPREADS: Final = Impact(LINK, "switchd restarts or reloads")
_MARKS: Final = Impact(CLASS, "traffic gets into other classes or gets other marks")
_CLASS: Final = Impact(CLASS, "traffic gets into another class")
_SERVED: Final = Impact(CLASS, "the class is marked or served otherwise")
_WATCHDOG: Final = Impact(CLASS, "a paused class is dropped earlier or later")
_PORT_DOWN: Final = Impact(LINK, "the port goes down", to={"up": NONE})
_OTHER_VLANS: Final = Impact(TRAFFIC, "the port is in other VLANs, or in none")
_ACCESS: Final = Impact(TRAFFIC, "untagged frames get into another VLAN", NONE)
_UNTAGGED: Final = Impact(TRAFFIC, "untagged frames get into another VLAN")
_LEAVES: Final = Impact(TRAFFIC, "the port loses this VLAN", NONE)
_VLAN_GOES: Final = Impact(TRAFFIC, "every port loses this VLAN", NONE)
_SPLITS: Final = Impact(LINK, "other ports take its place")
_EDGE: Final = Impact(TRAFFIC, "unproven: the port may have to learn again", to={"on": NONE})
_BPDU: Final = Impact(NONE, "nothing until it hears a BPDU", to={"on": LINK, "default": TRAFFIC})
ADDRESSES: Final[Mapping[str, Impact]] = {
    "address_{}": Impact(TRAFFIC, "routes over this address go", NONE),
    "mtu_{}": _MTU,
}
"""The effects of entries of `SwitchState.addresses`, by their names in diffs."""
ALWAYS_UP: Final = "always-up"
"""An entry of `SwitchState.addresses`: the interface of a VLAN is up without a port in it."""
MTU_WORD: Final = "mtu "
"""Prefix of an MTU among the entries of `SwitchState.addresses`."""


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
    """The reaction of a full queue; we only want `ecn`, but must be able to put others back."""
    percent: Annotated[int, Field(exclude_if=lambda percent: percent == _FULL)] = 100
    """How many packets are marked at the upper threshold."""
    relative: bool = False
    """Found on a device, never wanted: the two numbers are percent of the buffer, not KiB."""
    native: Annotated[str | None, OMIT_NONE] = None
    """The system's own words for marking that two thresholds in KiB cannot express, such as EOS'
    segments: read from a device and put back, never wanted; the two numbers are then 0."""

    def __str__(self) -> str:
        """The words of diffs: `150-1500` for our own markings, with more for foreign ones."""
        if self.native is not None:
            return self.native
        unit = "%" if self.relative else ""
        share = "" if self.percent == _FULL else f" at {self.percent} %"
        kind = "" if self.kind == "ecn" else self.kind
        return f"{self.min_kib}-{self.max_kib}{unit}{kind}{share}"


class PortState(_Frozen):
    """One port. None, or an absent class, means: not managed (desired) or not read (actual)."""

    admin_up: Annotated[
        bool | None,
        Setting(text="admin_state", say=up_down, native="admin_up", asked=True, does=_PORT_DOWN),
    ] = None
    mtu_bytes: Annotated[int | None, Setting(native="mtu_bytes", asked=0, does=_MTU)] = None
    mode: Annotated[
        Literal["access", "trunk", "hybrid", "routed"] | None,
        Setting(native="mode", asked="access", does=_OTHER_VLANS),
    ] = None
    """`routed` means in no bridge: Cumulus ports start so, and routed links need it."""
    access_vlan: Annotated[int | None, Setting(does=_ACCESS)] = None
    """VLAN of frames without a tag on an access or hybrid port; 0: a hybrid port drops them."""
    trunk_vlans: Annotated[
        Literal["all"] | tuple[int, ...] | None,
        Setting("shared", "trunk_vlan_{}", always("allowed"), spell=list_vlans, does=_LEAVES),
    ] = None
    """Allowed VLANs of a trunk or hybrid port that we own, ascending; others stay.

    `all` is found on devices and put back, never wanted.
    """
    native_vlan: Annotated[int | None, OMIT_NONE, Setting(asked=0, does=_UNTAGGED)] = None
    """VLAN of untagged frames on a trunk, if the system keeps it apart from the access VLAN (EOS).
    It is in `trunk_vlans` too; 0: such frames are dropped. Elsewhere such a port is `hybrid`."""
    trust: Annotated[
        Literal["L2", "L3", "both", "port"] | None, Setting(native="trust", asked="L2", does=_MARKS)
    ] = None
    ecn: Annotated[
        dict[int, EcnState | None],
        Setting("own", "tc{}_ecn_kib", native="ecn_{}", blank=None, asked={0: None}, does=_SERVED),
    ] = {}
    """Traffic class to thresholds; None: ECN is off there."""
    pfc: Annotated[bool | None, Setting(does=_PFC)] = None
    pfc_priorities: Annotated[
        tuple[int, ...] | None, OMIT_NONE, Setting(native="pfc", asked=(), does=_PFC)
    ] = None
    """Priorities that PFC keeps from being dropped, if each port has its own list (EOS, SONiC)."""
    strict_classes: Annotated[
        tuple[int, ...] | None,
        Setting("shared", "tc{}_schedule", always("strict"), native="schedule_{}", asked=(),
                does=_SERVED),
    ] = None  # fmt: skip
    """Traffic classes served strictly that we own (the CNP class)."""
    wrr_weights: Annotated[dict[int, int], Setting("kept", None)] = {}
    """Weights of the classes without strict priority: read from devices, to put them back."""
    pfc_watchdog: Annotated[
        bool | None, OMIT_NONE, Setting(native="pfc_watchdog", does=_WATCHDOG)
    ] = None
    pfc_watchdog_ms: Annotated[
        tuple[int, int] | None,
        OMIT_NONE,
        Setting(say=lambda times: "/".join(map(str, times)), does=_WATCHDOG),
    ] = None
    """The watchdog's times: until it drops, and for how long."""
    adaptive_routing: Annotated[
        bool | None, OMIT_NONE, Setting(native="adaptive_routing", blank=False, does=_SPREADS)
    ] = None
    """Whether the port spreads routed packets by load (Cumulus)."""
    speed: Annotated[str | None, OMIT_NONE, Setting(say=or_default, does=_LINK)] = None
    """Speed in the system's words, such as `400000` or `400g-4` (EOS); blank: no line sets it."""
    fec: Annotated[str | None, OMIT_NONE, Setting(say=or_default, does=_LINK)] = None
    """`rs`, `fc` or `none`; blank: no line sets it. A system's own words are found and put back."""
    autoneg: Annotated[str | None, OMIT_NONE, Setting(say=or_default, does=_LINK)] = None
    """Auto-negotiation, `on` or `off`, and with the offered speeds if they are set separately
    (SONiC), `on 400000`; blank: no line sets it."""
    edge_port: Annotated[str | None, OMIT_NONE, Setting(say=or_default, does=_EDGE)] = None
    """Whether spanning tree treats the port as an edge port, which forwards at once: `on` or `off`;
    blank: no line sets it. Other words are a system's own: found and put back."""
    bpdu_guard: Annotated[str | None, OMIT_NONE, Setting(say=or_default, does=_BPDU)] = None
    """Whether the port goes down if it hears a BPDU; values as in `edge_port`."""
    dscp_priorities: Annotated[
        dict[int, int],
        OMIT_EMPTY,
        Setting("own", "dscp_{}_priority", native="trust", puts_back=False, does=_CLASS),
    ] = {}
    """DSCP to switch priority, for the DSCPs that we own; SONiC's own map has other ones."""
    priority_classes: Annotated[
        dict[int, int],
        OMIT_EMPTY,
        Setting("own", "priority_{}_class", native="trust", puts_back=False, does=_CLASS),
    ] = {}
    """Switch priority to traffic class, for the priorities that we own, on SONiC."""
    lossless_buffers: Annotated[
        tuple[int, ...] | None,
        OMIT_NONE,
        Setting("one", "priority_{}_buffer", always("lossless"), native="buffers",
                puts_back=False, does=_ROOM),
    ] = None  # fmt: skip
    """Priorities that we own with a lossless buffer on this port (SONiC)."""
    cable_m: Annotated[int | None, OMIT_NONE, Setting(say=if_any, native="cable", does=_ROOM)] = (
        None
    )
    """Cable length that the headroom fits (SONiC); 0: not known, or table and buffers differ."""
    rewrite_dscp: Annotated[bool | None, OMIT_NONE, Setting(asked=False, does=_MARKS)] = None
    """Whether the port rewrites the DSCP of sent packets: read, and a guard may want it off."""
    class_shares: Annotated[
        dict[int, int],
        OMIT_EMPTY,
        Setting("own", "tc{}_share", native="schedule_{}", blank=0, does=_SERVED),
    ] = {}
    """Weight or percent of each class that is not strict; 0: none. Only read unless in the file."""
    native: Annotated[dict[str, str], OMIT_EMPTY, Setting("kept", None)] = {}
    """Setting to the text that the driver needs besides its value to put it back: read from devices
    and put back, never wanted. Only the driver that wrote a text looks into it.

    The settings are `admin_up`, `mtu_bytes`, `mode`, `trust`, `pfc`, `buffers`, `cable`,
    `pfc_watchdog`, `ecn_<class>` and `schedule_<class>`; a text under another name is not put back.
    """


class SwitchState(_Frozen):
    """One switch."""

    vlans: Annotated[
        tuple[int, ...], Setting("shared", "vlan_{}", always("present"), does=_VLAN_GOES)
    ] = ()
    """VLANs that must exist, ascending (actual: all that exist)."""
    pfc_priorities: Annotated[tuple[int, ...] | None, Setting(asked=(), does=_PFC)] = None
    """Switch priorities with PFC enabled globally; None: PFC is not managed."""
    pfc_enabled: Annotated[bool | None, Setting(text="pfc", asked=False, does=_PFC)] = None
    """The global PFC switch; None: not managed."""
    dscp_classes: Annotated[
        dict[int, int] | None,
        OMIT_NONE,
        Setting("own", "dscp_{}_class", asked=dict.fromkeys(range(DSCP_COUNT), 0), does=_CLASS),
    ] = None
    """DSCP to traffic class, if one map serves all ports (EOS); None: not managed."""
    roce: Annotated[RoceMode | None, Setting(say=if_any, blank="none", does=_ONE_SHOT)] = None
    """The one-shot RoCE mode if the system has one; None: not managed.

    `semi-lossless` is Onyx'; the last two are Cumulus': found and put back, never wanted.
    """
    roce_cable_m: Annotated[int | None, OMIT_NONE, Setting(say=if_any, blank=0, does=_ONE_SHOT)] = (
        None
    )
    """Length of the longest cable, which the headroom of the profile follows; 0: not said."""
    addresses: Annotated[
        dict[str, tuple[str, ...]] | None, OMIT_NONE, Setting("own", None, each="shared", asked={})
    ] = None
    """Routed interface of the switch (`lo`, `vlan111`, a port) to its addresses with prefix length;
    besides them `link-local`, if the IPv6 address for BGP must be enabled, `mtu 9214`, if a routed
    interface has its own MTU line, and `always-up`. None: not managed."""
    bgp: Annotated[BgpState | None, OMIT_NONE, Setting("shared", asked=BgpState())] = None
    """None: not managed."""
    adaptive_routing: Annotated[bool | None, OMIT_NONE, Setting(blank=False, does=_SPREADS)] = None
    """Whether the switch as a whole spreads routed packets by load (Cumulus); None: not managed."""
    splits: Annotated[
        dict[str, tuple[str, ...]] | None,
        OMIT_NONE,
        Setting("own", "breakout", lambda parts: f"{len(parts)}x", where="port {}", does=_SPLITS),
    ] = None
    """Whole port to the ports in its place: its parts, `swp1: [swp1s0, swp1s1]`, or itself alone.
    None: not managed; nor is a whole port missing here."""
    configured_parts: Annotated[tuple[str, ...] | None, OMIT_NONE] = None
    """Parts of split ports that the configuration mentions: read, never wanted."""
    rewrite_dscp: Annotated[bool | None, OMIT_NONE] = None
    """Whether the switch rewrites DSCP on all ports at once (EOS). Read only."""
    ports: Annotated[dict[str, PortState], Setting("own", where="port {}")] = {}
    others: Annotated[OtherPorts | None, OMIT_NONE] = None
    """None: not read."""
    neighbours: Annotated[dict[str, Neighbour] | None, OMIT_NONE] = None
    """The LLDP neighbour of each port: not a setting, but compared with the file's cables."""
    sessions: Annotated[Sessions | None, OMIT_NONE] = None
    """BGP's sessions: not a setting, but compared with the file's routed links."""
    identity: Annotated[Identity | None, OMIT_NONE] = None
    """Which switch it is: found, recorded, and compared at every look and before every write."""
    ib: Annotated[IbState | None, OMIT_NONE, Setting(where="subnet manager")] = None
    """Subnet manager and partitions of an InfiniBand switch; None: not managed, or Ethernet."""
    native: Annotated[dict[str, str], OMIT_EMPTY, Setting("kept", None)] = {}
    """As `PortState.native`, for the whole switch: all entries go back with a recorded state."""

    _read_folded = model_validator(mode="before")(spread_ports)

    def noted(self, key: str = WHOLE) -> tuple[str, ...]:
        """The words that the driver noted in `native`; empty if it noted none."""
        return read_list(self.native.get(key)) or ()

    def settings(self) -> Texts:
        """Flat (where, setting) to text, for diffs that people read."""
        flat = texts(self)
        for name, addresses in (self.addresses or {}).items():
            for entry in addresses:
                is_mtu = entry.startswith(MTU_WORD)
                setting = f"mtu_{name}" if is_mtu else f"address_{name}_{entry}"
                flat["switch", setting] = entry.removeprefix(MTU_WORD) if is_mtu else "set"
        for name, port in self.ports.items():
            # Strict classes do not use a share, whatever the system shows.
            for tc in {*(port.strict_classes or ())} & {*port.class_shares}:
                flat[f"port {name}", f"tc{tc}_share"] = "strict"
        return flat


def diff_states(actual: SwitchState, desired: SwitchState) -> tuple[Difference, ...]:
    """The wanted settings that the switch does not have; what we do not own is not compared."""
    return diff_settings(actual.settings(), desired.settings())
