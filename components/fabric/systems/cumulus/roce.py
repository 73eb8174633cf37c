"""The RoCE profile of the switch, and marking and shares beside it, which a port names. Pure.

A profile of ours is called by what it holds, `railyard-300-3000-20`, so that none is ever changed:
a port moves to another one, and the one that no port names goes. A port that names a profile has
nothing of the RoCE profile's in that section, so ours holds every class of it (page "Quality of
Service", Port Groups).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from components.fabric.parts import read_fields, write_fields
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.base import Unsettable
from components.fabric.systems.cumulus.rows import ON, switched_on
from components.fabric.systems.cumulus.tree import Line, Tree, child, collapse_ports, expand_names
from components.fabric.systems.ranges import collapse_vlans

# The profile, by the table of defaults and the transcripts of the vendor's page on RoCE.
ROCE_PRIORITY: Final = 3
CNP_PRIORITY: Final = 6
"""Served strictly, from DSCP 48 to 55."""
ECN_MIN_BYTES: Final = 150_000
ECN_MAX_BYTES: Final = 1_500_000
DSCP_PER_CLASS: Final = 8
"""The profile's own table: DSCP 24 to 31 are priority 3."""
MARKED_CLASSES: Final = frozenset({0, ROCE_PRIORITY})
"""`enabled-tc 0,3`."""
BYTES_PER_KIB: Final = 1024
ECN_MIN_KIB: Final = ECN_MIN_BYTES // BYTES_PER_KIB
"""146; `nv show qos roce` prints 146.48 KB."""
ECN_MAX_KIB: Final = ECN_MAX_BYTES // BYTES_PER_KIB
"""1464; printed as 1.43 MB."""
ECN_TOLERANCE: Final = 0.05
"""Share by which a file may miss the profile's thresholds: 150 KiB is 2.4 % more than 150,000
bytes, and the hardware itself rounds to 153 or 156 KiB."""
PREFIX: Final = "railyard-"
MARKING: Final = "congestion-control"
SHARES: Final = "egress-scheduler"
SECTIONS: Final = (MARKING, SHARES)
PROFILES: Final = "profiles"
"""Key of a switch's `native`: our profiles, and who names them."""
GIVEN: Final = EcnState(min_kib=ECN_MIN_KIB, max_kib=ECN_MAX_KIB)
"""What the RoCE profile marks by."""
_GIVEN_SHARES: Final = ({0: 50, ROCE_PRIORITY: 50}, (CNP_PRIORITY,))
"""Its shares and strict classes (page on RoCE, table of defaults)."""
_MARKED: Final = f"ecn_{ROCE_PRIORITY}"
_SHARED: Final = f"schedule_{ROCE_PRIORITY}"
"""Keys of a port's `native` that hold the name of a profile."""


def named_of(entry: Tree) -> dict[str, str]:
    """Section to the profile that a port names in it."""
    found = {section: child(entry, "qos", section).get("profile") for section in SECTIONS}
    return {section: name for section, name in found.items() if isinstance(name, str)}


def is_ours(name: str) -> bool:
    """Whether a profile bears our name."""
    return name.startswith(PREFIX)


def holders(tree: Tree) -> dict[str, str]:
    """Our profiles, `congestion-control railyard-…`, to the ports that name each of them."""
    users: dict[str, list[str]] = {}
    for section in SECTIONS:
        for name in filter(is_ours, child(tree, "qos", section)):
            users[f"{section} {name}"] = []
    for key in child(tree, "interface"):
        for section, name in named_of(child(tree, "interface", key)).items():
            if is_ours(name):
                users.setdefault(f"{section} {name}", []).extend(expand_names(key))
    return {profile: ",".join(names) for profile, names in sorted(users.items())}


def write_holders(found: Mapping[str, str]) -> dict[str, str]:
    """The same as a switch's `native` holds it; nothing where there is none."""
    return {PROFILES: write_fields(found)} if found else {}


def native_of(named: Mapping[str, str], wanted: PortState) -> dict[str, str]:
    """What must be put back of a port, by the settings that are asked for."""
    found: dict[str, str] = {}
    if wanted.ecn and MARKING in named:
        found[_MARKED] = named[MARKING]
    if wanted.strict_classes is not None and SHARES in named:
        found[_SHARED] = named[SHARES]
    return found


@dataclass(frozen=True, slots=True)
class _Move:
    """One port that names another profile, or none: then its name is empty."""

    port: str
    section: str
    was: str
    name: str
    lines: tuple[Line, ...] = ()
    """What the profile holds."""


