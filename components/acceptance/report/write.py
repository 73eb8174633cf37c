"""Draws a report from its evidence, and writes its files; a reader never sees half of one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Final

from components.acceptance.evidence import Evidence, Hop, ProbeEvidence, dump_evidence
from components.acceptance.judge.nccl import nccl_floor, nccl_limit
from components.acceptance.judge.path import show_size
from components.acceptance.judge.site import Report, pair_floor
from components.acceptance.report import pictures
from components.acceptance.report import text as report_text
from components.acceptance.report.archive import EVIDENCE, write_whole
from components.acceptance.report.pictures import Pair, State, Way, section, table, tr
from components.core.plain_text import counted, plain_text

_DRAWN_PARTS: Final = ("link", "uplink", "host", "leaf")
"""Kinds of suspects that are links, or devices whose links are all suspect."""
_ORDER = {"failed": 0, "error": 1, "skipped": 2, "passed": 3}
_BANNER: Final = (
    '<p class="banner"><strong>Simulated lab.</strong> Switch, hosts and NICs are emulated, '
    "and the numbers below are computed from their state. They prove the configuration, "
    "not the speed of any hardware.</p>"
)
_LISTED: Final = 40
"""Most probes to list unfolded; of more, only those that did not pass."""
_NAMED: Final = 6
"""Most names to list under an advice; of more, their number."""


def topology(report: Report) -> str:
    """Draw every link that a pair's bytes took, with a state from the results of its pairs."""
    pairs = [item for item in report.evidence.probes if item.probe.kind == "perftest"]
    links: dict[str, list[Way]] = {}
    for item in pairs:
        places = [(hop.role, hop.device, hop.interface) for hop in item.hops]
        ends = {role: (device, port) for role, device, port in places}
        links[item.probe.name] = [
            Way(*ends[nic], *ends[port], "untried")
            for nic, port in (("sender_nic", "switch_ingress"), ("receiver_nic", "switch_egress"))
            if nic in ends and port in ends
        ]
        out = [place for place in places if place[0] in ("uplink_egress", "spine_egress")]
        back = [place for place in places if place[0] in ("spine_ingress", "downlink_ingress")]
        for (role, *near), (_, *far) in zip(out, back, strict=False):
            low, high = (near, far) if role == "uplink_egress" else (far, near)
            links[item.probe.name].append(Way(low[0], low[1], high[0], high[1], "untried"))
    ways = {way.label: way for found in links.values() for way in found}
    if not ways:
        return ""
    states = _states(report, links)
    drawn = [replace(way, state=states.get(label, "untried")) for label, way in ways.items()]
    hosts = {node for item in pairs for node in item.probe.nodes}
    leaves = {way.far for way in drawn if way.near in hosts}
    spines = {way.far for way in drawn} - leaves
    layers = [layer for layer in (sorted(hosts), sorted(leaves), sorted(spines)) if layer]
    svg, left_out = pictures.draw_topology(layers, drawn)
    bad = [way.label for way in drawn if way.state == "bad"]
    marked = f"Red, look there first: {'; '.join(bad)}. " if bad else ""
    if left_out:
        marked += f"The figure omits {left_out} devices whose links are as good or better. "
    caption = (
        f"{marked}Green: a pair passed there. Orange: in doubt, only failed pairs passed"
        " there, or a finding names it. Dashed: not proven."
    )
    figure = f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
    return section("The way of the pairs", figure)


