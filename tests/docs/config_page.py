"""The reference page of the site file, generated from the model's own docstrings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from components.core.problem import Json
from components.model.cluster import SiteFile
from components.model.hosts import Host
from components.reading.schema import render_schema

ROOT_NAME = SiteFile.__name__

_HEAD = """\
# The site file

The keys of a `site.yaml`, which a stack names by `railyard:site`. A small site can also be the
value of `railyard:cluster` in `Pulumi.<stack>.yaml`. Each key has its kind, its default, or
*required*. Any other key is an error. `railyard schema` prints the same as a JSON schema, and
`examples/dgx-roce/site.yaml` is a complete file. This page is generated from the docstrings of
`components/model/`.
"""

_WHOLE = {f"Host{name}": name for name in ("Ssh", "Nic", "HcaPf")}
"""Parts of a host that need not be whole, because a template brings the rest."""

Table = Mapping[str, Json]


def _mapping(value: Json) -> Table:
    assert isinstance(value, dict)
    return value


def _linked(name: str) -> str:
    name = _WHOLE.get(name, name)
    return f"[{name}](#{name.lower()})"


def _one_line(text: Json) -> str:
    return " ".join(str(text or "").split())


def _limits(part: Table) -> str:
    words = {
        "minimum": "at least {}",
        "maximum": "at most {}",
        "exclusiveMinimum": "more than {}",
        "exclusiveMaximum": "less than {}",
        "multipleOf": "a multiple of {}",
    }
    return ", ".join(text.format(part[key]) for key, text in words.items() if key in part)


def _kind(part: Table) -> str:
    if part.get("$ref") == "#/$defs/JsonValue":
        return "any value"
    if "$ref" in part:
        return _linked(str(part["$ref"]).rsplit("/", 1)[-1])
    union = part.get("anyOf", part.get("oneOf"))
    if union is not None:
        choices = [_mapping(item) for item in cast("list[Json]", union)]
        kinds = (_kind(item) for item in choices if item.get("type") != "null")
        return " or ".join(dict.fromkeys(kinds))  # a range of texts is a text too
    words = [part["const"]] if "const" in part else cast("list[Json]", part.get("enum", []))
    return ", ".join(f"`{word}`" for word in words) or _kind_of_type(part)


def _kind_of_type(part: Table) -> str:
    if part.get("type") == "array":
        return f"list of {_kind(_mapping(part['items']))}"
    if part.get("type") == "object":
        inner = part.get("additionalProperties") or _first_pattern(part)
        return f"mapping of names to {_kind(_mapping(inner))}"
    names = {"integer": "whole number", "number": "number", "boolean": "true or false"}
    kind = names.get(str(part.get("type")), "text")
    limits = _limits(part)
    return f"{kind}, {limits}" if limits else kind


def _first_pattern(part: Table) -> Json:
    return next(iter(_mapping(part["patternProperties"]).values()))


def _default(part: Table, *, required: bool) -> str:
    if required:
        return ", *required*"
    value = part.get("default")
    if value is None or value == [] or isinstance(value, dict):
        return ""
    return f", default `{str(value).lower() if isinstance(value, bool) else value}`"


def _section(name: str, schema: Table) -> list[str]:
    required = cast("list[Json]", schema.get("required", []))
    lines = [f"## {name}", "", _one_line(schema.get("description")), ""]
    for key, value in _mapping(schema["properties"]).items():
        if name == "HostTemplate" and key in Host.model_fields:
            continue  # those of a host
        part = _mapping(value)
        default = _default(part, required=key in required)
        text = _one_line(part.get("description"))
        lines.append(f"- `{key}` ({_kind(part)}{default}){f': {text}' if text else ''}")
    return [*lines, ""]


def render_config_page() -> str:
    """Write the page: the site first, then its parts by name."""
    schema = render_schema()
    parts = _mapping(schema["$defs"])
    lines = [_HEAD, *_section(ROOT_NAME, schema)]
    for name in sorted(parts):
        if (
            "properties" in _mapping(parts[name]) and name not in _WHOLE
        ):  # `JsonValue` is any value of a chart
            lines += _section(name, _mapping(parts[name]))
    return "\n".join(lines).rstrip() + "\n"
