"""The ports of a switch: which are split, and their queues from the site's one intent. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from components.catalogue.switches.switch_model import Split
from components.core.record import record
from components.core.templates import fault_text
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems import system_of
from components.fabric.systems.base import Change, Unsettable
from components.fabric.systems.ranges import port_key
from components.fabric.systems.switch_system import OTHERS, LinkForm, RoceProfile, SwitchSystem
from components.model.cluster import ClusterSpec
from components.model.fabric import Rdma, Switch, SwitchPort
from components.model.guard_spec import Guards
from components.model.once import once

BYTES_PER_KIB = 1024
CLASSES: Final = range(8)
Splits = dict[str, tuple[str, ...]]


def plan_queues(spec: ClusterSpec, switch: Switch, intent: PortState) -> dict[str, PortState]:
    """Each port, by number, with the intent of all ports and its own queues."""
    rdma, system, speeds = spec.rdma, system_of(switch.os), port_speeds(spec, switch)
    fastest = max(speeds.values(), default=0)
    planned: dict[str, PortState] = {}
    for name in sorted(switch.ports, key=port_key):
        port = switch.ports[name]
        # One marking for the switch: that of its fastest port, which fills a queue first.
        speed = speeds[name] if system.port_ecn is None else fastest
        marking = as_profile(port_marking(rdma, switch.os, port, speed), system.profile)
        own: dict[str, object] = {"ecn": dict.fromkeys(intent.ecn, marking)}
        if rdma.schedule is not None:
            strict = {*(intent.strict_classes or ()), *rdma.schedule.strict}
            own["strict_classes"] = tuple(sorted(strict))
            own["class_shares"] = dict(sorted(rdma.schedule.shares.items()))
        if rdma.adaptive_routing and port.mode == "routed":
            own["adaptive_routing"] = True
        planned[name] = intent.model_copy(update=own)
    return planned


def as_profile(marking: EcnState, profile: RoceProfile | None) -> EcnState:
    """The marking as a RoCE profile prints it, if the file means the same; else unchanged."""
    if profile is None or marking.percent != profile.mark_percent:
        return marking
    given = profile.ecn_min_bytes, profile.ecn_max_bytes
    pairs = zip((marking.min_kib, marking.max_kib), given, strict=True)
    if any(abs(kib * BYTES_PER_KIB - own) > profile.ecn_tolerance * own for kib, own in pairs):
        return marking
    low, high = (own // BYTES_PER_KIB for own in given)
    return EcnState(min_kib=low, max_kib=high)


def marking_of(rdma: Rdma, os: str, speed_gbit_s: int = 0) -> EcnState:
    """The marking of a port without its own; a speed of 0 is not known."""
    said = rdma.ecn_by_speed.get(speed_gbit_s)
    if said is not None:
        return EcnState(min_kib=said.min_kib, max_kib=said.max_kib, percent=said.mark_percent)
    rows = system_of(os).recommended if os else (OTHERS,)
    advice = [row for row in rows if row.from_gbit_s <= speed_gbit_s][-1]
    own = rdma.ecn_min_kib is not None or rdma.ecn_max_kib is not None
    return EcnState(
        min_kib=rdma.ecn_min_kib or advice.min_kib,
        max_kib=rdma.ecn_max_kib or advice.max_kib,
        percent=rdma.ecn_mark_percent or (100 if own else advice.mark_percent),
    )


def port_marking(rdma: Rdma, os: str, port: SwitchPort, speed_gbit_s: int) -> EcnState:
    """The marking of one port, with its exceptions."""
    common = marking_of(rdma, os, speed_gbit_s)
    if not (port.ecn_min_kib or port.ecn_max_kib):
        return common
    return EcnState(
        min_kib=port.ecn_min_kib or common.min_kib,
        max_kib=port.ecn_max_kib or common.max_kib,
        percent=rdma.ecn_mark_percent or 100,
    )


def port_speeds(spec: ClusterSpec, switch: Switch) -> Mapping[str, int]:
    """Port to its speed in Gbit/s: that of the card, and on a link the model's; 0: not known."""
    cards = _card_speeds(spec)
    return {n: cards.get(port.to) or link_speed(switch, n) for n, port in switch.ports.items()}


