"""List the settings that a change may touch as plain texts, and compare them.

A plan, a recorded state and the engine's preview give the same items: one comparison serves all.
Some keys of a file change no setting, but a reviewer must see them: an edit of an address and its
host key sends that login's password elsewhere at the next update.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal, cast, get_args

from components.core.difference import ABSENT
from components.core.key_values import parse_state, split_key
from components.core.plain_text import has_placeholder, matches
from components.core.problem import render_path
from components.core.record import record
from components.drift.applied import RELEASE, SEALED
from components.drift.device_drift import RUN_PARAMETERS
from components.fabric.edit import MARKS
from components.fabric.state import SwitchState
from components.model.cluster import ClusterSpec
from components.remote.lines import flatten, parse_lines
from components.remote.sending import Part, split_parts

Kind = Literal["cloud", "switch", "hypervisor", "host", "release", "object", "acceptance"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""In update order."""
Settings = Mapping[tuple[str, str], str]
"""(place, setting) to value; an empty place means the whole subject."""
SECRET: Final = "[secret]"  # noqa: S105 - shown in the place of one
_RELEASE_KEYS: Final = ("chart", "version", "namespace", "values", "repositoryOpts")
Verb = Literal["add", "change", "remove"]
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
_SWITCH_STEP: Final = "-apply"
_ENSURE: Final = "cloud ensure"
_WORKS: Final = ("-member-removal", "-cluster-access", "-cluster-ca")
"""Ends of step names that contain a hyphen themselves."""
Inputs = Mapping[str, object]
_MARKS: Final = re.compile(r"<\{%[^%]*%\}>")
"""The engine's colour marks in a message."""
_DRIFT: Final = re.compile(r"(\S+): drift: (.*)")
_OF_CLUSTER: Final = re.compile(r"cluster: drift: ")
_LOST: Final = "cluster: lost: "
"""Start of a message about lost servers and balancers."""
_SETTING: Final = re.compile(r"(\S+) of (.*) is (.*), want (.*)")
_ALARMS: Final = ("WILL ", "MAY ", "disruption: ", "unreachable: ", "host key: ", _LOST)
_NOTES: Final = re.compile(
    r"not observed|wave |.*: (not observed|not touched and not read|not repaired|cabling|placement"
    r"|upgrade): |.*: firmware of its cards",
    re.DOTALL,
)
_REPLACES: Final = frozenset({"replace", "create-replacement", "delete-replaced"})
_QUIET: Final = frozenset({"same", "refresh", "read"})


@record
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


def item_of(kind: Kind, subject: str, body: Mapping[str, object]) -> Item:
    """Return an item with field paths as settings without a place; a JSON text is opened too."""
    found: dict[tuple[str, str], str] = {}
    for path, value in flatten(body).items():
        text, opened = json.loads(value), {path: value}
        if isinstance(text, str) and text.lstrip()[:1] == "{":
            with suppress(ValueError):
                inner = cast("Mapping[str, object]", json.loads(text))
                opened = {f"{path}.{below}": each for below, each in flatten(inner).items()}
        found |= {("", place): each for place, each in opened.items()}
    return Item(kind, subject, found)


def object_subject(body: Mapping[str, object], kind: str) -> str:
    """Name an object for people, such as `ConfigMap kube-system/sriovdp-config`."""
    metadata = cast("Mapping[str, object]", body.get("metadata") or {})
    namespace, name = metadata.get("namespace"), metadata.get("name", "")
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def release_fields(inputs: Mapping[str, object]) -> dict[str, object]:
    """Return the requested fields of a Helm release, without those that the provider adds."""
    return {key: inputs[key] for key in _RELEASE_KEYS if inputs.get(key) is not None}


def without_secrets(value: object) -> object:
    """The value with every secret replaced by a word."""
    if isinstance(value, Mapping):
        found = cast("Mapping[str, object]", value)
        if SEALED in found:
            return SECRET
        return {key: without_secrets(item) for key, item in found.items()}
    if isinstance(value, list):
        return [without_secrets(item) for item in cast("list[object]", value)]
    # The plugin protocol has only floats.
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, slots=True, order=True)
class Moved:
    """One setting that changes."""

    place: str
    """The setting's place: `port 1/2`, `nic 0000:05:00.0`; empty for the whole subject."""
    setting: str
    old: str
    new: str


@record
class Change:
    """One subject, added, changed or removed."""

    kind: Kind
    subject: str
    verb: Verb
    settings: tuple[Moved, ...]


