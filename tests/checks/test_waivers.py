"""Waivers: what a rule without its reason, without an effect or without leave gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from components.checks.registry import FILE_RULES, NEVER_WAIVED, RULES
from components.checks.site import CheckedSite, load_checked_site
from components.cli.group import app
from components.core.errors import SpecError
from components.plan.make import make_plan
from components.plan.text import render_plan
from components.reading.load import parse_site
from tests.checks.cases import CASES

REASON = "two leaves by the vendor's reference design"
WAIVE = f'waive: {{numa-leaf: "{REASON}"}}\nhosts:\n'


def _check(folder: Path, text: str) -> CheckedSite:
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return load_checked_site(path)


def _numa_leaf() -> str:
    return CASES["numa-leaf"].text()


def test_two_leaves_are_a_warning_and_can_be_waived(tmp_path: Path) -> None:
    told = _check(tmp_path, _numa_leaf())
    (found,) = told.problems
    assert (found.rule, found.severity, found.more) == ("numa-leaf", "warning", 1)
    waived = _check(tmp_path, _numa_leaf().replace("hosts:\n", WAIVE, 1))
    assert waived.problems == ()
    assert [(each.rule, each.reason, each.hides) for each in waived.waived] == [
        ("numa-leaf", REASON, 2)
    ]


def test_every_report_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(_numa_leaf().replace("hosts:\n", WAIVE, 1), encoding="utf-8")
    text = CliRunner().invoke(app, ["check", str(path)]).stdout
    assert f"waived: numa-leaf (2 problems not reported): {REASON}" in text
    data = json.loads(CliRunner().invoke(app, ["check", "--format", "json", str(path)]).stdout)
    hidden = {"rule": "numa-leaf", "reason": REASON, "hides": 2}
    assert data["waived"] == [{"file": str(path), **hidden}]
    plan = make_plan(load_checked_site(path).spec_or_raise(), "dev")
    assert f"# waived: numa-leaf: {REASON}" in render_plan(plan).splitlines()[1]


def test_the_top_of_a_rack_needs_no_waiver(tmp_path: Path) -> None:
    """All cards of a host on the leaf of its rack, and a trunk between the leaves."""
    text = _numa_leaf()
    for old, new in (
        ('      "1/3": gpu02/rail-0\n      "1/4": gpu02/rail-1\n',
         '      "1/3": gpu01/rail-2\n      "1/31": leaf-02:1/31\n'),
        ('      "1/1": gpu01/rail-2\n', ""),
        ('      "1/2": gpu02/rail-2\n',
         ('      "1/1": gpu02/rail-0\n      "1/2": gpu02/rail-1\n      "1/3": gpu02/rail-2\n'
         '      "1/31": leaf-01:1/31\n')),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new, 1)
    assert _check(tmp_path, text).problems == ()


def test_what_cannot_be_waived_names_rules_that_there_are() -> None:
    names = {rule.name for rule in RULES}
    assert names >= NEVER_WAIVED.keys()
    assert not {rule.name for rule in FILE_RULES} & NEVER_WAIVED.keys()


@pytest.mark.parametrize("rule", ["host-key", "credentials", "management-port", "exec-disruptive"])
def test_rules_of_safety_hold_whatever_the_file_says(tmp_path: Path, rule: str) -> None:
    text = CASES[rule].text()
    before = [each.rule for each in _check(tmp_path, text).problems]
    waive = f"waive: {{{rule}: we know what we do}}\nhosts:\n"
    after = _check(tmp_path, text.replace("hosts:\n", waive, 1))
    assert sorted(each.rule for each in after.problems) == sorted([*before, "waiver"])
    assert after.spec is None


@pytest.mark.parametrize("case", CASES)
def test_a_plan_can_be_made_of_all_that_can_be_waived(case: str) -> None:
    """It may be refused in words, and breaks nowhere: another error ends this test."""
    spec = parse_site(CASES[case].text(), CASES[case].file).spec
    if spec is None:
        return  # the file cannot be read: no waiver mends that
    strict = (rule for rule in RULES if rule.name in NEVER_WAIVED)
    found = (each for rule in strict for each in rule.problems(spec))
    if all(each.severity != "error" for each in found):
        try:
            planned = make_plan(spec, "dev").name
        except SpecError as refusal:
            planned = str(refusal)
        assert planned
