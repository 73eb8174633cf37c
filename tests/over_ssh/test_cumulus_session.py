"""Railyard and an emulated Cumulus switch over real SSH on a loopback address."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import asyncssh
import pytest

from components.errors import DeviceError, UnreachableError
from components.fabric import device
from components.fabric.cabling import find_wrong_cables
from components.fabric.plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from components.model.cluster import ClusterSpec
from components.remote.step import Endpoint
from components.remote.switch_session import open_session
from lab import keys
from lab.site import lab_file, load_document, overlay, secrets_of
from lab.switches.cumulus.server import CumulusSwitch
from lab.switches.emulators import EthernetSwitch
from lab.switches.emulators import make_switch as make_lab_switch
from tests.fabric.cumulus_lab import SITE, load_spec, make_switch

pytestmark = pytest.mark.lab
ResultT = TypeVar("ResultT")
PASSWORD = "cumulus-lab"
ENV = {"RAILYARD_SECRET_SWITCH_PASSWORD": PASSWORD}
DESIRED = plan_fabric(load_spec())[0].desired


@dataclass
class Running:
    """A switch that listens, and how it is reached."""

    switch: CumulusSwitch
    endpoint: Endpoint
    loop: asyncio.AbstractEventLoop

    def request(self, **more: object) -> str:
        request = {
            "endpoint": asdict(self.endpoint),
            "os": "cumulus",
            "desired": DESIRED.model_dump(mode="json"),
        }
        return json.dumps(request | more)

    def wait(self, work: Coroutine[object, object, ResultT]) -> ResultT:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=30)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=10)
    loop.close()


@pytest.fixture
def running(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Iterator[Running]:
    switch = make_switch(tmp_path)
    planned = plan_fabric(load_spec())[0].endpoint
    key = keys.host_key("test/leaf-01").public_openssh
    room = Running(switch, planned, loop)
    room.wait(switch.start())
    room.endpoint = replace(planned, address="127.209.0.5", port=switch.ssh_port, host_key=key)
    yield room
    room.wait(switch.stop())


def test_the_whole_life(running: Running) -> None:
    first = running.switch.snapshot()
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    assert running.switch.snapshot() == first
    request = running.request(baseline=baseline)
    evidence = json.loads(device.run_apply(request, ENV))
    assert (evidence["device"], evidence["saved"]) == ("leaf-01", True)
    assert "access_vlan of port swp1: absent -> 111" in evidence["changed"]
    assert "roce of switch: none -> lossless" in evidence["changed"]
    assert evidence["interrupted"] == ["every port gets new buffers"]
    assert running.switch.stored.startup == running.switch.stored.applied
    seen = device.observe_switch(running.endpoint, "cumulus", DESIRED, PASSWORD)
    assert diff_states(seen, DESIRED) == ()
    again = json.loads(device.run_apply(request, ENV))
    assert (again["changed"], again["interrupted"]) == ([], [])
    running.switch.add_counters("swp1", 3, rx_bytes=7_000_000_000, tx_bytes=5)
    counted = device.read_counters(running.endpoint, "cumulus", ["swp1"], PASSWORD)["swp1"]
    assert counted.by_priority[3].rx_bytes == 7_000_000_000
    device.run_restore(request, ENV)
    assert running.switch.snapshot() == first
    assert running.switch.unmodelled == ()


def test_a_rejected_line_tells_everything(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["reject", "roce mode"])
    with pytest.raises(DeviceError) as caught:
        device.run_apply(running.request(), ENV)
    text = str(caught.value)
    for part in (
        f"leaf-01 (cumulus@127.209.0.5:{running.endpoint.port}) refused a line",
        "nv set qos roce mode lossless",
        "switch  Error: Failure during apply\n",
        "the previous values were put back; not saved",
    ):
        assert part in text
    assert running.switch.snapshot() == first


def test_a_session_that_drops_is_converged_by_the_next_apply(running: Running) -> None:
    first = running.switch.snapshot()
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    request = running.request(baseline=baseline)
    running.switch.fault(["drop", "3"])
    with pytest.raises(UnreachableError, match="the session was lost while the switch was changed"):
        device.run_apply(request, ENV)
    assert running.switch.snapshot() == first, "nothing is in force before the apply"
    device.run_apply(request, ENV)
    assert running.switch.port_view("swp4").access_vlan == 111
    device.run_restore(request, ENV)
    assert running.switch.snapshot() == first


def test_what_was_not_saved_is_lost_at_a_reboot_and_seen_as_drift(running: Running) -> None:
    device.run_apply(running.request(), ENV)
    running.switch.fault(["cli", "nv set interface swp1 link mtu 1500"])
    running.switch.stored.startup = {}

    async def reboot() -> None:
        running.switch.reboot()

    running.wait(reboot())
    seen = device.observe_switch(running.endpoint, "cumulus", DESIRED, PASSWORD)
    assert "roce of switch is none, want lossless" in map(str, diff_states(seen, DESIRED))


def test_neighbours_are_heard_over_ssh(running: Running) -> None:
    device.run_apply(running.request(), ENV)
    running.switch.fault(["cable", "swp1", "vm02", "ens224"])
    seen = device.observe_switch(running.endpoint, "cumulus", DESIRED, PASSWORD)
    assert seen.neighbours is not None
    assert (seen.neighbours["swp1"].system, seen.neighbours["swp1"].description) == (
        "vm02",
        "ens224",
    )
    assert find_wrong_cables(plan_fabric(load_spec())[0].cables, seen.neighbours) == (
        "port swp1: vm02 ens224 is plugged in, the file says vm01/rail-0",
    )
    assert running.switch.unmodelled == ()


def test_a_wrong_password(running: Running) -> None:
    with pytest.raises(DeviceError, match="refuses the password of user cumulus"):
        device.observe_switch(running.endpoint, "cumulus", SwitchState(), "wrong")


def test_a_slow_prompt_over_the_deadline(running: Running) -> None:
    with open_session(running.endpoint, "cumulus", PASSWORD, 2) as session:
        running.switch.fault(["slow", "6"])
        with pytest.raises(UnreachableError, match="within the deadline of 2 s"):
            session.run("nv show qos roce")


def test_the_switch_stops_while_a_session_works_whose_client_has_gone(running: Running) -> None:
    with open_session(running.endpoint, "cumulus", PASSWORD, 2) as session:
        running.switch.fault(["slow", "60"])
        with pytest.raises(UnreachableError, match="within the deadline of 2 s"):
            session.run("nv show qos roce")
    running.switch.fault(["slow", "0"])
    with open_session(running.endpoint, "cumulus", PASSWORD, 20) as session:
        assert session.run("echo hello") == "hello\n"
    running.wait(running.switch.stop())
    assert running.switch.sessions == 0


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo hello", "hello\n"),
        ("nv show nonsense", "Error: Invalid parameter\n  'show nonsense'\n[status 1]\n"),
        ("cl-support", "-bash: cl-support: command not found\n[status 127]\n"),
    ],
)
def test_the_exit_status_is_told(running: Running, command: str, output: str) -> None:
    with open_session(running.endpoint, "cumulus", PASSWORD, 20) as session:
        assert session.run(command) == output


def test_an_exec_request_has_an_exit_status(running: Running) -> None:
    async def work() -> tuple[str, int | None]:
        async with asyncssh.connect(
            running.endpoint.address,
            running.endpoint.port,
            username="cumulus",
            password=PASSWORD,
            known_hosts=None,
        ) as connection:
            done = await connection.run("nv set interface swp99 link state up")
            return str(done.stdout), done.exit_status

    assert running.wait(work()) == (
        "Error: swp99 is not a physical interface on this switch\n",
        1,
    )


def test_the_lab_plays_the_example(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    stack = "cumulus-over-ssh"
    spec = ClusterSpec.model_validate(overlay(load_document(SITE), stack, {}))
    config = lab_file(spec, stack, (tmp_path, tmp_path, tmp_path)).switches[0]
    switch = make_lab_switch(config, tmp_path / "leaf-01.json")
    plan = plan_fabric(spec)[0]
    asyncio.run_coroutine_threadsafe(switch.start(), loop).result(timeout=30)
    request = json.dumps(
        {
            "endpoint": asdict(plan.endpoint),
            "os": plan.os,
            "desired": plan.desired.model_dump(mode="json"),
        }
    )
    secret = {"RAILYARD_SECRET_SWITCH_PASSWORD": secrets_of(stack)["switch_password"]}
    try:
        assert json.loads(device.run_apply(request, secret))["saved"]
        assert isinstance(switch, EthernetSwitch)
        for port, (host, _pci) in config.cables.items():
            view = switch.port_view(port)
            assert (view.oper_up, view.access_vlan, view.pfc_priorities) == (True, 111, {3}), host
        assert len(config.cables) == 4
        assert switch.unmodelled == ()
    finally:
        asyncio.run_coroutine_threadsafe(switch.stop(), loop).result(timeout=30)
