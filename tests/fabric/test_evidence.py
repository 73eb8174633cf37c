"""What a step hands on in its environment stays within what the kernel takes.

Ports that are alike are written once, and read as each of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from components.fabric.device import BASELINE_VARIABLE, parse_request
from components.fabric.edit import PACKED, every_key, pack_baseline, read_baseline, render_baseline
from components.fabric.fabric_plan import plan_fabric
from components.fabric.moves import describe_moves
from components.fabric.parts import fold_ports, spread_ports
from components.fabric.state import PortState, SwitchState
from components.remote.step import render_request
from tests.fabric.eos_lab import Clock
from tests.fabric.switch_labs import LABS, SwitchLab
from tests.golden.site import load_example
from tests.over_ssh.switch_room import switch_room

ONE_VARIABLE = 131_072
"""MAX_ARG_STRLEN of Linux."""


def test_vlans_and_dscps_that_moved_alike_are_one_line() -> None:
    dscps = (24, 25, 26, 30)
    before = SwitchState(
        dscp_classes={},
        ports={
            "p1": PortState(
                trunk_vlans=(1, 2, 3, 9), trust="L2", dscp_priorities=dict.fromkeys(dscps, 1)
            ),
            "p2": PortState(dscp_priorities={26: 1}),
        },
    )
    after = SwitchState(
        vlans=(111,),
        dscp_classes={26: 3},
        ports={
            "p1": PortState(trunk_vlans=(), trust="L3", dscp_priorities=dict.fromkeys(dscps, 3)),
            "p2": PortState(dscp_priorities={26: 3}),
        },
    )
    moved, lines = describe_moves(before, after, {"p1"})
    assert len(moved) == 12
    assert lines == (
        "dscp_24-26,30_priority of port p1: 1 -> 3",
        "trunk_vlan_1-3,9 of port p1: allowed -> absent",
        "trust of port p1: L2 -> L3",
        "dscp_26_priority of port p2: 1 -> 3",
        "dscp_26_class of switch: absent -> 3",
        "vlan_111 of switch: absent -> present",
    )


def test_what_a_one_shot_moved_on_other_ports_is_a_line_a_setting() -> None:
    names = [f"1/{number}" for number in range(1, 33)]
    before = SwitchState(roce="none", ports=dict.fromkeys(names, PortState(trust="L2")))
    after = SwitchState(roce="lossless", ports=dict.fromkeys(names, PortState(trust="L3")))
    moved, lines = describe_moves(before, after, {"1/2"})
    assert len(moved) == 33
    assert lines == (
        "trust of ports beside the file's: L2 -> L3",
        "trust of port 1/2: L2 -> L3",
        "roce of switch: none -> lossless",
    )


@pytest.mark.lab
@pytest.mark.parametrize("system", LABS)
def test_the_first_apply_of_trunks_that_carried_all(system: str, tmp_path: Path) -> None:
    with switch_room(system, tmp_path) as room:
        assert len(json.dumps(room.apply(), indent=2)) < ONE_VARIABLE / 10


@pytest.mark.parametrize(("ports", "packed"), [(1, False), (32, True), (1024, True)])
def test_a_baseline_of_any_size_goes_through(ports: int, packed: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a table
    lab: SwitchLab = LABS["onyx"]
    exchange = lab.talk(lab.make_switch(tmp_path, Clock()))
    one: PortState = exchange.read(every_key(("1/1",), SwitchState())).state.ports["1/1"]
    state = SwitchState(ports={f"1/{number}": one for number in range(ports)})
    line = pack_baseline(state.model_dump_json(indent=2))
    assert line.startswith(PACKED) is packed
    assert len(line) < ONE_VARIABLE
    request = render_request(lab.plan.endpoint, os="onyx", desired={})
    assert parse_request(request, {BASELINE_VARIABLE: line}).baseline == state


def test_a_recorded_baseline_has_ports_that_are_alike_once_and_reads_as_each() -> None:
    one, other = PortState(mtu_bytes=1500), PortState(mtu_bytes=9216)
    state = SwitchState(ports={"1/1": one, "1/2": other, "1/3": one}, vlans=(1,))
    text = render_baseline(state)
    assert text.count("1500") == 1
    assert SwitchState.model_validate(read_baseline(text)) == state
    assert SwitchState.model_validate(read_baseline(state.model_dump_json(indent=2))) == state
    request = render_request(LABS["onyx"].plan.endpoint, os="onyx", desired={})
    packed = {BASELINE_VARIABLE: pack_baseline(text)}
    assert parse_request(request, packed).baseline == state


VALUES = st.one_of(st.none(), st.booleans(), st.integers(1500, 1502), st.just([111]))
PORTS = st.dictionaries(
    st.sampled_from(["1/1", "1/2", "1/3", "Ethernet0", "swp1"]),
    st.dictionaries(st.sampled_from(["mtu_bytes", "pfc", "mode", "native"]), VALUES),
)


@given(PORTS)
def test_each_port_is_as_it_was(ports: dict[str, Any]) -> None:
    state: dict[str, JsonValue] = {"vlans": [1], "ports": ports}
    assert spread_ports(json.loads(json.dumps(fold_ports(state)))) == state


PORT: dict[str, JsonValue] = {"mtu_bytes": 9216, "mode": "trunk"}
OTHER: dict[str, JsonValue] = {**PORT, "mtu_bytes": 1500}


@pytest.mark.parametrize(
    ("ports", "short"),
    [
        ({"1/1": PORT}, {"1/1": PORT}),
        ({"1/1": PORT, "1/2": PORT}, {"all": PORT, "1/1": {}, "1/2": {}}),
        (
            {"1/1": PORT, "1/2": OTHER, "1/3": PORT},
            {"all": PORT, "1/1": {}, "1/2": {"mtu_bytes": 1500}, "1/3": {}},
        ),
        # A key that one port lacks is not given to it.
        ({"1/1": PORT, "1/2": {}}, {"all": {}, "1/1": PORT, "1/2": {}}),
    ],
)
def test_what_most_ports_have_is_said_once(ports: JsonValue, short: JsonValue) -> None:
    assert fold_ports({"ports": ports}) == {"ports": short}
    assert spread_ports({"ports": short}) == {"ports": ports}


@pytest.mark.parametrize("example", ["dgx-roce", "esxi-roce", "quantum-ib", "mixed-fabric"])
def test_every_planned_switch_comes_back_from_its_short_form(example: str) -> None:
    for plan in plan_fabric(load_example(example)):
        whole = plan.desired.model_dump(mode="json")
        short = fold_ports(whole)
        assert SwitchState.model_validate(short) == plan.desired
        if len(plan.desired.ports) > 2:
            assert len(json.dumps(short)) < 0.6 * len(json.dumps(whole))


@pytest.mark.parametrize("other", [None, "text", 7, ["ports"], {"vlans": [1]}, {"ports": None}])
def test_what_is_no_switch_is_left_to_the_reader(other: object) -> None:
    assert spread_ports(other) == other
