"""Judges each worker's view of its InfiniBand fabric, its rails and its paths. Pure.

One row per host and question, and one per question to the whole fabric. An unseen fact is an error,
a question that was not asked is skipped; neither is a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from components.acceptance.judge.verdict import Finding, Verdict, row, verdict_for
from components.acceptance.probes import ib_look
from components.acceptance.probes.ib_look import ACTIVE, FULL_MEMBER, MASTER, IbFacts, IbLimits
from components.core.templates import read_table

FABRIC: Final = "fabric"
"""Subject of the rows about the whole fabric."""

_DOWN: Final = "1: DOWN"
_BY_HAND: Final = "read ibdiagnet2.log of a run by hand"
_TABLES: Final[Mapping[str, Any]] = read_table(__file__, "infiniband")


def judge_ib(facts: Mapping[str, IbFacts], limits: IbLimits | None) -> list[Finding]:
    """All rows of a fabric of own switches; empty if the site has no such fabric."""
    if limits is None:
        return []
    found: list[Finding] = []
    for host, seen in sorted(facts.items()):
        asks = () if seen.why_nothing else limits.paths.get(host, ())
        own = (*_judge_host(host, seen, limits), *_judge_paths(host, facts, asks))
        found += (each.about(host) for each in own)
    for rail in limits.rails:
        # One subnet manager must have set up all ports of a rail, in one subnet.
        ports = {
            host: port
            for host, guid in rail.ports.items()
            if host in facts
            for port in facts[host].ports
            if port.guid == guid
        }
        down = [host for host, port in ports.items() if port.state != ACTIVE]
        unseen = sorted({*rail.ports} - {*ports})
        subnets = {(port.prefix, port.sm_lid) for host, port in ports.items() if host not in down}
        said = [f"{host} is not set up" for host in down]
        said += [f"{host} was not seen" for host in unseen]
        said += [f"{len(subnets)} subnets or managers"] if len(subnets) > 1 else []
        verdict = "error" if unseen and not down else verdict_for(len(subnets) == 1 and not said)
        actual, count = "; ".join(said) or "so they are", len(rail.ports)
        whole = row("rail of adapters", verdict, actual, rail=rail.name, count=count)
        found.append(whole.about(FABRIC))
    return [*found, *(each.about(FABRIC) for each in _judge_fabric(facts, limits))]


def warn_ib(facts: Mapping[str, IbFacts], limits: IbLimits | None) -> list[Finding]:
    """Report ibdiagnet's warnings, and its errors that do not affect jobs."""
    diagnosis = _diagnosis_of(facts)
    return [
        row("warnings of ibdiagnet", "failed", f"{each.warnings} warnings, {each.errors} errors",
            each.comment, stage=each.name, step=_BY_HAND).about(FABRIC)
        for each in (diagnosis.stages if limits and diagnosis else ())
        if each.warnings or (each.errors and each.name not in _TABLES["stages"])
    ]  # fmt: skip


def _judge_host(host: str, seen: IbFacts, limits: IbLimits) -> Iterator[Finding]:
    if seen.why_nothing:
        yield row("no ib answer", "error", seen.why_nothing)
        return
    down = [port for port in seen.ports if port.state != ACTIVE]
    active = len(seen.ports) - len(down)
    # The switch port at the other end of a dead cable, if the file names it.
    far = {port.name: limits.cables.get(port.guid) for port in down if port.state == _DOWN}
    cables = {name: f" (cable to {place})" for name, place in far.items() if place}
    states = ", ".join(f"{port.name} {port.state}{cables.get(port.name, '')}" for port in down)
    steps = {_TABLES["states"].get(port.state, "look at ibstat on that host") for port in down}
    step = "; ".join(sorted(steps)) or "compare `hcas` of the file with ibstat on that host"
    actual = f"{active} of {len(seen.ports)} active" + (f"; {states}" if states else "")
    verdict = verdict_for(active >= limits.hcas)
    yield row("ib ports", verdict, actual, count=limits.hcas, step=step)
    rates = {port.name: port.rate_gbit_s for port in seen.ports}
    verdict, actual = _on_every_port(rates, limits.rate_gbit_s)
    yield row("ib rate", verdict, actual, rate=limits.rate_gbit_s)
    mtus = {port.name: port.active_mtu_bytes for port in seen.ports}
    verdict, actual = _on_every_port(mtus, limits.mtu_bytes)
    dark = None in mtus.values() or not mtus
    check, found = ("ib mtu unseen", "error") if dark else ("ib mtu", verdict)
    yield row(check, found, actual, mtu=limits.mtu_bytes)
    for partition in limits.partitions:
        if partition.exclusive or host in partition.members:
            yield _judge_partition(host, seen.ports, partition)
    manager = seen.manager
    if manager is not None:
        yield row("subnet manager", verdict_for(manager.state == MASTER), _show(manager))
    elif "not installed" in seen.why_no_manager:
        yield row("unseen subnet manager", "error", seen.why_no_manager)
    else:
        yield row("silent subnet manager", "failed", seen.why_no_manager)


def _on_every_port(values: Mapping[str, float | None], wanted: float) -> tuple[Verdict, str]:
    if not values:
        return "error", "no port was seen"
    wrong = [
        f"{name} {'unknown' if value is None else f'{value:g}'}"
        for name, value in values.items()
        if value != wanted
    ]
    return verdict_for(not wrong), ", ".join(wrong) or "all have it"


