"""Railyard and an emulated MLNX-OS switch over real SSH on a loopback address."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from components.errors import DeviceError, UnreachableError
from components.fabric import device
from components.fabric.plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from components.remote.step import Endpoint
from components.remote.switch_session import open_session
from lab import keys
from lab.switches.mlnxos.server import MlnxosSwitch
from tests.fabric.ib_lab import load_spec, make_switch

pytestmark = pytest.mark.lab
ResultT = TypeVar("ResultT")
PASSWORD = "mlnxos-lab"
ENV = {"RAILYARD_SECRET_SWITCH_PASSWORD": PASSWORD}
PLAN = plan_fabric(load_spec())[0]
DESIRED = PLAN.desired


@dataclass
class Running:
    """A switch that listens, and how it is reached."""

    switch: MlnxosSwitch
    endpoint: Endpoint
    loop: asyncio.AbstractEventLoop

    def request(self, desired: SwitchState = DESIRED, **more: object) -> str:
        request = {
            "endpoint": asdict(self.endpoint),
            "os": "mlnxos",
            "desired": desired.model_dump(mode="json"),
        }
        return json.dumps(request | more)

    def observe(self) -> SwitchState:
        return device.observe_switch(self.endpoint, "mlnxos", DESIRED, PASSWORD)

    def wait(self, work: Coroutine[object, object, ResultT]) -> ResultT:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=30)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    switch = make_switch(tmp_path)
    room = Running(switch, PLAN.endpoint, loop)
    room.wait(switch.start())
    key = keys.host_key("test/ib-leaf-01").public_openssh
    room.endpoint = replace(
        PLAN.endpoint, address="127.209.0.7", port=switch.ssh_port, host_key=key
    )
    yield room
    room.wait(switch.stop())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=10)
    loop.close()


def test_the_whole_life(running: Running) -> None:
    first = running.switch.snapshot()
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    assert running.switch.snapshot() == first
    request = running.request(baseline=baseline)
    evidence = json.loads(device.run_apply(request, ENV))
    assert (evidence["device"], evidence["saved"]) == ("ib-leaf-01", True)
    assert "pkey of partition training: absent -> 0x0101" in evidence["changed"]
    assert "state of subnet manager: off -> on" in evidence["changed"]
    assert evidence["interrupted"] == []
    assert running.switch.stored.saved == running.switch.stored.running
    assert running.switch.subnet_view().sm_runs
    assert diff_states(running.observe(), DESIRED) == ()
    assert json.loads(device.run_apply(request, ENV))["changed"] == []
    device.run_restore(request, ENV)
    assert running.switch.snapshot() == first
    assert running.switch.unmodelled == ()


def test_an_edit_gives_back_what_it_drops(running: Running) -> None:
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    done = device.run_apply(running.request(baseline=baseline), ENV)
    assert DESIRED.ib is not None
    kept = {"training": DESIRED.ib.partitions["training"]}
    smaller = DESIRED.model_copy(
        update={"ib": DESIRED.ib.model_copy(update={"partitions": kept, "routing_engine": None})}
    )
    environ = ENV | {device.PREVIOUS_OUTPUT: done}
    evidence = json.loads(device.run_apply(running.request(smaller, baseline=baseline), environ))
    assert "pkey of partition storage: 0x0201 -> absent" in evidence["changed"]
    assert [*running.switch.stored.running.partitions] == ["Default", "training"]
    assert running.switch.stored.running.routing_engine is None


def test_drift_names_key_member_and_manager(running: Running) -> None:
    device.run_apply(running.request(), ENV)
    for line in (
        "ib partition training pkey 0x0666 force",
        "ib partition storage member a0:88:c2:03:00:02:10:00 type full force",
        "ib sm sm-priority 3",
    ):
        running.switch.fault(["cli", *line.split()])
    running.switch.fault(["sm", "off"])
    assert [*map(str, diff_states(running.observe(), DESIRED))] == [
        "member a088c20300021000 of partition storage is full, want limited",
        "pkey of partition training is 0x0666, want 0x0101",
        "function of subnet manager is off, want on",
        "priority of subnet manager is 3, want 14",
    ]
    device.run_apply(running.request(), ENV)
    assert diff_states(running.observe(), DESIRED) == ()


def test_a_rejected_line_tells_everything_and_is_put_back(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["reject", "sm-priority"])
    with pytest.raises(DeviceError) as caught:
        device.run_apply(running.request(), ENV)
    text = str(caught.value)
    for part in (
        f"ib-leaf-01 (admin@127.209.0.7:{running.endpoint.port}) refused a line",
        "ib sm sm-priority 14",
        "the previous values were put back; not saved",
        "    subnet manager: state=off\n",
    ):
        assert part in text
    assert running.switch.snapshot() == first


def test_a_full_disk_puts_back_and_says_so(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["disk-full", "on"])
    with pytest.raises(DeviceError, match="No space left on device"):
        device.run_apply(running.request(), ENV)
    assert running.switch.snapshot() == first


def test_a_session_that_drops_is_converged_by_the_next_apply(running: Running) -> None:
    first = running.switch.snapshot()
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    request = running.request(baseline=baseline)
    running.switch.fault(["drop", "5"])
    with pytest.raises(UnreachableError, match="the session was lost while the switch was changed"):
        device.run_apply(request, ENV)
    device.run_apply(request, ENV)
    assert diff_states(running.observe(), DESIRED) == ()
    device.run_restore(request, ENV)
    assert running.switch.snapshot() == first


def test_what_was_not_saved_is_lost_at_a_reload(running: Running) -> None:
    device.run_apply(running.request(), ENV)
    running.switch.run_line("ib partition training pkey 0x0666 force")

    async def reload() -> None:
        running.switch.reload()

    running.wait(reload())
    assert diff_states(running.observe(), DESIRED) == ()


def test_a_wrong_password(running: Running) -> None:
    with pytest.raises(DeviceError, match="refuses the password of user admin"):
        device.observe_switch(running.endpoint, "mlnxos", SwitchState(), "wrong")


def test_a_slow_prompt_over_the_deadline(running: Running) -> None:
    with open_session(running.endpoint, "mlnxos", PASSWORD, 2) as session:
        running.switch.fault(["slow", "6"])
        with pytest.raises(UnreachableError, match="within the deadline of 2 s"):
            session.run("show ib sm")
