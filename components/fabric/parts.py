"""Parts of the state of a switch, and the texts that drivers keep in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter
from pydantic_core import to_json

from components.core.difference import Effect
from components.core.settings import OMIT_EMPTY, OMIT_NONE, Impact, Setting, always

WRITTEN: Final = "written"
"""The configuration says this setting in words."""
DEFAULT: Final = "default"
"""It is in no line of the configuration, so that the system's default gives it. Undo leaves nothing
behind by it."""
WHOLE: Final = "whole"
"""Key of a switch's `native` that holds words on the whole configuration."""
_LIST: Final = TypeAdapter(tuple[str, ...])
_FIELDS: Final = TypeAdapter(dict[str, str])


def sources(**written: bool) -> dict[str, str]:
    """Where each setting comes from: `WRITTEN` or `DEFAULT`."""
    return {key: WRITTEN if is_in_words else DEFAULT for key, is_in_words in written.items()}


def is_default(native: Mapping[str, str], key: str) -> bool:
    """Whether a setting is recorded as one that no line gives."""
    return native.get(key) == DEFAULT


def is_written(native: Mapping[str, str], key: str) -> bool:
    """Whether a setting is recorded as one that a line gives."""
    return native.get(key) == WRITTEN


def write_list(words: Iterable[str]) -> str:
    """Words as one text."""
    return write_text(tuple(words))


def read_list(text: str | None) -> tuple[str, ...] | None:
    """The other way; None: nothing is recorded."""
    return None if text is None else _LIST.validate_json(text)


def write_fields(fields: Mapping[str, str]) -> str:
    """Names and their values as one text."""
    return write_text(fields)


def read_fields(text: str | None) -> dict[str, str]:
    """The other way; what is not recorded, or only with its source, is empty."""
    return {} if text in {None, WRITTEN, DEFAULT} else _FIELDS.validate_json(text or "")


def write_text(value: object) -> str:
    """Anything that JSON can hold, as one short text."""
    return to_json(value).decode()


class Frozen(BaseModel):
    """A model that never changes and takes no unknown key."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


UP: Final = "established"
"""How every system calls a session that carries routes (RFC 4271), in capitals or not."""


_SHOWN: Final = 200
"""Letters of an answer that is none; enough for a refusal."""


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
    """`up` or another word of the system; None: not read, or the neighbour has none."""

    @property
    def is_up(self) -> bool:
        """Whether it carries routes."""
        return self.state.lower() == UP


class Sessions(Frozen):
    """BGP with all neighbours, named as `BgpState.neighbors` names them, and what it came to."""

    neighbors: dict[str, Session] = {}
    unread: str = ""
    """Why nothing is known of them; blank: they were read."""
    bfd_unread: str = ""
    """The same of BFD alone."""
    routes: dict[str, tuple[str, ...]] | None = None
    """IPv4 network to the ports by which packets leave for it; None: not asked, or not known."""
    routes_unread: str = ""
    """Why they are not known."""


NONE, TRAFFIC = Effect.NONE, Effect.TRAFFIC
_BFD: Final = Impact(
    TRAFFIC,
    "the session may restart",
    NONE,
    systems={"cumulus": (TRAFFIC, "routing restarts on the whole switch")},
)
_RESTARTS: Final = Impact(TRAFFIC, "every BGP session restarts", NONE)
_ROUTES: Final = Impact(TRAFFIC, "routes go or change", NONE)


class BgpState(Frozen):
    """The BGP of the default VRF; an empty one: there is none."""

    asn: Annotated[int | None, Setting(text="bgp_asn", does=_RESTARTS)] = None
    """Autonomous system number."""
    router_id: Annotated[str | None, Setting(text="bgp_router_id", does=_RESTARTS)] = None
    neighbors: Annotated[dict[str, str], Setting("shared", "bgp_neighbor_{}", does=_ROUTES)] = {}
    """Port or address of each neighbour to its number. We want `external`, any other number than
    ours, on ports; blank: it has other settings and no number."""
    networks: Annotated[
        tuple[str, ...], Setting("shared", "bgp_network_{}", always("announced"), does=_ROUTES)
    ] = ()
    """IPv4 networks that are announced to the neighbours, such as `10.10.111.0/24`."""
    bfd: Annotated[
        tuple[str, ...], OMIT_EMPTY, Setting("shared", "bgp_bfd_{}", always("on"), does=_BFD)
    ] = ()
    """Neighbours whose loss is noticed by BFD, in a second or so, and not by BGP's hold time."""
    max_paths: Annotated[
        int | None, OMIT_NONE, Setting(text="bgp_max_paths", blank=0, does=_ROUTES)
    ] = None
    """Equal paths that are used at once, where the system takes one unless a line says otherwise
    (EOS, SONiC); None: not ours."""
    forwards: Annotated[
        bool | None,
        OMIT_NONE,
        Setting(
            text="ip_routing",
            blank=False,
            does=Impact(TRAFFIC, "nothing is routed", NONE, {"on": NONE}),
        ),
    ] = None
    """Whether it routes IPv4, also over ports without an IPv4 address, where that is a line of its
    own (EOS); None: not ours, or off."""


