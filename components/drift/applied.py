"""Read the last applied values from Pulumi's state: drift, repair notes and re-runs start here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from components.core.record import record
from components.model.cluster import ClusterSpec
from components.project.split_state import WITH_OUTPUTS
from components.remote.sending import read_records, split_parts

INSTANCE_STEP: Final = "-await"
"""End of the name of the step that waits for a cloud instance and prints its facts."""

Body: TypeAlias = dict[str, JsonValue]
_ONE_EACH: Final = ("-tools", "-apply", "-exec")
"""Ends of step names; each device has at most one step with each end."""
RELEASE: Final = "kubernetes:helm.sh/v3:Release"
_OF_RELEASE: Final = ("name", "namespace", "description")
_INPUTS: Final = "__inputs"
"""The provider's key for an object as the program requested it, next to the live one."""
_RENAMED: Final = "x_kubernetes_"
"""How the provider spells `x-kubernetes-` in a definition."""
SEALED: Final = "4dabf18193072939515e22adb298388d"
"""The engine's key of an envelope around a secret (sdk/go/common/resource/sig)."""


@record
class AppliedStep:
    """One command resource as the state recorded it."""

    stdin: str = ""
    create: str = ""
    stdout: str = ""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Applied:
    """The last applied steps, by resource name; empty on a new stack."""

    steps: Mapping[str, AppliedStep] = field(default_factory=dict[str, AppliedStep])
    objects: Mapping[str, Body] = field(default_factory=dict[str, Body], repr=False)
    """Kubernetes objects as the program requested them, without secrets."""
    releases: Mapping[str, Body] = field(default_factory=dict[str, Body], repr=False)
    """Helm releases: their names, namespaces and descriptions."""
    former: Mapping[str, str] = field(default_factory=dict[str, str])
    """Step to its old name in the state, if its device was renamed."""
    within: Mapping[str, str] = field(default_factory=dict[str, str])
    """Step to its resource, for resources of several steps."""
    outputs: Body = field(default_factory=dict[str, JsonValue], repr=False)
    """Outputs of the stack or of its `Site`; the engine gives secret ones in clear."""

    @property
    def instances(self) -> Mapping[str, Mapping[str, str]]:
        """Cloud instance to its recorded facts, which its `-await` step printed."""
        found: dict[str, Mapping[str, str]] = {}
        for name, step in self.steps.items():
            if name.endswith(INSTANCE_STEP) and step.stdout.strip():
                found[name.removesuffix(INSTANCE_STEP)] = json.loads(step.stdout)
        return found

    def follow(self, spec: ClusterSpec) -> Applied:
        """Return the same state with the steps of renamed devices under their new names."""
        by_old = {old: new for new, old in spec.renamed.all.items()}
        former: dict[str, str] = {}
        for name, old in self.devices_of(spec).items() if by_old else ():
            moved = by_old.get(old, old) + name.removeprefix(old)
            if moved not in self.steps:
                former[moved] = name
        named = {old: new for new, old in former.items()}
        steps = {named.get(name, name): step for name, step in self.steps.items()}
        within = {named.get(n, n): named.get(of, of) for n, of in self.within.items()}
        return replace(self, steps=steps, former=former, within=within)

    def devices_of(self, spec: ClusterSpec) -> Mapping[str, str]:
        """Map each step to its device, by the longest name that the file or the state has."""
        found = self.names_of_devices(spec)
        return {name: device_of(name, found) for name in self.steps}

    def names_of_devices(self, spec: ClusterSpec) -> frozenset[str]:
        """Return the names of all devices of the file or of the state."""
        found = {each.name for each in (*spec.hosts, *spec.switches)} | {*spec.renamed.all.values()}
        for name in self.steps:
            found |= {name.removesuffix(end) for end in _ONE_EACH if name.endswith(end)}
        return frozenset(found)

    @property
    def resources(self) -> frozenset[str]:
        """The names of all recorded resources of steps, objects and charts."""
        steps = {self.within.get(name, name) for name in self.steps}
        return frozenset({*steps, *self.objects, *self.releases})

    def step(self, name: str) -> AppliedStep | None:
        """Return the recorded step, or None if it was never applied."""
        return self.steps.get(name)

    def stdin(self, name: str) -> str:
        """Return the recorded stdin of a step; empty if it was never applied."""
        return self.steps[name].stdin if name in self.steps else ""


