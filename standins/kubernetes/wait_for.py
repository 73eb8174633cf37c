"""Conditions of the `pulumi.com/waitFor` annotation."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from standins.kubernetes.jsonpath import JsonPathError, parse_path, select, to_text
from standins.kubernetes.values import Json, JsonMap, as_int, as_list, as_text, dig, parse_json

_BRACES = re.compile(r"\{\s*(.*?)\s*\}")


class WaitForError(ValueError):
    """An annotation that cannot be used."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether an object is ready, and what is still missing."""

    done: bool
    message: str = ""
    failed: bool = False
    """The object can never become ready any more."""


@dataclass(frozen=True, slots=True)
class JsonPathCondition:
    """`jsonpath={.path}=value`, or without a value: the path exists."""

    path: str
    value: str

    def check(self, obj: JsonMap) -> Readiness:
        """Says whether the object has the expected value at the path.

        Raises:
            WaitForError: A value is expected where a map or a list lies.
        """
        if _is_stale(obj):
            return Readiness(done=False, message=f"Waiting for {self.path}")
        found = next(select(parse_path(_BRACES.sub(r"\1", self.path)), obj), None)
        if found is None:
            return Readiness(done=False, message=f"{self.path} selected nothing")
        if not self.value:
            return Readiness(done=True)
        if isinstance(found, dict | list):
            raise WaitForError(f"{self.path!r} has a non-primitive value ({json.dumps(found)})")
        text = to_text(found)
        waiting = f'Waiting for {self.path}={self.value} (found "{text}")'
        return Readiness(done=text == self.value, message=waiting)


@dataclass(frozen=True, slots=True)
class StatusCondition:
    """`condition=Type`, or `condition=Type=Status`."""

    type: str
    status: str

    def check(self, obj: JsonMap) -> Readiness:
        """Says whether the object's status has the condition."""
        for entry in as_list(dig(obj, "status", "conditions")):
            if as_text(dig(entry, "type")).lower() == self.type.lower():
                found = as_text(dig(entry, "status"))
                done = found.lower() == self.status.lower() and not _is_stale(obj)
                detail = as_text(dig(entry, "message")) or found
                return Readiness(done, f'Waiting for condition "{self.type}": {detail}')
        return Readiness(done=False, message=f'Waiting for condition "{self.type}"')


Condition = JsonPathCondition | StatusCondition


def parse_wait_for(annotation: str) -> tuple[Condition, ...]:
    """Parses the annotation: one expression, or a JSON array of expressions.

    Raises:
        WaitForError: An expression has neither of the two prefixes, or a malformed path.
    """
    expressions = [as_text(item) for item in as_list(_as_json(annotation))] or [annotation]
    if _as_json(annotation) == []:
        raise WaitForError("at least one condition must be specified")
    return tuple(_parse_expression(expression) for expression in expressions)


def _as_json(text: str) -> Json:
    try:
        return parse_json(text)
    except ValueError:
        return None


def _parse_expression(expression: str) -> Condition:
    if expression.startswith("condition="):
        kind, _, status = expression.removeprefix("condition=").partition("=")
        return StatusCondition(kind, status or "True")
    if not expression.startswith("jsonpath="):
        raise WaitForError(f'expected a "jsonpath=" or "condition=" prefix, got "{expression}"')
    raw = expression.removeprefix("jsonpath=")
    # A path may hold `==` in a filter; only a single `=` separates the expected value.
    parts = re.split(r"(?<!=)=(?!=)", raw)
    if len(parts) > 2:  # noqa: PLR2004 - a path and a value
        raise WaitForError(f'format should be {{.path}}=value or {{.path}}, got "{raw}"')
    path, value = parts[0], parts[1] if len(parts) > 1 else ""
    if len(parts) > 1 and not value:
        raise WaitForError(f"{path}= requires a value")
    inner = _BRACES.fullmatch(path)
    if inner is None:
        raise WaitForError(f"{path} should be wrapped in brackets {{ ... }}")
    try:
        parse_path(inner[1])
    except JsonPathError as error:
        raise WaitForError(str(error)) from error
    return JsonPathCondition(path, value)


def check_all(conditions: tuple[Condition, ...], obj: JsonMap) -> Readiness:
    """Says whether an object meets every condition; the message names the first that it lacks."""
    for condition in conditions:
        readiness = condition.check(obj)
        if not readiness.done:
            return readiness
    return Readiness(done=True)


def _is_stale(obj: JsonMap) -> bool:
    observed = dig(obj, "status", "observedGeneration")
    return observed is not None and as_int(observed) < as_int(dig(obj, "metadata", "generation"))
