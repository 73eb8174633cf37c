"""Speeds and error corrections of a port, and what a plain exec does; intents.yaml has the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.checks.links import fecs_of
from components.fabric.fabric_plan import plan_fabric
from components.fabric.ports import speeds_of
from components.fabric.state import SwitchState
from components.fabric.targets import plan_exec, why_no_exec
from components.model.cluster import ClusterSpec
from tests.fabric.fabric_lab import chain_of, rooms_of

MODELS = {"cumulus": "SN5600", "eos": "DCS-7060DX5-64S", "sonic": "Z9332F"}
ALL: dict[str, Any] = {"speed_gbit_s": 200, "fec": "rs", "autoneg": True}


def linked(system: str, **links: object) -> ClusterSpec:
    """Two leaves of a chain with `links`."""
    site = chain_of(system, 2, mode="lossy_ecn").model_dump(mode="json")
    for switch in site["switches"]:
        switch |= {"model": MODELS[system], "links": links}
    return ClusterSpec.model_validate(site)


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
