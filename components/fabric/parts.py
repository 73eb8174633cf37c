"""Parts of the state of a switch, the texts that drivers keep in it, and its identity."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError
from pydantic_core import to_json

from components.core.difference import Effect
from components.core.errors import DeviceError
from components.core.record import record, replace
from components.core.settings import OMIT_EMPTY, OMIT_NONE, Impact, Setting, always
from components.core.templates import fault_text

WRITTEN: Final = "written"
"""The configuration says this setting in words."""
DEFAULT: Final = "default"
"""No line sets it: the value is the system's default. Undo leaves no line behind."""
WHOLE: Final = "whole"
"""Key of a switch's `native` that holds words on the whole configuration."""
LATER: Final = ConfigDict(defer_build=True)
"""For readers of answers: `check` reads none, so they are built at first use."""
_LIST: Final = TypeAdapter(tuple[str, ...], config=LATER)
_FIELDS: Final = TypeAdapter(dict[str, str], config=LATER)
UP: Final = "established"
"""How every system calls a session that carries routes (RFC 4271), in capitals or not."""
_SHOWN: Final = 200
"""Most letters shown of an unreadable answer; enough for a refusal."""
NONE, TRAFFIC = Effect.NONE, Effect.TRAFFIC
_BFD: Final = Impact(
    TRAFFIC,
    "the session may restart",
    NONE,
    systems={"cumulus": (TRAFFIC, "routing restarts on the whole switch")},
)
_RESTARTS: Final = Impact(TRAFFIC, "every BGP session restarts", NONE)
_ROUTES: Final = Impact(TRAFFIC, "routes go or change", NONE)
ALL_PORTS: Final = "ALL"
"""The member that means every port of the subnet."""
MemberKind = Literal["full", "limited", "both", "full, index 0", "limited, index 0"]
"""`both` is found on switches (for virtual ports) and put back, never wanted. `index 0` is UFM's:
the key is the first one of the port's table."""
_JOINS: Final = Impact(TRAFFIC, "unproven: its members may join again", NONE)
_MANAGER: Final = Impact(TRAFFIC, "the subnet loses this manager", NONE, {"on": NONE})
_PATHS: Final = Impact(TRAFFIC, "unproven: paths are computed again")
ALL: Final = "all"
"""Not a port's name on any system, since those have a digit."""
_Port = Mapping[str, JsonValue]
_OTHER: Final = ("no value of JSON",)
MARKS: Final = "/var/lib/railyard"
"""Folder on a Linux switch, as on hosts; in it is one for the stack that manages the switch."""


def sources(**written: bool) -> dict[str, str]:
    """Where each setting comes from: `WRITTEN` or `DEFAULT`."""
    return {key: WRITTEN if is_in_words else DEFAULT for key, is_in_words in written.items()}


def is_default(native: Mapping[str, str], key: str) -> bool:
    """Whether the setting was recorded without a line for it."""
    return native.get(key) == DEFAULT


def read_list(text: str | None) -> tuple[str, ...] | None:
    """Read a list back; None: it is not recorded."""
    return None if text is None else _LIST.validate_json(text)


def read_fields(text: str | None) -> dict[str, str]:
    """Read fields back; empty if nothing, or only the source, was recorded."""
    return {} if text in {None, WRITTEN, DEFAULT} else _FIELDS.validate_json(text or "")


def write_text(value: object) -> str:
    """Anything that JSON can hold, or an iterator over it, as one short text."""
    return to_json(value).decode()


class Frozen(BaseModel):
    """A model that never changes and refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def why_unread(answer: str) -> str:
    """The words of an answer that could not be read, as the reason why something is not known."""
    return " ".join(answer.split())[:_SHOWN] or "no answer"


class Session(Frozen):
    """BGP with one neighbour."""

    state: str
    """In the system's word: `Established`, `Idle`."""
    networks: int | None = None
    """IPv4 networks that the neighbour brings; None: the answer does not say."""
    bfd: str | None = None
    """`up` or another word of the system; None: not read, or not configured for the neighbour."""

    @property
    def is_up(self) -> bool:
        """Whether it carries routes."""
        return self.state.lower() == UP


class Sessions(Frozen):
    """BGP with all neighbours, named as in `BgpState.neighbors`, and the routes in use."""

    neighbors: dict[str, Session] = {}
    unread: str = ""
    """Why they are not known; blank: they were read."""
    bfd_unread: str = ""
    """Why BFD alone is not known."""
    routes: dict[str, tuple[str, ...]] | None = None
    """IPv4 network to the ports by which packets leave for it; None: not asked, or not known."""
    routes_unread: str = ""
    """Why they are not known."""


