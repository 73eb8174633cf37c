"""Railyard and an emulated Onyx switch over real SSH on a loopback address: the fault table."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import asyncssh
import pytest

from components.errors import DeviceError, RailyardError, UnreachableError, UsageError
from components.fabric import device
from components.fabric.plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from components.remote.step import Endpoint
from components.remote.switch_session import open_session
from lab import keys
from lab.switches.onyx.server import OnyxSwitch
from tests.fabric.conftest import load_spec, make_switch

pytestmark = pytest.mark.lab
ResultT = TypeVar("ResultT")
ENV = {"RAILYARD_SECRET_SWITCH_PASSWORD": "admin"}
APPLY = """
import os, sys
from components.fabric.device import run_apply
print(run_apply(sys.stdin.read(), os.environ))
"""


@dataclass
class Running:
    """A switch that listens, and how it is reached."""

    switch: OnyxSwitch
    endpoint: Endpoint
    loop: asyncio.AbstractEventLoop

    def request(self, **more: object) -> str:
        desired = plan_fabric(load_spec())[0].desired.model_dump(mode="json")
        endpoint = asdict(self.endpoint)
        return json.dumps({"endpoint": endpoint, "os": "onyx", "desired": desired, **more})

    def wait(self, work: Coroutine[object, object, ResultT]) -> ResultT:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=30)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    switch = make_switch(tmp_path)
    planned = plan_fabric(load_spec())[0].endpoint
    key = keys.host_key("test/leaf-01").public_openssh
    room = Running(switch, planned, loop)
    try:
        room.wait(switch.start())
        room.endpoint = replace(planned, address="127.41.199.5", port=switch.ssh_port, host_key=key)
        yield room
        room.wait(switch.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()


def test_the_whole_life(running: Running) -> None:
    first = running.switch.snapshot()
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    assert running.switch.snapshot() == first
    request = running.request(baseline=baseline)
    evidence = json.loads(device.run_apply(request, ENV))
    assert (evidence["device"], evidence["saved"]) == ("leaf-01", True)
    assert "mtu_bytes of port 1/1: 1500 -> 9216" in evidence["changed"]
    assert running.switch.stored.saved == running.switch.stored.running
    desired = plan_fabric(load_spec())[0].desired
    seen = device.observe_switch(running.endpoint, "onyx", desired, "admin")
    assert diff_states(seen, desired) == ()
    again = json.loads(device.run_apply(request, ENV))
    assert (again["changed"], again["interrupted"]) == ([], [])
    device.run_restore(request, ENV)
    assert running.switch.snapshot() == first
    assert running.switch.unmodelled == ()


def test_an_edit_gives_back_what_it_drops(running: Running) -> None:
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    evidence = device.run_apply(running.request(baseline=baseline), ENV)
    desired = plan_fabric(load_spec())[0].desired
    fewer = desired.model_copy(
        update={"vlans": (111,), "ports": {"1/1": desired.ports["1/1"]}}
    ).model_dump(mode="json")
    edited = running.request(baseline=baseline, desired=fewer)
    device.run_apply(edited, {**ENV, "PULUMI_COMMAND_STDOUT": evidence})
    config = running.switch.stored.running
    assert (config.ports["1/2"].mtu_bytes, sorted(config.vlans)) == (1500, [1, 111])


def test_a_rejected_line_tells_everything(running: Running) -> None:
    first = running.switch.snapshot()
    running.switch.fault(["reject", "1/2 mtu"])
    with pytest.raises(DeviceError) as caught:
        device.run_apply(running.request(), ENV)
    text = str(caught.value)
    for part in (
        f"leaf-01 (admin@127.41.199.5:{running.endpoint.port}) refused a line",
        "interface ethernet 1/2 mtu 9216",
        "% Internal error: the command failed",
        "the previous values were put back; not saved",
        "before",
        "after",
    ):
        assert part in text
    assert running.switch.snapshot() == first


def test_a_session_that_drops_is_converged_by_the_next_apply(running: Running) -> None:
    first = running.switch.snapshot()
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    request = running.request(baseline=baseline)
    running.switch.fault(["drop", "9"])
    with pytest.raises(UnreachableError, match="the session ended while"):
        device.run_apply(request, ENV)
    assert running.switch.stored.saved != running.switch.stored.running
    device.run_apply(request, ENV)
    assert running.switch.stored.saved == running.switch.stored.running
    device.run_restore(request, ENV)
    assert running.switch.snapshot() == first


def test_a_wrong_password(running: Running) -> None:
    with pytest.raises(DeviceError, match="refuses the password of user admin"):
        device.run_apply(running.request(), {"RAILYARD_SECRET_SWITCH_PASSWORD": "guess"})


def test_a_missing_password(running: Running) -> None:
    with pytest.raises(UsageError, match="RAILYARD_SECRET_SWITCH_PASSWORD"):
        device.run_apply(running.request(), {})


def test_a_changed_host_key_sends_nothing(running: Running) -> None:
    other = keys.host_key("test/another").public_openssh
    endpoint = replace(running.endpoint, host_key=other)
    with pytest.raises(DeviceError, match="not the pinned one") as caught:
        device.observe_switch(endpoint, "onyx", SwitchState(), "admin")
    assert not isinstance(caught.value, UnreachableError)
    assert str(caught.value).count("SHA256:") == 2


def test_no_pinned_key_connects_nowhere(running: Running) -> None:
    endpoint = replace(running.endpoint, host_key="")
    with pytest.raises(RailyardError, match="no host key is pinned"):
        device.observe_switch(endpoint, "onyx", SwitchState(), "admin")


def test_nobody_listens(running: Running) -> None:
    endpoint = replace(running.endpoint, port=1)
    with pytest.raises(UnreachableError, match="nobody listens there"):
        device.observe_switch(endpoint, "onyx", SwitchState(), "admin")


def test_a_slow_prompt_within_the_deadline(running: Running) -> None:
    with open_session(running.endpoint, "onyx", "admin", 20) as session:
        running.switch.fault(["slow", "0.3"])
        assert "Product release:   3.9.2504" in session.run("show version")


def test_a_slow_prompt_over_the_deadline(running: Running) -> None:
    with open_session(running.endpoint, "onyx", "admin", 2) as session:
        running.switch.fault(["slow", "6"])
        with pytest.raises(UnreachableError, match="within the deadline of 2 s"):
            session.run("show version")


def test_too_many_sessions(running: Running) -> None:
    running.switch.fault(["sessions", "0"])
    with pytest.raises(UnreachableError, match="Maximum number of sessions"):
        device.observe_switch(running.endpoint, "onyx", SwitchState(), "admin")


def test_a_killed_apply_is_converged_and_undone(running: Running) -> None:
    first = running.switch.snapshot()
    baseline = json.loads(device.run_baseline(running.request(), ENV))
    request = running.request(baseline=baseline)
    half = threading.Event()
    watch_for(running.switch, half, "interface ethernet 1/2 shutdown")
    environ = {**os.environ, **ENV}
    with subprocess.Popen(
        [sys.executable, "-c", APPLY], stdin=subprocess.PIPE, env=environ, text=True
    ) as apply:
        assert apply.stdin is not None
        apply.stdin.write(request)
        apply.stdin.close()
        assert half.wait(timeout=30)
        apply.send_signal(signal.SIGKILL)
        apply.wait(timeout=10)
    assert not running.switch.stored.running.ports["1/2"].admin_up
    device.run_apply(request, ENV)
    assert running.switch.stored.running.ports["1/2"].admin_up
    device.run_restore(request, ENV)
    assert running.switch.snapshot() == first


def watch_for(switch: OnyxSwitch, seen: threading.Event, fatal: str) -> None:
    """Hold the switch for a moment after one line, so that the kill falls right there."""
    refuse = switch.refuse

    def refuse_and_tell(line: str) -> str | None:
        if seen.is_set():
            return None
        if line == fatal:
            switch.faults.slow_s = 1.0
            threading.Timer(0.5, lambda: setattr(switch.faults, "slow_s", 0.0)).start()
            seen.set()
        return refuse(line)

    switch.refuse = refuse_and_tell


@asynccontextmanager
async def _connect(running: Running) -> AsyncGenerator[asyncssh.SSHClientConnection, None]:
    async with asyncssh.connect(
        running.endpoint.address,
        running.endpoint.port,
        username="admin",
        password="admin",
        known_hosts=None,
        preferred_auth=["keyboard-interactive"],
    ) as connection:
        yield connection


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("show version", "UNIX shell commands cannot be executed using this account.\n"),
        ('cli "enable" "show roce"', "RoCE mode      : N/A\n"),
        ('cli -h \'"enable" "conf t" "bogus"\'', '% Unrecognized command "bogus".'),
    ],
)
def test_an_exec_runs_only_what_starts_with_cli(
    running: Running, command: str, output: str
) -> None:
    async def work() -> tuple[str, int | None]:
        async with _connect(running) as connection:
            done = await connection.run(command)
            return str(done.stdout), done.exit_status

    text, status = running.wait(work())
    assert text.startswith(output)
    assert status is None, "Onyx may send no exit status (sources.md#onyx-sessions)"


def test_a_shell_without_a_terminal_prints_results_only(running: Running) -> None:
    async def work() -> str:
        async with (
            _connect(running) as connection,
            connection.create_process(term_type=None) as process,
        ):
            output, _ = await process.communicate("enable\nshow roce\n")
            return str(output)

    assert running.wait(work()) == "RoCE mode      : N/A\n"


def test_the_pager_of_a_terminal(running: Running) -> None:
    async def work() -> str:
        async with (
            _connect(running) as connection,
            connection.create_process(term_type="vt100", term_size=(80, 24)) as process,
        ):
            await process.stdout.readuntil("> ")
            process.stdin.write("enable\r")
            await process.stdout.readuntil("# ")
            process.stdin.write("show interfaces ethernet status\r")
            page = await process.stdout.readuntil("lines 1-23 ")
            process.stdin.write("q")
            return str(page)

    page = running.wait(work())
    assert page.startswith("show interfaces ethernet status\r\n\x1b[?1h\x1b=\r")
    assert "Eth1/22 " in page
    assert "Eth1/23 " not in page