class Neighbour(Frozen):
    """What LLDP says is plugged into a port."""

    system: str
    """Its host name."""
    port: str = ""
    """Identifier of its port: a name, or a MAC address where a host says no more."""
    description: str = ""
    """Description of its port: on Linux the name of the network device."""


class OtherPorts(Frozen):
    """Ports beside ours, by what they carry: found, never wanted."""

    by_vlan: dict[int, tuple[str, ...]] = {}
    """VLAN to the ports that name it."""
    of_all: tuple[str, ...] = ()
    """Trunks without a list of their own: they carry every VLAN of the switch."""


ALL_PORTS: Final = "ALL"
"""The member that means every port of the subnet."""
MemberKind = Literal["full", "limited", "both", "full, index 0", "limited, index 0"]
"""`both` is found on switches (for virtual ports) and put back, never wanted. `index 0` is UFM's:
the key is the first one of the port's table."""


def show_pkey(pkey: int) -> str:
    """A partition key as every tool writes it: `0x0123`."""
    return f"0x{pkey:04x}"


_JOINS: Final = Impact(TRAFFIC, "unproven: its members may join again", NONE)
_MANAGER: Final = Impact(TRAFFIC, "the subnet loses this manager", NONE, {"on": NONE})
_PATHS: Final = Impact(TRAFFIC, "unproven: paths are computed again")


class PartitionState(Frozen):
    """One partition. None means: not ours (desired), or the manager's default (actual)."""

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
    """The host name under which the switch keeps the settings of its own subnet manager."""
    sm_function: Annotated[bool | None, Setting(text="function", asked=False, does=_MANAGER)] = None
    """The function as such is switched on; None: not ours. Off, no node runs one."""
    sm_enabled: Annotated[bool | None, Setting(text="state", asked=False, does=_MANAGER)] = None
    """This switch's subnet manager is enabled; None: not ours."""
    sm_priority: Annotated[int | None, Setting(text="priority", asked=0, does=_PATHS)] = None
    """0 to 15; of several, the highest becomes master."""
    routing_engine: Annotated[str | None, Setting(asked="", does=_PATHS)] = None
    """How paths are found, for example `updn`, or `default`; None: not ours."""
    adaptive_routing: Annotated[
        bool | None, OMIT_NONE, Setting(puts_back=False, does=Impact(NONE, "it is only read"))
    ] = None
    """The routing engine in use spreads packets over equal paths; None: not asked. It is read
    alone, so an undo has nothing to put back."""
    partitions: Annotated[
        dict[str, PartitionState], Setting("shared", where="partition {}", each="shared")
    ] = {}
    """Partitions that are ours, by name (actual: all that there are)."""


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
    found: dict[str, JsonValue] = {}
    for key in ports[0]:
        if all(key in port for port in ports):
            texts = Counter(json.dumps(port[key], sort_keys=True) for port in ports)
            found[key] = json.loads(texts.most_common(1)[0][0])
    return found


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