class BgpState(Frozen):
    """The BGP of the default VRF; empty: the switch runs no BGP there."""

    asn: Annotated[int | None, Setting(text="bgp_asn", does=_RESTARTS)] = None
    router_id: Annotated[str | None, Setting(text="bgp_router_id", does=_RESTARTS)] = None
    neighbors: Annotated[dict[str, str], Setting("shared", "bgp_neighbor_{}", does=_ROUTES)] = {}
    """Port or address of each neighbour to its number. We want `external`, any number but the
    switch's own, on ports; blank: it has other settings and no number."""
    networks: Annotated[
        tuple[str, ...], Setting("shared", "bgp_network_{}", always("announced"), does=_ROUTES)
    ] = ()
    """IPv4 networks announced to the neighbours, such as `10.10.111.0/24`."""
    bfd: Annotated[
        tuple[str, ...], OMIT_EMPTY, Setting("shared", "bgp_bfd_{}", always("on"), does=_BFD)
    ] = ()
    """Neighbours whose loss BFD notices within a second or so, before BGP's hold time."""
    max_paths: Annotated[
        int | None, OMIT_NONE, Setting(text="bgp_max_paths", blank=0, does=_ROUTES)
    ] = None
    """Number of equal paths used at once, if the system takes one unless a line says otherwise
    (EOS, SONiC); None: not managed."""
    forwards: Annotated[
        bool | None,
        OMIT_NONE,
        Setting(text="ip_routing", blank=False, does=Impact(TRAFFIC, "nothing is routed", NONE,
                {"on": NONE})),
    ] = None  # fmt: skip
    """Whether it routes IPv4, also over ports without an IPv4 address, if a separate line sets that
    (EOS); None: not managed, or off."""


class Neighbour(Frozen):
    """What LLDP says is plugged into a port."""

    system: str
    """Its host name."""
    port: str = ""
    """Identifier of its port: a name, or a MAC address if a host sends only that."""
    description: str = ""
    """Description of its port: on Linux the name of the network device."""


class OtherPorts(Frozen):
    """Ports outside the file, by the VLANs they carry: read, never wanted."""

    by_vlan: dict[int, tuple[str, ...]] = {}
    """VLAN to the ports whose settings mention it."""
    of_all: tuple[str, ...] = ()
    """Trunks without their own list: they carry every VLAN of the switch."""


def show_pkey(pkey: int) -> str:
    """A partition key as every tool writes it: `0x0123`."""
    return f"0x{pkey:04x}"


class PartitionState(Frozen):
    """One partition. None means: not managed (desired), or the manager's default (actual)."""

    pkey: Annotated[
        int, Setting("name", say=show_pkey, does=Impact(TRAFFIC, "ports lose the old key", NONE))
    ]
    ipoib: Annotated[
        bool | None, Setting(does=Impact(TRAFFIC, "IP over the partition ends", NONE, {"on": NONE}))
    ] = None
    mtu_bytes: Annotated[int | None, Setting(does=_JOINS)] = None
    rate_gbit_s: Annotated[int | None, Setting(does=_JOINS)] = None
    members: Annotated[
        dict[str, MemberKind],
        Setting("shared", "member {}", does=Impact(TRAFFIC, "the port's connections break", NONE)),
    ] = {}
    """Port GUID or `ALL` to membership: those that we own; others stay."""


class IbState(Frozen):
    """Subnet manager and partitions of one switch."""

    node: Annotated[str, Setting("name", None)]
    """The host name under which the switch keeps the settings of its subnet manager."""
    sm_function: Annotated[bool | None, Setting(text="function", asked=False, does=_MANAGER)] = None
    """The function as such is switched on; None: not managed. Off, no node runs one."""
    sm_enabled: Annotated[bool | None, Setting(text="state", asked=False, does=_MANAGER)] = None
    """This switch's subnet manager is enabled; None: not managed."""
    sm_priority: Annotated[int | None, Setting(text="priority", asked=0, does=_PATHS)] = None
    """0 to 15; of several, the highest becomes master."""
    routing_engine: Annotated[str | None, Setting(asked="", does=_PATHS)] = None
    """How paths are found, for example `updn`, or `default`; None: not managed."""
    adaptive_routing: Annotated[
        bool | None, OMIT_NONE, Setting(puts_back=False, does=Impact(NONE, "it is only read"))
    ] = None
    """The routing engine spreads packets over equal paths; None: not asked. Only read."""
    partitions: Annotated[
        dict[str, PartitionState], Setting("shared", where="partition {}", each="shared")
    ] = {}
    """Managed partitions by name (actual: all partitions)."""


