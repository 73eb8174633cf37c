"""Railyard and an emulated SONiC switch over real SSH on a loopback address."""

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
from components.fabric.plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from components.remote.step import Endpoint
from components.remote.switch_session import open_session
from lab import keys
from lab.switches.emulators import make_switch as make_lab_switch
from lab.switches.sonic.server import SonicSwitch
from lab.views import SwitchConfig
from tests.fabric.sonic_lab import CABLES, PORTS, load_spec, make_switch

pytestmark = pytest.mark.lab
ResultT = TypeVar("ResultT")
PASSWORD = "sonic-lab"
CLICK = """\
Usage: config vlan del [OPTIONS] <vid>
Try "config vlan del -h" for help.

Error: Vlan99 does not exist
[status 2]
"""
ENV = {"RAILYARD_SECRET_SWITCH_PASSWORD": PASSWORD}
DESIRED = plan_fabric(load_spec())[0].desired


@dataclass
class Running:
    """A switch that listens, and how it is reached."""

    switch: SonicSwitch
    endpoint: Endpoint
    loop: asyncio.AbstractEventLoop

    def request(self, **more: object) -> str:
        request = {
            "endpoint": asdict(self.endpoint),
            "os": "sonic",
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
    room.endpoint = replace(planned, address="127.209.0.7", port=switch.ssh_port, host_key=key)
    yield room
    room.wait(switch.stop())


def test_the_whole_life(running: Running) -> None:
    first = running.switch.snapshot()
    views = [running.switch.port_view(port) for port in (*PORTS, "Ethernet32")]
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    assert running.switch.snapshot() == first
    request = running.request(baseline=baseline)
    evidence = json.loads(device.run_apply(request, ENV))
    assert (evidence["device"], evidence["saved"]) == ("leaf-01", True)
    assert "access_vlan of port Ethernet0: absent -> 111" in evidence["changed"]
    assert "pfc_priorities of port Ethernet8: 3,4 -> 3" in evidence["changed"]
    assert "dscp_26_priority of port Ethernet8: 1 -> 3" in evidence["changed"]
    assert "PFC of Ethernet0 changes" in evidence["interrupted"]
    assert running.switch.stored.saved == running.switch.stored.running
    assert running.switch.port_view("Ethernet24").pfc_priorities == {3}
    seen = device.observe_switch(running.endpoint, "sonic", DESIRED, PASSWORD)
    assert diff_states(seen, DESIRED) == ()
    again = json.loads(device.run_apply(request, ENV))
    assert (again["changed"], again["interrupted"]) == ([], [])
    running.switch.add_counters("Ethernet0", 3, tx_bytes=7_000_000_000)
    counted = device.read_counters(running.endpoint, "sonic", ["Ethernet0"], PASSWORD)["Ethernet0"]
    assert counted.by_priority[3].tx_bytes == 7_000_000_000
    device.run_restore(request, ENV)
    assert running.switch.snapshot() == first
    assert [running.switch.port_view(port) for port in (*PORTS, "Ethernet32")] == views
    assert running.switch.stored.files == {}, "the copy that proved the room is gone"
    assert running.switch.unmodelled == ()


def test_drift_is_seen_and_repaired(running: Running) -> None:
    device.run_apply(running.request(), ENV)
    running.switch.fault(["mtu", "Ethernet8", "1500"])
    running.switch.fault(["cli", "sudo config vlan member del 111 Ethernet16"])
    seen = device.observe_switch(running.endpoint, "sonic", DESIRED, PASSWORD)
    found = {str(each) for each in diff_states(seen, DESIRED)}
    assert found == {
        "mtu_bytes of port Ethernet8 is 1500, want 9216",
        "mode of port Ethernet16 is routed, want access",
        "access_vlan of port Ethernet16 is absent, want 111",
    }
    evidence = json.loads(device.run_apply(running.request(repair="drift"), ENV))
    assert len(evidence["changed"]) == 3
    seen = device.observe_switch(running.endpoint, "sonic", DESIRED, PASSWORD)
    assert diff_states(seen, DESIRED) == ()


def test_a_rejected_line_tells_everything(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["reject", "WRED_PROFILE"])
    with pytest.raises(DeviceError) as caught:
        device.run_apply(running.request(), ENV)
    text = str(caught.value)
    for part in (
        f"leaf-01 (admin@127.209.0.7:{running.endpoint.port}) refused a line",
        '  line    sudo sonic-cfggen -a \'{"WRED_PROFILE":{"RAILYARD":',
        "switch  refused: WRED_PROFILE\n",
        "the previous values were put back; not saved",
    ):
        assert part in text
    assert running.switch.snapshot() == first


def test_a_partial_apply_is_put_back(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["ignore", "mtu Ethernet16"])
    with pytest.raises(DeviceError, match="took every line and still differs") as caught:
        device.run_apply(running.request(), ENV)
    assert "missing sudo config interface mtu Ethernet16 9216" in str(caught.value)
    assert running.switch.snapshot() == first


def test_a_session_that_drops_is_converged_by_the_next_apply(running: Running) -> None:
    first = running.switch.snapshot()
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    request = running.request(baseline=baseline)
    running.switch.fault(["drop", "9"])
    with pytest.raises(UnreachableError, match="the session was lost while the switch was changed"):
        device.run_apply(request, ENV)
    assert running.switch.snapshot() != first, "each line acts at once"
    device.run_apply(request, ENV)
    seen = device.observe_switch(running.endpoint, "sonic", DESIRED, PASSWORD)
    assert diff_states(seen, DESIRED) == ()
    device.run_restore(request, ENV)
    assert running.switch.snapshot() == first


def test_what_was_not_saved_is_lost_at_a_reboot_and_seen_as_drift(running: Running) -> None:
    device.run_apply(running.request(), ENV)
    running.switch.fault(["mtu", "Ethernet0", "1500"])

    async def reboot() -> None:
        running.switch.reboot()

    running.wait(reboot())
    seen = device.observe_switch(running.endpoint, "sonic", DESIRED, PASSWORD)
    assert diff_states(seen, DESIRED) == (), "what was applied was saved, what was typed was not"


def test_a_full_disk_at_the_save(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["disk-full", "on"])
    with pytest.raises(DeviceError, match=r"\[Errno 28\] No space left on device") as caught:
        device.run_apply(running.request(), ENV)
    assert "the previous values were put back; not saved" in str(caught.value)
    assert running.switch.snapshot() == first


def test_somebody_reloads_the_configuration(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["lock", "bob"])
    with pytest.raises(DeviceError, match="a config reload is running"):
        device.run_apply(running.request(), ENV)
    assert running.switch.snapshot() == first
    device.observe_switch(running.endpoint, "sonic", DESIRED, PASSWORD)


def test_sudo_that_asks_for_a_password(running: Running) -> None:
    running.switch.fault(["sudo-password", "on"])
    with pytest.raises(DeviceError, match="`sudo -n true` was refused: sudo: a password is"):
        device.run_baseline(running.request(), ENV)


def test_a_wrong_password(running: Running) -> None:
    with pytest.raises(DeviceError, match="refuses the password of user admin"):
        device.observe_switch(running.endpoint, "sonic", SwitchState(), "wrong")


def test_a_slow_prompt_over_the_deadline(running: Running) -> None:
    with open_session(running.endpoint, "sonic", PASSWORD, 2) as session:
        running.switch.fault(["slow", "6"])
        with pytest.raises(UnreachableError, match="within the deadline of 2 s"):
            session.run("show vlan brief")
    running.switch.fault(["slow", "0"])
    running.wait(running.switch.stop())
    assert running.switch.sessions == 0


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo hello", "hello\n"),
        ("sudo config vlan add 111 && sudo config vlan del 111", ""),
        (
            "sudo config vlan del 99",
            CLICK,
        ),
        ("nv config show", "-bash: nv: command not found\n[status 127]\n"),
    ],
)
def test_the_exit_status_is_told(running: Running, command: str, output: str) -> None:
    with open_session(running.endpoint, "sonic", PASSWORD, 20) as session:
        assert session.run(command) == output


