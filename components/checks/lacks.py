"""Rules on settings that a switch's system, release or model does not support.

One table: each row is a place in the file, and a reason why a switch may not support it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from components.catalogue.switches.switch_model import Release
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.checks.rule import Finding, Findings, Here, Rule, at, find, places, value_of, walk
from components.checks.topology import list_all_ports
from components.core.errors import SpecError
from components.core.problem import SpecPath
from components.core.record import record
from components.core.templates import typed_table
from components.fabric.ports import as_profile, link_speed, marking_of
from components.fabric.systems import least_release, system_of
from components.fabric.systems.switch_system import SwitchSystem
from components.fabric.targets import LONGEST, find_form, why_no_exec
from components.model.cluster import ClusterSpec
from components.model.fabric import DSCP_PER_PRIORITY, Rail, Rdma, Switch
from components.model.guard_spec import SwitchGuards
from components.model.places import subnets_of

if TYPE_CHECKING:
    from components.fabric.fabric_plan import SwitchPlan

ADAPTIVE_ASIC = "Spectrum-4"
ADAPTIVE_GBIT_S = 400
"""Cumulus Linux guide, page "Equal Cost Multipath Load Sharing", Adaptive Routing."""
_ALL = 100
_DEFAULT_VLAN: Final = 1
"""The VLAN of untagged frames on a port without its own (IEEE 802.1Q: default PVID)."""
ALLOWED: Final = "allow-interruptions"
_KEEP = "give the switch its management port, or another port and VLAN for the session."


@record
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
            owner = value_of(owner, key)
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

    def lossy(self, why: str) -> str | None:
        """Return a reason that counts in each mode but lossless."""
        mode = self.rdma.mode
        return None if mode == "lossless" else f"{why}, and rdma.mode is {mode}"

    def too_long(self) -> str | None:
        """Explain why a cable is longer than any for which the platform has headroom."""
        value, lengths = self.value, ", ".join(map(str, self.lengths_m))
        is_long = isinstance(value, int) and value > max(self.lengths_m, default=value)
        return f"its platform has headroom for {lengths} m" if is_long else None

    def of_profile(self) -> Release | None:
        """Return the first release whose ports support values other than the RoCE profile's."""
        profile = self.system.profile
        if profile is None or self.key in {"ecn_by_speed", "schedule"}:
            return profile and profile.others_since
        marking = as_profile(marking_of(self.rdma, self.switch.os), profile)
        given = (profile.ecn_min_bytes // 1024, profile.ecn_max_bytes // 1024, profile.mark_percent)
        is_given = (marking.min_kib, marking.max_kib, marking.percent) == given
        return None if is_given else profile.others_since

    def partly_marked(self) -> str | None:
        speeds = [each.mark_percent for each in self.rdma.ecn_by_speed.values()]
        shares = [self.rdma.ecn_mark_percent] if self.key == "ecn_mark_percent" else speeds
        return None if {*shares} <= {_ALL} else self.system.mark_percent

    def other_class(self) -> str | None:
        is_ours = self.value == self.rdma.cnp_dscp // DSCP_PER_PRIORITY
        return None if is_ours else self.system.cnp_class

    def other_chip(self) -> str | None:
        chip = self.switch.hardware.asic if self.switch.hardware else ""
        words = f"NVIDIA supports it on {ADAPTIVE_ASIC}, and this one is {chip}"
        return None if chip in {"", ADAPTIVE_ASIC} else words

    def too_fast(self) -> str | None:
        """Explain why a link spreads no packets, unless the whole switch already lacks that."""
        speed = link_speed(self.switch, self.port)
        is_there = not (self.why(self.system.adaptive_routing) or self.other_chip())
        if not self.rdma.adaptive_routing or not is_there or speed <= ADAPTIVE_GBIT_S:
            return None
        return f"the chip spreads no packets over a link of {speed} Gbit/s"

    def without_links(self) -> Release | str | None:
        """Explain why a switch does not route; each of its routed ports is reported instead."""
        routed = any(port.mode == "routed" for port in self.switch.ports.values())
        return None if routed else self.system.routing


REASONS: Final[Mapping[str, Callable[[_Asked], Release | str | None]]] = {
    "headroom": lambda asked: asked.lossy("only lossless classes have headroom"),
    "watched": lambda asked: asked.lossy("it watches lossless classes"),
    "too_long": _Asked.too_long, "too_fast": _Asked.too_fast, "of_profile": _Asked.of_profile,
    "partly_marked": _Asked.partly_marked, "other_class": _Asked.other_class,
    "other_chip": _Asked.other_chip, "without_links": _Asked.without_links,
}  # fmt: skip


class _Row(NamedTuple):
    """One row of a topic: settings that a switch may not support."""

    at: str
    """Places in the file with blanks between them: `*` for each port, `=` before a wanted value."""
    what: str
    """The message about an `_Asked`."""
    since: str
    """The first release or the reason, by its name in `REASONS` or for `SwitchSystem.since`."""
    fix: str = ""
    """The fix, if it differs from the topic's."""


class _Topic(NamedTuple):
    """One rule; at each place the first row that a switch does not support counts."""

    text: str
    fix: str
    rows: tuple[_Row, ...]


_TOPICS: Final = typed_table(dict[str, _Topic], __file__)


def _lacks(
    spec: ClusterSpec, switch: Switch, rows: Iterable[_Row]
) -> Iterator[tuple[_Asked, str, str]]:
    """Yield what the file really sets and a switch does not support, with the words."""
    found = set[tuple[str, ...]]()
    system, title = system_of(switch.os), system_of(switch.os).title
    for row in rows if switch.carries == "roce" else ():
        for path, _, value in [place.partition("=") for place in row.at.split()]:
            for name in switch.ports if "*" in path else ("",):
                keys = (name if key == "*" else key for key in path.split("."))
                asked = _Asked(spec.rdma, switch, (*keys,), system, title)
                if not (asked.value == value if value else asked.value):
                    continue
                own = REASONS.get(row.since)
                why = asked.why(own(asked) if own else system.since(row.since))
                if why is not None and asked.path not in found:
                    found.add(asked.path)
                    yield asked, f"{row.what.format(a=asked)}: {why}.", row.fix


def _find(spec: ClusterSpec, topic: _Topic) -> Findings:
    for s, switch in enumerate(spec.switches) if spec.rdma.transport == "roce" else ():
        capability = f" {switch.hardware.capability_line()}." if switch.hardware else ""
        for asked, what, own in _lacks(spec, switch, topic.rows):
            top: SpecPath = () if asked.path[0] == "rdma" else ("switches", s)
            where = (at((*top, *asked.path), asked.value), *places(spec, f"switches.{s}.os"))
            yield Finding(what, where, f"{(own or topic.fix).format(a=asked)}.{capability}")


RULES: Final = tuple(
    Rule(partial(_find, topic=topic), name, topic.text.strip()) for name, topic in _TOPICS.items()
)


def check_reserved_vlan(spec: ClusterSpec) -> Findings:
    """No rail has a VLAN that the switches use themselves: VLAN 1, or one that the chip reserves.

    VLAN 1 is the untagged VLAN of every port of a bridge until it gets another one (IEEE 802.1Q,
    default PVID). A rail there receives untagged frames of other networks. Cumulus Linux reserves
    3725 to 3999 by default.
    """
    switches = [*walk(spec, "switches.*", Switch)]
    for rail, here in walk(spec, "rails.*", Rail):
        if rail.vlan == _DEFAULT_VLAN:
            yield find("reserved-vlan-switch", *here("vlan"), rail=rail)
        kept = ((system_of(each.os).reserved_vlans, each, there) for each, there in switches)
        for vlans, switch, there in [each for each in kept if rail.vlan in each[0]][:1]:
            words = {"rail": rail, "switch": switch, "vlans": vlans, "last": vlans.stop - 1}
            yield find("reserved-vlan-reserves", *here("vlan"), *there("os"), **words)


def check_guard_repair(spec: ClusterSpec) -> Findings:
    """A guard uses `repair` only if each switch system supports it.

    Elsewhere the driver could not restore the old value exactly, or would send a guess.
    """
    repairs = [n for n in SwitchGuards.model_fields if spec.guards.way(f"switch.{n}") == "repair"]
    switches = [(s, each) for s, each in enumerate(spec.switches) if each.carries == "roce"]
    for name, (s, switch) in product(repairs, switches):
        if f"switch.{name}" not in system_of(switch.os).repairs:
            why = f"the driver of {system_of(switch.os).title} cannot set the harmless value and "
            why += "restore the old one"
        elif switch.executor == "exec":
            why = "an exec sends its lines without reading, so it cannot know the faults"
        else:
            continue
        where = (at(("guards", "switch", name), "repair"), *places(spec, f"switches.{s}.os"))
        yield find("guard-repair", *where, name=name, switch=switch, why=why)


def check_exec_system(spec: ClusterSpec) -> Findings:
    """A switch with `executor: exec` has a system with reliable exec requests.

    It must be known how the switch continues after a refused line, and its output must tell a
    success from a failure. If bash takes the request, it must fit into one argument of a program.
    """
    for switch, here in walk(spec, "switches.*", Switch):
        why = why_no_exec(switch.os)
        if switch.executor == "exec" and why is not None:
            fitting = sorted(name for name in SWITCH_SYSTEMS if find_form(name))
            words = {"switch": switch, "why": why, "fitting": ", ".join(fitting)}
            yield find("exec-system-able", *here("executor", "os"), **words)
        elif switch.executor == "exec" and (plan := _plan_one(spec, switch)):
            form, texts, where = find_form(switch.os), plan.exec, here("executor")
            if (missing := why_no_exec(switch.os, plan.desired)) is not None:
                yield find("exec-system-settings", *where, switch=switch, missing=missing)
            needed = max(len(texts.apply), len(texts.undo)) if texts else 0
            if form and not form.cli and needed > LONGEST:
                words = {"switch": switch, "needed": needed, "most": LONGEST}
                yield find("exec-system-characters", *where, **words)


def _plan_one(spec: ClusterSpec, switch: Switch) -> SwitchPlan | None:
    model = switch.hardware
    known = model is not None and all(model.has_port(switch.os, name) for name in switch.ports)
    lacks = any(any(_lacks(spec, switch, topic.rows)) for topic in _TOPICS.values())
    if not known or lacks:
        return None  # another rule reports the missing feature of the switch
    from components.fabric.fabric_plan import plan_fabric  # noqa: PLC0415 - slow, for exec alone

    try:
        (plan,) = plan_fabric(spec.model_copy(update={"switches": (switch,)}))
    except SpecError:
        return None  # another rule reports the missing rail
    return plan


def check_exec_disruptive(spec: ClusterSpec) -> Findings:
    """An exec that interrupts traffic is explicitly allowed, and other switches omit the key.

    An exec reads nothing first, so at every change of the file it sends an MTU with its shutdown,
    and the one-shot RoCE.
    """
    for switch, here in walk(spec, "switches.*", Switch):
        allowed = switch.exec_disruptive == ALLOWED
        if switch.executor == "device" and allowed:
            yield find("exec-no-effect", *here("exec_disruptive"), switch=switch, allowed=ALLOWED)
        if switch.executor != "exec" or allowed or find_form(switch.os) is None:
            continue
        plan = _plan_one(spec, switch)
        if found := plan.exec.interrupts if plan and plan.exec else ():
            words = {"switch": switch, "effects": "; ".join(found), "allowed": ALLOWED}
            yield find("exec-disruptive-effects", *here("executor", "exec_disruptive"), **words)


def check_management_port(spec: ClusterSpec) -> Findings:
    """The file does not set the port or VLAN that carries the session to a switch.

    `inband` names the port and VLAN of a switch without a management port. A new MTU, a removed
    VLAN or a one-shot would cut the session in the middle of a change, and the undo could not log
    in either. Addresses of the fabric differ from the switch's login address.
    """
    for switch, here in walk(spec, "switches.*", Switch):
        yield from _addresses(spec, switch, here)
        if (inband := switch.inband) is None:
            continue
        (port,), vlan, model = here("inband.port"), here("inband.vlan"), switch.hardware
        if model is not None and not model.has_port(switch.os, inband.port):
            what = f"{switch.name} is managed by port {inband.port}, which {model.described} lacks."
            yield Finding(what, (port,), _KEEP)
        whole = model.whole_port(switch.os, inband.port) if model is not None else None
        own = [each for each in list_all_ports(spec) if each.switch.name == switch.name]
        for each in own if model is not None and whole is not None else ():
            if model is not None and model.whole_port(switch.os, each.name) == whole:
                what = f"port {each.name} of {switch.name} carries Railyard's session; leave it "
                yield Finding(f"{what}alone.", (each.place, port), _KEEP)
        rails = walk(spec, "rails.*", Rail)
        for rail, there in [each for each in rails if each[0].vlan == inband.vlan]:
            what = f"VLAN {inband.vlan} of {rail.name} carries the session with "
            yield Finding(f"{what}{switch.name}; undo cuts it.", there("vlan") + vlan, _KEEP)
        system, mode, title = system_of(switch.os), spec.rdma.mode, system_of(switch.os).title
        if system.one_shot_flaps and mode in system.one_shot_modes:
            where = (*places(spec, "rdma.mode"), port)
            yield find("management-port-flap", *where, mode=mode, title=title, inband=inband)


def _addresses(spec: ClusterSpec, switch: Switch, here: Here) -> Findings:
    address, where = switch.ssh.address, here("ssh.address")
    if switch.routing is not None and str(switch.routing.router_id) == address:
        found_at = where + here("routing.router_id")
        yield find("management-port-router", *found_at, switch=switch, address=address)
    for rail, there in walk(spec, "rails.*", Rail):
        for subnet in [each for each in subnets_of(rail) if str(each.gateway) == address]:
            key = f"leaves.{subnet.leaf}.gateway" if subnet.leaf else "gateway"
            found_at = where + there(key)
            yield find("login-gateway", *found_at, address=address, switch=switch, rail=rail)
