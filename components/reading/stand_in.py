"""A valid value in the place of a wrong one, so that the rules can run on the rest of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, get_args

from pydantic import BaseModel, ValidationError

from components.core.problem import Json, SpecPath
from components.reading.members import owner_of
from components.reading.wording import mended

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_EXAMPLES: Final[tuple[Json, ...]] = (
    "stand-in",
    1,
    "0000:00:00.0",
    "192.0.2.0/24",
    "stand-in/stand-in",
    "0" * 64,
    "/stand-in",
    "v1.0.0+k3s1",
    "8.0",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "stand_in",
    "stand-in:1.0",
    "192.0.2.1",
    "us-east1-a",
    4096,
    ["192.0.2.0/24"],
    [{"name": "stand-in", "gpu": "0000:00:00.0", "nic": "0000:00:00.0", "memory_mib": 4096}],
)
"""One for each kind of value: name, number, PCI address, network, cable, checksum, path, releases,
host key, resource, image, address, location, memory, and lists that must not be empty."""


def find_stand_in(path: SpecPath, detail: ErrorDetails, model: type[BaseModel]) -> Json:
    """Choose a value that the model takes where it refused the user's.

    Returns:
        The value, or None where there is none as simple as that.
    """
    owner, names = owner_of(detail, model)[1], [item for item in path if isinstance(item, str)]
    key = names[-1] if names else ""
    if owner is None or key not in owner.model_fields:
        return None
    in_list = isinstance(path[-1], int)
    for value in _candidates(owner, key, detail):
        if _takes(owner, key, [value] if in_list else value):
            return value
    return None


def _candidates(owner: type[BaseModel], key: str, detail: ErrorDetails) -> Iterator[Json]:
    yield mended(detail)
    annotation: object = owner.model_fields[key].annotation
    yield from (choice for choice in get_args(annotation) if isinstance(choice, str))
    yield from _EXAMPLES


def _takes(owner: type[BaseModel], key: str, value: Json) -> bool:
    try:
        owner.model_validate({key: value})
    except ValidationError as error:
        return value is not None and all(part["loc"][:1] != (key,) for part in error.errors())
    return value is not None


def replace_wrong(
    value: Json, wrong: frozenset[SpecPath], stand_ins: Mapping[SpecPath, Json]
) -> Json:
    """Copy a value without its wrong parts; where there is a stand-in, it takes their place."""
    return _replaced(value, wrong, stand_ins, ())


def _replaced(
    value: Json, wrong: frozenset[SpecPath], stand_ins: Mapping[SpecPath, Json], path: SpecPath
) -> Json:
    if isinstance(value, dict):
        kept = {
            key: _replaced(item, wrong, stand_ins, (*path, key))
            for key, item in value.items()
            if (*path, key) not in wrong
        }
        new = {str(p[-1]): item for p, item in stand_ins.items() if p and p[:-1] == path}
        return kept | new
    if isinstance(value, list):
        # List positions stay, so that the paths of the rest stay true.
        places = [(*path, number) for number in range(len(value))]
        return [
            stand_ins[place] if place in stand_ins else _replaced(item, wrong, stand_ins, place)
            for place, item in zip(places, value, strict=True)
        ]
    return value
