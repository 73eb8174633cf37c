"""A site of several stacks: which piece has which device, and that nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter

import pytest

from components.core.errors import UsageError
from components.model.cluster import ClusterSpec, Stacks, Unit
from components.plan.make import ClusterPlan, make_plan
from components.plan.pieces import digest_of_piece, find_piece, pieces_of, plan_piece
from tests.golden.site import changed_spec, load_example

HALVES = {
    "a": Unit(leaves=("leaf-01", "leaf-02", "leaf-03", "leaf-04")),
    "b": Unit(leaves=("leaf-05", "leaf-06", "leaf-07", "leaf-08")),
}


def split_site(**settings: int) -> ClusterSpec:
    return changed_spec(load_example("spine-leaf"), stacks=Stacks(units=HALVES, **settings))


def names(plan: ClusterPlan) -> list[str]:
    """Every step and switch, with the steps of reboots and upgrades."""
    upgrades = [step.name for group in plan.upgrades for step in group.steps]
    left = [plan.departures.request.cluster.name] if plan.departures else []
    return [*(s.name for s in plan.steps), *(s.name for s in plan.switches), *upgrades, *left]


def test_each_unit_has_its_leaves_and_the_hosts_below_them() -> None:
    spines, a, b, cluster = pieces_of(split_site(), "prod")
    assert (spines.stack, spines.switches, spines.hosts) == (
        "prod-spines",
        ("spine-01", "spine-02"),
        (),
    )
    assert a.hosts == tuple(f"gpu{n:02}" for n in range(1, 9))
    assert b.hosts == tuple(f"gpu{n:02}" for n in range(9, 17))
    assert (cluster.switches, cluster.hosts) == ((), ("mgmt01",))
    assert [each.parts for each in (spines, a, cluster)] == [
        ("switches",),
        ("switches", "hosts"),
        ("hosts", "cluster"),
    ]


def test_every_step_of_the_site_is_in_exactly_one_piece() -> None:
    spec = split_site()
    whole = make_plan(spec, "prod")
    found = Counter(
        name for piece in pieces_of(spec, "prod") for name in names(plan_piece(whole, piece))
    )
    assert found == Counter(names(whole))


def test_no_group_of_reboots_mixes_hosts_of_two_units() -> None:
    spec = split_site()
    away = spec.disruption.model_copy(update={"max_unavailable": 5})
    plan = make_plan(changed_spec(spec, disruption=away), "prod")
    sizes = [len(group.steps) for group in plan.reboots]
    assert sizes == [5, 3, 5, 3]


def test_the_canary_goes_first_and_the_others_together() -> None:
    units = {f"u{n}": Unit(leaves=(leaf,)) for n, leaf in enumerate(HALVES["a"].leaves)}
    spec = changed_spec(split_site(), stacks=Stacks(units=units, at_once=2, canary=1))
    found = [(each.name, each.wave, each.after) for each in pieces_of(spec, "prod")]
    assert found == [
        ("spines", 0, ()),
        ("u0", 1, ("spines",)),
        ("u1", 2, ("u0",)),
        ("u2", 2, ("u0",)),
        ("u3", 3, ("u1", "u2")),
        ("cluster", 4, ("spines", "u0", "u1", "u2", "u3")),
    ]


def test_a_site_without_spines_has_no_such_piece() -> None:
    leaves = tuple(each.name for each in split_site().switches)
    spec = changed_spec(split_site(), stacks=Stacks(units={"all": Unit(leaves=leaves)}))
    assert [each.name for each in pieces_of(spec, "prod")] == ["all", "cluster"]


def test_a_site_that_is_not_split_has_no_pieces() -> None:
    assert pieces_of(load_example("spine-leaf"), "prod") == ()


def test_an_edit_in_one_unit_changes_the_digest_of_no_other() -> None:
    spec = split_site()
    leaf = spec.switches[0].model_copy(update={"edge_ports": True})
    edited = changed_spec(spec, switches=(leaf, *spec.switches[1:]))
    before, after = make_plan(spec, "prod"), make_plan(edited, "prod")
    changed = [
        piece.name
        for piece in pieces_of(spec, "prod")
        if digest_of_piece(plan_piece(before, piece)) != digest_of_piece(plan_piece(after, piece))
    ]
    assert changed == ["a"]
    assert plan_piece(after, pieces_of(edited, "prod")[2]).digest == after.digest != before.digest


def test_one_host_less_in_one_unit_changes_the_digest_of_no_other() -> None:
    """Groups of reboots are counted in each stack: the ninth group of the site is not `b`'s."""
    spec = split_site()
    hosts = tuple(each for each in spec.hosts if each.name != "gpu08")
    switches = tuple(
        each.model_copy(
            update={"ports": {n: p for n, p in each.ports.items() if not p.to.startswith("gpu08/")}}
        )
        for each in spec.switches
    )
    edited = changed_spec(spec, hosts=hosts, switches=switches)
    b = pieces_of(spec, "prod")[2]
    before, after = (plan_piece(make_plan(each, "prod"), b) for each in (spec, edited))
    assert [group.number for group in after.reboots] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert digest_of_piece(after) == digest_of_piece(before)


def test_a_stack_finds_its_piece_by_its_name() -> None:
    site, piece = find_piece(split_site(), "prod-b", "b")
    assert (site, piece.name, piece.stack) == ("prod", "b", "prod-b")


@pytest.mark.parametrize(
    ("stack", "name", "words"),
    [
        ("prod-c", "c", "the pieces of the site file are: spines, a, b, cluster."),
        ("other", "a", "its name does not end with -a."),
    ],
)
def test_a_stack_without_a_piece_is_refused(stack: str, name: str, words: str) -> None:
    with pytest.raises(UsageError, match="railyard:piece") as refused:
        find_piece(split_site(), stack, name)
    assert words in str(refused.value)
