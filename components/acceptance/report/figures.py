"""The figures of a report, drawn from its evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Final

from components.acceptance.evidence import Evidence, ProbeEvidence
from components.acceptance.judge.nccl import nccl_floor, nccl_limit
from components.acceptance.judge.site import Report, pair_floor
from components.acceptance.report.html_parts import section
from components.acceptance.report.pictures import (
    Level,
    Pair,
    State,
    Way,
    draw_busbw,
    draw_heat,
    draw_topology,
)
from components.core.plain_text import counted

_DRAWN_PARTS: Final = ("link", "uplink", "host", "leaf")
"""Kinds of suspects that are links, or devices whose links are all suspect."""


def _links_of(item: ProbeEvidence) -> list[Way]:
    """The links on the way of a perftest, from the host up, before they get a state."""
    places = [(hop.role, hop.device, hop.interface) for hop in item.hops]
    ends = {role: (device, port) for role, device, port in places}
    found = [
        Way(*ends[nic], *ends[port], "untried")
        for nic, port in (("sender_nic", "switch_ingress"), ("receiver_nic", "switch_egress"))
        if nic in ends and port in ends
    ]
    out = [place for place in places if place[0] in ("uplink_egress", "spine_egress")]
    back = [place for place in places if place[0] in ("spine_ingress", "downlink_ingress")]
    for (role, *near), (_, *far) in zip(out, back, strict=False):
        low, high = (near, far) if role == "uplink_egress" else (far, near)
        found.append(Way(low[0], low[1], high[0], high[1], "untried"))
    return found


def topology(report: Report) -> str:
    """Draw every link that a pair's bytes took, with a state from the results of its pairs."""
    pairs = [item for item in report.evidence.probes if item.probe.kind == "perftest"]
    links = {item.probe.name: _links_of(item) for item in pairs}
    ways = {way.label: way for found in links.values() for way in found}
    if not ways:
        return ""
    states = _states(report, links)
    drawn = [replace(way, state=states.get(label, "untried")) for label, way in ways.items()]
    hosts = {node for item in pairs for node in item.probe.nodes}
    leaves = {way.far for way in drawn if way.near in hosts}
    spines = {way.far for way in drawn} - leaves
    layers = [layer for layer in (sorted(hosts), sorted(leaves), sorted(spines)) if layer]
    svg, left_out = draw_topology(layers, drawn)
    bad = [way.label for way in drawn if way.state == "bad"]
    marked = f"Red, look there first: {'; '.join(bad)}. " if bad else ""
    more = (
        f"The figure omits {left_out} devices whose links are as good or better. "
        if left_out
        else ""
    )
    caption = (
        f"{marked}{more}Green: a pair passed there. Orange: in doubt, only failed pairs passed"
        " there, or a finding names it. Dashed: not proven."
    )
    figure = f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
    return section("The way of the pairs", figure)


def _states(report: Report, links: Mapping[str, Sequence[Way]]) -> dict[str, State]:
    """Mark only the suspects bad; without a suspect, the links that a failed finding names."""
    blamed = _blamed(report)
    suspects = {
        name for each in report.suspects for kind, name in each.parts if kind in _DRAWN_PARTS
    }
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


def _blamed(report: Report) -> set[str]:
    """The ports on the way of a probe that a failed finding about it names."""
    places = {item.probe.name: {hop.place for hop in item.hops} for item in report.evidence.probes}
    return {
        place
        for item in report.findings
        if item.verdict == "failed"
        for text in (item.detail, item.next_step)
        for place in places.get(item.subject, ())
        if place in text and re.search(rf"\b{re.escape(place)}(?!\w|/\d)", text)
    }


def heat_maps(report: Report) -> str:
    """Draw the pairs of each rail; rails without a fault are folded."""
    rails: dict[str, list[Pair]] = {}
    for item in report.evidence.probes:
        if item.probe.kind == "perftest" and item.outcome != "skipped" and item.probe.rails:
            rails.setdefault(item.probe.rails[0], []).append(_pair(report, item))
    if not rails:
        return ""
    figures: list[str] = []
    folded: list[str] = []
    for rail, pairs in sorted(rails.items()):
        caption = f"<strong>{escape(rail)}</strong>: from the row's host to the column's, in Gb/s"
        figure = f"<figure>{draw_heat(rail, pairs)}<figcaption>{caption}</figcaption></figure>"
        wrong = not all(pair.is_right for pair in pairs)
        (figures if wrong or not figures else folded).append(figure)
    head = counted(len(folded), "more rail")
    more = section(head, *folded, folded=True) if folded else ""
    return section(
        "Pairs of each rail",
        *figures,
        "<p><small>Red: failed. Orange: passed, and more than 3 % below the rail's best pair."
        " Empty: not measured in this run.</small></p>",
        more,
    )


def _pair(report: Report, item: ProbeEvidence) -> Pair:
    rows = item.perftest.rows if item.perftest else ()
    ways = 2 if item.perftest and item.perftest.bidirectional else 1
    return Pair(
        sender=item.probe.nodes[0],
        receiver=item.probe.nodes[-1],
        gbit_s=rows[-1].average_gbit_s / ways if rows else None,
        floor_gbit_s=pair_floor(report.evidence.limits, item.probe)[0],
        is_right=report.verdict_of(item.probe.name) == "passed",
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
        levels = Level("floor", floor), Level("line rate", nccl_limit(limits, item.probe))
        last = earlier.get(item.probe.name)
        old = [row for row in last.nccl.rows if row.size_bytes] if last and last.nccl else []
        caption = f"Floor: {escape(origin)}. Rows from 1 GiB on are judged."
        caption += f" Dashed: run {before.run}." if before and old else ""
        svg = draw_busbw(rows, *levels, old)
        figure = f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"
        parts.append(section(f"Bandwidth over size: {escape(item.probe.name)}", figure))
    return "".join(parts)
