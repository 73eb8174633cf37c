"""A first update of 64 ports at the times of real commands: `make switch-pace` takes all of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from components.catalogue.switches import find_model
from components.core.errors import Bug
from components.fabric import device
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import SwitchState
from lab import keys
from lab.switches.emulators import make_switch as make_lab_switch
from lab.views import SwitchConfig
from tests.fabric.eos_lab import Clock
from tests.fabric.fabric_lab import chain_of
from tests.fabric.sonic_lab import make_pools
from tests.fabric.switch_labs import LABS
from tests.over_ssh.switch_room import SwitchRoom, running_loop

pytestmark = pytest.mark.lab
PACE = os.environ.get("RAILYARD_PACE", "0.02")
"""Which part of the time of a real command each command takes; 1 is all of it."""
COUNT = 64
VLANS = tuple(range(111, 119))


@dataclass(frozen=True)
class Large:
    """A switch of 64 ports."""

    model: str
    release: str


LARGE = {
    "cumulus": Large("SN5600", "5.9.2"),
    "eos": Large("DCS-7060DX5-64S", "4.32.1F"),
    "sonic": Large("Z9664F", "202505"),
}


def wanted(system: str) -> SwitchState:
    """Every port as the first one of a lossless site, on eight VLANs in turn."""
    model = find_model(LARGE[system].model)
    if model is None:
        raise Bug(f"{LARGE[system].model} is not in the catalogue")
    desired = plan_fabric(chain_of(system, 2, mode="lossless", pfc_watchdog=True))[0].desired
    one = next(iter(desired.ports.values())).model_copy(update={"mode": "access"})
    ports = {
        name: one.model_copy(update={"access_vlan": VLANS[n % 8], "trunk_vlans": None})
        for n, name in enumerate(model.ports[system][:COUNT])
    }
    return desired.model_copy(update={"vlans": VLANS, "ports": ports})


@contextmanager
def large_room(system: str, folder: Path) -> Generator[SwitchRoom]:
    """An untouched switch that listens."""
    lab, large = LABS[system], LARGE[system]
    first = plan_fabric(chain_of(system, 2))[0].endpoint
    config = SwitchConfig(
        name="leaf-01",
        os=system,
        model=large.model,
        address="127.209.0.8",
        port=0,
        user=first.user,
        password=lab.password,
        host_key_seed="test/leaf-02",
        release=large.release,
    )
    switch: Any = make_lab_switch(config, folder / "leaf-01.json")
    if system == "sonic":
        make_pools(switch)
    key = keys.host_key("test/leaf-02").public_openssh
    with running_loop() as loop:
        room = SwitchRoom(system, lab, switch, first, loop, Clock())
        room.wait(switch.start())
        room.endpoint = replace(first, address="127.209.0.8", port=switch.ssh_port, host_key=key)
        try:
            yield room
        finally:
            room.wait(switch.stop())


@pytest.mark.parametrize("system", LARGE)
def test_a_first_update_of_64_ports_keeps_its_deadline(system: str, tmp_path: Path) -> None:
    """The deadlines are the product's own, so a slower update raises."""
    with large_room(system, tmp_path) as room:
        desired = wanted(system).model_dump(mode="json")
        request = json.dumps({"endpoint": asdict(room.endpoint), "os": system, "desired": desired})
        room.switch.fault(["pace", PACE])
        began_s = time.monotonic()
        evidence = json.loads(device.run_apply(request, room.env))
        took_s = time.monotonic() - began_s
        assert evidence["saved"]
        views = [room.switch.port_view(name) for name in wanted(system).ports]
        assert [view.access_vlan for view in views] == [VLANS[n % 8] for n in range(COUNT)]
        assert all(3 in view.pfc_priorities for view in views)
        print(f"{system}: {took_s:.1f} s at {PACE} of real times")  # noqa: T201 - for a person