def _states(report: Report, links: Mapping[str, Sequence[Way]]) -> dict[str, State]:
    """Mark only the suspects bad; without a suspect, the links that a failed finding names."""
    # The ports on the way of a probe that a failed finding about it names.
    places = {item.probe.name: {hop.place for hop in item.hops} for item in report.evidence.probes}
    blamed = {
        place
        for item in report.findings
        if item.verdict == "failed"
        for text in (item.detail, item.next_step)
        for place in places.get(item.subject, ())
        if place in text and re.search(rf"\b{re.escape(place)}(?!\w|/\d)", text)
    }
    suspects = {name for it in report.suspects for kind, name in it.parts if kind in _DRAWN_PARTS}
    found: dict[str, State] = {}
    for item in report.evidence.probes:
        verdict = report.verdict_of(item.probe.name)
        for way in links.get(item.probe.name, ()):
            ends = {f"{way.near} {way.near_end}", f"{way.far} {way.far_end}", way.near, way.far}
            ends |= {f"{way.near} {rail}" for rail in item.probe.rails}
            if ends & (suspects or blamed):
                found[way.label] = "bad"
            elif ends & blamed:
                found[way.label] = "doubt"
            elif verdict == "passed":
                found[way.label] = "good"
            elif verdict == "failed":
                found.setdefault(way.label, "doubt")
    return found


def heat_maps(report: Report) -> str:
    """Draw the pairs of each rail; rails without a fault are folded."""
    rails: dict[str, list[Pair]] = {}
    for item in report.evidence.probes:
        if item.probe.kind != "perftest" or item.outcome == "skipped" or not item.probe.rails:
            continue
        rows = item.perftest.rows if item.perftest else ()
        ways = 2 if item.perftest and item.perftest.bidirectional else 1
        pair = Pair(
            sender=item.probe.nodes[0],
            receiver=item.probe.nodes[-1],
            gbit_s=rows[-1].average_gbit_s / ways if rows else None,
            floor_gbit_s=pair_floor(report.evidence.limits, item.probe)[0],
            is_right=report.verdict_of(item.probe.name) == "passed",
        )
        rails.setdefault(item.probe.rails[0], []).append(pair)
    if not rails:
        return ""
    figures: list[str] = []
    folded: list[str] = []
    for rail, pairs in sorted(rails.items()):
        caption = f"<strong>{escape(rail)}</strong>: from the row's host to the column's, in Gb/s"
        figure = (
            f"<figure>{pictures.draw_heat(rail, pairs)}<figcaption>{caption}</figcaption></figure>"
        )
        wrong = not all(pair.is_right for pair in pairs)
        (figures if wrong or not figures else folded).append(figure)
    more = section(counted(len(folded), "more rail"), *folded, folded=True) if folded else ""
    return section(
        "Pairs of each rail",
        *figures,
        "<p><small>Red: failed. Orange: passed, and more than 3 % below the rail's best pair."
        " Empty: not measured in this run.</small></p>",
        more,
    )


def plots(report: Report, before: Evidence | None) -> str:
    """Draw each collective, and its result in an earlier run."""
    earlier = {item.probe.name: item for item in (before.probes if before else ())}
    parts: list[str] = []
    for item in report.evidence.probes:
        rows = [row for row in item.nccl.rows if row.size_bytes] if item.nccl else []
        if not rows or item.probe.kind != "nccl":
            continue
        limits = report.evidence.limits
        floor, origin = nccl_floor(limits, item.probe)
        last = earlier.get(item.probe.name)
        old = [row for row in last.nccl.rows if row.size_bytes] if last and last.nccl else []
        caption = f"Floor: {escape(origin)}. Rows from 1 GiB on are judged."
        caption += f" Dashed: run {before.run}." if before and old else ""
        svg = pictures.draw_busbw(rows, floor, nccl_limit(limits, item.probe), old)
        figure = f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"
        parts.append(section(f"Bandwidth over size: {escape(item.probe.name)}", figure))
    return "".join(parts)


