"""The description of a switch system for other rooms: one value, `SYSTEM`, in each folder.

Facts are in `system.yaml` of the folder, code is in its `system.py`. Optional parts are left out if
a system lacks them. Every Ethernet system has lossless and lossy RoCE on trunks and access ports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from components.catalogue.switches import switch_model
from components.catalogue.switches.switch_model import Release
from components.core.errors import Bug
from components.core.record import field, record
from components.core.templates import parse_own
from components.fabric.parts import Field, IdentityQuestions, Sessions
from components.fabric.state import Neighbour, PortState, SwitchState
from components.fabric.systems import base
from components.fabric.systems.base import Question
from components.model.fabric import Rdma
from components.model.switch_models import LinkSettings
from components.remote.session_profile import SessionProfile

DSCP_PER_CLASS: Final = 8
"""DSCP 8n to 8n + 7 are priority n (fixture show_qos_interface_ethernet.cfg, RoCE page)."""
Mode = Literal["lossy_ecn", "lossless", "semi_lossless"]
ONE_SHOT_PRIORITY: Final = 3
"""The priority of the one-shot `roce`, on Onyx and on Cumulus; the vendor offers no other."""
_NO_PORTS: Final[Question[tuple[str, ...]]] = Question((), lambda _answers: ())
_NO_NEIGHBOURS: Final[Question[dict[str, Neighbour]]] = Question((), lambda _answers: {})
_NO_STATES: Final[Question[dict[str, bool]]] = Question((), lambda _answers: {})
Lines = tuple[str, ...]


class RoceProfile(NamedTuple):
    """The one RoCE profile of a system, which gives trust, priorities and classes together."""

    priority: int
    cnp_priority: int
    ecn_min_bytes: int
    ecn_max_bytes: int
    mark_percent: int
    marked_classes: frozenset[int]
    """Classes that it marks: RoCE's, and on Cumulus that of everything else."""
    ecn_tolerance: float
    """Share by which a file may miss the thresholds."""
    others_since: Release
    """First release in which a port can have other thresholds and shares."""


class Recommended(NamedTuple):
    """Thresholds and most marked packets for ports of one speed and faster ones."""

    from_gbit_s: int
    min_kib: int
    max_kib: int
    mark_percent: int
    source: str
    """Who recommends it."""


OTHERS: Final = Recommended(0, 150, 1500, 100, "NVIDIA sets them for ports of every speed")
"""For systems without their own, and for a switch of which the file has only the name."""


class Caution(NamedTuple):
    """A fact that a person should know beforehand, although no rule refuses it."""

    text: str
    fix: str
    until: Release | None = None
    """First release without it; None: every one has it."""
    unnumbered: bool = False
    """It concerns only links without addresses."""


class RoutedForm(NamedTuple):
    """How a routed system writes its routing; the defaults are Cumulus'."""

    loopback: str = "lo"
    """The interface with the router's identifier."""
    vlan: str = "vlan{}"
    """The routed interface of a VLAN."""
    link: tuple[str, ...] = ()
    """Further settings of a routed port that let BGP run over it without an address."""
    own_mtu: bool = False
    """Routed interfaces have their own MTU, apart from that of switched frames."""
    says_number: bool = False
    """A neighbour is named with its number; elsewhere any other number than the switch's own will
    do, and both ends of a link can be of different systems either way."""
    max_paths: int | None = None
    """Equal paths to ask for; None: all are used by default."""
    forwards: bool | None = None
    """A separate line turns routing on; None: the system lacks such a line."""
    sessions: str = "nv show vrf default router bgp neighbor"
    """The command for all sessions, for people."""
    session: str = "nv show vrf default router bgp neighbor {}"
    bfd_sessions: str = "sudo vtysh -c 'show bfd peers'"
    routes: str = "sudo vtysh -c 'show ip route bgp'"
    route: str = "sudo vtysh -c 'show bgp ipv4 unicast {}'"
    """The command for all ways to one network, in use or not."""
    cautions: tuple[Caution, ...] = ()
    """Cautions about files that route such a switch."""


USUAL_FORM: Final = RoutedForm()
"""The form of most systems."""


class LinkForm(NamedTuple):
    """How a system writes the speed, FEC and negotiation of a link."""

    words: Callable[[LinkSettings, int | None], Mapping[str, str]]
    """`speed`, `fec` and `autoneg` of `PortState`, from the wish and the lanes for that speed on
    the port, if they are known; values left to the switch are missing."""
    by_lanes: bool = False
    """Speed and lanes are one word. Every part of a port is always there, and that word is what
    splits the port; elsewhere a split is a setting of the whole port."""


def _count_nothing(ports: Sequence[str]) -> Question[dict[str, base.PortCounters]]:
    """On InfiniBand, the adapters count."""
    raise Bug(f"no counters of InfiniBand ports are read: {', '.join(ports)}")


