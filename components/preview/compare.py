"""Two sets of items to the changes between them, and alike changes to one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from components.core.difference import ABSENT
from components.core.placeholder import has_placeholder, matches
from components.preview.items import KINDS, Item, Kind

Verb = Literal["add", "change", "remove"]
_NO_ITEM: Final[Mapping[tuple[str, str], str]] = {}


@dataclass(frozen=True, slots=True, order=True)
class Moved:
    """One setting that changes."""

    place: str
    """What the setting belongs to: `port 1/2`, `nic 0000:05:00.0`; empty for the whole thing."""
    setting: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is added, changed or removed."""

    kind: Kind
    subject: str
    verb: Verb
    settings: tuple[Moved, ...]


@dataclass(frozen=True, slots=True)
class Alike:
    """Things of one kind that change alike."""

    kind: Kind
    subjects: tuple[str, ...]
    verb: Verb
    settings: tuple[Moved, ...]


def compare_items(before: Mapping[str, Item], after: Mapping[str, Item]) -> tuple[Change, ...]:
    """What changes from one set of items to another; steps of one device are one change.

    Args:
        before: Resource name to item, as it is.
        after: The same as it shall be; its texts may have holes for facts of cloud instances.
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
    changes = (
        Change(
            kind,
            subject,
            "add" if (kind, subject) not in known else _verb((kind, subject) in kept),
            tuple(sorted(each for _, moved in parts for each in moved)),
        )
        for (kind, subject), parts in found.items()
    )
    return tuple(sorted(changes, key=lambda each: KINDS.index(each.kind)))


def _verb(is_kept: bool) -> Verb:  # noqa: FBT001 - the one place where a truth becomes a word
    return "change" if is_kept else "remove"


def _moved(old: Item | None, new: Item | None) -> Iterator[Moved]:
    was = old.settings if old else _NO_ITEM
    wanted = new.settings if new else _NO_ITEM
    for key in {**was, **wanted}:
        place, setting = key
        before, after = was.get(key, ABSENT), wanted.get(key, ABSENT)
        from_file = has_placeholder(before)  # another file's text, which no instance has filled
        if before != after and (from_file or not matches(after, before)):
            yield Moved(place, setting, before, after)


def gather_alike(changes: Sequence[Change]) -> tuple[Alike, ...]:
    """Things that change alike as one, in the order of their first; added ones by what they are."""
    found: dict[tuple[Kind, Verb, tuple[Moved, ...]], list[str]] = {}
    for each in changes:
        found.setdefault((each.kind, each.verb, each.settings), []).append(each.subject)
    return tuple(
        Alike(kind, tuple(subjects), verb, settings)
        for (kind, verb, settings), subjects in found.items()
    )
