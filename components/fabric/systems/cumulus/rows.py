"""The settings of a Cumulus switch as rows of NVUE's tree, with their reader and their writer.

A row gives the path of a setting, its words, its first release, and the path that undo unsets. Only
membership in the bridge, splits and RoCE are not rows (`non_rows.py`). Paths and keys: NVUE
reference and the page "BGP, Configuration Example" of release 5.15 (lab/sources.md#cumulus).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from components.core.record import field, record
from components.fabric.parts import DEFAULT, WHOLE, WRITTEN, read_list, sources
from components.fabric.state import BgpState, SwitchState
from components.fabric.systems import cumulus as nvue
from components.fabric.systems.cumulus import Line, Tree, child
from components.fabric.systems.ranges import collapse_vlans, port_key

Release = tuple[int, ...]
Tail = tuple[nvue.Verb, str, str | None]
"""Verb, path and value of a line; for a port the path below its interface."""
Value = str | int | bool | None
Keys = Mapping[str, Value]
"""The keys of a map with the values of their leaves; None: without leaves."""
States = tuple[SwitchState, SwitchState]
"""The actual state of a switch, and its target."""
MIN_RELEASE: Final[tuple[int, int]] = (5, 0)
"""First release whose default is NVUE; 4.4 had it as early access, switched off, 4.2 not at all."""
STATES: Final = (5, 15)
"""First release with `state enabled` and `ipv4` (page "New and Changed NVUE Commands")."""
NEGOTIATES: Final = (5, 16)
"""First release with `auto-negotiate enabled` for certain (its release notes). The page of 5.15
claims it for 5.15 too; we send `on` there, which is unproven."""
AUTO_SAVE: Final = (5, 9)
"""First release that saves applied changes unless a line says otherwise (NVUE reference)."""
_SWITCH: Final = {True: "on", False: "off"}
_STATE: Final = {True: "enabled", False: "disabled"}
_WORDS: Final = {"on": "enabled", "off": "disabled"}
DOMAIN: Final = f"bridge domain {nvue.BRIDGE}"
GLOBAL: Final = "router bgp"
VRF: Final = "vrf default router bgp"
FAMILY: Final = f"{VRF} address-family ipv4-unicast"
_BFD_STATE: Final = "router bfd state"
_BFD_PROFILE: Final = "router bfd profile"
_PROFILE: Final = "railyard"
_BRANCHES: Final = (DOMAIN, GLOBAL, FAMILY, VRF)
"""Branches that we unset as a whole if we added them and they hold only our settings."""
_INTERFACE: Final = ("ip address", "ipv4 address", "type", "vlan")
"""Every such path of the loopback, or of the interface of a VLAN."""
_ROUTED: Final = re.compile(r"lo|vlan\d+")
"""An interface that may leave as a whole; a port has more than an address."""
_THERE: Final = "stands"
"""Marks an interface found in the configuration; recorded baselines hold it."""
NEW_WORDS: Final = "states in words"
"""Note about a switch whose release, 5.15 or later, writes `state enabled`."""
_NEW_LINK: Final = "auto-negotiate enabled"
"""Note about a switch of release 5.16 or later."""
SAVES: Final = "saves by itself"
"""Note about a switch whose `nv config apply` saves too."""


class Cell(NamedTuple):
    """A value, and whether a line sets it; None: not managed, or not asked."""

    value: Value
    written: bool | None


@record
class Row:
    """One setting and its leaf."""

    setting: str
    """Field of `PortState`, `SwitchState` or `BgpState`."""
    path: str
    """Of the leaf, below the interface if it is a port's; `{}` is the key of a map."""
    blank: Value = ""
    """The value if no line sets it."""
    words: Mapping[Any, str] = field(default_factory=dict[Any, str])
    """Value to NVUE's word; a value without one is its own word."""
    unset: str = ""
    """The path that undo unsets; blank: the leaf."""
    since: tuple[int, int, int] = (*MIN_RELEASE, 0)
    """First release with it (NVUE reference)."""
    new: tuple[Release, str, Mapping[Any, str]] = ((), "", {})
    """First release with another path and other words, and these."""
    noted: bool = False
    """Its source is in `native`: a line may set the same value as the default."""
    whole: bool = False
    """None is a value here: the setting is absent."""
    on: tuple[str, ...] = ()
    """Branches that NVUE itself switches on with it."""
    allowed: range | None = None
    """The allowed numbers; None: the value is not a number."""

    @property
    def paths(self) -> tuple[str, ...]:
        """In both forms."""
        return (self.path, self.new[1]) if self.new[0] else (self.path,)

    def form(self, release: Release) -> tuple[str, Mapping[Any, str]]:
        """Path and words of a release."""
        return self.new[1:] if self.new[0] and release >= self.new[0] else (self.path, self.words)

    def read(self, entry: Tree) -> Cell:
        """The written value, in either form."""
        for path in self.paths:
            if (said := nvue.value_at(entry, path)) is None:
                continue
            if self.allowed:
                return Cell(nvue.number_at(entry, path, self.allowed), written=True)
            word = str(said).lower() if isinstance(said, bool) else str(said)
            is_switch = self.blank is False
            if isinstance(said, dict | list) or (is_switch and word not in nvue.ON | nvue.OFF):
                raise ValueError(f"`{path}` is {said!r}, which it cannot be")
            known = {text: value for value, text in {**self.words, **self.new[2]}.items()}
            return Cell(word in nvue.ON if is_switch else known.get(word, word), written=True)
        return Cell(self.blank, written=False)

    def read_keys(self, entry: Tree) -> dict[str, str]:
        """The keys of a map, each with the word of its leaf; blank without a leaf."""
        found: dict[str, str] = {}
        for head, _, leaf in (path.partition(" {}") for path in self.paths):
            for key, below in nvue.spelled(entry, head).items():
                found[key] = found.get(key) or str((leaf and nvue.value_at(below, leaf)) or "")
        return found

    def cell(self, state: BaseModel) -> Cell:
        """The cell of this setting in a state, actual or wanted."""
        value = getattr(state, self.setting)
        if value is None:
            return Cell(self.blank, written=False) if self.whole else Cell(None, None)
        if value != self.blank or not self.noted:
            return Cell(value, value != self.blank)
        source = getattr(state, "native", {}).get(self.setting)
        return Cell(value, {WRITTEN: True, DEFAULT: False}.get(source or ""))

    def tails(self, was: BaseModel, now: BaseModel, release: Release) -> Iterator[Tail]:
        """Verb, path and word from one state to the other, if there is anything to do."""
        held, wanted = self.cell(was), self.cell(now)
        path, words = self.form(release)
        # An unread setting counts as off, or blank; an unread MTU may be any.
        value = self.blank if held.value is None and not self.blank else held.value
        if wanted.written is False:
            if held.written:
                yield "unset", self.unset or path, None
        elif wanted.value is not None and (
            wanted.value != value or (wanted.written and held.written is False)
        ):
            yield "set", path, words.get(wanted.value, str(wanted.value))

    def lines(self, was: BaseModel, now: BaseModel, actual: SwitchState) -> Iterator[Line]:
        """The line of a setting of the whole switch."""
        for tail in self.tails(was, now, release_of(actual)):
            yield Line(*tail, switched_on(actual, *self.on))

    def key_lines(
        self, held: Keys, wanted: Keys, actual: SwitchState, head: str = ""
    ) -> Iterator[Line]:
        """The lines of a map, below `head`: removed keys first, then new and changed ones."""
        path, words = self.form(release_of(actual))
        for key in (key for key in held if key not in wanted):
            yield Line("unset", f"{head}{path.partition('{}')[0]}{key}")
        for key, value in wanted.items():
            if value == self.blank and value != held.get(key):
                yield Line("unset", head + (self.unset or path).format(key))
            elif key not in held or value != held[key]:
                word = words.get(value, value)
                yield Line("set", head + path.format(key), word, switched_on(actual, *self.on))


