"""Foreign settings of switches that break our traffic: one table of rules. Pure.

A reading of a switch is compared with the classes that the file plans. A rule sees the ports of
rails and links, and the settings of the whole switch, so the time is linear in ports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

from components.core.difference import Difference, ForeignSetting
from components.core.record import record
from components.core.settings import plain
from components.core.templates import read_table
from components.fabric.effects import collapse
from components.fabric.parts import Frozen
from components.fabric.state import DSCP_COUNT, OtherPorts, PortState, SwitchState, list_vlans
from components.fabric.systems import system_of
from components.fabric.systems.ranges import collapse_vlans
from components.fabric.systems.switch_system import SwitchSystem

_SVI: Final = re.compile(r"vlan\d+", re.IGNORECASE)
"""The switch's own interface in a VLAN: no port."""
BREAKS: Final[Mapping[str, str]] = read_table(__file__, "breaks")
_FIXES: Final = {"switch.foreign_ports": "take the VLAN off those ports, or name them in the file"}
_OTHER_FIX: Final = "set it to {harmless} on {port}"
"""The fix of a kind that its system does not name."""


class Guarded(Frozen):
    """The classes of a site's traffic, which other settings must leave alone."""

    mode: Literal["lossy_ecn", "lossless", "semi_lossless"]
    priority: int
    traffic_class: int
    dscp: int
    cnp_priority: int
    cnp_dscp: int


def with_guarded_settings(asked: SwitchState) -> SwitchState:
    """Add the settings that the rules check to those to read; this needs no further session."""
    ports = {
        name: port.model_copy(
            update={
                "pfc": port.pfc or False,
                "rewrite_dscp": False,
                "class_shares": port.class_shares or {0: 0},
                "dscp_priorities": port.dscp_priorities or {0: 0},
            }
        )
        for name, port in asked.ports.items()
    }
    more = {
        "pfc_priorities": asked.pfc_priorities or (),
        "pfc_enabled": asked.pfc_enabled or False,
        "dscp_classes": dict.fromkeys(range(DSCP_COUNT), 0) | (asked.dscp_classes or {}),
        "rewrite_dscp": False,
        "others": OtherPorts(),
    }
    return asked.model_copy(update=more | {"ports": ports})


@record
class _Case:
    """One port, or the switch, as a rule sees it."""

    classes: Guarded
    system: SwitchSystem
    found: PortState
    wanted: PortState
    paused: tuple[int, ...] = ()
    """Priorities that the whole switch pauses, if ports lack their own lists."""
    is_new: bool = False
    """Nothing was ever applied to the port."""


@record
class _Hit:
    setting: str
    actual: str
    harmless: str
    breaks: str
    number: int = 0
    """The class, priority or DSCP that the fix names."""
    keys: tuple[str, ...] = ()
    """Its names in a state, if they differ from `setting`."""


Rule = Callable[[_Case], Iterator[_Hit]]


def _schedule(case: _Case) -> Iterator[_Hit]:
    """RoCE must wait only for CNP, and no other class may have a larger share."""
    ours, strict = case.classes.traffic_class, {*(case.found.strict_classes or ())}
    shares = case.found.class_shares or case.found.wrr_weights
    if case.found.strict_classes is None:
        return
    if case.system.all_strict:
        if ours not in strict:
            share = f"round robin, {shares.get(ours, 0)} %"
            yield _Hit(f"tc{ours}_schedule", share, "strict", BREAKS["starved"], ours)
        return
    for tc in sorted(strict - {case.classes.cnp_priority}):
        breaks = BREAKS["starves" if tc == ours else "starved"]
        yield _Hit(f"tc{tc}_schedule", "strict", "round robin", breaks, tc)
    most = max((share for tc, share in shares.items() if tc not in strict), default=0)
    # Onyx' factory weights are 12 and 13 in turn: a twelfth is rounding.
    if ours not in strict and 12 * (most - shares.get(ours, most)) > most:
        yield _Hit(f"tc{ours}_share", str(shares[ours]), f"{most} or more", BREAKS["starved"], ours)


def _rewrite(case: _Case) -> Iterator[_Hit]:
    if case.found.rewrite_dscp:
        yield _Hit("rewrite_dscp", "on", "off", BREAKS["rewrite"])


def _ecn_elsewhere(case: _Case) -> Iterator[_Hit]:
    """Classes marked besides ours, unless the vendor's profile or template intends that."""
    classes, profile = case.classes, case.system.profile
    for tc, ecn in sorted(case.found.ecn.items()):
        if ecn is None or tc == classes.traffic_class:
            continue
        if profile is not None and tc in profile.marked_classes:
            is_meant = ecn == case.wanted.ecn.get(classes.traffic_class)
        else:
            is_meant = tc in case.system.template_marks and ecn.kind == "ecn"
            is_meant &= tc != classes.cnp_priority
        name = "notices" if tc == classes.cnp_priority else "marked"
        if not is_meant:
            yield _Hit(f"tc{tc}_ecn_kib", str(ecn), "off", BREAKS[name].format(tc=tc), tc)


def _pfc_elsewhere(case: _Case) -> Iterator[_Hit]:
    """Priorities paused outside the plan; the PFC of the semi-lossless one-shot is not public."""
    if case.classes.mode == "semi_lossless":
        return
    listed = case.found.pfc_priorities
    planned = () if case.classes.mode == "lossy_ecn" else (case.classes.priority,)
    paused = case.paused if listed is None else listed
    extra = tuple(n for n in paused if n not in planned) if case.found.pfc is not False else ()
    if not extra:
        return
    breaks = BREAKS["pauses" if case.classes.priority in extra else "pauses_others"]
    if listed is None:
        yield _Hit("pfc", "on", "off", breaks, extra[0])
    else:
        yield _Hit("pfc_priorities", plain(listed), plain(planned), breaks, extra[0])


