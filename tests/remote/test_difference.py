from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from components.core.difference import ABSENT, Difference, diff_settings

KEYS = st.tuples(st.sampled_from(["port 1/1", "port 1/2", "switch"]), st.sampled_from("abc"))
STATES = st.dictionaries(KEYS, st.sampled_from(["1", "2", "on"]))


def test_words_of_a_difference() -> None:
    difference = Difference("port 1/2", "mtu_bytes", "1500", "9216")
    assert str(difference) == "mtu_bytes of port 1/2 is 1500, want 9216"


@given(state=STATES)
def test_a_state_does_not_differ_from_itself(state: dict[tuple[str, str], str]) -> None:
    assert diff_settings(state, state) == ()


@given(actual=STATES, desired=STATES)
def test_setting_what_differs_makes_the_next_diff_empty(
    actual: dict[tuple[str, str], str], desired: dict[tuple[str, str], str]
) -> None:
    changes = diff_settings(actual, desired)
    after = actual | {(each.where, each.setting): each.desired for each in changes}
    assert diff_settings(after, desired) == ()
    assert {key: value for key, value in after.items() if key not in desired} == {
        key: value for key, value in actual.items() if key not in desired
    }


@given(actual=STATES, desired=STATES)
def test_differences_are_sorted_and_only_about_what_is_wanted(
    actual: dict[tuple[str, str], str], desired: dict[tuple[str, str], str]
) -> None:
    changes = diff_settings(actual, desired)
    assert list(changes) == sorted(changes)
    for each in changes:
        assert desired[each.where, each.setting] == each.desired
        assert actual.get((each.where, each.setting), ABSENT) == each.actual
