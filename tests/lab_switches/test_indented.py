"""Indented JSON: the form that Python's own writer has, which SONiC uses itself."""

from __future__ import annotations

from lab.switches.text import indented


def test_it_is_the_text_of_the_json_module() -> None:
    value: dict[str | int, object] = {
        "a": {},
        1: [[], "é\u2028\n", None, True, 1.5],
        "c": ({"d": -3},),
    }
    assert indented(value, 4) == (
        '{\n    "a": {},\n    "1": [\n        [],\n        "\\u00e9\\u2028\\n",\n'
        '        null,\n        true,\n        1.5\n    ],\n    "c": [\n'
        '        {\n            "d": -3\n        }\n    ]\n}\n'
    )
    assert indented([1]) == "[\n  1\n]\n"
