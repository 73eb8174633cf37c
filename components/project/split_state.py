"""Split the exported state of a stack into states of several stacks, and join them again. Pure.

A record keeps its type and its name; its URN gets the name of its new stack. Edges to records of
other stacks are cut: the next update of the joined stack records them again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any, Final, TypeAlias, cast

from components.core.record import record

Record: TypeAlias = dict[str, Any]
"""One resource of a state, as `pulumi stack export` writes it."""
State: TypeAlias = dict[str, Any]
"""A whole export: `version` and `deployment`."""
_STACK: Final = "pulumi:pulumi:Stack"
WITH_OUTPUTS: Final = (_STACK, "railyard:index:Site")
"""Types of the records whose outputs are of a whole stack; a program with a `Site` has both."""
_PROVIDER: Final = "pulumi:providers:"
_LISTS: Final = ("dependencies", "replaceWith")
_SINGLE: Final = ("deletedWith", "viewOf")


@record
class Share:
    """The records that one stack gets."""

    stack: str
    names: frozenset[str]
    """Resource names; records of other stacks do not have them."""
    takes_rest: bool = False
    """Whether it also gets every record that no stack names."""


def records_of(state: State) -> list[Record]:
    """Return the resources of a state, in its order."""
    return state.get("deployment", {}).get("resources") or []


def pending_of(state: State) -> list[str]:
    """Return the names of resources with unfinished work of an update."""
    found: list[Record] = state.get("deployment", {}).get("pending_operations") or []
    deleted = [each for each in records_of(state) if each.get("delete")]
    return [name_of(each) for each in (*(each["resource"] for each in found), *deleted)]


def name_of(record: Record) -> str:
    """Return the name of a resource, the last part of its URN."""
    return str(record["urn"]).rpartition("::")[2]


def without_records(state: State) -> State:
    """Return the state of a stack that has nothing, with the same key for its secrets."""
    kept = {key: item for key, item in state.get("deployment", {}).items() if key != "resources"}
    return copy.deepcopy(state | {"deployment": kept})


def split_state(
    state: State,
    stack: str,
    shares: Sequence[Share],
    shared: frozenset[str],
    marks: Collection[str] = (),
) -> Mapping[str, State]:
    """Return the state of each new stack; all get the records with the names `shared`.

    Each gets the outputs `marks` too: by them an update knows that it is the stack of a piece.
    """
    records = records_of(state)
    root = {name_of(each) for each in records if each["type"] in WITH_OUTPUTS}
    rest = {name_of(each) for each in records}.difference(*(share.names for share in shares))
    found: dict[str, State] = {}
    for share in shares:
        wanted = share.names | shared | root | (rest if share.takes_rest else set[str]())
        kept = [each for each in records if name_of(each) in wanted]
        # Add the providers of the kept records, and drop the others; keep the order of the state.
        used = {str(each.get("provider") or "").rpartition("::")[0] for each in kept}
        used |= {each["urn"] for each in kept if not str(each["type"]).startswith(_PROVIDER)}
        own = [each for each in records if each["urn"] in used]
        moved = _moved(own, stack, share.stack)
        for each in moved:
            if each["type"] == _STACK:
                each["outputs"] = {**(each.get("outputs") or {}), **dict.fromkeys(marks, "")}
        found[share.stack] = _with(state, moved)
    return found


def join_states(states: Mapping[str, State], stack: str, marks: Collection[str] = ()) -> State:
    """Return one stack's state: the records of several, the outputs of the last one but `marks`."""
    merged: dict[str, Record] = {}
    last: State = {}
    for name, last in states.items():
        for resource in _moved(records_of(last), name, stack):
            known = merged.setdefault(str(resource["urn"]), resource)
            for key in _LISTS:
                if both := dict.fromkeys((*(known.get(key) or ()), *(resource.get(key) or ()))):
                    known[key] = [*both]
            if resource["type"] in WITH_OUTPUTS:
                outputs = cast("Record", resource.get("outputs") or {})
                known["outputs"] = {key: outputs[key] for key in outputs if key not in marks}
    # The engine demands that each resource follows those that it needs.
    order = TopologicalSorter[str]()
    for urn, resource in merged.items():
        needs = [resource.get(key) or "" for key in ("parent", *_SINGLE)]
        needs.append(str(resource.get("provider") or "").rpartition("::")[0])
        needs += (each for edges, key in _edges(resource) for each in edges[key] or ())
        order.add(urn, *(each for each in needs if each in merged))
    return _with(last, (merged[urn] for urn in order.static_order()))


def _with(state: State, records: Iterable[Record]) -> State:
    empty = without_records(state)
    empty["deployment"]["resources"] = [*records]
    return empty


def _moved(records: Sequence[Record], old: str, new: str) -> list[Record]:
    """Give the records the name of another stack, and cut their edges to absent ones."""
    here = {str(each["urn"]) for each in records}
    root = next((str(each["urn"]) for each in records if each["type"] == _STACK), "")
    own = copy.deepcopy(records)
    for resource in own:
        for edges, key in _edges(resource):
            edges[key] = [urn for urn in edges[key] or () if urn in here]
        for key in _SINGLE:
            if resource.get(key) and resource[key] not in here:
                del resource[key]
        if resource.get("parent") and resource["parent"] not in here:
            resource["parent"] = root
    text = json.dumps(own)
    text = text.replace(f'"{root}"', f'"{root.removesuffix(old)}{new}"')  # it ends with the stack
    moved = text.replace(f'"urn:pulumi:{old}::', f'"urn:pulumi:{new}::')
    return json.loads(moved)


def _edges(resource: Record) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each list of URNs as its place: the resource or its map of properties, and the key."""
    yield from ((resource, key) for key in _LISTS if resource.get(key))
    properties: dict[str, Any] = resource.get("propertyDependencies") or {}
    yield from ((properties, key) for key in properties)
