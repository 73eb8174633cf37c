"""Large sites cost in proportion to their hosts: counted in operations and bytes, never in time."""

from __future__ import annotations

import cProfile
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

import pytest
import yaml

from bench.sites import EIGHT_RAILS, TWO_RAILS, Form, count_switches, site_text
from components.checks.site import check_loaded, check_site
from components.core.templates import LOADER
from components.core.to_json import json_pieces, to_json
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan, make_plan
from components.plan.text import render_plan
from components.reading.load import parse_site
from components.testing import Graph, Run
from tests.golden.site import load_example
from tests.graph.example_sites import example_run
from tests.graph.whole_program import record_main

FORMS = {"two": TWO_RAILS, "eight": EIGHT_RAILS}
SMALL = Form(2, "ConnectX-5", 100, "SN4600C", hosts_a_leaf=10, links_a_spine=4)
"""Few ports a switch: 20, 40 and 60 hosts already have a tree of switches."""
SLACK = 500
"""Operations."""
EXAMPLES = ("dgx-roce", "esxi-roce", "quantum-ib", "shared-rdma", "spine-leaf", "mixed-fabric")


def spec_of(hosts: int, form: Form) -> ClusterSpec:
    checked = check_loaded(parse_site(site_text(hosts, form), "site.yaml"), "site.yaml")
    assert checked.problems == ()
    assert checked.spec is not None
    return checked.spec


def plan_of(hosts: int, form: Form) -> ClusterPlan:
    return make_plan(spec_of(hosts, form), "dev")


def count_operations(work: Callable[[], object]) -> Counter[str]:
    """How many operations of the interpreter each function takes, comprehensions by themselves."""
    counts: dict[int, tuple[CodeType, list[int]]] = {}  # the hash of a code takes long, its id not

    def enter(frame: FrameType, *_: object) -> Any:  # noqa: ANN401 - a tracer gives a tracer
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count = counts.setdefault(id(frame.f_code), (frame.f_code, [0]))[1]

        def step(_: FrameType, event: str, __: object) -> Any:  # noqa: ANN401 - it gives itself
            if event == "opcode":
                count[0] += 1
            return step

        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    named: Counter[str] = Counter()
    for code, (operations,) in counts.values():
        named[f"{code.co_filename}:{code.co_firstlineno} {code.co_name}"] += operations
    return named


def assert_linear(work: Callable[[int], object]) -> None:
    """Between 20, 40 and 60 hosts, the second twenty must not cost more than the first.

    Each function is held by itself: one that goes over all hosts for each switch is lost in the
    sum until there are thousands. Switches come in steps, hence the slack.
    """
    work(20)  # fills what is worked out once in a process
    counts = [count_operations(lambda size=size: work(size)) for size in (20, 40, 60)]
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    grown = {name: (first[name], more) for name, more in second.items()}
    assert second.total() < 1.1 * first.total()
    assert {name: pair for name, pair in grown.items() if pair[1] > 1.25 * pair[0] + SLACK} == {}


def test_the_check_of_a_host_takes_as_much_in_a_large_site() -> None:
    loaded = {size: parse_site(site_text(size, SMALL), "s") for size in (20, 40, 60)}

    def check(size: int) -> None:
        spec = loaded[size].spec
        assert spec is not None
        assert check_site(spec.model_copy()) == ()  # a copy, of which nothing is worked out yet

    assert_linear(check)


def test_the_plan_of_a_host_takes_as_much_in_a_large_site() -> None:
    specs = {size: spec_of(size, SMALL) for size in (20, 40, 60)}
    assert_linear(lambda size: make_plan(specs[size].model_copy(), "dev"))


def test_reading_a_host_takes_as_much_in_a_large_site() -> None:
    texts = {size: site_text(size, SMALL) for size in (20, 40, 60)}
    assert_linear(lambda size: parse_site(texts[size], "site.yaml"))


