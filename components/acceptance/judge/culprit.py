"""Names the part to replace or mend, from the good and bad tests between pairs.

Every test passes through parts: two hosts, a NIC with its cable and switch port at each end,
leaves, uplinks, a rail, and with `--use_cuda` two GPUs. A bad part makes the tests through it bad
and leaves the others alone. The judge therefore names the part that explains most bad tests and
spoils fewest right ones (group testing); then the search goes on with the remaining bad tests.
Parts that explain the same are named together, because pairs cannot tell them apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import log
from typing import Any, Final, NamedTuple

from components.acceptance.evidence import Limits, ProbeEvidence
from components.acceptance.judge.verdict import SLOW_TEST, Finding, row
from components.acceptance.logs.log_model import Seen
from components.core.record import record
from components.core.templates import read_table

Results = Mapping[frozenset[str], bool]
"""Groups of hosts to whether a collective over them passed."""
Group = tuple[str, ...]
FEWEST_SIBLINGS: Final = 3
"""With fewer siblings, one bad link would move the median."""
BY_CHANCE: Final = 0.005
"""Share of tests through sound parts that are nevertheless bad: a choice, on the high side."""
_ALWAYS: Final = 0.98
"""Share of tests that a broken part makes bad: below 1, because one odd test must not acquit it."""
_MARGIN: Final = 2.0
"""Parts whose odds differ by less than e^2, about 7 to 1, are named together."""
_COUNTED: Final = 3.0
"""Log odds that a part gains if an error counter on it grew: sound ports rarely count any."""
_WHOLE: Final = 0.9
"""A part with this share of bad tests spoils all: a test or two at the limit may pass."""
_WEIGHT: Final = 0.25
"""A part that spoils all its tests comes before a part that spoils some, unless it explains less
than this share of the other's bad tests: two dead links are not a half-bad leaf."""
_MOST_ALIKE: Final = 5
_MOST_SUSPECTS: Final = 10
KINDS: Final[Mapping[str, Mapping[str, Any]]] = read_table(__file__, "parts")


class Halving(Seen):
    """The next groups to run, or the groups found."""

    runs: tuple[Group, ...] = ()
    """Hosts of the next collectives; groups without a common host may run at once."""
    found: tuple[Group, ...] = ()
    """Smallest failing groups: a host alone, or hosts that fail only together."""

    @property
    def text(self) -> str:
        """The result in a sentence."""
        return "; ".join(
            f"every collective with {group[0]} fails"
            if len(group) == 1
            else f"{', '.join(group)} fail together, and no smaller group failed"
            " (an intermittent fault looks the same: run them again)"
            for group in self.found
        )


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


def next_halves(hosts: Sequence[str], results: Results) -> Halving:
    """The next collectives to run after one over all hosts failed; log2 n steps for one bad host.

    A half of one host is run with a host of a group that passed, because a collective of one host
    does not use the network. If both halves pass, the search is for hosts that fail only together.
    Sort hosts by leaf for the best result. Add the results and ask again until `runs` is empty.
    """
    said = [*_search(tuple(hosts), results)]
    runs = dict.fromkeys(group for group, fails in said if not fails)
    return Halving(runs=tuple(runs), found=tuple(group for group, fails in said if fails))


