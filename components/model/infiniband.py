"""The InfiniBand fabric of a site with own switches: subnet manager, partitions, what links run at.

One file is one subnet: its InfiniBand switches are cabled with each other.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema

from components.model import units
from components.model.environments import InfiniBandFabric
from components.model.fabric import RailResource
from components.model.texts import ModelName, form_schema, only, refuse

Membership = Literal["full", "limited"]
"""`limited` members reach full members only, and not each other (InfiniBand specification)."""
IbMtuBytes = Literal[256, 512, 1024, 2048, 4096]
"""The five MTUs of the InfiniBand specification, in bytes of payload."""
IbRateGbitS = Literal[
    5, 10, 14, 20, 25, 28, 30, 40, 50, 56, 60, 80, 100, 112, 120, 168, 200, 300, 400, 600, 800, 1200
]
"""The rates that a path record can have, in Gbit/s: `enum ibv_rate` of rdma-core, without 2.5."""
IPOIB_DEVICE: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$"
"""Linux takes at most 15 characters (IFNAMSIZ)."""
IB_PORT: Final = r"^[A-Za-z]*[0-9]+[A-Za-z0-9/]*$"
PARTITION_NAME: Final = r"^[A-Za-z][A-Za-z0-9_-]{0,31}$"
DEFAULT_PARTITION: Final = "Default"
"""The subnet manager's own partition, as MLNX-OS names it."""
_DEFAULT_PKEY: Final = 0x7FFF
_MEMBERSHIP_BIT: Final = 0x8000
PartitionName = Annotated[
    str,
    StringConstraints(pattern=PARTITION_NAME),
    only(
        lambda name: name.lower() != DEFAULT_PARTITION.lower(),
        f"the partition {DEFAULT_PARTITION} belongs to the subnet manager",
        "choose another name; Railyard does not manage Default.",
    ),
    form_schema(rf"^(?![Dd][Ee][Ff][Aa][Uu][Ll][Tt]$){PARTITION_NAME.removeprefix('^')}"),
]
"""One word of MLNX-OS' command line; the subnet manager's own partition Default is excluded."""


def _partition_key(pkey: int) -> int:
    """Check a partition key: bit 15 marks full members and does not belong to the key."""
    shown, fix = f"0x{pkey:04x}" if pkey >= 0 else str(pkey), "choose 0x0001 to 0x7ffe."
    if 1 <= pkey < _DEFAULT_PKEY:
        return pkey
    if pkey == _DEFAULT_PKEY:
        what = f"{shown} is the key of the partition Default"
    elif pkey == _DEFAULT_PKEY | _MEMBERSHIP_BIT:
        what = f"{shown} is the key of the partition Default, with the bit of full members"
    elif _MEMBERSHIP_BIT < pkey < 2 * _MEMBERSHIP_BIT:
        what = f"{shown} has the bit of full members, which does not belong to a key"
        fix = f"write 0x{pkey - _MEMBERSHIP_BIT:04x}, and membership: full."
    else:
        what = f"{shown} is not a partition key"
    raise refuse(what, fix)


PartitionKey = Annotated[
    int,
    AfterValidator(_partition_key),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": _DEFAULT_PKEY - 1}),
]
"""0x7fff is Default's, by which the subnet manager itself is reached: Railyard never changes that
partition."""


class IbMember(units.Frozen):
    """One member of a partition: a host's name, or an object with an exception."""

    host: units.DnsLabel
    """A host of the file: the ports of its `hca_guids` become members."""
    membership: Membership | None = None
    """Its kind of membership; default the partition's."""
    hcas: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """Which of its HCAs, from 0 on in the order of `hca_guids`: `{host: gpu01, hcas: [0]}`; default
    all. For a rail's partition list the rail's HCA."""

    def ports_of(self, guids: Sequence[str]) -> tuple[str, ...]:
        """Return the port GUIDs of the host that are members."""
        chosen = range(len(guids)) if self.hcas is None else self.hcas
        return tuple(guids[number] for number in chosen if number < len(guids))


def _no_guid(value: object) -> object:
    if isinstance(value, str) and units.is_port_guid(value):
        raise ValueError(f"{value!r} is a port GUID, and members are hosts of the file")
    return value


WrittenMember = Annotated[
    IbMember,
    units.short_form("host", "gpu01, or {host: gpu01, membership: limited}"),
    BeforeValidator(_no_guid),
]