LINK: Final = (
    Row("speed", "link speed"),
    Row("fec", "link fec", words={"rs": "rs", "fc": "baser", "none": "off"}),
    Row("autoneg", "link auto-negotiate", new=(NEGOTIATES, "link auto-negotiate", _WORDS)),
    # The numbers: `nv list-commands` of 5.0 to 5.9.
    Row("mtu_bytes", "link mtu", 9216, noted=True, allowed=range(552, 9217)),
)
EDGE: Final = (
    Row("edge_port", f"{DOMAIN} stp admin-edge", new=(STATES, f"{DOMAIN} stp admin-edge", _WORDS)),
    Row("bpdu_guard", f"{DOMAIN} stp bpdu-guard", new=(STATES, f"{DOMAIN} stp bpdu-guard", _WORDS)),
)
"""Their words: NVUE reference, and the page "New and Changed NVUE Commands" of 5.15."""
WATCHDOG: Final = Row(
    "pfc_watchdog", "qos pfc-watchdog state", blank=False, unset="qos pfc-watchdog",
    words={True: "enable", False: "disable"}, since=(5, 6, 0), noted=True,
)  # fmt: skip
SPREADS: Final = Row(
    "adaptive_routing", "router adaptive-routing enable", blank=False, words=_SWITCH,
    unset="router adaptive-routing", since=(5, 6, 0), noted=True,
    new=(STATES, "router adaptive-routing state", _STATE),
)  # fmt: skip
PORT: Final = (*LINK, *EDGE, WATCHDOG, SPREADS)
CABLE: Final = Row("roce_cable_m", "qos roce cable-length", 0, allowed=range(1, 100_001))
VLANS: Final = Row("vlans", f"{DOMAIN} vlan {{}}")
ADDRESSES: Final = Row("addresses", "ip address {}", new=(STATES, "ipv4 address {}", {}))
NUMBERS: Final = (
    Row("asn", f"{GLOBAL} autonomous-system", whole=True, on=(GLOBAL,), allowed=range(1, 1 << 32)),
    Row("router_id", f"{GLOBAL} router-id", whole=True, on=(GLOBAL,)),
)
PEERS: Final = Row("neighbors", f"{VRF} neighbor {{}} remote-as", on=(VRF,))
BFD: Final = Row(
    "bfd", f"{VRF} neighbor {{}} bfd enable", blank=False, words=_SWITCH,
    unset=f"{VRF} neighbor {{}} bfd",
    new=(STATES, f"{VRF} neighbor {{}} bfd profile", {True: _PROFILE}),
)  # fmt: skip
NETWORKS: Final = Row("networks", f"{FAMILY} network {{}}", on=(VRF, FAMILY))
_OURS: Final = (
    *(path for row in (VLANS, *NUMBERS, PEERS, BFD, NETWORKS) for path in row.paths),
    *(f"{head} {key}" for head in (GLOBAL, VRF, FAMILY, f"{VRF} neighbor {{}}")
      for key in ("enable", "state")),
    f"{VRF} neighbor {{}} type",
)  # fmt: skip
"""Every path of the whole switch that a row or NVUE itself writes."""
FRONT: Final = (
    "type", "ip address", "ipv4 address", "link state", "link breakout",
    *(f"{DOMAIN} {key}" for key in ("access", "untagged", "vlan")),
    *(row.unset or row.path for row in PORT),
)  # fmt: skip
"""Every such path of a port: its bundle and other QoS profiles are foreign."""


