"""The algebra of settings: each state declares a field once, and all operations follow from that.

A state is a frozen model whose fields carry a `Setting`. The declarations decide how an apply, an
edit and an undo change a field, its name in diffs, and the values that a baseline must hold. A
field without a `Setting` is only read from devices. `targets.py` holds the laws between two fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from operator import not_
from typing import Any, Final, Literal, TypeGuard, TypeVar, cast

from pydantic import BaseModel, Field

from components.core.difference import Effect
from components.core.record import record

ValueT = TypeVar("ValueT")
Kind = Literal["one", "own", "shared", "name", "kept"]
"""Who owns a field, and how a target describes it:

one: Railyard sets the whole value; with None it leaves the field alone.
own: a map; Railyard owns single entries, and a target lists only those.
shared: a list, map or part that others fill too; a target lists everything that must remain.
name: identifies the device or part, never changed.
kept: read from devices, and put back together with other settings.
"""
Map = dict[Any, Any]
Texts = dict[tuple[str, str], str]
NOTHING: Final = object()
"""Marks an absent value: without `blank` an undo leaves the entry out, and without `asked` a
baseline does not ask for it."""
StateT = TypeVar("StateT", bound=BaseModel)
OMIT_NONE: Final[Any] = Field(exclude_if=lambda value: value is None)
"""An optional field: the JSON form omits it if it is None, so a new field does not change the
inputs of other switches' steps."""
OMIT_EMPTY: Final[Any] = Field(exclude_if=not_)
"""A field that is empty by default: the JSON form omits it while it is empty."""


def plain(value: object) -> str:
    """The text of a value."""
    if value is None or isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", value))) or "none"
    return str(value)


def if_any(value: object) -> str | None:
    """The text of a value; None, which leaves the setting out, if it is 0 or blank."""
    return str(value) if value else None


def up_down(value: object) -> str:
    """The text of an administrative state."""
    return "up" if value else "down"


def or_default(value: str) -> str:
    """The text of a value that may be blank, if no line of the configuration gives it."""
    return value or "default"


def always(word: str) -> Callable[[object], str]:
    """Give every entry the same text, for entries that only exist or not."""
    return lambda _: word


@record
class Impact:
    """How a change of a setting affects running traffic."""

    effect: Effect = Effect.LINK
    """Effect of another value, and of removing the setting."""
    why: str = ""
    new: Effect | None = None
    """Effect of a value that the device did not have before; None: as for any other value."""
    to: Mapping[str, Effect] = field(default_factory=dict[str, Effect])
    """Effect of single values."""
    systems: Mapping[str, tuple[Effect, str]] = field(default_factory=dict[str, tuple[Effect, str]])
    """Effect and reason on systems that differ; they hold for every change there."""


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """How one field takes part in all operations."""

    kind: Kind = "one"
    text: str | None = ""
    """Its name in diffs, `{}` for the key of an entry; blank: that of the field; None: not there.
    """
    say: Callable[[Any], str | None] = plain
    """The text of its value, or of one entry; None leaves it out of diffs."""
    native: str = ""
    """Its name in `PortState.native`, with `{}` for an entry; blank: the driver keeps no words."""
    where: str = ""
    """Its owner in diffs, if that differs from the owner of the whole state."""
    split: Callable[[str], tuple[str, str]] | None = None
    """From the key of an entry to its owner and its name, if the key contains both."""
    blank: Any = NOTHING
    """The value that an undo restores if the baseline lacks the setting."""
    asked: Any = NOTHING
    """The value by which a baseline asks for it; nothing: a baseline does not ask for it."""
    each: Kind = "one"
    """The kind of each entry of a map."""
    spell: Callable[[Any], tuple[Any, ...]] = tuple
    """Return the entries of a list; for a word such as `all`, the entries that it means."""
    puts_back: bool = True
    """Whether an undo sets it; else the words under `native` bring it back."""
    does: Impact = field(default=Impact())
    """How a change affects traffic; if unknown, it counts as `link`."""


@cache
def table(state: type[BaseModel]) -> tuple[tuple[str, Setting], ...]:
    """The settings of a state by name, in the order of its fields."""
    rows = ((name, each) for name, info in state.model_fields.items() for each in info.metadata)
    return tuple((name, each) for name, each in rows if isinstance(each, Setting))


def _is_shared(setting: Setting) -> bool:
    """Whether others fill it too, which means that a target lists the whole value."""
    return setting.kind == "shared"


