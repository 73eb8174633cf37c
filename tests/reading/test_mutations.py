"""Whatever is done to a good file, loading it gives a spec or a report with lines."""

from __future__ import annotations

import copy
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.checks.render import render_reports, render_text
from components.checks.site import check_loaded
from components.core.problem import Json, SpecPath
from components.reading.load import Loaded, load_config_value, parse_site
from components.reading.yaml_text import parse_yaml
from tests.reading.test_load import EXAMPLE

TEXT = EXAMPLE.read_text(encoding="utf-8")
VALUE = parse_yaml(TEXT, "site.yaml").value
_ODD: st.SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["gpu01/rail-0", "10.0.0.0/33", "ssh-rsa AAAA", "9" * 5000, "1/1", "rail-1", "a" * 63]
    ),
    st.builds(lambda: cast("Json", [])),  # a new one each time: put into itself, it has no end
    st.builds(lambda: cast("Json", {})),
    st.builds(lambda: cast("Json", {"secret": "x"})),
)


def _paths(value: Json, path: SpecPath = ()) -> list[SpecPath]:
    found: list[SpecPath] = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += _paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += _paths(item, (*path, index))
    return found


PATHS = _paths(VALUE)
SITES = {
    f"{file.parent.name}/{file.stem}": parse_yaml(file.read_text(encoding="utf-8"), file.name).value
    for file in sorted(EXAMPLE.parents[1].glob("*/*.yaml"))
}
_PATH_OF = {site: st.sampled_from(_paths(value)) for site, value in SITES.items()}
_INTERNALS = ("tuple[", "literal[", "function-", "Input should", "validator")


def _change(value: Json, path: SpecPath, new: Json, how: str) -> None:
    owner = value
    for item in path[:-1]:
        if isinstance(owner, dict):
            owner = owner.get(str(item))
        elif isinstance(owner, list) and isinstance(item, int) and item < len(owner):
            owner = owner[item]
    last = path[-1]
    if isinstance(owner, dict):
        if how == "remove":
            owner.pop(str(last), None)
        else:
            owner[str(last) if how == "replace" else f"{last}x"] = new
    elif isinstance(owner, list) and isinstance(last, int) and last < len(owner):
        if how == "remove":
            del owner[last]
        else:
            owner[last] = new


def _assert_reported(loaded: Loaded, *, lines: bool) -> None:
    checked = check_loaded(loaded, "site.yaml")
    errors = [problem for problem in checked.problems if problem.severity == "error"]
    assert (checked.spec is None) == bool(errors)
    assert render_text(checked.problems)
    assert render_reports([("site.yaml", checked.problems, ())])
    for problem in checked.problems:
        assert not any(word in problem.what + problem.fix for word in _INTERNALS), problem
        assert problem.where
        assert problem.fix
        if lines:
            assert all(place.line for place in problem.where), problem


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.sampled_from(PATHS), _ODD, st.sampled_from(["replace", "remove", "add"])),
        min_size=1,
        max_size=4,
    )
)
def test_changed_values_load_or_are_reported(edits: list[tuple[SpecPath, Json, str]]) -> None:
    value = copy.deepcopy(VALUE)
    for path, new, how in edits:
        _change(value, path, new, how)
    _assert_reported(load_config_value(value, None), lines=False)


@pytest.mark.parametrize("site", SITES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_changed_value_of_any_example_loads_or_is_reported(
    site: str, data: st.DataObject
) -> None:
    value = copy.deepcopy(SITES[site])
    path = data.draw(_PATH_OF[site])
    how = data.draw(st.sampled_from(["replace", "remove", "add"]))
    _change(value, path, data.draw(_ODD), how)
    _assert_reported(load_config_value(value, None), lines=False)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, len(TEXT) - 1),
    st.integers(0, 30),
    st.one_of(st.text(max_size=6), st.sampled_from(["\n", ": ", "- ", "{", "]", "&a", "*a", "'"])),
)
def test_changed_text_loads_or_is_reported(start: int, length: int, new: str) -> None:
    text = TEXT[:start] + new + TEXT[start + length :]
    _assert_reported(parse_site(text, "site.yaml"), lines=True)
