"""Rename a device everywhere in the site file, and keep every other byte.

The result is parsed and checked again, and may differ from the old site only in the name. `renamed`
in the file gives the program the device's old name in the state (decision 49 in docs/decisions.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from components.checks.render import render_text
from components.checks.site import CheckedSite, check_loaded
from components.core.errors import SpecError, UsageError
from components.core.problem import Json, SpecPath
from components.core.record import record, replace
from components.core.templates import fault_text
from components.discover.site_file import SiteFile
from components.discover.yaml_edit import Insert, Written, YamlText, apply_inserts
from components.drift.applied import Applied
from components.model.cluster import ClusterSpec
from components.model.hosts import HostName
from components.model.texts import unfold_names
from components.model.units import DnsLabel
from components.reading.load import parse_site

Kind: TypeAlias = Literal["host", "switch"]
GROUPS: Final[Mapping[Kind, str]] = {"host": "hosts", "switch": "switches"}

_ANY: Final = "*"
_PORTS: Final = ("switches", _ANY, "ports", _ANY)
_CABLES: Final = (
    *(_PORTS, (*_PORTS, "to"), ("other_switches", *_PORTS[1:])),
    *(("infiniband", *_PORTS), ("infiniband", *_PORTS, "to")),
)
_MEMBERS: Final = ("infiniband", "partitions", _ANY, "members", _ANY)
_KEY: Final = "key"
_PLACES: Final[Mapping[Kind, Mapping[tuple[str, ...], str]]] = {
    "host": {
        ("hosts", _ANY, "name"): "",
        **dict.fromkeys(_CABLES, "/"),
        **dict.fromkeys((_MEMBERS, (*_MEMBERS, "host")), ""),
    },
    "switch": {
        ("switches", _ANY, "name"): "",
        **dict.fromkeys(_CABLES, ":"),
        ("switches", _ANY, "mlag_peer"): "",
        ("rails", _ANY, "leaves", _KEY): "",
    },
}
"""Places in the file that name a device, and the separator after the name."""
_TYPES: Final[Mapping[Kind, TypeAdapter[str]]] = {
    "host": TypeAdapter(HostName),
    "switch": TypeAdapter(DnsLabel),
}


@record
class Rename:
    """The requested new name."""

    kind: Kind
    old: str
    new: str


@record
class Renaming:
    """The file after the renaming."""

    text: str
    lines: tuple[int, ...]
    """Lines of the old file that held the name."""
    former: str
    """The device's name in the state if it differs; else empty."""
    kept_node: str
    """The node that keeps its name; empty if no node exists yet."""


def rename_device(file: SiteFile, asked: Rename, applied: Applied) -> Renaming:
    """Give a device another name in the text of its site.

    A device that does not exist or cannot get that name raises UsageError; problems of the file,
    before or after, raise SpecError.
    """
    spec = _checked(file, file.text).spec_or_raise()
    document = YamlText(file.text)
    named = [each for each in document.texts(*file.prefix) if _names(file, each, asked)]
    _refuse(file, asked, spec)
    in_state = frozenset(applied.devices_of(spec).values())
    # The entries of `renamed`: this rename, and those that the state lacks.
    declared: Mapping[str, str] = getattr(spec.renamed, GROUPS[asked.kind])
    first = declared.get(asked.old, "")
    begun = first in in_state - {""}
    if (begun and asked.old in in_state) or (asked.new in in_state and asked.new != first):
        raise UsageError(fault_text(__file__, "in-state", name=asked.old if begun else asked.new))
    entries = {new: old for new, old in declared.items() if old in in_state and new != asked.old}
    former = first if begun else asked.old if asked.old in in_state else ""
    former = "" if former == asked.new else former
    entries |= {asked.new: former} if former else {}
    node, edits = _node_edit(file, document, spec, asked, in_state)
    edits += [each.put(asked.old, asked.new) for each in named]
    was = {group: each for group, each in spec.renamed.model_dump().items() if each}
    groups = {**was, GROUPS[asked.kind]: entries}
    now: dict[str, Json] = {group: dict(each) for group, each in groups.items() if each}
    place = (*file.prefix, "renamed")
    if now != was:  # `renamed` is written again at the end of the site
        edits += [document.drop_key(place)] if document.node(place) is not None else []
        edits += [document.add_keys(file.prefix, {"renamed": now})] if now else []
    text = apply_inserts(file.text, edits)
    after, words = _checked(file, text), {"path": file.path, "old": asked.old, "new": asked.new}
    if after.spec is None:
        problems = render_text(after.problems)
        raise SpecError(fault_text(__file__, "breaks-site", problems=problems, **words))
    if _plain(spec, asked) != _plain(after.spec, asked):
        raise UsageError(fault_text(__file__, "changes-others", group=GROUPS[asked.kind], **words))
    return Renaming(text, tuple(dict.fromkeys(each.line for each in named)), former, node)