def device_of(name: str, devices: Iterable[str]) -> str:
    """Return the device in the name of a step or of a resource; empty without one."""
    return max((each for each in devices if name.startswith(f"{each}-")), key=len, default="")


def _text(value: object) -> str:
    """Unwrap a text; secrets arrive as an envelope with `value` or `plaintext`."""
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, object]", value)
        value = inner.get("value", inner.get("plaintext"))
        if "plaintext" in inner and isinstance(value, str):
            value = json.loads(value)
    return value if isinstance(value, str) else ""


def _steps(name: str, outputs: Mapping[str, object]) -> dict[str, AppliedStep]:
    """Return the steps of one resource by name."""
    stdin, create, stdout = (_text(outputs.get(key)) for key in ("stdin", "create", "stdout"))
    parts = split_parts(stdin)
    if not parts:
        return {name: AppliedStep(stdin, create, stdout)}
    if len(parts) == 1:
        return {part.step: AppliedStep(part.stdin, part.create, stdout) for part in parts}
    printed = {step: output for step, (_, output) in read_records(stdout).items()}
    return {
        part.step: AppliedStep(part.stdin, part.create, printed.get(part.step, "").rstrip())
        for part in parts
    }


def _found(outputs: object) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Yield the type, the name and the outputs of each resource."""
    entries = cast("Mapping[str, object]", outputs if isinstance(outputs, Mapping) else {})
    for urn, entry in entries.items():
        body = cast("Mapping[str, object]", entry) if isinstance(entry, Mapping) else None
        if body is not None and isinstance(inner := body.get("outputs", body), Mapping):
            kind, _, name = urn.rpartition("::")
            kind = kind.rpartition("::")[2].rpartition("$")[2]
            yield kind, name, cast("Mapping[str, object]", inner)


def applied_from_outputs(outputs: object) -> Applied:
    """Read the answer of `readStackResourceOutputs`: URN to a resource's outputs."""
    steps, within = dict[str, AppliedStep](), dict[str, str]()
    objects, releases, said = dict[str, Body](), dict[str, Body](), dict[str, JsonValue]()
    for kind, name, found in _found(outputs):
        if kind.startswith("command:"):
            own = _steps(name, found)
            steps |= own
            within |= dict.fromkeys(own.keys() - {name}, name)
        elif kind == RELEASE:
            releases[name] = {key: _text(found.get(key)) for key in _OF_RELEASE}
        elif kind.startswith("kubernetes:"):
            asked = _plain(found.get(_INPUTS))
            objects[name] = asked if isinstance(asked, dict) else {}
        elif kind in WITH_OUTPUTS:
            said |= cast("Body", _plain(found))
    return Applied(steps, objects, releases, within=within, outputs=said)


def _is_sealed(value: object) -> bool:
    """Whether a value is secret, or a list with a secret: without it, other items would move up."""
    if isinstance(value, list):
        return any(_is_sealed(item) for item in cast("list[object]", value))
    return isinstance(value, Mapping) and SEALED in cast("Mapping[str, object]", value)


def _plain(value: object) -> JsonValue:
    """Return a recorded value in Kubernetes' spelling, without secret values."""
    if isinstance(value, Mapping):
        return {
            key.replace("_", "-") if key.startswith(_RENAMED) else key: _plain(item)
            for key, item in cast("Mapping[str, object]", value).items()
            if not _is_sealed(item)
        }
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[object]", value)]
    return cast("JsonValue", value)


def applied_from_export(text: str) -> Applied:
    """Read `pulumi stack export`, which `railyard drift` uses because it runs no engine."""
    document = cast("Mapping[str, Mapping[str, object]]", json.loads(text))
    found: object = document.get("deployment", {}).get("resources", [])
    resources = cast("list[Mapping[str, object]]", found)
    outputs = {each["urn"]: each.get("outputs", {}) for each in resources if "urn" in each}
    return applied_from_outputs(outputs)
