"""The switches, the rails, and the one RoCE intent that every layer follows."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, WithJsonSchema

from components.catalogue.switches import find_model
from components.catalogue.switches.switch_model import Mode, SwitchModel
from components.catalogue.switches.systems import SWITCH_SYSTEMS, SystemName, Transport
from components.model import switch_models, units
from components.model.reach import MACHINE_IPV4, is_machine_ipv4
from components.model.texts import ModelName, PluggedIn, form_schema, only

DSCP_PER_PRIORITY: Final = 8
"""NIC and switch map DSCP 8n to 8n+7 to priority n by default (mlnx_qos; Onyx `qos trust L3`), and
priority n to traffic class n."""
RAIL_RESOURCE: Final = r"^[a-zA-Z0-9]([a-zA-Z0-9_]{0,61}[a-zA-Z0-9])?$"
RailResource = Annotated[str, Field(pattern=RAIL_RESOURCE)]
"""A Kubernetes resource name, without the hyphens that the SR-IOV device plugin refuses."""
RouterId = Annotated[
    units.Ipv4,
    only(
        lambda address: is_machine_ipv4(str(address)),
        "{} is not a valid address for a switch",
        "choose an address that nothing else has, for example 10.255.0.1.",
    ),
    form_schema(MACHINE_IPV4, "ipv4"),
]
"""It becomes an address of the loopback interface, which BGP announces to the whole fabric."""


class Rdma(units.Frozen):
    """The marking of RoCE packets, and how every hop treats them. Decided once, here."""

    transport: Literal["roce", "infiniband"] = "roce"
    """RDMA over Converged Ethernet, version 2; or InfiniBand, of a cloud or of own switches."""
    mode: Literal["lossy_ecn", "lossless", "semi_lossless"] = "lossy_ecn"
    """`lossy_ecn` marks congestion and never pauses; `lossless` adds PFC on `dscp`'s priority.
    `semi_lossless` is PFC between host and switch only: the switch obeys a pause of a NIC and
    passes none on. Only Onyx supports it."""
    pfc_watchdog: bool = False
    """Let each lossless port drop packets that a pause storm holds up. Default off, as on the
    switches.

    EOS and SONiC drop for 0.2 s after holding up for 0.2 s, unless the port or `pfc_watchdog_ms`
    sets other times.
    """
    pfc_watchdog_ms: switch_models.WatchdogTimes | None = None
    """Times of the watchdog, `{detect: 200, restore: 400}`, on systems that have them by port: EOS
    and SONiC. Default: 200 both; times that someone set on a port before stay."""
    dscp: units.Dscp = 26
    """DSCP of RoCE packets. NIC and switch put DSCP 8n to 8n+7 into priority n and traffic class n:
    26, the default, is priority 3."""
    cnp_dscp: units.Dscp = 48
    """DSCP of congestion notification packets. Default 48: priority 6, strict on the switch."""
    cnp_class: switch_models.TrafficClass | None = None
    """Priority and class of the notifications on card and switch. Default: that of `cnp_dscp`;
    Broadcom's and AMD's guides put DSCP 48 into 7. Only with EOS and SONiC, whose maps Railyard
    sets."""
    ecn_min_kib: units.Kib | None = None
    """Queue depth in KiB at which marking starts. Default: the vendor's recommendation for the
    speed of the port (docs/reference/marking.md)."""
    ecn_max_kib: units.Kib | None = None
    """Queue depth in KiB from which on `ecn_mark_percent` are marked. Default as above."""
    ecn_mark_percent: switch_models.Percent | None = None
    """How many packets are marked at `ecn_max_kib`. Default: 100 if the file sets thresholds, else
    the vendor's recommendation. Onyx marks all of them."""
    ecn_by_speed: dict[switch_models.Gbit, switch_models.Marking] = Field(
        default_factory=dict[int, switch_models.Marking]
    )
    """Speed of a port in Gbit/s to its marking: `{400: {min_kib: 600, max_kib: 3000}}`; other
    speeds follow the settings above. SONiC uses one for the switch, that of its fastest port."""
    schedule: switch_models.Schedule | None = None
    """How the classes share a port: `{shares: {0: 50, 3: 50}}`. Default: the shares of the system,
    with the notifications served strictly; on EOS every class is then strict."""
    adaptive_routing: bool = False
    """Let routed links spread packets by load, and let the cards reorder them: Spectrum-4 with
    Cumulus, on links of up to 400 Gbit/s, and ConnectX cards whose firmware supports it (`mlxreg`).
    For InfiniBand see `infiniband.adaptive_routing`."""
    mtu_bytes: units.MtuBytes = 9000
    """MTU of PF, VF and pod interface; at least 4192 for an RDMA path MTU of 4096."""
    port_mtu_bytes: units.MtuBytes = 9216
    """MTU of the switch ports: room for the VLAN tag and encapsulation over `mtu_bytes`. A port of
    EOS supports 9214 at most."""

    @property
    def priority(self) -> int:
        """Priority of RoCE packets, which PFC pauses when lossless: DSCP / 8, the default map."""
        return self.dscp // DSCP_PER_PRIORITY

    @property
    def traffic_class(self) -> int:
        """Egress class of RoCE packets on the switch, where ECN marks: that of their priority."""
        return self.priority

    @property
    def cnp_priority(self) -> int:
        """Priority and class of congestion notifications: `cnp_class`, else DSCP / 8."""
        return self.cnp_dscp // DSCP_PER_PRIORITY if self.cnp_class is None else self.cnp_class

    @property
    def host_pfc(self) -> bool:
        """Whether the cards pause, and are paused, on `priority`."""
        return self.mode != "lossy_ecn"

    @property
    def ip_traffic_class(self) -> int:
        """The IP ToS byte of RoCE packets: DSCP shifted by two, ECT(0) set (106 for DSCP 26)."""
        return self.dscp << 2 | 2


