"""The decisions of every example's plan, and that what is left out of them hides none."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from components.core.key_values import HostState, parse_state
from components.plan.make import ClusterPlan, make_plan
from tests.golden.files import check_golden
from tests.golden.plan import golden_plan
from tests.golden.site import load_example
from tests.graph.example_sites import NAMES, example_plan

FIRST = "dgx-roce"


@cache
def _first() -> ClusterPlan:
    return make_plan(load_example(FIRST), "dev")


def test_the_plan_of_the_dgx_site_is_as_recorded() -> None:
    check_golden(f"{FIRST}/plan.txt", golden_plan(_first()))


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_of_an_example_is_as_recorded(name: str) -> None:
    check_golden(f"{name}/plan.txt", golden_plan(example_plan(name)))


def test_a_wrong_value_of_the_second_host_is_shown() -> None:
    plan = _first()
    assert plan.hosts[1].name == "gpu01"
    second = plan.hosts[2]
    step = second.converge
    state = parse_state(step.desired).values
    wrong = HostState({**state, "nic.0000:84:00.0.trust": "pcp"}).render_short()
    host = replace(second, steps=(replace(step, desired=wrong), *second.steps[1:]))
    changed = replace(plan, hosts=(*plan.hosts[:2], host))
    lines = {*golden_plan(changed).splitlines()} - {*golden_plan(plan).splitlines()}
    assert "nic.0000:84:00.0.trust=pcp" in lines
