"""Who is plugged where: LLDP of every system against the cables of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from components.core.errors import UsageError
from components.fabric.cabling import CableEnd, find_wrong_cables
from components.fabric.state import Neighbour
from components.fabric.systems import system_of
from components.fabric.systems.base import Unreadable
from components.model.cluster import ClusterSpec
from lab.switches.onyx.server import OnyxSwitch
from tests.fabric.fabric_lab import (
    KINDS,
    applied_rooms,
    chain_of,
    load_example,
    port_name,
    rooms_of,
)
from tests.fabric.in_process import load_table

TABLE: Final[dict[str, Any]] = load_table("cables.yaml")
CABLES: Final = {port: CableEnd.model_validate(cable) for port, cable in TABLE["cables"].items()}


@pytest.mark.parametrize(("system", "text", "wanted"), TABLE["answers"])
def test_an_answer_is_read(system: str, text: str, wanted: dict[str, Any] | None) -> None:
    asked = system_of(system).neighbours
    assert asked.commands
    answers = dict.fromkeys(asked.commands, text)
    if wanted is None:
        with pytest.raises(Unreadable):
            asked.parse(answers)
    else:
        neighbours = {port: Neighbour.model_validate(heard) for port, heard in wanted.items()}
        assert asked.parse(answers) == neighbours


@pytest.mark.parametrize(("port", "heard", "words"), TABLE["heard"])
def test_only_another_one_is_a_finding(port: str, heard: Any, words: str | None) -> None:  # noqa: ANN401 - YAML
    text = f"port {port}: {words} is plugged in, the file says {CABLES[port].text}"
    found = find_wrong_cables(CABLES, {port: Neighbour.model_validate(heard)})
    assert found == ((text,) if words else ())


@pytest.mark.parametrize("heard", [{}, None])
def test_silence_is_no_finding(heard: dict[str, Neighbour] | None) -> None:
    assert find_wrong_cables(CABLES, heard) == ()


@pytest.mark.parametrize("system", KINDS)
def test_swapped_and_pulled_cables_are_told_and_mended(system: str, tmp_path: Path) -> None:
    rooms = applied_rooms(chain_of(system, 2, mode="lossless"), tmp_path)
    first, link = rooms[0], port_name(system, 32)
    one, two = port_name(system, 1), port_name(system, 2)
    heard = first.talk().read_neighbours()
    assert find_wrong_cables(first.plan.cables, heard) == ()
    assert (heard[one].system, heard[one].description) == ("gpu01", "enp5s0")
    told = "Eth{}" if system == "onyx" else "{}"
    assert (heard[link].system, heard[link].port) == ("leaf-02", told.format(port_name(system, 31)))
    first.switch.fault(["cable", one, "gpu01", "enp132s0"])
    first.switch.fault(["cable", two, "gpu02", "enp5s0"])
    assert find_wrong_cables(first.plan.cables, first.talk().read_neighbours()) == (
        f"port {one}: gpu01 enp132s0 is plugged in, the file says gpu01/rail-0",
        f"port {two}: gpu02 enp5s0 is plugged in, the file says gpu01/rail-1",
    )
    first.switch.fault(["cable", one, "off"])
    first.switch.fault(["cable", two, "off"])
    assert find_wrong_cables(first.plan.cables, first.talk().read_neighbours()) == ()
    first.switch.fault(["link-down", link, "on"])
    assert link not in first.talk().read_neighbours(), "a pulled cable is silent"
    assert first.switch.unmodelled == ()
    first.switch.fault(["reject", "lldp"])
    assert first.talk().read_neighbours() == {}, "a refusal is silence"


def test_without_lldp_an_onyx_switch_hears_nothing(tmp_path: Path) -> None:
    room = rooms_of(chain_of("onyx", 1), tmp_path)[0]
    assert isinstance(room.switch, OnyxSwitch)
    room.apply()
    assert room.talk().read_neighbours() == {}
    room.switch.run_line("lldp")
    assert {*room.talk().read_neighbours()} == {"1/1", "1/2"}


@pytest.mark.parametrize(
    "fault", [["cable"], ["cable", "1/1", "gpu01"], ["cable", "9/9", "a", "b"]]
)
def test_a_wrong_fault_is_told(fault: list[str], tmp_path: Path) -> None:
    room = rooms_of(chain_of("onyx", 1), tmp_path)[0]
    with pytest.raises(UsageError):
        room.switch.fault(fault)


def test_the_cables_of_an_example_are_in_its_plans(tmp_path: Path) -> None:
    rooms = rooms_of(ClusterSpec.model_validate(load_example("spine-leaf")), tmp_path)
    leaf, spine = rooms[0].plan.cables, rooms[8].plan.cables
    assert leaf["swp3"] == CableEnd(text="gpu03/rail-0", system="gpu03", ports=("rdma0",))
    assert leaf["swp49"] == CableEnd(text="spine-01:swp1", system="spine-01", ports=("swp1",))
    assert spine["swp1"].system == "leaf-01"
