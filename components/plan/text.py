"""Render a complete plan, one stage or one device, as text or JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, cast

from components.core.errors import UsageError
from components.core.record import record
from components.core.to_json import beyond, flatten, to_json
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan, scripts_of
from components.plan.sections import Section, list_sections, stages_of_steps

STAGES: Final = (
    "cloud", "fabric", "hypervisors", "hosts", "reboots", "containers", "kubernetes", "operators",
    "pod-network", "jobs", "acceptance",
)  # fmt: skip
"""In update order."""
_MOST_NAMES: Final = 12
"""Names that an error lists; a site may have thousands of hosts."""
_PARTS: Final = {"fabric": "switches", "containers": "payload", "pod-network": "pod_network"}
"""Stages whose part of a plan has another name."""
_SCRIPTS: Final = frozenset({"apply", "undo", "save"})


@record
class Choice:
    """The selected part of a plan."""

    device: str | None = None
    stage: str | None = None
    scripts: bool = False
    """Print complete scripts, commands and objects, instead of their names and sizes."""

    def takes(self, section: Section) -> bool:
        """Whether a section is selected."""
        of_device = self.device is None or self.device in section.devices
        return of_device and self.stage in (None, section.stage)


def choose(plan: ClusterPlan, device: str | None, stage: str | None, *, scripts: bool) -> Choice:
    """Return a valid choice for the plan; a UsageError suggests names."""
    devices = [each.name for each in (*plan.switches, *plan.hypervisors, *plan.hosts)]
    if device is not None and device not in devices:
        raise UsageError(_unknown("--device", device, devices))
    if stage is not None and stage not in STAGES:
        raise UsageError(_unknown("--stage", stage, STAGES))
    return Choice(device, stage, scripts)


def _unknown(option: str, name: str, there: Sequence[str]) -> str:
    near = get_close_matches(name, there, n=5, cutoff=0.5)
    fix = f"did you mean {' or '.join(near)}?"
    if not near:
        more = len(there) - _MOST_NAMES
        shown = ", ".join(there[:_MOST_NAMES])
        fix = f"there are: {shown}{f' and {more} more' if more > 0 else ''}"
    planned = "does nothing on this device" if option == "--device" else "does not contain it"
    return f"{option} {name}: the plan {planned}.\n  fix    {fix}"


def render_plan(plan: ClusterPlan, choice: Choice | None = None) -> str:
    """Render the plan as text; the same file gives the same text."""
    choice = choice or Choice()
    named = "# Scripts and long objects are named only: --scripts prints them."
    lines = [*_head(plan), *([] if choice.scripts else [named])]
    sections = list_sections(plan, scripts=choice.scripts, lines=choice.device is not None)
    if plan.foreign_fabric:
        foreign = Section("fabric", "Switches outside Railyard", plan.foreign_fabric)
        sections = (foreign, *sections)
    whole: dict[str, list[Section]] = {}
    for section in filter(choice.takes, sections):
        # Of similar sections, the first is complete, and others have only their differences.
        alike = whole.setdefault(section.family, []) if section.family else []
        found = [(beyond(section.lines, other.lines), other) for other in alike]
        own, other = min(found, key=lambda pair: len(pair[0]), default=(section.lines, section))
        lines.append(f"\n## {section.heading}")
        if 2 * len(own) <= len(section.lines) and other is not section:
            name = other.heading.removeprefix("Step ").partition(" on ")[0].partition(" (")[0]
            lines += (f"# As {name}, but for:" if own else f"# As {name}.", *own)
            lines += section.tail if section.tail != other.tail else ()
        else:
            alike.append(section)
            lines += (*section.lines, *section.tail)
    return "\n".join(lines) + "\n"


def _head(plan: ClusterPlan) -> Iterator[str]:
    yield f"# Plan of {plan.name}, stack {plan.stack}, digest {plan.digest}"
    for rule, reason in plan.acceptance.limits.waived.items():
        yield f"# waived: {rule}: {reason}"
    yield from (f"# left alone: {each}" for each in plan.left_alone)


def summary_json(plan: ClusterPlan, spec: ClusterSpec) -> dict[str, object]:
    """Return the decisions for the whole site, and the size of each stage."""
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
    site = flatten(summary_json(plan, spec)["site"])
    lines = [*_head(plan), *(f"{key}={value}" for key, value in site.items()), ""]
    lines += [f"{stage:12} {words}" for stage, words in _counts(plan).items()]
    return "\n".join(lines) + "\n"


def _counts(plan: ClusterPlan) -> dict[str, str]:
    """Count the parts of each stage, without empty stages."""
    steps = stages_of_steps(plan)
    counted: dict[str, dict[str, int]] = {
        "cloud": {"object": len(plan.cloud.objects) if plan.cloud else 0},
        "fabric": {"switch": len(plan.switches)},
        "hypervisors": {"hypervisor": len(plan.hypervisors)},
        "hosts": {"host": len(plan.hosts)},
        **{stage: {} for stage in ("reboots", "containers", "kubernetes")},
        **{stage: {"object": len(room)} for stage, room in plan.rooms.items()},
        "acceptance": {"probe": len((*plan.acceptance.images, *plan.acceptance.probes))},
    }
    counted["operators"] = {"chart": len(plan.operators.charts), **counted["operators"]}
    for stage, own in steps.items():
        counted[stage]["step"] = len(own)
    found: dict[str, str] = {}
    for stage, counts in counted.items():
        plural = {word: f"{word}{'es' if word.endswith('ch') else 's'}" for word in counts}
        words = ((number, word if number == 1 else plural[word]) for word, number in counts.items())
        found[stage] = ", ".join(f"{number:,} {word}" for number, word in words if number)
    return {stage: text for stage, text in found.items() if text}


def plan_json(plan: ClusterPlan, choice: Choice) -> dict[str, Any]:
    """Return the selected part of a plan as plain data."""
    device, stage = choice.device, choice.stage
    if device is not None:
        machines = {"fabric": plan.switches, "hypervisors": plan.hypervisors, "hosts": plan.hosts}
        found: dict[str, Any] = {
            _PARTS.get(name, name): to_json([each for each in own if each.name == device])
            for name, own in machines.items()
            if stage in (None, name)
        }
        stages = (own for name, own in stages_of_steps(plan).items() if stage in (None, name))
        steps = [each for own in stages for each in own if each.endpoint.device == device]
        body = {key: value for key, value in found.items() if value} | {"steps": to_json(steps)}
    else:
        body = cast("dict[str, Any]", to_json(plan))
        body["left_by_destroy"] = to_json(plan.left_by_destroy)
        if stage is not None:
            part = _PARTS.get(stage, stage)
            body = {part: body.get(part, [])}
    head: dict[str, Any] = {"name": plan.name, "stack": plan.stack, "digest": plan.digest}
    if choice.scripts:
        head["tools"] = dict(scripts_of(plan))
    return head | cast("dict[str, Any]", body if choice.scripts else _without_scripts(body))


def _without_scripts(value: object) -> object:
    """Replace each script by its size and checksum."""
    if isinstance(value, list):
        return [_without_scripts(item) for item in cast("list[object]", value)]
    if not isinstance(value, Mapping):
        return value
    found: dict[str, object] = {}
    for key, item in cast("Mapping[str, object]", value).items():
        if key in _SCRIPTS and isinstance(item, str) and "\n" in item:
            data = item.encode()
            digest = hashlib.sha256(data).hexdigest()
            found[key] = {"lines": len(item.splitlines()), "bytes": len(data), "sha256": digest}
        else:
            found[key] = _without_scripts(item)
    return found
