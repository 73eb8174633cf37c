"""Split a plan into sections: one switch, step, chart, object or probe each, with its decisions.

Scripts and long objects contain no decisions, so a section shows only their name and size by
default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, cast

import yaml

from components.cloud.cloud_plan import list_calls
from components.core.record import record
from components.core.to_json import as_lines, flatten, to_json
from components.fabric.fabric_plan import SwitchPlan, describe_start
from components.fabric.systems.ranges import port_key
from components.kubernetes.manifest import Manifest
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines
from components.remote.step import RemoteStep
from components.remote.tools import ToolCall, digest_of, distinct

_NUMBERED = re.compile(r"(.*?)(\d+)")
_RUN = 3
"""Shortest run of ports that shows only its first and last."""
LONG_OBJECT: Final = 200
"""Most YAML lines that `--scripts` prints of an object (the MPIJob CRD has 9,000)."""
_SHORT_OBJECT: Final = 40
"""Most values of a printed object: attachments, patches and configuration."""
_PLUMBING: Final = frozenset(
    {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace", "Role",
        "RoleBinding", "ServiceAccount"}
)  # fmt: skip
"""Kinds that a component needs, without decisions for the site."""
_MINUTE_S: Final = 60
_SHORT_SCRIPT: Final = 200
"""Most characters of a printed one-line text; it names its tool."""
Texts: TypeAlias = Callable[[str, str, str], Iterator[str]]
"""Print a text, given its owner, its title and the text itself."""
_PORT: Final = "<port>"
_OPENS: Final = re.compile(r"interface \S+|uc-tx-queue \d+")
_LONGEST: Final = 160
"""Most characters of a line in the short form."""


def port_lines(ports: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield the settings that all ports share, then a line for each group of equal ports."""
    if not ports:
        return
    first, *others = ports.values()
    common = {
        key: value
        for key, value in first.items()
        if all(other.get(key) == value for other in others)
    }
    yield f"# Every one of {len(ports)} ports:" if others else "# The port:"
    yield from as_lines(common)
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, settings in ports.items():
        own = as_lines({key: value for key, value in settings.items() if key not in common})
        groups.setdefault(own, []).append(name)
    for own, names in groups.items():
        if own or len(groups) > 1:
            yield f"# {', '.join(_runs(names))}: {'  '.join(own) or 'nothing more'}"


def _runs(names: Sequence[str]) -> Iterator[str]:
    """Yield the names, with consecutive ones as `first to last`."""
    run: list[str] = []
    for name in (*names, ""):
        found, last = _NUMBERED.fullmatch(name), _NUMBERED.fullmatch(run[-1] if run else "")
        follows = found and last and (found[1], int(found[2])) == (last[1], int(last[2]) + 1)
        if run and not follows:
            yield f"{run[0]} to {run[-1]}" if len(run) >= _RUN else ", ".join(run)
            run = []
        run.append(name)


@record
class Section:
    """One part of a plan."""

    stage: str
    heading: str
    lines: tuple[str, ...] = ()
    devices: frozenset[str] = frozenset()
    family: str = ""
    """Of similar sections, a page may print the first, and only differences of the others."""
    tail: tuple[str, ...] = ()
    """Lines that a page always prints, even for equal sections."""


def list_sections(
    plan: ClusterPlan, *, scripts: bool = False, lines: bool = False
) -> tuple[Section, ...]:
    """Return the sections of a plan in a possible update order.

    `scripts` prints scripts and objects whole; `lines` prints every line of equal ports.
    """
    texts: Texts = partial(_text, {} if scripts else None)
    found: list[Section] = []
    for call in list_calls(plan.cloud, {}) if plan.cloud else ():
        undo = f"; destroy: railyard cloud {call.delete}" if call.delete else ""
        heading = f"Cloud step {call.step}: railyard cloud {call.verb}{undo}"
        request = as_lines(flatten(cast("object", json.loads(call.stdin))))
        found.append(Section("cloud", heading, request, family=f"cloud {call.verb}"))
    found += (_switch(switch, texts, whole=scripts or lines) for switch in plan.switches)
    # The tools by digest, once for all hosts, with the complete list of names.
    tools: list[str] = []
    for tool in distinct(tool for step in plan.steps for tool in step.tools):
        tools.append(f"# {tool.name} {tool.digest}")
        if scripts or tool.name in {"names", "peers"}:
            tools.append(tool.text.rstrip("\n"))
    if tools:
        found.append(Section("hosts", "Tools that Railyard sends to the hosts", tuple(tools)))
    found += (*_steps(plan), *_objects(plan, scripts=scripts))
    return (*found, *_acceptance(plan, scripts=scripts), *_destroy(plan))


def _text(shown: dict[str, str] | None, owner: str, title: str, text: str) -> Iterator[str]:
    """Yield the text, or a reference to an earlier copy; with None only its size."""
    lines = text.rstrip("\n").splitlines()
    if shown is None and len(lines) == 1 and len(text) <= _SHORT_SCRIPT:
        yield f"# {title}: {lines[0]}"
    elif shown is None:
        yield f"# {title}: {len(lines):,} lines, {len(text.encode()) / 1000:.1f} KB"
    elif text in shown:
        yield f"# {title}: the same text as the {shown[text]} above"
    else:
        shown[text] = f"{title} of {owner}"
        yield from (f"# {title}:", text.rstrip("\n"))


