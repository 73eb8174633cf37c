"""The decisions of every example's plan, and that what is left out of them hides none."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from components.plan.make import ClusterPlan, make_plan
from tests.golden.files import FOLDER, check_golden
from tests.golden.plan import Section, difference, golden_plan, named, objects_of
from tests.golden.site import load_example
from tests.graph.example_sites import NAMES, example_plan

FIRST = "dgx-roce"
"""The example whose objects the goldens of the others refer to."""


@cache
def _first() -> ClusterPlan:
    return make_plan(load_example(FIRST), "dev")


@cache
def _objects() -> dict[str, Section]:
    return objects_of(FIRST, _first())


def test_the_plan_of_the_dgx_site_is_as_recorded() -> None:
    check_golden(f"{FIRST}/plan.txt", golden_plan(_first()))


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_of_an_example_is_as_recorded(name: str) -> None:
    plan = golden_plan(example_plan(name), _objects())
    check_golden(f"{name}/plan.txt", plan)


def test_a_wrong_value_of_the_second_host_is_shown() -> None:
    plan = _first()
    assert plan.hosts[1].name == "gpu01"
    second = plan.hosts[2]
    step = second.converge
    assert "nic.0000:84:00.0.trust=dscp\n" in step.desired
    wrong = step.desired.replace("nic.0000:84:00.0.trust=dscp\n", "nic.0000:84:00.0.trust=pcp\n")
    host = replace(second, steps=(replace(step, desired=wrong), *second.steps[1:]))
    changed = replace(plan, hosts=(*plan.hosts[:2], host))
    lines = {*golden_plan(changed).splitlines()} - {*golden_plan(plan).splitlines()}
    assert lines == {"-nic.0000:84:00.0.trust=dscp", "+nic.0000:84:00.0.trust=pcp"}


BODY = "ports:\n  swp1:\n    vlan: 111\n  swp2:\n    vlan: 111\n    mtu: 9216"


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("9216", "1500", "@@ swp2:\n-    mtu: 9216\n+    mtu: 1500"),
        ("vlan: 111", "vlan: 112", "@@ swp1: swp2:\n-    vlan: 111\n+    vlan: 112"),
        ("\n    mtu: 9216", "", "@@ swp2:\n-    mtu: 9216"),
    ],
)
def test_a_section_is_its_difference_from_the_first(old: str, new: str, shown: str) -> None:
    section = Section("Switch leaf-02", BODY.replace(old, new))
    assert difference("leaf-01", BODY, section) == f"# as leaf-01, but for\n{shown}"


def test_a_section_like_the_first_says_so_and_another_one_is_whole() -> None:
    assert difference("leaf-01", BODY, Section("Switch leaf-02", BODY)) == "# as leaf-01"
    assert difference("leaf-01", BODY, Section("Switch leaf-02", "ports: {}")) == "ports: {}"


def test_a_script_is_its_file_and_the_lines_that_are_in_none() -> None:
    [file] = (FOLDER.parents[1] / "components").rglob("perftest_client.sh")
    script = f"file=keys\n{file.read_text()}".replace("ib_write_bw_call", "ib_read_bw -D 5")
    name, *own = named(script).split("; ")
    assert name.endswith("/perftest_client.sh")
    assert own == ["file=keys", "ib_read_bw -D 5"]
    assert named("echo of no file\nand another line") == "echo of no file; and another line"
