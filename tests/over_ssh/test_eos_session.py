"""Railyard and an emulated EOS switch over real SSH on a loopback address."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import asyncssh
import pytest

from components.errors import DeviceError, HostKeyError, UnreachableError
from components.fabric import device
from components.fabric.plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from components.remote.step import Endpoint
from components.remote.switch_session import open_session
from lab import keys
from lab.site import lab_file, load_document, overlay, secrets_of
from lab.switches.emulators import EthernetSwitch
from lab.switches.emulators import make_switch as make_lab_switch
from lab.switches.eos.server import EosSwitch
from tests.fabric.eos_lab import SITE, Clock, load_spec, make_switch, with_eos

pytestmark = pytest.mark.lab
ResultT = TypeVar("ResultT")
PASSWORD = "eos-lab"
ENV = {"RAILYARD_SECRET_SWITCH_PASSWORD": PASSWORD}
DESIRED = plan_fabric(load_spec(mode="lossless"))[0].desired


@dataclass
class Running:
    """A switch that listens, and how it is reached."""

    switch: EosSwitch
    endpoint: Endpoint
    loop: asyncio.AbstractEventLoop
    clock: Clock

    def request(self, **more: object) -> str:
        request = {
            "endpoint": asdict(self.endpoint),
            "os": "eos",
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
    clock = Clock()
    switch = make_switch(tmp_path, clock)
    planned = plan_fabric(load_spec())[0].endpoint
    key = keys.host_key("test/leaf-01").public_openssh
    room = Running(switch, planned, loop, clock)
    room.wait(switch.start())
    room.endpoint = replace(
        planned, address="127.209.0.7", port=switch.ssh_port, user="admin", host_key=key
    )
    yield room
    room.wait(switch.stop())


def test_the_whole_life(running: Running) -> None:
    first = running.switch.snapshot()
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    assert running.switch.snapshot() == first
    assert len(baseline["ports"]) == 64
    request = running.request(baseline=baseline)
    evidence = json.loads(device.run_apply(request, ENV))
    assert (evidence["device"], evidence["saved"]) == ("leaf-01", True)
    assert "mode of port Ethernet1/1: access -> trunk" in evidence["changed"]
    assert "pfc_priorities of port Ethernet1/1: none -> 3" in evidence["changed"]
    assert evidence["interrupted"] == [
        f"port Ethernet{number}/1 gets new buffers" for number in range(1, 5)
    ]
    assert running.switch.stored.startup == running.switch.stored.running
    seen = device.observe_switch(running.endpoint, "eos", DESIRED, PASSWORD)
    assert diff_states(seen, DESIRED) == ()
    again = json.loads(device.run_apply(request, ENV))
    assert (again["changed"], again["interrupted"]) == ([], [])
    running.switch.add_counters("Ethernet1/1", 3, rx_bytes=5, tx_bytes=7_000_000_000)
    ports = ["Ethernet1/1"]
    counted = device.read_counters(running.endpoint, "eos", ports, PASSWORD)["Ethernet1/1"]
    assert (counted.by_priority[3].tx_bytes, counted.rx_bytes) == (7_000_000_000, 5)
    device.run_restore(request, ENV)
    assert running.switch.snapshot() == first
    assert running.switch.unmodelled == ()


def test_drift_is_seen_and_repaired(running: Running) -> None:
    device.run_apply(running.request(), ENV)
    running.switch.fault(["trust", "Ethernet2/1", "L2"])
    running.switch.fault(["cli", "qos map dscp 26 to traffic-class 1"])
    seen = device.observe_switch(running.endpoint, "eos", DESIRED, PASSWORD)
    assert sorted(map(str, diff_states(seen, DESIRED))) == [
        "dscp_26_class of switch is 1, want 3",
        "trust of port Ethernet2/1 is L2, want L3",
    ]
    evidence = json.loads(device.run_apply(running.request(repair="drift"), ENV))
    assert evidence["changed"] == [
        "trust of port Ethernet2/1: L2 -> L3",
        "dscp_26_class of switch: 1 -> 3",
    ]
    assert running.switch.port_view("Ethernet2/1").trust == "L3"


def test_a_rejected_line_tells_everything(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["reject", "priority 3 no-drop"])
    with pytest.raises(DeviceError) as caught:
        device.run_apply(running.request(), ENV)
    text = str(caught.value)
    for part in (
        f"leaf-01 (admin@127.209.0.7:{running.endpoint.port}) refused a line",
        "priority-flow-control priority 3 no-drop",
        "switch  % Internal error\n",
        "the previous values were put back; not saved",
    ):
        assert part in text
    assert running.switch.snapshot() == first
    assert running.switch.config_sessions.held == {}


def test_a_session_that_drops_before_the_commit_changed_nothing(running: Running) -> None:
    first = running.switch.snapshot()
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    request = running.request(baseline=baseline)
    running.switch.fault(["drop", "3"])
    with pytest.raises(UnreachableError, match="the session was lost while the switch was changed"):
        device.run_apply(request, ENV)
    assert running.switch.snapshot() == first
    device.run_apply(request, ENV)
    assert running.switch.port_view("Ethernet4/1").allowed_vlans == {112}
    device.run_restore(request, ENV)
    assert running.switch.snapshot() == first


def _lines_to_commit() -> int:
    """Configuration lines of a first apply, its commit included."""
    lines = plan_fabric(load_spec(mode="lossless"))[0].commands_from_factory
    begin, end = lines.index("configure session railyard-1"), lines.index("commit timer 00:05:00")
    configuring = [line for line in lines[begin + 1 : end] if not line.startswith(("exit", "show"))]
    return len(configuring) + 1


def test_a_session_that_drops_at_the_commit_is_taken_back_by_the_timer(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["drop", str(_lines_to_commit())])
    with pytest.raises(UnreachableError, match="itself takes back what was in force within 300 s"):
        device.run_apply(running.request(), ENV)
    assert running.switch.port_view("Ethernet1/1").pfc_priorities == {3}, "committed, unconfirmed"
    running.clock.now_s = 301
    assert running.switch.port_view("Ethernet1/1").pfc_priorities == frozenset()
    assert running.switch.snapshot() == first
    device.run_apply(running.request(), ENV)
    assert running.switch.port_view("Ethernet1/1").pfc_priorities == {3}


def test_the_next_run_need_not_wait_for_the_timer(running: Running) -> None:
    running.switch.fault(["drop", str(_lines_to_commit())])
    with pytest.raises(UnreachableError):
        device.run_apply(running.request(), ENV)
    device.run_apply(running.request(), ENV)
    running.clock.now_s = 301
    assert running.switch.port_view("Ethernet1/1").pfc_priorities == {3}
    assert running.switch.stored.startup == running.switch.stored.running


def test_a_full_disk_at_the_save(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["disk-full", "on"])
    with pytest.raises(DeviceError, match="No space left on device"):
        device.run_apply(running.request(), ENV)
    assert running.switch.snapshot() == first


def test_a_lock_that_somebody_holds(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["lock", "operator"])
    with pytest.raises(DeviceError, match="configuration lock: held by operator"):
        device.run_apply(running.request(), ENV)
    assert running.switch.snapshot() == first
    running.switch.fault(["lock", "off"])
    assert json.loads(device.run_apply(running.request(), ENV))["saved"]


def test_no_login_is_left(running: Running) -> None:
    with open_session(running.endpoint, "eos", PASSWORD, 20):
        running.switch.fault(["sessions", "1"])
        with pytest.raises(UnreachableError, match="no session within"):
            device.run_apply(running.request(), ENV)
    running.switch.fault(["sessions", "off"])
    assert json.loads(device.run_apply(running.request(), ENV))["saved"]


def test_what_was_not_saved_is_lost_at_a_reload_and_seen_as_drift(running: Running) -> None:
    device.run_apply(running.request(), ENV)
    running.switch.fault(["mtu", "Ethernet1/1", "1500"])

    async def reboot() -> None:
        running.switch.reboot()

    running.wait(reboot())
    seen = device.observe_switch(running.endpoint, "eos", DESIRED, PASSWORD)
    assert diff_states(seen, DESIRED) == ()
    running.switch.stored.startup.ports["Ethernet1/1"].trust = "cos"
    running.wait(reboot())
    seen = device.observe_switch(running.endpoint, "eos", DESIRED, PASSWORD)
    found = [str(each) for each in diff_states(seen, DESIRED)]
    assert found == ["trust of port Ethernet1/1 is L2, want L3"]


def test_a_wrong_password(running: Running) -> None:
    with pytest.raises(DeviceError, match="refuses the password of user admin"):
        device.observe_switch(running.endpoint, "eos", SwitchState(), "wrong")


def test_a_changed_host_key(running: Running) -> None:
    other = keys.host_key("test/another").public_openssh
    with pytest.raises(HostKeyError, match="the host key is not the pinned one"):
        open_session(replace(running.endpoint, host_key=other), "eos", PASSWORD, 20)


def test_a_slow_prompt_over_the_deadline(running: Running) -> None:
    with open_session(running.endpoint, "eos", PASSWORD, 2) as session:
        running.switch.fault(["slow", "6"])
        with pytest.raises(UnreachableError, match="within the deadline of 2 s"):
            session.run("show vlan | json")


def test_the_switch_stops_while_a_session_works_whose_client_has_gone(running: Running) -> None:
    with open_session(running.endpoint, "eos", PASSWORD, 2) as session:
        running.switch.fault(["slow", "60"])
        with pytest.raises(UnreachableError, match="within the deadline of 2 s"):
            session.run("show vlan | json")
    running.switch.fault(["slow", "0"])
    with open_session(running.endpoint, "eos", PASSWORD, 20) as session:
        assert session.run("show priority-flow-control").startswith("Port ")
    running.wait(running.switch.stop())
    assert running.switch.sessions == 0


@pytest.mark.parametrize(
    ("lines", "output"),
    [
        (("enable", "terminal length 0"), "Pagination disabled.\n"),
        (("enable", "show nonsense"), "% Invalid input\n"),
        (("show running-config",), "% Invalid input\n"),
        (("enable", "configure session a-long-name", "interface Ethernet1/1", "exit"), ""),
    ],
)
def test_what_a_line_prints(running: Running, lines: tuple[str, ...], output: str) -> None:
    with open_session(running.endpoint, "eos", PASSWORD, 20) as session:
        assert [session.run(line) for line in lines][-1] == output


def test_long_answers_are_whole_although_the_switch_pages(running: Running) -> None:
    with open_session(running.endpoint, "eos", PASSWORD, 20) as session:
        session.run("enable")
        text = session.run("show running-config")
        assert text.count("interface Ethernet") == 64
        assert "--More--" not in text
        assert text.endswith("end\n")


def test_a_login_that_nobody_prepared_is_paged(running: Running) -> None:
    async def work() -> tuple[str, str]:
        async with asyncssh.connect(
            running.endpoint.address,
            running.endpoint.port,
            username="admin",
            password=PASSWORD,
            known_hosts=None,
        ) as connection:
            process = await connection.create_process(term_type="vt100")
            process.stdin.write("enable\nshow running-config\n")
            paged = await process.stdout.readuntil("--More-- ")
            process.stdin.write("q")
            rest = await process.stdout.readuntil("leaf-01#")
            return str(paged), str(rest)

    paged, rest = running.wait(work())
    assert "hostname leaf-01" in paged
    assert "Ethernet64/1" not in rest


def test_an_exec_request(running: Running) -> None:
    async def work() -> tuple[str, int | None]:
        async with asyncssh.connect(
            running.endpoint.address,
            running.endpoint.port,
            username="admin",
            password=PASSWORD,
            known_hosts=None,
        ) as connection:
            done = await connection.run("show version | json")
            return str(done.stdout), done.exit_status

    text, status = running.wait(work())
    assert (json.loads(text)["version"], status) == ("4.32.1F", 0)


def test_the_lab_plays_a_site_with_it(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    stack = "eos-over-ssh"
    artefact: dict[str, str] = dict.fromkeys(("k3s", "install.sh"), "0" * 64)
    site = cast("dict[str, Any]", overlay(load_document(SITE), stack, artefact))
    spec = with_eos(site)
    config = lab_file(spec, stack, (tmp_path, tmp_path, tmp_path)).switches[0]
    switch = make_lab_switch(config, tmp_path / "leaf-01.json")
    plan = plan_fabric(spec)[0]
    asyncio.run_coroutine_threadsafe(switch.start(), loop).result(timeout=30)
    desired = plan.desired.model_dump(mode="json")
    request = json.dumps({"endpoint": asdict(plan.endpoint), "os": plan.os, "desired": desired})
    secret = {"RAILYARD_SECRET_SWITCH_PASSWORD": secrets_of(stack)["switch_password"]}
    try:
        assert json.loads(device.run_apply(request, secret))["saved"]
        assert len(config.cables) == 4
        assert isinstance(switch, EthernetSwitch)
        for port, (host, _pci) in config.cables.items():
            view = switch.port_view(port)
            assert (view.oper_up, view.trust, view.ecn_kib) == (True, "L3", {3: (150, 1500)}), host
        assert switch.unmodelled == ()
    finally:
        asyncio.run_coroutine_threadsafe(switch.stop(), loop).result(timeout=30)
