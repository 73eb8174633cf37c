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

from pydantic import ValidationError

from components.catalogue.switches import find_model
from components.catalogue.switches.switch_model import SwitchModel
from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.core.problem import Finding, Json, Lines, Place, SpecPath, Spot
from components.model.switch_models import DescribedSwitch
from components.model.texts import in_words
from components.model.units import PORT_TARGET
from components.reading import host_ranges
from components.reading.yaml_text import YamlText

RULE = "port-range"


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

    def lines(self, root: Spot | None) -> Spot | None:
        """Add the line of the range to each port of it, and to the values below the port."""
        spot = Lines(None, root).spot(self.path)
        if root is None or spot is None or not isinstance(spot.inner, Mapping):
            return root
        found = {name: spot.inner.get(key) for name, key in self.written.items()}
        ports = {**spot.inner, **{name: each for name, each in found.items() if each}}
        return root.put(self.path, Spot(spot.line, ports))


def spread_ports(text: YamlText) -> YamlText:
    """Write each range of ports as one entry per port, on the line of the range.

    Unreadable ranges are left out, each with its problem.
    """
    switches = text.value.get("switches") if isinstance(text.value, dict) else None
    if not isinstance(text.value, dict) or not isinstance(switches, list):
        return text
    written, described = text.value.get("switch_models"), dict[str, DescribedSwitch]()
    for name, facts in written.items() if isinstance(written, dict) else ():
        with suppress(ValidationError):  # the model reports wrong ones
            described[name] = DescribedSwitch.model_validate(facts)
    merged, root, problems = list[Json](), text.lines.root, [*text.problems]
    for s, switch in enumerate(switches):
        spread = _spread_switch(s, switch, described) if isinstance(switch, dict) else None
        if isinstance(switch, dict) and spread:
            merged.append({**switch, "ports": spread.ports})
            root = spread.lines(root)
            problems += spread.problems
        else:
            merged.append(switch)
    value: Json = {**text.value, "switches": merged}
    return YamlText(value, Lines(text.lines.file, root), tuple(problems))


def _spread_switch(
    s: int, switch: Mapping[str, Json], described: Mapping[str, DescribedSwitch]
) -> _Spread | None:
    """Spread the ranges of one switch; None if it has no range or its system is unknown."""
    ports, name, system = switch.get("ports"), str(switch.get("model")), str(switch.get("os"))
    if not isinstance(ports, dict) or not any(map(_is_range, ports, ports.values())):
        return None
    own = described.get(name) if system in SWITCH_SYSTEMS else None
    model = own.as_model(name, system) if own else find_model(name)
    known = model.ports.get(system, ()) if model else ()
    spread = _Spread(("switches", s, "ports"), str(switch.get("name")), system)
    if model is None or not known:
        if system not in SWITCH_SYSTEMS:
            return None
        # Leave out the ranges of a switch with unknown ports, and report them.
        ranges = [key for key, value in ports.items() if _is_range(key, value)]
        why, fix = "only its model says which ports these are", "write the switch's model."
        if isinstance(switch.get("model"), str):
            why = f"nothing is known of the ports of {name} with {system}"
            fix = f"correct model or os, or describe it: switch_models: {{{name}: {{ports: 32, "
            fix += "speeds_gbit_s: [100]}}; or write each port separately."
        spread.refuse(ranges, f"{spread.name} has ranges of ports, and {why}.", fix)
        spread.ports.update((key, value) for key, value in ports.items() if key not in ranges)
        return spread
    for key, value in ports.items():
        names = (key,) if "-" not in key else _ports_between(key, model, known, spread)
        if names:
            _place(key, value, names, spread)
    return spread


def _is_range(key: str, value: Json) -> bool:
    return "-" in key or "[" in _text(value, "to") + _text(value, "address")