def profile_changes(actual: SwitchState, target: SwitchState) -> Iterator[Line]:
    """Profiles that ports need, the ports' names of them, and what nothing names any more."""
    moves = tuple(_all_moves(actual, target))
    users = {
        profile: {*filter(None, names.split(","))}
        for profile, names in read_fields(actual.native.get(PROFILES)).items()
    }
    made: dict[str, tuple[Line, ...]] = {}
    named: dict[tuple[str, str], list[str]] = {}
    for move in moves:
        users.setdefault(f"{move.section} {move.was}", set()).discard(move.port)
        if move.name and f"{move.section} {move.name}" not in users:
            made[f"{move.section} {move.name}"] = move.lines
        named.setdefault((move.section, move.name), []).append(move.port)
    for move in moves:
        users.setdefault(f"{move.section} {move.name}", set()).add(move.port)
    for lines in made.values():
        yield from lines
    for (section, name), ports in named.items():
        path = f"interface {collapse_ports(ports)} qos {section}"
        yield Line("set", f"{path} profile", name) if name else Line("unset", path)
    for profile, left in sorted(users.items()):
        if not left and is_ours(profile.partition(" ")[2]):
            yield Line("unset", f"qos {profile}")


def _moved_ports(actual: SwitchState, target: SwitchState) -> set[tuple[str, str]]:
    """Port and section of what these lines settle."""
    return {(move.port, move.section) for move in _all_moves(actual, target)}


def _all_moves(actual: SwitchState, target: SwitchState) -> Iterator[_Move]:
    for name, port in target.ports.items():
        was = actual.ports.get(name, PortState())
        for section, key, wanted in (
            (MARKING, _MARKED, _marking(was, port)),
            (SHARES, _SHARED, _shares(was, port)),
        ):
            held = was.native.get(key, "")
            if key in port.native:
                move = _Move(name, section, held, port.native[key])
            elif wanted is None or (not wanted[0] and not is_ours(held)):
                continue  # what others named stays
            else:
                move = _Move(name, section, held, *wanted)
            if move.name != held:
                yield move


def _marking(was: PortState, port: PortState) -> tuple[str, tuple[Line, ...]] | None:
    """The profile that a port needs, and what is in it; None: nothing is to be done."""
    wanted = port.ecn.get(ROCE_PRIORITY)
    if ROCE_PRIORITY not in port.ecn or wanted == was.ecn.get(ROCE_PRIORITY) != GIVEN:
        return None
    if wanted is None or wanted == GIVEN:
        return "", ()
    name = f"{PREFIX}{wanted.min_kib}-{wanted.max_kib}-{wanted.percent}"
    head = f"qos {MARKING} {name} traffic-class {collapse_vlans(MARKED_CLASSES)}"
    return name, (
        Line("set", f"{head} ecn", "enable"),
        Line("set", f"{head} min-threshold", wanted.min_kib * BYTES_PER_KIB),
        Line("set", f"{head} max-threshold", wanted.max_kib * BYTES_PER_KIB),
        Line("set", f"{head} probability", wanted.percent),
    )


def _shares(was: PortState, port: PortState) -> tuple[str, tuple[Line, ...]] | None:
    strict = port.strict_classes or ()
    if not port.class_shares:
        return None
    if not any(port.class_shares.values()):
        return "", ()
    held, same = was.native.get(_SHARED, ""), was.class_shares == port.class_shares
    if same and was.strict_classes == strict and not is_ours(held):
        return None
    shares = {tc: n for tc, n in sorted(port.class_shares.items()) if n and tc not in strict}
    words = [f"{tc}x{share}" for tc, share in shares.items()]
    name = PREFIX + "-".join([*words, "s" + "".join(map(str, sorted(strict)))])
    needs_none = not held or (is_ours(held) and held != name)  # what took the place of theirs stays
    if (port.class_shares, strict) == _GIVEN_SHARES and needs_none:
        return "", ()
    head = f"qos {SHARES} {name} traffic-class"
    lines = [
        line
        for tc, share in shares.items()
        for line in (
            Line("set", f"{head} {tc} mode", "dwrr"),
            Line("set", f"{head} {tc} bw-percent", share),
        )
    ]
    lines += [Line("set", f"{head} {tc} mode", "strict") for tc in sorted(strict)]
    return name, tuple(lines)


def mode_lines(actual: SwitchState, target: SwitchState) -> Iterator[Line]:
    """The profile of the whole switch.

    Raises:
        Unsettable: The profile is the wanted one and does not give what it should.
    """
    if target.roce in {None, actual.roce}:
        _require_profile(actual, target)
    elif target.roce == "none":
        yield Line("unset", "qos roce")
    else:
        yield Line("set", "qos roce mode", target.roce, switched_on("qos roce", actual))


