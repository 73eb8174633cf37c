"""The settings of a Cumulus switch that are one leaf of NVUE's tree, as rows: read, set and unset.

A row says where a setting is, by which words, since which release, and what undo leaves. What
has semantics of its own is elsewhere: membership in the bridge and splits in `write.py`, the RoCE
profile in `roce.py`, BGP's neighbours in `routing.py` (docs/explanation/sources.md#cumulus).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, JsonValue

from components.fabric.native import WHOLE, is_default, is_written, read_list, sources
from components.fabric.state import PortState, SwitchState
from components.fabric.systems.cumulus.tree import BRIDGE, Beside, Line, Tree, Verb, child

Release = tuple[int, ...]
Tail = tuple[Verb, str, str | None]
"""Verb, path and value of a line; for a port the path below its interface."""
Value = str | int | bool
MIN_RELEASE: Final[tuple[int, int]] = (5, 0)
"""First release whose default is NVUE; 4.4 had it as early access, switched off, 4.2 not at all."""
STATES: Final = (5, 15)
"""First release with `state enabled` in place of `enable on`, and addresses below `ipv4` (page "New
and Changed NVUE Commands")."""
NEGOTIATES: Final = (5, 16)
"""First release with `auto-negotiate enabled` for certain (its release notes). The page of 5.15
says so of 5.15 too; there `on` is sent, which is unproven."""
AUTO_SAVE: Final = (5, 9)
"""First release that saves what it applies unless a line says otherwise (NVUE reference)."""
FACTORY_MTU_BYTES: Final = 9216
ON: Final = frozenset({"on", "enabled", "enable", "yes", "true"})
_SWITCH: Final = {True: "on", False: "off"}
_STATE: Final = {True: "enabled", False: "disabled"}


class Cell(NamedTuple):
    """A value, and whether a line gives it; None: not ours, or not asked."""

    value: Value | None
    written: bool | None


@dataclass(frozen=True, slots=True)
class Row:
    """One setting and its leaf."""

    setting: str
    """Field of `PortState`, or of `SwitchState`."""
    path: str
    """Of the leaf, below the interface if it is a port's."""
    blank: Value
    """What the setting is if no line gives it."""
    words: Mapping[Any, str] = field(default_factory=dict[Any, str])
    """Value to NVUE's word; a value without one is its own word."""
    unset: str = ""
    """What undo unsets; blank: the leaf."""
    since: tuple[int, int, int] = (*MIN_RELEASE, 0)
    """First release that has it (NVUE reference)."""
    new: tuple[Release, str, Mapping[Any, str]] | None = None
    """From which release on it has another path and other words."""
    noted: bool = False
    """Its source is in `native`: a line may give the value that is there without it."""
    whole: bool = False
    """None is no value, and not a setting of others."""

    def form(self, release: Release) -> tuple[str, Mapping[Any, str]]:
        """Path and words of a release."""
        is_new = self.new is not None and release >= self.new[0]
        return self.new[1:] if self.new and is_new else (self.path, self.words)

    def read(self, entry: Tree) -> Cell:
        """What is written, in either form."""
        for path in dict.fromkeys((self.path, self.new[1] if self.new else self.path)):
            *above, leaf = path.split()
            said = child(entry, *above).get(leaf)
            if said is not None and not isinstance(said, dict):
                return Cell(self._value(said), written=True)
        return Cell(self.blank, written=False)

    def _value(self, said: JsonValue) -> Value | None:
        if isinstance(self.blank, bool):
            return str(said) in ON
        if isinstance(self.blank, int):
            return int(str(said)) if str(said).isdecimal() else self.blank
        known = {**self.words, **(self.new[2] if self.new else {})}
        return next((value for value, word in known.items() if word == str(said)), str(said))

    def cell(self, state: BaseModel) -> Cell:
        """The same as a state has it, or wants it."""
        value = getattr(state, self.setting)
        if value is None:
            return Cell(self.blank, written=False) if self.whole else Cell(None, None)
        if value != self.blank or not self.noted:
            return Cell(value, value != self.blank)
        native: Mapping[str, str] = getattr(state, "native", {})
        known = is_default(native, self.setting) or is_written(native, self.setting)
        return Cell(value, is_written(native, self.setting) if known else None)

    def read_beside(self, state: BaseModel, wanted: BaseModel) -> bool:
        """Whether a line gives it, without anyone asking for it."""
        return getattr(wanted, self.setting) is None and bool(self.cell(state).written)

    def line(self, held: Cell, wanted: Cell, release: Release) -> Tail | None:
        """Verb, path and word from one to the other; None: there is nothing to do."""
        if wanted.value is None:
            return None
        if wanted.written is False:
            return ("unset", self.unset or self.form(release)[0], None) if held.written else None
        # What was not read is off, or blank; an MTU that was not read is any.
        was = self.blank if held.value is None and not self.blank else held.value
        same = wanted.value == was
        if same and not (wanted.written and held.written is False):
            return None
        path, words = self.form(release)
        return "set", path, words.get(wanted.value, str(wanted.value))


_FEC: Final = {"rs": "rs", "fc": "baser", "none": "off"}
_IN_WORDS: Final = {"on": "enabled", "off": "disabled"}
_SPREADS: Final = Row(
    "adaptive_routing", "router adaptive-routing enable", blank=False, words=_SWITCH,
    unset="router adaptive-routing", since=(5, 6, 0), noted=True,
    new=(STATES, "router adaptive-routing state", _STATE),
)  # fmt: skip
LINK: Final = (
    Row("speed", "link speed", blank=""),
    Row("fec", "link fec", blank="", words=_FEC),
    Row("autoneg", "link auto-negotiate", blank="",
        new=(NEGOTIATES, "link auto-negotiate", _IN_WORDS)),
)  # fmt: skip
_STP: Final = f"bridge domain {BRIDGE} stp"
EDGE: Final = (
    Row("edge_port", f"{_STP} admin-edge", blank="",
        new=(STATES, f"{_STP} admin-edge", _IN_WORDS)),
    Row("bpdu_guard", f"{_STP} bpdu-guard", blank="",
        new=(STATES, f"{_STP} bpdu-guard", _IN_WORDS)),
)  # fmt: skip
"""Their words: NVUE reference, and the page "New and Changed NVUE Commands" of 5.15."""
MTU: Final = Row("mtu_bytes", "link mtu", blank=FACTORY_MTU_BYTES, noted=True)
WATCHDOG: Final = Row(
    "pfc_watchdog", "qos pfc-watchdog state", blank=False, unset="qos pfc-watchdog",
    words={True: "enable", False: "disable"}, since=(5, 6, 0), noted=True,
)  # fmt: skip
PORT: Final = (*LINK, *EDGE, MTU, WATCHDOG, _SPREADS)
SPREADS: Final = _SPREADS
CABLE: Final = Row("roce_cable_m", "qos roce cable-length", blank=0)
GLOBAL: Final = "router bgp"
BGP: Final = (
    Row("asn", f"{GLOBAL} autonomous-system", blank="", whole=True),
    Row("router_id", f"{GLOBAL} router-id", blank="", whole=True),
)


def read_ports(entry: Tree) -> tuple[dict[str, Value | None], dict[str, str]]:
    """The settings of a port by row, and the sources of those that note them.

    Adaptive routing that no line names is not read, as the speed of a look is not asked for it.
    """
    cells = {row.setting: row.read(entry) for row in PORT}
    noted = {row.setting: bool(cells[row.setting].written) for row in PORT if row.noted}
    values = {name: cell.value for name, cell in cells.items()}
    if not noted[SPREADS.setting]:
        values[SPREADS.setting] = None
    return values, sources(**noted)


def port_lines(
    rows: Iterable[Row], was: PortState, port: PortState, release: Release
) -> Iterator[Tail]:
    """What some rows of a port need."""
    for row in rows:
        line = row.line(row.cell(was), row.cell(port), release)
        if line:
            yield line


def leaf(row: Row, was: BaseModel, now: BaseModel, release: Release,
         beside: Beside = ()) -> Iterator[Line]:  # fmt: skip
    """The line of a row of the whole switch."""
    found = row.line(row.cell(was), row.cell(now), release)
    if found:
        verb, path, word = found
        yield Line("set", path, word, beside) if verb == "set" else Line("unset", path)


Shape = Mapping[str, "Shape | None"]
"""Keys that are ours; None: with all below."""
_SWITCHED: Final[Shape] = {"enable": None, "state": None}
"""What NVUE writes by itself as soon as something below is set."""
VRF: Final = "vrf default router bgp"
FAMILY: Final = f"{VRF} address-family ipv4-unicast"
_PEER: Final[Shape] = {
    "remote-as": None, "type": None, "bfd": {"enable": None, "profile": None}, **_SWITCHED,
}  # fmt: skip
_FAMILY: Final[Shape] = {"network": None, **_SWITCHED}
BRANCHES: Final[Mapping[str, Shape]] = {
    f"bridge domain {BRIDGE}": {"vlan": None},
    GLOBAL: {"autonomous-system": None, "router-id": None, **_SWITCHED},
    FAMILY: _FAMILY,
    VRF: {"neighbor": {"*": _PEER}, "address-family": {"ipv4-unicast": _FAMILY}, **_SWITCHED},
}
"""Branches that leave as a whole if they were not there and nothing of others is in them."""
INTERFACE: Final[Shape] = {
    "ip": {"address": None}, "ipv4": {"address": None}, "type": None, "vlan": None,
}  # fmt: skip
"""The loopback, or the interface of a VLAN."""
FRONT: Final[Shape] = {
    "type": None,
    "ip": {"address": None},
    "ipv4": {"address": None},
    "router": {"adaptive-routing": None},
    "qos": {"pfc-watchdog": None},
    "bridge": {
        "domain": {
            BRIDGE: {
                "access": None,
                "untagged": None,
                "vlan": None,
                "stp": {"admin-edge": None, "bpdu-guard": None},
            }
        }
    },
    "link": dict.fromkeys(("state", "breakout", *(row.path.split()[1] for row in (*LINK, MTU)))),
}
"""A port: a bundle that it is in, its profiles of quality of service and others are not ours."""


def within(tree: Tree, shape: Shape) -> bool:
    """Whether nothing is in a tree but what a shape has."""
    for key, value in tree.items():
        if key not in shape and "*" not in shape:
            return False
        below = shape.get(key, shape.get("*"))
        if below is not None and not (isinstance(value, dict) and within(value, below)):
            return False
    return True


def branch_words(tree: Tree) -> Iterator[str]:
    """Of each branch: its name if it is not there, and the name with `rest` if it is ours alone."""
    for branch, shape in BRANCHES.items():
        *above, key = branch.split()
        if key not in child(tree, *above):
            yield branch
        if within(child(tree, *above, key), shape):
            yield f"{branch} rest"


NEW_WORDS: Final = "states in words"
"""In the words of a switch whose release, 5.15 or later, says `state enabled`."""
NEW_LINK: Final = "auto-negotiate enabled"
"""In those of one of 5.16 or later."""
SAVES: Final = "saves by itself"
"""In those of one whose `nv config apply` saves too."""


def release_words(release: Release) -> tuple[str, ...]:
    """What a release tells of the words of the whole switch."""
    return tuple(word for first, word in ((STATES, NEW_WORDS), (NEGOTIATES, NEW_LINK))
                 if release >= first)  # fmt: skip


def whole_words(state: SwitchState) -> tuple[str, ...]:
    """What a state says of the whole configuration; nothing if it was not read."""
    return read_list(state.native.get(WHOLE)) or ()


def release_of(state: SwitchState) -> Release:
    """As far as its words tell it: that of the newest form that it has."""
    words = whole_words(state)
    return NEGOTIATES if NEW_LINK in words else STATES if NEW_WORDS in words else MIN_RELEASE


def switched_on(branch: str, state: SwitchState) -> Beside:
    """What NVUE writes by itself beside the first setting of a branch."""
    new = release_of(state) >= STATES
    return ((f"{branch} state", "enabled") if new else (f"{branch} enable", "on"),)


def leaves(branch: str, actual: SwitchState, target: SwitchState) -> bool:
    """Whether a branch goes as a whole: it was not there once, and all that is left is ours."""
    return branch in whole_words(target) and f"{branch} rest" in whole_words(actual)


def saves_itself(tree: Tree, release: Release) -> bool:
    """`auto-save enable on`, later `state enabled`; by default from 5.9 on."""
    said = child(tree, "system", "config", "auto-save")
    word = said.get("state", said.get("enable"))
    return release >= AUTO_SAVE if word is None else str(word) in ON
