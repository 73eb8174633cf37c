"""List the settings that a change may touch as plain texts, and compare them.

A plan and a recorded state give the same items, so one comparison serves both. Some keys of a file
change no setting, but a reviewer must see them: an edit of an address and its host key sends that
login's password elsewhere at the next update.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, cast, get_args

from components.core.difference import ABSENT
from components.core.key_values import parse_state, split_key
from components.core.plain_text import has_placeholder, matches
from components.core.problem import SpecPath, render_path
from components.drift.device_drift import RUN_PARAMETERS
from components.model.cluster import ClusterSpec
from components.remote.lines import flatten

Kind = Literal["cloud", "switch", "hypervisor", "host", "release", "object", "acceptance"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""In update order."""
Settings = Mapping[tuple[str, str], str]
"""(place, setting) to value; an empty place means the whole subject."""
SECRET: Final = "[secret]"  # noqa: S105 - shown in the place of one
_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
"""Key of the engine's envelope around a secret."""
_RELEASE_KEYS: Final = ("chart", "version", "namespace", "values", "repositoryOpts")


@dataclass(frozen=True, slots=True)
class Item:
    """One resource with settings that a reviewer decides about."""

    kind: Kind
    subject: str
    """Name for people: a device, or `Kind namespace/name`."""
    settings: Settings


def renamed_items(items: Mapping[str, Item], spec: ClusterSpec) -> dict[str, Item]:
    """Return the old items, with each renamed device under its new name."""
    new = {old: name for name, old in spec.renamed.all.items()}
    found: dict[str, Item] = {}
    for key, item in items.items():
        name = new.get(item.subject)
        own = name is not None and key.startswith(f"{item.subject}-")
        if name is None or not own or name + key.removeprefix(item.subject) in items:
            found[key] = item
        else:
            found[name + key.removeprefix(item.subject)] = replace(item, subject=name)
    return found


def settings_of_text(stdin: str) -> dict[tuple[str, str], str]:
    """The settings of a step on a host: its `key=value` lines."""
    lines = "\n".join(line for line in stdin.splitlines() if "=" in line)
    values = parse_state(lines).values
    return {split_key(key): value for key, value in values.items() if key not in RUN_PARAMETERS}


