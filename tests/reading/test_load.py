"""Loading: both forms of the file, lines, and every mistake at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.core.errors import UsageError
from components.core.problem import Json, render_path
from components.reading.load import Loaded, load_config_value, load_site
from components.reading.yaml_text import parse_yaml
from tests.checks.cases import CASES, ROOT

EXAMPLE = ROOT / "examples" / "dgx-roce" / "site.yaml"


def _stack_file(folder: Path, site: str) -> Path:
    path = folder / "Pulumi.dev.yaml"
    body = "".join(f"    {line}\n" for line in site.splitlines())
    path.write_text(f"config:\n  railyard:observe: always\n  railyard:cluster:\n{body}")
    return path


def _load_text(folder: Path, text: str) -> Loaded:
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return load_site(path)


def test_both_forms_give_the_same_spec(tmp_path: Path) -> None:
    plain = load_site(EXAMPLE)
    stack = load_site(_stack_file(tmp_path, EXAMPLE.read_text(encoding="utf-8")))
    assert plain.spec is not None
    assert plain.spec == stack.spec
    assert (plain.problems, stack.problems) == ((), ())
    assert plain.secrets is None
    assert stack.secrets is not None


def test_lines_of_a_stack_file_are_the_files_own(tmp_path: Path) -> None:
    site = EXAMPLE.read_text(encoding="utf-8").replace("vlan: 112", "vlan: 5000")
    plain = _load_text(tmp_path, site).problems[0]
    stack = load_site(_stack_file(tmp_path, site)).problems[0]
    assert plain.line > 0
    assert stack.line == plain.line + 3
    assert stack.where[0].path == plain.where[0].path == ("rails", 1, "vlan")


def test_config_value_uses_the_lines_of_its_stack_file(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("role: worker", "role: wroker")
    value = parse_yaml(text, "site.yaml").value
    source = _stack_file(tmp_path, text)
    problem = load_config_value(value, source).problems[0]
    assert problem.where[0].file == "Pulumi.dev.yaml"
    assert "role: wroker" in source.read_text(encoding="utf-8").splitlines()[problem.line - 1]


def test_config_value_without_a_file_still_shows_paths() -> None:
    value = parse_yaml(EXAMPLE.read_text(encoding="utf-8"), "site.yaml").value
    assert load_config_value(value, None).spec is not None
    assert isinstance(value, dict)
    broken: dict[str, Json] = {**value, "name": "Not A Label"}
    problem = load_config_value(broken, None).problems[0]
    assert render_path(problem.where[0].path) == "name"
    assert problem.where[0].line is None
    assert "not-a-label" in problem.fix


def test_config_without_a_cluster_is_said_so() -> None:
    loaded = load_config_value(None, None)
    assert loaded.spec is None
    assert "railyard:cluster" in loaded.problems[0].what


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        ("", "wrong-type", "is empty"),
        ("# only a comment\n", "wrong-type", "is empty"),
        ("- a\n- b\n", "wrong-type", "holds no settings"),
        ("just words\n", "wrong-type", "holds no settings"),
        ("config:\n  other:key: 1\n", "missing-key", "railyard:cluster"),
        ("config:\n", "missing-key", "railyard:cluster"),
        ("name: a\n---\nname: b\n", "yaml-syntax", "second document"),
        ("name: [a\n", "yaml-syntax", "not YAML"),
        ("\tname: a\n", "yaml-syntax", "not YAML"),
        ("name: *nothing\n", "yaml-syntax", "names no anchor"),
        ("name: &a [*a]\n", "yaml-syntax", "contains itself"),
        ("name: \x01\n", "yaml-syntax", "not YAML"),
        ("? [a]\n: b\n", "yaml-syntax", "list or a mapping"),
        ("[" * 1000, "yaml-syntax", "not YAML"),
    ],
)
def test_broken_text_is_one_report(tmp_path: Path, text: str, rule: str, words: str) -> None:
    loaded = _load_text(tmp_path, text)
    assert loaded.spec is None
    first = loaded.problems[0]
    assert first.rule == rule
    assert words in first.what
    assert first.where[0].line is not None


def test_nested_aliases_are_refused_and_not_expanded(tmp_path: Path) -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 9))
    loaded = _load_text(tmp_path, f"l0: &l0 [x]\n{levels}")
    assert [problem.rule for problem in loaded.problems] == ["yaml-syntax"]
    assert "more than" in loaded.problems[0].what


def test_aliases_and_merge_keys_are_read(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    shared = text.replace("user: {name: nvidia, uid: 1010}", "user: &u {name: nvidia, uid: 1010}")
    merged = shared.replace("{kind: present}", "{<<: {kind: present}}")
    assert _load_text(tmp_path, merged).spec == load_site(EXAMPLE).spec


def test_missing_and_unreadable_files_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="file not found"):
        load_site(tmp_path / "nothing.yaml")
    with pytest.raises(UsageError, match="cannot be read"):
        load_site(tmp_path)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"name: \xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        load_site(binary)


def test_all_mistakes_are_reported_at_once() -> None:
    text = CASES["malformed"].text()
    value = parse_yaml(text.replace("prio", "pri0"), "x").value
    problems = load_config_value(value, None).problems
    assert len({problem.where[0].path for problem in problems}) >= 6


def test_no_message_shows_the_validators_own_words() -> None:
    for case in CASES.values():
        report = case.expected.lower()
        for word in (
            "pydantic",
            "validation error",
            "input should",
            "traceback",
            "extra inputs",
            "tuple[",
            "literal[",
        ):
            assert word not in report, case.name


@pytest.mark.parametrize(
    ("old", "new", "what", "fix"),
    [
        ("name: crusoe-k3s-worker", f"name: {'w' * 60}", "at most 58 long", f"write {'w' * 58}."),
        ("count: 2", "count: 1000000000", "1000000000", "at most 5000"),
    ],
    ids=["name", "count"],
)
def test_a_pool_of_unusable_instances_is_told(
    tmp_path: Path, old: str, new: str, what: str, fix: str
) -> None:
    text = (ROOT / "examples" / "crusoe-k3s" / "site.yaml").read_text(encoding="utf-8")
    assert old in text
    [problem] = _load_text(tmp_path, text.replace(old, new)).problems
    assert problem.where[0].path[:5] == (
        "environment",
        "instances",
        "pools",
        2,
        *old.split(":")[:1],
    )
    assert what in problem.what
    assert fix in problem.fix
