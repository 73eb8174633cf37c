"""A rule: a pure function from the spec to findings, named after its subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from pydantic import BaseModel

from components.core.judge import Judge, describe
from components.core.problem import Finding, Place, SpecPath
from components.model.cluster import ClusterSpec
from components.model.units import SecretRef
from components.reading.wording import show_value

Findings: TypeAlias = Iterator[Finding]
"""The findings that a rule yields."""
Check: TypeAlias = Callable[[ClusterSpec], Iterable[Finding]]


def at(path: SpecPath, value: object = None) -> Place:
    """Name one value of the spec: `at(("rails", 0, "vlan"), rail.vlan)`."""
    return Place(path, None if value is None else show_value(value))


def places(spec: ClusterSpec, *keys: str) -> tuple[Place, ...]:
    """Name values of the spec by their keys: `places(spec, "rdma.mode", f"switches.{s}.os")`.

    A list or a mapping is named without its content.
    """
    paths = (tuple(int(k) if k.isdigit() else k for k in key.split(".")) for key in keys)
    return tuple(place_of(spec, path) for path in paths)


def place_of(spec: ClusterSpec, path: SpecPath) -> Place:
    """Return the place of a value: a secret by its name, a list or mapping without its content."""
    value: object = spec
    for key in path:
        value = value_of(value, key)
    if isinstance(value, SecretRef):
        return at(path, value.name)
    return at(path, None if isinstance(value, BaseModel | tuple | dict) else value)


def value_of(part: object, key: str | int) -> object:
    """Return one value of a model, a mapping or a list; None without it."""
    if isinstance(key, int):
        return cast("Sequence[object]", part)[key]
    if isinstance(part, dict):
        return cast("dict[str, object]", part).get(key)
    return getattr(part, key, None)


def named(rule: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Add the name of the rule to each of its findings."""
    return (replace(each, rule=rule) for each in findings)


@dataclass(frozen=True, slots=True)
class Rule(Judge[ClusterSpec]):
    """One rule on the file; `rule_of` makes it from a function."""

    def problems(self, spec: ClusterSpec) -> Iterator[Finding]:
        """Run it, and join findings with the same words into one problem with several places."""
        places: dict[Finding, dict[Place, None]] = {}
        for found in self.findings(spec):
            places.setdefault(replace(found, where=()), {}).update(dict.fromkeys(found.where))
        for said, where in places.items():
            yield replace(said, where=tuple(where))


def rule_of(check: Check) -> Rule:
    """Make the rule of a function, with the needs that `@needs` declares."""
    return Rule(check, *describe(check))
