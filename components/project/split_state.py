"""Split the exported state of a stack into states of several stacks, and join them again. Pure.

A record keeps its type and its name; its URN gets the name of its new stack. Edges to records of
other stacks are cut: the next update of the joined stack records them again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

Record: TypeAlias = dict[str, Any]
"""One resource of a state, as `pulumi stack export` writes it."""
State: TypeAlias = dict[str, Any]
"""A whole export: `version` and `deployment`."""
_STACK: Final = "pulumi:pulumi:Stack"
_PROVIDER: Final = "pulumi:providers:"
_LISTS: Final = ("dependencies", "replaceWith")
_SINGLE: Final = ("deletedWith", "viewOf")


@dataclass(frozen=True, slots=True)
class Share:
    """The records that one stack gets."""

    stack: str
    names: frozenset[str]
    """Resource names; records of other stacks do not have them."""
    takes_rest: bool = False
    """Whether it also gets every record that no stack names."""


def records_of(state: State) -> list[Record]:
    """Return the resources of a state, in its order."""
    return cast("list[Record]", state.get("deployment", {}).get("resources") or [])


def pending_of(state: State) -> list[str]:
    """Return the names of resources with unfinished work of an update."""
    found = cast("list[Record]", state.get("deployment", {}).get("pending_operations") or [])
    deleted = [each for each in records_of(state) if each.get("delete")]
    return [name_of(each) for each in (*(each["resource"] for each in found), *deleted)]


def name_of(record: Record) -> str:
    """Return the name of a resource, the last part of its URN."""
    return str(record["urn"]).rpartition("::")[2]


def without_records(state: State) -> State:
    """Return the state of a stack that has nothing, with the same key for its secrets."""
    empty = copy.deepcopy({k: v for k, v in state.items() if k != "deployment"})
    kept = {k: v for k, v in state.get("deployment", {}).items() if k != "resources"}
    return {**empty, "deployment": copy.deepcopy(kept)}


def split_state(
    state: State, stack: str, shares: Sequence[Share], shared: frozenset[str]
) -> Mapping[str, State]:
    """Return the state of each new stack.

    Args:
        state: The export of the stack to split.
        stack: Its name.
        shares: The new stacks.
        shared: Names of resources that every new stack gets: stages, and their ends.
    """
    named = frozenset[str]().union(*(share.names for share in shares))
    records = records_of(state)
    found: dict[str, State] = {}
    for share in shares:
        wanted = share.names | shared
        kept = [
            each
            for each in records
            if each["type"] == _STACK
            or name_of(each) in wanted
            or (share.takes_rest and name_of(each) not in named)
        ]
        found[share.stack] = _with(state, _moved(_used(kept, records), stack, share.stack))
    return found


def join_states(states: Mapping[str, State], stack: str) -> State:
    """Return the state of one stack with the records of several; equal records become one.

    Args:
        states: Stack to its export. The last one keeps its outputs.
        stack: The name of the joined stack.
    """
    merged: dict[str, Record] = {}
    last: State = {}
    for name, last in states.items():
        for record in _moved(records_of(last), name, stack):
            known = merged.setdefault(str(record["urn"]), record)
            for key in _LISTS:
                both = dict.fromkeys([*(known.get(key) or ()), *(record.get(key) or ())])
                if both:
                    known[key] = [*both]
            if record["type"] == _STACK:
                known["outputs"] = record.get("outputs") or {}
    return _with(last, _ordered(merged))


def _with(state: State, records: Iterable[Record]) -> State:
    empty = without_records(state)
    empty["deployment"]["resources"] = [*records]
    return empty


def _used(kept: list[Record], records: Iterable[Record]) -> list[Record]:
    """Add the providers of the kept records, and drop the others; keep the order of the state."""
    used = {str(each.get("provider") or "").rpartition("::")[0] for each in kept}
    names = {each["urn"] for each in kept if not _is_provider(each)} | used
    return [each for each in records if each["urn"] in names]


def _is_provider(record: Record) -> bool:
    return str(record["type"]).startswith(_PROVIDER)


def _moved(records: Sequence[Record], old: str, new: str) -> list[Record]:
    """Give the records the name of another stack, and cut their edges to absent ones."""
    here = {str(each["urn"]) for each in records}
    root = next((str(each["urn"]) for each in records if each["type"] == _STACK), "")
    text = json.dumps([_cut(copy.deepcopy(each), here, root) for each in records])
    text = text.replace(f'"{root}"', f'"{root.removesuffix(old)}{new}"')  # it ends with the stack
    moved = text.replace(f'"urn:pulumi:{old}::', f'"urn:pulumi:{new}::')
    return cast("list[Record]", json.loads(moved))


def _cut(record: Record, here: set[str], root: str) -> Record:
    for key in _LISTS:
        if record.get(key):
            record[key] = [urn for urn in record[key] if urn in here]
    for key in _SINGLE:
        if record.get(key) and record[key] not in here:
            del record[key]
    edges = cast("dict[str, list[str] | None]", record.get("propertyDependencies") or {})
    for name, urns in edges.items():
        edges[name] = [urn for urn in urns or () if urn in here]
    if record.get("parent") and record["parent"] not in here:
        record["parent"] = root
    return record


def _ordered(merged: Mapping[str, Record]) -> Iterator[Record]:
    """Yield the records so that each one follows those that it needs, as the engine demands."""
    done: set[str] = set()
    for start in merged:
        waiting = [start]
        while waiting:
            urn = waiting[-1]
            missing = [each for each in _needs(merged[urn]) if each in merged and each not in done]
            if urn in done or not missing:
                waiting.pop()
                if urn not in done:
                    done.add(urn)
                    yield merged[urn]
            else:
                waiting += missing


def _needs(record: Record) -> Iterator[str]:
    yield from (record.get("parent") or "", str(record.get("provider") or "").rpartition("::")[0])
    for key in _LISTS:
        yield from record.get(key) or ()
    for key in _SINGLE:
        yield record.get(key) or ""
    edges = cast("dict[str, list[str] | None]", record.get("propertyDependencies") or {})
    for urns in edges.values():
        yield from urns or ()
