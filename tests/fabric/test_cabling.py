"""Who is plugged where: LLDP of both systems against the cables of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.core.errors import UsageError
from components.fabric.cabling import CableEnd, find_wrong_cables
from components.fabric.state import Neighbour
from components.fabric.systems.base import Unreadable
from components.fabric.systems.cumulus.driver import NEIGHBOURS as CUMULUS_LLDP
from components.fabric.systems.cumulus.driver import CumulusDriver
from components.fabric.systems.eos.driver import NEIGHBOURS as EOS_LLDP
from components.fabric.systems.eos.driver import EosDriver
from components.fabric.systems.onyx.system import read_neighbours
from components.model.cluster import ClusterSpec
from lab.switches.onyx.server import OnyxSwitch
from tests.fabric.fabric_lab import KINDS, Room, chain_of, load_example, port_name, rooms_of

CABLES = {
    "1/3": CableEnd(text="gpu01/rail-0", system="gpu01", ports=("enp5s0",)),
    "1/31": CableEnd(text="leaf-02:1/31", system="leaf-02", ports=("1/31",)),
}
ONYX = """\
Eth1/3 (Po7)
  Remote Index                : 1
  Remote chassis id           : 24:8a:07:00:00:01 ; chassis id subtype: MAC Address (4)
  Remote port-id              : 24:8a:07:00:00:02 ; port id subtype: MAC Address (3)
  Remote port description     : enp5s0
  Remote system name          : gpu02.example.com

Eth1/31
  Remote port-id              : Eth1/31 ; port id subtype: Interface Name (5)
  Remote port description     : Not Advertised
  Remote system name          : leaf-02
Eth1/32:
  Remote port-id              : 98:03:9b:00:00:02 ; port id subtype: MAC Address (3)
  Remote port description     : N\\A
  Remote system name          : Not Advertised
"""


def test_onyx_lines() -> None:
    found = read_neighbours(ONYX)
    assert found["1/3"] == Neighbour(
        system="gpu02.example.com", port="24:8a:07:00:00:02", description="enp5s0"
    )
    assert found["1/31"] == Neighbour(system="leaf-02", port="Eth1/31")
    assert found["1/32"].system == "", "a card that says no name has said nothing"
    assert find_wrong_cables(CABLES, found) == (
        "port 1/3: gpu02 enp5s0 is plugged in, the file says gpu01/rail-0",
    )


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (Neighbour(system="gpu01", port="enp5s0"), None),
        (Neighbour(system="GPU01.rack4.example", port="248a.0700.0002"), None),
        (Neighbour(system="gpu01", description="Mellanox ConnectX-5"), None),
        (Neighbour(system="gpu01", port="enp132s0"), "gpu01 enp132s0 is plugged in"),
        (Neighbour(system="server9"), "port 1/3: server9 is plugged in"),
        (Neighbour(system=""), None),
    ],
)
def test_only_another_one_is_a_finding(seen: Neighbour, words: str | None) -> None:
    found = find_wrong_cables(CABLES, {"1/3": seen})
    assert (found == ()) if words is None else (words in found[0])


def test_ports_are_compared_without_what_their_systems_put_before() -> None:
    """Onyx tells `Eth1/31`; an alias says nothing where the description is the port's name."""
    eos = {"swp1": CableEnd(text="a:Ethernet1/1", system="a", ports=("Ethernet1/1",))}
    assert find_wrong_cables(eos, {"swp1": Neighbour(system="a", port="Ethernet1/1")}) == ()
    assert find_wrong_cables(eos, {"swp1": Neighbour(system="a", port="Ethernet1/5")}) != ()
    lane = {"swp1": CableEnd(text="a:Ethernet8", system="a", ports=("Ethernet8",))}
    alias = Neighbour(system="a", port="etp2", description="Ethernet8")
    assert find_wrong_cables(lane, {"swp1": alias}) == ()


