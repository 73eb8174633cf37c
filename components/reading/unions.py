"""One refusal for a value that may be of several kinds: pydantic gives one for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Final, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from components.reading.members import models_in, tagged

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

NO_KIND: Final = "no_kind_of_union"
"""Type of the refusal of a value that is of none of the kinds; `kinds` has pydantic's own ones."""


def settle_unions(details: Sequence[ErrorDetails], model: type[BaseModel]) -> list[ErrorDetails]:
    """Leave, of a value's refusals by the kinds of a union, those of the kind that was meant.

    That is the kind which took the value and refused something in it. Where each kind refused the
    value itself, one refusal says so. Locations lose the name that pydantic gives to a kind. A
    union inside of another one is not looked for: the model has none.
    """
    settled: list[ErrorDetails] = []
    unions: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
    for detail in details:
        place = _union_of(model, detail["loc"])
        if place is None:
            settled.append(detail)
        else:
            unions.setdefault(detail["loc"][:place], []).append(detail)
    for loc, refused in unions.items():
        settled += _meant(loc, refused)
    return settled


def _meant(loc: tuple[str | int, ...], refused: list[ErrorDetails]) -> Iterator[ErrorDetails]:
    place = len(loc)
    inside = [detail for detail in refused if len(detail["loc"]) > place + 1]
    kind = inside[0]["loc"][place] if inside else None
    for detail in inside:
        if detail["loc"][place] == kind:
            shorter = (*loc, *detail["loc"][place + 1 :])
            yield cast("ErrorDetails", {**detail, "loc": shorter})
    if not inside:
        whole = {"type": NO_KIND, "loc": loc, "msg": "", "input": refused[0]["input"]}
        yield cast("ErrorDetails", {**whole, "ctx": {"kinds": tuple(refused)}})


def _union_of(model: type[BaseModel], loc: tuple[str | int, ...]) -> int | None:
    """Where in a location the name of a kind is; None where no union without a tag is."""
    annotation: object = model
    for place, item in enumerate(loc):
        kinds, by_tag = _kinds(annotation)
        if len(kinds) > 1 and not by_tag:
            return place
        if len(kinds) > 1:
            annotation = next(iter(tagged(models_in(annotation), item)), None)
        else:
            annotation = _below(kinds[0], item)
    return None


def _kinds(annotation: object) -> tuple[list[object], bool]:
    """What a value may be, apart from nothing, and whether a key of it says which."""
    by_tag = False
    while True:
        origin, args = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            by_tag = by_tag or any(isinstance(m, FieldInfo) and m.discriminator for m in args[1:])
            annotation = args[0]
        elif origin in {Union, UnionType}:
            kinds = [each for each in args if each is not type(None)]
            if len(kinds) > 1:
                return kinds, by_tag
            annotation = kinds[0]
        else:
            return [annotation], by_tag


def _below(kind: object, item: str | int) -> object:
    """The annotation of a key or an item; None where there is none."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        info = kind.model_fields.get(str(item))
        return Annotated[info.annotation, info] if info else None
    origin, args = get_origin(kind), get_args(kind)
    if origin in {tuple, dict} and args:
        return args[0] if origin is tuple else args[1]
    return None