def read_ports(entry: Tree) -> tuple[dict[str, Value], dict[str, str]]:
    """The settings of a port, adaptive routing only if a line sets it, and noted sources."""
    cells = {row.setting: row.read(entry) for row in PORT}
    noted = {row.setting: bool(cells[row.setting].written) for row in PORT if row.noted}
    values = {name: cell.value for name, cell in cells.items()}
    if not noted[SPREADS.setting]:
        values[SPREADS.setting] = None
    return values, sources(**noted)


def read_own(tree: Tree, entries: Mapping[str, Tree]) -> dict[str, object]:
    """The settings of the switch itself, its addresses and the BGP of its default VRF."""
    spreads, cable = SPREADS.read(tree), CABLE.read(tree)
    numbers = {**child(tree, *GLOBAL.split()), **child(tree, *VRF.split())}
    asn, router_id = (row.read({"router": {"bgp": numbers}}) for row in NUMBERS)
    peers, bfd = PEERS.read_keys(tree), BFD.read_keys(tree)
    held = {name: tuple(ADDRESSES.read_keys(entries[name])) for name in sorted(entries)}
    return {
        "vlans": nvue.vlans_of(VLANS.read_keys(tree)),
        "roce_cable_m": cable.value,
        "adaptive_routing": spreads.value if spreads.written else None,
        "addresses": {name: held[name] for name in held if _ROUTED.fullmatch(name)}
        | {name: own for name, own in held.items() if own and nvue.SWP.fullmatch(name)},
        "bgp": BgpState(
            asn=int(asn.value) if asn.value else None,
            router_id=str(router_id.value) if router_id.written else None,
            neighbors={n: peers[n] for n in sorted(peers, key=lambda name: (port_key(name), name))},
            networks=tuple(NETWORKS.read_keys(tree)),
            bfd=tuple(name for name, word in bfd.items() if word not in {"", "off"}),
        ),
    }


def branch_words(tree: Tree) -> Iterator[str]:
    """For each branch: its name if it is missing, and the name with `rest` if only we use it."""
    for branch in _BRANCHES:
        if nvue.value_at(tree, branch) is None:
            yield branch
        ours = [path.replace("{}", "*") for path in _OURS if path.startswith(f"{branch} ")]
        if nvue.within(child(tree, *branch.split()), [p.removeprefix(f"{branch} ") for p in ours]):
            yield f"{branch} rest"


