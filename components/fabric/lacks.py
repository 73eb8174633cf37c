"""What a file asks of a switch whose system or release has no such thing: for plan and rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from components.catalogue.switches.switch_model import Release
from components.fabric.queues import as_profile, link_speed, marking_of
from components.fabric.state import EcnState
from components.fabric.systems import driver_of, least_release, system_of
from components.fabric.systems.switch_system import RoceProfile, SwitchSystem
from components.model.fabric import DSCP_PER_PRIORITY, Rdma, Switch

Topic = Literal[
    "roce-mode",
    "pfc-watchdog",
    "cable-length",
    "port-ecn",
    "queue-setting",
    "packet-spreading",
    "routed-link",
    "edge-ports",
]


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that is asked for and not there."""

    topic: Topic
    what: str
    """For example `mode semi_lossless is not there on Cumulus`."""
    why: str
    place: tuple[str, ...]
    """Path below the switch, or below the file if it begins with `rdma`."""
    fix: str | None = None
    """What to do, where it is not the same for the whole topic."""


def lacks(rdma: Rdma, switch: Switch) -> Iterator[Lack]:
    """List what the file asks of this switch in vain; InfiniBand has rules of its own."""
    if switch.carries != "roce":
        return
    system = system_of(switch.os)
    if rdma.mode == "semi_lossless" and system.semi_lossless is not None:
        yield Lack(
            "roce-mode",
            f"there is no semi_lossless on {_title(switch)}",
            system.semi_lossless,
            ("rdma", "mode"),
        )
    yield from _queues(rdma, switch, system)
    yield from _spreading(rdma, switch, system)
    yield from _routing(switch, system)
    yield from _watchdog(rdma, switch, system)
    missing = _missing(system.edge_ports, switch)
    if switch.edge_ports and missing is not None:
        what = f"no port has a BPDU guard on {_title(switch)}"
        yield Lack("edge-ports", what, missing, ("edge_ports",))
    yield from _ports(rdma, switch, system)


def _queues(rdma: Rdma, switch: Switch, system: SwitchSystem) -> Iterator[Lack]:
    """Settings of queues, each by the key that asks for it."""
    title = _title(switch)
    partly = [
        speed
        for speed, each in rdma.ecn_by_speed.items()
        if each.mark_percent != _ALL and system.mark_percent
    ]
    percent = rdma.ecn_mark_percent not in {None, _ALL}
    asked: tuple[tuple[bool, str, str | None, str], ...] = (
        (percent, "ecn_mark_percent", system.mark_percent, "every packet is marked"),
        (bool(partly), "ecn_by_speed", system.mark_percent, "every packet is marked"),
        (rdma.schedule is not None, "schedule", system.class_shares, "classes have no shares"),
        (rdma.pfc_watchdog_ms is not None, "pfc_watchdog_ms", system.watchdog_ms, _FIXED_TIMES),
        (_moves_cnp(rdma), "cnp_class", system.cnp_class, "the class of a DSCP is fixed"),
    )
    yield from _own_profiles(rdma, switch, system)
    for is_asked, key, missing, what in asked:
        if is_asked and missing is not None:
            yield Lack("queue-setting", f"{what} on {title}", missing, ("rdma", key), _FIXES[key])


def _own_profiles(rdma: Rdma, switch: Switch, system: SwitchSystem) -> Iterator[Lack]:
    """What a RoCE profile does not give, in a release whose ports name no other one."""
    profile = system.profile
    missing = _missing(profile.others_since, switch) if profile else None
    if profile is None or missing is None:
        return
    said = {
        "ecn_min_kib": rdma.ecn_min_kib,
        "ecn_max_kib": rdma.ecn_max_kib,
        "ecn_mark_percent": rdma.ecn_mark_percent,
    }
    keys = [key for key, value in said.items() if value is not None]
    given = as_profile(marking_of(rdma, switch.os), profile)
    asked = [
        *([] if _is_given(given, profile) else keys),
        *(["ecn_by_speed"] if rdma.ecn_by_speed else []),
        *(["schedule"] if rdma.schedule else []),
    ]
    for key in asked:
        what = f"{key} cannot be other than the RoCE profile's on {_title(switch)}"
        yield Lack("queue-setting", what, missing, ("rdma", key), f"remove {key}, or upgrade it")


