"""The switches of a run: the environment wins, and only known values count."""

from __future__ import annotations

import pytest

from components.core.errors import SpecError
from components.reading.load import choose_setting


def test_the_environment_wins_over_the_stack_and_that_over_the_default() -> None:
    assert choose_setting("observe", "", "") == "always"
    assert choose_setting("observe", "", "never") == "never"
    assert choose_setting("observe", "always", "never") == "always"


@pytest.mark.parametrize(
    ("from_environment", "from_stack", "source"),
    [("nope", "never", "RAILYARD_OBSERVE"), ("", "Never", "railyard:observe")],
)
def test_another_value_is_refused_and_its_source_named(
    from_environment: str, from_stack: str, source: str
) -> None:
    with pytest.raises(SpecError, match=f"{source} cannot be .*\n.*always, never"):
        choose_setting("observe", from_environment, from_stack)
