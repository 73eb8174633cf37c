"""Tables beside the code: a room's findings and its objects, with words filled in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import yaml
from pydantic import TypeAdapter

from components.core.problem import Finding, Place, Severity

_T = TypeVar("_T")
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""For YAML that we or a pinned source wrote: libyaml, if PyYAML has it, is ten times as fast."""
_SPREAD: Final = "..."
"""The key of a mapping that adds its own keys to those around it."""
reader_of: Final = cache(TypeAdapter[Any])
"""The reader of a kind of value: building one takes longer than reading a table or a request."""


@cache
def read_table(module: str, name: str) -> Any:  # noqa: ANN401 - as the file has it
    """Read the YAML table `name` in the folder of a module, given by its `__file__`."""
    return parse_own(Path(module).with_name(f"{name}.yaml").read_bytes())


def parse_own(text: str | bytes) -> Any:  # noqa: ANN401 - as the text has it
    """Parse YAML of this package; PyYAML itself takes almost twice as long to make the values."""
    loader = LOADER(text)
    try:
        node = loader.get_single_node()
        return node and _value_of(loader, node)
    finally:
        loader.dispose()


def _value_of(loader: Any, node: yaml.Node) -> object:  # noqa: ANN401 - of libyaml or not
    if node.tag == "tag:yaml.org,2002:map":
        loader.flatten_mapping(node)  # a `<<` becomes the keys that it stands for
        return {_value_of(loader, key): _value_of(loader, value) for key, value in node.value}
    if node.tag == "tag:yaml.org,2002:seq":
        return [_value_of(loader, each) for each in node.value]
    is_text = node.tag == "tag:yaml.org,2002:str"
    return node.value if is_text else loader.construct_object(node, deep=True)


def finding_of(
    module: str, row: str, /, *where: Place, device: str = "", actual: str = "", **words: object
) -> Finding:
    """Return the finding of a row in the `findings.yaml` beside a module, with its words filled in.

    A row has `what`. It may have `rule` (else its key), `where` in words, `wanted`, `fix`, and
    `severity` (else error); the call gives the words in braces, and a text that the row lacks.
    """
    said = _texts_of(module, row, {**words, "device": device})
    place = (Place((), said["where"]),) if said["where"] else ()
    severity = cast("Severity", said["severity"] or "error")
    rule, fix, wanted = said["rule"] or row, said["fix"], said["wanted"]
    return Finding(said["what"], where or place, fix, severity, rule, device, actual, wanted)


def fault_text(module: str, row: str, /, **words: object) -> str:
    """Return the fault of a row in the `findings.yaml` beside a module, and its fix below it."""
    said = _texts_of(module, row, words)
    return said["what"] + (f"\n  fix    {said['fix']}" if said["fix"] else "")


def _texts_of(module: str, row: str, words: Mapping[str, object]) -> dict[str, str]:
    texts: Mapping[str, str] = read_table(module, "findings")[row]
    return {
        key: texts[key].format_map(words) if key in texts else str(words.get(key, ""))
        for key in ("what", "rule", "where", "fix", "severity", "wanted")
    }


def typed_table(kind: type[_T], module: str, part: str = "") -> _T:
    """Read the table with a module's own name, or a part; ValidationError if it does not fit."""
    table = read_table(module, Path(module).stem)
    return reader_of(kind).validate_python(table[part] if part else table)


def object_of(package: str, template: str, /, **words: object) -> dict[str, Any]:
    """Fill in the words in braces of an object in a room's `objects.yaml`.

    A text of one word alone becomes the value of the word; None removes its key. The mapping at
    `...` adds its keys to those around it.
    """
    templates = read_table(str(sys.modules[package].__file__), "objects")
    return cast("dict[str, Any]", _filled(templates[template], words))


def _filled(value: object, words: Mapping[str, object]) -> object:
    if isinstance(value, str):
        word = value[1:-1]
        return words[word] if value == f"{{{word}}}" and word in words else value.format(**words)
    if isinstance(value, list):
        return [_filled(item, words) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    found: dict[str, object] = {}
    for key, item in cast("dict[str, object]", value).items():
        made = _filled(item, words)
        found |= cast("dict[str, object]", made) if key == _SPREAD else {key: made}
    return {key: item for key, item in found.items() if item is not None}
