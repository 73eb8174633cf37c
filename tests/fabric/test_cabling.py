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
from tests.fabric.fabric_lab import KINDS, chain_of, load_example, port_name, rooms_of

CABLES = {
    "1/3": CableEnd(text="gpu01/rail-0", system="gpu01", ports=("enp5s0",)),
    "1/31": CableEnd(text="leaf-02:1/31", system="leaf-02", ports=("1/31",)),
    "swp1": CableEnd(text="a:Ethernet1/1", system="a", ports=("Ethernet1/1",)),
    "swp2": CableEnd(text="a:Ethernet8", system="a", ports=("Ethernet8",)),
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
    ("port", "seen", "words"),
    [
        ("1/3", Neighbour(system="gpu01", port="enp5s0"), None),
        ("1/3", Neighbour(system="GPU01.rack4.example", port="248a.0700.0002"), None),
        ("1/3", Neighbour(system="gpu01", description="Mellanox ConnectX-5"), None),
        ("1/3", Neighbour(system="gpu01", port="enp132s0"), "gpu01 enp132s0"),
        ("1/3", Neighbour(system="server9"), "server9"),
        ("1/3", Neighbour(system=""), None),
        ("1/31", Neighbour(system="leaf-03", port="Eth1/30"), "leaf-03 Eth1/30"),
        ("swp1", Neighbour(system="a", port="Ethernet1/1"), None),
        ("swp1", Neighbour(system="a", port="Ethernet1/5"), "a Ethernet1/5"),
        # An alias says nothing if the description is the port's name.
        ("swp2", Neighbour(system="a", port="etp2", description="Ethernet8"), None),
    ],
)
def test_only_another_one_is_a_finding(port: str, seen: Neighbour, words: str | None) -> None:
    text = f"port {port}: {words} is plugged in, the file says {CABLES[port].text}"
    assert find_wrong_cables(CABLES, {port: seen}) == ((text,) if words else ())


def test_eos_answers_of_two_ages() -> None:
    far = {"interfaceId": '"Ethernet49/1"', "interfaceDescription": "to leaf 1"}
    old = {"systemName": "spine-01", "neighborInterfaceInfo": far}
    new = {"systemName": "gpu01", "neighborInterfaceInfo": {"interfaceId_v2": "2488.0700.0001"}}
    ports = {"Ethernet1/1": [new], "Ethernet2/1": [old], "Ethernet3/1": list[object]()}
    table = {port: {"lldpNeighborInfo": heard} for port, heard in ports.items()}
    driver = EosDriver()
    found = driver.neighbours.parse({EOS_LLDP: json.dumps({"lldpNeighbors": table})})
    assert found == {
        "Ethernet1/1": Neighbour(system="gpu01", port="2488.0700.0001"),
        "Ethernet2/1": Neighbour(system="spine-01", port="Ethernet49/1", description="to leaf 1"),
    }
    with pytest.raises(Unreadable):
        driver.neighbours.parse({EOS_LLDP: "{}"})


def test_silence_is_no_finding() -> None:
    assert find_wrong_cables(CABLES, {}) == ()
    assert find_wrong_cables(CABLES, None) == ()


def test_cumulus_answers_that_say_nothing() -> None:
    parse = CumulusDriver().neighbours.parse
    assert parse({CUMULUS_LLDP: "{}"}) == {}
    assert parse({CUMULUS_LLDP: '{"swp1": {"type": "swp"}, "eth0": {}}'}) == {}


@pytest.mark.parametrize("system", KINDS)
def test_swapped_and_pulled_cables_are_told_and_mended(system: str, tmp_path: Path) -> None:
    rooms = rooms_of(chain_of(system, 2, mode="lossless"), tmp_path)
    for room in rooms:
        room.apply()
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
