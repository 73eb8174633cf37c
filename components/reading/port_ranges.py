"""Ranges of ports in the file, `swp1-16: gpu[01-16]/rail-0`, to one entry a port: pure.

A range is written as the switch writes it, `1/1-1/8` or `1/1-8` on Onyx, `swp1-8` on Cumulus,
`Ethernet1/1-8/1` on EOS, or with brackets, `swp[1-8]`. It holds the whole ports of the model from
the first to the last. From the first part of a port to the last one of another, `swp1s0-swp4s1`, it
holds all their parts.
Brackets count what is plugged in, as Slurm's host lists do: `gpu[01-08]/rail-0` is eight hosts,
`gpu01/rail-[0,2]` two rails of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from pydantic import ValidationError

from components.catalogue.switches import find_model
from components.catalogue.switches.switch_model import SwitchModel
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.core.problem import Finding, Json, Lines, Place, SpecPath, Spot
from components.model.switch_models import DescribedSwitch
from components.model.texts import count_up, in_words
from components.model.units import PORT_TARGET
from components.reading.host_ranges import expand_hosts
from components.reading.yaml_text import YamlText

RULE = "port-range"
_BRACKETS = re.compile(r"\[([0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)\]")
_MOST = 1024
"""Limit for the numbers in one bracket: more than any switch has ports."""


@dataclass(slots=True)
class _Spread:
    path: SpecPath
    """Path of its `ports`."""
    name: str
    system: str
    ports: dict[str, Json] = field(default_factory=dict[str, Json])
    written: dict[str, str] = field(default_factory=dict[str, str])
    """Port to its key in the file."""
    problems: list[Finding] = field(default_factory=list[Finding])

    def refuse(self, keys: Sequence[str], what: str, fix: str) -> None:
        places = tuple(Place((*self.path, key), key) for key in keys)
        self.problems.append(Finding(what, places, fix, rule=RULE))


def spread_ports(text: YamlText) -> YamlText:
    """Write each range of ports as one entry per port, on the line of the range.

    Returns:
        The same text if it has no range. Unreadable ranges are left out, each with its problem.
    """
    if not isinstance(text.value, dict):
        return text
    switches = text.value.get("switches")
    if not isinstance(switches, list):
        return text
    described = _described(text.value.get("switch_models"))
    done = [_spread_switch(s, switch, described) for s, switch in enumerate(switches)]
    if not any(done):
        return text
    merged: list[Json] = [
        {**switch, "ports": spread.ports} if spread and isinstance(switch, dict) else switch
        for switch, spread in zip(switches, done, strict=True)
    ]
    spreads = [spread for spread in done if spread]
    return YamlText(
        {**text.value, "switches": merged},
        _lines(text.lines, spreads),
        (*text.problems, *(problem for spread in spreads for problem in spread.problems)),
    )


def _described(written: Json) -> dict[str, DescribedSwitch]:
    """The models that the file describes; wrong ones are skipped here and reported by the model."""
    found: dict[str, DescribedSwitch] = {}
    for name, facts in written.items() if isinstance(written, dict) else ():
        with suppress(ValidationError):
            found[name] = DescribedSwitch.model_validate(facts)
    return found


def _spread_switch(
    s: int, switch: Json, described: Mapping[str, DescribedSwitch]
) -> _Spread | None:
    """Spread the ranges of one switch; None if it has no range or its system is unknown."""
    ports = switch.get("ports") if isinstance(switch, dict) else None
    if not isinstance(switch, dict) or not isinstance(ports, dict):
        return None
    name, system = str(switch.get("model")), str(switch.get("os"))
    own = described.get(name) if system in SWITCH_SYSTEMS else None
    model = own.as_model(name, system) if own else find_model(name)
    known = model.ports.get(system, ()) if model else ()
    if not any(map(_is_range, ports, ports.values())):
        return None
    spread = _Spread(("switches", s, "ports"), str(switch.get("name")), system)
    if model is None or not known:
        return _unread(switch.get("model"), ports, spread) if system in SWITCH_SYSTEMS else None
    for key, value in ports.items():
        names = (key,) if "-" not in key else _ports_between(key, model, known, spread)
        if names:
            _place(key, value, names, spread)
    return spread


def _unread(model: Json, ports: Mapping[str, Json], spread: _Spread) -> _Spread:
    """Leave out the ranges of a switch with unknown ports, and report them."""
    ranges = [key for key, value in ports.items() if _is_range(key, value)]
    why, fix = "only its model says which ports these are", "write the switch's model."
    if isinstance(model, str):
        why = f"nothing is known of the ports of {model} with {spread.system}"
        fix = (
            f"correct model or os, or describe it: switch_models: {{{model}: {{ports: 32, "
            "speeds_gbit_s: [100]}}; or write each port separately."
        )
    spread.refuse(ranges, f"{spread.name} has ranges of ports, and {why}.", fix)
    spread.ports.update((key, value) for key, value in ports.items() if key not in ranges)
    return spread


def _is_range(key: str, value: Json) -> bool:
    return "-" in key or "[" in _target(value) + _address(value)


def _target(value: Json) -> str:
    to = value.get("to") if isinstance(value, dict) else value
    return to if isinstance(to, str) else ""


def _address(value: Json) -> str:
    address = value.get("address") if isinstance(value, dict) else None
    return address if isinstance(address, str) else ""


def _ports_between(
    key: str, model: SwitchModel, known: Sequence[str], spread: _Spread
) -> tuple[str, ...]:
    ends = re.sub(r"([^\[\]]*)\[([0-9]+)-([0-9]+)\](.*)", r"\1\2\4-\1\3\4", key)
    first, _, last = (part.strip() for part in ends.partition("-"))
    parts = _parts_between(first, last, model, known, spread.system)
    if parts:
        return parts
    end = next((name for name in _longer(first, last) if name in known), None)
    begun = first if first in known else None
    for verb, written, found in (("begins", first, begun), ("ends", last, end)):
        if found is None:
            ports = f"{known[0]} to {known[-1]}"
            spread.refuse(
                (key,),
                f"the range {key} of {spread.name} {verb} at {written}, but {model.described} "
                "lacks that port.",
                f"write the first and the last port of {ports}, or the first and the last part: "
                f"{_example(model, spread.system)}.",
            )
            return ()
    begin, stop = known.index(first), known.index(end or first)
    if begin > stop:
        spread.refuse(
            (key,), f"the range {key} of {spread.name} runs backwards.", f"write {end}-{first}."
        )
        return ()
    return tuple(known[begin : stop + 1])


def _parts_between(
    first: str, last: str, model: SwitchModel, known: Sequence[str], system: str
) -> tuple[str, ...]:
    """Return the parts from the first one to the last one, or nothing if this is no such range.

    `swp1s0-swp4s1` is both halves of four ports: the last part gives the number of parts of each
    port.
    """
    begin = model.place(system, first)
    for name in _longer(first, last):
        end = model.place(system, name)
        if begin is None or end is None or not {begin.whole, end.whole} <= {*known}:
            continue
        wholes = known[known.index(begin.whole) : known.index(end.whole) + 1]
        for form in model.splits_of(system, end.whole):
            names = [model.part_names(system, whole, form.parts) for whole in wholes]
            if names and (names[0][0], names[-1][-1]) == (first, name):
                return tuple(part for each in names for part in each)
    return ()


def _example(model: SwitchModel, system: str) -> str:
    first = model.ports[system][-1]
    forms = model.splits_of(system, first)
    names = model.part_names(system, first, forms[0].parts if forms else 1)
    return f"{names[0]}-{names[-1]}"


def _longer(first: str, last: str) -> Iterator[str]:
    """Yield possible meanings of the end of a range: `4s1` after `swp1s0` is `swp4s1`."""
    ends = (m.end() for m in re.finditer(r"[^0-9]", first))
    heads = (first[:end] for end in reversed([0, *ends]))
    yield from (last, *(head + last for head in heads))


def _place(key: str, value: Json, names: Sequence[str], spread: _Spread) -> None:
    taken = [name for name in names if name in spread.ports]
    if taken:
        spread.refuse(
            (key, spread.written[taken[0]]),
            f"{key} and {spread.written[taken[0]]} of {spread.name} overlap in {in_words(taken)}.",
            "write each port in one entry.",
        )
    if not _is_range(key, value):  # the model reports any mistake in it
        if not taken:
            spread.ports[key], spread.written[key] = value, key
        return
    targets = _counted(key, _target(value), names, spread)
    addresses = _counted(key, _address(value), names, spread, needed=False)
    if not targets or not addresses:
        return
    if not re.match(PORT_TARGET, targets[0]):
        spread.refuse(
            (key,),
            f"{key} of {spread.name} leads to {_target(value)}, which is neither <host>/<rail> nor "
            "<switch>:<port>.",
            "write for example gpu[01-04]/rail-0.",
        )
        return
    for name, target, address in zip(names, targets, addresses, strict=True):
        if name in taken:
            continue
        own = {"to": target, "address": address} if address else {"to": target}
        spread.ports[name] = {**value, **own} if isinstance(value, dict) else target
        spread.written[name] = key


def _counted(
    key: str, text: str, names: Sequence[str], spread: _Spread, *, needed: bool = True
) -> list[str]:
    """Give one text per port; report a problem and give none if their numbers differ."""
    found = _targets(text, len(names)) if text or needed else [""] * len(names)
    if isinstance(found, str):
        ports = "one port" if len(names) == 1 else f"{len(names)} ports"
        spread.refuse(
            (key,),
            f"{key} of {spread.name} is {ports}, and {found}.",
            f"name as many as there are ports, for example "
            f"{_fitting(text, len(names)) if needed else '10.254.0.[0,2,4,6]'}.",
        )
        return []
    return found


def _fitting(text: str, count: int) -> str:
    """Count as many as there are ports, from the first number that was written."""
    found: list[str] = _BRACKETS.findall(text)
    first = re.match(r"[0-9]+", found[0]) if len(found) == 1 and count > 1 else None
    if first is None:
        return "gpu[01-04]/rail-0"
    last = f"{int(first[0]) + count - 1:0{len(first[0])}}"
    return text.replace(f"[{found[0]}]", f"[{first[0]}-{last}]")


def _targets(text: str, count: int) -> list[str] | str:
    """Expand a target to one text per port, or explain why that fails."""
    counted = [tuple(islice(count_up(found), _MOST + 1)) for found in _BRACKETS.findall(text)]
    plain = _BRACKETS.split(text)[::2]
    for numbers in counted:
        if not numbers:
            return f"{text} counts backwards"
        if len(numbers) != count:
            return f"{text} counts {len(numbers)}"
    if not counted and count > 1:
        return f"{text} is one" if text else "nothing that can be read is plugged in"
    rows = zip(*counted, strict=True) if counted else [()]
    return [
        plain[0] + "".join(number + rest for number, rest in zip(row, plain[1:], strict=True))
        for row in rows
    ]


def _lines(lines: Lines, spreads: Sequence[_Spread]) -> Lines:
    """Add the line of the range to each port of it, and to the values below the port."""
    root, switches = lines.root, lines.spot(("switches",))
    if root is None or switches is None or not isinstance(switches.inner, Sequence):
        return lines
    rows = list(switches.inner)
    for spread in spreads:
        number = spread.path[1]
        spot = lines.spot(spread.path)
        if isinstance(number, int) and spot and isinstance(spot.inner, Mapping):
            found = {name: spot.inner.get(key) for name, key in spread.written.items()}
            ports = {**spot.inner, **{name: each for name, each in found.items() if each}}
            rows[number] = _with(rows[number], "ports", Spot(spot.line, ports))
    return Lines(lines.file, _with(root, "switches", Spot(switches.line, rows)))


def _with(spot: Spot, key: str, inner: Spot) -> Spot:
    return Spot(spot.line, {**spot.inner, key: inner}) if isinstance(spot.inner, Mapping) else spot


def spread_document(document: Mapping[str, Json]) -> dict[str, Json]:
    """Spread templates and ranges of a document that was already checked, without its lines."""
    text = spread_ports(expand_hosts(YamlText(dict(document), Lines(), ())))
    return text.value if isinstance(text.value, dict) else dict(document)
