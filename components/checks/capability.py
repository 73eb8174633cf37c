"""Rules on the capabilities of a switch's model and system, and on the splits of its ports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from components.catalogue.cards import why_unplanned
from components.catalogue.switches import MODELS
from components.catalogue.switches.switch_model import SwitchModel
from components.catalogue.switches.systems import FOREIGN_RELEASES, SWITCH_SYSTEMS
from components.checks.rule import Finding, Findings, Here, at, find, places, walk
from components.checks.topology import PlacedPort, list_all_ports, list_cables
from components.core.problem import Place
from components.fabric.ports import PortSplit, link_speed, splits_of
from components.fabric.systems import least_release, system_of
from components.model.cluster import ClusterSpec
from components.model.fabric import DSCP_PER_PRIORITY, Switch
from components.model.switch_models import UNCHECKED

_USUAL_MTU_BYTES: Final = 9216
_SERIES: Final = 3
"""Number of equal first characters that puts two models into one series: `SN5`, `706`."""
_NUMBER: Final = re.compile(r"[0-9]+")


def check_switch_model(spec: ClusterSpec) -> Findings:
    """Each switch has a model that Railyard knows or that `switch_models` describes.

    For a model that the file describes, each check lists the facts that cannot be verified. Models
    without a login, or with other commands for queues, are refused with that reason.
    """
    mode = spec.rdma.mode
    for switch, here in walk(spec, "switches.*", Switch):
        where, model = here("model"), switch.hardware
        unplanned = why_unplanned(switch.model)
        if switch.is_described:
            name, described = switch.model, spec.switch_models[switch.model]
            known = " The file's description replaces the catalogue's." * (name in MODELS)
            words = {"name": name, "known": known, "unchecked": UNCHECKED}
            yield find("switch-model-described", *where, at(("switch_models", name)), **words)
            parts = (int(split.partition("x")[2]) for split in described.breakouts)
            if max(described.speeds_gbit_s) < max(parts, default=0):
                yield find("switch-model-part", at(("switch_models", name, "breakouts")), name=name)
        elif unplanned is not None:
            yield Finding(f"{switch.model} {unplanned[0]}.", where, unplanned[1])
        elif model is None:
            able = _models_of(switch.os)
            near = nearest_model(switch.model, able)
            what = f"Railyard does not know the switch model {switch.model} with {switch.os}."
            what += f" The nearest known one is {near}." if near else ""
            example = f"{{{switch.model}: {{ports: 32, speeds_gbit_s: [100]}}}}"
            fix = f"use one of: {', '.join(able)}; or describe it under switch_models: {example}."
            yield Finding(what, where, fix)
        is_roce = model is not None and switch.carries == "roce" and mode != "lossy_ecn"
        if model is not None and is_roce and not model.max_lossless_priorities:
            yield find("switch-lossy", *where, *places(spec, "rdma.mode"), mode=mode, model=model)
    used = {switch.model for switch in spec.switches}
    for name in [name for name in spec.switch_models if name not in used]:
        yield find("switch-model-unused", at(("switch_models", name)), name=name)


def _models_of(system: str) -> list[str]:
    return sorted(name for name, model in MODELS.items() if system in model.ports)


def nearest_model(name: str, known: Sequence[str]) -> str | None:
    """Return the nearest known model: in the same series, and then by its number.

    Different letters mean another series; the nearest model to SN5620 is SN5610, not SN4600C.
    """
    wanted = name.upper().removeprefix("DCS-")
    if not known:
        return None
    best = max(known, key=lambda each: _likeness(wanted, each.upper().removeprefix("DCS-")))
    return best if _likeness(wanted, best.upper().removeprefix("DCS-"))[0] >= _SERIES else None


def _likeness(one: str, other: str) -> tuple[int, int]:
    """Return the length of the common beginning, and the closeness of the first numbers."""
    pairs = zip(one, other, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    numbers = [int(found[0]) if (found := _NUMBER.search(text)) else 0 for text in (one, other)]
    return common, -abs(numbers[0] - numbers[1])


def check_switch_system(spec: ClusterSpec) -> Findings:
    """Each switch model runs the switch system that the file names.

    An SN5600 came years after Onyx' last model.
    """
    for switch, here in walk(spec, "switches.*", Switch):
        model = switch.hardware
        if model is not None and switch.os not in model.ports:
            fix = f"set os to {' or '.join(model.ports)}, or model to "
            fix += f"{' or '.join(_models_of(switch.os))}. {model.capability_line()}."
            what = f"{model.described} does not run {switch.os}."
            yield Finding(what, here("os", "model"), fix)


def check_switch_release(spec: ClusterSpec) -> Findings:
    """Each switch runs a release that its system and its model support, with the needed commands.

    Onyx has `show roce` since 3.8.2000; Cumulus has NVUE by default since 5.0; the driver for EOS
    was written after 4.28.0; SONiC creates lossless buffers for PFC's priorities since the branch
    202205 (vendors' editions count otherwise); MLNX-OS prints partitions in the expected form since
    3.6.8010. Some models came later.
    """
    for switch, here in walk(spec, "switches.*", Switch):
        model, system = switch.hardware, system_of(switch.os)
        if model is not None and switch.os not in model.ports:
            continue  # `switch-system` names the cause
        least, keys = least_release(switch.os, model), ["release"]
        if not system.reads_release(switch.release):
            title, example = system_of(switch.os).title, system.a_release
            pattern, edition = FOREIGN_RELEASES.get(switch.os, (None, ""))
            what = f"write the release that the switch runs, for example {example}."
            fix = f"write what the switch runs, for example {example}."
            if pattern is not None and pattern.fullmatch(switch.release):
                what = f"from {edition}"
                fix = f"install the community's {title} and write its release, for example "
                fix += f"{example}; or write `switches: []`: `railyard plan SITE --stage fabric` "
                fix += "then prints the switches' settings."
            what = f'the release "{switch.release}" of {switch.name} is {what}.'
            yield Finding(what, here("release"), fix)
        elif system.parse_release(switch.release) < least:
            needed, why = system.show_release(least), f"which {system.older}."
            if model is not None and least > system.min_release:
                why, keys = f"but {model.described} needs {needed}.", ["release", "model"]
            what = f"{switch.name} runs {system_of(switch.os).title} {switch.release}, {why}"
            fix = f"upgrade it to {needed} or later, and write its release ({system.a_release})."
            yield Finding(what, here(*keys), fix)


def check_port_capability(spec: ClusterSpec) -> Findings:
    """Each port exists on its switch model, and supports the MTU and the NIC's speed.

    A split port no longer exists as a whole: 1/1 and 1/1/1 exclude each other.
    """
    ports = {(port.switch.name, port.name): port for port in list_all_ports(spec)}
    for port in list_all_ports(spec):
        model, os = port.switch.hardware, port.switch.os
        if model is not None and os in model.ports:
            yield from _unsupported(spec, port, model)
        name = (model.whole_port(os, port.name) if model else None) or port.name
        parent = ports.get((port.switch.name, name))
        if parent is not None and parent.name != port.name:
            yield find("port-capability-part", port.place, parent.place, port=port, parent=parent)
    for cable in list_cables(spec):
        switch, name, nic = cable.port.switch, cable.port.name, cable.nic.nic
        model, speed = switch.hardware, link_speed(switch, name)
        if model is None or nic.is_too_fast or not 0 < speed < nic.speed_gbit_s:
            continue  # `nic-speed` reports a rate above the card's own
        split = next((each for each in splits_of(switch).values() if name in each.parts), None)
        what = f"{f'port {name}' if name in model.slow_ports else 'a port'} of {model.described}"
        if split is not None:
            what = f"a part of a port of {model.described}, split in {split.count},"
        what = f"{cable.nic} has {nic.speed_gbit_s} Gbit/s, but {what} has {speed}."
        fix = "write the real speed of the link: acceptance judges bandwidth by it."
        yield Finding(what, (*cable.nic.at("speed_gbit_s"), cable.port.place), fix)


def _unsupported(spec: ClusterSpec, port: PlacedPort, model: SwitchModel) -> Findings:
    os, own = port.switch.os, port.port.mtu_bytes
    if not model.has_port(os, port.name):
        fix = f"its ports are {model.describe_ports(os)}."
        yield Finding(f"{model.described} lacks port {port.name}.", (port.place,), fix)
    mtu_bytes = own or spec.rdma.port_mtu_bytes
    low, high = model.mtu_range_bytes[os]
    if not low <= mtu_bytes <= high:
        usual, source = min(_USUAL_MTU_BYTES, high), SWITCH_SYSTEMS[os].mtu_source
        if model.most_mtu_bytes is not None:
            own_file = f"the file of {model.name}"
            source = "switch_models of this file" if port.switch.is_described else own_file
        where = port.at("mtu_bytes") if own else places(spec, "rdma.port_mtu_bytes")
        fix = f"choose {low} to {high}; {usual} is usual. Source: {source}."
        yield Finding(f"a port of {model.described} cannot have MTU {mtu_bytes}.", where, fix)


def check_cumulus_profile(spec: ClusterSpec) -> Findings:
    """The file asks a Cumulus switch only for values that its RoCE profile offers.

    The profile, `nv set qos roce`, has priority 3 for RoCE, and priority 6 for congestion
    notifications. Only thresholds, shares and strict classes can differ.
    """
    roce = spec.rdma.transport == "roce"
    for os in dict.fromkeys(switch.os for switch in spec.switches if roce):
        s = next(s for s, switch in enumerate(spec.switches) if switch.os == os)
        profile, title = system_of(os).profile, system_of(os).title
        given = {"dscp": profile.priority, "cnp_dscp": profile.cnp_priority} if profile else {}
        for name, wanted in given.items():
            dscp: int = getattr(spec.rdma, name)
            priority, least = dscp // DSCP_PER_PRIORITY, wanted * DSCP_PER_PRIORITY
            if priority != wanted:
                what = f"{name} {dscp} is priority {priority}, but {spec.switches[s].name}'s "
                fix = f"set {name} to {least}-{least + 7}: {title} has only that priority."
                where = places(spec, f"rdma.{name}", f"switches.{s}.os")
                yield Finding(f"{what}profile has {wanted}.", where, fix)


def check_port_split(spec: ClusterSpec) -> Findings:
    """A port is split as its model allows, and no cable uses a port that the split blocks.

    On some models a port split in four or eight blocks the next port. All parts of one port are
    equal, so it cannot serve cards of two speeds. Cumulus accepts the line that splits ports since
    release 5.4.
    """
    cables = {(cable.port.switch.name, cable.port.name): cable for cable in list_cables(spec)}
    for switch, here in walk(spec, "switches.*", Switch):
        model = switch.hardware
        if model is None or switch.os not in model.ports:
            continue  # `switch-model` and `switch-system` name the cause
        yield from _forms(switch, here, model)
        system, least = system_of(switch.os), least_release(switch.os, model)
        release = system.parse_release(switch.release)
        # `switch-release` reports a release before the least one.
        if splits_of(switch) and system.splits is not None and least <= release < system.splits:
            title = system_of(switch.os).title
            words = {"switch": switch, "title": title, "needed": system.show_release(system.splits)}
            yield find("port-split-splits", *here("release"), **words)
        for split in splits_of(switch).values():
            yield from _taken(switch, here, model, split)
            found = {name: cables.get((switch.name, name)) for name in split.named}
            speeds = {
                cable.nic.nic.speed_gbit_s: (name, cable.nic)
                for name, cable in found.items()
                if cable and not cable.nic.nic.is_too_fast  # `nic-speed` reports it
            }
            if len(speeds) > 1:
                ordered = [(speed, *speeds[speed]) for speed in sorted(speeds)]
                words = " and ".join(f"{speed} Gbit/s on {name}" for speed, name, _ in ordered)
                where: list[Place] = []
                for _, name, nic in ordered:
                    where += [at((*here.path, "ports", name)), *nic.at("speed_gbit_s")]
                yield find("split-speeds", *where, split=split, switch=switch, words=words)


def _forms(switch: Switch, here: Here, model: SwitchModel) -> Findings:
    wrong: dict[str, list[str]] = {}
    for whole, mode in switch.breakouts.items():
        forms = model.splits_of(switch.os, whole)
        where = here(f"breakouts.{whole}")
        if mode in {form.mode for form in forms}:
            continue
        if whole not in model.ports[switch.os]:
            ports = model.describe_ports(switch.os).partition(", split")[0]
            what = f"breakouts of {switch.name} names {whole}, which {model.described} lacks."
            yield Finding(what, where, f"name whole ports: {ports}.")
        elif forms:
            wrong.setdefault(mode, []).append(whole)
        else:
            yield find("port-split-never", *where, whole=whole, model=model, switch=switch)
    for mode, wholes in wrong.items():
        able = [[form.mode for form in model.splits_of(switch.os, whole)] for whole in wholes]
        modes = " or ".join(form for form in able[0] if all(form in each for each in able))
        for whole in wholes:
            what = f"port {whole} of {model.described} cannot be split as {mode} with {switch.os}."
            yield Finding(what, here(f"breakouts.{whole}"), f"write {modes}.")


def _taken(switch: Switch, here: Here, model: SwitchModel, split: PortSplit) -> Findings:
    for name in split.named if split.whole in switch.breakouts else ():
        if name not in split.parts:
            what = f"{switch.name} lacks {name}: breakouts makes {split.count} of {split.whole}."
            fix = f"use {', '.join(split.parts)}, or correct breakouts."
            yield Finding(what, here(f"ports.{name}", f"breakouts.{split.whole}"), fix)
    blocked, splits = model.blocked_by(switch.os, split.whole, split.count), splits_of(switch)
    used = splits[blocked].named if blocked and blocked in splits else (blocked or "",)
    for name in used:
        if name in switch.ports:
            what = f"{switch.name} lacks {name}: {split.whole} is split in {split.count}."
            fix = f"use another port: such a split removes the next. {model.capability_line()}."
            yield Finding(what, here(*(f"ports.{each}" for each in (name, *split.named[-1:]))), fix)