def render_html(report: Report, before: Report | None = None) -> str:
    """Render a report: what to do first, pictures, folded evidence, and the run `before` it."""
    evidence, site = report.evidence, escape(report.evidence.cluster)
    title = f"{evidence.cluster}: acceptance {report.verdict}"
    passed = sum(report.verdict_of(item.probe.name) == "passed" for item in evidence.probes)
    part = passed and report.verdict == "skipped"
    badge = _badge(report.verdict, "partly proven" if part else report.verdict)
    head = (
        f"<header><h1>{site} <small>acceptance</small></h1>"
        f"<p>{badge} <strong>{passed} of {report.planned}</strong> planned probes passed"
        f" · run {evidence.run} · {escape(evidence.started_at)} to "
        f"{escape(evidence.finished_at)} · plan <code>{escape(evidence.plan_digest)}</code></p>"
        "</header>"
    )
    note = "<p><small>They do not fail a probe.</small></p>"
    unproven, warnings, waived = (
        section(name, note if name == "Warnings" else "", pictures.bullets(lines)) if lines else ""
        for name, lines in report_text.sections(report).items()
    )
    compared = ""
    if before is not None:
        rows = (
            tr(
                _name(each.probe),
                f"{_badge(each.verdict_before)} {escape(each.before)}",
                f"{_badge(each.verdict)} {escape(each.now)}",
                _number(each.change),
            )
            for each in report_text.compare_runs(report, before)
        )
        name = f"Against run {before.evidence.run} of {escape(before.evidence.finished_at)}"
        compared = section(name, table(("probe", "then", "now", "change"), rows), folded=True)
    parts = (
        head,
        _BANNER if evidence.provenance == "lab" else "",
        _next_steps(report),
        _probe_table(report),
        unproven,
        topology(report),
        heat_maps(report),
        plots(report, before.evidence if before else None),
        compared,
        warnings,
        waived,
        *_evidence(report),
    )
    return pictures.page(title, parts, pictures.read_sheet("pictures.css"))


def _probe_table(report: Report) -> str:
    probes = sorted(report.evidence.probes, key=lambda it: _ORDER[report.verdict_of(it.probe.name)])
    wrong = [item for item in probes if report.verdict_of(item.probe.name) != "passed"]
    shown = probes if len(probes) <= _LISTED else wrong[:_LISTED]
    rows = [_probe_row(report, item) for item in shown]
    rows += [
        tr(_badge(item.verdict), _name(item.subject), escape(item.check), escape(item.text))
        for item in report.findings
        if item.check in {"reachable", "memlock", "allocatable"}
    ]
    heads = ("verdict", "probe", "measured", "why")
    rest = [_probe_row(report, item) for item in probes[len(shown) :]]
    more = section(f"{len(rest)} more probes", table(heads, rest), folded=True) if rest else ""
    return section("Verdicts", table(heads, rows), more)


def _probe_row(report: Report, item: ProbeEvidence) -> str:
    name = item.probe.name
    findings = sorted(report.about(name), key=lambda finding: _ORDER[finding.verdict])
    measure = report.measure_of(name)
    worst = findings[0] if findings else None
    why = f"{counted(len(findings), 'check')} passed"
    if worst and worst.verdict != "passed":
        why = worst.detail if worst.check == "traffic class" else f"{worst.check}: {worst.text}"
    rails = f"<br><small>{escape(' · '.join(item.probe.rails))}</small>"
    measured = _number(measure.actual if measure else "-")
    return tr(_badge(report.verdict_of(name)), _name(name, rails), measured, escape(why))


def _next_steps(report: Report) -> str:
    steps: dict[str, dict[str, None]] = {}
    for finding in report.findings:
        if finding.verdict in ("failed", "error") and finding.next_step:
            steps.setdefault(finding.next_step, {})[f"{finding.subject} ({finding.check})"] = None
    if not steps:
        return ""
    items = "".join(
        f"<li><strong>{escape(each.headline)}</strong><br>{escape(each.next_step)}</li>"
        for each in report.suspects
    )
    for step, names in steps.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        some = escape(", ".join([*names][:_NAMED]) + more)
        items += f"<li>{escape(step)}<br><small>{some}</small></li>"
    return section("What to do next", f"<ol>{items}</ol>")


