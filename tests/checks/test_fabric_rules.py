"""Where the rules on links, routing and management begin and end; reports are in tests/cases."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from ipaddress import IPv4Address, IPv4Network

import pytest
import yaml

from components.checks.site import check_site
from components.model.cluster import ClusterSpec
from components.model.fabric import Inband, Rail, Routing, Switch, SwitchPort
from tests.fabric.fabric_lab import chain_of, load_example

Change = Callable[[ClusterSpec], ClusterSpec]


@cache
def _spine_leaf() -> ClusterSpec:
    return ClusterSpec.model_validate(load_example("spine-leaf"))


def _switch(number: int, **changes: object) -> Change:
    def change(spec: ClusterSpec) -> ClusterSpec:
        switches: list[Switch] = list(spec.switches)
        switches[number] = switches[number].model_copy(update=changes)
        return spec.model_copy(update={"switches": tuple(switches)})

    return change


def _rail(number: int, **changes: object) -> Change:
    def change(spec: ClusterSpec) -> ClusterSpec:
        rails: list[Rail] = list(spec.rails)
        rails[number] = rails[number].model_copy(update=changes)
        return spec.model_copy(update={"rails": tuple(rails)})

    return change


def _leaf(number: int, leaf: str, **changes: object) -> Change:
    def change(spec: ClusterSpec) -> ClusterSpec:
        leaves = dict(spec.rails[number].leaves)
        leaves[leaf] = leaves[leaf].model_copy(update=changes)
        return _rail(number, leaves=leaves)(spec)

    return change


def _relinked(mode: str) -> Change:
    """A link between two leaves of the same rails, which the example has not."""

    def change(spec: ClusterSpec) -> ClusterSpec:
        for one, other in ((0, 4), (4, 0)):
            port = SwitchPort.model_validate({"to": f"leaf-0{other + 1}:swp60", "mode": mode})
            spec = _switch(one, ports={**spec.switches[one].ports, "swp60": port})(spec)
        return spec

    return change


def _as_it_is(spec: ClusterSpec) -> ClusterSpec:
    return spec


def _routing(asn: int, router_id: str) -> Routing:
    return Routing.model_validate({"asn": asn, "router_id": router_id})


def _rules(spec: ClusterSpec) -> set[str]:
    return {each.rule for each in check_site(spec)}


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (_as_it_is, set[str]()),
        (_switch(0, routing=None), {"routing"}),
        (_switch(1, routing=_routing(65101, "10.255.0.2")), {"routing"}),
        (_switch(1, routing=_routing(65102, "10.255.0.1")), {"routing"}),
        (_switch(8, routing=_routing(65101, "10.255.1.1")), {"routing"}),
        (_switch(8, routing=_routing(65200, "10.255.1.1")), {"routing"}),
        (_rail(0, leaves={}), {"rail-gateway"}),
        (_rail(0, gateway=IPv4Address("10.10.111.1")), {"rail-gateway"}),
        (_leaf(0, "leaf-01", gateway=IPv4Address("10.10.111.200")), {"rail-gateway"}),
        (_leaf(0, "leaf-01", gateway=IPv4Address("10.10.111.126")), {"rail-gateway"}),
        (_leaf(0, "leaf-05", subnet=IPv4Network("10.10.111.0/24")), {"rail-leaf"}),
        (_leaf(0, "leaf-05", subnet=IPv4Network("10.10.111.128/26")), {"subnet-size"}),
        (_switch(4, ports={}), {"link-ends", "nic-cabling", "rail-leaf"}),
        (_relinked("trunk"), {"rail-leaf"}),
        (_relinked("routed"), set[str]()),
        (_rail(0, vlan=3724), set[str]()),
        (_rail(0, vlan=3725), {"reserved-vlan"}),
        (_rail(0, vlan=3999), {"reserved-vlan"}),
        (_rail(0, vlan=4000), set[str]()),
        (_switch(0, inband=Inband(port="swp64", vlan=10)), set[str]()),
        (_switch(0, inband=Inband(port="swp64", vlan=111)), {"management-port"}),
        (_switch(0, inband=Inband(port="swp65")), {"management-port"}),
        (_switch(0, inband=Inband(port="swp1s1")), {"management-port"}),
        (_switch(0, release="5.5.9"), {"switch-release"}),
    ],
)
def test_the_spine_leaf(change: Change, rules: set[str]) -> None:
    assert _rules(change(_spine_leaf())) == rules


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("rail-gateway", _rail(0, leaves={})),
        ("rail-gateway", _rail(0, leaves={}, gateway=IPv4Address("10.10.111.1"))),
        ("rail-leaf", _leaf(0, "leaf-05", subnet=IPv4Network("10.10.111.0/24"))),
    ],
)
def test_what_the_fix_writes_for_leaves_passes(rule: str, change: Change) -> None:
    wrong = change(_spine_leaf())
    (found,) = (each for each in check_site(wrong) if each.rule == rule)
    text = found.fix[found.fix.index("leaves: {") :].removesuffix(".")
    leaves = Rail.model_validate(
        {**wrong.rails[0].model_dump(), **yaml.safe_load(text), "gateway": None}
    ).leaves
    assert _rules(_rail(0, leaves=leaves, gateway=None)(wrong)) == set()


def test_the_leaf_that_a_fix_adds_passes() -> None:
    leaves = {"leaf-01": _spine_leaf().rails[0].leaves["leaf-01"]}
    wrong = _rail(0, leaves=leaves)(_spine_leaf())
    (found,) = (each for each in check_site(wrong) if each.rule == "rail-leaf")
    added = yaml.safe_load("{" + found.fix.removeprefix("add to its leaves ").rstrip(".") + "}")
    rail = Rail.model_validate({**wrong.rails[0].model_dump(), "leaves": {**leaves, **added}})
    assert _rules(_rail(0, leaves=rail.leaves)(wrong)) == set()


def test_leaves_without_a_way_between_them_are_told() -> None:
    spec = _spine_leaf()
    for number in (8, 9):
        ports = {
            name: port
            for name, port in spec.switches[number].ports.items()
            if not port.to.startswith("leaf-05")
        }
        spec = _switch(number, ports=ports)(spec)
    ports = {n: port for n, port in spec.switches[4].ports.items() if port.peer is None}
    assert _rules(_switch(4, ports=ports)(spec)) == {"rail-leaf"}


@pytest.mark.parametrize("system", ["onyx", "cumulus"])
def test_leaves_in_a_row_are_clean(system: str) -> None:
    assert _rules(chain_of(system, 3)) == set(), "a rail over joined leaves needs no warning"


def test_a_rail_over_leaves_that_no_trunk_joins_is_told() -> None:
    spec = chain_of("onyx", 2)
    cut = {name: port for name, port in spec.switches[0].ports.items() if port.peer is None}
    other = {name: port for name, port in spec.switches[1].ports.items() if port.peer is None}
    parted = _switch(1, ports=other)(_switch(0, ports=cut)(spec))
    assert _rules(parted) == {"rail-switch"}


def test_two_trunks_are_a_loop_and_two_routed_links_are_not() -> None:
    spec = chain_of("cumulus", 2)
    for one, other, number in ((0, 1, 30), (1, 0, 30)):
        port = (
            spec.switches[one]
            .ports["swp1"]
            .model_copy(update={"to": f"{spec.switches[other].name}:swp{number}"})
        )
        ports = {**spec.switches[one].ports, f"swp{number}": port}
        spec = _switch(one, ports=ports)(spec)
    assert _rules(spec) == {"link-loop"}
    assert "link-loop" not in _rules(_spine_leaf()), "four links to each spine"


def test_the_last_subnet_of_all_is_reported_and_not_counted_past_its_end() -> None:
    leaves = _spine_leaf().rails[0].leaves
    name, part = next(iter(leaves.items()))
    last = part.model_copy(update={"subnet": IPv4Network("255.255.255.255/32")})
    found = check_site(_rail(0, leaves={**leaves, name: last})(_spine_leaf()))
    assert any(f"on {name}" in each.what for each in found)
