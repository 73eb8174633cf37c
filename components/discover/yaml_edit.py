"""Add keys and entries to a YAML text, and keep every other byte. Pure.

A YAML writer would move comments, quotes and line breaks. Here ruamel only locates values, and the
new text goes between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from components.core.errors import UsageError
from components.core.problem import Json, SpecPath, render_path
from components.core.record import record, replace
from components.core.templates import fault_text
from components.core.yaml_lines import block, flow, item


class _Mark(Protocol):
    index: int
    column: int


class Node(Protocol):
    """A value as ruamel has composed it."""

    id: str
    """`scalar`, `mapping` or `sequence`."""
    value: Any
    start_mark: _Mark
    end_mark: _Mark
    flow_style: bool | None
    style: str | None


@record
class Insert:
    """Text to insert at one place."""

    at: int
    text: str
    cut: int = 0
    """Number of characters to replace after that place."""


@record
class Written:
    """One text of the file: a value or a key."""

    path: SpecPath
    """Path of the value; for a key, the path of its mapping and the key."""
    value: str
    at: int
    raw: str
    """The text as written, with quotes."""
    line: int
    is_key: bool = False

    def put(self, old: str, new: str) -> Insert:
        """Replace the name at the beginning; add quotes if the new one needs them."""
        whole = self.raw == old
        return Insert(self.at, flow(new) if whole else self.raw.replace(old, new, 1), len(self.raw))


class YamlText:
    """A YAML text, and the places of its values."""

    def __init__(self, text: str) -> None:
        """Read a text; raise UsageError if it is not one YAML document."""
        self.text = text
        try:
            self._root = cast("Node | None", cast("Any", YAML(typ="rt")).compose(text))
        except YAMLError as error:
            raise UsageError(f"the text is not YAML: {error}") from error
        self._seen: set[int] = set()
        self._shared: set[int] = set()
        """The ids of values with aliases, without the values below them."""
        self._texts = list(self._walk(self._root, ())) if self._root else []

    def _walk(self, node: Node, path: SpecPath, *, is_key: bool = False) -> Iterator[Written]:
        if id(node) in self._seen:
            self._shared.add(id(node))
            return
        self._seen.add(id(node))
        if node.id == "scalar":
            start, end = node.start_mark.index, node.end_mark.index
            line = self.text.count("\n", 0, start) + 1
            yield Written(path, str(node.value), start, self.text[start:end], line, is_key)
        elif node.id == "mapping":
            for key, value in node.value:
                below = (*path, str(key.value))
                yield from self._walk(key, below, is_key=True)
                yield from self._walk(value, below)
        else:
            for number, each in enumerate(node.value):
                yield from self._walk(each, (*path, number))

    def node(self, path: SpecPath) -> Node | None:
        """Return the value at a path, or None if the text lacks the path.

        Raise UsageError if it leads through an alias, since an edit would change several values.
        """
        here = self._root
        for number, step in enumerate(path):
            found: Node | None = None
            if here is not None and here.id == "mapping":
                found = next((value for key, value in here.value if key.value == step), None)
            elif here is not None and here.id == "sequence" and isinstance(step, int):
                found = here.value[step] if step < len(here.value) else None
            here = found
            if id(here) in self._shared:
                where = render_path(path[: number + 1])
                raise UsageError(fault_text(__file__, "alias", place=where))
        return here

    def texts(self, *prefix: str) -> Iterator[Written]:
        """Yield every text below a path, keys and values, in file order."""
        for each in self._texts:
            if each.path[: len(prefix)] == prefix:
                yield replace(each, path=each.path[len(prefix) :])

    def drop_key(self, path: SpecPath) -> Insert:
        """Remove a key, its value and its line; raise UsageError if it is the first, or merged."""
        node = cast("Node", self.node(path[:-1]))
        names = [key.value for key, _ in node.value]
        if path[-1] not in names[1:]:
            raise UsageError(f"{render_path(path)} is the first key there, or is merged.")
        number = names.index(path[-1])
        key, value = node.value[number]
        if node.flow_style:
            start = node.value[number - 1][1].end_mark.index
            return Insert(start, "", value.end_mark.index - start)
        start = self.text.rfind("\n", 0, key.start_mark.index)
        start -= self.text[start - 1] == "\r"
        return Insert(start, "", self._line_end(value) - start)

    def add_keys(self, path: SpecPath, values: Mapping[str, Json]) -> Insert:
        """Add keys at the end of a mapping, in its style; raise UsageError if it lacks keys."""
        node = self.node(path)
        if node is None or node.id != "mapping" or not node.value:
            raise UsageError(f"{render_path(path)} is not a mapping, so keys cannot be added.")
        key, last = node.value[0][0], node.value[-1][1]
        if node.flow_style:
            text = "".join(f", {flow(name)}: {flow(value)}" for name, value in values.items())
            return Insert(last.end_mark.index, text)
        lines = [line for name, value in values.items() for line in block(name, value)]
        return self._lines_after(last, key.start_mark.column, lines)

    def add_entries(self, path: SpecPath, entries: Sequence[Mapping[str, Json]]) -> Insert:
        """Add entries at the end of a list, in its style; raise UsageError if it is not a list."""
        node = self.node(path)
        if node is None or node.id != "sequence":
            raise UsageError(f"{render_path(path)} is not a list, so entries cannot be added.")
        items = node.value
        if node.flow_style:
            text = ", ".join(flow(dict(entry)) for entry in entries)
            if not items:
                return Insert(node.start_mark.index + 1, text)
            return Insert(items[-1].end_mark.index, f", {text}")
        lines = [f"- {flow(dict(entry))}" for entry in entries]
        if not items[-1].flow_style:
            lines = [line for entry in entries for line in item(entry)]
        return self._lines_after(items[-1], node.start_mark.column, lines)

    def _lines_after(self, node: Node, column: int, lines: Iterable[str]) -> Insert:
        """Add lines below the line on which a value ends, after its comment."""
        newline = "\r\n" if "\r\n" in self.text else "\n"
        text = "".join(f"{newline}{' ' * column}{line}" for line in lines)
        return Insert(self._line_end(node), text)

    def _line_end(self, node: Node) -> int:
        # A block's own end mark is already the next value's start.
        while node.id != "scalar" and node.value and not node.flow_style:
            node = node.value[-1][1] if node.id == "mapping" else node.value[-1]
        start, end = node.start_mark.index, node.end_mark.index
        if node.id == "scalar" and node.style in ("|", ">"):
            end = start + len(self.text[start:end].rstrip())
        at = self.text.find("\n", end)
        return len(self.text) if at < 0 else at - (self.text[at - 1] == "\r")


def apply_inserts(text: str, inserts: Sequence[Insert]) -> str:
    """Apply the inserts; several at one place keep their order."""
    for _, each in sorted(enumerate(inserts), key=lambda pair: (-pair[1].at, -pair[0])):
        text = text[: each.at] + each.text + text[each.at + each.cut :]
    return text
