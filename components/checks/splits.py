"""Rules on split ports."""

from __future__ import annotations

from collections.abc import Mapping

from components.catalogue.switches.switch_model import SwitchModel
from components.checks.rule import Finding, Findings, at
from components.checks.topology import Cable, list_cables
from components.core.problem import Place
from components.fabric.splits import PortSplit, splits_of
from components.fabric.systems import driver_of, least_release, system_of
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch


def check_port_split(spec: ClusterSpec) -> Findings:
    """A port is split as its model can be, and nothing else is plugged into what that takes.

    The parts that `ports` names say into how many a port is split, unless `breakouts` of the switch
    does. On some models a port that is split in four or eight takes the port after it. The parts of
    one port are alike, so that cards of two speeds cannot both have theirs. Cumulus splits ports
    from release 5.4 on by the line that is sent.
    """
    cables = {(cable.port.switch.name, cable.port.name): cable for cable in list_cables(spec)}
    for s, switch in enumerate(spec.switches):
        model = switch.hardware
        if model is None or switch.os not in model.ports:
            continue  # `switch-model` and `switch-system` name the cause
        splits = splits_of(switch)
        yield from _forms(s, switch, model)
        yield from _taken(s, switch, model, splits)
        yield from _releases(s, switch, splits)
        for split in splits.values():
            yield from _unlike(s, switch, split, cables)


def _forms(s: int, switch: Switch, model: SwitchModel) -> Findings:
    """What `breakouts` says and the model has not."""
    wrong: dict[str, list[str]] = {}
    for whole, mode in switch.breakouts.items():
        forms = model.splits_of(switch.os, whole)
        if mode in {form.mode for form in forms}:
            continue
        where = at(("switches", s, "breakouts", whole), mode)
        if whole not in model.ports[switch.os]:
            ports = model.describe_ports(switch.os).partition(", split")[0]
            yield Finding(
                f"breakouts of {switch.name} names {whole}, not a whole port of {model.described}.",
                (where,),
                f"name whole ports: {ports}.",
            )
            continue
        if forms:
            wrong.setdefault(mode, []).append(whole)
            continue
        yield Finding(
            f"port {whole} of {model.described} cannot be split with {switch.os}.",
            (where,),
            "remove it, and use the whole port.",
        )
    for mode, wholes in wrong.items():
        able = [[form.mode for form in model.splits_of(switch.os, whole)] for whole in wholes]
        modes = " or ".join(form for form in able[0] if all(form in each for each in able))
        for whole in wholes:
            yield Finding(
                f"port {whole} of {model.described} cannot be split as {mode} with {switch.os}.",
                (at(("switches", s, "breakouts", whole), mode),),
                f"write {modes}.",
            )


def _taken(s: int, switch: Switch, model: SwitchModel, splits: Mapping[str, PortSplit]) -> Findings:
    """Ports in use that are not there beside the splits."""
    for split in splits.values():
        said = switch.breakouts.get(split.whole)
        for name in split.named:
            if name not in split.parts and said is not None:
                yield Finding(
                    f"{switch.name} has no {name}: breakouts makes {split.count} of {split.whole}.",
                    (_place(s, switch, name), at(("switches", s, "breakouts", split.whole), said)),
                    f"use {', '.join(split.parts)}, or correct breakouts.",
                )
        blocked = model.blocked_by(switch.os, split.whole, split.count)
        used = splits[blocked].named if blocked and blocked in splits else (blocked or "",)
        for name in used:
            if name in switch.ports:
                yield Finding(
                    f"{switch.name} has no {name}: {split.whole} is split in {split.count}.",
                    (
                        _place(s, switch, name),
                        *(_place(s, switch, part) for part in split.named[-1:]),
                    ),
                    "plug it into another port: of each pair the second one is gone where the "
                    f"first one is split so. {model.capability_line()}.",
                )


def _place(s: int, switch: Switch, name: str) -> Place:
    """Where the file uses a port."""
    return at(("switches", s, "ports", name), switch.ports[name].to)


def _releases(s: int, switch: Switch, splits: Mapping[str, PortSplit]) -> Findings:
    system = system_of(switch.os)
    release = system.parse_release(switch.release)
    if not splits or system.splits is None or release >= system.splits:
        return
    if release < least_release(switch.os, switch.hardware):
        return  # `switch-release` names that alone
    title = driver_of(switch.os).title
    yield Finding(
        f"{switch.name} has ports to split; {title} {switch.release} uses other lines for it.",
        (at(("switches", s, "release"), switch.release),),
        f"upgrade it to {system.show_release(system.splits)} or later, or use whole ports.",
    )


def _unlike(
    s: int, switch: Switch, split: PortSplit, cables: Mapping[tuple[str, str], Cable]
) -> Findings:
    """Cards of several speeds on one port."""
    found = [
        (name, cables[switch.name, name].nic)
        for name in split.named
        if (switch.name, name) in cables
        and not cables[switch.name, name].nic.nic.is_too_fast  # `nic-speed` reports it
    ]
    speeds = {nic.nic.speed_gbit_s: (name, nic) for name, nic in found}
    if len(speeds) <= 1:
        return
    ordered = sorted(speeds)
    words = " and ".join(f"{speed} Gbit/s on {speeds[speed][0]}" for speed in ordered)
    yield Finding(
        f"port {split.whole} of {switch.name} is split for cards of unlike speeds: {words}.",
        tuple(
            place
            for speed in ordered
            for place in (
                at(("switches", s, "ports", speeds[speed][0])),
                at((*speeds[speed][1].path, "speed_gbit_s"), speed),
            )
        ),
        "plug cards of one speed into the parts of one port.",
    )