def _is_state(value: object) -> TypeGuard[BaseModel]:
    """Whether a value consists of settings, rather than being a single value."""
    return isinstance(value, BaseModel) and bool(table(type(value)))


def _is_map(value: object) -> TypeGuard[Map]:
    return isinstance(value, dict)


def first(one: ValueT | None, other: ValueT | None) -> ValueT | None:
    """Return the first value, or the second one if the first is None."""
    return other if one is None else one


def _blank_of(state: StateT) -> StateT:
    """Return an empty state of the same switch, port or partition."""
    rows = table(type(state))
    return type(state)(**{key: getattr(state, key) for key, row in rows if row.kind == "name"})


def asked(state: type[BaseModel]) -> dict[str, object]:
    """The values by which a baseline asks for everything that a file may own."""
    return {name: row.asked for name, row in table(state) if row.asked is not NOTHING}


def natives(state: BaseModel) -> Iterator[str]:
    """Yield the settings that a state sets, by the names of their native words in drivers."""
    for name, setting in table(type(state)):
        value = getattr(state, name)
        if not setting.native or value is None or value == {}:
            continue
        if "{}" in setting.native:
            yield from (setting.native.format(entry) for entry in value)
        else:
            yield setting.native


def texts(state: BaseModel, where: str = "switch") -> Texts:
    """Flat (where, setting) to text, for diffs that people read."""
    flat: Texts = {}
    for name, setting in table(type(state)):
        value, text = getattr(state, name), setting.text
        if value is None or text is None:
            continue
        place = setting.where or where
        if "{}" in text + place or setting.split or _is_state(value):
            flat |= _entry_texts(setting, value, text or name, place)
        elif (said := setting.say(value)) is not None:
            flat[place, text or name] = said
    return flat


def _entry_texts(setting: Setting, value: object, text: str, place: str) -> Texts:
    """Collect the texts inside a value: of a part, or of the entries of a map or list."""
    if _is_state(value):
        return texts(value, place)
    if not _is_map(value):
        return {(place, name): it for name, it in _listed(setting, value, text) if it is not None}
    flat: Texts = {}
    for key, entry in value.items():
        where = place.format(key)
        if _is_state(entry):
            flat |= texts(entry, where)
        elif (said := setting.say(entry)) is not None:
            flat[setting.split(key) if setting.split else (where, text.format(key))] = said
    return flat


@lru_cache(maxsize=128)
def _listed(setting: Setting, value: object, text: str) -> tuple[tuple[str, str | None], ...]:
    """Names and texts of a list's entries: thousands, if a port is in every VLAN."""
    return tuple((text.format(each), setting.say(each)) for each in setting.spell(value))


def unite(one: tuple[ValueT, ...], other: tuple[ValueT, ...]) -> tuple[ValueT, ...]:
    """The entries of both lists; numbers in ascending order."""
    both = (*one, *(each for each in other if each not in one))
    # Words stay in their order.
    return tuple(sorted(both, key=lambda entry: entry if isinstance(entry, int) else 0))


def without(one: Iterable[ValueT], other: Iterable[ValueT]) -> tuple[ValueT, ...]:
    """Return the entries of one list that another list lacks."""
    gone = {*other}
    return tuple(each for each in one if each not in gone)


def overlay(base: StateT, top: StateT) -> StateT:
    """Lay one state over another: values in `top` win, and its shared lists replace the base's."""
    changes = {
        name: _over(setting, getattr(base, name), getattr(top, name))
        for name, setting in table(type(top))
    }
    return _blank_of(top).model_copy(update=changes)


def _over(setting: Setting, base: object, top: object) -> object:
    if base is None or top is None:
        return first(top, base)
    if _is_state(top):
        return overlay(cast("BaseModel", base), top)
    if not _is_map(top) or _is_shared(setting):
        return top
    held = cast("Map", base)
    return held | {
        key: overlay(held[key], value) if _is_state(value) and key in held else value
        for key, value in top.items()
    }


def join(actual: StateT, desired: StateT) -> StateT:
    """Merge the wanted settings into a state as an apply does; other settings stay."""
    changes = {
        name: _joined(setting, getattr(actual, name), getattr(desired, name))
        for name, setting in table(type(desired))
    }
    return desired.model_copy(update=changes)