def _switch(switch: SwitchPlan, texts: Texts, *, whole: bool) -> Section:
    if (plan := switch.exec) is not None:
        undo = f"destroy, to the factory's values and not to those of before{plan.unproven}"
        sent = (
            "# One exec: any change sends the whole text again, without reading the switch first.",
            f"# It interrupts: {'; '.join(plan.interrupts) or 'nothing'}",
            *texts(switch.name, "exec", plan.apply),
            *texts(switch.name, "then, if the switch refused nothing", plan.save),
            *texts(switch.name, undo, plan.undo),
        )
    else:
        first = switch.commands_from_factory
        short = _short(first, [*switch.desired.ports])
        sent = (f"# {describe_start(switch)}", *(first if whole else short))
    lines = ["# Wanted state:"]
    state = switch.desired.model_dump(mode="json", exclude_none=True)
    lines += as_lines(flatten({key: state[key] for key in state if key != "ports"}))
    lines += port_lines({name: flatten(port) for name, port in state.get("ports", {}).items()})
    heading = f"Switch {switch.name} ({switch.os}, {switch.model}), {switch.endpoint.where}"
    return Section("fabric", heading, tuple(lines), frozenset({switch.name}), "switch", sent)


def _short(lines: Sequence[str], ports: Sequence[str]) -> Iterator[str]:
    """Yield a switch's lines; lines that differ only in the port appear once."""
    named = re.compile(rf"(?<![\w/,-])({'|'.join(map(re.escape, ports))})(?![\w/,-])")
    alike: dict[tuple[object, ...], list[str]] = {}
    for number, block in enumerate(_blocks("\n".join(lines).replace(",\n", "\n").split("\n"))):
        found = {*named.findall("\n".join(block))} if ports else set[str]()
        one = len(found) == 1
        form = (named.sub(_PORT, line) for line in block) if one else (*block, number)
        alike.setdefault(tuple(form), []).extend(found if one else ())
    yield f"# Shortened: {_PORT} means each port after the #; --device NAME prints every line."
    for form, names in alike.items():
        texts = (line for line in form if isinstance(line, str))
        first, *rest = (line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…" for line in texts)
        yield f"{first}  # {', '.join(_runs(sorted(names, key=port_key)))}" if names else first
        yield from rest


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield each line alone, but the lines of an EOS interface up to its `exit` together."""
    block: list[str] = []
    depth = 0
    for line in lines:
        depth = max(0, depth + bool(_OPENS.fullmatch(line)) - (line == "exit"))
        block.append(line)
        if not depth:
            yield block
            block = []


def _steps(plan: ClusterPlan) -> Iterator[Section]:
    known = {digest_of(step.desired): step.name for step in reversed(plan.steps)}  # the first wins
    for stage, steps in stages_of_steps(plan).items():
        for step in steps:
            family = step.name.removeprefix(step.endpoint.device)
            undo = f"undo: {_call(step.undo)}" if step.undo else f"no undo: {step.why_no_undo}"
            lines, tail = tuple(_wanted(step, known)), (f"# runs: {_call(step.apply)}", f"# {undo}")
            heading = f"Step {step.name} on {step.endpoint.where}, deadline {step.deadline_s:g} s"
            devices = frozenset({step.endpoint.device})
            yield Section(stage, heading, lines, devices, f"step {family}", tail)


def stages_of_steps(plan: ClusterPlan) -> Mapping[str, tuple[RemoteStep, ...]]:
    """Return every step of the plan by stage; together they are `plan.steps`."""
    return {
        "hypervisors": (
            *(step for each in plan.hypervisors for step in each.own_steps),
            *(step for each in plan.hypervisors for step in each.last_steps),
        ),
        "hosts": (
            *(step for host in plan.hosts for step in (host.sending, *host.all_steps)),
            *(host.verify for host in plan.hosts if host.verify),
        ),
        "reboots": tuple(each.step for group in plan.reboots for each in group.steps),
        "containers": plan.payload.steps if plan.payload else (),
        "kubernetes": plan.kubernetes.steps if plan.kubernetes else (),
    }


def _wanted(step: RemoteStep, known: Mapping[str, str]) -> Iterator[str]:
    if step.secret_stdin:
        yield f"# stdin: the secret {step.secret_stdin}"
    elif step.dialect == "device":
        request = dict[str, object](parse_lines(step.desired))
        for key, value in request.items():
            if name := isinstance(value, str) and known.get(value):
                yield f"{key}=as {name} wants"
            elif key != "endpoint":  # the heading has the endpoint
                yield from as_lines(flatten(value, key))
    else:
        yield from step.desired.rstrip("\n").splitlines()


def _call(call: ToolCall | str) -> str:
    if isinstance(call, str):
        return f"railyard {call}"
    words = " ".join((call.verb, *call.arguments))
    return f"{words} of the tool {call.tool.name} {call.tool.digest[:12]}"


def _objects(plan: ClusterPlan, *, scripts: bool) -> Iterator[Section]:
    for chart in plan.operators.charts:
        heading = f"Helm release {chart.release}: {chart.chart} {chart.version}"
        yield Section("operators", heading, as_lines(flatten(to_json(chart.values))))
    for stage, room in plan.rooms.items():
        shown = {each.resource_name: tuple(_body(each, scripts=scripts)) for each in room}
        for manifest in room:
            if body := shown[manifest.resource_name]:
                family = "" if scripts else f"{stage} {manifest.kind}"
                yield Section(stage, _heading(manifest), body, family=family)
        if named := [each for each in room if not shown[each.resource_name]]:
            heading = f"Also in {stage}, without decisions for the site"
            lines: list[str] = []
            for each in named:
                count = yaml_of(each.body).count("\n") + 1
                images = "".join(f", {image}" for image in sorted({*_images(each.body)}))
                whole = "; --format json prints it whole" if count >= LONG_OBJECT else ""
                lines.append(f"# {_heading(each)}: {count:,} lines{images}{whole}")
            yield Section(stage, heading, tuple(lines))


def _heading(manifest: Manifest) -> str:
    return f"{manifest.kind} {manifest.resource_name} (group {manifest.group})"


def _body(manifest: Manifest, *, scripts: bool) -> Iterator[str]:
    """Yield the lines of an object; empty if only its name is shown."""
    if scripts:
        text = yaml_of(manifest.body)
        if text.count("\n") < LONG_OBJECT:
            yield text
        return
    body = {key: value for key, value in manifest.body.items() if key not in {"apiVersion", "kind"}}
    values = flatten(_with_json(body))
    plumbing = manifest.kind in _PLUMBING or any(_images(manifest.body))
    if not plumbing and len(values) <= _SHORT_OBJECT:
        yield from as_lines(values)


def _with_json(value: object) -> object:
    """Parse the JSON texts inside a value."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {key: _with_json(item) for key, item in items}
    if isinstance(value, str) and value.startswith("{"):
        try:
            return cast("object", json.loads(value))
        except ValueError:
            return value
    return value


def _images(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[str, object]", value).items():
            if key == "image" and isinstance(item, str):
                yield item
            yield from _images(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _images(item)


def _acceptance(plan: ClusterPlan, *, scripts: bool) -> Iterator[Section]:
    if (budget := plan.acceptance.budget) is not None:
        expected, limit = (
            f"{seconds} s" if seconds < _MINUTE_S else f"{seconds / _MINUTE_S:.0f} min"
            for seconds in (budget.expected_s, budget.limit_s)
        )
        heading = f"Suite {budget.suite}: {expected} if nothing is in its way"
        most = f"# at most {limit}, for which large sites test fewer pairs"
        if budget.expected_s > budget.limit_s:
            most = f"# more than its {limit}, although fewer pairs are tested: "
            most += "see the pairs above that run alone"
        yield Section("acceptance", heading, (most, *(f"# {each}" for each in budget.covers)))
    for probe in (*plan.acceptance.images, *plan.acceptance.probes):
        nodes = probe.probe.nodes
        bodies = probe.job.objects if probe.job else ()
        named = [f"# objects: {', '.join(str(body['kind']) for body in bodies)}"] if bodies else []
        whole = (line for body in bodies for line in ("---", yaml_of(body)))
        lines = [" ".join(probe.command), *(whole if scripts else named)]
        place = f" on {', '.join(nodes)}" if nodes else ""
        heading = f"Probe {probe.probe.name}{place}"
        yield Section("acceptance", heading, tuple(lines), frozenset(nodes))
    limits = flatten(plan.acceptance.limits.model_dump(mode="json"))
    yield Section("acceptance", "Floors of acceptance", as_lines(limits))
    if (store := plan.acceptance.store) is not None:
        shown = flatten(store.model_dump(mode="json", exclude_defaults=True))
        yield Section("acceptance", "Evidence store", as_lines(shown))


def _destroy(plan: ClusterPlan) -> Iterator[Section]:
    left = plan.left_by_destroy
    lines: list[str] = []
    for name, host in left.hosts.items():
        if host.stays:
            lines.append(f"# stays on {name}, if it came with the stack: {'; '.join(host.stays)}")
        if waits := "; ".join(host.until_restart):
            words = f"# put back on {name} for its next start, and in force until then"
            lines.append(f"{words}: {waits}")
    if left.cluster:
        lines.append(f"# stays in the cluster, where others may use it: {', '.join(left.cluster)}")
    lines += [f"# {step}: {reason}" for step, reason in left.steps.items()]
    yield Section("destroy", "What destroy leaves", tuple(lines))


def yaml_of(value: object) -> str:
    """Render a value as YAML with sorted keys."""
    text = yaml.safe_dump(to_json(value), sort_keys=True, default_flow_style=False, width=100)
    return text.rstrip("\n")
