"""What a link runs at: the lines of each system, the way back, and what an emulator refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.checks.links import fecs_of
from components.fabric.exec_plan import plan_exec, why_no_exec
from components.fabric.plan import plan_fabric
from components.fabric.preview import preview_switch
from components.fabric.splits import speeds_of
from components.fabric.state import SwitchState, diff_states
from components.fabric.systems import system_of
from components.fabric.systems.cumulus.rows import read_ports
from components.model.cluster import ClusterSpec
from tests.fabric.fabric_lab import chain_of, rooms_of
from tests.fabric.lives import check_life
from tests.fabric.sonic_lab import sent_rows

MODELS = {"cumulus": "SN5600", "eos": "DCS-7060DX5-64S", "sonic": "Z9332F"}
FIRST = {"cumulus": "swp1", "eos": "Ethernet1/1", "sonic": "Ethernet0"}
LAST = {"cumulus": "swp2", "eos": "Ethernet2/1", "sonic": "Ethernet8"}
ALL: dict[str, Any] = {"speed_gbit_s": 200, "fec": "rs", "autoneg": True}


def linked(system: str, own: dict[str, Any] | None = None, **links: object) -> ClusterSpec:
    """Two leaves of a chain with `links`, and an exception of the first port."""
    site = chain_of(system, 2, mode="lossy_ecn").model_dump(mode="json")
    for switch in site["switches"]:
        switch |= {"model": MODELS[system], "links": links}
        switch["ports"][FIRST[system]] |= own or {}
    return ClusterSpec.model_validate(site)


LINES = {
    "cumulus": {
        "nv set interface swp1-2,swp32 link speed 200G",
        "nv set interface swp1-2,swp32 link fec rs",
        "nv set interface swp1-2,swp32 link auto-negotiate on",
    },
    "eos": {"speed auto 200g-4", "error-correction encoding reed-solomon"},
}


@pytest.mark.parametrize("system", LINES)
def test_one_line_of_the_file_is_for_every_port(system: str) -> None:
    lines = plan_fabric(linked(system, **ALL))[0].commands_from_factory
    assert {*lines} >= LINES[system]


def test_on_sonic_it_is_one_row_a_port() -> None:
    rows = sent_rows(plan_fabric(linked("sonic", **ALL))[0].commands_from_factory)
    said = {"speed": "200000", "fec": "rs", "autoneg": "on", "adv_speeds": "200000"}
    assert said.items() <= rows["PORT"]["Ethernet0"].items()


@pytest.mark.parametrize("system", [*LINES, "sonic"])
def test_what_is_not_said_is_left_to_the_switch(system: str) -> None:
    for port in plan_fabric(linked(system))[0].desired.ports.values():
        assert (port.speed, port.fec, port.autoneg) == (None, None, None)


def test_a_port_has_exceptions() -> None:
    ports = plan_fabric(linked("sonic", {"speed_gbit_s": 100, "fec": "none"}, **ALL))[0].desired
    first, last = ports.ports["Ethernet0"], ports.ports["Ethernet8"]
    assert (first.speed, first.fec, first.autoneg) == ("100000", "none", "on 100000")
    assert (last.speed, last.fec, last.autoneg) == ("200000", "rs", "on 200000")


def test_a_speed_of_eos_without_negotiation_is_the_plain_word() -> None:
    plan = plan_fabric(linked("eos", speed_gbit_s=100, autoneg=False, fec="none"))[0]
    lines = plan.commands_from_factory
    assert "speed 100g-2" in lines
    assert "no error-correction encoding" in lines


def test_cumulus_5_16_has_another_word_for_negotiation() -> None:
    spec = linked("cumulus", autoneg=False)
    new = spec.switches[0].model_copy(update={"release": "5.16.0"})
    spec = spec.model_copy(update={"switches": (new, *spec.switches[1:])})
    lines = plan_fabric(spec)[0].commands_from_factory
    assert "nv set interface swp1-2,swp32 link auto-negotiate disabled" in lines
    assert read_ports({"link": {"auto-negotiate": "disabled"}})[0]["autoneg"] == "off"


BEFORE = {
    "cumulus": (
        "nv set interface swp1 link speed 400G; nv set interface swp1 link fec baser",
        "nv set interface swp2 link auto-negotiate off; nv config apply -y",
    ),
    "eos": (
        "interface Ethernet1/1;error-correction encoding fire-code",
        "interface Ethernet1/1;error-correction encoding reed-solomon;speed 400g-8",
        "interface Ethernet2/1;no error-correction encoding reed-solomon;speed auto 100g-2",
    ),
    "sonic": (
        "sudo config interface fec Ethernet0 rs",
        'sudo sonic-cfggen -a \'{"PORT":{"Ethernet0":{"adv_speeds":["100000"]}}}\' --write-to-db',
        "sudo config interface speed Ethernet8 100000",
        "sudo config interface autoneg Ethernet8 enabled",
    ),
}


@pytest.mark.parametrize("fec", ["rs", "fc", "none"])
@pytest.mark.parametrize("system", BEFORE)
def test_what_was_there_comes_back(system: str, fec: str, tmp_path: Path) -> None:
    speed = {"cumulus": 50, "eos": 100, "sonic": 40}[system]
    links: dict[str, Any] = {"speed_gbit_s": speed, "fec": fec}
    room = rooms_of(linked(system, **links, autoneg=system != "eos"), tmp_path)[0]
    for line in BEFORE[system]:
        room.switch.run_line(line)
    room.save()
    assert check_life(room)


BY_HAND = {
    "cumulus": "nv unset interface swp2 link fec; nv config apply -y",
    "eos": "interface Ethernet2/1;default error-correction encoding",
    "sonic": "sudo sonic-db-cli CONFIG_DB HDEL 'PORT|Ethernet8' fec",
}


@pytest.mark.parametrize("system", BY_HAND)
def test_a_change_by_hand_is_seen_and_interrupts(system: str, tmp_path: Path) -> None:
    room = rooms_of(linked(system, **ALL), tmp_path)[0]
    room.record()
    room.apply()
    room.switch.run_line(BY_HAND[system])
    (found,) = diff_states(room.read(), room.plan.desired)
    assert (found.where, found.setting, found.actual) == (f"port {LAST[system]}", "fec", "default")
    assert system_of(system).driver.interrupts(found)
    assert room.apply()
    assert diff_states(room.read(), room.plan.desired) == ()


@pytest.mark.parametrize("system", LINES)
def test_a_preview_names_the_speed_and_what_it_interrupts(system: str, tmp_path: Path) -> None:
    room = rooms_of(linked(system, **ALL), tmp_path)[0]
    text = preview_switch(room.plan, None, room.read(), "allow") or ""
    assert "fec: default -> rs" in text
    _, interrupts = text.split("INTERRUPTS")
    is_up = system != "cumulus"  # whose ports are shut at first, and carry nothing
    assert ("fec: default -> rs" in interrupts) is is_up


CONFIG = "sudo config interface"
PART_800G = (
    "nv set interface swp1 link breakout 2x; nv set interface swp1s0 link speed 800G;"
    "nv config apply -y"
)


@pytest.mark.parametrize(
    ("system", "line", "words"),
    [
        ("sonic", f"{CONFIG} speed Ethernet0 800000", "Invalid speed specified: 800000"),
        ("sonic", f"{CONFIG} fec Ethernet0 fc", "fec fc is not in ['rs']"),
        ("sonic", f"{CONFIG} fec Ethernet1 rs", "Invalid port Ethernet1"),
        ("sonic", f"{CONFIG} autoneg Ethernet0 maybe", "No such command"),
        ("sonic", f"{CONFIG} advertised-speeds Ethernet0 1,400000", "Invalid speed specified: 1"),
        ("cumulus", "nv set interface swp1 link speed 300G", "is not one of"),
        ("cumulus", PART_800G, "speed 800G is not supported on this port"),
        ("eos", "interface Ethernet1/1;speed 800g-8", "% Unsupported speed 800g-8"),
    ],
)
def test_a_switch_refuses_what_the_port_has_not(
    system: str, line: str, words: str, tmp_path: Path
) -> None:
    switch = rooms_of(linked(system), tmp_path)[0].switch
    assert words in switch.run_line(line)


def test_eos_has_no_link_without_the_correction_that_its_lanes_need(tmp_path: Path) -> None:
    switch = rooms_of(linked("eos"), tmp_path)[0].switch
    assert switch.port_view("Ethernet1/1").oper_up
    switch.run_line("interface Ethernet1/1;no error-correction encoding")
    assert not switch.port_view("Ethernet1/1").oper_up


@pytest.mark.parametrize(
    ("speed", "lanes", "able"),
    [
        (400, 8, ("rs",)),
        (400, None, ("rs",)),
        (100, 2, ("rs",)),
        (100, 4, ("rs", "none")),
        (100, None, ("rs", "fc", "none")),
        (50, 1, ("rs",)),
        (50, 2, ("rs", "fc", "none")),
        (25, 1, ("rs", "fc", "none")),
        (40, 4, ("fc", "none")),
        (10, 1, ("fc", "none")),
    ],
)
def test_which_correction_a_speed_has(speed: int, lanes: int | None, able: tuple[str, ...]) -> None:
    assert fecs_of(speed, lanes) == able


def test_the_speeds_of_a_port_with_their_lanes() -> None:
    eos, cumulus = linked("eos").switches[0], linked("cumulus").switches[0]
    assert speeds_of(eos, "Ethernet1/1") == {400: 8, 200: 4, 100: 2, 50: 1}
    assert speeds_of(cumulus, "swp1")[800] == 8
    assert speeds_of(cumulus, "swp1")[400] is None
    parts = cumulus.model_copy(update={"breakouts": {"swp1": "4x200"}})
    assert speeds_of(parts, "swp1s3") == {**dict.fromkeys((10, 25, 40, 50, 100)), 200: 2}
    assert speeds_of(eos, "Ethernet99/1") == {}


def test_a_state_of_before_these_keys_is_left_alone() -> None:
    """A baseline that does not say them was recorded before they could be asked for."""
    old = SwitchState.model_validate({"ports": {"Ethernet0": {"mtu_bytes": 9100}}})
    port = old.ports["Ethernet0"]
    assert (port.speed, port.fec, port.autoneg) == (None, None, None)
    assert old.settings() == {("port Ethernet0", "mtu_bytes"): "9100"}


def test_a_plain_exec_knows_no_speed_to_go_back_to() -> None:
    spoken = plan_fabric(linked("sonic", **ALL))[0].desired
    assert why_no_exec("sonic", spoken) == (
        "it reads nothing first, so it could not set and put back the speed of a port"
    )
    mute = plan_fabric(linked("sonic", fec="rs", autoneg=True))[0].desired
    plan = plan_exec("sonic", mute)
    assert plan is not None
    assert '"Ethernet0":{"fec":"rs","autoneg":"on"}' in plan.apply
    assert '"Ethernet0":{"autoneg":"off"}' in plan.undo
    assert "HDEL 'PORT|Ethernet0' fec autoneg" in plan.undo