def compare_items(before: Mapping[str, Item], after: Mapping[str, Item]) -> tuple[Change, ...]:
    """Compare items; the steps of one device form one change. Texts may have placeholders."""
    found: dict[tuple[Kind, str], list[Moved]] = {}
    for name in dict.fromkeys((*after, *before)):
        old, new = before.get(name), after.get(name)
        item = new or old
        was: Settings = old.settings if old else {}
        wanted: Settings = new.settings if new else {}
        moved: list[Moved] = []
        for key in {**was, **wanted}:
            values = was.get(key, ABSENT), wanted.get(key, ABSENT)
            from_file = has_placeholder(values[0])  # the old file's text has no instance's facts
            if values[0] != values[1] and (from_file or not matches(values[1], values[0])):
                moved.append(Moved(*key, *values))
        if item is not None and (moved or old is None or new is None):
            found.setdefault((item.kind, item.subject), []).extend(moved)
    known = {(item.kind, item.subject) for item in before.values()}
    kept = {(item.kind, item.subject) for item in after.values()}
    changes: list[Change] = []
    for key, settings in found.items():
        verb = "add" if key not in known else "change" if key in kept else "remove"
        changes.append(Change(*key, verb, tuple(sorted(settings))))
    return tuple(sorted(changes, key=lambda each: KINDS.index(each.kind)))


def group_changes(changes: Sequence[Change]) -> Iterable[list[Change]]:
    """Group equal changes of several subjects, in the order of their first subject."""
    found: dict[tuple[Kind, Verb, tuple[Moved, ...]], list[Change]] = {}
    for each in changes:
        found.setdefault((each.kind, each.verb, each.settings), []).append(each)
    return found.values()


def edited_keys(before: ClusterSpec, after: ClusterSpec) -> tuple[str, ...]:
    """Return an alarm for each device with another login, for policies and for images."""
    old, new = _leaves(before, after.renamed.all), _leaves(after, {})
    devices = {path[:2] for path in old} & {path[:2] for path in new}
    alarms, policies, images = dict[str, list[str]](), list[str](), list[str]()
    for path in sorted({*old, *new}):
        was, now = old.get(path, ABSENT), new.get(path, ABSENT)
        of_device = path[0] in _DEVICES
        if was == now or (of_device and path[:2] not in devices):
            continue
        below = path[2:] if of_device else path
        where = render_path(tuple(int(part) if part.isdigit() else part for part in below))
        shown = f"{where}: {_short(was)} -> {_short(now)}"
        if not _POLICIES.isdisjoint(path) or not _POLICIES_OF_DEVICES.isdisjoint(path):
            policies.append(f"{path[1]} {shown}" if of_device else shown)
        elif not _RUNS.isdisjoint(path):
            images.append(shown)
        elif not _WAYS.isdisjoint(path):
            way = f"logs in to {path[1]} in another way" if of_device else "uses other secrets"
            alarms.setdefault(f"the next update {way}", []).append(shown)
    alarms["this edit changes the limits of an update"] = policies
    alarms["this edit changes what runs"] = images
    return tuple(f"{what}: {'; '.join(found)}" for what, found in alarms.items() if found)


def _leaves(spec: ClusterSpec, renamed: Mapping[str, str]) -> dict[tuple[str, ...], str]:
    """Return each value of a file by its path, with devices under their new names."""
    new = {old: name for name, old in renamed.items()}
    return {
        (path[0], new.get(path[1], path[1]), *path[2:]) if path[0] in _DEVICES else path: value
        for path, value in _walk((), spec.model_dump(mode="json", exclude_none=True))
    }


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


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"…{value[-_END:]}"


def recorded_inputs(text: str) -> dict[str, Inputs]:
    """Return each resource's recorded inputs by URN, with secrets replaced by a word."""
    document = cast("Mapping[str, Mapping[str, object]]", json.loads(text))
    resources = cast("list[Inputs]", document.get("deployment", {}).get("resources") or [])
    return {
        str(each["urn"]): cast("Inputs", without_secrets(each.get("inputs") or {}))
        for each in resources
        if each.get("custom")
    }


