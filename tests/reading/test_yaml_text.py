"""Both readers of YAML: the same values and lines, whatever is written and however large."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from bench.sites import EIGHT_RAILS, site_text
from components.core.problem import Json, SpecPath, Spot
from components.reading.loose import plain_scalar
from components.reading.yaml_text import YamlText, parse_yaml
from tests.checks.cases import ROOT

ALIASED = """\
cards: &cards
  - {rail: r0, pci: "0"}
  - {rail: r1, pci: "1"}
base: &base
  role: worker
  gpus: 8
hosts:
  - name: a
    nics: *cards
  - <<: *base
    name: b
    gpus: 4
  - <<: [{gpus: 1}, *base]
    nics:
      *cards
"""


def without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml, "__with_libyaml__", False)


def lines_of(spot: Spot | None, path: SpecPath = ()) -> dict[SpecPath, int]:
    """Every path with its line."""
    if spot is None:
        return {}
    found = {path: spot.line}
    if isinstance(spot.inner, Mapping):
        for key, each in spot.inner.items():
            found |= lines_of(each, (*path, key))
    else:
        for number, each in enumerate(spot.inner or ()):
            found |= lines_of(each, (*path, number))
    return found


def said(text: YamlText) -> object:
    problems = [(each.rule, each.what, each.where) for each in text.problems]
    return repr(text.value), lines_of(text.lines.root), problems


@pytest.mark.parametrize("slow", [False, True], ids=["libyaml", "ruamel"])
def test_aliases_and_merges_have_the_lines_of_what_they_repeat(
    monkeypatch: pytest.MonkeyPatch, *, slow: bool
) -> None:
    if slow:
        without_libyaml(monkeypatch)
    text = parse_yaml(ALIASED, "f")
    assert text.problems == ()
    assert isinstance(text.value, dict)
    cards: Json = [{"rail": "r0", "pci": "0"}, {"rail": "r1", "pci": "1"}]
    assert text.value["hosts"] == [
        {"name": "a", "nics": cards},
        {"role": "worker", "name": "b", "gpus": 4},
        {"gpus": 1, "role": "worker", "nics": cards},
    ]
    places = {
        ("cards",): 1,
        ("hosts", 0, "nics"): 9,
        ("hosts", 0, "nics", 1, "pci"): 3,
        ("hosts", 1): 10,
        ("hosts", 1, "gpus"): 12,
        ("hosts", 1, "role"): 5,
        ("hosts", 2, "gpus"): 13,
        ("hosts", 2, "nics", 0): 2,
    }
    assert {path: text.lines.line_of(path) for path in places} == places
    assert text.lines.line_of(("hosts", 2, "nothing")) is None
    assert text.lines.line_of(("hosts", 3)) is None


def test_a_change_of_what_an_alias_repeats_changes_no_other() -> None:
    value = parse_yaml("a: &x {b: [1]}\nc: *x\n", "f").value
    assert isinstance(value, dict)
    first = value["a"]
    assert isinstance(first, dict)
    first["b"] = 2
    assert value["c"] == {"b": [1]}


@pytest.mark.parametrize(
    "file", sorted((ROOT / "examples").glob("*/[a-z]*.yaml")), ids=lambda each: each.parent.name
)
def test_both_readers_read_every_example_alike(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = file.read_text(encoding="utf-8")
    fast = parse_yaml(text, "f")
    without_libyaml(monkeypatch)
    assert said(fast) == said(parse_yaml(text, "f"))


@pytest.mark.parametrize(
    ("text", "tag", "line"),
    [
        ("a: 1\nb: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n", "!vault", 2),
        ("a: !env [HOME]\n", "!env", 1),
        ("a:\n  !u b: 1\n", "!u", 2),
        ("a: !!set {b, c}\n", "!!set", 1),
        ("a: &x !!binary aGk=\n", "!!binary", 1),
        ("{a: , !r0, b: 2}\n", "!r0", 1),
    ],
)
@pytest.mark.parametrize("libyaml", [True, False])
def test_a_tag_of_another_program_is_refused(
    text: str, tag: str, line: int, *, libyaml: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not libyaml:
        without_libyaml(monkeypatch)
    read = parse_yaml(text, "f")
    (problem,) = read.problems
    assert (read.value, problem.where[0].line) == (None, line)
    assert problem.what.startswith(f"the tag {tag}")
    assert "`password: {secret: NAME}`" in problem.fix


_BITS = st.sampled_from(
    [
        "\n",
        ": ",
        "- ",
        "{",
        "]",
        "&a ",
        "*a",
        "'",
        '"',
        "#",
        "  ",
        "? ",
        "!",
        "!!int ",
        "<<: ",
        "---\n",
        "...\n",
        "%",
        "\u2028",
        "\x85",
        "\ufeff",
        "é",
        "\r\n",
        "0o7",
        ",",
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(ALIASED)), _BITS), min_size=1, max_size=3))
def test_what_both_readers_take_they_read_alike(edits: list[tuple[int, str]]) -> None:
    text = ALIASED
    for at, new in edits:
        text = text[:at] + new + text[at:]
    warnings.simplefilter("ignore")  # ruamel warns of an anchor that is written twice
    fast = parse_yaml(text, "f")
    with pytest.MonkeyPatch.context() as monkeypatch:
        without_libyaml(monkeypatch)
        slow = parse_yaml(text, "f")
    if fast.value is not None and slow.value is not None:
        assert said(fast) == said(slow)
    assert slow.value is not None or slow.problems or fast.value is None


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="0123456789xobeE_+-.~nulltrefasNATUyon", max_size=8))
def test_plain_words_mean_what_yaml_1_2_says(word: str) -> None:
    """Against ruamel's own resolver, which knows the rules of YAML 1.2."""
    node = YAML(typ="safe", pure=True).compose(word)  # pyright: ignore[reportUnknownMemberType] - ruamel is only partly typed
    tag = str(node.tag).rpartition(":")[2] if node is not None else "null"
    if node is not None and str(node.value) != word:
        return  # `-` alone begins a list
    value = plain_scalar(word)
    kinds = {"null": type(None), "bool": bool, "int": int, "float": float}
    assert type(value) in {kinds.get(tag, str), str}
    if tag in kinds and type(value) is str:
        with pytest.raises(ValueError, match=r"invalid|could not"):
            (int if tag == "int" else float)(word.replace("_", ""), *([0] if tag == "int" else []))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1.30", 1.3), ("0o17", 15), ("017", "017"), ("0x1F", 31), ("1_000", 1000), ("1e5", 1e5),
        ("yes", "yes"), ("on", "on"), ("no", "no"), ("y", "y"), ("True", True), ("FALSE", False),
        ("tRue", "tRue"), ("~", None), ("Null", None), ("", None), ("2001-01-01", "2001-01-01"),
        (".inf", ".inf"), ("12:30:45", "12:30:45"), ("9" * 5000, "9" * 5000), ("-", "-"),
    ],
)  # fmt: skip
def test_plain_word_by_word(word: str, value: Json) -> None:
    found = plain_scalar(word)
    assert (type(found), found) == (type(value), value)