def settings_of_fields(fields: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Return field paths as settings without a place; a JSON text is opened too."""
    return {
        ("", inner): text for path, value in fields.items() for inner, text in _opened(path, value)
    }


def _opened(path: str, value: str) -> Iterator[tuple[str, str]]:
    text = json.loads(value)
    try:
        inner = json.loads(text) if isinstance(text, str) and text.lstrip()[:1] == "{" else None
    except ValueError:
        inner = None
    if not isinstance(inner, dict):
        yield path, value
        return
    for below, found in flatten(cast("Mapping[str, object]", inner)).items():
        yield f"{path}.{below}", found


def object_subject(body: Mapping[str, object], kind: str) -> str:
    """Name an object for people, such as `ConfigMap kube-system/sriovdp-config`."""
    metadata = cast("Mapping[str, object]", body.get("metadata") or {})
    namespace = metadata.get("namespace")
    name = str(metadata.get("name", ""))
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def release_fields(inputs: Mapping[str, object]) -> dict[str, object]:
    """Return the requested fields of a Helm release, without those that the provider adds."""
    return {key: inputs[key] for key in _RELEASE_KEYS if inputs.get(key) is not None}


def without_secrets(value: object) -> object:
    """The value with every secret replaced by a word."""
    if isinstance(value, Mapping):
        found = cast("Mapping[str, object]", value)
        if _SIGNATURE in found:
            return SECRET
        return {key: without_secrets(item) for key, item in found.items()}
    if isinstance(value, list):
        return [without_secrets(item) for item in cast("list[object]", value)]
    # The plugin protocol has only floats.
    return int(value) if isinstance(value, float) and value.is_integer() else value


Verb = Literal["add", "change", "remove"]
_NO_ITEM: Final[Mapping[tuple[str, str], str]] = {}


@dataclass(frozen=True, slots=True, order=True)
class Moved:
    """One setting that changes."""

    place: str
    """The setting's place: `port 1/2`, `nic 0000:05:00.0`; empty for the whole subject."""
    setting: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Change:
    """One subject, added, changed or removed."""

    kind: Kind
    subject: str
    verb: Verb
    settings: tuple[Moved, ...]


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Several subjects of one kind with the same changes."""

    kind: Kind
    subjects: tuple[str, ...]
    verb: Verb
    settings: tuple[Moved, ...]


def compare_items(before: Mapping[str, Item], after: Mapping[str, Item]) -> tuple[Change, ...]:
    """Compare two sets of items; the steps of one device form one change.

    The wanted texts may contain placeholders for facts of cloud instances.
    """
    found: dict[tuple[Kind, str], list[tuple[Verb, tuple[Moved, ...]]]] = {}
    for name in dict.fromkeys((*after, *before)):
        old, new = before.get(name), after.get(name)
        item = new or old
        verb: Verb = "add" if old is None else "remove" if new is None else "change"
        moved = tuple(_moved(old, new))
        if item is not None and (moved or verb != "change"):
            found.setdefault((item.kind, item.subject), []).append((verb, moved))
    known = {(item.kind, item.subject) for item in before.values()}
    kept = {(item.kind, item.subject) for item in after.values()}
    changes: list[Change] = []
    for key, parts in found.items():
        verb = "add" if key not in known else "change" if key in kept else "remove"
        settings = tuple(sorted(each for _, moved in parts for each in moved))
        changes.append(Change(*key, verb, settings))
    return tuple(sorted(changes, key=lambda each: KINDS.index(each.kind)))


def _moved(old: Item | None, new: Item | None) -> Iterator[Moved]:
    was = old.settings if old else _NO_ITEM
    wanted = new.settings if new else _NO_ITEM
    for key in {**was, **wanted}:
        place, setting = key
        before, after = was.get(key, ABSENT), wanted.get(key, ABSENT)
        from_file = has_placeholder(before)  # a text of the old file without an instance's facts
        if before != after and (from_file or not matches(after, before)):
            yield Moved(place, setting, before, after)


def group_changes(changes: Sequence[Change]) -> tuple[ChangeGroup, ...]:
    """Group equal changes in the order of their first subject."""
    found: dict[tuple[Kind, Verb, tuple[Moved, ...]], list[str]] = {}
    for each in changes:
        found.setdefault((each.kind, each.verb, each.settings), []).append(each.subject)
    return tuple(
        ChangeGroup(kind, tuple(subjects), verb, settings)
        for (kind, verb, settings), subjects in found.items()
    )


_WAYS: Final = frozenset(
    {"ssh", "serial", "machine_id", "kubeconfig", "context", "ufm", "secret", "env", "command"}
)
"""Keys that change an address, a login or a secret."""
_POLICIES: Final = frozenset({"disruption", "guards", "deadlines", "waive", "reset"})
_POLICIES_OF_DEVICES: Final = frozenset({"executor", "exec_disruptive", "mlag_peer", "domain"})
_RUNS: Final = frozenset({"image"})
_LONGEST: Final = 60
"""Characters of a shown value; a longer value, such as a host key, shows its end."""
_END: Final = 24
_DEVICES: Final = frozenset({"hosts", "switches", "other_switches"})
Leaves = Mapping[tuple[str, ...], str]


def edited_keys(before: ClusterSpec, after: ClusterSpec) -> tuple[str, ...]:
    """Return an alarm for each device with another login, for policies and for images."""
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
        yield f"this edit changes the limits of an update: {'; '.join(policies)}"
    if images:
        yield f"this edit changes what runs: {'; '.join(images)}"


def _leaves(spec: ClusterSpec, renamed: Mapping[str, str]) -> Leaves:
    """Return each value of a file by its path, with devices under their new names."""
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
        if path[-1] == "command":  # arguments may hold a token; see `added_programs`
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
