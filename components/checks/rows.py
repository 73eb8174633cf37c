"""Rules as rows of data: unique values, "A needs B", refused values, known names, limits.

A row of `rows.yaml` names values of the file by their keys, with `*` for each entry:
`hosts.*.nics.*.rail` is the rail of each NIC, and `hosts.*.gpus hosts.*.hcas` are both numbers of
each host. Values that the file leaves out are skipped. `jobs.mpi_operator=false` means only that
value, `a=x|y` either one. Messages name the part of the file around a value as `{owner}`: `gpu01
eth2`. `when` limits a row to some sites, by values that the file has (`kubernetes.plane=k3s`) and
by `_CONDITIONS`; `!` means the opposite. `also` names further places.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from components.checks.rule import Findings, Value, places, twins, value_of, values
from components.core.problem import Finding, render_path
from components.core.templates import typed_table
from components.model.cluster import ClusterSpec
from components.model.jobs import DOCKER_HUB, registry_of
from components.model.places import is_flat, is_one_pool
from components.reading.wording import did_you_mean, show_value

_PUBLIC: Final = (DOCKER_HUB, "nvcr.io", "ghcr.io", "quay.io")
"""Public registries: each accepts a push only after a login."""
_CONDITIONS: Final[Mapping[str, Callable[[ClusterSpec], bool | None]]] = {
    "flat": is_flat,
    "one-pool": is_one_pool,
    "one-token": lambda spec: spec.k3s and spec.k3s.agent_token == spec.k3s.token,
    "public-image": lambda spec: spec.containers and registry_of(spec.containers.image) in _PUBLIC,
    "digest-image": lambda spec: spec.containers and "@" in spec.containers.image,
}


def _applies(spec: ClusterSpec, when: str) -> bool:
    for each in when.split():
        name = each.removeprefix("!")
        key, _, choices = name.partition("=")
        condition = _CONDITIONS.get(name)
        whole = Value(spec, (), spec, ())
        is_so = condition(spec) if condition else _is_given(_beside(whole, key).value, choices)
        if bool(is_so) is each.startswith("!"):
            return False
    return True


def _beside(value: Value, keys: str) -> Value:
    """Return another value of the same entries, set or not."""
    entries = iter(value.entries)
    path = tuple(next(entries) if key == "*" else key for key in keys.split("."))
    part: object = value.spec
    for key in path:
        part = None if part is None else value_of(part, key)
    return Value(value.spec, path, part, value.entries)


def _is_given(value: object, choices: str) -> bool:
    if choices:
        return show_value(value) in choices.split("|")
    return value is not None and value is not False and value not in ((), {}, "")


class Unique(NamedTuple):
    """No two of the values are equal."""

    keys: str
    fix: str
    what: str = "{one} and {other} have the same {key}: {value}."
    when: str = ""
    within: int = 0
    """Keys of the path of the part in which they are unique; 0: in the whole file."""
    by_key: bool = False
    """Values of different keys may be equal."""
    fold: bool = False
    """Case makes no difference."""

    def __call__(self, spec: ClusterSpec) -> Findings:
        """Yield each value that an earlier one equals."""

        def key(each: Value) -> tuple[object, ...]:
            value = each.value.lower() if self.fold else each.value
            return each.path[: self.within], each.key if self.by_key else "", value

        found_at = values(spec, self.keys) if _applies(spec, self.when) else ()
        for found, other in twins(found_at, key):
            words = {"key": found.key, "value": found.place.value or ""}
            one, two = other.owner, found.owner
            if one == two and "{one}" in self.what and other.path[:-1] != found.path[:-1]:
                # Two NICs with one PCI address also have one default name.
                one, two = render_path(other.path[:-1]), render_path(found.path[:-1])
            what = self.what.format(one=one, other=two, **words)
            yield Finding(what, (found.place, other.place), self.fix)


class Requires(NamedTuple):
    """A value needs another one; `a=` means that it must be left out."""

    given: str
    needed: str
    why: str = ""
    fix: str = ""
    when: str = ""

    def __call__(self, spec: ClusterSpec) -> Findings:
        """Yield each given value without the needed one."""
        key, _, choices = self.given.partition("=")
        other, equals, wanted = self.needed.partition("=")
        for each in values(spec, key) if _applies(spec, self.when) else ():
            beside = _beside(each, other)
            fits = _is_given(beside.value, wanted) if wanted or not equals else not beside.value
            if _is_given(each.value, choices) and not fits:
                end = f": {self.why}" if self.why else ""
                able = wanted.replace("|", " or ")
                default = f"remove {each.key}, or {'set' if able or not equals else 'remove'} "
                default += f"{beside.key}{f' to {able}' if able else ''}."
                where = (each.place,) if beside.value is None else (each.place, beside.place)
                yield Finding(f"{each.said}, but {beside.said}{end}.", where, self.fix or default)


class Refuse(NamedTuple):
    """A value is wrong on some sites."""

    given: str
    what: str
    fix: str
    also: str = ""
    when: str = ""

    def __call__(self, spec: ClusterSpec) -> Findings:
        """Yield each such value."""
        key, _, choices = self.given.partition("=")
        for each in values(spec, key) if _applies(spec, self.when) else ():
            if _is_given(each.value, choices):
                words = {"owner": each.owner, "key": each.key, "value": each.place.value}
                where = (each.place, *places(spec, *self.also.split()))
                yield Finding(self.what.format(**words), where, self.fix.format(**words))


class Known(NamedTuple):
    """Each value is one of the names: `hosts.*.group` of `host_groups.*.name`."""

    keys: str
    names: str
    what: str
    fix: str = ""

    def __call__(self, spec: ClusterSpec) -> Findings:
        """Yield each unknown value."""
        listed = [str(each.value) for each in values(spec, self.names)]
        for each in values(spec, self.keys):
            if each.value not in listed:
                hint = did_you_mean(str(each.value), listed)
                default = f"choose one of: {', '.join(listed) or '(the file defines none)'}."
                text = f"{self.what.format(owner=each.owner, value=each.value)}{hint}"
                yield Finding(text, (each.place,), self.fix or default)


class AtMost(NamedTuple):
    """Each value is at most another one of the same entries."""

    keys: str
    limit: str
    what: str = ""
    fix: str = ""

    def __call__(self, spec: ClusterSpec) -> Findings:
        """Yield each greater value."""
        for each in values(spec, self.keys):
            most = _beside(each, self.limit)
            if most.value is not None and each.value > most.value:
                words = {"owner": each.owner, "value": each.value, "most": most.value}
                text = self.what.format(**words) if self.what else f"{each.said}, but {most.said}."
                fix = (self.fix or "set {key} to {most} or less.").format(key=each.key, **words)
                yield Finding(text, (each.place, most.place), fix)


class Rows(NamedTuple):
    """The rows of one rule, by form; without a text they go before the function of the rule."""

    text: str = ""
    needs: frozenset[str] = frozenset()
    unique: tuple[Unique, ...] = ()
    requires: tuple[Requires, ...] = ()
    refuse: tuple[Refuse, ...] = ()
    known: tuple[Known, ...] = ()
    at_most: tuple[AtMost, ...] = ()

    def __call__(self, spec: ClusterSpec) -> Iterator[Finding]:
        """Yield what any of the rows finds."""
        rows = (*self.unique, *self.requires, *self.refuse, *self.known, *self.at_most)
        return chain.from_iterable(row(spec) for row in rows)


ROWS: Final = typed_table(dict[str, dict[str, Rows]], __file__)
"""Module to the rows of its rules, by the names of the rules."""