def fold_ports(state: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The JSON form of a switch with the most common value of each key of its ports once."""
    ports = cast("Mapping[str, _Port]", state.get("ports", {}))
    if len(ports) <= 1:
        return dict(state)
    # The most common value of each key that every port has, so no port gains a key.
    common: dict[str, JsonValue] = {}
    for key in next(iter(ports.values())):
        if all(key in port for port in ports.values()):
            texts = Counter(json.dumps(port[key], sort_keys=True) for port in ports.values())
            common[key] = json.loads(texts.most_common(1)[0][0])
    own: dict[str, JsonValue] = {
        name: {key: value for key, value in port.items() if common.get(key, _OTHER) != value}
        for name, port in ports.items()
    }
    return {**state, "ports": {ALL: common, **own}}


def spread_ports(state: object) -> object:
    """Give each port its full settings; a state without `all` stays unchanged."""
    if not isinstance(state, Mapping):
        return state
    document = cast("Mapping[str, object]", state)
    ports = document.get("ports")
    if not isinstance(ports, Mapping) or ALL not in ports:
        return document
    named = dict(cast("Mapping[str, _Port]", ports))
    common = named.pop(ALL)
    return {**document, "ports": {name: {**common, **port} for name, port in named.items()}}


@record
class Identity:
    """The answers of a switch; empty if it gave no answer that we can read."""

    release: str = ""
    model: str = ""
    rights: str = ""
    """The switch's answer about this login if its rights do not suffice; empty if they do."""
    serial: str = ""
    """Serial number of the chassis, which differs between switches of one model."""
    base_mac: str = ""
    """Its first MAC address, as the switch writes it; only shown."""
    stacks: tuple[str, ...] = ()
    """The stacks that manage it, as it says itself; never recorded."""


@record
class Field:
    """One value in the answer to one command."""

    command: str
    pattern: str
    """With one group: the value."""

    def find(self, answers: Mapping[str, str]) -> str:
        """The value, or nothing."""
        found = re.search(self.pattern, answers[self.command], re.MULTILINE)
        return found[1].strip() if found else ""


@record
class IdentityQuestions:
    """How one system is asked. No line changes a setting."""

    release: Field
    model: tuple[Field, ...]
    """The first that finds something counts: releases have it in different places."""
    serial: Field | None = None
    base_mac: Field | None = None
    rights: Field | None = None
    """The rights of the login; None: `tries`, or the driver's `enter` with sudo, proves them."""
    may: str = ""
    """Pattern of `rights` that is enough."""
    tries: tuple[str, str] | None = None
    """A line that opens the configuration, refused to read-only logins, and one that leaves it."""
    marks: bool = False
    """Whether it is a Linux machine, where `MARKS` says which stack manages it."""

    @property
    def commands(self) -> tuple[str, ...]:
        """What to ask, each once."""
        return (*_commands(self.release, *self.model, self.rights), *self.unique)

    @property
    def unique(self) -> tuple[str, ...]:
        """What to ask for serial number, base MAC and stack; empty if no form is published."""
        marks = (f"ls -1 {MARKS}",) if self.marks else ()
        return (*_commands(self.serial, self.base_mac), *marks)

    def parse_unique(self, answers: Mapping[str, str]) -> Identity:
        """Read the answers to `unique`."""
        serial, mac = (each.find(answers) if each else "" for each in (self.serial, self.base_mac))
        found = answers[f"ls -1 {MARKS}"] if self.marks else ""
        stacks = re.findall(r"^[\w.-]+(?=\s*$)", found, re.MULTILINE)
        return Identity(serial=serial, base_mac=mac, stacks=tuple(stacks))

    def parse(self, answers: Mapping[str, str]) -> Identity:
        """Read the answers."""
        rights = self.rights.find(answers) if self.rights else ""
        enough = self.rights is None or re.search(self.may, rights) is not None
        return replace(
            self.parse_unique(answers),
            release=self.release.find(answers),
            model=next(filter(None, (each.find(answers) for each in self.model)), ""),
            rights="" if enough else rights or "no answer",
        )


def _commands(*fields: Field | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(field.command for field in fields if field is not None))


def refuse_other(
    where: str, now: Identity | None, was: Identity | None, serial: str, stack: str
) -> None:
    """Refuse, before the first write, a switch of another serial number or another stack."""
    wanted, source = (serial, "the file says") if serial else (was.serial if was else "", "it was")
    if now and now.serial and wanted and now.serial != wanted:
        words = {"where": where, "serial": now.serial, "source": source, "wanted": wanted}
        raise DeviceError(fault_text(__file__, "other-switch", **words))
    for other in now.stacks if now and stack else ():
        if other != stack:
            raise DeviceError(f"{where}: {other_stack_text(stack, other)}")


def other_stack_text(stack: str, other: str) -> str:
    """What happened and how to go on if a switch has the mark of another stack."""
    return fault_text(__file__, "other-stack", stack=stack, other=other, folder=MARKS)


class _Record(BaseModel):
    identity: Identity | None = None


def recorded_identity(stdout: str) -> Identity | None:
    """The identity that an apply, restore or baseline recorded; None if it recorded none."""
    try:
        found = _Record.model_validate_json(stdout).identity
    except ValidationError:
        return None
    return found and Identity(serial=found.serial, base_mac=found.base_mac)