def _require_profile(actual: SwitchState, target: SwitchState) -> None:
    """What only the profile sets must be there with it.

    A port that leaves the file would have less, and keeps what the profile gives to every port.
    """
    if target.roce in {None, "none"}:
        return
    found: list[str] = []
    moved = _moved_ports(actual, target)
    culprit = next(iter(target.ports), "swp1")
    if target.pfc_priorities not in {None, actual.pfc_priorities}:
        found.append(f"pfc_priorities are {actual.pfc_priorities}, want {target.pfc_priorities}")
    for name, port in target.ports.items():
        was, before = actual.ports.get(name, PortState()), len(found)
        if port.trust not in {None, was.trust}:
            found.append(f"trust of {name} is {was.trust}, want {port.trust}")
        found += [
            f"ECN of class {tc} is {was.ecn.get(tc)}, want {ecn}"
            for tc, ecn in port.ecn.items()
            if ecn is not None and was.ecn.get(tc) != ecn and (name, MARKING) not in moved
        ]
        strict = {*(port.strict_classes or ())} - {*(was.strict_classes or ())}
        if strict and (name, SHARES) not in moved:
            found.append(f"strict classes are {was.strict_classes}, want {port.strict_classes}")
        culprit = name if not before and found else culprit
    if found:
        raise Unsettable(
            f"the RoCE profile {target.roce} is active, but other QoS settings on the switch "
            f"override it: {'; '.join(dict.fromkeys(found))}. Find them under `qos` in `nv config "
            f"show` and unset them, for example `nv unset interface {culprit} qos mapping`"
        )


_GLOBAL: Final = "default-global"


@dataclass(frozen=True, slots=True)
class OwnQos:
    """What a port has that the RoCE profile did not give it; the default value: nothing."""

    rewrite_dscp: bool = False
    ecn: Mapping[int, EcnState | None] = field(default_factory=dict[int, EcnState | None])
    pfc_priorities: tuple[int, ...] | None = None
    priorities: Mapping[int, int] = field(default_factory=dict[int, int])
    """DSCP to switch priority, of the DSCPs that are named."""
    strict: tuple[int, ...] | None = None
    """None: the schedule is the profile's."""
    shares: Mapping[int, int] = field(default_factory=dict[int, int])
    """Class to its percent of the port."""


def own_qos(tree: Tree, entry: Tree) -> OwnQos:
    """What is set for one port.

    Args:
        tree: The whole configuration.
        entry: The interface in it.
    """

    def profile(section: str) -> Tree:
        name = child(entry, "qos", section).get("profile", _GLOBAL)
        return child(tree, "qos", section, str(name))

    scheduled = {*_rows(profile("egress-scheduler"), "traffic-class")}
    modes = {tc: str(row.get("mode", "")) for tc, row in _each(profile("egress-scheduler"))}
    shares = {tc: row.get("bw-percent") for tc, row in _each(profile("egress-scheduler"))}
    paused = profile("pfc")
    return OwnQos(
        rewrite_dscp=profile("remark").get("rewrite") in {"l3", "both"},
        ecn={tc: _ecn(row) for tc, row in _each(profile("congestion-control"))},
        pfc_priorities=tuple(sorted(_rows(paused, "switch-priority"))) if paused else None,
        priorities={
            dscp: int(str(row["switch-priority"]))
            for dscp, row in _each(profile("mapping"), "dscp")
            if "switch-priority" in row
        },
        strict=tuple(sorted(tc for tc, mode in modes.items() if mode == "strict"))
        if scheduled
        else None,
        shares={tc: share for tc, share in shares.items() if isinstance(share, int)},
    )


def _rows(profile: Tree, key: str) -> Iterator[int]:
    """The numbers below a key; one key may stand for several: `0-2,5`."""
    for name in child(profile, key):
        yield from (int(each) for each in expand_names(name) if each.isdecimal())


def _each(profile: Tree, key: str = "traffic-class") -> Iterator[tuple[int, Tree]]:
    for name in child(profile, key):
        row = child(profile, key, name)
        yield from ((int(each), row) for each in expand_names(name) if each.isdecimal())


def _ecn(row: Tree) -> EcnState | None:
    """Both spellings of the thresholds are published, and both are bytes."""
    marks, drops = (str(row.get(key, "")) in ON for key in ("ecn", "red"))
    if not (marks or drops):
        return None
    low, high = (
        int(str(row.get(f"{end}-threshold-bytes", row.get(f"{end}-threshold", 0))))
        for end in ("min", "max")
    )
    kind = "both" if marks and drops else "ecn" if marks else "red"
    return EcnState(
        min_kib=low // BYTES_PER_KIB,
        max_kib=high // BYTES_PER_KIB,
        percent=int(str(row.get("probability", 100))),
        kind=kind,
    )