def test_eos_answers_of_two_ages() -> None:
    far = {"interfaceId": '"Ethernet49/1"', "interfaceDescription": "to leaf 1"}
    old = {"systemName": "spine-01", "neighborInterfaceInfo": far}
    new = {"systemName": "gpu01", "neighborInterfaceInfo": {"interfaceId_v2": "2488.0700.0001"}}
    ports = {"Ethernet1/1": [new], "Ethernet2/1": [old], "Ethernet3/1": list[object]()}
    table = {port: {"lldpNeighborInfo": heard} for port, heard in ports.items()}
    driver = EosDriver()
    found = driver.parse_neighbours({EOS_LLDP: json.dumps({"lldpNeighbors": table})})
    assert found == {
        "Ethernet1/1": Neighbour(system="gpu01", port="2488.0700.0001"),
        "Ethernet2/1": Neighbour(system="spine-01", port="Ethernet49/1", description="to leaf 1"),
    }
    with pytest.raises(Unreadable):
        driver.parse_neighbours({EOS_LLDP: "{}"})


def test_silence_is_no_finding() -> None:
    assert find_wrong_cables(CABLES, {}) == ()
    assert find_wrong_cables(CABLES, None) == ()


def test_another_switch_than_the_file_says() -> None:
    seen = {"1/31": Neighbour(system="leaf-03", port="Eth1/30")}
    assert find_wrong_cables(CABLES, seen) == (
        "port 1/31: leaf-03 Eth1/30 is plugged in, the file says leaf-02:1/31",
    )


def test_cumulus_answers_that_say_nothing() -> None:
    driver = CumulusDriver()
    assert driver.parse_neighbours({CUMULUS_LLDP: "{}"}) == {}
    assert driver.parse_neighbours({CUMULUS_LLDP: '{"swp1": {"type": "swp"}, "eth0": {}}'}) == {}


def _rooms(system: str, folder: Path) -> list[Room]:
    rooms = rooms_of(chain_of(system, 2, mode="lossless"), folder)
    for room in rooms:
        room.apply()
    return rooms


@pytest.mark.parametrize("system", KINDS)
def test_two_swapped_cables_are_told_and_mended(system: str, tmp_path: Path) -> None:
    first = _rooms(system, tmp_path)[0]
    one, two = port_name(system, 1), port_name(system, 2)
    assert find_wrong_cables(first.plan.cables, first.talk().read_neighbours()) == ()
    first.switch.fault(["cable", one, "gpu01", "enp132s0"])
    first.switch.fault(["cable", two, "gpu02", "enp5s0"])
    assert find_wrong_cables(first.plan.cables, first.talk().read_neighbours()) == (
        f"port {one}: gpu01 enp132s0 is plugged in, the file says gpu01/rail-0",
        f"port {two}: gpu02 enp5s0 is plugged in, the file says gpu01/rail-1",
    )
    first.switch.fault(["cable", one, "off"])
    first.switch.fault(["cable", two, "off"])
    assert find_wrong_cables(first.plan.cables, first.talk().read_neighbours()) == ()
    assert first.switch.unmodelled == ()


@pytest.mark.parametrize("system", KINDS)
def test_a_pulled_cable_is_silent(system: str, tmp_path: Path) -> None:
    first = _rooms(system, tmp_path)[0]
    link = port_name(system, 32)
    assert link in first.talk().read_neighbours()
    first.switch.fault(["link-down", link, "on"])
    assert link not in first.talk().read_neighbours()


def test_without_lldp_an_onyx_switch_hears_nothing(tmp_path: Path) -> None:
    room = rooms_of(chain_of("onyx", 1), tmp_path)[0]
    assert isinstance(room.switch, OnyxSwitch)
    room.apply()
    assert room.talk().read_neighbours() == {}
    room.switch.run_line("lldp")
    assert {*room.talk().read_neighbours()} == {"1/1", "1/2"}


@pytest.mark.parametrize("system", KINDS)
def test_a_refusal_is_silence(system: str, tmp_path: Path) -> None:
    first = _rooms(system, tmp_path)[0]
    first.switch.fault(["reject", "lldp"])
    assert first.talk().read_neighbours() == {}


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
