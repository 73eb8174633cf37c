"""Rules as rows of data: unique values, "A needs B", known names, limits.

A row names values of the file by their keys, with `*` for each entry: `hosts.*.nics.*.rail` is the
rail of each NIC, and `hosts.*.gpus hosts.*.hcas` are both numbers of each host. Values that the
file leaves out are skipped. `jobs.mpi_operator=false` means only that value, `a=x|y` either one.
Messages name the part of the file around a value as `{owner}`: `gpu01 eth2`. `when` limits a row to
some sites, `also` names further places.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import wraps
from inspect import cleandoc
from itertools import chain
from typing import Concatenate, ParamSpec

from components.checks.rule import (
    Check,
    Findings,
    Rule,
    Value,
    When,
    places,
    twins,
    value_of,
    values,
)
from components.core.problem import Finding, render_path
from components.model.cluster import ClusterSpec
from components.reading.wording import did_you_mean, show_value

_P = ParamSpec("_P")


def _beside(value: Value, keys: str) -> Value:
    """Return another value of the same entries, set or not."""
    entries = iter(value.entries)
    path = tuple(next(entries) if key == "*" else key for key in keys.split("."))
    part: object = value.spec
    for key in path:
        part = None if part is None else value_of(part, key)
    return Value(value.spec, path, part, value.entries)


def rule(name: str, text: str, *checks: Check, needs: tuple[str, ...] = ()) -> Rule:
    """Make a rule of rows and functions."""
    return Rule(_joined(checks), name, cleandoc(text), frozenset(needs))


def also(*rows: Check) -> Callable[[Check], Check]:
    """Put rows before the function of a rule: `@also(unique("hosts.*.name", "rename one."))`."""
    return lambda check: wraps(check)(_joined((*rows, check)))


def _joined(checks: Iterable[Check]) -> Check:
    return lambda spec: chain.from_iterable(each(spec) for each in checks)


def _row(find: Callable[Concatenate[ClusterSpec, _P], Findings]) -> Callable[_P, Check]:
    """Make a form of rows from a function of a site and the cells of a row."""

    @wraps(find)
    def form(*cells: _P.args, **named: _P.kwargs) -> Check:
        return lambda spec: find(spec, *cells, **named)

    return form


@_row
def unique(
    spec: ClusterSpec,
    keys: str,
    fix: str,
    what: str = "{one} and {other} have the same {key}: {value}.",
    *,
    when: When = None,
    by: Callable[[Value], Hashable] = lambda each: each.value,
) -> Findings:
    """No two of the values are equal."""
    for found, other in twins(values(spec, keys, when), by):
        words = {"key": found.key, "value": found.place.value or ""}
        one, two = other.owner, found.owner
        if one == two and "{one}" in what and other.path[:-1] != found.path[:-1]:
            # Two NICs with one PCI address also have one default name.
            one, two = render_path(other.path[:-1]), render_path(found.path[:-1])
        yield Finding(what.format(one=one, other=two, **words), (found.place, other.place), fix)


@_row
def requires(
    spec: ClusterSpec, given: str, needed: str, why: str = "", fix: str = "", when: When = None
) -> Findings:
    """A value needs another one; `a=` means that it must be left out."""
    key, _, choices = given.partition("=")
    other, equals, wanted = needed.partition("=")
    for each in values(spec, key, when):
        beside = _beside(each, other)
        fits = _is_given(beside.value, wanted) if wanted or not equals else not beside.value
        if _is_given(each.value, choices) and not fits:
            end = f": {why}" if why else ""
            able = wanted.replace("|", " or ")
            default = f"remove {each.key}, or {'set' if able or not equals else 'remove'} "
            default += f"{beside.key}{f' to {able}' if able else ''}."
            where = (each.place,) if beside.value is None else (each.place, beside.place)
            yield Finding(f"{each.said}, but {beside.said}{end}.", where, fix or default)


def _is_given(value: object, choices: str) -> bool:
    if choices:
        return show_value(value) in choices.split("|")
    return value is not None and value is not False and value not in ((), {}, "")


@_row
def refuse(
    spec: ClusterSpec, given: str, what: str, fix: str, also: str = "", when: When = None
) -> Findings:
    """A value is wrong on some sites."""
    key, _, choices = given.partition("=")
    for each in values(spec, key, when):
        if _is_given(each.value, choices):
            words = {"owner": each.owner, "key": each.key, "value": each.place.value}
            where = (each.place, *places(spec, *also.split()))
            yield Finding(what.format(**words), where, fix.format(**words))


@_row
def known(spec: ClusterSpec, keys: str, names: str, what: str, fix: str = "") -> Findings:
    """Each value is one of the names: `known("hosts.*.group", "host_groups.*.name", …)`."""
    listed = [str(each.value) for each in values(spec, names)]
    for each in values(spec, keys):
        if each.value not in listed:
            hint = did_you_mean(str(each.value), listed)
            default = f"choose one of: {', '.join(listed) or '(the file defines none)'}."
            text = f"{what.format(owner=each.owner, value=each.value)}{hint}"
            yield Finding(text, (each.place,), fix or default)


@_row
def at_most(spec: ClusterSpec, keys: str, limit: str, what: str = "", fix: str = "") -> Findings:
    """Each value is at most another one of the same entries."""
    for each in values(spec, keys):
        most = _beside(each, limit)
        if most.value is not None and each.value > most.value:
            words = {"owner": each.owner, "value": each.value, "most": most.value}
            text = what.format(**words) if what else f"{each.said}, but {most.said}."
            text_fix = (fix or "set {key} to {most} or less.").format(key=each.key, **words)
            yield Finding(text, (each.place, most.place), text_fix)