def count_calls(run: Run) -> tuple[int, Graph]:
    """How many calls of functions the whole program takes, and what it registers."""
    profile = cProfile.Profile(subcalls=False)  # who calls whom takes a fifth of the time
    profile.enable()
    graph = record_main(run)
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats()), graph


def test_the_program_calls_as_much_for_a_host_of_a_large_site() -> None:
    """In the first update and in one with nothing to do, judgements and resources included.

    One look through all hosts for each host makes the ratio 1.2 at these sizes.
    """
    counts: list[tuple[int, int]] = []
    for hosts in (2, 15, 30, 60):  # the first run imports and works out what all others have
        site = yaml.load(site_text(hosts, TWO_RAILS), LOADER)  # noqa: S506 - a safe one
        run = example_run("spine-leaf")
        run = replace(run, config={**run.config, "cluster": site})
        calls, graph = count_calls(run)
        counts.append((calls, count_calls(replace(run, state=graph.state()))[0]))
    for few, some, many in zip(*counts[1:], strict=True):
        assert (many - some) / 30 < 1.1 * (some - few) / 15


@pytest.mark.parametrize("form", FORMS)
def test_a_host_has_as_many_bytes_of_plan_in_a_large_site(form: str) -> None:
    plans = [plan_of(hosts, FORMS[form]) for hosts in (50, 125, 200)]
    for room in ("hosts", "reboots", "kubernetes", "acceptance", "jobs", "pod_network"):
        sizes = [len(json.dumps(to_json(getattr(plan, room)))) for plan in plans]
        first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
        assert second <= 1.02 * first + 100, (room, sizes)


def irregular(text: str) -> str:
    """The site with names that make no ranges."""
    named = re.compile(r"\bgpu[0-9]+\b")
    return named.sub(lambda found: f"n{zlib.crc32(found[0].encode()):08x}x", text)


@pytest.mark.parametrize("names", [str, irregular], ids=["ranges", "irregular"])
def test_a_hosts_steps_have_as_many_bytes_in_a_large_site(names: Callable[[str], str]) -> None:
    """Of the inputs of each step: what names all hosts is named by its digest."""
    sizes: list[dict[str, int]] = []
    for hosts in (20, 40, 60):
        text = names(site_text(hosts, SMALL))
        checked = check_loaded(parse_site(text, "site.yaml"), "site.yaml")
        assert checked.problems == ()
        assert checked.spec is not None
        plan = make_plan(checked.spec, "dev")
        kinds: dict[str, int] = {}
        for step in plan.steps:
            kind = step.name[step.name.index("-") :]  # no name of a host has one
            kinds[kind] = max(kinds.get(kind, 0), len(step.desired))
        sizes.append(kinds)
    assert {"-host", "-tools", "-reboot"} <= sizes[0].keys()
    small, middle, large = sizes
    assert small.keys() == middle.keys() == large.keys()
    assert {
        kind: large[kind] - small[kind] for kind in small if large[kind] - small[kind] > 8
    } == {}


def test_a_host_has_as_many_lines_in_the_printed_plan_of_a_large_site() -> None:
    counts = [render_plan(plan_of(hosts, SMALL)).count("\n") for hosts in (20, 40, 60)]
    assert counts[2] - counts[1] <= 1.05 * (counts[1] - counts[0]), counts


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_pieces_of_a_plan_are_its_text(example: str) -> None:
    plan = make_plan(load_example(example), "dev")
    pieces = list(json_pieces(plan))
    assert "".join(pieces) == json.dumps(to_json(plan), sort_keys=True)
    assert len(pieces) > 10 * len(plan.hosts)


@pytest.mark.parametrize(
    ("hosts", "form", "switches"), [(1000, TWO_RAILS, 63), (1000, EIGHT_RAILS, 132)]
)
def test_generated_sites_are_those_that_are_spoken_of(
    hosts: int, form: Form, switches: int
) -> None:
    assert count_switches(hosts, form) == switches