@record
class SwitchSystem:
    """One switch system. A text in place of a value gives the reason why the value is missing."""

    name: str
    """The `os` of the file."""
    title: str
    """Its name for people."""
    read_commands: Callable[[SwitchState], tuple[str, ...]]
    """The commands that show the settings in a wanted state."""
    parse: Callable[[Mapping[str, str], SwitchState], base.Reading]
    """Reads the answers; raises `Unreadable` if one has another form than expected."""
    plan_changes: Callable[[SwitchState, SwitchState], tuple[base.Change, ...]]
    """The ordered way from an actual state to a target, empty when they agree; raises `Unsettable`
    if no line leads there."""
    find_refusal: Callable[[str], str | None]
    """The system's error text in the output of a command, or None."""
    factory_state: Callable[[Sequence[str]], SwitchState]
    """The state of an untouched switch with these ports."""
    intent: Callable[[Rdma], tuple[SwitchState, PortState]]
    """What the RoCE of a file means to the switch and to each of its ports, without VLANs and MTU:
    only keys that this system has."""
    session: SessionProfile
    exec_form: ExecForm | str
    """How the whole configuration goes as one exec request."""
    whole_command: Callable[[Mapping[str, str], SwitchState], str | None] = lambda _a, _b: None
    """From the answers so far to the next command that reads all ports at once; None: no more. The
    answer to a refused one is blank. A system can do without if its `read_commands` are few on any
    switch."""
    rest_commands: Callable[[Mapping[str, str], SwitchState], tuple[str, ...]] | None = None
    """The rest of `read_commands` after those answers; `parse` gets the answers to both. None: all
    of them."""
    enter: Sequence[str] = ()
    """Lines from login to the mode for show commands."""
    configure: Sequence[str] = ()
    """Lines from there to configuration mode; show commands stay possible."""
    guard: base.Guard | None = None
    """How changes are confirmed; None: a line stays once it was taken or applied."""
    save: str = ""
    """Makes the running configuration the one that boots; empty if every line does."""
    ports: Question[tuple[str, ...]] = _NO_PORTS
    """Every port of the switch. On InfiniBand Railyard sets no ports."""
    neighbours: Question[dict[str, Neighbour]] = _NO_NEIGHBOURS
    """LLDP: port to neighbour; a port that heard nothing is left out."""
    link_states: Question[dict[str, bool]] = _NO_STATES
    """Port to whether it has a link; without it, only LLDP and BGP tell."""
    sessions: tuple[Question[Sessions], Question[Sessions]] | None = None
    """BGP with all neighbours, without and with BFD; None: the driver routes nothing."""
    counters: Callable[[Sequence[str]], Question[dict[str, base.PortCounters]]] = _count_nothing
    """The counters of some ports by priority."""
    by_hand: base.ByHand | None = None
    """Ports must be split before an update. None: the driver splits them, or nothing does."""
    taken: PortState | None = None
    """All that a one-shot sets on every port, as a wish, if it resets queues when it goes."""
    identity: IdentityQuestions | None = None
    """The questions about model, release and the rights of a login; None: not asked."""
    min_release: Release = (0, 0, 0)
    """Oldest release with the commands we send and the answers we read, on any model."""
    older: str = "lacks commands that its driver sends"
    """The fault of a switch of an older release, in words that follow its name."""
    reads_release: Callable[[str], bool] = switch_model.is_numbered
    """Whether a text is a release of the system at all."""
    profile: RoceProfile | None = None
    """The profile if RoCE comes as a whole; None: each setting is set separately."""
    a_release: str = "1.2.3"
    """A release as a file writes it, for people."""
    parse_release: Callable[[str], Release] = switch_model.parse_release
    """How the system counts its releases."""
    show_release: Callable[[Release], str] = switch_model.show_release
    native_of: Callable[[Release], Mapping[str, str]] = lambda _release: {}
    """The `native` of an untouched switch of a release, if the words of lines depend on it."""
    one_shot_modes: frozenset[Mode] = frozenset()
    """Modes set by one command for the whole switch, on priority 3 only."""
    one_shot_flaps: bool = False
    """Such a command may flap every port."""
    semi_lossless: str | None = "it documents no mode that pauses in one direction only"
    """Why this mode is missing; None: the system has it."""
    pfc_watchdog: Release | str = "no command of it is known here"
    """First release with a PFC watchdog per port."""
    cable_length: Release | str = "no command of it is known here"
    """First release in which the headroom of the lossless buffer follows the length of a cable."""
    cable_per_port: bool = False
    """Each port has its own length; else the longest one counts for the whole switch."""
    default_cable_m: int = 100
    """Length that a system assumes for a cable without one in the file (NVUE reference)."""
    recommended: tuple[Recommended, ...] = (OTHERS,)
    """When a queue marks, by the speed of the port, ascending."""
    port_ecn: str | None = "its ECN thresholds are one setting for the whole switch"
    """Why a port cannot have its own thresholds; None: it can."""
    mark_percent: str | None = "no command of it is known here"
    """Why it marks all packets at the upper threshold; None: the share can be set."""
    class_shares: str | None = "no command of them is known here"
    """Why classes cannot have shares of a port; None: they can."""
    watchdog_ms: str | None = "no command of them by port is known here"
    """Why the watchdog has its own times; None: they can be set by port."""
    cnp_class: str | None = "no documented command puts a DSCP into another class"
    """Why the notifications are in the class of their DSCP; None: the map can be set."""
    adaptive_routing: Release | str = "its driver sets none"
    """First release whose adaptive routing is past beta."""
    routing: Release | str = "its driver sets no routed ports and no BGP"
    """First release that can route between switches."""
    routed: RoutedForm = USUAL_FORM
    """How the system writes its routing."""
    drain: base.Drain | str = "its driver sets no BGP"
    """How traffic leaves it gracefully before it changes, or why it cannot."""
    rows: Mapping[str, Release] = field(default_factory=dict[str, Release])
    """Each port setting with a row, named as in `PortState`, to the first release with its line."""
    lacking: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a setting lacks a row, if the reason is more than that its line is unknown."""
    native_apart: bool = False
    """A trunk keeps its untagged VLAN apart from the access VLAN; else such a port is hybrid."""
    reserved_vlans: range = range(0)
    """VLANs that the switching chip uses itself."""
    all_strict: bool = False
    """Every class is strict until a line says otherwise."""
    class_of_dscp: Callable[[int], int] = lambda dscp: dscp // DSCP_PER_CLASS
    """The class, or priority, of a DSCP before a line maps it."""
    template_marks: frozenset[int] = frozenset()
    """Classes that its template for all ports marks."""
    splits: Release | None = None
    """First release in which its driver splits ports; None: ports must have been split before."""
    links: LinkForm | str = "its driver sets none"
    """How it writes link settings, or why it cannot."""
    unproven: Mapping[str, str] = field(default_factory=dict[str, str])
    """Pattern of settings to the reason why their lines lack a source of the vendor, which a
    preview shows. If the reading after the change differs, the old values are put back."""
    repairs: frozenset[str] = frozenset()
    """Kinds of guards whose harmless value the driver sets, and puts back exactly."""
    fixes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kind of guard to the line that makes it harmless, for people."""

    def since(self, name: str) -> Release | str | None:
        """The first release with a feature or port setting, or why it lacks it; None: any."""
        if name in SwitchSystem.__dataclass_fields__:
            return getattr(self, name)
        return self.rows.get(name) or self.lacking.get(name, "no command for it is known")


