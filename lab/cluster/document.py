"""JSON documents of the Kubernetes API, read without guessing at their types.

The API answers with nested mappings. These accessors turn a path into a value of a known type, and
answer with an empty value where the path does not exist, as `jq`'s optional operators do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Doc: TypeAlias = "dict[str, Json]"


def as_doc(value: object) -> Doc:
    """Read a value as a mapping; anything else is an empty one."""
    return cast("Doc", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Json]:
    """Read a value as a list; anything else is an empty one."""
    return cast("list[Json]", value) if isinstance(value, list) else []


def at(doc: Json, *path: str) -> Json:
    """Read the value at a path of keys, or None where one of them does not exist."""
    value = doc
    for key in path:
        value = as_doc(value).get(key)
    return value


def doc_at(doc: Json, *path: str) -> Doc:
    """Read the mapping at a path; an empty one where there is none."""
    return as_doc(at(doc, *path))


def text_at(doc: Json, *path: str) -> str:
    """Read the text at a path; an empty one where there is none."""
    value = at(doc, *path)
    return value if isinstance(value, str) else ""


def number_at(doc: Json, *path: str) -> int:
    """Read the integer at a path (a quantity such as `"8"` too); 0 where there is none."""
    value = at(doc, *path)
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdigit() else 0


def docs_at(doc: Json, *path: str) -> list[Doc]:
    """Read the list of mappings at a path; an empty one where there is none."""
    return [as_doc(item) for item in as_list(at(doc, *path))]


def texts_at(doc: Json, *path: str) -> tuple[str, ...]:
    """Read the list of texts at a path; a single text counts as a list of one."""
    value = at(doc, *path)
    if isinstance(value, str):
        return (value,)
    return tuple(item for item in as_list(value) if isinstance(item, str))


def pairs_at(doc: Json, *path: str) -> dict[str, str]:
    """Read a mapping of texts at a path, such as labels or annotations."""
    return {key: val for key, val in doc_at(doc, *path).items() if isinstance(val, str)}


def name_of(doc: Json) -> str:
    """Read `metadata.name`."""
    return text_at(doc, "metadata", "name")


def namespace_of(doc: Json) -> str:
    """Read `metadata.namespace`; empty for a cluster-scoped object."""
    return text_at(doc, "metadata", "namespace")


def env_of(container: Json) -> dict[str, str]:
    """Read the plain environment of a container (values from references are left out)."""
    return {
        text_at(item, "name"): text_at(item, "value")
        for item in docs_at(container, "env")
        if "value" in item
    }


def command_of(container: Json) -> Sequence[str]:
    """Read what a container runs: `command` followed by `args`."""
    return (*texts_at(container, "command"), *texts_at(container, "args"))
