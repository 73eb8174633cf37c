"""An emulated switch of any system that listens on loopback, and how Railyard reaches it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

from components.core.difference import Difference
from components.fabric import device
from components.fabric.edit import read_baseline
from components.fabric.state import SwitchState, diff_states
from components.fabric.systems import system_of
from components.remote.step import Endpoint
from components.remote.switch_session import SwitchSession, open_session
from lab import keys
from tests.fabric.eos_lab import Clock
from tests.fabric.switch_labs import LABS, Emulator, SwitchLab

ResultT = TypeVar("ResultT")
PASSWORD_VARIABLE = "RAILYARD_SECRET_SWITCH_PASSWORD"


@dataclass
class SwitchRoom:
    """A switch that listens."""

    system: str
    lab: SwitchLab
    switch: Any
    """The emulator; see `Emulator` for what all of them offer."""
    endpoint: Endpoint
    loop: asyncio.AbstractEventLoop
    clock: Clock

    @cached_property
    def desired(self) -> SwitchState:
        """What the site of the lab wants of it."""
        return self.lab.desired

    @property
    def env(self) -> dict[str, str]:
        """The environment of a step."""
        return {PASSWORD_VARIABLE: self.lab.password}

    @property
    def secrets(self) -> dict[str, str]:
        """What reaching it takes."""
        return {"switch_password": self.lab.password}

    def request(self, **more: object) -> str:
        request = {
            "endpoint": asdict(self.endpoint),
            "os": self.system,
            "desired": self.desired.model_dump(mode="json"),
        }
        return json.dumps(request | more)

    def baseline(self) -> Any:  # noqa: ANN401 - JSON of a state
        return read_baseline(device.run_baseline(self.request(), self.env))

    def apply(self, request: str = "") -> Any:  # noqa: ANN401 - JSON of the evidence
        return json.loads(device.run_apply(request or self.request(), self.env))

    def drift(self) -> tuple[Difference, ...]:
        """What differs from the plan, as observe sees it."""
        return diff_states(self.observe(), self.desired)

    def observe(self) -> SwitchState:
        """What the switch has of what the site wants."""
        return device.observe_switch(self.endpoint, self.system, self.desired, self.secrets)

    def view(self) -> object:
        """What the physics may know of what is ours."""
        return self.lab.carried.view(self.switch, self.desired)

    def session(self, deadline_s: float = 20) -> SwitchSession:
        profile = system_of(self.system).session
        return open_session(self.endpoint, profile, self.secrets, deadline_s)

    def wait(self, work: Coroutine[object, object, ResultT]) -> ResultT:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=30)

    def exec(self, command: str) -> tuple[str, int | None]:
        """What an exec request prints, and its exit status."""

        async def work() -> tuple[str, int | None]:
            async with self.connect() as connection:
                done = await connection.run(command)
                return str(done.stdout), done.exit_status

        return self.wait(work())

    def connect(self) -> Any:  # noqa: ANN401 - asyncssh's own connector
        return asyncssh.connect(
            self.endpoint.address,
            self.endpoint.port,
            username=self.lab.user,
            password=self.lab.password,
            known_hosts=None,
        )

    def reload(self) -> None:
        """Boot the switch again, in its own loop."""

        async def work() -> None:
            self.switch.reload()

        self.wait(work())


@contextmanager
def running_loop() -> Generator[asyncio.AbstractEventLoop, None, None]:
    """An event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()


@contextmanager
def switch_room(
    system: str, folder: Path, lab: SwitchLab | None = None
) -> Generator[SwitchRoom, None, None]:
    """A switch of one system over real SSH; it is gone afterwards.

    Args:
        system: Its system.
        folder: Keeps its state.
        lab: What is asked of it; default: the example of the system.
    """
    assert system in LABS, f"tests/fabric/switch_labs.py has no lab of {system}"
    lab, clock = lab or LABS[system], Clock()
    with running_loop() as loop:
        switch: Emulator = lab.make_switch(folder, clock)
        room = SwitchRoom(system, lab, switch, lab.plan.endpoint, loop, clock)
        room.wait(switch.start())
        room.endpoint = replace(
            room.endpoint,
            address=lab.address,
            port=switch.ssh_port,
            user=lab.user,
            host_key=keys.host_key(f"test/{lab.plan.name}").public_openssh,
        )
        try:
            yield room
        finally:
            room.wait(switch.stop())
