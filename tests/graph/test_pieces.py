"""The stacks of a split site under the recording engine, beside one stack of the whole site."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, cast

import pytest

from components.core.problem import Json
from components.testing import Graph, Run
from components.update.pieces import OWN, REPAIRS, SINCE, SITE
from tests.graph.example_sites import example_run
from tests.graph.whole_program import record_main, record_refusal

UNITS = {
    "a": {"leaves": [f"leaf-0{n}" for n in range(1, 5)]},
    "b": {"leaves": [f"leaf-0{n}" for n in range(5, 9)]},
}
PIECES = ("spines", "a", "b", "cluster")
FRESH = ("fabric", "hosts", "reboots")
"""Stages that several pieces have; each has a resource for its end."""


def whole_run() -> Run:
    """The first update of the site in one stack: it was not split yet."""
    return replace(example_run("spine-leaf"), stack="prod")


def split_run(piece: str) -> Run:
    run = whole_run()
    cluster = copy.deepcopy(cast("dict[str, Any]", run.config["cluster"]))
    cluster["stacks"] = {"units": UNITS}
    config = {**run.config, "cluster": cast("Json", cluster)}
    if piece:
        config["piece"] = piece
    return replace(run, stack=f"prod-{piece}" if piece else "prod", config=config)


@cache
def piece_graph(piece: str) -> Graph:
    """The first update of a piece."""
    return record_main(split_run(piece))


@cache
def outputs() -> Mapping[str, Mapping[str, Json]]:
    """The outputs of the other stacks after their first updates."""
    return {f"prod-{name}": piece_graph(name).outputs for name in PIECES[:-1]}


@cache
def unsplit_graph() -> Graph:
    """The whole site in one stack, with the units in its file: ready to be split."""
    state = record_main(whole_run()).state()
    return record_main(replace(split_run(""), state=state))


@cache
def cluster_graph() -> Graph:
    return record_main(replace(split_run("cluster"), others=outputs()))


def custom(graph: Graph) -> Counter[tuple[str, str]]:
    """The resources that do something, without the ends of stages and the providers."""
    ends = {f"{stage}-ready" for stage in FRESH}
    return Counter(
        (each.type, each.name)
        for each in graph.resources
        if each.custom and each.name not in ends and not each.type.startswith("pulumi:providers:")
    )


def test_every_resource_of_the_site_is_in_exactly_one_stack() -> None:
    pieces = [piece_graph(name) for name in PIECES[:-1]]
    found = Counter(name for graph in (*pieces, cluster_graph()) for name in custom(graph))
    assert found == custom(unsplit_graph())


def test_a_resource_has_the_same_inputs_in_its_piece() -> None:
    """So a split changes nothing on devices: they know the name of the site's own stack."""
    before = {each.name: each for each in unsplit_graph().resources if each.custom}
    for graph in (*(piece_graph(name) for name in PIECES[:-1]), cluster_graph()):
        for each in graph.resources:
            if each.custom and not each.name.startswith("acceptance"):
                assert each.inputs == before[each.name].inputs
                assert each.urn.split("::")[2:] == before[each.name].urn.split("::")[2:]


def test_a_piece_says_what_it_is() -> None:
    found = outputs()["prod-a"]
    assert {SITE, OWN, SINCE, REPAIRS} <= {*found}
    assert found[REPAIRS] == {}
    assert found[SITE] == outputs()["prod-b"][SITE]
    assert found[OWN] != outputs()["prod-b"][OWN]


def test_the_date_stays_as_long_as_the_piece_does() -> None:
    before = {**outputs()["prod-a"], SINCE: "2026-01-02T03:04:05+00:00"}
    again = record_main(replace(split_run("a"), others={"prod-a": before}))
    assert again.outputs[SINCE] == before[SINCE]


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"prod-b": None}, "the stack prod-b does not exist"),
        ({"prod-b": {}}, "the stack prod-b was never updated completely"),
        (
            {"prod-b": {OWN: "0123456789abcdef", SINCE: "2026-01-02T03:04:05+00:00"}},
            "prod-b has the plan 0123456789abcdef (since 2026-01-02T03:04:05+00:00)",
        ),
    ],
)
def test_the_cluster_waits_for_the_other_stacks(
    others: Mapping[str, Mapping[str, Json] | None], words: str
) -> None:
    found = {name: each for name, each in {**outputs(), **others}.items() if each is not None}
    said, graph = record_refusal(replace(split_run("cluster"), others=found), lock=True)
    assert words in said
    assert "pulumi up --stack prod-b" in said
    assert "prod-a" not in said
    assert graph.resources == []
    preview = record_main(replace(split_run("cluster"), others=found, preview=True, stdout={}))
    assert any(words in line for line in preview.messages)


