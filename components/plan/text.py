"""A plan as a page for a person: what is decided for each device and the cluster, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from components.core.errors import UsageError
from components.model.cluster import ClusterSpec
from components.plan.flat import beyond, flatten
from components.plan.make import ClusterPlan
from components.plan.sections import Section, list_sections, stages_of_steps

STAGES: Final = (
    "cloud",
    "fabric",
    "hypervisors",
    "hosts",
    "reboots",
    "containers",
    "kubernetes",
    "operators",
    "pod-network",
    "jobs",
    "acceptance",
)
"""In the order of an update."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a plan is asked for."""

    device: str | None = None
    stage: str | None = None
    scripts: bool = False
    """Scripts, commands and objects whole, instead of their names and sizes."""

    def of(self, sections: Iterable[Section]) -> Iterator[Section]:
        """The sections that are asked for."""
        for section in sections:
            of_device = self.device is None or self.device in section.devices
            if of_device and self.stage in (None, section.stage):
                yield section


def choose(plan: ClusterPlan, device: str | None, stage: str | None, *, scripts: bool) -> Choice:
    """A choice that the plan can meet.

    Raises:
        UsageError: There is no such device or stage; the text has near names.
    """
    devices = [
        *(each.name for each in plan.switches),
        *(each.name for each in plan.hypervisors),
        *(each.name for each in plan.hosts),
    ]
    if device is not None and device not in devices:
        raise UsageError(_unknown("--host", device, devices))
    if stage is not None and stage not in STAGES:
        raise UsageError(_unknown("--stage", stage, STAGES))
    return Choice(device, stage, scripts)


_MOST_NAMES: Final = 12
"""Names that an error lists; a site may have thousands of hosts."""


def _unknown(option: str, name: str, there: Sequence[str]) -> str:
    near = get_close_matches(name, there, n=5, cutoff=0.5)
    if near:
        fix = f"did you mean {' or '.join(near)}?"
    else:
        more = len(there) - _MOST_NAMES
        fix = (
            f"there are: {', '.join(there[:_MOST_NAMES])}{f' and {more} more' if more > 0 else ''}"
        )
    return f"{option} {name}: the plan has none of that name.\n  fix    {fix}"


def render_plan(plan: ClusterPlan, choice: Choice | None = None) -> str:
    """The plan as text; the same file gives the same text."""
    return "\n".join(_lines(plan, choice or Choice())) + "\n"


def _lines(plan: ClusterPlan, choice: Choice) -> Iterator[str]:
    yield from _head(plan)
    if not choice.scripts:
        yield "# Scripts and long objects are named only: --scripts prints them."
    for section in _shorten(choice.of(list_sections(plan, scripts=choice.scripts))):
        yield f"\n## {section.heading}"
        yield from section.lines
        yield from section.tail


def _head(plan: ClusterPlan) -> Iterator[str]:
    yield f"# Plan of {plan.name}, stack {plan.stack}, digest {plan.digest}"
    for rule, reason in plan.acceptance.limits.waived.items():
        yield f"# waived: {rule}: {reason}"
    yield from (f"# left alone: {each}" for each in plan.left_alone)


def _shorten(sections: Iterable[Section]) -> Iterator[Section]:
    """Of sections that are alike the first whole, and of the others what differs from it."""
    whole: dict[str, list[Section]] = {}
    for section in sections:
        alike = whole.setdefault(section.family, []) if section.family else []
        found = [(beyond(section.lines, other.lines), other) for other in alike]
        own, other = min(found, key=lambda pair: len(pair[0]), default=(section.lines, section))
        if 2 * len(own) <= len(section.lines) and other is not section:
            name = other.heading.removeprefix("Step ").partition(" on ")[0].partition(" (")[0]
            words = f"# As {name}, but for:" if own else f"# As {name}."
            tail = () if section.tail == other.tail else section.tail
            yield replace(section, lines=(words, *own), tail=tail)
        else:
            alike.append(section)
            yield section


def summary_json(plan: ClusterPlan, spec: ClusterSpec) -> dict[str, object]:
    """What is decided for the whole site, and how much there is of each stage."""
    return {
        "name": plan.name,
        "stack": plan.stack,
        "digest": plan.digest,
        "site": {
            "environment": spec.environment.kind,
            "rdma": spec.rdma.model_dump(mode="json", exclude_none=True),
            "disruption": spec.disruption.model_dump(mode="json", exclude_none=True),
        },
        "stages": _counts(plan),
    }


def render_summary(plan: ClusterPlan, spec: ClusterSpec) -> str:
    """The summary as a few lines."""
    found = summary_json(plan, spec)
    lines = list(_head(plan))
    for key, value in flatten(found["site"]).items():
        lines.append(f"{key}={value}")
    lines.append("")
    lines += [f"{stage:12} {words}" for stage, words in _counts(plan).items()]
    return "\n".join(lines) + "\n"


def _counts(plan: ClusterPlan) -> dict[str, str]:
    """Stage to how much there is; a stage of which there is nothing is left out."""
    steps = stages_of_steps(plan)
    rooms = {"operators": plan.operators, "pod-network": plan.pod_network, "jobs": plan.jobs}
    counted: dict[str, dict[str, int]] = {
        "cloud": {"object": len(plan.cloud.objects) if plan.cloud else 0},
        "fabric": {"switch": len(plan.switches)},
        "hypervisors": {"hypervisor": len(plan.hypervisors)},
        "hosts": {"host": len(plan.hosts)},
        **{stage: {} for stage in ("reboots", "containers", "kubernetes")},
        **{stage: {"object": len(room.manifests)} for stage, room in rooms.items()},
        "acceptance": {"probe": len(plan.acceptance.probes)},
    }
    counted["operators"] = {"chart": len(plan.operators.charts), **counted["operators"]}
    for stage, own in steps.items():
        counted[stage]["step"] = len(own)
    words = {
        stage: ", ".join(_count(number, word) for word, number in counts.items() if number)
        for stage, counts in counted.items()
    }
    return {stage: text for stage, text in words.items() if text}


def _count(number: int, word: str) -> str:
    plural = "es" if word.endswith("ch") else "s"
    return f"{number:,} {word}{'' if number == 1 else plural}"