def _joined(setting: Setting, held: object, wanted: object) -> object:
    if held is None or wanted is None:
        return wanted
    if _is_state(wanted):
        was = cast("BaseModel", held)
        return overlay(was, join(was, wanted)) if _is_shared(setting) else join(was, wanted)
    if _is_map(wanted):
        was, entry = cast("Map", held), Setting(setting.each)
        both = {key: _joined(entry, was.get(key), value) for key, value in wanted.items()}
        return was | both if _is_shared(setting) else both
    if _is_shared(setting) and isinstance(held, tuple):
        return unite(cast("tuple[object, ...]", held), setting.spell(wanted))
    return held if _is_shared(setting) else wanted


def drop(previous: StateT, desired: StateT) -> StateT:
    """Return the settings that the new target no longer wants: an edit undoes them."""
    changes = {
        name: left
        for name, setting in table(type(previous))
        if setting.kind not in {"name", "kept"}
        and (left := _gone(setting, getattr(previous, name), getattr(desired, name))) is not None
    }
    return _blank_of(previous).model_copy(update=changes)


def _gone(setting: Setting, previous: object, desired: object) -> object:
    """Return the unwanted rest of a value, or None."""
    is_whole = setting.kind == "one" or _is_state(previous)
    if previous is None or (is_whole and desired is None):
        return previous
    if _is_state(previous):
        left = drop(previous, cast("BaseModel", desired))
        return None if left == _blank_of(previous) else left
    if _is_map(previous):
        now, entry = cast("Map", desired or {}), Setting(setting.each)
        return {
            key: left
            for key, value in previous.items()
            if key not in now or setting.each == "shared" or _is_state(value)
            if (left := _gone(entry, value, now.get(key))) or not (key in now or _is_shared(entry))
        } or None
    if _is_shared(setting):
        return without(setting.spell(previous), setting.spell(desired or ())) or None
    return None


def restore(actual: StateT, owned: StateT, baseline: StateT, *, whole: bool = False) -> StateT:
    """Compute the state that an undo sets.

    `owned` are the settings that Railyard set, and that the undo puts back. `whole` asks for the
    complete state that must remain, instead of only Railyard's settings.
    """
    changes: dict[str, object] = {}
    for name, setting in table(type(owned)):
        was, ours = getattr(baseline, name), getattr(owned, name)
        if setting.kind == "name" and whole:
            changes[name] = was
        elif setting.puts_back and setting.kind not in {"name", "kept"} and ours is not None:
            changes[name] = _restored(setting, getattr(actual, name), ours, was)
    return (actual if whole else _blank_of(owned)).model_copy(update=changes)


def _restored(setting: Setting, held: object, owned: object, before: object) -> object:
    whole = _is_shared(setting)
    if _is_state(owned):
        if before is None and not whole:
            return None
        now, was = (cast("BaseModel", each or _blank_of(owned)) for each in (held, before))
        return restore(now, owned, was, whole=whole)
    if _is_map(owned):
        entries, recorded = cast("Map", held or {}), cast("Map", before or {})
        if whole:
            return _shared_entries(entries, owned, recorded)
        return _own_entries(setting, entries, owned, recorded)
    if not whole or isinstance(before, str):
        return first(before, None if setting.blank is NOTHING else setting.blank)
    ours = without(setting.spell(owned), setting.spell(before or ()))
    return without(setting.spell(held or ()), ours)


def _own_entries(setting: Setting, held: Map, owned: Map, before: Map) -> Map:
    back: Map = {}
    entry = Setting(setting.each)
    for key, ours in owned.items():
        if setting.each == "shared" or (_is_state(ours) and key in before):
            back[key] = _restored(entry, held.get(key), ours, before.get(key))
        elif key in before or (setting.blank is not NOTHING and not _is_state(ours)):
            back[key] = before.get(key, setting.blank)
    return back


def _shared_entries(held: Map, owned: Map, before: Map) -> Map:
    """Keep the entries of others and restore the recorded ones; drop new ones unless in use."""
    back = {key: value for key, value in held.items() if key not in owned}
    for key in (key for key in {**held, **before} if key in owned):
        if _is_state(ours := owned[key]):
            now = held.get(key) or before[key]
            rest: BaseModel = restore(now, ours, before.get(key) or _blank_of(now), whole=True)
            rows = table(type(rest))
            is_used = any(getattr(rest, name) for name, row in rows if _is_shared(row))
            back |= {key: rest} if key in before or is_used else {}
        elif key in before:
            back[key] = before[key]
    return {key: back[key] for key in {**held, **before} if key in back}
