"""Rules on settings that a switch's system, release or model does not support.

One table: each row is a place in the file, and a reason why a switch may not support it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import cleandoc
from typing import Final

from components.catalogue.switches.switch_model import Release
from components.checks.rule import Finding, Findings, Rule, at
from components.core.problem import SpecPath
from components.fabric.ports import as_profile, link_speed, marking_of
from components.fabric.systems import driver_of, least_release, system_of
from components.fabric.systems.switch_system import SwitchSystem
from components.model.cluster import ClusterSpec
from components.model.fabric import DSCP_PER_PRIORITY, Rdma, Switch

ADAPTIVE_ASIC = "Spectrum-4"
ADAPTIVE_GBIT_S = 400
"""Cumulus Linux guide, page "Equal Cost Multipath Load Sharing", Adaptive Routing."""
_ALL = 100


@dataclass(frozen=True, slots=True)
class _Asked:
    """One setting in the file, and the switch that must support it."""

    rdma: Rdma
    switch: Switch
    path: tuple[str, ...]
    """Path below the switch, or below the file if it begins with `rdma`."""
    system: SwitchSystem
    title: str

    @property
    def key(self) -> str:
        return self.path[-1]

    @property
    def port(self) -> str:
        return self.path[1]

    @property
    def value(self) -> object:
        """The value that the file has there."""
        owner: object = self.rdma if self.path[0] == "rdma" else self.switch
        for key in self.path[self.path[0] == "rdma" :]:
            owner = (
                self.switch.ports[key] if owner is self.switch.ports else getattr(owner, key, None)
            )
        return owner

    @property
    def lengths_m(self) -> tuple[int, ...]:
        """The lengths of cables for which the platform has headroom; empty: any."""
        model = self.switch.hardware
        return model.headroom_lengths_m.get(self.switch.os, ()) if model else ()

    @property
    def longest_m(self) -> int:
        return self.lengths_m[-1]

    def why(self, since: Release | str | None) -> str | None:
        """Explain why the switch lacks a feature of a release; None if it has it."""
        if since is None or isinstance(since, str):
            return since
        release = self.system.parse_release(self.switch.release)
        if release >= since or release < least_release(self.switch.os, self.switch.hardware):
            return None  # too old for everything: only `switch-release` reports that
        return f"it came with release {self.system.show_release(since)}"


_Why = Callable[[_Asked], Release | str | None]


def _unless_routed(a: _Asked) -> Release | str | None:
    """Skip a switch with routed ports: each port is reported instead."""
    routed = any(port.mode == "routed" for port in a.switch.ports.values())
    return None if routed else a.system.routing


def _partly_marked(a: _Asked) -> str | None:
    speeds = [each.mark_percent for each in a.rdma.ecn_by_speed.values()]
    shares = [a.rdma.ecn_mark_percent] if a.key == "ecn_mark_percent" else speeds
    return None if {*shares} <= {_ALL} else a.system.mark_percent


def _other_class(a: _Asked) -> str | None:
    return None if a.value == a.rdma.cnp_dscp // DSCP_PER_PRIORITY else a.system.cnp_class


def _not_of_profile(a: _Asked) -> Release | None:
    """Return the first release whose ports support values other than the RoCE profile's."""
    profile = a.system.profile
    if profile is None or a.key in {"ecn_by_speed", "schedule"}:
        return profile and profile.others_since
    marking = as_profile(marking_of(a.rdma, a.switch.os), profile)
    given = (profile.ecn_min_bytes // 1024, profile.ecn_max_bytes // 1024, profile.mark_percent)
    is_given = (marking.min_kib, marking.max_kib, marking.percent) == given
    return None if is_given else profile.others_since


def _other_chip(a: _Asked) -> str | None:
    asic = a.switch.hardware.asic if a.switch.hardware else ""
    supported = asic in {"", ADAPTIVE_ASIC}
    return None if supported else f"NVIDIA supports it on {ADAPTIVE_ASIC}, and this one is {asic}"


def _too_fast(a: _Asked) -> str | None:
    """Explain why a link spreads no packets, unless the whole switch already lacks that."""
    speed = link_speed(a.switch, a.port)
    is_there = not (a.why(a.system.adaptive_routing) or _other_chip(a))
    if not a.rdma.adaptive_routing or not is_there or speed <= ADAPTIVE_GBIT_S:
        return None
    return f"the chip spreads no packets over a link of {speed} Gbit/s"


def _too_long(a: _Asked) -> str | None:
    longer = isinstance(a.value, int) and a.value > max(a.lengths_m, default=a.value)
    return f"its platform has headroom for {', '.join(map(str, a.lengths_m))} m" if longer else None


def _lossy(why: str) -> _Why:
    """Make a reason that counts in each mode but lossless."""
    return lambda a: None if a.rdma.mode == "lossless" else f"{why}, and rdma.mode is {a.rdma.mode}"


_HEADROOM = _lossy("headroom is what a lossless class needs")
_WATCHES = _lossy("it watches lossless classes")
_PROFILED = (
    "rdma.ecn_min_kib rdma.ecn_max_kib rdma.ecn_mark_percent rdma.ecn_by_speed rdma.schedule"
)
_WATCHDOG = "rdma.pfc_watchdog ports.*.pfc_watchdog"
_CABLE = "ports.*.cable_length_m"
_Row = tuple[str, str, str | _Why] | tuple[str, str, str | _Why, str]
"""The places in the file, separated by spaces, with `*` for each port and `=` before a required
value; the message about an `_Asked`; the name for which `SwitchSystem.since` answers with the first
release or the reason, or a function that does; and the fix, if it differs from the rule's."""
_ROWS: Final[Mapping[str, tuple[_Row, ...]]] = {
    "roce-mode": (
        ("rdma.mode=semi_lossless", "there is no semi_lossless on {a.title}", "semi_lossless"),
    ),
    "pfc-watchdog": (
        (_WATCHDOG, "a PFC watchdog has nothing to watch", _WATCHES),
        (_WATCHDOG, "there is no PFC watchdog on {a.title} {a.switch.release}", "pfc_watchdog"),
    ),
    "cable-length": (
        (_CABLE, "the length of a cable changes nothing", _HEADROOM),
        (_CABLE, "the length of a cable cannot be set on {a.title}", "cable_length"),
        (
            _CABLE,
            "no cable of {a.value} m can be lossless on {a.title} of this model",
            _too_long,
            "use a cable of at most {a.longest_m} m",
        ),
    ),
    "port-ecn": (
        (
            "ports.*.ecn_min_kib ports.*.ecn_max_kib",
            "port {a.port} cannot have an {a.key} of its own on {a.title}",
            "port_ecn",
        ),
    ),
    "queue-setting": (
        (
            _PROFILED,
            "{a.key} cannot be other than the RoCE profile's on {a.title}",
            _not_of_profile,
            "remove {a.key}, or upgrade it",
        ),
        (
            "rdma.ecn_mark_percent",
            "every packet is marked on {a.title}",
            _partly_marked,
            "remove ecn_mark_percent, or set it to 100",
        ),
        (
            "rdma.ecn_by_speed",
            "every packet is marked on {a.title}",
            _partly_marked,
            "remove mark_percent in it",
        ),
        ("rdma.schedule", "classes have no shares on {a.title}", "class_shares"),
        (
            "rdma.pfc_watchdog_ms",
            "the times of the PFC watchdog cannot be set by port on {a.title}",
            "watchdog_ms",
        ),
        (
            "rdma.cnp_class",
            "the class of a DSCP is fixed on {a.title}",
            _other_class,
            "remove cnp_class, or set cnp_dscp to one of its own class",
        ),
    ),
    "packet-spreading": (
        ("rdma.adaptive_routing", "there is no adaptive routing on {a.title}", "adaptive_routing"),
        ("rdma.adaptive_routing", "there is no adaptive routing on {a.switch.model}", _other_chip),
        (
            "ports.*.mode=routed",
            "port {a.port} cannot have adaptive routing",
            _too_fast,
            f"split the link into parts of {ADAPTIVE_GBIT_S} Gbit/s or less, or remove it",
        ),
    ),
    "edge-ports": (("edge_ports", "no port has a BPDU guard on {a.title}", "bpdu_guard"),),
    "routed-link": (
        ("routing.asn", "{a.switch.name} cannot route on {a.title}", _unless_routed),
        ("ports.*.mode=routed", "port {a.port} cannot be routed on {a.title}", "routing"),
    ),
}
"""Rule to the settings that it checks; at each place, the first row that a switch does not support
counts."""
_TEXTS: Final = (
    (
        "roce-mode",
        """Each switch has the mode of RoCE that the file asks for.

    `semi_lossless` lets a card pause its switch port and passes no pause on, so that a burst is
    held without a pause storm in the fabric. Onyx has it as `roce semi-lossless`.
    """,
        "use mode lossless or lossy_ecn",
    ),
    (
        "pfc-watchdog",
        """A PFC watchdog is asked for only where there is one, and a class that it could watch.

    It drops what a pause storm holds up on a lossless class. Cumulus has it from 5.6 on, EOS as
    lines of a port, SONiC as a row of its own.
    """,
        "remove pfc_watchdog",
    ),
    (
        "cable-length",
        """The length of a cable is written only where headroom is computed from it.

    What is under way when a pause is sent has to fit into the buffer: light needs about 5 ns a
    metre, which is 62 bytes each way at 100 Gbit/s. Cumulus has one length for the whole switch.
    SONiC has one a port, and headroom for some lengths only, 5, 40 and 300 m on most platforms: the
    next longer one is set.
    """,
        "remove cable_length_m",
    ),
    (
        "port-ecn",
        """A port has ECN thresholds of its own only where the switch system sets them by port.""",
        "remove the thresholds of the port, so that it follows rdma",
    ),
    (
        "queue-setting",
        """Shares, probabilities, watchdog times and maps are asked for only where they can be set.

    Onyx marks every packet at the upper threshold, and no documented command moves a DSCP. Cumulus
    has the notifications of its RoCE profile in class 6.
    """,
        "remove {a.key}",
    ),
    (
        "packet-spreading",
        """Adaptive routing is asked for only where the vendor supports it: Spectrum-4 with Cumulus.

    The chip spreads each packet over links of up to 400 Gbit/s; an 800 Gbit/s port is split for it.
    """,
        "remove adaptive_routing, so that each flow keeps its path (ECMP)",
    ),
    (
        "edge-ports",
        """Edge ports with BPDU guard are asked for only if the switch system has both.

    A port to a host that hears a BPDU leads to a switch: the guard takes it down before there is a
    loop. SONiC has spanning tree only if its image has it and the site switches it on.
    """,
        "remove edge_ports",
    ),
    (
        "routed-link",
        """A link is routed only between switches whose driver sets routed ports and BGP.""",
        "make it a trunk, one between two switches, or use a routed system: cumulus, eos or sonic",
    ),
)
"""Rule, its demand, and the fix unless a row has its own."""


def lacks_any(spec: ClusterSpec, switch: Switch) -> bool:
    """Whether a rule of this module finds something on a switch."""
    return any(any(_lacks(spec, switch, topic)) for topic in _ROWS)


def _lacks(spec: ClusterSpec, switch: Switch, topic: str) -> Iterator[tuple[_Asked, str, str]]:
    """Yield settings that a switch does not support, with fixes; InfiniBand has other rules."""
    found = set[tuple[str, ...]]()
    for places, what, since, *fix in _ROWS[topic] if switch.carries == "roce" else ():
        for asked in _asked(spec.rdma, switch, places):
            why = asked.why(asked.system.since(since) if isinstance(since, str) else since(asked))
            if why is not None and asked.path not in found:
                found.add(asked.path)
                yield asked, f"{what.format(a=asked)}: {why}.", "".join(fix)


def _asked(rdma: Rdma, switch: Switch, places: str) -> Iterator[_Asked]:
    """Yield the places where the file really sets a value."""
    system, title = system_of(switch.os), driver_of(switch.os).title
    for place in places.split():
        path, _, value = place.partition("=")
        for name in switch.ports if "*" in path else ("",):
            keys = (name if key == "*" else key for key in path.split("."))
            asked = _Asked(rdma, switch, (*keys,), system, title)
            if asked.value == value if value else asked.value:
                yield asked


def _find(spec: ClusterSpec, topic: str, fix: str) -> Findings:
    if spec.rdma.transport != "roce":
        return
    for s, switch in enumerate(spec.switches):
        model = switch.hardware
        capability = f" {model.capability_line()}." if model else ""
        for asked, what, own in _lacks(spec, switch, topic):
            path: SpecPath = asked.path
            path = path if path[0] == "rdma" else ("switches", s, *path)
            where = (at(path, asked.value), at(("switches", s, "os"), switch.os))
            yield Finding(what, where, f"{(own or fix).format(a=asked)}.{capability}")


RULES: Final = tuple(
    Rule(partial(_find, topic=topic, fix=fix), topic, cleandoc(text)) for topic, text, fix in _TEXTS
)
