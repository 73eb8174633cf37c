"""Ports that are alike are written once, and read as each of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from components.fabric.parts import fold_ports, spread_ports
from components.fabric.plan import plan_fabric
from components.fabric.state import SwitchState
from tests.golden.site import load_example

VALUES = st.one_of(st.none(), st.booleans(), st.integers(1500, 1502), st.just([111]))
PORTS = st.dictionaries(
    st.sampled_from(["1/1", "1/2", "1/3", "Ethernet0", "swp1"]),
    st.dictionaries(st.sampled_from(["mtu_bytes", "pfc", "mode", "native"]), VALUES),
)


@given(PORTS)
def test_each_port_is_as_it_was(ports: dict[str, Any]) -> None:
    state: dict[str, JsonValue] = {"vlans": [1], "ports": ports}
    assert spread_ports(json.loads(json.dumps(fold_ports(state)))) == state


def test_what_most_ports_have_is_said_once() -> None:
    port: dict[str, JsonValue] = {"mtu_bytes": 9216, "mode": "trunk"}
    ports: JsonValue = {"1/1": port, "1/2": {**port, "mtu_bytes": 1500}, "1/3": port}
    assert fold_ports({"ports": ports}) == {
        "ports": {"all": port, "1/1": {}, "1/2": {"mtu_bytes": 1500}, "1/3": {}}
    }


def test_a_key_that_one_port_lacks_is_not_given_to_it() -> None:
    ports: JsonValue = {"1/1": {"native": {"rest": "default"}}, "1/2": {}}
    assert spread_ports(fold_ports({"ports": ports})) == {"ports": ports}


@pytest.mark.parametrize("example", ["dgx-roce", "esxi-roce", "quantum-ib", "mixed-fabric"])
def test_every_planned_switch_comes_back_from_its_short_form(example: str) -> None:
    for plan in plan_fabric(load_example(example)):
        whole = plan.desired.model_dump(mode="json")
        short = fold_ports(whole)
        assert SwitchState.model_validate(short) == plan.desired
        if len(plan.desired.ports) > 2:
            assert len(json.dumps(short)) < 0.6 * len(json.dumps(whole))


def test_a_port_alone_is_written_as_it_is_and_two_alike_once() -> None:
    port: dict[str, JsonValue] = {"mtu_bytes": 9216}
    assert fold_ports({"ports": {"1/1": port}}) == {"ports": {"1/1": port}}
    assert fold_ports({"ports": {"1/1": port, "1/2": port}}) == {
        "ports": {"all": port, "1/1": {}, "1/2": {}}
    }


@pytest.mark.parametrize("other", [None, "text", 7, ["ports"], {"vlans": [1]}, {"ports": None}])
def test_what_is_no_switch_is_left_to_the_reader(other: object) -> None:
    assert spread_ports(other) == other
