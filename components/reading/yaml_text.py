"""YAML text to plain values, with the line of each value and all mistakes in the text.

libyaml reads the text, seven times as fast as a reader in Python. If it refuses a text, ruamel
reads it once more: that reads all of YAML 1.2 and explains errors best. If libyaml is missing,
ruamel reads everything (decision 17 in docs/decisions.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

import yaml

from components.core.problem import Finding, Json, Lines, Place, Spot
from components.core.record import record
from components.reading.loose import TAG, plain_scalar, tagged_scalar

_MERGE: Final = TAG + "merge"
_ALIASED: Final = 100_000
_ALIASED_EACH: Final = 20
"""Aliases may expand to this many values, plus this many for each written value. Hosts that share
their cards by an alias expand to six; a few nested aliases can expand to billions."""

_TAGS: Final = frozenset(
    TAG + name for name in ("bool", "float", "int", "map", "null", "seq", "str")
)
"""Types that can be written before a value; tags of other programs mean nothing here."""
_BARE_RANGE: Final = re.compile(r"\{[^\"']*?:\s+([^\s\"',{}]+\[[0-9][0-9,:-]*\][^\s\"',{}]*)")
"""A range without quotes in a mapping in braces."""
_OLD_BREAKS: Final = re.compile("[\x85\u2028\u2029]")
"""Line breaks of YAML 1.1 and so of libyaml; editors and YAML 1.2 count them as characters."""
_Read = tuple["Json", Spot]


@record
class YamlText:
    """The contents of one YAML text."""

    value: Json
    lines: Lines
    problems: tuple[Finding, ...]

    def below(self, *prefix: str) -> YamlText:
        """The part below `prefix`; paths are shortened by it, lines stay the file's."""
        value = self.value
        for key in prefix:
            value = value.get(key) if isinstance(value, dict) else None
        return YamlText(value, Lines(self.lines.file, self.lines.spot(prefix)), self.problems)


class _RefusedError(Exception):
    """Railyard refuses a text that is otherwise valid YAML."""

    def __init__(self, what: str, fix: str, mark: _Mark | None) -> None:
        super().__init__(what)
        self.what, self.fix, self.line = what, fix, mark.line + 1 if mark else None


class _Mark(Protocol):
    line: int


class _Event(Protocol):
    """What we use of an event, of either reader; which attributes it has depends on its kind."""

    start_mark: _Mark
    anchor: str | None
    tag: object
    implicit: tuple[bool, bool]
    value: str


class _ErrorView(Protocol):
    problem: str | None
    problem_mark: _Mark | None
    context_mark: _Mark | None


@dataclass(slots=True)
class _Anchored:
    line: int
    read: _Read | None = None
    """None while it is being read: an alias there would contain itself."""
    text: str | None = None
    """Text of a scalar, as written."""
    size: int = 0
    """Number of its values, with aliases expanded."""


