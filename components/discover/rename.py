"""Another name for a device in the site file: every place that names it, and no other byte.

The names are changed where they stand. What comes out is read and checked again, and must be the
same site but for the name. `renamed` of the file says to the program which resources of the state
belong to the device (docs/decisions/0049-renames.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, cast

from pydantic import TypeAdapter, ValidationError

from components.checks.render import render_text
from components.checks.site import CheckedSite, check_loaded
from components.core.errors import SpecError, UsageError
from components.core.problem import Json, SpecPath
from components.discover.site_file import SiteFile
from components.discover.yaml_edit import Insert, Written, YamlText, apply_inserts
from components.drift.applied import Applied
from components.model.cluster import ClusterSpec
from components.model.hosts import Host, HostName
from components.model.name_lists import unfold_names
from components.model.units import DnsLabel
from components.reading.load import parse_site

Kind: TypeAlias = Literal["host", "switch"]
Group: TypeAlias = Literal["hosts", "switches"]
GROUPS: Final[Mapping[Kind, Group]] = {"host": "hosts", "switch": "switches"}

_ANY: Final = "*"
_PORTS: Final = ("switches", _ANY, "ports", _ANY)
_CABLES: Final = (
    _PORTS,
    (*_PORTS, "to"),
    ("infiniband", *_PORTS),
    ("infiniband", *_PORTS, "to"),
    ("other_switches", _ANY, "ports", _ANY),
)
_MEMBERS: Final = ("infiniband", "partitions", _ANY, "members", _ANY)
_PLACES: Final[Mapping[Kind, Mapping[tuple[str, ...], str]]] = {
    "host": {
        ("hosts", _ANY, "name"): "",
        **dict.fromkeys(_CABLES, "/"),
        _MEMBERS: "",
        (*_MEMBERS, "host"): "",
    },
    "switch": {
        ("switches", _ANY, "name"): "",
        **dict.fromkeys(_CABLES, ":"),
        ("switches", _ANY, "mlag", "peer"): "",
        ("rails", _ANY, "leaves", "key"): "",
    },
}
"""Where the file names a device, and what follows the name there; `key` stands for a key."""
_NAMES: Final = (
    ("hosts", _ANY, "name"),
    ("switches", _ANY, "name"),
    ("other_switches", _ANY, "name"),
    ("infiniband", "switches", _ANY, "name"),
    ("infiniband", "ufm", "name"),
    ("environment", "hypervisors", _ANY, "name"),
)
_TYPES: Final[Mapping[Kind, TypeAdapter[str]]] = {
    "host": TypeAdapter(HostName),
    "switch": TypeAdapter(DnsLabel),
}
_EXISTING: Final = "the nodes of an existing cluster get their names from its owner"
_KUBESPRAY: Final = (
    "kubespray would take the node out and put it back on the same machine in one run"
)
_SERVER: Final = (
    "K3s takes a server out of etcd when its node is deleted, so that a server cannot change its"
    " node while it serves"
)


@dataclass(frozen=True, slots=True)
class Rename:
    """What is asked."""

    kind: Kind
    old: str
    new: str
    node: bool = False
    """The Kubernetes node of the host gets the new name too."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """The file as it would be."""

    text: str
    lines: tuple[int, ...]
    """Where the name stood, in the file as it was."""
    former: str
    """The name that the state has for it, if that is another one; else empty."""
    kept_node: str
    """The node that keeps its name; empty if the host has none, or its node changes too."""


def rename_device(file: SiteFile, asked: Rename, applied: Applied) -> Renaming:
    """Give a device another name in the text of its site.

    Args:
        file: The file that holds the site.
        asked: What is asked.
        applied: What the state of the stack has.

    Raises:
        UsageError: There is no such device, or it cannot get that name.
        SpecError: The file has problems already.
    """
    before = _checked(file, file.text)
    spec = before.spec_or_raise()
    document = YamlText(file.text)
    found = list(document.texts(*file.prefix))
    _refuse_names(file, found, asked)
    _refuse_kind(file, found, asked, spec)
    named = [each for each in found if _names(file, each, asked)]
    in_state = frozenset(applied.devices_of(spec).values())
    entries, former = _entries(spec, asked, in_state)
    node, edits = _node_edit(file, document, spec, asked, in_state)
    edits = [*(each.put(asked.old, asked.new) for each in named), *edits]
    edits += _renamed_edit(file, document, spec, {**_as_dict(spec), GROUPS[asked.kind]: entries})
    text = apply_inserts(file.text, edits)
    _verify(file, text, before, asked)
    return Renaming(text, tuple(dict.fromkeys(each.line for each in named)), former, node)


def _checked(file: SiteFile, text: str) -> CheckedSite:
    loaded = replace(parse_site(text, str(file.path)), path=file.path)
    return check_loaded(loaded, str(file.path))


def _fits(path: SpecPath, pattern: tuple[str, ...]) -> bool:
    return len(path) == len(pattern) and all(
        wanted in (_ANY, each) for each, wanted in zip(path, pattern, strict=True)
    )


def _names(file: SiteFile, each: Written, asked: Rename) -> bool:
    """Whether a text of the file is a place that names the device."""
    path = (*each.path[:-1], "key") if each.is_key else each.path
    for pattern, follows in _PLACES[asked.kind].items():
        if not _fits(path, pattern):
            continue
        head, mark, _ = each.value.partition(follows) if follows else (each.value, "", "")
        if head == asked.old and mark == follows:
            return True
        if follows and "[" in head and asked.old in unfold_names(head):
            raise _refused(
                file,
                each.line,
                f"{asked.old} is one of {head}, and a range cannot hold a name that does not"
                " count with the others.",
                "write the ports of this range one by one, then rename it.",
            )
    return False


def _refuse_names(file: SiteFile, found: list[Written], asked: Rename) -> None:
    """Refuse a name that is taken or no name, and a device that is not there."""
    pattern = (GROUPS[asked.kind], _ANY, "name")
    own = [e for e in found if _fits(e.path, pattern) and e.value == asked.old and not e.is_key]
    if not own:
        names = [e.value for e in found if _fits(e.path, pattern) and not e.is_key]
        line = file.line((GROUPS[asked.kind],)) or 1
        raise _refused(
            file,
            line,
            f"there is no {asked.kind} {asked.old}.",
            f"the names are {', '.join(names[:20]) or 'none'}.",
        )
    for each in found:
        taken = not each.is_key and each.value == asked.new
        if taken and any(_fits(each.path, pattern) for pattern in _NAMES):
            what = f"{asked.new} is the name of another device already."
            raise _refused(file, each.line, what, "choose another name.")
    try:
        _TYPES[asked.kind].validate_python(asked.new)
    except ValidationError as error:
        raise _refused(
            file,
            own[0].line,
            f"{asked.old} cannot be called {asked.new}.",
            "use lower-case letters, digits and inner hyphens, at most 63, and no name that a"
            " hosts file or the cluster has for itself.",
        ) from error


def _refuse_kind(file: SiteFile, found: list[Written], asked: Rename, spec: ClusterSpec) -> None:
    """Refuse what has its name from somewhere else, and a node that cannot follow."""
    own = ("environment", "hypervisors", _ANY, "vms", _ANY, "name")
    for each in found if asked.kind == "host" else ():
        if _fits(each.path, own) and each.value == asked.old:
            raise _refused(
                file,
                each.line,
                f"{asked.old} is the name of the virtual machine in ESXi too, and that stays.",
                "keep the name.",
            )
    manager = any(each.name == asked.old for each in spec.sm_switches)
    host = spec.host(asked.old) if asked.kind == "host" else None
    line = next(e.line for e in found if e.value == asked.old and e.path[-1:] == ("name",))
    if asked.kind == "switch" and manager:
        raise _refused(
            file,
            line,
            f"{asked.old} runs a subnet manager, which is set by the host name of the switch.",
            "take its sm_priority out in an update of its own, rename switch and entry, and write"
            " it again.",
        )
    why = _why_no_node(spec, host) if asked.node else ""
    if why:
        raise _refused(
            file,
            line,
            f"the node of {asked.old} cannot get another name: {why}.",
            "leave --node out: the node then keeps its name. Or take the host out of the file in"
            " an update of its own, and add it under the new name in the next.",
        )


def _why_no_node(spec: ClusterSpec, host: Host | None) -> str:
    if host is None or spec.kubernetes is None or host.role not in {"control_plane", "worker"}:
        return "it has none"
    if spec.k3s is None:
        return _KUBESPRAY if spec.kubespray else _EXISTING
    return _SERVER if host.role == "control_plane" else ""


def _entries(
    spec: ClusterSpec, asked: Rename, in_state: frozenset[str]
) -> tuple[dict[str, str], str]:
    """What `renamed` shall have: renames that the state does not have yet, and this one.

    Raises:
        UsageError: An update has to end first.
    """
    declared: Mapping[str, str] = getattr(spec.renamed, GROUPS[asked.kind])
    first = declared.get(asked.old, "")
    begun = first in in_state - {""}
    if (begun and asked.old in in_state) or (asked.new in in_state and asked.new != first):
        other = asked.old if begun else asked.new
        raise UsageError(
            f"the state has a device {other} too: an update that renames it or takes it out has"
            " not ended. Nothing was written.\n"
            "  fix    run the update (`pulumi up`), then rename."
        )
    left = {new: old for new, old in declared.items() if old in in_state and new != asked.old}
    former = first if begun else asked.old if asked.old in in_state else ""
    former = "" if former == asked.new else former
    return left | ({asked.new: former} if former else {}), former


def _as_dict(spec: ClusterSpec) -> dict[str, dict[str, str]]:
    return {group: dict(getattr(spec.renamed, group)) for group in GROUPS.values()}


def _renamed_edit(
    file: SiteFile, document: YamlText, spec: ClusterSpec, wanted: Mapping[str, dict[str, str]]
) -> list[Insert]:
    """Write `renamed` again where it stands, or at the end of the site; not if it is the same."""
    path = (*file.prefix, "renamed")
    written, kept = document.node(path) is not None, {k: v for k, v in wanted.items() if v}
    if kept == {k: v for k, v in _as_dict(spec).items() if v}:
        return []
    gone = [document.drop_key(path)] if written else []
    if not kept:
        return gone
    return [*gone, document.add_keys(file.prefix, {"renamed": cast("Json", kept)})]


def _node_edit(
    file: SiteFile,
    document: YamlText,
    spec: ClusterSpec,
    asked: Rename,
    in_state: frozenset[str],
) -> tuple[str, list[Insert]]:
    """The name of the node that stays, and how the file says so."""
    host = spec.host(asked.old) if asked.kind == "host" else None
    if host is None or spec.kubernetes is None or host.role not in {"control_plane", "worker"}:
        return "", []
    own = spec.k3s is not None or spec.kubespray is not None
    known = not own or bool({asked.old, spec.renamed.hosts.get(asked.old)} & in_state)
    node = host.node if known and not asked.node else asked.new
    kept = node if known and not asked.node else ""
    number = next(n for n, each in enumerate(spec.hosts) if each.name == asked.old)
    path = (*file.prefix, "hosts", number)
    if host.node_name is not None and node == asked.new:
        return kept, [document.drop_key((*path, "node_name"))]
    if host.node_name is None and node != asked.new:
        return kept, [document.add_keys(path, {"node_name": node})]
    return kept, []


def _verify(file: SiteFile, text: str, before: CheckedSite, asked: Rename) -> None:
    """The new text has no other problems, and is the same site but for the name.

    Raises:
        UsageError: It is not so: nothing is written.
    """
    after = _checked(file, text)
    if after.spec is None:
        raise SpecError(
            f"{file.path}: with {asked.old} as {asked.new} the site has problems; nothing was"
            f" written.\n{render_text(after.problems)}"
        )
    sites = [_plain(each.spec_or_raise(), asked) for each in (before, after)]
    if sites[0] != sites[1]:
        raise UsageError(
            f"{file.path}: the name cannot be changed without changing more than the name;"
            " nothing was written.\n"
            f"  fix    write {asked.new} for {asked.old} by hand, and under `renamed`:"
            f" `{GROUPS[asked.kind]}: {{{asked.new}: {asked.old}}}`."
        )


def _plain(spec: ClusterSpec, asked: Rename) -> Json:
    """A site as data, under the former name, without what says that it was renamed."""
    hosts = [host.model_copy(update={"node_name": None}) for host in spec.hosts]
    same = spec.model_copy(update={"hosts": tuple(hosts), "renamed": None})
    return _former(cast("Json", same.model_dump(mode="json")), asked)


def _former(value: Json, asked: Rename) -> Json:
    if isinstance(value, dict):
        return {_name(key, asked): _former(each, asked) for key, each in value.items()}
    if isinstance(value, list):
        return [_former(each, asked) for each in value]
    return _name(value, asked) if isinstance(value, str) else value


def _name(text: str, asked: Rename) -> str:
    head, mark, rest = text.partition("/" if asked.kind == "host" else ":")
    return f"{asked.old}{mark}{rest}" if head == asked.new else text


def _refused(file: SiteFile, line: int, what: str, fix: str) -> UsageError:
    return UsageError(f"{file.path}:{line}: {what} Nothing was written.\n  fix    {fix}")