@once
def _card_speeds(spec: ClusterSpec) -> Mapping[str, int]:
    """`HOST/RAIL` to the speed of its card in Gbit/s."""
    return {f"{host.name}/{nic.rail}": nic.speed_gbit_s for host in spec.hosts for nic in host.nics}


def link_speed(switch: Switch, name: str) -> int:
    """The file's speed if the port supports it, else the fastest one of a port or part; or 0."""
    model, said = switch.hardware, switch.link_of(name).speed_gbit_s
    if model is None:
        return 0
    whole = model.speed_of(switch.os, name, 1) if name in model.ports.get(switch.os, ()) else 0
    fastest = part_speeds(switch).get(name, whole)
    able = said is not None and said in model.port_speeds_gbit_s and said <= fastest
    return said if said is not None and able else fastest


def with_repairs(
    state: SwitchState, system: SwitchSystem, guards: Guards, rdma: Rdma
) -> SwitchState:
    """The desired state with the repairs that the file wants, to the factory's values."""
    kinds = [kind for kind in system.repairs if guards.way(kind) == "repair"]
    if not kinds:
        return state
    first = system.factory_state(tuple(state.ports)).ports
    ports: dict[str, PortState] = {}
    for name, port in state.ports.items():
        wanted: dict[str, object] = {}
        if "switch.rewrite" in kinds:
            wanted["rewrite_dscp"] = first[name].rewrite_dscp
        if "switch.ecn_elsewhere" in kinds:
            wanted["ecn"] = dict.fromkeys(CLASSES) | port.ecn
        # If the file plans PFC, we already manage its priorities.
        if "switch.pfc_elsewhere" in kinds and rdma.mode == "lossy_ecn":
            wanted |= {key: getattr(first[name], key) for key in ("pfc", "pfc_priorities")}
        ports[name] = port.model_copy(update=wanted)
    return state.model_copy(update={"ports": ports})


@record
class PortSplit:
    """One split port."""

    whole: str
    count: int
    form: Split | None
    """The model's split; None: it cannot split into so many parts, or to this speed."""
    parts: tuple[str, ...]
    named: tuple[str, ...]
    """Those that the file uses."""

    @property
    def speed_gbit_s(self) -> int:
        """Of each part; 0: not known."""
        return self.form.speed_gbit_s if self.form else 0


@once
def splits_of(switch: Switch) -> Mapping[str, PortSplit]:
    """Split port to its split: `breakouts` of the switch, else the fewest parts that fit names."""
    model = switch.hardware
    if model is None or switch.os not in model.ports:
        return {}
    named: dict[str, list[str]] = {}
    least: dict[str, int] = {}
    for name in sorted(switch.ports, key=port_key):
        place = model.place(switch.os, name)
        if place is not None:
            # The name of a part says that the port is split in two at least.
            needed = place.parts if place.whole == name else max(place.parts, 2)
            least[place.whole] = max(least.get(place.whole, 1), needed)
            named.setdefault(place.whole, []).append(name)
    found: dict[str, PortSplit] = {}
    for whole in dict.fromkeys((*least, *switch.breakouts)):
        forms, said = model.splits_of(switch.os, whole), switch.breakouts.get(whole)
        needed = least.get(whole, 1)
        fit = [x for x in forms if x.mode == said or (said is None and x.parts >= needed > 1)]
        form = min(fit, key=lambda each: each.parts, default=None)
        count = int(said.split("x")[0]) if said else (form.parts if form else needed)
        if count > 1:
            parts = model.part_names(switch.os, whole, count)
            found[whole] = PortSplit(whole, count, form, parts, tuple(named.get(whole, ())))
    return found


@once
def part_speeds(switch: Switch) -> Mapping[str, int]:
    """Part of a split port to its speed in Gbit/s."""
    return {name: each.speed_gbit_s for each in splits_of(switch).values() for name in each.parts}


