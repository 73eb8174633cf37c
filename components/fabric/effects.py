"""How a change of one switch setting affects running traffic: one table for everybody.

The preview, the refusal of an update, the step, plain execs and the repair of drift all ask these
functions, so they cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Final, get_args

from pydantic import BaseModel

from components.core.difference import ABSENT, Difference, Effect, diff_settings
from components.core.record import record
from components.core.settings import Impact, table
from components.fabric.state import ADDRESSES, PortState, SwitchState
from components.fabric.systems.ranges import collapse_vlans

_NO_PORT: Final = PortState()
"""Made once: a switch with all VLANs on its trunks has thousands of settings to look at."""
_NUMBERED = re.compile(r"(.*_)(0|[1-9]\d*)")
_SHORTEST_RUN = 3
"""Fewer neighbouring ports are written one by one."""


@record
class Row:
    """One setting, as its field in `state.py` declares it."""

    where: str
    """Its place in diffs, with `{}` for a name."""
    setting: str
    """Its name in diffs, which may hold `{}` too."""
    does: Impact


@cache
def _owner(where: str) -> str:
    word = where.partition(" ")[0]
    return word if word in {"partition", "subnet"} else "switch"


def _rows(state: type[BaseModel], where: str = "switch") -> Iterator[Row]:
    for name, setting in table(state):
        place = setting.where or where
        inner = _state_in(state.model_fields[name].annotation)
        if inner is not None:
            yield from _rows(inner, place)
        elif setting.text is not None:
            yield Row(place, setting.text or name, setting.does)


def _state_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - any annotation
    """The state class of a field or of its entries; None: it has plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and table(annotation):
        return annotation
    return next(filter(None, map(_state_in, get_args(annotation))), None)


TABLE: Final = (*_rows(SwitchState), *(Row("switch", n, each) for n, each in ADDRESSES.items()))


@cache
def _find_row(owner: str, setting: str) -> Row | None:
    """The row of a setting without digits at its end: all VLANs have one, ports have their own."""
    rows = (row for row in TABLE if _owner(row.where) == owner)
    names = ((row, re.escape(row.setting).replace(r"\{\}", ".*")) for row in rows)
    return next((row for row, name in names if re.fullmatch(name, setting)), None)


def effect_of(system: str, change: Difference) -> Effect:
    """The effect of setting this one value, on ports that carry traffic."""
    row = _find_row(_owner(change.where), change.setting.rstrip("0123456789"))
    does = row.does if row else Impact()
    if system in does.systems:
        return does.systems[system][0]
    if change.desired in does.to:
        return does.to[change.desired]
    return does.effect if does.new is None or change.actual != ABSENT else does.new


def _begins(where: str, target: SwitchState) -> tuple[str, ...]:
    """How settings of a place begin if they belong to a list that the target has completely."""
    kind, _, name = where.partition(" ")
    if kind == "partition":
        return ("",) if target.ib is not None else ()
    if kind == "port":
        port = target.ports.get(name, _NO_PORT)
        # Recorded maps and buffers come back in the system's own words.
        words = ("dscp_", "priority_") if {"trust", "buffers"} & {*port.native} else ()
        return (*words, *(("trunk_vlan_",) if port.trunk_vlans is not None else ()))
    routed = (n for each in target.addresses or {} for n in (f"address_{each}_", f"mtu_{each}"))
    bgp = ("bgp_",) if target.bgp is not None else ()
    return ("vlan_", *bgp, *routed) if kind == "switch" else ()


