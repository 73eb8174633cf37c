"""What a file asks of a switch whose system or release has no such thing: for plan and rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from components.catalogue.switches.switch_model import Release
from components.fabric.systems import driver_of, least_release, system_of
from components.fabric.systems.switch_system import SwitchSystem
from components.model.fabric import Rdma, Switch

Topic = Literal["roce-mode", "pfc-watchdog", "cable-length", "port-ecn", "routed-link"]


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
    yield from _routing(switch, system)
    yield from _watchdog(rdma, switch, system)
    yield from _ports(rdma, switch, system)


def _routing(switch: Switch, system: SwitchSystem) -> Iterator[Lack]:
    """Numbers of BGP without a link; a routed link is reported at its port."""
    linked = any(port.mode == "routed" for port in switch.ports.values())
    missing = _missing(system.routing, switch)
    if switch.routing is not None and missing is not None and not linked:
        what = f"{switch.name} cannot route on {_title(switch)}"
        yield Lack("routed-link", what, missing, ("routing", "asn"))
    if switch.routing is not None and switch.routing.bfd and missing is None:
        why = system.routed.no_bfd
        what = f"there is no BFD of {switch.name} on {_title(switch)}"
        if why is not None:
            yield Lack("routed-link", what, why, ("routing", "bfd"), "remove bfd at both ends")


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