def _judge_partition(
    host: str, ports: tuple[ib_look.IbPort, ...], partition: ib_look.PartitionLimit
) -> Finding:
    kind = partition.members.get(host)
    guids = partition.ports.get(host, tuple(port.guid for port in ports))
    wrong: list[str] = []
    by_guid = {port.guid: port for port in ports}
    for guid in guids:
        port = by_guid.get(guid)
        if port is None:
            wrong.append(f"no port {guid} on this host")
            continue
        held = {key & FULL_MEMBER for key in port.pkeys if key & ~FULL_MEMBER == partition.pkey}
        if kind is None and held:
            wrong.append(f"{port.name} has it")
        elif kind is not None and not held:
            wrong.append(f"{port.name} lacks it")
        elif kind == "full" and FULL_MEMBER not in held:
            wrong.append(f"{port.name} is limited")
        elif kind == "limited" and held == {FULL_MEMBER} and partition.exclusive:
            wrong.append(f"{port.name} is full")
    chosen = kind is not None and len(guids) < len(ports)
    outside = ports if partition.exclusive and chosen else ()
    wrong += [
        f"{port.name} has it, and is not a member"
        for port in outside
        if port.guid not in guids and partition.pkey in {key & ~FULL_MEMBER for key in port.pkeys}
    ]
    which = "every port" if len(guids) == len(ports) else f"{len(guids)} of the ports"
    which = "no port" if kind is None else f"{which}, {kind}{' or more' * (kind != 'full')}"
    good = (bool(guids) or kind is None) and not wrong
    actual = ", ".join(wrong) or ("none has it" if kind is None else "all have it")
    values = {"name": partition.name, "key": f"0x{partition.pkey:04x}", "which": which}
    return row("partition", verdict_for(good), actual, **values)


def _judge_paths(
    host: str, facts: Mapping[str, IbFacts], asks: tuple[ib_look.PathAsk, ...]
) -> Iterator[Finding]:
    # A down port lacks every path, and the partition is not the cause: `ib ports` reports the port.
    down = {
        port.guid: f"{name} {port.name}"
        for name, seen in facts.items()
        for port in seen.ports
        if port.state != ACTIVE
    }
    for partition in dict.fromkeys(ask.partition for ask in asks):
        own = [ask for ask in asks if ask.partition == partition]
        ends = dict.fromkeys(guid for ask in own for guid in (ask.source, ask.target))
        said: list[str] = []
        verdicts: set[Verdict] = {"passed"}
        for ask in own:
            told = facts[host].paths.get(ask.name)
            if told is None or told.why_nothing:
                why = told.why_nothing if told else "not asked, since no subnet manager answered"
                said.append(f"{ask.to}: {why}")
                verdicts.add("error")
            else:
                said.append(f"{'a' if told.found else 'no'} path to {ask.to}")
                verdicts.add(verdict_for(told.found == ask.wanted))
        worst: tuple[Verdict, ...] = ("failed", "error", "passed")
        verdict: Verdict = next(each for each in worst if each in verdicts)
        actual = ", ".join(said)
        if lost := [down[guid] for guid in ends if guid in down]:
            verdict, actual = "skipped", f"not set up: {', '.join(lost)}"
        paths = ", ".join(f"{'a' if ask.wanted else 'no'} path to {ask.to}" for ask in own)
        yield row("paths", verdict, actual, partition=partition, paths=paths)


def _show(manager: ib_look.SubnetManager) -> str:
    state = ib_look.SM_STATES.get(manager.state, f"in state {manager.state}")
    return f"0x{manager.guid} at LID {manager.lid}, priority {manager.priority}, {state}"


def _diagnosis_of(facts: Mapping[str, IbFacts]) -> ib_look.Diagnosis | None:
    return next((seen.diagnosis for seen in facts.values() if seen.diagnosis is not None), None)


def _judge_fabric(facts: Mapping[str, IbFacts], limits: IbLimits) -> Iterator[Finding]:
    # Exactly one master: the planned one, and the same for every host.
    known = {seen.manager.guid for seen in facts.values() if seen.manager is not None}
    if len(known) > 1:
        yield row("one subnet", "failed", ", ".join(f"0x{guid}" for guid in sorted(known)))
    asked, more = next((seen for seen in facts.values() if seen.managers), None), ""
    if limits.master_priority is not None:
        more = f" of priority {limits.master_priority}, {limits.standbys} standing by"
    if asked is None:
        whys = sorted({seen.why_no_managers or seen.why_nothing for seen in facts.values()})
        yield row("one master unseen", "error", "; ".join(whys), more=more)
    else:
        masters = [each for each in asked.managers if each.state == MASTER]
        standbys = sum(each.state == ib_look.STANDBY for each in asked.managers)
        right = len(masters) == 1 and limits.master_priority in {None, masters[0].priority}
        right = right and limits.standbys in {None, standbys}
        actual = "; ".join(map(_show, asked.managers))
        yield row("one master", verdict_for(right), actual, more=more)
    diagnosis = _diagnosis_of(facts)
    if diagnosis is None:
        whys = [seen.why_no_diagnosis for seen in facts.values() if seen.why_no_diagnosis]
        why = "; ".join(whys) or "no host was asked"
        absent = "not installed" in why
        verdict: Verdict = "skipped" if absent and not limits.adaptive_routing else "error"
        yield row("ibdiagnet", verdict, why)
        return
    step = next(iter(diagnosis.errors), _BY_HAND)
    for stage in (each for each in diagnosis.stages if each.name in _TABLES["stages"]):
        good, actual = verdict_for(stage.errors == 0), f"{stage.errors} errors"
        yield row("stage of ibdiagnet", good, actual, stage=stage.name, step=step)
    if limits.adaptive_routing:
        on, total = diagnosis.adaptive_switches, diagnosis.switches
        verdict = "error" if on is None else verdict_for(on > 0 and on == total)
        actual = "not said" if on is None else f"on {on}"
        yield row("adaptive routing", verdict, actual, switches=total or "switches")
