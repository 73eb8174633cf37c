"""A plan as a page for a person: what each device and the cluster will be told, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from components.cloud.calls import list_calls
from components.core.to_json import to_json
from components.fabric.exec_plan import ExecPlan, describe_interrupts
from components.fabric.plan import render_first_commands
from components.kubernetes.manifest import Manifest
from components.plan.make import ClusterPlan
from components.remote.step import RemoteStep
from components.remote.tools import ToolCall, distinct


def render_plan(plan: ClusterPlan) -> str:
    """The whole plan as text; the same file gives the same text."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: ClusterPlan) -> Iterator[str]:
    yield f"# Plan of {plan.name}, stack {plan.stack}, digest {plan.digest}"
    yield from _cloud(plan)
    yield from _switches(plan)
    yield from _tools(plan)
    for step in plan.steps:
        yield from _step(step)
    for chart in plan.operators.charts:
        yield f"\n## Helm release {chart.release}: {chart.chart} {chart.version}"
        yield _yaml(to_json(chart.values))
    for room in (plan.operators, plan.pod_network, plan.jobs):
        for manifest in room.manifests:
            yield from _manifest(manifest)
    yield from _acceptance(plan)
    yield from _not_undone(plan)


def _cloud(plan: ClusterPlan) -> Iterator[str]:
    for call in list_calls(plan.cloud, {}) if plan.cloud else ():
        undo = f"; destroy: railyard cloud {call.delete}" if call.delete else ""
        yield f"\n## Cloud step {call.step}: railyard cloud {call.verb}{undo}"
        yield "# stdin:"
        yield call.stdin.rstrip("\n")


def _switches(plan: ClusterPlan) -> Iterator[str]:
    for switch in plan.switches:
        yield f"\n## Switch {switch.name} ({switch.os}, {switch.model}), {switch.endpoint.where}"
        if switch.exec is not None:
            yield from _exec(switch.exec)
        else:
            yield "# From factory settings these commands lead there; an update sends what differs."
            yield from render_first_commands(switch)
        yield "# Wanted state:"
        yield _yaml(switch.desired.model_dump(mode="json", exclude_none=True))


def _exec(texts: ExecPlan) -> Iterator[str]:
    """The texts of a plain exec, whole: nothing is left out of them at a run."""
    yield "# One exec; an update that changes it sends all of it, without reading the switch first."
    yield f"# It interrupts: {describe_interrupts(texts.interrupts) or 'nothing'}"
    for title, text in (
        ("exec", texts.apply),
        ("then, if the switch refused nothing", texts.save),
        ("destroy, to the factory's values and not to those of before", texts.undo),
    ):
        yield f"# {title}:"
        yield text


def _step(step: RemoteStep) -> Iterator[str]:
    yield f"\n## Step {step.name} on {step.endpoint.where}, deadline {step.deadline_s:g} s"
    if step.secret_stdin:
        yield f"# stdin: the secret {step.secret_stdin}"
    else:
        yield "# stdin:"
        yield step.desired.rstrip("\n")
    for title, call in (("runs", step.apply), ("destroy runs", step.undo)):
        if call is not None:
            yield f"# {title}: {_call(call)}"


def _call(call: ToolCall | str) -> str:
    if isinstance(call, str):
        return f"railyard {call}"
    words = " ".join((call.verb, *call.arguments))
    return f"{words} of the tool {call.tool.name} {call.tool.digest[:12]}"


def _tools(plan: ClusterPlan) -> Iterator[str]:
    """The tools by digest, and the lists that hosts get whole: once for all of them."""
    tools = distinct(tool for step in plan.steps for tool in step.tools)
    if tools:
        yield "\n## Tools that are sent to the hosts"
    for tool in tools:
        yield f"# {tool.name} {tool.digest}"
        if tool.name == "names":
            yield tool.text.rstrip("\n")


_LONG_OBJECT = 200
"""Lines of YAML above which an object is named, not printed (the MPIJob CRD has 9,000)."""


def _manifest(manifest: Manifest) -> Iterator[str]:
    text = _yaml(manifest.body)
    lines = text.count("\n") + 1
    yield f"\n## {manifest.kind} {manifest.resource_name} (group {manifest.group})"
    yield text if lines <= _LONG_OBJECT else f"# {lines} lines; --format json prints it whole"


def _acceptance(plan: ClusterPlan) -> Iterator[str]:
    """Objects of probes that differ in nodes alone are printed once."""
    yield "\n## Acceptance"
    shown: dict[str, str] = {}
    for probe in plan.acceptance.probes:
        name, nodes = probe.probe.name, probe.probe.nodes
        yield f"# {name} on {', '.join(nodes)}:"
        yield " ".join(probe.command)
        texts = [_yaml(body) for body in (probe.job.objects if probe.job else ())]
        form = "\n".join(texts).replace(name, "<probe>")
        for number, node in enumerate(nodes):
            form = re.sub(rf"\b{re.escape(node)}\b", f"<node {number}>", form)
        first = shown.setdefault(form, name)
        if texts and first != name:
            yield f"# objects: those of {first}, with the names of these nodes"
            continue
        for text in texts:
            yield "---"
            yield text
    yield "# Floors:"
    yield _yaml(plan.acceptance.limits.model_dump(mode="json"))


def _not_undone(plan: ClusterPlan) -> Iterator[str]:
    left = plan.left_by_destroy
    yield "\n## What destroy leaves"
    for name, host in left.hosts.items():
        if host.stays:
            came = "; ".join(host.stays)
            yield f"# stays on {name}, if it came with the stack: {came}"
        if host.until_restart:
            waits = "; ".join(host.until_restart)
            yield f"# put back on {name} for its next start, and in force until then: {waits}"
    for step, reason in left.steps.items():
        yield f"# {step}: {reason}"


def _yaml(value: object) -> str:
    text = yaml.safe_dump(to_json(value), sort_keys=True, default_flow_style=False, width=100)
    return text.rstrip("\n")
