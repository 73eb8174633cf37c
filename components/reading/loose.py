"""Values of the wrong kind that pydantic would quietly convert."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from ipaddress import IPv4Address, IPv4Network
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Final, Literal, Union, get_args, get_origin

from components.reading.members import member_for, models_in
from components.reading.wording import wrong_type

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from components.core.problem import Json, Problem, SpecPath


def find_loose_types(model: type[BaseModel], value: Json) -> tuple[Problem, ...]:
    """Find numbers written as text and the like, which pydantic would quietly convert.

    A quoted number is a number for pydantic, and `true` is 1; in a file that people review, a
    value of the wrong kind is a slip.
    """
    return tuple(_loose(model, value, ()))


def _loose(model: type[BaseModel], value: Json, path: SpecPath) -> Iterator[Problem]:
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        info = model.model_fields.get(key)
        if info is not None and item is not None:
            yield from _loose_field(info, item, (*path, key))


def _loose_field(info: FieldInfo, value: Json, path: SpecPath) -> Iterator[Problem]:
    annotation: object = info.annotation
    members = models_in(annotation)
    inner = member_for(members, value)
    if inner is None:
        yield from _loose_scalar(annotation, value, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _loose(member_for(members, item) or inner, item, (*path, index))
    elif isinstance(value, dict) and getattr(annotation, "__origin__", None) is dict:
        for key, item in value.items():
            yield from _loose(inner, item, (*path, key))
    else:
        yield from _loose(inner, value, path)


def _loose_scalar(annotation: object, value: Json, path: SpecPath) -> Iterator[Problem]:
    kinds = _kinds_of(annotation)
    lists = [kind for kind in kinds if get_origin(kind) is tuple]
    if lists and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _loose_scalar(get_args(lists[0])[0], item, (*path, index))
        return
    choices = [each for kind in kinds if get_origin(kind) is Literal for each in get_args(kind)]
    if isinstance(value, bool) and value in choices and all(each is not value for each in choices):
        yield wrong_type(path, value, "a whole number")
    for kind, accepts, wanted in _SCALARS:
        if kind in kinds and not accepts(value):
            yield wrong_type(path, value, wanted)


@cache
def _kinds_of(annotation: object) -> tuple[object, ...]:
    """The kinds that an annotation allows, without what is said of each of them."""
    if get_origin(annotation) is Annotated:
        return _kinds_of(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return tuple(kind for part in get_args(annotation) for kind in _kinds_of(part))
    return (annotation,)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_bool(value: Json) -> bool:
    return isinstance(value, bool)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


_SCALARS: Final[tuple[tuple[type, Callable[[Json], bool], str], ...]] = (
    (bool, _is_bool, "true or false"),
    (int, _is_whole, "a whole number"),
    (float, _is_number, "a number"),
    (IPv4Network, _is_text, "an IPv4 network such as 10.10.111.0/24"),
    (IPv4Address, _is_text, "an IPv4 address such as 10.10.111.1"),
)
