"""What a plan sets on hosts, in the cluster and in jobs, as lines to hold a guide against."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, cast

from components.acceptance.acceptance_plan import ProbePlan
from components.core.to_json import as_lines, flatten, to_json
from components.kubernetes.manifest import Manifest
from components.plan.make import ClusterPlan
from components.plan.sections import stages_of_steps
from components.remote.lines import parse_lines

_NOT_DECIDED: Final = frozenset(
    {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Role", "RoleBinding"}
)
"""Kinds that come as upstream wrote them."""
_OF_PULUMI: Final = "pulumi.com/"
"""How annotations begin that the engine reads and the cluster does not."""
_WORDS_OF_OPTION: Final = {
    "--allow-run-as-root": 0,
    "--bind-to": 1,
    "--hostfile": 1,
    "--mca": 2,
    "--tag-output": 0,
    "-np": 1,
    "-x": 1,
}
"""Every option of mpirun that a plan may have, and how many words follow it."""
_OWN_LINES: Final = frozenset({"command", "env"})
_SHELL: Final = ("/bin/sh", "-c")
_EXPORTED: Final = re.compile(r'([A-Z_]+)="([^"]*)"')
_REPLICA: Final = re.compile(r"spec\.mpiReplicaSpecs\.(\w+)\.template\.spec\.")
_OF_POD: Final = "containers\\.|restartPolicy|nodeSelector|activeDeadline|termination"
_TEMPLATE: Final = re.compile(rf"spec\.(template\.spec\.|(?={_OF_POD}))")
_CONTAINER: Final = re.compile(r"containers\.[^.]+\.")


def lines_of(plan: ClusterPlan) -> tuple[str, ...]:
    """The lines of a plan, each once.

    The forms are `host KEY=VALUE`, `kubespray VARIABLE=VALUE`, `helm CHART KEY=VALUE`,
    `KIND PATH=VALUE` for objects, `env NAME=VALUE`, `mpirun OPTION` and `PROGRAM OPTION`.
    """
    rooms = (plan.operators, plan.pod_network, plan.jobs)
    lines = (
        *_hosts(plan),
        *_kubespray(plan),
        *_charts(plan),
        *(line for room in rooms for each in room.manifests for line in _object(each)),
        *(line for probe in plan.acceptance.probes for line in _probe(probe)),
    )
    return tuple(dict.fromkeys(lines))


def _hosts(plan: ClusterPlan) -> Iterator[str]:
    for step in stages_of_steps(plan)["hosts"]:
        if step.dialect != "device":
            yield from (f"host {line}" for line in step.desired.splitlines())


def _kubespray(plan: ClusterPlan) -> Iterator[str]:
    playbooks = plan.kubernetes.playbooks if plan.kubernetes else None
    if playbooks is None:
        return
    wanted = cast("dict[str, object]", parse_lines(playbooks.step.desired)["wanted"])
    yield f"kubespray commit={wanted['pin']}"
    yield f"kubespray kube_version={wanted['version']}"
    yield from (f"kubespray {line}" for line in as_lines(flatten(wanted["settings"])))


def _charts(plan: ClusterPlan) -> Iterator[str]:
    for chart in plan.operators.charts:
        yield f"helm {chart.release} version={chart.version}"
        yield from (f"helm {chart.release} {line}" for line in _flat(to_json(chart.values)))


def _object(manifest: Manifest) -> Iterator[str]:
    if manifest.kind not in _NOT_DECIDED:
        yield from (f"{manifest.kind} {line}" for line in _flat(_body(manifest.body)))


def _body(body: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}


def _flat(value: object) -> Iterator[str]:
    lines = as_lines(flatten(_opened(value)))
    yield from (line for line in lines if _OF_PULUMI not in line)


def _opened(value: object) -> object:
    """The value, with texts of JSON as what they say, and named items of a list by their names."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {key: _opened(item) for key, item in items}
    if isinstance(value, list | tuple):
        return _by_name([_opened(item) for item in cast("Sequence[object]", value)])
    if isinstance(value, str) and value.startswith("{"):
        try:
            return _opened(cast("object", json.loads(value)))
        except ValueError:
            return value
    return value


def _by_name(items: list[object]) -> object:
    named: dict[str, object] = {}
    for item in items:
        if not isinstance(item, Mapping) or "name" not in item:
            return items
        fields = dict(cast("Mapping[str, object]", item))
        named[str(fields.pop("name"))] = fields
    return named


def _probe(probe: ProbePlan) -> Iterator[str]:
    for body in probe.job.objects if probe.job else ():
        for line in _flat(_without_commands(_body(body))):
            path, equals, value = line.partition("=")
            path = _TEMPLATE.sub("", _REPLICA.sub(r"\1.", path))
            yield f"{body['kind']} {_CONTAINER.sub('', path)}{equals}{value}"
        yield from _variables(body)
    yield from _command(probe.command)


def _without_commands(value: object) -> object:
    """An object without commands and variables, which have lines of their own."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {key: _without_commands(each) for key, each in items if key not in _OWN_LINES}
    if isinstance(value, list | tuple):
        return [_without_commands(each) for each in cast("Sequence[object]", value)]
    return value


def _variables(value: object) -> Iterator[str]:
    """The variables of all containers in an object."""
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[str, object]", value).items():
            if key == "env":
                entries = cast("Sequence[Mapping[str, str]]", item)
                yield from (f"env {each['name']}={each['value']}" for each in entries)
            else:
                yield from _variables(item)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            yield from _variables(item)


def _command(words: Sequence[str]) -> Iterator[str]:
    """The options of mpirun one by one, and of what it starts."""
    rest = list(words)
    if PurePosixPath(rest[0]).name == "mpirun":
        rest.pop(0)
        while rest[0].startswith("-"):
            option = rest.pop(0)
            number = _WORDS_OF_OPTION[option]
            taken, rest = rest[:number], rest[number:]
            name = "env" if option == "-x" else f"mpirun {option}"
            yield " ".join((name, *taken))
    if tuple(rest[:2]) == _SHELL:
        exports = (line for line in rest[2].splitlines() if line.startswith("export "))
        found = (match for line in exports for match in _EXPORTED.findall(line))
        yield from (f"env {name}={value}" for name, value in found)
        rest = rest[4:]
    yield from _options(PurePosixPath(rest[0]).name, rest[1:])


def _options(program: str, words: Iterable[str]) -> Iterator[str]:
    """A program's options, each with the words behind it."""
    option: list[str] = []
    for word in words:
        if word.startswith("-") and option:
            yield " ".join((program, *option))
            option = []
        option.append(word)
    if option:
        yield " ".join((program, *option))
