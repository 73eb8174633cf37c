from __future__ import annotations

import pytest

from bench.sites import EIGHT_RAILS, TWO_RAILS, Form, site_text
from components.checks.site import check_loaded
from components.plan.make import count_resources, make_plan
from components.reading.load import parse_site
from tests.graph.example_sites import NAMES, example_graph, example_plan


@pytest.mark.parametrize("name", NAMES)
def test_the_count_of_a_plan_is_about_that_of_its_run(name: str) -> None:
    recorded = len(example_graph(name).resources)
    assert count_resources(example_plan(name)) == pytest.approx(recorded, abs=4)


@pytest.mark.parametrize("form", [TWO_RAILS, EIGHT_RAILS])
def test_each_host_more_has_as_many_resources_as_the_one_before(form: Form) -> None:
    def count(hosts: int) -> int:
        checked = check_loaded(parse_site(site_text(hosts, form), "site.yaml"), "site.yaml")
        return count_resources(make_plan(checked.spec_or_raise(), "dev"))

    counts = [count(hosts) for hosts in (10, 20, 30)]
    assert counts[2] - counts[1] == counts[1] - counts[0] > 0
