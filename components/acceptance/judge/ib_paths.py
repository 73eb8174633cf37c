"""Judges the rails of an InfiniBand fabric, and the paths that its subnet gives. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from components.acceptance.judge.verdict import Finding, Verdict, row, verdict_for
from components.acceptance.logs.ib_facts import ACTIVE, IbFacts, IbPort, PathAnswer
from components.acceptance.probes.ib_limits import IbLimits
from components.acceptance.probes.ib_paths import PathAsk, RailLimit

FABRIC: Final = "fabric"
"""Subject of the rows that are about no single host."""


def judge_rails(facts: Mapping[str, IbFacts], limits: IbLimits) -> Iterator[Finding]:
    """Each rail by itself: its ports are set up, by one subnet manager, in one subnet."""
    for rail in limits.rails:
        yield _judge_rail(facts, rail)


def _judge_rail(facts: Mapping[str, IbFacts], rail: RailLimit) -> Finding:
    found: dict[str, IbPort] = {}
    for host, guid in rail.ports.items():
        seen = facts.get(host)
        port = next((each for each in seen.ports if each.guid == guid), None) if seen else None
        if port is not None:
            found[host] = port
    down = [host for host, port in found.items() if port.state != ACTIVE]
    subnets = {(port.prefix, port.sm_lid) for host, port in found.items() if host not in down}
    unseen = sorted({*rail.ports} - {*found})
    right = not down and not unseen and len(subnets) == 1
    said = [f"{host} is not set up" for host in down]
    said += [f"{host} was not seen" for host in unseen]
    said += [f"{len(subnets)} subnets or managers"] if subnets and len(subnets) > 1 else []
    verdict: Verdict = "error" if unseen and not down else verdict_for(right)
    expected = f"{len(rail.ports)} ports in one subnet, set up by one manager"
    actual = "so they are" if right else "; ".join(said)
    step = "compare the cables of this HCA with the file, host by host"
    return row(f"rail {rail.name}", FABRIC, verdict, expected, actual, step)


def judge_paths(
    host: str, facts: Mapping[str, IbFacts], asks: tuple[PathAsk, ...]
) -> Iterator[Finding]:
    """One row a partition: a member gets a path, and who is none gets none.

    A port that is not set up has no path at all, which is not the partition's fault: `ib ports`
    tells it.
    """
    down = {
        port.guid: f"{name} {port.name}"
        for name, seen in facts.items()
        for port in seen.ports
        if port.state != ACTIVE
    }
    for partition in dict.fromkeys(ask.partition for ask in asks):
        own = [ask for ask in asks if ask.partition == partition]
        ends = dict.fromkeys(guid for ask in own for guid in (ask.source, ask.target))
        lost = [down[guid] for guid in ends if guid in down]
        yield _judge_partition(host, facts[host].paths, own, lost)


def _judge_partition(
    host: str, answers: Mapping[str, PathAnswer], asks: list[PathAsk], lost: list[str]
) -> Finding:
    said = [_say(ask, answers.get(ask.name)) for ask in asks]
    actual = ", ".join(text for _, text in said)
    order: tuple[Verdict, ...] = ("failed", "error", "passed")
    verdict: Verdict = next(each for each in order if each in {found for found, _ in said})
    if lost:
        verdict = "skipped"
        actual = f"not set up: {', '.join(lost)}"
    step = "compare the members of the partition where the subnet manager runs with the file"
    expected = ", ".join(f"{'a' if ask.wanted else 'no'} path to {ask.to}" for ask in asks)
    return row(f"paths in {asks[0].partition}", host, verdict, expected, actual, step)


def _say(ask: PathAsk, answer: PathAnswer | None) -> tuple[Verdict, str]:
    if answer is None:
        return "error", f"{ask.to}: not asked, since no subnet manager answered"
    if answer.why_nothing:
        return "error", f"{ask.to}: {answer.why_nothing}"
    said = f"{'a' if answer.found else 'no'} path to {ask.to}"
    return verdict_for(answer.found == ask.wanted), said
