"""What a step hands on in its environment stays within what the kernel takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.fabric.device import (
    BASELINE_VARIABLE,
    PACKED,
    _describe_moves,  # pyright: ignore[reportPrivateUsage] - its words are what people read
    every_key,
    pack_baseline,
    parse_request,
    read_baseline,
    render_baseline,
)
from components.fabric.state import PortState, SwitchState
from components.remote.step import render_request
from tests.fabric.eos_lab import Clock
from tests.fabric.switch_labs import LABS, SwitchLab
from tests.over_ssh.switch_room import switch_room

ONE_VARIABLE = 131_072
"""MAX_ARG_STRLEN of Linux."""


def test_vlans_and_dscps_that_moved_alike_are_one_line() -> None:
    gone = [("port p1", f"trunk_vlan_{vlan}", "allowed -> absent") for vlan in (1, 2, 3, 9)]
    moves = [*gone, ("port p1", "trust", "L2 -> L3"), ("switch", "vlan_111", "absent -> present")]
    moves += [("port p1", f"dscp_{dscp}_priority", "1 -> 3") for dscp in (24, 25, 26, 30)]
    moves += [("port p2", "dscp_26_priority", "1 -> 3"), ("switch", "dscp_26_class", "1 -> 3")]
    assert _describe_moves(moves) == (
        "trunk_vlan_1-3,9 of port p1: allowed -> absent",
        "trust of port p1: L2 -> L3",
        "vlan_111 of switch: absent -> present",
        "dscp_24-26,30_priority of port p1: 1 -> 3",
        "dscp_26_priority of port p2: 1 -> 3",
        "dscp_26_class of switch: 1 -> 3",
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
