"""A value that may be of several kinds is refused once, in words."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from components.core.problem import Finding, SpecPath
from components.model.cluster import ClusterSpec
from components.model.infiniband import IbPartition
from components.model.units import Frozen
from components.reading.members import models_in, settle_unions
from components.reading.wording import word_error


class _Inner(Frozen):
    size: int


class _Outer(Frozen):
    several: Literal["all", "none"] | tuple[_Inner, ...] = "all"
    optional: _Inner | None = None


def _words(model: type[BaseModel], value: object) -> list[tuple[SpecPath, Finding]]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(value)
    settled = settle_unions(caught.value.errors(include_url=False))
    return [word_error(detail, model) for detail in settled]


NOTHING: dict[str, object] = {}
_REFUSED: tuple[tuple[object, SpecPath, str, str], ...] = (
    ({"several": "al"}, ("several",), "unknown-choice", "write all or none or"),
    ({"several": None}, ("several",), "unknown-choice", "write all or none or a list"),
    ({"several": NOTHING}, ("several",), "unknown-choice", "write all or none or a list"),
    ({"several": [NOTHING]}, ("several", 0, "size"), "missing-key", "add `size:`"),
    ({"several": [{"size": "x"}]}, ("several", 0, "size"), "wrong-type", "a whole number"),
    ({"several": [7]}, ("several", 0), "wrong-type", "a mapping"),
    ({"optional": 5}, ("optional",), "wrong-type", "a mapping"),
)


@pytest.mark.parametrize(("value", "path", "rule", "fix"), _REFUSED)
def test_one_refusal_for_one_value(value: object, path: SpecPath, rule: str, fix: str) -> None:
    ((found, problem),) = _words(_Outer, value)
    assert (found, problem.rule) == (path, rule)
    assert problem.where[0].path == path
    assert fix in problem.fix


def test_each_wrong_item_of_a_list_is_told() -> None:
    members = ["gpu01", 5, {"host": "GPU"}, {"host": "gpu02", "kind": "full"}]
    found = _words(IbPartition, {"name": "a", "pkey": 1, "members": members})
    assert [path for path, _ in found] == [
        ("members", 1),
        ("members", 2, "host"),
        ("members", 3, "kind"),
    ]


def test_other_refusals_stay_as_they_are() -> None:
    found = _words(_Outer, {"several": "x", "optional": {}, "strange": 1})
    assert {path for path, _ in found} == {("several",), ("optional", "size"), ("strange",)}


def _annotations(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[object]:
    if model in seen:
        return
    seen.add(model)
    for info in model.model_fields.values():
        yield info.annotation
        for inner in models_in(info.annotation):
            yield from _annotations(inner, seen)


def _unions(annotation: object) -> Iterator[tuple[object, ...]]:
    """The kinds of each union below an annotation, apart from `X | None`."""
    args = tuple(arg for arg in get_args(annotation) if arg is not type(None))
    if get_origin(annotation) in {Union, UnionType} and len(args) > 1:
        yield args
    for arg in args:
        yield from _unions(arg)


def test_a_union_of_the_model_is_of_mappings_or_of_a_word_and_a_list() -> None:
    """`settle_unions` knows only the second form; a mapping chooses its kind by a tag."""
    found = [each for part in _annotations(ClusterSpec, set()) for each in _unions(part)]
    others = [kinds for kinds in found if not all(models_in(kind) == (kind,) for kind in kinds)]
    assert others
    assert {tuple(map(get_origin, kinds)) for kinds in others} == {(Literal, tuple)}
