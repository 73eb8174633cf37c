"""Which part of the model a value of the file belongs to, through lists and unions."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Annotated, TypeAlias, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from components.core.problem import Json, SpecPath

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Owner: TypeAlias = "type[BaseModel] | None"
"""The model that has a refused value as one of its keys."""


def owner_of(detail: ErrorDetails, model: type[BaseModel]) -> tuple[SpecPath, Owner]:
    """The place of a refused value in the file, and the model that has it as a key.

    Pydantic's location names the member of a union that it chose (`environment.esxi.vms`), which
    the file does not; and it places a wrong choice of the member at the union itself.
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
        members = (
            members
            if isinstance(item, int)
            else models_at(next(iter(members), None), (item,), members)
        )
    return tuple(path), owners[0] if owners else None


def models_at(
    owner: Owner, path: SpecPath, otherwise: tuple[type[BaseModel], ...] = ()
) -> tuple[type[BaseModel], ...]:
    """The models that a key may hold; `otherwise` where it is the name of an entry."""
    for item in path:
        if owner is not None and isinstance(item, str) and item in owner.model_fields:
            return models_in(owner.model_fields[item].annotation)
    return otherwise


def tagged(members: tuple[type[BaseModel], ...], tag: object) -> tuple[type[BaseModel], ...]:
    """The members of a union that have a tag among their choices."""
    return tuple(member for member in members if tag in _tags_of(member))


@cache
def _tags_of(member: type[BaseModel]) -> tuple[object, ...]:
    """All choices of all its keys."""
    fields = member.model_fields.values()
    return tuple(choice for info in fields for choice in get_args(info.annotation))


@cache
def models_in(annotation: object) -> tuple[type[BaseModel], ...]:
    """The models that an annotation is about: itself, or inside a tuple, dict, union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(found for part in get_args(annotation) for found in models_in(part))


def pattern_of(owner: Owner, key: str) -> str:
    """The pattern of the texts that a key holds, or that are the items of its list; else empty."""
    info = owner.model_fields.get(key) if owner else None
    return _pattern_in(Annotated[info.annotation, info]) if info else ""


def _pattern_in(annotation: object) -> str:
    if isinstance(annotation, FieldInfo):
        return next((found for each in annotation.metadata if (found := _pattern_in(each))), "")
    pattern = getattr(annotation, "pattern", None)
    if isinstance(pattern, str):
        return pattern
    return next((found for part in get_args(annotation) if (found := _pattern_in(part))), "")


def member_for(members: tuple[type[BaseModel], ...], value: Json) -> Owner:
    """The member of a union that a value says it is."""
    if len(members) < len("ab"):
        return members[0] if members else None
    tags = value.values() if isinstance(value, dict) else ()
    chosen = next((found for tag in tags if (found := tagged(members, tag))), members)
    return chosen[0] if chosen else None


def quoted_words(text: object) -> list[str]:
    """The words in quotes in one of pydantic's texts."""
    return re.findall(r"'([^']*)'", str(text))