class LeafSubnet(units.Frozen):
    """The part of a rail that is on one leaf."""

    subnet: units.Ipv4Net
    """Addresses on this leaf: a part of the rail's `subnet` that no other leaf has."""
    gateway: units.Ipv4
    """Address of the leaf in `subnet`, by which the rail's other leaves are reached."""


class Rail(units.Frozen):
    """One rail: NIC k of every host, on one VLAN and one subnet, or one subnet on each leaf."""

    name: units.DnsLabel
    vlan: units.VlanId
    """VLAN of the rail; the attachment tags with it, and the switch ports carry it."""
    subnet: units.Ipv4Net
    """Addresses of the pods on this rail; with `leaves`, of all leaves together: pods reach the
    subnets of other leaves by their leaf's gateway. If all rails have one subnet and one VLAN, they
    are a flat fabric (docs/howto/flat-fabrics.md)."""
    resource: RailResource
    """Extended resource name without prefix, for example `sriov_111`. On a flat fabric all rails
    can share one: a pod then asks for as many units as there are rails."""
    network: units.DnsLabel
    """Name of the NetworkAttachmentDefinition, for example `sriov111`."""
    dhcp_server: units.Ipv4 | None = None
    """Address of the DHCP server on this VLAN; needed only with `ipam: dhcp`."""
    gateway: units.Ipv4 | None = None
    """Address of the leaf on this rail, by which other rails are reached over the spines; only with
    routed switches."""
    leaves: dict[units.DnsLabel, LeafSubnet] = Field(default_factory=dict)
    """Leaf to its part of the rail, if the rail is on several routed leaves; then leave out
    `gateway`. Default: the rail is one subnet."""


