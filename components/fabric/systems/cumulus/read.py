"""What Cumulus Linux prints, read into plain values; docs/explanation/sources.md#cumulus.

`nv config show` holds what was set, in NVUE's tree; `nv show qos roce` what the profile gives.
Each parser raises `Unreadable` with the raw text rather than guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from components.fabric.state import EcnState, Neighbour
from components.fabric.systems.base import Unreadable
from components.fabric.systems.cumulus import profiles
from components.fabric.systems.cumulus.facts import AUTO_SAVE_RELEASE, BYTES_PER_KIB
from components.fabric.systems.cumulus.link import LEAVES, link_state
from components.fabric.systems.cumulus.profiles import OwnQos, own_qos
from components.fabric.systems.cumulus.routing import Routing, parse_routing, spreads
from components.fabric.systems.cumulus.tree import Tree, child, expand_names
from components.fabric.systems.membership import holders_of
from components.fabric.systems.ranges import port_key

Mode = Literal["access", "trunk", "hybrid", "routed"]
Trust = Literal["L2", "L3", "both", "port"]
RoceMode = Literal["none", "lossless", "lossy", "lossless-single-ipool", "lossy-multi-tc"]
BRIDGE: Final = "br_default"

_TREE: TypeAdapter[Tree] = TypeAdapter(Tree)
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_SWP = re.compile(r"swp\d+(s\d+)?")
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
_ON: Final = frozenset({"on", "enabled", "enable", "yes", "true"})
"""`enable on` up to release 5.10, `state enabled` after it."""
_MODES: Final = frozenset({"lossless", "lossy", "lossless-single-ipool", "lossy-multi-tc"})


@dataclass(frozen=True, slots=True)
class PortConfig:
    """What is written of one port; the default value: nothing."""

    admin_up: bool = False
    """A port that is nowhere in the configuration is shut (the vendor's quick start)."""
    admin_written: bool = False
    mtu_bytes: int | None = None
    mode: Mode = "routed"
    access_vlan: int | None = None
    trunk_vlans: Literal["all"] | tuple[int, ...] = ()
    pfc_watchdog: bool | None = None
    """None: nothing is written, and the watchdog is off (NVUE reference)."""
    trust: Trust | None = None
    """From a mapping profile of the port's own, which wins over the RoCE profile."""
    others_wrote: bool = False
    """It has something that no driver writes."""
    spreads: bool | None = None
    """Adaptive routing; None: nothing is written."""
    parts: int = 1
    """Into how many parts it is split; its own settings are of no effect then."""
    link: Mapping[str, str] = field(default_factory=dict[str, str])
    """`link_state` of it; empty: nothing is written of the port."""
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    """Section of QoS to the profile that the port names."""
    own: OwnQos = field(default_factory=OwnQos)
    """What is set over the RoCE profile on it."""


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a switch, as far as a driver needs it."""

    vlans: tuple[int, ...]
    implied: tuple[str, ...]
    """`bridge` where no bridge is in the configuration, `rest` where nothing of it but VLANs is."""
    ports: Mapping[str, PortConfig]
    holders: Mapping[int, tuple[str, ...]]
    """VLAN to every interface, ports and others, that names it."""
    routing: Routing
    spreads: bool | None
    """Adaptive routing of the switch; None: nothing is written."""
    release: tuple[int, ...]
    """As the header says; empty: it does not."""
    profiles: Mapping[str, str]
    """Our profiles and who names them."""
    cable_m: int
    """Length of the longest cable in the RoCE profile; 0: none."""
    auto_save: bool
    """What is applied is saved too."""


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
        interfaces = _interfaces(tree)
        ports = {name: _port(entry, tree) for name, entry in interfaces.items()}
        vlans = _vlans(child(tree, "bridge", "domain", BRIDGE, "vlan"))
    except ValueError as error:
        raise Unreadable(command, text, str(error)) from error
    named = {name: _vlans_of(name, port) for name, port in ports.items()}
    cable = child(tree, "qos", "roce").get("cable-length")
    return Config(
        vlans=vlans,
        implied=_bridge_implied(tree),
        ports=ports,
        holders=holders_of(named),
        spreads=spreads(tree),
        release=_release(text),
        profiles=profiles.holders(tree),
        routing=parse_routing(tree, interfaces, expand_names),
        auto_save=_saves_itself(tree, _release(text)),
        cable_m=int(cable) if isinstance(cable, int | str) and str(cable).isdigit() else 0,
    )


def _release(text: str) -> tuple[int, ...]:
    found = _VERSION.search(text)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _saves_itself(tree: Tree, release: tuple[int, ...]) -> bool:
    """`auto-save enable on`, later `state enabled`; by default from 5.9 on (NVUE reference)."""
    said = child(tree, "system", "config", "auto-save")
    word = said.get("state", said.get("enable"))
    return release >= AUTO_SAVE_RELEASE if word is None else str(word) in _ON


def _vlans_of(name: str, port: PortConfig) -> set[int]:
    """The VLANs that an interface names; a routed one of a VLAN by its own name."""
    svi = _SVI.fullmatch(name)
    trunk = () if port.trunk_vlans == "all" else port.trunk_vlans
    access = (port.access_vlan,) if port.access_vlan else ()
    return {*trunk, *access, *((int(svi[1]),) if svi else ())}


def _bridge_implied(tree: Tree) -> tuple[str, ...]:
    domains = child(tree, "bridge", "domain")
    if BRIDGE not in domains:
        return ("bridge", "rest")
    return ("rest",) if {*child(domains, BRIDGE)} <= {"vlan"} else ()


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
    if parts > 1 and {*entry} == {"link"} and {*link} == {"breakout"}:
        return PortConfig(parts=parts)
    state = child(link, "state") or link.get("state")
    mtu = link.get("mtu")
    mode, access, trunk = _membership(entry)
    return PortConfig(
        admin_up="down" not in state if isinstance(state, (dict, str)) else True,
        admin_written=True,
        parts=parts,
        mtu_bytes=mtu if isinstance(mtu, int) else None,
        mode=mode,
        access_vlan=access,
        trunk_vlans=trunk,
        pfc_watchdog=_watchdog(entry),
        trust=_own_trust(entry, tree),
        others_wrote=_has_others(entry),
        spreads=spreads(entry),
        link=link_state(entry),
        named=profiles.named_of(entry),
        own=own_qos(tree, entry),
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


def _watchdog(entry: Tree) -> bool | None:
    """`state enable` is documented; later releases say `enabled` for such values."""
    state = child(entry, "qos", "pfc-watchdog").get("state")
    return None if state is None else str(state) in {"enable", "enabled"}


_OURS: Final = (
    {"link", "bridge", "type", "qos", "router", "ip"},
    {"mtu", "state", "breakout", *LEAVES},
    {"access", "untagged", "vlan"},
)


def _has_others(entry: Tree) -> bool:
    bridge = child(entry, "bridge")
    domains = child(bridge, "domain")
    return (
        not {*entry} <= _OURS[0]
        or not {*child(entry, "link")} <= _OURS[1]
        or not {*child(domains, BRIDGE)} <= _OURS[2]
        or bool({*bridge} - {"domain"} or {*domains} - {BRIDGE})
        or bool({*child(entry, "router")} - {"adaptive-routing"})
        or bool({*child(entry, "qos")} - {"pfc-watchdog", *_our_sections(entry)})
        or bool({*child(entry, "ip")} - {"address"})
    )


def _our_sections(entry: Tree) -> set[str]:
    return {s for s, name in profiles.named_of(entry).items() if profiles.is_ours(name)}


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
    if not {_row(text, "enable"), _row(text, "state")} & _ON:
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
    paused = _row(text, "rx-enabled") in _ON and _row(text, "tx-enabled") in _ON
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


def parse_port_names(command: str, text: str) -> tuple[str, ...]:
    """`nv show interface -o json`: one key an interface; front panel ports are called swp."""
    try:
        table = _TREE.validate_python(load(command, text))
    except ValidationError as error:
        raise Unreadable(command, text, "the answer is no table of interfaces") from error
    ports = sorted((name for name in table if _SWP.fullmatch(name)), key=port_key)
    if not ports:
        raise Unreadable(command, text, "there is no port in the answer")
    return tuple(ports)


def parse_links(command: str, text: str) -> dict[str, bool]:
    """The same table: `link.oper-status` of each port (a public napalm driver for NVUE)."""
    value = load(command, text)
    table: Tree = value if isinstance(value, dict) else {}
    links = {name: child(table, name, "link") for name in filter(_SWP.fullmatch, table)}
    told = {name: link["oper-status"] for name, link in links.items() if "oper-status" in link}
    return {name: state == "up" for name, state in told.items()}


def parse_neighbours(command: str, text: str) -> dict[str, Neighbour]:
    """`nv show interface lldp -o json`: the keys that a public client reads; front panel only."""
    value = load(command, text)
    table: Tree = value if isinstance(value, dict) else {}
    found: dict[str, Neighbour] = {}
    for name in filter(_SWP.fullmatch, table):
        heard = child(table, name, "lldp", "neighbor")
        for key in heard:
            system = child(heard, key, "chassis").get("system-name", key)
            port = child(heard, key, "port")
            found[name] = Neighbour(
                system=str(system),
                port=str(port.get("name", "")),
                description=str(port.get("description", "")),
            )
    return found
