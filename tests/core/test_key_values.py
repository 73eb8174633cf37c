"""The text of a host's state: one line a setting, whoever wrote the value."""

from __future__ import annotations

import pytest

from components.core.errors import Bug, DeviceError
from components.core.key_values import HostState, parse_state
from components.remote.lines import parse_lines, render_lines


@pytest.mark.parametrize("sign", ["\n", "\r", "\0"])
@pytest.mark.parametrize("place", ["key", "value"])
def test_a_line_break_cannot_add_a_setting(sign: str, place: str) -> None:
    evil = f"CX5{sign}sysctl.kernel.core_pattern=|/bin/evil"
    state = HostState({evil: "1"} if place == "key" else {"nic.model": evil})
    for render in (state.render, state.render_short):
        with pytest.raises(Bug, match="has a line break in it"):
            render()


def test_a_request_of_lines_writes_a_line_break_as_an_escape() -> None:
    text = render_lines({"a": "1\nb = 2\u2028c = 3"})
    assert text.splitlines() == [r'a = "1\nb = 2\u2028c = 3"']
    assert parse_lines(text) == {"a": "1\nb = 2\u2028c = 3"}


def test_a_key_that_is_there_twice_is_refused() -> None:
    with pytest.raises(DeviceError, match="answered 'hostname' twice: 'gpu01' and 'evil'"):
        parse_state("hostname=gpu01\nnic.a.mtu=9000\nhostname=evil\n")
    with pytest.raises(ValueError, match="a is there twice"):
        parse_lines("a = 1\nb = 2\na = 3\n")


def test_a_host_that_floods_is_refused_and_not_quoted_whole() -> None:
    with pytest.raises(DeviceError, match="answered 4,000,004 characters; at most 4,000,000"):
        parse_state("a=1\n" * 1_000_001)
    with pytest.raises(DeviceError) as refused:
        parse_state("x" * 3_000_000)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("sign", ["\x85", "\u2028", "\x0b", "\x1c"])
def test_what_only_python_takes_for_a_line_break_is_part_of_a_value(sign: str) -> None:
    """The scripts on the host split at newlines alone, and both must read the same."""
    assert parse_state(f"a=1{sign}b=2\n").values == {"a": f"1{sign}b=2"}
