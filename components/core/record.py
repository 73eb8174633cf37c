"""`record`, the decorator of classes that only hold values.

`dataclasses` compiles six functions for each frozen class, and a command loads a hundred such
classes: that took an eighth of the time of `check`. Records share all of them but `__init__`.
`field` and `replace` are those of `dataclasses`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, ClassVar, Final, Protocol, TypeVar, dataclass_transform

__all__ = ["field", "record", "replace"]
RecordT = TypeVar("RecordT")


class _Record(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]
    __compared__: ClassVar[Callable[[object], object]]
    """Returns the values by which two records are compared."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(body: type[RecordT]) -> type[RecordT]:
    """Make a dataclass with slots that is compared, hashed and shown by its fields.

    The type checker refuses to assign to a field; Python itself does not. `replace`, `fields` and
    `asdict` of `dataclasses` work as usual, and a method that the class defines itself stays.
    """
    made: Any = dataclass(slots=True, eq=False, repr=False)(body)
    names = [each.name for each in fields(made) if each.compare]
    made.__compared__ = attrgetter(*names) if names else type
    for name, method in _SHARED.items():
        if name not in body.__dict__:
            setattr(made, name, method)
    return made


def _is_equal(self: _Record, other: object) -> bool:
    if type(other) is not type(self):
        return NotImplemented
    compared = type(self).__compared__
    return compared(self) == compared(other)


def _hash(self: _Record) -> int:
    return hash(type(self).__compared__(self))


def _show(self: _Record) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


_SHARED: Final = {"__eq__": _is_equal, "__hash__": _hash, "__repr__": _show}