@dataclass(slots=True)
class _Reader:
    file: str
    events: Iterator[_Event]
    problems: list[Finding] = field(default_factory=list[Finding])
    path: list[str | int] = field(default_factory=list[str | int])
    anchors: dict[str, _Anchored] = field(default_factory=dict[str, _Anchored])
    known: dict[str, Json] = field(default_factory=dict[str, Json])
    """Plain scalars read so far, so equal ones become one object."""
    leaf: Spot = Spot(0)  # noqa: RUF009 - frozen
    """The last spot of a scalar; scalars on one line share it."""
    count: int = 0
    aliased: int = 0

    def document(self) -> _Read | None:
        """The only document of the text; None without one."""
        read: _Read | None = None
        for event in self.events:
            if type(event).__name__ == "DocumentStartEvent":
                if read is not None:
                    fix = "remove the line `---` before it, and everything outside this site."
                    what = "the text holds a second document."
                    raise _RefusedError(what, fix, event.start_mark)
                read = self.value(next(self.events))
        return read

    def value(self, event: _Event) -> _Read:
        """The value that begins with an event."""
        kind = type(event).__name__
        if kind == "AliasEvent":
            found = self._anchored(event)
            if found.read is None:
                self._add(found.line, "the alias contains itself", "remove the alias")
                return None, Spot(event.start_mark.line + 1)
            self.count += found.size
            self.aliased += found.size
            most = _ALIASED + _ALIASED_EACH * (self.count - self.aliased)
            if self.aliased > most:
                what = f"the aliases up to here expand to more than {most} values."
                fix = "write out the repeated values; aliases that contain other aliases multiply."
                raise _RefusedError(what, fix, event.start_mark)
            return _copied(found.read[0]), found.read[1]
        _check_tag(event)
        self.count += 1
        if event.anchor is None:
            return self._plain(kind, event)
        before, line = self.count, event.start_mark.line + 1
        anchored = self.anchors[event.anchor] = _Anchored(line)
        anchored.text = event.value if kind == "ScalarEvent" else None
        anchored.read = self._plain(kind, event)
        anchored.size = 1 + self.count - before
        return anchored.read

    def _plain(self, kind: str, event: _Event) -> _Read:
        line = event.start_mark.line + 1
        if kind == "ScalarEvent":
            if self.leaf.line != line:
                self.leaf = Spot(line)
            if event.implicit[0]:
                if event.value not in self.known:
                    self.known[event.value] = plain_scalar(event.value)
                return self.known[event.value], self.leaf
            if event.tag is None or event.tag == "!":
                return event.value, self.leaf
            return tagged_scalar(str(event.tag).removeprefix(TAG), event.value), self.leaf
        if kind == "MappingStartEvent":
            value, keys = self._mapping()
            return value, Spot(line, keys)
        return self._sequence(line)

    def _sequence(self, line: int) -> _Read:
        items: list[Json] = []
        spots: list[Spot] = []
        for event in self.events:
            if type(event).__name__ == "SequenceEndEvent":
                break
            self.path.append(len(items))
            item, spot = self.value(event)
            self.path.pop()
            items.append(item)
            spots.append(spot)
        return items, Spot(line, spots)

    def _mapping(self) -> tuple[dict[str, Json], dict[str, Spot]]:
        value: dict[str, Json] = {}
        keys: dict[str, Spot] = {}
        merged: list[_Read] = []
        for event in self.events:
            if type(event).__name__ == "MappingEndEvent":
                break
            line = event.start_mark.line + 1
            key = self._key(event)
            if key == _MERGE:
                merged += self._sources(line)
            elif key is None or key in value:
                self._drop(key, line, keys)
            else:
                self.path.append(key)
                value[key], spot = self.value(next(self.events))
                self.path.pop()
                keys[key] = spot if spot.line == line else Spot(line, spot.inner)
        for source, spot in merged:
            for key, item in cast("dict[str, Json]", source).items():
                if key not in value:
                    value[key] = item
                    keys[key] = spot.find(key) or spot
        return value, keys

    def _key(self, event: _Event) -> str | None:
        """Return the text of a key, `_MERGE` for `<<`, or None if the key is not a scalar."""
        kind = type(event).__name__
        if kind == "ScalarEvent":
            if event.anchor is not None:
                self.value(event)
            if (event.implicit[0] and event.value == "<<") or event.tag == _MERGE:
                return _MERGE
            _check_tag(event)
            return event.value
        if kind == "AliasEvent":
            return self._anchored(event).text
        self.value(event)
        return None

    def _drop(self, key: str | None, line: int, keys: dict[str, Spot]) -> None:
        """Skip the value of an invalid key, and explain why."""
        known = len(self.problems)
        self.value(next(self.events))
        del self.problems[known:]
        if key is None:
            self._add(line, "a key is a list or a mapping", "write a plain word")
            return
        what = f"the key {key!r} is written twice, and only one can apply."
        path = (*self.path, key)
        where = tuple(Place(path, file=self.file, line=each) for each in (line, keys[key].line))
        fix = "remove one of the two lines."
        self.problems.append(Finding(what, where, fix, rule="duplicate-key"))

    def _sources(self, line: int) -> Iterator[_Read]:
        """Yield the mappings behind `<<`."""
        read = self.value(next(self.events))
        sources, inner = read[0], read[1].inner
        if isinstance(sources, list) and isinstance(inner, list):
            found = list(zip(sources, inner, strict=True))
        else:
            found = [read]
        for value, spot in found:
            if isinstance(value, dict):
                yield value, spot
            else:
                what = "`<<` merges a value that is not a mapping"
                self._add(line, what, "name a mapping's anchor")

    def _anchored(self, event: _Event) -> _Anchored:
        found = self.anchors.get(event.anchor or "")
        if found is None:
            what = f"the alias *{event.anchor} names no anchor above it."
            fix = f"write `&{event.anchor}` before the value to repeat, or correct the name."
            raise _RefusedError(what, fix, event.start_mark)
        return found

    def _add(self, line: int, what: str, fix: str) -> None:
        place = Place(tuple(self.path), file=self.file, line=line)
        self.problems.append(Finding(f"{what}.", (place,), f"{fix}.", rule="yaml-syntax"))