def _search(group: Group, results: Results) -> Iterator[tuple[Group, bool]]:
    """Groups, and whether they fail; a group that does not has no result yet."""
    halves = (group[: len(group) // 2], group[len(group) // 2 :])
    asked = [half if len(half) > 1 else () for half in halves]
    for place, half in enumerate(halves):
        if len(half) == 1:  # only together with a good host
            passes = {host for run, passed in results.items() if passed for host in run}
            good = sorted(passes - {*group})
            ran = [host for host in good if frozenset((*half, host)) in results]
            asked[place] = (*half, (ran or good)[0]) if good else ()
    if len(group) == 1 or not any(asked):
        yield group, True
        return
    passed = [results.get(frozenset(each)) if each else True for each in asked]
    for half, run, good in zip(halves, asked, passed, strict=True):
        if good is None:
            yield run, False
        elif not good:
            yield from _search(half, results)
    if all(passed):
        yield from _together(*halves, results)


def _together(one: Group, other: Group, results: Results) -> Iterator[tuple[Group, bool]]:
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
                    yield run, False
                    return
                if not passed:
                    sides[place] = part
                    break
            if sides[place] not in parts:
                break
    yield (*sides[0], *sides[1]), True


class Part(NamedTuple):
    """One thing that may be bad; `kind` is a key of parts.yaml."""

    kind: str
    name: str


@record
class PairResult:
    """One test from a sender to a receiver on one rail.

    `share` is its bandwidth over the line rate. Leaves and ports (`leaf-3 swp7`) are those of
    sender and receiver; all bytes took the uplinks. The NIC of a host `elsewhere` counted the bytes
    while its switch port did not. Only tests with the same `test` are compared.
    """

    probe: str
    sender: str
    receiver: str
    rail: str
    share: float | None
    failed: bool = False
    test: str = ""
    gpu_memory: bool = False
    leaves: tuple[str, str] = ("", "")
    ports: tuple[str, str] = ("", "")
    uplinks: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()

    @property
    def crosses(self) -> bool:
        """It goes from one leaf to another."""
        return all(self.leaves) and self.leaves[0] != self.leaves[1]

    def parts(self) -> list[Part]:
        """Every part that it passes through, each once."""
        found = [Part("site", ""), Part("rail", self.rail)]
        found += [Part("leaf", leaf) for leaf in dict.fromkeys(self.leaves) if leaf]
        found += [Part("uplink", port) for port in self.uplinks]
        if self.crosses:
            found += [Part("between", self.rail), *(Part("uplinks", leaf) for leaf in self.leaves)]
        for host in (self.sender, self.receiver):
            link = f"{host} {self.rail}"
            found += (Part("host", host), Part("link", link))
            if self.gpu_memory:
                found += (Part("gpus", host), Part("gpu", link))
        return found


class Suspect(Seen):
    """The part that is most likely bad; several parts if the tests cannot separate them."""

    parts: tuple[tuple[str, str], ...] = ()
    """Kind and name; none if no part explains the bad tests."""
    text: str
    next_step: str

    @property
    def headline(self) -> str:
        """The first line about it in a report."""
        return f"{'Most likely' if self.parts else 'Unclear'}: {self.text}"


Marks = Mapping[Part, str]
"""Part to the evidence against it from its counters or its host's health."""


def find_bad(results: Sequence[PairResult]) -> dict[int, float | None]:
    """Give the bad results, and their share of the median of their siblings if that is the reason.

    Siblings are like tests on the same rail, all within a leaf or all between leaves. The median of
    all rails shows a rail that is slow as a whole.
    """
    by_key: defaultdict[tuple[object, ...], list[float]] = defaultdict(list)
    kinds = [(each.crosses, each.test, each.gpu_memory) for each in results]
    keys = [(kind, (*kind, each.rail)) for kind, each in zip(kinds, results, strict=True)]
    measured = [(each.share, at) for at, each in enumerate(results) if each.share is not None]
    for share, index in sorted(measured):
        for key in keys[index]:
            by_key[key].append(share)
    found: dict[int, float | None] = {}
    for index, each in enumerate(results):
        usual = 0.0
        for shares in (by_key[key] for key in keys[index]):
            if len(shares) > FEWEST_SIBLINGS:
                # The median of all others.
                at, (left, odd) = bisect_left(shares, each.share or 0.0), divmod(len(shares) - 1, 2)
                others = (left,) if odd else (left - 1, left)
                middle = sum(shares[place + (place >= at)] for place in others) / len(others)
                usual = max(usual, middle)
        least = SLOW_TEST * usual
        if each.failed:
            found[index] = None
        elif each.share is not None and each.share < least:
            found[index] = each.share / least * SLOW_TEST
    return found


def find_suspects(results: Sequence[PairResult], marks: Marks) -> tuple[Suspect, ...]:
    """The fewest parts that explain the bad tests, the likeliest first."""
    through: defaultdict[Part, set[int]] = defaultdict(set)
    for index, each in enumerate(results):
        for part in each.parts():
            through[part].add(index)
    all_bad = frozenset(find_bad(results))
    left, found = set(all_bad), list(_misplugged(results))
    sizes = Counter(part.kind for part in through)
    while left and len(found) < _MOST_SUSPECTS:
        near = {part for index in left for part in results[index].parts()}
        bad = {part: through[part] & left for part in near}
        right = {part: through[part] - all_bad for part in near}
        odds: dict[Part, float] = {}
        for part in near:
            # Log odds that it is bad, not unlucky, less the cost of choosing it among its kind.
            wrong, good = len(bad[part]), len(right[part])
            share = min(wrong / (wrong + good), _ALWAYS)
            gain = wrong * log(share / BY_CHANCE) + good * log((1 - share) / (1 - BY_CHANCE))
            value = gain - log(sizes[part.kind]) - 1
            if share >= KINDS[part.kind]["least"] and value > 0:
                odds[part] = value
        if not odds:
            break
        # The likeliest part, and those that explain the same tests about as well.
        whole = {p: v for p, v in odds.items() if len(bad[p]) >= _WHOLE * len(bad[p] | right[p])}
        spoils = max(whole.values(), default=0.0) > _WEIGHT * max(odds.values())
        weighed = {
            part: value + _COUNTED * (part in marks or bool(_marked_uplinks(part, marks)))
            for part, value in (whole if spoils else odds).items()
        }
        ranked = sorted(weighed, key=lambda part: (-weighed[part], part))
        close = [part for part in ranked if weighed[ranked[0]] - weighed[part] < _MARGIN]
        first = bad[close[0]]
        best = [part for part in close if 2 * len(bad[part] & first) >= len(first)]
        found.append(_suspect(best, through[best[0]], all_bad, marks, results))
        left -= through[best[0]]
    if left:
        first = results[min(left)]
        text = f"no part explains {first.probe} and {len(left) - 1} other bad tests"
        step = f"run it again; pair {first.sender} and {first.receiver} with other hosts"
        found.append(Suspect(text=text, next_step=step))
    return tuple(found)


def _suspect(
    alike: Sequence[Part],
    seen: set[int],
    all_bad: frozenset[int],
    marks: Marks,
    results: Sequence[PairResult],
) -> Suspect:
    parts: dict[Part, None] = {}
    for part in alike:
        counting = _marked_uplinks(part, marks)
        # One uplink that counts errors is the culprit; three or more are a setting of their leaf.
        leaf = Part("leaf", part.name) if len(counting) >= FEWEST_SIBLINGS else part
        parts[counting[0] if len(counting) == 1 else leaf] = None
    alike, ports = [*parts], _ports([results[index] for index in seen])
    names = [
        KINDS[it.kind]["label"].format(it.name) + ports.get(it, "") for it in alike[:_MOST_ALIKE]
    ]
    names += [f"{len(alike) - len(names)} other parts"] if len(alike) > len(names) else []
    counted = "".join(f"; {marks[part]}" for part in alike if part in marks)
    step: str = KINDS[alike[0].kind]["step"]
    if len(alike) > 1:
        step = f"the tests that ran cannot tell these apart: pair each with others; then {step}"
    return Suspect(
        parts=tuple(alike),
        text=f"{' or '.join(names)} ({len(seen & all_bad)} of {len(seen)} tests through it are bad,"
        f" of all others {len(all_bad - seen)} of {len(results) - len(seen)}{counted})",
        next_step=step,
    )


def _marked_uplinks(part: Part, marks: Marks) -> list[Part]:
    of = f"{part.name} " if part.kind == "uplinks" else "-"
    return [each for each in marks if each.kind == "uplink" and each.name.startswith(of)]


def _ports(results: Sequence[PairResult]) -> dict[Part, str]:
    return {
        Part("link", f"{host} {each.rail}"): f" at {port}"
        for each in results
        for host, port in zip((each.sender, each.receiver), each.ports, strict=True)
        if port
    }


def _misplugged(results: Sequence[PairResult]) -> Iterator[Suspect]:
    """Links that work, but at another port than the planned one."""
    links = {Part("link", f"{host} {each.rail}") for each in results for host in each.elsewhere}
    if links:
        ports = _ports(results)
        names = " and ".join(f"{each.name}{ports.get(each, '')}" for each in sorted(links))
        text = (
            f"the cable of {names} is in another port: the planned port counted none of its bytes"
        )
        step = "compare the cables with the site file (lldpctl), and plug them as planned"
        yield Suspect(parts=tuple(sorted(links)), text=text, next_step=step)


def judge_pairs(
    probes: Sequence[ProbeEvidence], findings: Sequence[Finding], limits: Limits
) -> tuple[list[Finding], tuple[Suspect, ...]]:
    """The passed tests that are slower than their siblings, and the parts that explain bad ones."""
    rates = {rail.name: rail.line_rate_gbit_s for rail in limits.rails}
    wrong = [each for each in findings if each.verdict == "failed"]
    failed = {each.subject for each in wrong if each.check in {"run", "bandwidth"}}
    results = [
        _pair_result(item, rates, failed=item.probe.name in failed)
        for item in probes
        if item.probe.kind == "perftest"
        and item.outcome in {"completed", "failed", "timed_out"}
        and (len(item.probe.nodes), len(item.probe.rails)) == (2, 1)
    ]
    bad = find_bad(results)
    slow = [
        row("siblings", "failed", f"{each:.0%} of it", share=SLOW_TEST).about(results[index].probe)
        for index, each in bad.items()
        if each is not None
    ]
    if results and not bad and (said := next_collectives(probes, findings)):
        return slow, (*_misplugged(results), Suspect(text=said[0], next_step=said[1]))
    # Evidence against hosts from probes of a single host, and against ports from counters.
    alone = {each.probe.name: each.probe.nodes[0] for each in probes if len(each.probe.nodes) == 1}
    marks = {
        Part("host", alone[found.subject]): f"{found.check}: {found.actual}"
        for found in wrong
        if found.subject in alone
    }
    for hop in (hop for item in probes for hop in item.hops if hop.discards or hop.errors):
        sender, _, receiver = hop.direction.partition(" -> ")
        near = hop.role in {"sender_nic", "switch_ingress"}
        far = hop.role in {"receiver_nic", "switch_egress"}
        part = Part("link", f"{sender if near else receiver} {hop.rail}")
        part = part if near or far else Part("uplink", hop.place)
        errors = f"counted {', '.join(hop.errors)}, as with a bad cable"
        said = errors if hop.errors else "discarded packets, as with a wrong MTU or without PFC"
        marks[part] = f"{hop.place} {said}"
    return slow, find_suspects(results, marks)


def _pair_result(item: ProbeEvidence, rates: Mapping[str, float], *, failed: bool) -> PairResult:
    (sender, receiver), (rail,) = item.probe.nodes, item.probe.rails
    way = [hop for hop in item.hops if hop.direction == f"{sender} -> {receiver}"]
    roles = Counter(hop.role for hop in way)
    # A bond has several ports; the host or the switch chooses which of them the bytes take.
    hops = {hop.role: hop for hop in way if roles[hop.role] == 1}
    ends = [hops.get("switch_ingress"), hops.get("switch_egress")]
    nics = [hops.get("sender_nic"), hops.get("receiver_nic")]
    up = [hop.place for hop in way if hop.role == "uplink_egress" and hop.total_bytes]
    log = item.perftest if item.outcome == "completed" else None
    largest = log.largest if log else None
    rate = item.probe.rates.get(rail) or rates.get(rail, 0.0)
    # A host whose NIC counted the bytes, and whose planned port counted less than half of them.
    seen = ((h, n, p) for h, n, p in zip(item.probe.nodes, nics, ends, strict=True) if n and p)
    elsewhere = (
        host
        for host, nic, port in seen
        if largest and nic.status == port.status == "observed"
        if (nic.total_bytes or 0) > 2 * (port.total_bytes or 0)
    )
    return PairResult(
        probe=item.probe.name,
        sender=sender,
        receiver=receiver,
        rail=rail,
        share=largest.average_gbit_s / rate if largest and rate else None,
        failed=failed,
        test=f"{log.test} {largest.size_bytes} {log.bidirectional}" if log and largest else "",
        gpu_memory="--use_cuda" in item.command,
        leaves=(ends[0].device if ends[0] else "", ends[1].device if ends[1] else ""),
        ports=(ends[0].place if ends[0] else "", ends[1].place if ends[1] else ""),
        uplinks=tuple(up) if len(up) == 1 else (),
        elsewhere=tuple(elsewhere),
    )