def test_many_plain_values_are_no_reason_to_refuse() -> None:
    """More than the 200,000 that were once the limit of any text."""
    text = parse_yaml("a:\n" + "- {b: [1, 2, 3, 4, 5, 6, 7, 8]}\n" * 30_000, "f")
    assert text.problems == ()


def test_hosts_that_share_their_cards_are_no_reason_to_refuse() -> None:
    cards = ", ".join("{rail: r, pci: p, netdev: n, model: m, vfs: 8}" for _ in range(8))
    hosts = "".join(f"- {{name: h{n}, role: worker, nics: *c}}\n" for n in range(5000))
    text = parse_yaml(f"c: &c [{cards}]\nhosts:\n{hosts}", "f")
    assert text.problems == ()


@pytest.mark.parametrize("depth", [9, 60])
def test_aliases_that_multiply_are_refused_by_their_line(depth: int) -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, depth))
    [problem] = parse_yaml(f"l0: &l0 [x]\n{levels}", "f").problems
    assert (problem.rule, problem.line) == ("yaml-syntax", 6)
    assert "expand to more than 100" in problem.what
    assert "multiply" in problem.fix


@pytest.mark.parametrize(
    ("text", "line", "what", "fix"),
    [
        ("a: 1\nb: *c\n", 2, "the alias *c names no anchor above it", "`&c`"),
        ("a: 1\n---\nb: 1\n", 2, "a second document", "`---`"),
        ("a: 1\nb: [c\n", 3, "not YAML", "colons and quotes"),
        ("[" * 5000, 1, "nesting is too deep", "colons"),
    ],
)
def test_refusal_names_its_own_fix(text: str, line: int, what: str, fix: str) -> None:
    [problem] = parse_yaml(text, "f").problems
    assert problem.line == line
    assert what in problem.what
    assert fix in problem.fix


def test_lines_of_a_large_site_are_the_files_own() -> None:
    """Every host of a generated site is on the line that holds its name."""
    assert yaml.__with_libyaml__
    text = site_text(120, EIGHT_RAILS)
    written, read = text.splitlines(), parse_yaml(text, "f")
    value = read.value
    assert isinstance(value, dict)
    hosts = value["hosts"]
    assert isinstance(hosts, list)
    assert len(hosts) == 121
    for number, host in enumerate(hosts):
        line = read.lines.line_of(("hosts", number, "name"))
        assert isinstance(host, dict)
        assert line is not None
        assert written[line - 1] == f"  - name: {host['name']}"
