"""The algebra of settings: each field of a state is declared once, and every operation follows.

A state is a frozen model whose fields carry a `Setting`. From these declarations follow what an
apply, an edit and an undo make of a field, the names in diffs, and what a baseline asks for. A
field without one is only found on devices. Laws between two fields are in `targets.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import not_
from typing import Any, Final, Literal, TypeGuard, TypeVar, cast

from pydantic import BaseModel, Field

from components.core.difference import Effect

ValueT = TypeVar("ValueT")
Kind = Literal["one", "own", "shared", "name", "kept"]
"""Who owns a field, and what a target says of it:

one: the value as a whole; None: not ours.
own: a map whose entries are ours one by one; a target names ours alone.
shared: a list, map or part that others fill too; a target names all that shall be there.
name: what the state is of, never changed.
kept: found on devices, and put back with other settings.
"""
Map = dict[Any, Any]
Texts = dict[tuple[str, str], str]
NOTHING: Final = object()
"""There is no value for what a baseline lacks: it is left out."""
StateT = TypeVar("StateT", bound=BaseModel)


OMIT_NONE: Final[Any] = Field(exclude_if=lambda value: value is None)
"""An optional field: it is not in the JSON form if it is None, so that a new one does not change
the inputs of the steps of other switches."""
OMIT_EMPTY: Final[Any] = Field(exclude_if=not_)
"""The same for a field that is empty by default."""


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
    """The text of an entry that is either there or not."""
    return lambda _: word


@dataclass(frozen=True, slots=True)
class Impact:
    """What a change of a setting does to running traffic."""

    effect: Effect = Effect.LINK
    """Of another value, and of the setting going away."""
    why: str = ""
    new: Effect | None = None
    """Of a value where the device had none; None: the same as of any other value."""
    to: Mapping[str, Effect] = field(default_factory=dict[str, Effect])
    """Of these values."""
    systems: Mapping[str, tuple[Effect, str]] = field(default_factory=dict[str, tuple[Effect, str]])
    """What differs on some systems, and why; it holds for every change there."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How one field takes part in all operations."""

    kind: Kind = "one"
    text: str | None = ""
    """Its name in diffs, `{}` for the key of an entry; blank: that of the field; None: not there.
    """
    say: Callable[[Any], str | None] = plain
    """The text of its value, or of one entry; None: nothing is said of it."""
    native: str = ""
    """Its name in `PortState.native`, with `{}` for an entry; blank: the driver keeps no words."""
    where: str = ""
    """What it belongs to in diffs, if that is not what the whole state belongs to."""
    split: Callable[[str], tuple[str, str]] | None = None
    """From the key of an entry to what it belongs to and its name, if the key says both."""
    blank: Any = NOTHING
    """What an undo puts back if the baseline has no value."""
    asked: Any = NOTHING
    """The value by which a baseline asks for it; nothing: a baseline does not ask for it."""
    each: Kind = "one"
    """The kind of each entry of a map."""
    spell: Callable[[Any], tuple[Any, ...]] = tuple
    """The entries of a list; of a word, such as `all`, the ones that it means."""
    puts_back: bool = True
    """Whether an undo sets it; else the words under `native` bring it back."""
    does: Impact = Impact()
    """What a change of it does; one that nothing is known of counts as `link`."""


@cache
def table(state: type[BaseModel]) -> tuple[tuple[str, Setting], ...]:
    """The settings of a state by name, in the order of its fields."""
    return tuple(
        (name, setting)
        for name, info in state.model_fields.items()
        for setting in info.metadata
        if isinstance(setting, Setting)
    )


def is_shared(setting: Setting) -> bool:
    """Whether others fill it too, so that a target says all of it."""
    return setting.kind == "shared"


def is_state(value: object) -> TypeGuard[BaseModel]:
    """Whether a value consists of settings itself, and is not one value as a whole."""
    return isinstance(value, BaseModel) and bool(table(type(value)))


def _is_map(value: object) -> TypeGuard[Map]:
    return isinstance(value, dict)


def first(one: ValueT | None, other: ValueT | None) -> ValueT | None:
    """What one state says, or else another."""
    return other if one is None else one


def blank_of(state: StateT) -> StateT:
    """A state of the same switch, port or partition that says nothing."""
    rows = table(type(state))
    return type(state)(**{key: getattr(state, key) for key, row in rows if row.kind == "name"})


def asked(state: type[BaseModel]) -> dict[str, object]:
    """The values by which a baseline asks for everything that a file may own."""
    return {name: row.asked for name, row in table(state) if row.asked is not NOTHING}


def natives(state: BaseModel) -> Iterator[str]:
    """The settings that a state names, as drivers call the words that they keep beside them."""
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
        if "{}" in text + place or setting.split or is_state(value):
            flat |= _entry_texts(setting, value, text or name, place)
        elif (said := setting.say(value)) is not None:
            flat[place, text or name] = said
    return flat


def _entry_texts(setting: Setting, value: object, text: str, place: str) -> Texts:
    """The texts of what is inside a value: a part, or the entries of a map or list."""
    if is_state(value):
        return texts(value, place)
    flat: Texts = {}
    entries = value if _is_map(value) else {each: each for each in setting.spell(value)}
    for key, entry in entries.items():
        if is_state(entry):
            flat |= texts(entry, place.format(key))
        elif (said := setting.say(entry)) is not None:
            name = setting.split(key) if setting.split else (place.format(key), text.format(key))
            flat[name] = said
    return flat


