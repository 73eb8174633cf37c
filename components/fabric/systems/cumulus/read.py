"""What Cumulus Linux prints, read into plain values; docs/explanation/sources.md#cumulus.

`nv config show` holds what was set, in NVUE's tree; `nv show qos roce` what the profile gives.
Each parser raises `Unreadable` with the raw text rather than guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.fabric.parts import WHOLE, sources, write_list
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.base import Reading, Unreadable
from components.fabric.systems.cumulus import roce
from components.fabric.systems.cumulus.roce import BYTES_PER_KIB, DSCP_PER_CLASS, OwnQos
from components.fabric.systems.cumulus.routing import Routing, parse_routing
from components.fabric.systems.cumulus.rows import (
    CABLE,
    FRONT,
    ON,
    PORT,
    SAVES,
    SPREADS,
    branch_words,
    read_ports,
    release_words,
    saves_itself,
    within,
)
from components.fabric.systems.cumulus.tree import BRIDGE, Tree, child, expand_names
from components.fabric.systems.membership import holders_of, others_of
from components.fabric.systems.ranges import port_key

Mode = Literal["access", "trunk", "hybrid", "routed"]
Trust = Literal["L2", "L3", "both", "port"]
RoceMode = Literal["none", "lossless", "lossy", "lossless-single-ipool", "lossy-multi-tc"]

_TREE: TypeAdapter[Tree] = TypeAdapter(Tree)
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
SWP = re.compile(r"swp\d+(s\d+)?")
_VERSION = re.compile(r'"version": "Cumulus Linux (\d+(?:\.\d+)*)')
_BREAKOUT = re.compile(r"(\d)x.*")
_SVI = re.compile(r"vlan(\d+)")
"""The routed interface of a VLAN, which NVUE names after it."""
SIZE = re.compile(r"(\d+(?:\.\d+)?) (Bytes|KB|MB|GB|TB)")
"""How the text forms, and some JSON, say a size."""
FACTORS = {
    unit: BYTES_PER_KIB**power for power, unit in enumerate(("Bytes", "KB", "MB", "GB", "TB"))
}
_SCHEDULE = re.compile(r"^ +\d+ +\d+ +(\d+) +(DWRR\S*|strict\S*)", re.MULTILINE | re.IGNORECASE)
"""A row of `RoCE SP->TC mapping and ETS configurations`: index, priority, class, scheduler."""
_TRUST: Final[Mapping[str, Trust]] = {
    "pcp": "L2",
    "dscp": "L3",
    "pcp,dscp": "both",
    "l2": "L2",
    "l3": "L3",
    "both": "both",
    "port": "port",
}
_MODES: Final = frozenset({"lossless", "lossy", "lossless-single-ipool", "lossy-multi-tc"})


_ABSENT: Final = PortState(
    admin_up=False, mode="routed", trunk_vlans=(),
    native=sources(admin_up=False, rest=False),
)  # fmt: skip
"""A port that is nowhere in the configuration is shut (the vendor's quick start)."""


def _state(entry: Tree, **more: Any) -> PortState:  # noqa: ANN401 - fields of `PortState`
    values, native = read_ports(entry)
    return _ABSENT.model_copy(update={**values, **more, "native": {**_ABSENT.native, **native}})


@dataclass(frozen=True, slots=True)
class PortConfig:
    """What is written of one port; the default value: nothing."""

    state: PortState = field(default_factory=lambda: _state({}))
    """All but what the RoCE profile gives."""
    parts: int = 1
    """Into how many parts it is split; its own settings are of no effect then."""
    trust: Trust | None = None
    """From a mapping profile of the port's own, which wins over the RoCE profile."""
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    """Section of QoS to the profile that the port names."""
    own: OwnQos = field(default_factory=OwnQos)
    """What is set over the RoCE profile on it."""


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a switch, as far as a driver needs it."""

    vlans: tuple[int, ...]
    ports: Mapping[str, PortConfig]
    holders: Mapping[int, tuple[str, ...]]
    """VLAN to every interface, ports and others, that names it."""
    routing: Routing
    spreads: bool | None
    """Adaptive routing of the switch; None: nothing is written."""
    cable_m: int
    """Length of the longest cable in the RoCE profile; 0: none."""
    profiles: Mapping[str, str]
    """Our profiles and who names them."""
    words: tuple[str, ...]
    """What is there or not of branches, what the release writes, whether it saves by itself."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What the RoCE profile gives to every port; unknown while there is none."""

    mode: RoceMode
    pfc_priorities: tuple[int, ...] = ()
    trust: Trust | None = None
    ecn: Mapping[int, EcnState | None] = field(default_factory=dict[int, EcnState | None])
    strict_classes: tuple[int, ...] | None = None
    shares: Mapping[int, int] = field(default_factory=dict[int, int])


def parse_config(command: str, text: str) -> Config:
    """`nv config show -o json`: a list of one-key objects, of which `set` holds the tree."""
    value = load(command, text)
    parts = value if isinstance(value, list) else [value]
    trees = [part["set"] for part in parts if isinstance(part, dict) and "set" in part]
    if not trees and not any(isinstance(part, dict) and "header" in part for part in parts):
        raise Unreadable(command, text, "there is neither a header nor a configuration in it")
    tree = trees[0] if trees else None
    tree = tree if isinstance(tree, dict) else {}
    try:
        return _config(tree, _release(text))
    except ValueError as error:
        raise Unreadable(command, text, str(error)) from error


def _config(tree: Tree, release: tuple[int, ...]) -> Config:
    interfaces = _interfaces(tree)
    ports = {name: _port(entry, tree) for name, entry in interfaces.items()}
    routing, spreads, cable = parse_routing(tree, interfaces), SPREADS.read(tree), CABLE.read(tree)
    saves = (SAVES,) if saves_itself(tree, release) else ()
    return Config(
        vlans=_vlans(child(tree, "bridge", "domain", BRIDGE, "vlan")),
        ports=ports,
        holders=holders_of({name: _vlans_of(name, port.state) for name, port in ports.items()}),
        routing=routing,
        spreads=bool(spreads.value) if spreads.written else None,
        cable_m=int(cable.value or 0),
        profiles=roce.holders(tree),
        words=(*branch_words(tree), *routing.words, *release_words(release), *saves),
    )


def _release(text: str) -> tuple[int, ...]:
    found = _VERSION.search(text)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _vlans_of(name: str, port: PortState) -> set[int]:
    """The VLANs that an interface names; a routed one of a VLAN by its own name."""
    svi = _SVI.fullmatch(name)
    trunk = () if port.trunk_vlans == "all" else port.trunk_vlans or ()
    access = (port.access_vlan,) if port.access_vlan else ()
    return {*trunk, *access, *((int(svi[1]),) if svi else ())}


def load(command: str, text: str) -> JsonValue:
    """Read an answer in JSON.

    Raises:
        Unreadable: It is none.
    """
    try:
        return _JSON.validate_json(text.strip())
    except ValidationError as error:
        why = f"the JSON is broken: {error.errors()[0]['msg']}"
        raise Unreadable(command, text, why) from error


def _interfaces(tree: Tree) -> dict[str, Tree]:
    found: dict[str, Tree] = {}
    for key, value in child(tree, "interface").items():
        entry = value if isinstance(value, dict) else {}
        for name in expand_names(key):
            found[name] = _merged(found.get(name, {}), entry)
    return found


def _merged(one: Tree, other: Tree) -> Tree:
    both: Tree = dict(one)
    for key, value in other.items():
        held = both.get(key)
        if isinstance(held, dict) and isinstance(value, dict):
            both[key] = _merged(held, value)
        else:
            both[key] = value
    return both


def _vlans(table: Tree) -> tuple[int, ...]:
    return tuple(sorted({int(name) for key in table for name in expand_names(key)}))


def _port(entry: Tree, tree: Tree) -> PortConfig:
    link = child(entry, "link")
    parts = _parts(link.get("breakout"))
    if parts > 1 and {*entry} <= {"link", "type"} and {*link} == {"breakout"}:
        return PortConfig(parts=parts)
    state = child(link, "state") or link.get("state")
    mode, access, trunk = _membership(entry)
    found = _state(
        entry,
        admin_up="down" not in state if isinstance(state, (dict, str)) else True,
        mode=mode,
        access_vlan=access,
        trunk_vlans=trunk,
    )
    written = sources(admin_up=True, rest=_has_others(entry))
    return PortConfig(
        state=found.model_copy(update={"native": found.native | written}),
        parts=parts,
        trust=_own_trust(entry, tree),
        named=roce.named_of(entry),
        own=roce.own_qos(tree, entry),
    )


def _parts(breakout: JsonValue) -> int:
    """`4x: {}` of the tree, also with lanes below it; `disabled` is the neighbour of a split."""
    words = [*breakout] if isinstance(breakout, dict) else [str(breakout)]
    found = _BREAKOUT.fullmatch(words[0]) if words else None
    return int(found[1]) if found else 1


def _membership(entry: Tree) -> tuple[Mode, int | None, Literal["all"] | tuple[int, ...]]:
    domains = child(entry, "bridge", "domain")
    if BRIDGE not in domains:
        return "routed", None, ()
    member = child(domains, BRIDGE)
    access, untagged = member.get("access"), member.get("untagged")
    if access is not None:
        return "access", int(str(access)), ()
    # Without a list of its own a member carries every VLAN of the bridge.
    trunk = _vlans(child(member, "vlan")) if "vlan" in member else "all"
    if untagged is None:
        return "trunk", None, trunk
    return "hybrid", 0 if untagged == "none" else int(str(untagged)), trunk


_SECTIONS: Final = {"pfc-watchdog": None}


def _has_others(entry: Tree) -> bool:
    """Whether a port has something that no driver writes."""
    ours = {s: None for s, name in roce.named_of(entry).items() if roce.is_ours(name)}
    return not within(entry, {**FRONT, "qos": {**_SECTIONS, **ours}})


def _own_trust(entry: Tree, tree: Tree) -> Trust | None:
    profile = child(entry, "qos", "mapping").get("profile")
    if not isinstance(profile, str):
        return None
    return _TRUST.get(str(child(tree, "qos", "mapping", profile).get("trust", "l2")))


def parse_profile(command: str, text: str) -> Profile:
    """`nv show qos roce`, the text form: the vendor's page shows it for three profiles.

    A switch without a profile has no transcript; what shows neither `enable on` nor
    `state enabled` is one without.
    """
    if not {_row(text, "enable"), _row(text, "state")} & ON:
        return Profile("none")
    mode = _row(text, "mode")
    if mode not in _MODES:
        raise Unreadable(command, text, "no RoCE mode in the answer")
    low, high = _kib(_row(text, "min-threshold")), _kib(_row(text, "max-threshold"))
    classes = [int(number) for number in re.findall(r"\d+", _row(text, "enabled-tc"))]
    if low is None or high is None:
        raise Unreadable(command, text, "no ECN thresholds in the answer")
    schedule = _SCHEDULE.findall(text)
    if not schedule:
        raise Unreadable(command, text, "no scheduler of the traffic classes in the answer")
    paused = _row(text, "rx-enabled") in ON and _row(text, "tx-enabled") in ON
    priorities = re.findall(r"\d+", _row(text, "pfc-priority")) if paused else []
    strict = {int(tc) for tc, kind in schedule if str(kind).lower().startswith("strict")}
    return Profile(
        mode=cast("RoceMode", mode),
        pfc_priorities=tuple(int(number) for number in priorities),
        trust=_TRUST.get(_row(text, "trust-mode")),
        ecn={tc: EcnState(min_kib=low, max_kib=high) for tc in classes},
        strict_classes=tuple(sorted(strict)),
        shares={int(tc): int(n) for tc, kind in schedule for n in re.findall(r"(\d+)%", kind)},
    )


def _row(text: str, name: str) -> str:
    """The value of a row: what is applied, else what is operational; blank if there is no row.

    The rule of dashes below the head tells where its columns begin. Up to Cumulus 5.3 a third
    column describes the setting (tests/fabric/forms/README.md).
    """
    rule = re.search(r"^-+ +-+ +-+.*$", text, re.MULTILINE)
    row = re.search(rf"^ *{name} +\S.*$", text, re.MULTILINE)
    if rule is None or row is None:
        return ""
    _, operational, applied, *more = (cell.start() for cell in re.finditer(r"-+", rule.group()))
    line = row.group()
    cells = (line[operational:applied], line[applied : more[0] if more else None])
    return cells[1].strip() or cells[0].strip()


def _kib(size: str) -> int | None:
    found = SIZE.fullmatch(size)
    return int(float(found[1]) * FACTORS[found[2]]) // BYTES_PER_KIB if found else None


def read_state(config: Config, profile: Profile | None, wanted: SwitchState) -> Reading:
    """What a switch has, as far as it was asked for."""
    ours = {*wanted.ports}
    state = SwitchState(
        vlans=config.vlans,
        pfc_priorities=profile.pfc_priorities if profile else None,
        pfc_enabled=bool(profile.pfc_priorities) if profile else None,
        roce=profile.mode if profile else None,
        roce_cable_m=config.cable_m,
        addresses=config.routing.addresses,
        bgp=config.routing.bgp,
        adaptive_routing=config.spreads,
        native={
            WHOLE: write_list(config.words),
            **sources(adaptive_routing=config.spreads is not None),
            **roce.write_holders(config.profiles),
        },
        ports={
            name: _read_port(config.ports.get(name, PortConfig()), profile, port)
            for name, port in wanted.ports.items()
        },
    )
    holders = {
        vlan: others
        for vlan, names in config.holders.items()
        if (others := tuple(name for name in names if name not in ours))
    }
    rest = {name: port.state for name, port in config.ports.items() if name not in ours}
    return Reading(state, holders, others_of(rest))


def _read_port(port: PortConfig, profile: Profile | None, wanted: PortState) -> PortState:
    """One port, with what the profile gives it and what is set over that."""
    native = port.state.native | roce.native_of(port.named, wanted)
    if any(row.read_beside(port.state, wanted) for row in PORT):
        native |= sources(rest=True)
    has_profile = profile is not None and profile.mode != "none" and port.own.strict is not None
    found: dict[str, object] = {
        "trust": port.trust or (profile.trust if profile else None),
        "ecn": {**profile.ecn, **port.own.ecn} if profile else {},
        "pfc_priorities": port.own.pfc_priorities,
        "strict_classes": port.own.strict if has_profile
        else profile.strict_classes if profile else None,
    }  # fmt: skip
    if wanted.class_shares:
        given = profile.shares if profile and port.own.strict is None else dict[int, int]()
        found["class_shares"] = {**given, **port.own.shares}
    if wanted.class_shares and wanted.rewrite_dscp is not None:
        usual = {dscp: dscp // DSCP_PER_CLASS for dscp in range(64)}
        found |= {"rewrite_dscp": port.own.rewrite_dscp}
        found |= {"dscp_priorities": {**usual, **port.own.priorities}}
    return port.state.model_copy(update={**found, "native": native})


def parse_port_names(command: str, text: str) -> tuple[str, ...]:
    """`nv show interface -o json`: one key an interface; front panel ports are called swp."""
    try:
        table = _TREE.validate_python(load(command, text))
    except ValidationError as error:
        raise Unreadable(command, text, "the answer is no table of interfaces") from error
    ports = sorted((name for name in table if SWP.fullmatch(name)), key=port_key)
    if not ports:
        raise Unreadable(command, text, "there is no port in the answer")
    return tuple(ports)