def items_of_state(inputs: Mapping[str, Inputs]) -> dict[str, Item]:
    """Return the items of a recorded state by resource name."""
    found: dict[str, Item] = {}
    for urn, each in inputs.items():
        _, _, kinds, name = urn.split("::", 3)
        parent, _, own = kinds.rpartition("$")
        stdin = each.get("stdin")
        text = stdin if isinstance(stdin, str) else ""
        if own == RELEASE:
            found[name] = item_of("release", name, release_fields(each))
        elif own.startswith("kubernetes:"):
            found[name] = item_of("object", object_subject(each, own.rsplit(":", 1)[-1]), each)
        elif parent.startswith("railyard:cloud:") and own.startswith("command:"):
            if _ENSURE in str(each.get("create")):
                found[name] = item_of("cloud", name, parse_lines(text))
        elif own.startswith("command:"):
            for part in split_parts(text) or (Part(name, stdin=text),):
                found |= _step(parent, part.step, part.stdin)
    return found


def _step(parent: str, name: str, stdin: str) -> Iterator[tuple[str, Item]]:
    if parent.startswith("railyard:fabric:"):
        if name.endswith(_SWITCH_STEP):
            desired = SwitchState.model_validate(parse_lines(stdin)["desired"])
            yield name, Item("switch", name.removesuffix(_SWITCH_STEP), desired.settings())
        return
    first = stdin.partition("\n")[0]
    if "=" in first and " = " not in first:  # not a request, a secret or a digest
        kind: Kind = "hypervisor" if parent.startswith("railyard:hypervisor:") else "host"
        work = next((work for work in _WORKS if name.endswith(work)), "")
        device = name.removesuffix(work) if work else name.rpartition("-")[0]
        yield name, Item(kind, device, settings_of_text(stdin))


@record
class News:
    """The engine's messages about devices and the cluster, without edits of the file."""

    alarms: tuple[str, ...]
    repairs: tuple[str, ...]
    notes: tuple[str, ...]
    errors: tuple[str, ...]
    """Why the engine refused; empty if it succeeded."""


def read_engine(text: str, edited: AbstractSet[str]) -> News:
    """Read the engine's answer, without drift of edited resources; ValueError if it is not JSON."""
    document = cast("Mapping[str, list[Inputs]]", json.loads(text))
    steps = document.get("steps") or []
    said = [
        (_MARKS.sub("", str(each.get("message", ""))).strip(), str(each.get("severity")))
        for each in document.get("diagnostics") or []
    ]
    messages = [message for message, severity in said if severity != "error"]
    # If the program read the cluster, its messages already name the objects.
    objects = () if any(map(_OF_CLUSTER.match, messages)) else _objects(steps, edited)
    again = dict.fromkeys(_name(step) for step in steps if step.get("op") in _REPLACES)
    replaced = (f"REPLACES {name}: it is removed and made again" for name in again)
    alarms, repairs = [*replaced], list[str]()
    for message in messages:
        alarms += [message] if message.startswith(_ALARMS) else []
        device = message.partition(":")[0]
        lines = map(str.strip, message.splitlines()[1:])
        alarms += (f"{device}: {line}" for line in lines if line.startswith(MARKS))
        if found := _DRIFT.fullmatch(message):
            setting = _SETTING.fullmatch(found[2])
            words = "{1} {0}: {2} -> {3}".format(*setting.groups()) if setting else found[2]
            repairs.append(f"{found[1]}: {words}")
    return News(
        alarms=tuple(alarms),
        repairs=(*repairs, *objects),
        notes=tuple(each for each in messages if _NOTES.match(each)),
        errors=tuple(message for message, severity in said if severity == "error"),
    )


def _objects(steps: list[Inputs], edited: AbstractSet[str]) -> Iterator[str]:
    """Yield cluster objects that drifted or are gone, without those that the file edits."""
    for step in steps:  # after a refresh, the old state is the live one, the new one the wanted one
        urn, name = str(step["urn"]), _name(step)
        if step.get("op") in _QUIET or "$kubernetes:" not in urn or name in edited:
            continue
        states = [cast("Inputs", step.get(key) or {}) for key in ("oldState", "newState")]
        inputs = [cast("Inputs", without_secrets(each.get("inputs") or {})) for each in states]
        before, after = (
            items_of_state({urn: own}) if state else {}
            for state, own in zip(states, inputs, strict=True)
        )
        for change in compare_items(before, after):
            if change.verb == "add":
                yield f"{change.subject}: it is gone, and made again"
            else:
                moved = (f"{each.setting}: {each.old} -> {each.new}" for each in change.settings)
                yield from (f"{change.subject}: {words}" for words in moved)


def _name(step: Inputs) -> str:
    return str(step["urn"]).rsplit("::", 1)[-1]