def _checked(file: SiteFile, text: str) -> CheckedSite:
    return check_loaded(replace(parse_site(text, str(file.path)), path=file.path), str(file.path))


def _names(file: SiteFile, each: Written, asked: Rename) -> bool:
    """Whether a text of the file is the old name, at a place that names a device."""
    path = (*each.path[:-1], _KEY) if each.is_key else each.path
    marks = (
        mark
        for place, mark in _PLACES[asked.kind].items()
        if len(place) == len(path) and each.is_key == (place[-1] == _KEY)
        if all(want in (_ANY, item) for want, item in zip(place, path, strict=True))
    )
    if (mark := next(marks, None)) is None:
        return False
    head, found, _ = each.value.partition(mark) if mark else (each.value, "", "")
    if "[" in head and asked.old in unfold_names(head):
        raise _refused(file, each.line, "in-range", asked, range=head)
    return head == asked.old and found == mark


def _refuse(file: SiteFile, asked: Rename, spec: ClusterSpec) -> None:
    """Refuse an unknown device, an invalid or used name, and a switch with a subnet manager."""
    group = GROUPS[asked.kind]
    names = [each.name for each in (spec.hosts if asked.kind == "host" else spec.switches)]
    if asked.old not in names:
        line = file.line((group,)) or 1
        raise _refused(file, line, "no-device", asked, kind=asked.kind, names=", ".join(names[:20]))
    line = file.line((group, names.index(asked.old))) or 1
    try:
        _TYPES[asked.kind].validate_python(asked.new)
    except ValidationError as error:
        raise _refused(file, line, "cannot-be-called", asked) from error
    if asked.new == asked.old:
        raise _refused(file, line, "same-as-before", asked)
    for other, taken in (("hosts", spec.hosts), ("switches", spec.switches)):
        where = next((n for n, each in enumerate(taken) if each.name == asked.new), None)
        if where is not None:
            raise _refused(file, line, "taken", asked, line=file.line((other, where)) or 1)
    if asked.kind == "switch" and asked.old in {each.name for each in spec.sm_switches}:
        raise _refused(file, line, "subnet-manager", asked)


def _node_edit(
    file: SiteFile, document: YamlText, spec: ClusterSpec, asked: Rename, in_state: frozenset[str]
) -> tuple[str, list[Insert]]:
    """Return the node that keeps its name, and the edits that keep it."""
    if asked.kind == "switch" or spec.kubernetes is None:
        return "", []
    number, host = next((n, each) for n, each in enumerate(spec.hosts) if each.name == asked.old)
    is_made = spec.k3s is None and spec.kubespray is None
    is_made = is_made or bool({asked.old, spec.renamed.hosts.get(asked.old)} & in_state)
    kept = host.node if is_made and host.role in {"control_plane", "worker"} else ""
    path: SpecPath = (*file.prefix, *file.entry(("hosts", number))[0])
    if host.node_name is not None and (kept or asked.new) == asked.new:
        return kept, [document.drop_key((*path, "node_name"))]
    if host.node_name is None and kept not in {"", asked.new}:
        return kept, [document.add_keys(path, {"node_name": kept})]
    return kept, []


def _plain(spec: ClusterSpec, asked: Rename) -> str:
    """Render a site as text with the old name, without the keys about renaming."""
    left_out = {"renamed": True, "hosts": {"__all__": {"node_name"}}}
    site = spec.model_dump(mode="json", exclude=left_out)
    return re.sub(rf'"{re.escape(asked.new)}(?=["/:])', f'"{asked.old}', json.dumps(site))


def _refused(file: SiteFile, at: int, row: str, asked: Rename, /, **words: object) -> UsageError:
    text = fault_text(__file__, row, old=asked.old, new=asked.new, **words)
    return UsageError(f"{file.path}:{at}: {text}")
