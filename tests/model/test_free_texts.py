"""No text of the site file can act elsewhere: each field says what it takes, and takes one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import pytest
from pydantic import TypeAdapter, ValidationError

from components.model.cluster import ClusterSpec
from components.model.texts import ANY_LINE, LINE
from components.model.units import LONGEST_TEXT, DnsLabel, Frozen

_SCHEMA: Final[dict[str, Any]] = ClusterSpec.model_json_schema(mode="validation")
_SEVERAL_LINES: Final = {
    "ca": "certificates in PEM form: only letters, digits and +/= between them"
}
_ANY_VALUE: Final = {
    "values": "values of a chart go to Helm as data, and only the chart knows them",
    "extra_vars": "variables of kubespray go to Ansible as JSON; `_no_templates` judges them",
    "shares": "keys are numbers of traffic classes",
    "ecn_by_speed": "keys are speeds",
}
"""Keys that take any value, and why."""
_BEGINS: Final = (
    *(
        "",
        "a",
        "1",
        "/a",
        "~a",
        "-",
        "$",
        "a: ",
        "a/",
        "gpu01/rail-0",
        "leaf-01:1",
        "swp1",
        "v1.2.3",
    ),
    *("https://a.example/", "http://a.example:80", "oci://a", "10.0.0.0/8", "0000:05:00.0", "1 1"),
    *("ssh-ed25519 AAAA ", "a.example/b:1", "0*1G", "us-east1-a", "7.0U2", "2001:db8::1", "R"),
)
_LINE_ENDERS: Final = ("\n", "\r", "\x1b[2J", "\x00", "\x85", "\u202e", "\u2028", "\u200b", "\x7f")
_OF_A_SHELL: Final = (
    "$(id)",
    "`id`",
    "'",
    '"',
    ";id",
    "{{x}}",
    "<img src=x>",
    "|id",
    "&& id",
    "\\",
)
_OF_A_NODE: Final = {"type", "anyOf", "oneOf", "allOf", "const", "enum"}
_ENDS: Final = ("b", "1", "/b", ":b", ".b")


def _texts(node: dict[str, Any], path: str, within: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Each place of the schema where a text may be written, with what it must be like."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name not in within:
            yield from _texts(_SCHEMA["$defs"][name], path, within | {name})
        return
    if node.get("type") == "string" or _OF_A_NODE.isdisjoint(node):
        yield path, node
    for key, value in _parts(node):
        if key == " (key)":
            yield f"{path}{key}", value
        else:
            yield from _texts(value, f"{path}{key}", within)


def _parts(node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is inside a node, with the ends of its path."""
    yield from (("", each) for kind in ("anyOf", "oneOf", "allOf") for each in node.get(kind, ()))
    yield from ((f".{key}", value) for key, value in node.get("properties", {}).items())
    for pattern, value in node.get("patternProperties", {}).items():
        yield from ((" (key)", {"pattern": pattern}), (".*", value))
    if isinstance(node.get("items"), dict):
        yield "[]", node["items"]
    if isinstance(node.get("additionalProperties"), dict):
        yield from ((" (key)", node.get("propertyNames", {})), (".*", node["additionalProperties"]))


def _kind(path: str) -> set[str]:
    return set(re.split(r"[.\[\] ]+", path))


_PLACES: Final = {
    (path, str(node.get("pattern", ""))): node
    for path, node in _texts(_SCHEMA, "", frozenset())
    if not {"const", "enum"} & node.keys() and not _kind(path) & _ANY_VALUE.keys()
}


def test_the_walk_finds_the_texts() -> None:
    paths = {path for path, _ in _PLACES}
    assert len(paths) > 250
    assert {
        ".hosts[].nics[].model", ".hosts[].ssh.private_key.command[]", ".jobs.env.*", ".waive.*",
        ".kubernetes.tolerations[].key", ".switches[].ports.*.to", ".pod_network.routes[].to",
    } <= paths  # fmt: skip


def test_every_text_has_a_pattern_for_the_whole_of_it() -> None:
    open_ends = {
        path for path, pattern in _PLACES if not (pattern.startswith("^") and pattern.endswith("$"))
    }
    assert open_ends == set()


def _takes(pattern: str, signs: tuple[str, ...]) -> list[str]:
    whole = re.compile(pattern.removesuffix("$") + r"\Z")
    texts = (f"{begin}{sign}{end}" for begin, sign, end in product(_BEGINS, signs, _ENDS))
    return [text for text in texts if whole.search(text)]


def test_no_text_takes_a_second_line_or_a_character_that_nobody_sees() -> None:
    found = {path: _takes(pattern, _LINE_ENDERS)[:3] for path, pattern in _PLACES}
    assert {
        path: taken
        for path, taken in found.items()
        if taken and not _kind(path) & {*_SEVERAL_LINES}
    } == {}


def test_only_sentences_and_words_of_commands_take_signs_of_a_shell() -> None:
    """They are shown in code spans, given as one word of argv, or quoted."""
    found = {
        path: _takes(pattern, _OF_A_SHELL)[:3]
        for path, pattern in _PLACES
        if pattern not in {LINE, ANY_LINE} and not path.endswith(("host_key", "public_key"))
    }
    assert {path: taken for path, taken in found.items() if taken} == {}


def test_no_text_is_endless() -> None:
    assert Frozen.model_config.get("str_max_length") == LONGEST_TEXT
    for pattern, node in ((pattern, node) for (_, pattern), node in _PLACES.items()):
        if pattern in {LINE, ANY_LINE}:
            assert node["maxLength"] <= LONGEST_TEXT


@pytest.mark.parametrize("sign", _LINE_ENDERS)
def test_a_name_ends_where_its_line_ends(sign: str) -> None:
    """A `$` of Python would let one line break through; that of the model does not."""
    with pytest.raises(ValidationError):
        TypeAdapter(DnsLabel).validate_python(f"gpu01{sign}")