def speeds_of(switch: Switch, name: str) -> Mapping[int, int | None]:
    """Each speed of a known port or part in Gbit/s to its lanes; None: their number is unknown."""
    model, split = switch.hardware, _split_of(switch, name)
    if model is None or not model.has_port(switch.os, name):
        return {}
    lanes = model.lanes // (split.count if split else 1)
    top = split.speed_gbit_s if split else model.speed_of(switch.os, name, 1)
    if name in model.slow_ports:
        return {top: None}
    if not splits_by_speed(system_of(switch.os)):
        # A slower module may have as many lanes as the port, or fewer and faster ones.
        slower = dict.fromkeys(each for each in model.port_speeds_gbit_s if each < top)
        return {**slower, top: lanes}
    forms = {form.speed_gbit_s: model.lanes // form.parts for form in model.splits}
    return {speed: n for speed, n in sorted(forms.items()) if n < lanes} | {top: lanes}


def plan_link(switch: Switch, name: str) -> dict[str, object]:
    """`speed`, `fec` and `autoneg` of a `PortState`, as far as the file, or a split, sets them."""
    system, said = system_of(switch.os), switch.link_of(name)
    if isinstance(system.links, str):
        return {}
    split, speed = _split_of(switch, name), said.speed_gbit_s
    if speed is None and splits_by_speed(system) and split is not None and split.form is not None:
        speed = split.speed_gbit_s
    lanes = speeds_of(switch, name).get(speed) if speed else None
    return {**system.links.words(said.model_copy(update={"speed_gbit_s": speed}), lanes)}


def splits_by_speed(system: SwitchSystem) -> bool:
    """Whether a port is split by the speed of its parts."""
    return isinstance(system.links, LinkForm) and system.links.by_lanes


def _split_of(switch: Switch, name: str) -> PortSplit | None:
    return next((each for each in splits_of(switch).values() if name in each.parts), None)


def find_splits(wanted: Splits, names: Collection[str]) -> Splits:
    """How the ports in `wanted` are split, from the names of all ports."""
    splits: Splits = {whole: (whole,) for whole in wanted}
    for whole, parts in wanted.items():
        if whole not in names or whole in parts:
            first, second = port_key(parts[0]), port_key(parts[1])
            # If parts are named after their lanes, the next port begins where the last part ends.
            end = first[-1] + (second[-1] - first[-1]) * len(parts) if whole in parts else 9
            place = {(*first[:-1], number) for number in range(first[-1], end)}
            found = (name for name in names if port_key(name) in place)
            splits[whole] = tuple(sorted(found, key=port_key)) or (whole,)
    return splits


def plan_changes(
    driver: SwitchSystem, actual: SwitchState, target: SwitchState
) -> tuple[Change, ...]:
    """The changes of a driver; Unsettable if a port is missing, or no line leads to the target."""
    refuse_missing(driver, actual, target)
    return driver.plan_changes(actual, target)


def refuse_missing(driver: SwitchSystem, actual: SwitchState, target: SwitchState) -> None:
    """Refuse a target with missing parts, with the lines by which a person splits those ports."""
    if driver.by_hand is None or not target.splits:
        return
    held, by_count = actual.splits or {}, dict[tuple[int, int], list[str]]()
    for whole, parts in target.splits.items():
        # We never join ports that a person split.
        if len(parts) > 1 and held.get(whole, parts) != parts:
            by_count.setdefault((len(held[whole]), len(parts)), []).append(whole)
    words: list[str] = []
    for (has, wants), wholes in by_count.items():
        is_now = f"split in {has}" if has > 1 else "whole"
        lines = (line.format(whole=wholes[0], parts=wants) for line in driver.by_hand.lines)
        more = f"; then repeat the line for {_and_more(wholes[1:])}" if wholes[1:] else ""
        typed = {"lines": ", ".join(f"`{line}`" for line in lines), "more": more}
        said = {"ports": _and_more(wholes), "is_now": is_now, "wants": wants, **typed}
        words.append(fault_text(__file__, "unsplit", by_hand=driver.by_hand, **said))
    if words:
        raise Unsettable("; ".join(words))


def _and_more(names: list[str]) -> str:
    return f"{names[0]} (and {len(names) - 1} more)" if names[1:] else names[0]