class SwitchPort(units.Frozen):
    """The other end of one switch port: `gpu01/rail-0`, or an object with exceptions."""

    to: Annotated[str, Field(pattern=units.PORT_TARGET)]
    """`<host>/<rail>`, or `<switch>:<port>` for a link to another switch; on an InfiniBand switch
    a host's end is `<host>/hca-<n>`, n from 0 in `hca_guids`."""
    mode: Literal["trunk", "access", "routed"] = "trunk"
    """`trunk` carries the rail's VLAN tagged, as the SR-IOV attachment sends it.

    Between switches a trunk carries `rails`; a `routed` port is a link with its own network, over
    which BGP learns the way to the rails. A `routed` port to a host is in no VLAN: it shares a /31
    with the card's `address`.
    """
    vlan: units.VlanId | None = None
    """VLAN on this port; default the rail's."""
    untagged: units.VlanId | None = None
    """VLAN of frames without a tag on a trunk to a host, for example to boot over the network. It
    differs from the rails' VLANs. Default: the system's own handling of such frames."""
    rails: tuple[units.DnsLabel, ...] | None = None
    """Rails whose VLANs a link between switches carries; default all."""
    address: units.Ipv4 | None = None
    """Address of this end of a routed link with addressed BGP: `10.254.0.0`. The other end gets the
    other address of the /31. Default: BGP uses link-local addresses. A range counts addresses in
    brackets: `10.254.0.[0,2,4,6]`."""
    mtu_bytes: units.MtuBytes | None = None
    """MTU of this port in bytes; default `rdma.port_mtu_bytes`."""
    ecn_min_kib: units.Kib | None = None
    """Exception of this port from `rdma.ecn_min_kib`."""
    ecn_max_kib: units.Kib | None = None
    """Exception of this port from `rdma.ecn_max_kib`."""
    pfc_watchdog: bool | None = None
    """Exception of this port from `rdma.pfc_watchdog`."""
    cable_length_m: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Length of the cable in metres: it decides the headroom for packets in flight after a pause.
    On Cumulus the longest of the switch counts, 100 m for a port without this key. SONiC sets the
    next length for which it has headroom; default there: the length already set."""
    speed_gbit_s: switch_models.Gbit | None = None
    """Exception of this port from `links` of the switch; so are the next two."""
    fec: switch_models.Fec | None = None
    """Forward error correction of this port."""
    autoneg: bool | None = None
    """Auto-negotiation of this port."""
    lacp: bool = False
    """A port of a link bundle; `lacp-rail` refuses it on an RDMA rail."""

    @property
    def peer(self) -> tuple[str, str] | None:
        """The switch and the port at the other end of a link; None if that end is a host."""
        switch, colon, port = self.to.partition(":")
        return (switch, port) if colon else None


WrittenPort = Annotated[
    SwitchPort, units.short_form("to", "gpu01/rail-0, or {to: gpu01/rail-0, mode: access}")
]


class Routing(units.Frozen):
    """A switch that routes between its rails and other switches, by BGP over its routed links."""

    asn: Annotated[int, Field(ge=1, le=4_294_967_294)]
    """Autonomous system number. Each leaf needs its own. The spines above a leaf share one, which
    makes their paths equal and lets BGP use all of them, and so do all super-spines. Each scalable
    unit's spines need a different one, or they would refuse the routes to each other's leaves."""
    router_id: RouterId
    """Address of the loopback interface, unique in the fabric."""
    bfd: bool = False
    """Notice a lost neighbour by BFD, in less than a second. Default off, as on the switches: BGP
    alone notices a dead link that stays up after its hold time, 9 s on Cumulus and up to 180 s
    elsewhere."""


class Inband(units.Frozen):
    """The port and VLAN of a switch's SSH session, if it does not use the management port."""

    port: units.PortName
    """The front panel port that carries the session. The file must not set it."""
    vlan: units.VlanId | None = None
    """The VLAN of the session; None on a routed port."""


class OtherSwitch(units.Frozen):
    """A switch of another network than the rails, listed for readers only."""

    name: units.DnsLabel
    """Name of the switch."""
    network: Literal["management", "storage"]
    """The network that the switch carries."""
    model: ModelName | None = None
    """Hardware model; Railyard checks nothing against it."""
    ports: dict[units.PortName, PluggedIn] = Field(default_factory=dict)
    """The other end of each port, bonds included, in any words: `swp1: gpu01/bond0`."""