def unite(one: tuple[ValueT, ...], other: tuple[ValueT, ...]) -> tuple[ValueT, ...]:
    """The entries of both lists; numbers in ascending order."""
    both = (*one, *(each for each in other if each not in one))
    return tuple(sorted(both, key=_number))


def _number(entry: object) -> int:
    """Where an entry comes in its list; words stay in their order."""
    return entry if isinstance(entry, int) else 0


def without(one: Iterable[ValueT], other: Iterable[ValueT]) -> tuple[ValueT, ...]:
    """The entries of one list that are not in another."""
    gone = {*other}
    return tuple(each for each in one if each not in gone)


def overlay(base: StateT, top: StateT) -> StateT:
    """One state over another: what `top` says wins, and its shared lists are all there are."""
    changes = {
        name: _over(setting, getattr(base, name), getattr(top, name))
        for name, setting in table(type(top))
    }
    return blank_of(top).model_copy(update=changes)


def _over(setting: Setting, base: object, top: object) -> object:
    if base is None or top is None:
        return first(top, base)
    if is_state(top):
        return overlay(cast("BaseModel", base), top)
    if not _is_map(top) or is_shared(setting):
        return top
    held = cast("Map", base)
    return held | {
        key: overlay(held[key], value) if is_state(value) and key in held else value
        for key, value in top.items()
    }


def join(actual: StateT, desired: StateT) -> StateT:
    """What an apply makes of a state: the wanted settings, and beside them those of others."""
    changes = {
        name: _joined(setting, getattr(actual, name), getattr(desired, name))
        for name, setting in table(type(desired))
    }
    return desired.model_copy(update=changes)


def _joined(setting: Setting, held: object, wanted: object) -> object:
    if held is None or wanted is None:
        return wanted
    if is_state(wanted):
        was = cast("BaseModel", held)
        return overlay(was, join(was, wanted)) if is_shared(setting) else join(was, wanted)
    if _is_map(wanted):
        was, entry = cast("Map", held), Setting(setting.each)
        both = {key: _joined(entry, was.get(key), value) for key, value in wanted.items()}
        return was | both if is_shared(setting) else both
    if is_shared(setting) and isinstance(held, tuple):
        return unite(cast("tuple[object, ...]", held), setting.spell(wanted))
    return held if is_shared(setting) else wanted


def drop(previous: StateT, desired: StateT) -> StateT:
    """What was ours and is no longer wanted: an edit gives it back."""
    changes = {
        name: left
        for name, setting in table(type(previous))
        if setting.kind not in {"name", "kept"}
        and (left := _gone(setting, getattr(previous, name), getattr(desired, name))) is not None
    }
    return blank_of(previous).model_copy(update=changes)


def _gone(setting: Setting, previous: object, desired: object) -> object:
    """What is left of a value; None: nothing."""
    is_whole = setting.kind == "one" or is_state(previous)
    if previous is None or (is_whole and desired is None):
        return previous
    if is_state(previous):
        left = drop(previous, cast("BaseModel", desired))
        return None if left == blank_of(previous) else left
    if _is_map(previous):
        now, entry = cast("Map", desired or {}), Setting(setting.each)
        return {
            key: left
            for key, value in previous.items()
            if key not in now or setting.each == "shared" or is_state(value)
            if (left := _gone(entry, value, now.get(key))) or not (key in now or is_shared(entry))
        } or None
    if is_shared(setting):
        return without(setting.spell(previous), setting.spell(desired or ())) or None
    return None


def restore(actual: StateT, owned: StateT, baseline: StateT, *, whole: bool = False) -> StateT:
    """What an undo makes of a state.

    Args:
        actual: What is there.
        owned: What is ours, and goes back.
        baseline: What was recorded.
        whole: The result says everything that shall be there, and not only what was ours.
    """
    changes: dict[str, object] = {}
    for name, setting in table(type(owned)):
        was, ours = getattr(baseline, name), getattr(owned, name)
        if setting.kind == "name" and whole:
            changes[name] = was
        elif setting.puts_back and setting.kind not in {"name", "kept"} and ours is not None:
            changes[name] = _restored(setting, getattr(actual, name), ours, was)
    return (actual if whole else blank_of(owned)).model_copy(update=changes)


def _restored(setting: Setting, held: object, owned: object, before: object) -> object:
    whole = is_shared(setting)
    if is_state(owned):
        if before is None and not whole:
            return None
        now, was = (cast("BaseModel", each or blank_of(owned)) for each in (held, before))
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
    """Our entries as they were recorded."""
    back: Map = {}
    entry = Setting(setting.each)
    for key, ours in owned.items():
        if setting.each == "shared" or (is_state(ours) and key in before):
            back[key] = _restored(entry, held.get(key), ours, before.get(key))
        elif key in before or (setting.blank is not NOTHING and not is_state(ours)):
            back[key] = before.get(key, setting.blank)
    return back


def _shared_entries(held: Map, owned: Map, before: Map) -> Map:
    """The entries of others, and ours as they were; ours alone goes unless others use it."""
    back = {key: value for key, value in held.items() if key not in owned}
    for key in (key for key in {**held, **before} if key in owned):
        if is_state(ours := owned[key]):
            now = held.get(key) or before[key]
            rest = restore(now, ours, before.get(key) or blank_of(now), whole=True)
            back |= {key: rest} if key in before or _is_used(rest) else {}
        elif key in before:
            back[key] = before[key]
    return {key: back[key] for key in {**held, **before} if key in back}


def _is_used(state: BaseModel) -> bool:
    rows = table(type(state))
    return any(getattr(state, name) for name, row in rows if is_shared(row))