def test_a_repair_in_a_unit_proves_the_site_again() -> None:
    others = {**outputs(), "prod-a": {**outputs()["prod-a"], REPAIRS: {"leaf-01-apply": "1: mtu"}}}
    before = cluster_graph()
    same = record_main(replace(split_run("cluster"), others=outputs(), state=before.state()))
    again = record_main(replace(split_run("cluster"), others=others, state=before.state()))
    number = {"--number 1": same, "--number 2": again}
    for words, graph in number.items():
        assert words in graph.named("acceptance-evidence").text("create")


def test_the_empty_stack_of_a_split_site_sets_up_nothing() -> None:
    said, graph = record_refusal(split_run(""), lock=True)
    assert "railyard site split prod" in said
    assert graph.resources == []


def a_lost_piece(others: str) -> Run:
    """The stack of a unit whose configuration lost its piece, while another unit has its own."""
    mine = replace(piece_graph("a"), outputs={})  # its first update is not complete
    theirs = piece_graph(others)
    states = {f"prod-{others}": theirs.state()}
    return replace(split_run(""), stack="prod-a", state=mine.state(), states=states)


def test_a_stack_that_lost_its_piece_sets_up_no_other_one() -> None:
    said, graph = record_refusal(a_lost_piece("b"), lock=True)
    assert "gpu09 is new in this stack, and the state of stack prod-b has it" in said
    assert "Pulumi.prod-a.yaml lacks `railyard:piece`" in said
    assert "\n  fix    " in said
    assert graph.resources == []


def test_a_whole_site_may_have_the_name_of_a_piece_until_it_is_split() -> None:
    run = replace(a_lost_piece("b"), states={})
    assert "leaf-05-apply" in {each.name for each in record_main(run).resources}


def test_a_device_does_not_move_to_another_stack() -> None:
    state = piece_graph("a").state()
    run = replace(split_run("a"), state=state)
    stacks = cast("dict[str, Any]", run.config["cluster"])["stacks"]
    stacks["units"] = {"b": UNITS["a"], "a": UNITS["b"]}
    said, graph = record_refusal(run, lock=True)
    assert "leaf-01 is a device of this stack, and the site file has it in another one" in said
    assert "gpu08" in said
    assert graph.resources == []


def test_a_host_leaves_a_split_site_only_after_a_join() -> None:
    state = piece_graph("b").state()
    run = replace(split_run("b"), state=state)
    cluster = cast("dict[str, Any]", run.config["cluster"])
    hosts = next(each for each in cluster["hosts"] if each["name"] == "gpu[01-16]")
    hosts |= {"name": "gpu[01-15]", "ssh": {"address": "192.168.2.[11-25]"}}
    for switch in cluster["switches"]:
        for port, end in dict(switch["ports"]).items():
            text = end if isinstance(end, str) else end["to"]
            if "[09-16]" in text:
                del switch["ports"][port]
                first, _, last = port.partition("-")
                stop = f"{first[:3]}{int(first[3:]) + 6}" if last else first
                switch["ports"][f"{first}-{stop}"] = text.replace("[09-16]", "[09-15]")
    said, graph = record_refusal(run, lock=True)
    assert "gpu16 leaves the site file, and only the cluster's stack can drain its node" in said
    assert graph.resources == []


@pytest.mark.parametrize("other", ["prod", "prod-b"])
def test_a_stack_does_not_set_up_what_another_one_has(other: str) -> None:
    """The site was half split, or a leaf moved to a unit that is updated first."""
    graph = unsplit_graph() if other == "prod" else piece_graph("a")
    said, refused = record_refusal(
        replace(split_run("a"), states={other: graph.state()}), lock=True
    )
    assert f"leaf-01 is new in this stack, and the state of stack {other} has it" in said
    assert "gpu08" in said
    assert "\n  fix    " in said
    assert refused.resources == []


def test_a_stack_that_has_its_devices_reads_no_other_state() -> None:
    state = piece_graph("a").state()
    again = replace(split_run("a"), state=state, states={"prod-b": state})
    assert record_main(again).resources