def find_effects(
    system: str, actual: SwitchState, target: SwitchState
) -> Mapping[Difference, Effect]:
    """The changes that running traffic notices, unless a port is down or a manager is idle."""
    is_off = actual.ib is not None and False in {actual.ib.sm_function, actual.ib.sm_enabled}
    idle = {f"port {name}" for name, port in actual.ports.items() if port.admin_up is False}
    idle |= {"subnet manager"} if is_off else set()
    has, wanted = actual.settings(), target.settings()
    # The lists of a target (`components.fabric.targets`) are complete: what they lack must go.
    begins = {where: _begins(where, target) for where in {where for where, _ in has}}
    ports = target.ports.items()
    strict = {f"port {name}" for name, port in ports if port.strict_classes is not None}
    gone = {
        (where, setting): ABSENT
        for where, setting in has.keys() - wanted.keys()
        if (setting.startswith(begins[where]) and setting != "bgp_max_paths")
        or (where in strict and setting.endswith("_schedule"))
    }
    every = diff_settings(has, wanted | gone)
    return {x: how for x in every if x.where not in idle and (how := effect_of(system, x))}


def interrupting(effects: Mapping[Difference, Effect]) -> tuple[Difference, ...]:
    """The changes that `disruption.ports` has to allow."""
    return tuple(change for change, effect in effects.items() if effect.interrupts)


def ports_of(changes: Iterable[Difference]) -> tuple[str, ...]:
    """The ports that changes concern; an empty name if one concerns the whole switch."""
    places = (each.where.partition(" ") for each in changes)
    return tuple(dict.fromkeys(name if kind == "port" else "" for kind, _, name in places))


def describe_changes(
    changes: Iterable[Difference], order: Mapping[str, int] | None = None
) -> tuple[str, ...]:
    """One text a place: `ports 1/1 to 1/4: mtu_bytes: 9216 -> 9000`; without `order` by port."""
    moved = {(each.where, each.setting): f"{each.actual} -> {each.desired}" for each in changes}
    return tuple(f"{place}: {', '.join(said)}" for place, said in _grouped(moved, order or {}))


def group_settings(words: Mapping[tuple[str, str], str], order: Mapping[str, int]) -> Iterator[str]:
    """Each place once, with its settings below it; ports with equal settings are one place."""
    for place, said in _grouped(words, order):
        yield place
        yield from (f"  {line}" for line in said)


def _grouped(
    words: Mapping[tuple[str, str], str], order: Mapping[str, int]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    by_place: dict[str, dict[str, list[str]]] = {}
    for (where, setting), said in words.items():
        by_place.setdefault(where, {}).setdefault(said, []).append(setting)
    alike: dict[tuple[str, ...], list[str]] = {}
    for where, changes in by_place.items():
        lines = sorted(f"{_names(settings)}: {said}" for said, settings in changes.items())
        alike.setdefault((*lines,), []).append(where)
    for changes, places in alike.items():
        ports = [place.removeprefix("port ") for place in places if place.startswith("port ")]
        others = [place for place in places if not place.startswith("port ")]
        yield ", ".join([*others, *([collapse(ports, order)] if ports else [])]), changes


def _names(settings: Sequence[str]) -> str:
    """`vlan_9`, `vlan_10`, `vlan_11` as `vlan_9-11`, whatever their order."""
    numbers: dict[str, list[int]] = {}
    for setting in settings:
        # `vlan_111` is `vlan_` and 111; a name without a plain number at its end is itself.
        found = _NUMBERED.fullmatch(setting)
        held = numbers.setdefault(found[1] if found else setting, [])
        held += [int(found[2])] if found else []
    return ", ".join(
        f"{head}{run}" for head, held in numbers.items() for run in collapse_vlans(held).split(",")
    )


def collapse(ports: Iterable[str], order: Mapping[str, int]) -> str:
    """Ports for people: `ports swp1 to swp16, swp32`; names that the model lacks come last."""
    known = sorted((each for each in ports if each in order), key=order.__getitem__)
    words: list[str] = []
    for _, group in groupby(enumerate(known), lambda each: order[each[1]] - each[0]):
        run = [name for _, name in group]
        words += run if len(run) < _SHORTEST_RUN else [f"{run[0]} to {run[-1]}"]
    words += [name for name in ports if name not in order]
    single = len(words) == 1 and " " not in words[0]
    return f"{'port' if single else 'ports'} {', '.join(words)}"
