"""What was last applied, as plain values: the base of drift, repair notes and re-runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

INSTANCE_STEP: Final = "-await"
"""How the name of the step ends that awaits a cloud instance and prints its facts."""


@dataclass(frozen=True, slots=True)
class AppliedStep:
    """One command resource as the state recorded it."""

    stdin: str = ""
    create: str = ""
    stdout: str = ""


@dataclass(frozen=True, slots=True)
class Applied:
    """Resource name to what it last applied; empty on a new stack."""

    steps: Mapping[str, AppliedStep] = field(default_factory=dict[str, AppliedStep])

    @property
    def instances(self) -> Mapping[str, Mapping[str, str]]:
        """Cloud instance to its recorded facts: what the step that awaits it printed."""
        found: dict[str, Mapping[str, str]] = {}
        for name, step in self.steps.items():
            if name.endswith(INSTANCE_STEP) and step.stdout.strip():
                found[name.removesuffix(INSTANCE_STEP)] = json.loads(step.stdout)
        return found

    def step(self, name: str) -> AppliedStep | None:
        """The recorded step, or None where it was never applied."""
        return self.steps.get(name)


def _text(value: object) -> str:
    """Unwrap a text; secrets arrive as an envelope with `value` or `plaintext`."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, object]", value)
        plain = inner.get("value", inner.get("plaintext"))
        if "plaintext" in inner and isinstance(plain, str):
            plain = json.loads(plain)
        return plain if isinstance(plain, str) else ""
    return ""


def _step(outputs: Mapping[str, object]) -> AppliedStep:
    return AppliedStep(
        stdin=_text(outputs.get("stdin")),
        create=_text(outputs.get("create")),
        stdout=_text(outputs.get("stdout")),
    )


def applied_from_outputs(outputs: object) -> Applied:
    """Read the answer of `readStackResourceOutputs`: URN to a resource's outputs."""
    if not isinstance(outputs, Mapping):
        return Applied()
    steps: dict[str, AppliedStep] = {}
    for urn, entry in cast("Mapping[str, object]", outputs).items():
        if "::command:" not in urn and "$command:" not in urn:
            continue
        if isinstance(entry, Mapping):
            body = cast("Mapping[str, object]", entry)
            inner = body.get("outputs", body)
            if isinstance(inner, Mapping):
                steps[urn.rsplit("::", 1)[-1]] = _step(cast("Mapping[str, object]", inner))
    return Applied(steps)


def applied_from_export(text: str) -> Applied:
    """Read `pulumi stack export` (used by `railyard drift`, which has no engine)."""
    document = cast("Mapping[str, Mapping[str, object]]", json.loads(text))
    resources = document.get("deployment", {}).get("resources", [])
    return applied_from_outputs(
        {
            cast("str", resource["urn"]): resource.get("outputs", {})
            for resource in cast("list[Mapping[str, object]]", resources)
            if "urn" in resource
        }
    )