def _map_hits(case: _Case, found: Mapping[int, int], unit: str) -> Iterator[_Hit]:
    """Our DSCPs in other classes, and others in ours; equal moves make one hit."""
    classes, alike = case.classes, dict[tuple[int, str, str], list[int]]()
    ours = {classes.dscp: classes.priority, classes.cnp_dscp: classes.cnp_priority}
    for dscp, number in sorted(found.items()):
        usual = case.system.class_of_dscp(dscp)
        right = ours.get(dscp, number if number not in ours.values() else usual)
        if number != right:
            breaks = BREAKS["moved"] if dscp in ours else BREAKS["joined"].format(number=number)
            alike.setdefault((number, str(right), breaks), []).append(dscp)
    for (number, right, breaks), dscps in alike.items():
        setting = f"dscp_{collapse_vlans(dscps)}_{unit}"
        keys = tuple(f"dscp_{dscp}_{unit}" for dscp in dscps)
        yield _Hit(setting, str(number), right, breaks, dscps[0], keys)


def _other_vlans(case: _Case) -> Iterator[_Hit]:
    held, wanted = case.found.trunk_vlans, case.wanted.trunk_vlans
    if wanted is None or held is None or case.found.mode != case.wanted.mode:
        return
    extra = {*list_vlans(held)} - {*list_vlans(wanted)}
    if extra:
        actual = "all" if held == "all" else collapse_vlans(list_vlans(held))
        harmless = collapse_vlans(list_vlans(wanted))
        yield _Hit("trunk_vlans", actual, harmless, BREAKS["shared"], min(extra))


OF_PORTS: Final[Mapping[str, Rule]] = {
    "switch.schedule": _schedule,
    "switch.rewrite": _rewrite,
    "switch.ecn_elsewhere": _ecn_elsewhere,
    "switch.pfc_elsewhere": _pfc_elsewhere,
    # The first update replaces the map of SONiC as a whole.
    "switch.dscp_map": lambda case: (
        iter(())
        if case.is_new and case.wanted.dscp_priorities
        else _map_hits(case, case.found.dscp_priorities, "priority")
    ),
    "switch.other_vlans": _other_vlans,
}


@record
class Look:
    """One look at a switch, and what its settings are held against."""

    os: str
    found: SwitchState
    """The reading, with the settings that `with_guarded_settings` added."""
    wanted: SwitchState
    """The file's state: we own its keys, and the drift check reports on them."""
    was: SwitchState
    """The last applied state, whose keys we own as well."""
    order: Mapping[str, int]
    """Port to its number on the switch."""


def find_foreign_settings(classes: Guarded | None, look: Look) -> tuple[ForeignSetting, ...]:
    """Every foreign setting that breaks our traffic; `classes` is None on a switch without RoCE."""
    if classes is None or look.found.others is None:
        return ()
    ours = {**look.was.settings(), **look.wanted.settings()}
    alike: dict[tuple[str, _Hit], list[str]] = {}
    for where, kind, hit in _hits(classes, look):
        # The drift check reports on the file's own settings.
        if not any((where, name) in ours for name in (hit.setting, *hit.keys)):
            ports = alike.setdefault((kind, hit), [])
            ports += [where.removeprefix("port ")] if where != "switch" else []
    findings: list[ForeignSetting] = []
    for (kind, hit), ports in alike.items():
        where, port = (collapse(ports, look.order), ports[0]) if ports else ("switch", "")
        text = {**_FIXES, **system_of(look.os).fixes}.get(kind, _OTHER_FIX)
        share = "".join(filter(str.isdigit, hit.harmless)) or "12"
        fix = text.format(port=port, n=hit.number, harmless=hit.harmless, share=share)
        fix += "; repeat for the other ports" if len(ports) > 1 else ""
        differs = Difference(where, hit.setting, hit.actual, hit.harmless)
        findings.append(ForeignSetting(kind, differs, hit.breaks, fix))
    return tuple(findings)


def _hits(classes: Guarded, look: Look) -> Iterator[tuple[str, str, _Hit]]:
    system, found = system_of(look.os), look.found
    whole = _Case(classes, system, PortState(rewrite_dscp=found.rewrite_dscp), PortState())
    yield from (("switch", "switch.rewrite", hit) for hit in _rewrite(whole))
    maps = _map_hits(whole, found.dscp_classes or {}, "class")
    yield from (("switch", "switch.dscp_map", hit) for hit in maps)
    others = found.others or OtherPorts()
    for vlan in look.wanted.vlans:
        ports = [name for name in others.by_vlan.get(vlan, ()) if not _SVI.fullmatch(name)]
        if names := ", ".join(dict.fromkeys((*ports, *others.of_all))):
            hit = _Hit(f"vlan_{vlan}_ports", names, "those of the file", BREAKS["foreign"], vlan)
            yield "switch", "switch.foreign_ports", hit
    paused = found.pfc_priorities if found.pfc_enabled else ()
    for name, wanted in look.wanted.ports.items():
        port = found.ports.get(name, PortState())
        case = _Case(classes, system, port, wanted, paused or (), name not in look.was.ports)
        for kind, rule in OF_PORTS.items():
            yield from ((f"port {name}", kind, hit) for hit in rule(case))