def all_words(tree: Tree, entries: Mapping[str, Tree], release: Release) -> Iterator[str]:
    """The notes that undo needs about branches, routed interfaces and BFD, and about words."""
    yield from branch_words(tree)
    routed = [name for name in entries if _ROUTED.fullmatch(name)]
    ours = [name for name in routed if nvue.within(entries[name], _INTERFACE)]
    yield from (f"interface {name} {_THERE}" for name in routed)
    yield from (f"interface {name} rest" for name in ours)
    bfd = child(tree, "router", "bfd")
    if "state" in bfd:
        yield f"{_BFD_STATE} {bfd['state']}"
    yield from (f"{_BFD_PROFILE} {name}" for name in child(bfd, "profile"))
    yield from release_words(release)
    said = child(tree, "system", "config", "auto-save")
    word = said.get("state", said.get("enable"))
    if release >= AUTO_SAVE if word is None else str(word) in nvue.ON:
        yield SAVES


def release_words(release: Release) -> tuple[str, ...]:
    """The notes about the words of a whole switch that follow from its release."""
    words = {STATES: NEW_WORDS, NEGOTIATES: _NEW_LINK}
    return tuple(word for first, word in words.items() if release >= first)


def release_of(state: SwitchState) -> Release:
    """The release of a switch as far as its notes show it, by its newest form."""
    words = state.noted()
    return NEGOTIATES if _NEW_LINK in words else STATES if NEW_WORDS in words else MIN_RELEASE


def switched_on(state: SwitchState, *branches: str) -> tuple[tuple[str, str], ...]:
    """The lines that NVUE itself adds to the first setting of a branch."""
    key, word = ("state", "enabled") if release_of(state) >= STATES else ("enable", "on")
    return tuple((f"{branch} {key}", word) for branch in branches)


def _below(
    branch: str, states: States, was: object, now: object, lines: Iterable[Line]
) -> Iterator[Line]:
    """Lines below a branch; or the branch itself, if we added it and only we use it."""
    actual, target = states
    recorded = read_list(target.native.get(WHOLE))
    absent = branch in (recorded or ())
    if branch.startswith("interface "):
        routed = _ROUTED.fullmatch(branch.partition(" ")[2]) is not None
        absent = routed and recorded is not None and f"{branch} {_THERE}" not in recorded
    if now or not (absent and f"{branch} rest" in actual.noted()):
        yield from lines
    elif was:
        yield Line("unset", branch)


def vlan_lines(states: States) -> Iterator[Line]:
    """The VLANs of the bridge, new ones as one list."""
    was, now = ({*state.vlans} for state in states)
    lines = [Line("unset", VLANS.path.format(vlan)) for vlan in sorted(was - now)]
    if now - was:
        lines.insert(0, Line("set", VLANS.path.format(collapse_vlans(now - was))))
    there = DOMAIN not in states[0].noted()
    yield from _below(DOMAIN, states, there, now or not there, lines)


def routing_lines(states: States) -> Iterator[Line]:
    """Addresses, then BGP; a branch that only we use leaves as a whole."""
    actual, target = states
    held = actual.addresses or {}
    for name, now in (target.addresses or {}).items():
        lines = ADDRESSES.key_lines(
            dict.fromkeys(held.get(name, ())), dict.fromkeys(now), actual, f"interface {name} "
        )
        yield from _below(f"interface {name}", states, name in held, now, lines)
    was, bgp = actual.bgp or BgpState(), target.bgp
    if bgp is None:
        return
    numbers = [line for row in NUMBERS for line in row.lines(was, bgp, actual)]
    yield from _below(GLOBAL, states, was.asn or was.router_id, bgp.asn or bgp.router_id, numbers)
    before, after = ({name: name in each.bfd for name in bgp.neighbors} for each in (was, bgp))
    networks = NETWORKS.key_lines(dict.fromkeys(was.networks), dict.fromkeys(bgp.networks), actual)
    below = [
        *PEERS.key_lines(was.neighbors, bgp.neighbors, actual),
        *BFD.key_lines(before, after, actual),
        *_below(FAMILY, states, was.networks, bgp.networks, networks),
    ]
    used, wanted = (each.neighbors or each.networks for each in (was, bgp))
    yield from _below(VRF, states, used, wanted, below)
    if release_of(actual) >= STATES:
        yield from _bfd_lines(bgp, states)


def _bfd_lines(now: BgpState, states: States) -> Iterator[Line]:
    """BFD of the switch, and our profile, never empty, while a neighbour has it; else as it was."""
    held, recorded = states[0].noted(), read_list(states[1].native.get(WHOLE))
    on, profile = f"{_BFD_STATE} enabled", f"{_BFD_PROFILE} {_PROFILE}"
    if now.bfd:
        if on not in held:
            yield Line("set", _BFD_STATE, "enabled")
        if profile not in held:
            yield Line("set", f"{profile} detect-multiplier", 3)
    elif recorded is not None:
        if profile in held and profile not in recorded:
            yield Line("unset", profile)
        word = next((w.split()[-1] for w in recorded if w.startswith(_BFD_STATE)), None)
        if on in held and word != "enabled":
            yield Line("set" if word else "unset", _BFD_STATE, word)
