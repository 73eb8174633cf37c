"""Edits of a file that no setting shows: how devices are reached, what updates may do, what runs.

A preview compares settings. These keys change none, and a reviewer must see them: whoever changes
an address and its host key gets the password of that login at the next update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from components.core.difference import ABSENT
from components.core.problem import SpecPath, render_path
from components.model.cluster import ClusterSpec

_WAYS: Final = frozenset(
    {"ssh", "serial", "machine_id", "kubeconfig", "context", "ufm", "secret", "env", "command"}
)
"""Parts of a path that say where a login goes, to which machine, and with which secret."""
_POLICIES: Final = frozenset({"disruption", "guards", "deadlines", "waive", "reset"})
_POLICIES_OF_DEVICES: Final = frozenset({"executor", "exec_disruptive", "mlag_peer", "domain"})
_RUNS: Final = frozenset({"image"})
_LONGEST: Final = 60
"""Characters of a value; of a longer one, such as a host key, the end tells it from others."""
_END: Final = 24
_DEVICES: Final = frozenset({"hosts", "switches", "other_switches"})
Leaves = Mapping[tuple[str, ...], str]


def edited_keys(before: ClusterSpec, after: ClusterSpec) -> tuple[str, ...]:
    """An alarm for each device that is reached in another way, for policies, and for images."""
    old, new = _leaves(before, after.renamed.all), _leaves(after, {})
    devices = {path[:2] for path in old} & {path[:2] for path in new}
    ways: dict[str, list[str]] = {}
    policies, images = list[str](), list[str]()
    for path in sorted({*old, *new}):
        was, now = old.get(path, ABSENT), new.get(path, ABSENT)
        of_device = path[0] in _DEVICES
        if was == now or (of_device and path[:2] not in devices):
            continue
        shown = f"{_named(path[2:] if of_device else path)}: {_short(was)} -> {_short(now)}"
        if not _POLICIES.isdisjoint(path) or not _POLICIES_OF_DEVICES.isdisjoint(path):
            policies.append(f"{path[1]} {shown}" if of_device else shown)
        elif not _RUNS.isdisjoint(path):
            images.append(shown)
        elif not _WAYS.isdisjoint(path):
            ways.setdefault(path[1] if of_device else "", []).append(shown)
    return tuple(_alarms(ways, policies, images))


def _alarms(ways: Mapping[str, list[str]], policies: list[str], images: list[str]) -> Iterator[str]:
    for device, changes in ways.items():
        what = f"logs in to {device} in another way" if device else "uses other secrets"
        yield f"the next update {what}: {'; '.join(changes)}"
    if policies:
        yield f"this edit changes what an update may do: {'; '.join(policies)}"
    if images:
        yield f"this edit changes what runs: {'; '.join(images)}"


def _leaves(spec: ClusterSpec, renamed: Mapping[str, str]) -> Leaves:
    """Each value of a file by its path; devices by name, those of before by their new one."""
    new = {old: name for name, old in renamed.items()}
    found: dict[tuple[str, ...], str] = {}
    document = cast("dict[str, object]", spec.model_dump(mode="json", exclude_none=True))
    for path, value in _walk((), document):
        kind, *rest = path
        named = [new.get(rest[0], rest[0]), *rest[1:]] if kind in _DEVICES else rest
        found[(kind, *named)] = value
    return found


def _walk(path: tuple[str, ...], value: object) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from _walk((*path, key), item)
    elif isinstance(value, list):
        items = cast("list[object]", value)
        if path[-1] == "command":  # an argument may hold a token; `added_programs` tells another
            yield path, f"{items[0]} …"
            return
        for number, item in enumerate(items):
            name = cast("dict[str, object]", item).get("name") if isinstance(item, dict) else None
            yield from _walk((*path, str(name or number)), cast("object", item))
    else:
        yield path, str(value)


def _named(path: tuple[str, ...]) -> str:
    where: SpecPath = tuple(int(part) if part.isdigit() else part for part in path)
    return render_path(where)


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"…{value[-_END:]}"
