"""Find the part of the model that owns a value, the documentation of a key, and unions.

pydantic can take the documentation into its fields (`use_attribute_docstrings`), but then reads the
source of every class at import: a third of the time of `railyard check`.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias, cast, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from components.core.problem import Json, SpecPath

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Owner: TypeAlias = "type[BaseModel] | None"
"""The model with the refused value as one of its keys."""
NO_KIND: Final = "no_kind_of_union"
"""Error type of a value that fits no kind of a union; `kinds` has pydantic's own errors."""
_KIND: Final = re.compile(r"(literal|tuple)\[.*\]")
"""Pydantic's name for a kind of a union without a tag; such a union has a word and a list."""


@cache
def docs_of(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the documentation of each key on one line; keys without a docstring are omitted."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            found |= _classes_of(kind.__module__).get(kind.__name__, {})
    return found


@cache
def _classes_of(module: str) -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    for node in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
        keys = found[node.name] = {}
        for key, text in zip(node.body, node.body[1:], strict=False):
            match key, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    keys[name] = inspect.cleandoc(words)
                case _:
                    pass
    return found


def owner_of(detail: ErrorDetails, model: type[BaseModel]) -> tuple[SpecPath, Owner]:
    """Return the place of a refused value in the file, and the model with it as a key.

    Pydantic's location includes the chosen member of a union (`environment.esxi.vms`), which the
    file does not; and it places a wrong choice of the member at the union itself.
    """
    path: list[str | int] = []
    members: tuple[type[BaseModel], ...] = (model,)
    owners = members
    location = [item for item in detail["loc"] if item != "[key]"]
    if detail["type"].startswith("union_tag"):
        location += quoted_words(detail.get("ctx", {}).get("discriminator"))
    for item in location:
        if len(members) > 1 and (chosen := tagged(members, item)):
            members = chosen
            continue
        path.append(item)
        owners = members
        if isinstance(item, str):
            members = models_at(next(iter(members), None), (item,), members)
    return tuple(path), owners[0] if owners else None


def models_at(
    owner: Owner, path: SpecPath, otherwise: tuple[type[BaseModel], ...] = ()
) -> tuple[type[BaseModel], ...]:
    """Return the models that a key may hold; `otherwise` if the key is the name of an entry."""
    for item in path:
        if owner is not None and isinstance(item, str) and item in owner.model_fields:
            return models_in(owner.model_fields[item].annotation)
    return otherwise


def tagged(members: tuple[type[BaseModel], ...], tag: object) -> tuple[type[BaseModel], ...]:
    """Return the members of a union that allow a tag."""
    return tuple(member for member in members if tag in _tags_of(member))


@cache
def _tags_of(member: type[BaseModel]) -> tuple[object, ...]:
    fields = member.model_fields.values()
    return tuple(choice for info in fields for choice in get_args(info.annotation))


@cache
def models_in(annotation: object) -> tuple[type[BaseModel], ...]:
    """Return the models in an annotation: itself, or inside a tuple, dict or union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(found for part in get_args(annotation) for found in models_in(part))


def pattern_of(owner: Owner, key: str) -> str:
    """Return the pattern for the texts of a key or for the items of its list; else empty."""
    info = owner.model_fields.get(key) if owner else None
    return next(_patterns_in(info), "")


def _patterns_in(annotation: object) -> Iterator[str]:
    pattern = getattr(annotation, "pattern", None)
    if isinstance(pattern, str):
        yield pattern
    parts = get_args(annotation)
    if isinstance(annotation, FieldInfo):
        parts = (annotation.annotation, *annotation.metadata)
    for part in parts:
        yield from _patterns_in(part)


def member_for(members: tuple[type[BaseModel], ...], value: Json) -> Owner:
    """Return the member of a union that a value chooses by its tag."""
    if len(members) < len("ab"):
        return members[0] if members else None
    tags = value.values() if isinstance(value, dict) else ()
    chosen = next((found for tag in tags if (found := tagged(members, tag))), members)
    return chosen[0] if chosen else None


def quoted_words(text: object) -> list[str]:
    """The words in quotes in one of pydantic's texts."""
    return re.findall(r"'([^']*)'", str(text))


def settle_unions(details: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Reduce the errors of a union of a word and a list to those of the kind that the user meant.

    Faults of a list's entries count alone. If the value itself is wrong, one error replaces all.
    Locations lose pydantic's name for a kind.
    """
    settled: list[ErrorDetails] = []
    unions: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
    for detail in details:
        loc = detail["loc"]
        place = next((n for n, each in enumerate(loc) if _KIND.fullmatch(str(each))), None)
        if place is None:
            settled.append(detail)
        else:
            unions.setdefault(loc[:place], []).append(detail)
    for loc, refused in unions.items():
        below = len(loc) + 1
        inside = [each for each in refused if each["loc"][below:]]
        whole = {**refused[0], "type": NO_KIND, "loc": loc, "ctx": {"kinds": refused}}
        found = [{**each, "loc": (*loc, *each["loc"][below:])} for each in inside] or [whole]
        settled += cast("list[ErrorDetails]", found)
    return settled