class IbPartition(units.Frozen):
    """One partition: which ports may talk to each other under one partition key."""

    name: PartitionName
    """`Default` belongs to the subnet manager and cannot be written here."""
    pkey: PartitionKey
    """Partition key without the membership bit, 0x0001 to 0x7ffe; 0x7fff is Default's."""
    members: Literal["all"] | tuple[WrittenMember, ...] = "all"
    """Hosts of the file, or `all` ports of the subnet."""
    membership: Membership = "full"
    """Membership of members without their own value."""
    ipoib: bool = False
    """IP over InfiniBand may run in it."""
    mtu_bytes: IbMtuBytes | None = None
    """MTU of its IPoIB multicast group; default: the subnet manager's (2048)."""
    rate_gbit_s: IbRateGbitS | None = None
    """Rate of its IPoIB multicast group in Gbit/s; default: the subnet manager's (10)."""
    index0: bool = False
    """Put its key first in the key table of each named port; only with `ufm`."""

    def membership_of(self, host: str) -> Membership | None:
        """Return the membership of a host, or None if it is not a member."""
        if self.members == "all":
            return self.membership
        found = self.member(host)
        return (found.membership or self.membership) if found else None

    def member(self, host: str) -> IbMember | None:
        """Return the entry of a host in `members`, or None."""
        named = () if self.members == "all" else self.members
        return next((member for member in named if member.host == host), None)


class IbRail(units.Frozen):
    """One rail of the fabric: the same HCA of every worker, which pods ask for by its own name."""

    name: units.DnsLabel
    """Its name; a port of `hca_sriov` says `rail: <name>`."""
    resource: RailResource
    """Extended resource name without prefix, for example `ib_0`."""
    network: units.DnsLabel
    """Name of the NetworkAttachmentDefinition, for example `ib0`."""
    subnet: units.Ipv4Net | None = None
    """Addresses of the pods' IPoIB interfaces; by default they get none: RDMA works without."""
    interface: Annotated[str, StringConstraints(pattern=IPOIB_DEVICE)] | (None) = None
    """With `interface: ipoib`: the IPoIB device of this HCA, with one name on all workers, for
    example `ibs1f0`. It decides the partition of the pods' interfaces: `ibs1f0.8101`."""
    partition: PartitionName | None = None
    """With `mode: sriov`: the partition whose members the rail's VFs become. Default Default's
    alone."""


class FabricSwitch(units.Frozen):
    """A switch of the fabric without a login: externally managed, with NVOS, or run by others.

    With its cables, reports can name the far end of a port that is down.
    """

    name: units.DnsLabel
    """Name of the switch."""
    model: ModelName
    """Hardware model, for example `QM9790` or `Q3400-RA`; docs/reference/switch-models.md lists the
    known ones."""
    ports: dict[
        Annotated[str, StringConstraints(pattern=IB_PORT)],
        Annotated[str, Field(pattern=units.PORT_TARGET)],
    ]
    """The other end of each port, one entry a port: `"1/1/1": gpu01/hca-0`, or on an XDR switch
    `sw1p1: gpu01/hca-0`. `sw72p1: ib-spine-01:sw1p1` is a link to another switch; that one names
    this end."""


class Ufm(units.Frozen):
    """NVIDIA UFM Enterprise, the subnet manager of the fabric, with its REST API."""

    name: units.DnsLabel = "ufm"
    """Its name in plans, reports and steps."""
    address: units.SshAddress
    """IPv4 address or DNS name; for two in high availability, the shared one."""
    port: units.TcpPort = 443
    """Port of HTTPS."""
    user: units.LoginName = "admin"
    """A local user of the group System_Admin, Fabric_Admin or Fabric_Operator."""
    password: units.SecretRef
    """Secret with its password."""
    certificate_sha256: units.Sha256
    """SHA-256 of its certificate in DER form: Railyard sends the password to no other. `openssl
    s_client -connect ufm:443 </dev/null | openssl x509 -outform der | sha256sum` prints it."""


class InfiniBand(InfiniBandFabric):
    """The InfiniBand fabric; `hcas` and `rate_gbit_s` are those of every worker."""

    mtu_bytes: IbMtuBytes = 4096
    """Active MTU that every port must have; 4096 is the largest one."""
    subnet_manager: Literal["switch", "external"] = "switch"
    """`switch`: the switches with `sm_priority` run it. `external`: UFM or opensm on a host; then
    no switch may run one, and Railyard sets partitions only through `ufm`."""
    adaptive_routing: bool = False
    """Let switches choose among equal paths packet by packet, and set NCCL for it. An external
    subnet manager sets it: `routing_engine ar_updn` of opensm.conf is NVIDIA's default since 5.10.
    Railyard only checks it, in UFM and by acceptance."""
    routing_engine: Literal["minhop", "updn", "ftree", "dor"] | None = None
    """Routing engine of the switches' subnet manager; default: the switches' own (minhop)."""
    partitions: tuple[IbPartition, ...] = ()
    """Partitions in addition to Default, on every switch that runs a subnet manager, or in UFM."""
    switches: tuple[FabricSwitch, ...] = ()
    """Switches without a login, in addition to those in `switches`."""
    ufm: Ufm | None = None
    """UFM, with `subnet_manager: external`: it gets the partitions. Default none: Railyard then
    only checks partitions."""
    rails: tuple[IbRail, ...] = ()
    """HCAs as rails: a resource for each. Default none: pods get HCAs by count."""
