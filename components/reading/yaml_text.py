"""YAML text to plain values, with the line of each value and everything wrong with the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from components.core.problem import Json, Lines, Place, Problem, SpecPath

_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_MAX_VALUES = 200_000
"""More values than any site has: a few lines of nested aliases can stand for billions."""


@dataclass(frozen=True, slots=True)
class YamlText:
    """What one YAML text holds."""

    value: Json
    lines: Lines
    problems: tuple[Problem, ...]

    def below(self, *prefix: str) -> YamlText:
        """The part below `prefix`; paths are shortened by it, lines stay the file's."""
        value = self.value
        for key in prefix:
            value = value.get(key) if isinstance(value, dict) else None
        size = len(prefix)
        inner = {p[size:]: n for p, n in self.lines.lines.items() if p[:size] == prefix}
        return YamlText(value, Lines(self.lines.file, inner), self.problems)


class _TooLargeError(Exception):
    pass


class _Mark(Protocol):
    line: int


class _NodeView(Protocol):
    """What we use of a ruamel node, whose own attributes are untyped."""

    tag: object
    value: object
    start_mark: _Mark


class _ErrorView(Protocol):
    problem: str | None
    problem_mark: _Mark | None
    context_mark: _Mark | None


@dataclass(slots=True)
class _Reader:
    """Walks the nodes of one document once."""

    file: str
    lines: dict[SpecPath, int] = field(default_factory=dict[SpecPath, int])
    problems: list[Problem] = field(default_factory=list[Problem])
    open_nodes: set[int] = field(default_factory=set[int])
    count: int = 0

    def read(self, node: Node, path: SpecPath) -> Json:
        self.count += 1
        if self.count > _MAX_VALUES:
            raise _TooLargeError
        self.lines.setdefault(path, _line(node))
        if isinstance(node, ScalarNode):
            return _scalar(node)
        if id(node) in self.open_nodes:
            self._add(path, node, "the alias contains itself", "remove the alias")
            return None
        self.open_nodes.add(id(node))
        try:
            if isinstance(node, SequenceNode):
                return [self.read(item, (*path, i)) for i, item in enumerate(_items(node))]
            return self._mapping(node, path) if isinstance(node, MappingNode) else None
        finally:
            self.open_nodes.discard(id(node))

    def _mapping(self, node: MappingNode, path: SpecPath) -> dict[str, Json]:
        value: dict[str, Json] = {}
        first: dict[str, int] = {}
        merged: list[Node] = []
        for key_node, value_node in _pairs(node):
            if _tag(key_node) == _MERGE:
                merged.append(value_node)
                continue
            if not isinstance(key_node, ScalarNode):
                self._add(path, key_node, "a key is a list or a mapping", "write a plain word")
                continue
            key, line = _text(key_node), _line(key_node)
            if key in first:
                self._duplicate((*path, key), first[key], line)
                continue
            first[key] = line
            self.lines[*path, key] = line
            value[key] = self.read(value_node, (*path, key))
        for source in merged:
            self._merge(source, path, value)
        return value

    def _merge(self, source: Node, path: SpecPath, value: dict[str, Json]) -> None:
        parts = _items(source) if isinstance(source, SequenceNode) else [source]
        for part in parts:
            read = self.read(part, path)
            if not isinstance(read, dict):
                self._add(path, part, "what `<<` merges is no mapping", "name a mapping's anchor")
                continue
            for key, item in read.items():
                value.setdefault(key, item)

    def _duplicate(self, path: SpecPath, first_line: int, line: int) -> None:
        self.problems.append(
            Problem(
                rule="duplicate-key",
                what=f"the key {path[-1]!r} is written twice, and only one of them can hold.",
                where=(
                    Place(path, file=self.file, line=line),
                    Place(path, file=self.file, line=first_line),
                ),
                fix="remove one of the two lines.",
            )
        )

    def _add(self, path: SpecPath, node: Node, what: str, fix: str) -> None:
        place = Place(path, file=self.file, line=_line(node))
        self.problems.append(Problem("yaml-syntax", f"{what}.", (place,), f"{fix}."))


def parse_yaml(text: str, file: str) -> YamlText:
    """Read one YAML document.

    Args:
        text: The text of the file.
        file: Its name, as problems show it.

    Returns:
        The value, the line of each value, and the problems of the text itself (syntax, duplicate
        keys). After a syntax error the value is None.
    """
    reader = _Reader(file)
    try:
        node = YAML(typ="safe", pure=True).compose(text)  # pyright: ignore[reportUnknownMemberType] - ruamel is only partly typed
        value = reader.read(node, ()) if isinstance(node, Node) else None
    except YAMLError as error:
        return _unreadable(file, _reason(error), text, _error_line(error))
    except RecursionError:
        return _unreadable(file, "the nesting is too deep", text, None)
    except _TooLargeError:
        return _unreadable(file, f"it stands for more than {_MAX_VALUES} values", text, None)
    except (ValueError, AttributeError, TypeError, KeyError, IndexError, AssertionError) as error:
        # The scanner meets some broken texts, for example odd %YAML directives, with plain errors.
        return _unreadable(file, str(error) or type(error).__name__, text, None)
    return YamlText(value, Lines(file, reader.lines), tuple(reader.problems))


def _unreadable(file: str, reason: str, text: str, line: int | None) -> YamlText:
    written = text.splitlines()
    shown = written[line - 1].strip()[:80] if line and line <= len(written) else None
    problem = Problem(
        rule="yaml-syntax",
        what=f"the text is not YAML: {reason}.",
        where=(Place((), shown, file, line or 1),),
        fix="check indentation, colons and quotes here and on the line above; "
        "indent with blanks, not tabs.",
    )
    return YamlText(None, Lines(file, {}), (problem,))


def _reason(error: YAMLError) -> str:
    problem = cast("_ErrorView", error).problem if isinstance(error, MarkedYAMLError) else None
    return (problem or str(error).partition("\n")[0]).rstrip(".")


def _error_line(error: YAMLError) -> int | None:
    if not isinstance(error, MarkedYAMLError):
        return None
    view = cast("_ErrorView", error)
    mark = view.problem_mark or view.context_mark
    return None if mark is None else mark.line + 1


def _line(node: Node) -> int:
    return cast("_NodeView", node).start_mark.line + 1


def _tag(node: Node) -> str:
    return str(cast("_NodeView", node).tag)


def _text(node: ScalarNode) -> str:
    return str(cast("_NodeView", node).value)


def _items(node: SequenceNode) -> list[Node]:
    return cast("list[Node]", cast("_NodeView", node).value)


def _pairs(node: MappingNode) -> list[tuple[Node, Node]]:
    return cast("list[tuple[Node, Node]]", cast("_NodeView", node).value)


def _scalar(node: ScalarNode) -> Json:
    text, tag = _text(node), _tag(node).removeprefix(_TAG)
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() == "true"
    try:
        if tag == "int":
            return int(text.replace("_", ""), 0)
        if tag == "float":
            return float(text.replace("_", ""))
    except ValueError:
        return text
    return text