def _is_given(marking: EcnState, profile: RoceProfile) -> bool:
    given = (profile.ecn_min_bytes // 1024, profile.ecn_max_bytes // 1024, profile.mark_percent)
    return (marking.min_kib, marking.max_kib, marking.percent) == given


_ALL = 100
_FIXED_TIMES = "the times of the PFC watchdog cannot be set by port"
_FIXES = {
    "ecn_mark_percent": "remove ecn_mark_percent, or set it to 100",
    "ecn_by_speed": "remove mark_percent in it",
    "schedule": "remove schedule",
    "pfc_watchdog_ms": "remove pfc_watchdog_ms",
    "cnp_class": "remove cnp_class, or set cnp_dscp to one of its own class",
}


def _moves_cnp(rdma: Rdma) -> bool:
    return rdma.cnp_class not in {None, rdma.cnp_dscp // DSCP_PER_PRIORITY}


def _spreading(rdma: Rdma, switch: Switch, system: SwitchSystem) -> Iterator[Lack]:
    """Adaptive routing: system, release, chip, and the speed of each routed link."""
    if not rdma.adaptive_routing:
        return
    model, place = switch.hardware, ("rdma", "adaptive_routing")
    what = f"there is no adaptive routing on {_title(switch)}"
    missing = _missing(system.adaptive_routing, switch)
    if missing is None and model is not None and model.asic not in {"", ADAPTIVE_ASIC}:
        what = f"there is no adaptive routing on {switch.model}"
        missing = f"NVIDIA supports it on {ADAPTIVE_ASIC}, and this one is {model.asic}"
    if missing is not None:
        yield Lack("packet-spreading", what, missing, place)
        return
    for name, port in switch.ports.items():
        speed = link_speed(switch, name)
        if port.mode == "routed" and speed > ADAPTIVE_GBIT_S:
            why = f"the chip spreads no packets over a link of {speed} Gbit/s"
            what = f"port {name} cannot have adaptive routing"
            fix = f"split the link into parts of {ADAPTIVE_GBIT_S} Gbit/s or less, or remove it"
            yield Lack("packet-spreading", what, why, ("ports", name, "mode"), fix)


ADAPTIVE_ASIC = "Spectrum-4"
ADAPTIVE_GBIT_S = 400
"""Cumulus Linux guide, page "Equal Cost Multipath Load Sharing", Adaptive Routing."""


def _routing(switch: Switch, system: SwitchSystem) -> Iterator[Lack]:
    """Numbers of BGP without a link; a routed link is reported at its port."""
    linked = any(port.mode == "routed" for port in switch.ports.values())
    missing = _missing(system.routing, switch)
    if switch.routing is not None and missing is not None and not linked:
        what = f"{switch.name} cannot route on {_title(switch)}"
        yield Lack("routed-link", what, missing, ("routing", "asn"))


def _watchdog(rdma: Rdma, switch: Switch, system: SwitchSystem) -> Iterator[Lack]:
    places = [
        ("ports", name, "pfc_watchdog")
        for name, port in switch.ports.items()
        if port.pfc_watchdog is True
    ]
    asked = [("rdma", "pfc_watchdog")] if rdma.pfc_watchdog else []
    for place in (*asked, *places):
        if rdma.mode != "lossless":
            why = f"it watches lossless classes, and rdma.mode is {rdma.mode}"
            yield Lack("pfc-watchdog", "a PFC watchdog has nothing to watch", why, place)
        elif (missing := _missing(system.pfc_watchdog, switch)) is not None:
            what = f"there is no PFC watchdog on {_title(switch)} {switch.release}"
            yield Lack("pfc-watchdog", what, missing, place)


def _ports(rdma: Rdma, switch: Switch, system: SwitchSystem) -> Iterator[Lack]:
    for name, port in switch.ports.items():
        place = ("ports", name)
        if port.cable_length_m is not None:
            yield from _cable(rdma, switch, system, name)
        for key, value in (("ecn_min_kib", port.ecn_min_kib), ("ecn_max_kib", port.ecn_max_kib)):
            if value is not None and system.port_ecn is not None:
                what = f"port {name} cannot have an {key} of its own on {_title(switch)}"
                yield Lack("port-ecn", what, system.port_ecn, (*place, key))
        if port.mode == "routed" and (missing := _missing(system.routing, switch)) is not None:
            what = f"port {name} cannot be routed on {_title(switch)}"
            yield Lack("routed-link", what, missing, (*place, "mode"))


def _cable(rdma: Rdma, switch: Switch, system: SwitchSystem, name: str) -> Iterator[Lack]:
    place = ("ports", name, "cable_length_m")
    length = switch.ports[name].cable_length_m or 0
    model = switch.hardware
    lengths = model.headroom_lengths_m.get(switch.os, ()) if model else ()
    if rdma.mode != "lossless":
        why = f"headroom is what a lossless class needs, and rdma.mode is {rdma.mode}"
        yield Lack("cable-length", "the length of a cable changes nothing", why, place)
    elif (missing := _missing(system.cable_length, switch)) is not None:
        what = f"the length of a cable cannot be set on {_title(switch)}"
        yield Lack("cable-length", what, missing, place)
    elif lengths and length > lengths[-1]:
        what = f"no cable of {length} m can be lossless on {_title(switch)} of this model"
        why = f"its platform has headroom for {', '.join(map(str, lengths))} m"
        yield Lack("cable-length", what, why, place, f"use a cable of at most {lengths[-1]} m")


def _title(switch: Switch) -> str:
    return driver_of(switch.os).title


def _missing(since: Release | str, switch: Switch) -> str | None:
    """Why this switch lacks it; None: it has it."""
    if isinstance(since, str):
        return since
    system = system_of(switch.os)
    release = system.parse_release(switch.release)
    if release >= since or release < least_release(switch.os, switch.hardware):
        return None  # too old for anything: `switch-release` names that alone
    return f"it came with release {system.show_release(since)}"
