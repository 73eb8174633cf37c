"""Values of the wrong kind: meanings of YAML words, conversions by pydantic, stand-ins.

`yes` and `on` are words, `0o17` is 15, `1.30` is a number, whichever reader found the word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from ipaddress import IPv4Address, IPv4Network
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue, ValidationError

from components.core.problem import Finding, Json, SpecPath
from components.core.templates import typed_table
from components.reading.members import member_for, models_in, owner_of
from components.reading.wording import mended, wrong_type

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

TAG: Final = "tag:yaml.org,2002:"
_INT: Final = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9_]+)")
_FLOAT: Final = re.compile(
    r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)"
    r"|\.[0-9_]+(?:[eE][-+][0-9]+)?)"
)
_NUMBER_STARTS: Final = frozenset("-+.0123456789")
_WORDS: Final[dict[str, Json]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_SCALARS: Final[tuple[tuple[type, tuple[type, ...], str], ...]] = (
    (bool, (bool,), "true or false"),
    (int, (int,), "a whole number"),
    (float, (int, float), "a number"),
    (IPv4Network, (str,), "an IPv4 network such as 10.10.111.0/24"),
    (IPv4Address, (str,), "an IPv4 address such as 10.10.111.1"),
)
"""A type of the model, the types of its values in the file, and both in words."""
_EXAMPLES: Final = typed_table(tuple[JsonValue, ...], __file__)
"""One for each kind of value: name, number, PCI address, network, cable, checksum, path, releases,
host key, resource, image, address, location, memory, and lists that must not be empty."""


def plain_scalar(text: str) -> Json:
    """Return the value of a word without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMBER_STARTS:
        if _INT.fullmatch(text):
            return _number("int", text)
        if _FLOAT.fullmatch(text):
            return _number("float", text)
    return text


def tagged_scalar(tag: str, text: str) -> Json:
    """Return the value of a word after a tag, `!!int "5"`; an unknown tag gives text."""
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() == "true"
    return _number(tag, text)


def _number(tag: str, text: str) -> Json:
    """Convert the text to a number if possible; `017` and thousands of digits stay text."""
    digits = text.replace("_", "")
    try:
        if tag == "int":
            return int(digits, 0)
        return float(digits) if tag == "float" else text
    except ValueError:
        return text


def find_loose_types(annotation: object, value: Json, path: SpecPath = ()) -> Iterator[Finding]:
    """Find numbers written as text and the like, which pydantic would quietly convert.

    A quoted number is a number for pydantic, and `true` is 1; in a file that people review, a
    value of the wrong kind is a slip.
    """
    kinds = _kinds_of(annotation)
    if isinstance(value, list) and tuple in kinds:
        for index, item in enumerate(value):
            yield from find_loose_types(kinds[tuple][0], item, (*path, index))
        return
    if isinstance(value, dict) and (dict in kinds or models_in(annotation)):
        owner = None if dict in kinds else member_for(models_in(annotation), value)
        for key, item in value.items():
            info = owner.model_fields.get(key) if owner else None
            below = info.annotation if info else kinds.get(dict, (None, None))[1]
            if below is not None and item is not None:
                yield from find_loose_types(below, item, (*path, key))
        return
    yield from _loose_scalar(kinds, value, path)


def _loose_scalar(
    kinds: Mapping[object, tuple[object, ...]], value: Json, path: SpecPath
) -> Iterator[Finding]:
    choices = kinds.get(Literal, ())
    if isinstance(value, bool) and value in choices and all(each is not value for each in choices):
        yield wrong_type(path, value, "a whole number")
    for kind, accepted, wanted in _SCALARS:
        if kind in kinds and type(value) not in accepted:  # a bool is no int here
            yield wrong_type(path, value, wanted)


@cache
def _kinds_of(annotation: object) -> Mapping[object, tuple[object, ...]]:
    """Return the kinds that an annotation allows, each with its arguments."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kinds_of(args[0])
    if origin in {Union, UnionType}:
        return {kind: inner for part in args for kind, inner in _kinds_of(part).items()}
    return {origin or annotation: args}


def find_stand_in(path: SpecPath, detail: ErrorDetails, model: type[BaseModel]) -> Json:
    """Choose a value that the model accepts in place of the refused one; None if none fits."""
    owner, names = owner_of(detail, model)[1], [item for item in path if isinstance(item, str)]
    key = names[-1] if names else ""
    if owner is None or key not in owner.model_fields:
        return None
    choices = get_args(owner.model_fields[key].annotation)
    words = (choice for choice in choices if isinstance(choice, str))
    for value in filter(None, (mended(detail), *words, *_EXAMPLES)):
        try:
            owner.model_validate({key: [value] if isinstance(path[-1], int) else value})
        except ValidationError as error:
            if any(part["loc"][:1] == (key,) for part in error.errors()):
                continue
        return value
    return None


def replace_wrong(
    value: Json, wrong: frozenset[SpecPath], stand_ins: Mapping[SpecPath, Json], path: SpecPath = ()
) -> Json:
    """Copy a value without its wrong parts; a stand-in replaces a part if there is one."""
    if isinstance(value, dict):
        kept = {
            key: replace_wrong(item, wrong, stand_ins, (*path, key))
            for key, item in value.items()
            if (*path, key) not in wrong
        }
        return kept | {str(p[-1]): item for p, item in stand_ins.items() if p and p[:-1] == path}
    if isinstance(value, list):
        # List positions stay, so that the paths of the rest stay true.
        places = [(*path, number) for number in range(len(value))]
        return [
            stand_ins[at] if at in stand_ins else replace_wrong(item, wrong, stand_ins, at)
            for at, item in zip(places, value, strict=True)
        ]
    return value