def test_a_large_answer_arrives_whole(running: Running) -> None:
    with open_session(running.endpoint, "sonic", PASSWORD, 20) as session:
        shown = json.loads(session.run("sudo sonic-cfggen -d --print-data"))
    assert shown == running.switch.stored.running


def test_an_exec_request_has_an_exit_status(running: Running) -> None:
    async def work() -> tuple[str, int | None]:
        async with asyncssh.connect(
            running.endpoint.address,
            running.endpoint.port,
            username="admin",
            password=PASSWORD,
            known_hosts=None,
        ) as connection:
            done = await connection.run("sudo config interface mtu Ethernet1 9000")
            return str(done.stdout), done.exit_status

    assert running.wait(work()) == ("Invalid port Ethernet1\n", 1)


def test_the_lab_plays_it_from_the_factory(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    """A switch of the lab file, lossy: nobody has run `config qos reload` there."""
    plan = plan_fabric(load_spec(mode="lossy_ecn"))[0]
    config = SwitchConfig(
        name=plan.name,
        os=plan.os,
        model=plan.model,
        address="127.209.0.8",
        port=0,
        user="admin",
        password=PASSWORD,
        host_key_seed="test/leaf-02",
        cables=CABLES,
    )
    switch = make_lab_switch(config, tmp_path / "leaf-01.json")
    assert isinstance(switch, SonicSwitch)
    asyncio.run_coroutine_threadsafe(switch.start(), loop).result(timeout=30)
    key = keys.host_key("test/leaf-02").public_openssh
    endpoint = replace(plan.endpoint, address="127.209.0.8", port=switch.ssh_port, host_key=key)
    request = json.dumps(
        {
            "endpoint": asdict(endpoint),
            "os": plan.os,
            "desired": plan.desired.model_dump(mode="json"),
        }
    )
    try:
        assert json.loads(device.run_apply(request, ENV))["saved"]
        for port in PORTS:
            view = switch.port_view(port)
            assert (view.oper_up, view.access_vlan, view.ecn_kib) == (True, 111, {3: (150, 1500)})
            assert (view.dscp_to_priority[26], view.pfc_priorities) == (3, frozenset())
        assert switch.unmodelled == ()
    finally:
        asyncio.run_coroutine_threadsafe(switch.stop(), loop).result(timeout=30)