def _check_tag(event: _Event) -> None:
    tag = str(event.tag or "!")
    if tag != "!" and tag not in _TAGS:
        shown = tag.replace(TAG, "!!")
        fix = f"remove {shown}; what other tools encrypt in the file is named instead, as in "
        fix += "`password: {secret: NAME}`."
        raise _RefusedError(f"the tag {shown} means nothing here.", fix, event.start_mark)


def _copied(value: Json) -> Json:
    """Copy a value for an alias: changing the copy then changes nothing else."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def parse_yaml(text: str, file: str) -> YamlText:
    """Read one YAML document, with the problems of the text itself (syntax, duplicate keys).

    After a syntax error the value is None.
    """
    try:
        # If libyaml cannot read the text, ruamel explains why, or accepts it.
        if yaml.__with_libyaml__ and not _OLD_BREAKS.search(text):
            with suppress(yaml.YAMLError, ValueError):
                return _read(yaml.parse(text, Loader=yaml.CSafeLoader), file)
        return _read_slowly(text, file)
    except RecursionError:
        return _unreadable(file, text, _not_yaml("the nesting is too deep"))
    except _RefusedError as error:
        return _unreadable(file, text, error)
    except (ValueError, AttributeError, TypeError, KeyError, IndexError, AssertionError) as error:
        # ruamel meets some broken texts, for example odd %YAML directives, with plain errors.
        return _unreadable(file, text, _not_yaml(str(error) or type(error).__name__))


def _read(events: Iterator[object], file: str) -> YamlText:
    reader = _Reader(file, cast("Iterator[_Event]", events))
    value, root = reader.document() or (None, None)
    return YamlText(value, Lines(file, root), tuple(reader.problems))


def _read_slowly(text: str, file: str) -> YamlText:
    # Only here: most texts need no ruamel, whose import takes a twentieth of the time of `check`.
    from ruamel.yaml import YAML  # noqa: PLC0415 - see above
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415 - see above

    try:
        events = YAML(typ="safe", pure=True).parse(text)  # pyright: ignore[reportUnknownMemberType] - ruamel is only partly typed
        return _read(cast("Iterator[object]", events), file)
    except YAMLError as error:
        view = cast("_ErrorView", error) if isinstance(error, MarkedYAMLError) else None
        reason = (view.problem if view else None) or str(error).partition("\n")[0]
        mark = (view.problem_mark or view.context_mark) if view else None
        return _unreadable(file, text, _not_yaml(reason.rstrip("."), mark))


def _not_yaml(reason: str, mark: _Mark | None = None) -> _RefusedError:
    fix = "check indentation, colons and quotes here and on the line above; "
    fix += "indent with blanks, not tabs."
    return _RefusedError(f"the text is not YAML: {reason}.", fix, mark)


def _unreadable(file: str, text: str, why: _RefusedError) -> YamlText:
    written, line, fix = text.splitlines(), why.line, why.fix
    shown = written[line - 1].strip()[:80] if line and line <= len(written) else None
    if shown and (bare := _BARE_RANGE.search(shown)):
        fix = f'write "{bare[1]}" in quotes: inside braces, a bracket begins a list.'
    where = (Place((), shown, file, line or 1),)
    return YamlText(None, Lines(file), (Finding(why.what, where, fix, rule="yaml-syntax"),))
