"""Requests as lines: what is written is read, and JSON too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.remote.lines import as_json, parse_lines, render_lines

PLAIN = st.none() | st.booleans() | st.integers() | st.text()
KEYS = st.text(min_size=1)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.dictionaries(KEYS, inner, max_size=3)
        | st.lists(PLAIN, max_size=3)
        | st.lists(st.dictionaries(KEYS, inner, max_size=2), min_size=1, max_size=3)
    ),
    max_leaves=12,
)
SWITCH: dict[str, Any] = {
    "endpoint": {"device": "leaf-01", "port": 22, "private_key_secret": None},
    "desired": {"ports": {"1/2": {"mtu_bytes": 9216, "trunk_vlans": [111, 112], "ecn": {}}}},
    "servers": [{"url": "https://a"}, {"url": "https://b"}],
    "settings": {"nic.0000:05:00.0.vfs": "8"},
    "repair": "",
}


def test_each_value_is_a_line_that_says_where_it_belongs() -> None:
    assert render_lines(SWITCH).splitlines() == [
        "desired.ports.1/2.ecn = {}",
        "desired.ports.1/2.mtu_bytes = 9216",
        "desired.ports.1/2.trunk_vlans = [111, 112]",
        'endpoint.device = "leaf-01"',
        "endpoint.port = 22",
        "endpoint.private_key_secret = null",
        'servers[0].url = "https://a"',
        'servers[1].url = "https://b"',
        'settings."nic.0000:05:00.0.vfs" = "8"',
    ]
    assert render_lines({**SWITCH, "repair": "drift"}).splitlines()[-1] == 'repair = "drift"'


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_is_written_is_read(document: dict[str, Any]) -> None:
    assert parse_lines(render_lines(document)) == document


def test_json_is_read() -> None:
    assert parse_lines(json.dumps(SWITCH, indent=1) + "\n") == SWITCH


@pytest.mark.parametrize(
    "text",
    [
        "no value",
        "a =1",
        "a = nothing",
        " = 1",
        "a[1] = 1",
        "a[0].b = 1\na.c = 2",
        "a = 1\na.b = 2",
    ],
)
def test_another_text_is_refused_and_stays_as_it_is(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_lines(text)
    assert as_json(text) == text
