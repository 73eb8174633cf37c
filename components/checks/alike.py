"""One cause, one problem: what a rule says in the same words of many places is said once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from components.core.problem import Problem
from components.fabric.splits import splits_of, used_ports
from components.model.cluster import ClusterSpec

_INDEX: Final = re.compile(r'\[(?:\d+|"[^"]*")\]')
"""A position in a path: `hosts[3]`, `ports["1/1"]`."""
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/\[\],-]*[A-Za-z0-9\]]|[A-Za-z0-9]")
_ADDRESS: Final = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?\b")
"""An IPv4 address or network in what is wrong; one in a fix makes another fix."""
_PART: Final = re.compile(r"[/:]")
_NOUNS: Final = {
    "ports": ("port", "ports"),
    "breakouts": ("port", "ports"),
    "bonds": ("bundle", "bundles"),
    "nics": ("NIC", "NICs"),
    "hca_sriov": ("adapter", "adapters"),
    "hca_guids": ("GUID", "GUIDs"),
    "hosts": ("host", "hosts"),
    "switches": ("switch", "switches"),
    "rails": ("rail", "rails"),
}
"""Key of the file to what one entry, and several, are called."""
CAUSES: Final = frozenset(
    {"derived-key", "duplicate-key", "duplicate-name", "payload-choice", "switch-model"}
    | {"switch-release", "switch-system", "switch-transport"}
)
"""Rules whose fix changes what others find: they are reported first."""


def group_problems(problems: Iterable[Problem], spec: ClusterSpec | None) -> tuple[Problem, ...]:
    """Join problems of one rule that differ in nothing but names and places.

    Args:
        problems: With their lines.
        spec: What could be read of the file, for the names in it.

    Returns:
        Causes first, then by line. A joined problem has the words of its first one, the places of
        all, and their number in `more`.
    """
    names = frozenset(_names(spec)) if spec else frozenset[str]()
    groups: dict[tuple[str, ...], list[Problem]] = {}
    for problem in sorted(problems, key=lambda p: (p.line, p.rule, p.what)):
        what, fix = _shape(_ADDRESS.sub("@", problem.what), names), _shape(problem.fix, names)
        groups.setdefault((problem.rule, problem.severity, what, fix), []).append(problem)
    joined = [_join(group) for group in groups.values()]
    return tuple(sorted(joined, key=lambda p: (p.rule not in CAUSES, p.line, p.rule)))


def _names(spec: ClusterSpec) -> Iterator[str]:
    yield from (rail.name for rail in spec.rails)
    for switch in spec.switches:
        yield switch.name
        yield from (*used_ports(switch), *switch.breakouts, *switch.bonds)
        for split in splits_of(switch).values():
            yield from (split.whole, *split.parts)
    for host in spec.hosts:
        yield host.name
        for nic in host.nics:
            yield from (nic.netdev, nic.pci)
        yield from (each.pci for each in host.hca_sriov)


def _shape(text: str, names: frozenset[str]) -> str:
    """A text without the names of devices and ports, and without positions in paths."""

    def shaped(word: re.Match[str]) -> str:
        found = word[0]
        if found in names or all(part in names for part in _PART.split(found)):
            return "@"
        return "@" if _target(found, names) else found

    return _WORD.sub(shaped, _INDEX.sub("[]", text))


def _target(word: str, names: frozenset[str]) -> bool:
    """`leaf-01:1/31`, where the port has a slash of its own."""
    switch, colon, port = word.partition(":")
    return bool(colon) and switch in names and port in names


def _join(group: Sequence[Problem]) -> Problem:
    first, more = group[0], len(group) - 1
    if not more:
        return first
    where = tuple(dict.fromkeys(place for problem in group for place in problem.where))
    text = f"{first.what.removesuffix('.')} (and {_counted(group)})."
    return replace(first, what=text, where=where, more=more)


def _counted(group: Sequence[Problem]) -> str:
    """The others of a group in words: `31 more ports`."""
    first, more = group[0], len(group) - 1
    path = first.where[0].path if first.where else ()
    # Of the innermost list or mapping; where all are about one place, nothing can be counted.
    kinds = [key for key in map(str, path[:-1]) if key in _NOUNS]
    alone = len({problem.where[:1] for problem in group}) <= more
    if not kinds or alone:
        return f"{more} more like it"
    one, several = _NOUNS[kinds[-1]]
    return f"{more} more {one if more == 1 else several}"