class Switch(units.Frozen):
    """One managed switch."""

    name: units.DnsLabel
    """Name of the switch; with `mlnxos` its host name, by which its subnet manager is set."""
    os: SystemName
    """The switch's operating system."""
    model: ModelName
    """Hardware model, for example `SN2700` or `DCS-7060DX5-64S`; docs/howto/switch-models.md lists
    the known ones, and `switch_models` describes others."""
    release: Annotated[
        str,
        BeforeValidator(  # SONiC's branches; a number with a dot would lose its last zeros
            lambda value: str(value) if type(value) is int else value
        ),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "integer"},
                    {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"},
                ]
            }
        ),
    ] = "3.9.2504"
    """Running release of the switch system; the default is one of Onyx.

    On SONiC the branch of the image: `202405`, or `"202311.1"` in quotes.
    """
    ssh: units.Ssh
    serial: units.SwitchSerial | None = None
    """Serial number of the chassis, as `show version` or `show inventory` prints it. Railyard
    refuses another switch; after a replacement, write the new number. Default: the one that the
    last update read."""
    inband: Inband | None = None
    """Only for a switch whose management port is unused: the port and VLAN of Railyard's session,
    which it leaves alone."""
    routing: Routing | None = None
    """BGP over the routed links; required if a link is `routed`."""
    executor: Literal["device", "exec"] = "device"
    """`device` reads, compares and verifies by `railyard device`. `exec` sends the whole
    configuration as one SSH exec of Pulumi's own, without reading it first."""
    exec_disruptive: Literal["refuse", "allow-interruptions"] = "refuse"
    """With `executor: exec`: whether lines that interrupt traffic may be sent, at every change of
    the file, needed or not."""
    ports: dict[units.PortName, WrittenPort]
    """The other end of each port: `"1/1": gpu01/rail-0` on Onyx, `swp1: gpu01/rail-0` on Cumulus,
    `Ethernet1/1: gpu01/rail-0` on EOS, `Ethernet0: gpu01/rail-0` on SONiC, `"1/1/1": gpu01/hca-0`
    on MLNX-OS.

    `"1/31": leaf-02:1/31` is a link to another switch; that one names this end. A range is one
    entry: `swp1-16: gpu[01-16]/rail-0`, `"1/1-1/4": gpu01/rail-[0,2,4,6]`; a range of parts goes
    from the first to the last, `swp1s0-swp4s1: gpu[01-08]/rail-0`. Other ports are left alone.
    """
    links: switch_models.LinkSettings = switch_models.LinkSettings()
    """Link settings of all `ports`: `{speed_gbit_s: 400, fec: rs}`; a port, a range of ports or of
    parts can have exceptions."""
    edge_ports: bool = False
    """Whether the switched ports to hosts are spanning-tree edge ports with BPDU guard: they
    forward as soon as they are up, and go down if they receive a BPDU. Cumulus and EOS support it.
    Default false: left to the switch."""
    mlag_peer: units.DnsLabel | None = None
    """The other switch of an MLAG pair. You set the pair and its bundles yourself; Railyard never
    changes both switches in one wave."""
    breakouts: dict[units.PortName, Mode] = Field(default_factory=dict[str, str])
    """Whole port to its number of parts, and the speed of each in Gbit/s: `swp1: 4x200`. Needed
    only if `ports` does not show it: by default a port gets the fewest parts that include the names
    in `ports`; `swp1s0` and `swp1s1` mean two. An update splits ports of Cumulus and EOS; split
    those of other systems before."""
    sm_priority: Annotated[int, Field(ge=0, le=15)] | None = None
    """MLNX-OS: this switch runs the subnet manager; of several, the highest number is master."""

    _described: SwitchModel | None = PrivateAttr(default=None)
    """The model as `switch_models` in the file describes it."""

    @property
    def hardware(self) -> SwitchModel | None:
        """The facts of its model: from the file, else from the catalogue; None if unknown."""
        return self._described or find_model(self.model)

    @property
    def is_described(self) -> bool:
        """Whether the file describes its model."""
        return self._described is not None

    def link_of(self, name: str) -> switch_models.LinkSettings:
        """Link settings of a port of `ports`: its own keys, else those of `links`."""
        port = self.ports.get(name)
        own = {key: getattr(port, key, None) for key in switch_models.LinkSettings.model_fields}
        said = {key: value for key, value in own.items() if value is not None}
        return self.links.model_copy(update=said) if port else switch_models.LinkSettings()

    def describe(self, described: switch_models.DescribedSwitch) -> None:
        """Take the file's description of its model; only the site calls this, once it is read."""
        self._described = described.as_model(self.model, self.os)

    @property
    def carries(self) -> Transport:
        """The transport of its ports."""
        return SWITCH_SYSTEMS[self.os].carries
