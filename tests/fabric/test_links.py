"""Links between switches by both ends of the file: the fabrics of links.yaml, written by hand."""

from __future__ import annotations

from typing import Any, Final

import pytest

from components.fabric.links import (
    list_ends,
    list_links,
    rails_on_link,
    reachable,
    switches_of_rails,
)
from components.model.cluster import ClusterSpec
from components.model.fabric import SwitchPort
from tests.fabric.conftest import load_spec
from tests.fabric.in_process import load_table

EXAMPLE: Final = load_spec()


def port_of(to: str | dict[str, Any]) -> SwitchPort:
    return SwitchPort.model_validate({"to": to} if isinstance(to, str) else to)


def site(switches: dict[str, dict[str, Any]]) -> ClusterSpec:
    (first,) = EXAMPLE.switches
    made = [
        first.model_copy(
            update={"name": name, "ports": {port: port_of(to) for port, to in ports.items()}}
        )
        for name, ports in switches.items()
    ]
    return EXAMPLE.model_copy(update={"switches": tuple(made)})


@pytest.mark.parametrize("case", load_table("links.yaml"), ids=lambda case: case["name"])
def test_the_links_of_a_fabric(case: dict[str, Any]) -> None:
    spec = site(case["switches"])
    links = [[":".join(end.key) for end in (link.one, link.other)] for link in list_links(spec)]
    found = {
        "ends": [":".join(end.key) for end in list_ends(spec)],
        "links": links,
        "rails": {rail: [*names] for rail, names in switches_of_rails(spec).items()},
        "reach": [
            [rail, start, sorted(reachable(spec, rail, start))]
            for rail, start, _ in case.get("reach", [])
        ],
    }
    wanted = {key: case[key] for key in found if key in case}
    assert {key: found[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("port", "names"),
    [
        ("b:1/1", ["rail-0", "rail-1"]),
        ({"to": "b:1/1", "rails": ["rail-1"]}, ["rail-1"]),
        ({"to": "b:1/1", "rails": []}, []),
        ({"to": "b:1/1", "mode": "routed"}, []),
    ],
)
def test_rails_of_a_link(port: str | dict[str, Any], names: list[str]) -> None:
    assert [rail.name for rail in rails_on_link(EXAMPLE, port_of(port))] == names
