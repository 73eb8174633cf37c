"""Links between switches by both ends of the file: plain cases, written by hand."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from components.checks.tiers import reachable
from components.fabric.links import list_ends, list_links, rails_on_link, switches_of_rails
from components.model.cluster import ClusterSpec
from components.model.fabric import SwitchPort
from tests.fabric.conftest import load_spec


@cache
def example() -> ClusterSpec:
    """One switch, with rails 0 and 1."""
    return load_spec()


def site(**switches: dict[str, Any]) -> ClusterSpec:
    """Switches by name: port to where it leads, or to all that is said of it."""
    (first,) = example().switches
    made = [
        first.model_copy(
            update={
                "name": name,
                "ports": {
                    port: SwitchPort.model_validate({"to": to} if isinstance(to, str) else to)
                    for port, to in ports.items()
                },
            }
        )
        for name, ports in switches.items()
    ]
    return example().model_copy(update={"switches": tuple(made)})


def pairs(spec: ClusterSpec) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    return [(link.one.key, link.other.key) for link in list_links(spec)]


def test_a_link_is_listed_once_and_hosts_are_none() -> None:
    spec = site(
        a={"1/1": "gpu01/rail-0", "1/9": "b:1/9", "1/10": "b:1/10"},
        b={"1/9": "a:1/9", "1/10": "a:1/10", "1/2": "gpu01/rail-1"},
    )
    assert [end.key for end in list_ends(spec)] == [
        ("a", "1/9"),
        ("a", "1/10"),
        ("b", "1/9"),
        ("b", "1/10"),
    ]
    assert pairs(spec) == [(("a", "1/9"), ("b", "1/9")), (("a", "1/10"), ("b", "1/10"))]


def test_ends_that_do_not_agree_are_no_link_and_hide_none() -> None:
    spec = site(
        a={"1/1": "b:1/7", "1/2": "c:1/1", "1/3": "a:1/3", "1/4": "b:1/4"},
        b={"1/7": "a:1/9", "1/4": "a:1/4"},
    )
    assert pairs(spec) == [(("a", "1/4"), ("b", "1/4"))]


@pytest.mark.parametrize(
    ("port", "names"),
    [
        ({"to": "b:1/1"}, ["rail-0", "rail-1"]),
        ({"to": "b:1/1", "rails": ["rail-1"]}, ["rail-1"]),
        ({"to": "b:1/1", "rails": []}, []),
        ({"to": "b:1/1", "mode": "routed"}, []),
    ],
)
def test_rails_of_a_link(port: dict[str, Any], names: list[str]) -> None:
    found = rails_on_link(example(), SwitchPort.model_validate(port))
    assert [rail.name for rail in found] == names


def test_switches_with_a_host_of_a_rail() -> None:
    spec = site(
        a={"1/1": "gpu01/rail-0", "1/2": "gpu02/rail-0", "1/3": "gpu01/rail-9"},
        b={"1/1": "gpu03/rail-0", "1/2": "a:1/2", "1/3": "gpu03/rail-1"},
    )
    assert switches_of_rails(spec) == {"rail-0": ("a", "b"), "rail-1": ("b",)}


def test_a_rail_reaches_what_trunks_of_both_ends_carry() -> None:
    spec = site(
        a={"1/1": "b:1/1"},
        b={"1/1": "a:1/1", "1/2": {"to": "c:1/1", "rails": ["rail-0"]}},
        c={"1/1": "b:1/2", "1/2": {"to": "d:1/1", "mode": "routed"}},
        d={"1/1": {"to": "c:1/2", "mode": "routed"}, "1/2": "e:1/1"},
        e={"1/1": "d:1/2"},
    )
    assert reachable(spec, "rail-0", "a") == {"a", "b", "c"}
    assert reachable(spec, "rail-0", "c") == {"a", "b", "c"}
    assert reachable(spec, "rail-1", "a") == {"a", "b"}
    assert reachable(spec, "rail-1", "c") == {"c"}
    assert reachable(spec, "rail-0", "e") == {"d", "e"}
    assert reachable(spec, "rail-9", "a") == {"a"}


def test_a_ring_has_an_end() -> None:
    spec = site(
        a={"1/1": "b:1/2", "1/2": "c:1/1"},
        b={"1/1": "c:1/2", "1/2": "a:1/1"},
        c={"1/1": "a:1/2", "1/2": "b:1/1"},
    )
    assert reachable(spec, "rail-0", "b") == {"a", "b", "c"}
