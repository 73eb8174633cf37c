"""Finds the smallest group of hosts whose collective fails while all pairs pass: by halves.

The caller keeps the result of each group and asks again until no group is left to run:

    results = {frozenset(hosts): False}
    while (step := next_halves(hosts, results)).runs:
        results |= {frozenset(group): <the collective over group passed> for group in step.runs}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from components.acceptance.evidence import ProbeEvidence
from components.acceptance.judge.verdict import Finding
from components.acceptance.seen import Seen

Results = Mapping[frozenset[str], bool]
"""Groups of hosts to whether a collective over them passed."""
Group = tuple[str, ...]


class Halving(Seen):
    """The next groups to run, or the groups found."""

    runs: tuple[Group, ...] = ()
    """Hosts of the next collectives; groups without a common host may run at once."""
    found: tuple[Group, ...] = ()
    """Smallest failing groups: a host alone, or hosts that fail only together."""

    @property
    def text(self) -> str:
        """The result in a sentence."""
        each = [
            f"every collective with {group[0]} fails"
            if len(group) == 1
            else f"{', '.join(group)} fail together, and no smaller group failed"
            " (an intermittent fault looks the same: run them again)"
            for group in self.found
        ]
        return "; ".join(each)


def next_collectives(
    probes: Sequence[ProbeEvidence], findings: Sequence[Finding]
) -> tuple[str, str] | None:
    """Sum up the collectives of a run, and name the next ones to run; None if they passed."""
    wrong = {each.subject for each in findings if each.verdict == "failed"}
    some = [item for item in probes if item.outcome not in {"skipped", "not_run"}]
    ran = [item.probe for item in some if item.probe.kind == "nccl"]
    failed = [probe for probe in ran if probe.name in wrong and len(probe.nodes) > 2]  # noqa: PLR2004 - two hosts are a pair
    if not failed:
        return None
    whole = max(failed, key=lambda probe: len(probe.nodes))
    alike = [probe for probe in ran if probe.collective == whole.collective]
    passed = {frozenset(probe.nodes): probe.name not in wrong for probe in alike}
    step = next_halves(whole.nodes, passed)
    runs = " and over ".join(", ".join(run) for run in step.runs)
    said = f"; {step.text}" if step.found else ""
    todo = f"run {whole.collective} over {runs}" if runs else "read the findings of these hosts"
    return f"{whole.name} fails and all pairs pass{said}", todo


class _Ask(NamedTuple):
    hosts: Group
    """A group without a result."""


def next_halves(hosts: Sequence[str], results: Results) -> Halving:
    """The next collectives to run after one over all hosts failed; log2 n steps for one bad host.

    A half of one host is run with a host of a group that passed, because a collective of one host
    does not use the network. If both halves pass, the search is for hosts that fail only together.
    Sort hosts by leaf for the best result.
    """
    said = [*_search(tuple(hosts), results)]
    return Halving(
        runs=tuple(dict.fromkeys(each.hosts for each in said if isinstance(each, _Ask))),
        found=tuple(each for each in said if not isinstance(each, _Ask)),
    )


def _search(group: Group, results: Results) -> Iterator[_Ask | Group]:
    halves = (group[: len(group) // 2], group[len(group) // 2 :])
    asked = [_group_to_run(half, group, results) for half in halves]
    if len(group) == 1 or not any(asked):
        yield group
        return
    passed = [results.get(frozenset(each)) if each else True for each in asked]
    for half, run, good in zip(halves, asked, passed, strict=True):
        if good is None:
            yield _Ask(run)
        elif not good:
            yield from _search(half, results)
    if all(passed):
        yield from _together(*halves, results)


def _group_to_run(half: Group, group: Group, results: Results) -> Group:
    """The half, or its only host together with a good one; empty without such a host."""
    if len(half) > 1:
        return half
    good = sorted({host for run, passed in results.items() if passed for host in run} - {*group})
    ran = (host for host in good if frozenset((*half, host)) in results)
    return (*half, next(ran, good[0])) if half and good else ()


def _together(one: Group, other: Group, results: Results) -> Iterator[_Ask | Group]:
    """Narrow down each side while the other stays whole, as long as they fail together."""
    sides = [one, other]
    for place in (0, 1):
        while len(sides[place]) > 1:
            half = len(sides[place]) // 2
            parts = (sides[place][:half], sides[place][half:])
            for part in parts:
                run = (*part, *sides[1 - place])
                passed = results.get(frozenset(run))
                if passed is None:
                    yield _Ask(run)
                    return
                if not passed:
                    sides[place] = part
                    break
            if sides[place] not in parts:
                break
    yield (*sides[0], *sides[1])