def _text(value: Json, key: str) -> str:
    """Return one text of a port; a port can also be written as its target alone."""
    found = value.get(key) if isinstance(value, dict) else value if key == "to" else None
    return found if isinstance(found, str) else ""


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
            forms = model.splits_of(spread.system, known[-1])
            names = model.part_names(spread.system, known[-1], forms[0].parts if forms else 1)
            what = f"the range {key} of {spread.name} {verb} at {written}, but {model.described} "
            fix = f"write the first and the last port of {known[0]} to {known[-1]}, or the first "
            fix += f"and the last part: {names[0]}-{names[-1]}."
            spread.refuse((key,), f"{what}lacks that port.", fix)
            return ()
    begin, stop = known.index(first), known.index(end or first)
    if begin > stop:
        what = f"the range {key} of {spread.name} runs backwards."
        spread.refuse((key,), what, f"write {end}-{first}.")
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


def _longer(first: str, last: str) -> Iterator[str]:
    """Yield possible meanings of the end of a range: `4s1` after `swp1s0` is `swp4s1`."""
    ends = (m.end() for m in re.finditer(r"[^0-9]", first))
    heads = (first[:end] for end in reversed([0, *ends]))
    yield from (last, *(head + last for head in heads))


def _place(key: str, value: Json, names: Sequence[str], spread: _Spread) -> None:
    taken = [name for name in names if name in spread.ports]
    if taken:
        other = spread.written[taken[0]]
        what = f"{key} and {other} of {spread.name} overlap in {in_words(taken)}."
        spread.refuse((key, other), what, "write each port in one entry.")
    if not _is_range(key, value):  # the model reports any mistake in it
        if not taken:
            spread.ports[key], spread.written[key] = value, key
        return
    target, address = _text(value, "to"), _text(value, "address")
    if fault := _fault(target, address, len(names)):
        spread.refuse((key,), f"{key} of {spread.name} {fault[0]}.", f"{fault[1]}.")
        return
    for place, name in enumerate(names):
        if name not in taken:
            own = {"to": target, "address": address} if address else {"to": target}
            own = {key: host_ranges.number_text(text, place) for key, text in own.items()}
            spread.ports[name] = {**value, **own} if isinstance(value, dict) else own["to"]
            spread.written[name] = key


def _fault(target: str, address: str, count: int) -> tuple[str, str] | None:
    """Return the fault of a target or an address of ports, and the fix; None without one."""
    brackets, fitting = host_ranges.BRACKETS.findall(target), "gpu[01-04]/rail-0"
    wrong = _miscounted(target, count)
    if len(brackets) == 1 and count > 1:
        fitting = host_ranges.fit_bracket(target, brackets[0], count)
    if not wrong and address:
        wrong, fitting = _miscounted(address, count), "10.254.0.[0,2,4,6]"
    if wrong:
        fix = f"name as many as there are ports, for example {fitting}"
        return f"is {'one port' if count == 1 else f'{count} ports'}, and {wrong}", fix
    if re.match(PORT_TARGET, host_ranges.number_text(target, 0)):
        return None
    what = f"leads to {target}, which is neither <host>/<rail> nor <switch>:<port>"
    return what, "write for example gpu[01-04]/rail-0"


def _miscounted(text: str, count: int) -> str:
    """Return why a text does not have one value for each port; empty if it has."""
    counts = [host_ranges.count_of(bracket) for bracket in host_ranges.BRACKETS.findall(text)]
    if not counts and count > 1:
        return f"{text} is one" if text else "nothing that can be read is plugged in"
    wrong = next((each for each in counts if each != count), count)
    return "" if wrong == count else f"{text} counts {wrong or 'backwards'}"


def spread_document(document: Mapping[str, Json]) -> dict[str, Json]:
    """Spread templates and ranges of a document that was already checked, without its lines."""
    text = spread_ports(host_ranges.expand_hosts(YamlText(dict(document), Lines(), ())))
    return text.value if isinstance(text.value, dict) else dict(document)