@record
class ExecForm:
    """How a system takes many lines as one exec request: as a chain of bash, or as `cli "…"`."""

    expects: str
    """Pattern of the whole output of an apply that went well; anything else is an error."""
    cli: bool = False
    """Its command line takes each line in quotes, behind the word `cli`."""
    commit: Lines = ()
    """Puts an apply and an undo into force, or says that all went well."""
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])
    """Setting that an exec, which reads nothing first, could not put back, to its words."""
    given: tuple[object, ...] = ()
    """Values of settings in `lacks` that are accepted all the same."""
    native: Callable[[str, PortState], dict[str, str]] = lambda _name, _port: {}
    """The `native` to assume for an unread port."""
    around: Callable[[SwitchState, Lines], Lines] = lambda _desired, lines: lines
    """The lines of an apply, with those that make them right over any state."""
    around_undo: Callable[[SwitchState, Lines], Lines] = lambda _desired, lines: lines
    """The lines of an undo, made to spare things that others use by now."""
    unproven: str = ""
    """Lines of the undo with a source that were never seen on a switch; the plan names them."""


_KINDS: Final[Mapping[str, type]] = {
    "session": SessionProfile,
    "exec_form": ExecForm,
    "identity": IdentityQuestions,
    **dict.fromkeys(("release", "model", "serial", "base_mac", "rights"), Field),
    "routed": RoutedForm,
    "cautions": Caution,
    "recommended": Recommended,
    "drain": base.Drain,
    "guard": base.Guard,
    "by_hand": base.ByHand,
}
"""Key of a table in `system.yaml` to its type; every other table is a mapping."""


def load_facts(name: str, **code: Mapping[str, object]) -> dict[str, Any]:
    """The facts of a system by field of `SwitchSystem`; `code` adds keys to their tables."""
    text = (Path(__file__).parent / name / "system.yaml").read_text()
    facts: dict[str, Any] = {"name": name} | parse_own(text)
    facts |= {key: {**facts[key], **parts} for key, parts in code.items()}
    return {key: _made(key, value) for key, value in facts.items()}


def _made(key: str, value: Any) -> Any:  # noqa: ANN401 - of any form
    if isinstance(value, list):
        return tuple(_made(key, each) for each in cast("list[object]", value))
    if isinstance(value, set):
        return frozenset(cast("set[object]", value))
    if not isinstance(value, dict):
        return value
    parts = {name: _made(name, each) for name, each in cast("dict[str, object]", value).items()}
    return _KINDS[key](**parts) if key in _KINDS else parts
