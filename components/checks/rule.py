"""A rule: a pure function from the spec to findings, named after its subject."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from pydantic import BaseModel

from components.core.judge import Judge, describe
from components.core.problem import Finding, Place, SpecPath
from components.core.record import record, replace
from components.core.templates import finding_of
from components.model.cluster import ClusterSpec
from components.model.fabric import SwitchPort
from components.model.units import SecretRef
from components.reading.wording import show_value

Findings: TypeAlias = Iterator[Finding]
"""The findings that a rule yields."""
Check: TypeAlias = Callable[[ClusterSpec], Iterable[Finding]]
_T = TypeVar("_T")


def at(path: SpecPath, value: object = None) -> Place:
    """Name one value of the spec: `at(("rails", 0, "vlan"), rail.vlan)`."""
    return Place(path, None if value is None else show_value(value))


class Here(NamedTuple):
    """A part of the file: `here("sriov.vlan", "vfs")` names values inside it."""

    part: object
    path: SpecPath

    def __call__(self, *keys: str) -> tuple[Place, ...]:
        """Return the places of values by their keys."""
        return tuple(self.place(tuple(key.split("."))) for key in keys)

    def place(self, path: SpecPath) -> Place:
        """Return the place of a value: a secret by its name, a port by its other end.

        A list or a mapping is named without its content. Only in a list do digits count entries: a
        unit or a switch may be called `1`.
        """
        value, whole = self.part, self.path
        for word in path:
            is_list = isinstance(value, tuple)
            key = int(word) if is_list else word
            value, whole = value_of(value, key), (*whole, key)
        value = value.name if isinstance(value, SecretRef) else value
        value = value.to if isinstance(value, SwitchPort) else value
        shown = None if isinstance(value, BaseModel | tuple | dict) else value
        return at(whole, shown)


def places(spec: ClusterSpec, *keys: str) -> tuple[Place, ...]:
    """Name values of the spec by their keys: `places(spec, "rdma.mode", f"switches.{s}.os")`."""
    return Here(spec, ())(*keys)


def value_of(part: object, key: str | int) -> object:
    """Return one value of a model, a mapping or a list; None without it."""
    if isinstance(key, int):
        return cast("Sequence[object]", part)[key]
    if isinstance(part, dict):
        return cast("dict[str, object]", part).get(key)
    return getattr(part, key, None)


def find(row: str, /, *where: Place, **words: object) -> Finding:
    """Return the finding of a row in findings.yaml; the rule adds its name."""
    found = finding_of(__file__, row, *where, device="", actual="", **words)
    return replace(found, rule="")


def named(rule: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Add the name of the rule to each of its findings."""
    return (replace(each, rule=rule) for each in findings)


@record
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


class Value(NamedTuple):
    """One value of the file."""

    spec: ClusterSpec
    path: SpecPath
    value: Any
    entries: SpecPath
    """The entry of each `*`: positions in lists, keys of mappings."""

    @property
    def place(self) -> Place:
        """Its place, without the content of a list or a mapping."""
        return Here(self.value, self.path).place(())

    @property
    def key(self) -> str:
        """Its own key: the last one that is not a position."""
        return next(str(key) for key in reversed(self.path) if isinstance(key, str))

    @property
    def owner(self) -> str:
        """The part of the file around it: `gpu01 eth2`, `port 1/1 of leaf-01`; empty if none."""
        names: list[str] = []
        part: object = self.spec
        for depth, key in enumerate(self.path[:-1]):
            part = value_of(part, key)
            if depth and self.path[depth - 1] == "ports":
                names = [f"port {key} of {' '.join(names)}"]
            elif isinstance(key, int):
                own = [getattr(part, name, None) for name in ("name", "netdev", "pci", "host")]
                names += [next((str(name) for name in own if name), "")]
        return " ".join(filter(None, names))

    @property
    def said(self) -> str:
        """It in a sentence: `vfs of gpu01 eth2 is 8`, `acceptance.resnet50 is not set`."""
        owner = f" of {self.owner}" if self.owner else ""
        key = self.key if owner else ".".join(str(key) for key in self.path[-2:])
        shown = self.place.value
        return f"{key}{owner} is {shown or ('not set' if self.value is None else 'set')}"


def values(spec: ClusterSpec, keys: str) -> list[Value]:
    """Return the values that the keys name, without those that the file leaves out."""
    found: list[Value] = []
    for pattern in keys.split():
        parts = [Value(spec, (), spec, ())]
        for key in pattern.split("."):
            if key == "*":
                parts = [
                    Value(spec, (*path, entry), value, (*entries, entry))
                    for _, path, part, entries in parts
                    for entry, value in _entries(part)
                ]
            else:
                parts = [
                    Value(spec, (*path, key), value, entries)
                    for _, path, part, entries in parts
                    if (value := value_of(part, key)) is not None
                ]
        found += parts
    return found


def _entries(part: object) -> Iterable[tuple[str | int, object]]:
    if isinstance(part, dict):
        return cast("dict[str, object]", part).items()
    return enumerate(cast("Iterable[object]", part))


def walk(spec: ClusterSpec, keys: str, kind: type[_T]) -> Iterator[tuple[_T, Here]]:
    """Yield the parts that the keys name, with their places: `walk(spec, "hosts.*", Host)`."""
    for found in values(spec, keys):
        if isinstance(found.value, kind):
            yield found.value, Here(found.value, found.path)


def twins(parts: Iterable[_T], key: Callable[[_T], Hashable]) -> Iterator[tuple[_T, _T]]:
    """Yield each part whose key an earlier one has, and the first one with that key."""
    first: dict[Hashable, _T] = {}
    for part in parts:
        other = first.setdefault(key(part), part)
        if other is not part:
            yield part, other