def _evidence(report: Report) -> Iterator[str]:
    """The folded sections: checks, counters, ends of the logs, and the inventory."""
    rows: list[str] = []
    for item in sorted(report.findings, key=lambda item: _ORDER[item.verdict]):
        detail = f"<br><small>{escape(item.detail)}</small>" if item.detail else ""
        texts = escape(item.check), escape(item.expected), escape(item.actual) + detail
        rows.append(tr(_badge(item.verdict), _name(item.subject), *texts))
    heads = ("verdict", "probe", "check", "expected", "actual")
    yield section("All checks", table(heads, rows), folded=True)
    evidence = report.evidence
    if rows := [_hop_row(item, hop) for item in evidence.probes for hop in item.hops]:
        how = (
            "<p><small>Growth during the probe. NICs and switch ingress count by priority (p),"
            " switch egress by traffic class (tc).</small></p>"
        )
        heads = ("probe", "rail, direction", "hop", "bytes", "by class", "lost")
        yield section("Counters of every hop", how, table(heads, rows), folded=True)
    parts: list[str] = []
    for item in evidence.probes:
        tail = "\n".join(item.log_tail)
        kept = f" · whole log: <code>{escape(item.log_file)}</code>" if item.log_file else ""
        parts.append(
            f"<details><summary>{escape(item.probe.name)}</summary>"
            f"<p><small>{escape(item.command)}<br>{item.log_bytes} bytes · sha256 "
            f"<code>{escape(item.log_sha256)}</code>{kept}</small></p>"
            f"<pre>{escape(tail)}</pre></details>"
        )
    yield section("Ends of the logs", *parts, folded=True)
    if evidence.facts:
        facts = ((escape(name), escape(value)) for name, value in sorted(evidence.facts.items()))
        rows = [f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in facts]
        yield section("Inventory", table((), rows), folded=True)


def _hop_row(item: ProbeEvidence, hop: Hop) -> str:
    place = f"{escape(hop.place)}<br><small>{hop.role.replace('_', ' ')}</small>"
    where = f"{escape(hop.rail)}<br><small>{escape(hop.direction)}</small>"
    start = escape(item.probe.name), where, place
    if hop.status not in {"observed", "uncounted"} or hop.total_bytes is None:
        what = f"{hop.status.replace('_', ' ')}: {hop.detail}".rstrip(": ")
        return tr(*start, ("colspan=3", escape(what)))
    unit = "tc" if hop.role.endswith("_egress") else "p"
    counts = sorted(hop.bytes_by_class.items())
    classes = ", ".join(f"{unit}{number}: {show_size(size)}" for number, size in counts if size)
    shown = classes or escape(hop.detail) or "-"
    losses = {
        "discards": hop.discards,
        "out of sequence": hop.out_of_sequence,
        "pauses": hop.pause_frames,
        "stuck queues": sum(hop.storms.values()) or None,
        "ECN marked": hop.ecn_marked,
    }
    known = {name: count for name, count in losses.items() if count is not None}
    grown = ", ".join(f"{name} {count}" for name, count in known.items() if count)
    # `none` covers only counters that it has.
    lost = grown or (f"none ({', '.join(known)})" if known else "not read")
    return tr(*start, _number(show_size(hop.total_bytes)), shown, lost)


def _badge(verdict: str, words: str = "") -> str:
    return f'<span class="badge {verdict}">{words or verdict}</span>'


def _name(name: str, more: str = "") -> tuple[str, str]:
    return "class=name", escape(name) + more


def _number(text: str) -> tuple[str, str]:
    return "class=number", escape(text)


def write_report(report: Report, folder: Path, before: Report | None = None) -> Path:
    """Write all forms of a report into a folder, compared with `before`; return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    evidence, html = folder / EVIDENCE, folder / "report.html"
    if not evidence.exists():  # the state names it by its digest, and it must not change
        write_whole(evidence, dump_evidence(report.evidence))
    write_whole(folder / "report.ctrf.json", report_text.render_ctrf(report))
    write_whole(folder / "report.junit.xml", plain_text(report_text.render_junit(report)))
    write_whole(folder / "report.md", plain_text(report_text.render_markdown(report)))
    write_whole(html, plain_text(render_html(report, before)))
    return html
