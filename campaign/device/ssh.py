"""A share of tier 2 over real SSH: the emulator listens on loopback, and the product logs in.

Nothing of the product's session is put aside but the address that it dials. Time is real, except
that of the gate, which only waits, and deadlines are short. What is a fault here happens in the
emulator, behind a real SSH server, so it can neither drip for minutes nor kill our process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast
from unittest.mock import patch

from campaign.device.site import Place
from campaign.device.step import Runner
from campaign.device.wire import FLOOD, Fault, Login, Time, Wire, cut_short, garbled
from components.core.limits import ANSWER_BYTES
from components.fabric.systems import system_of
from components.remote import switch_session
from lab import keys
from lab.switches.ssh_switch import Process, SshSwitch
from lab.views import SwitchConfig
from tests.over_ssh.switch_room import running_loop

EVERY: Final = 50
"""Every so many seeds the session is a real one: it costs ten times as much."""
START_S: Final = 30.0
DEADLINE_S: Final = 20.0
"""Seconds of a session: an answer that lost its end is waited for in real time."""
COMMAND_S: Final = 0.5
"""By so many seconds each command moves that."""


@dataclass(slots=True)
class Ears:
    """One login at the emulator: counts what arrives, and knows the fault."""

    login: Any
    wire: Wire
    switch: SshSwitch[Any, Any]
    prepare: tuple[str, ...]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the emulator asks of its login
        """All but `run` is the login's own."""
        return getattr(self.login, name)

    def run(self, line: str) -> str:
        """Run a line that came over SSH."""
        fault, number = self.wire.fault, self.wire.exchanges
        if line in self.prepare:
            return self.obey(line)
        self.wire.exchanges += 1
        if fault is None or fault.met or number != fault.at:
            return self.obey(line)
        fault.met = True
        return _FAULTS[fault.kind](self, line, fault)

    def obey(self, line: str) -> str:
        """What a switch in good health does."""
        output = cast("Login", self.login).run(line)
        self.wire.after()
        return output

    # The faults.

    def refuse(self, line: str, fault: Fault) -> str:
        """The switch refuses the command, and runs nothing."""
        del line, fault
        return self.wire.refusal

    def cut_before(self, line: str, fault: Fault) -> str:
        """The connection breaks before the switch has the command."""
        del line, fault
        self.switch.drop_sessions()
        return ""

    def cut_after(self, line: str, fault: Fault) -> str:
        """The connection breaks after the command, before its answer."""
        del fault
        self.obey(line)
        self.switch.drop_sessions()
        return ""

    def flood(self, line: str, fault: Fault) -> str:
        """Half as much again as the longest answer that is read."""
        del fault
        return self.obey(line) + FLOOD * (ANSWER_BYTES * 3 // 2 // len(FLOOD))

    def duplicate(self, line: str, fault: Fault) -> str:
        """The answer comes twice."""
        del fault
        output = self.obey(line)
        return f"{output}{self.login.prompt()}{line}\n{output}"

    def truncate(self, line: str, fault: Fault) -> str:
        """The end of the answer is lost, the prompt is not."""
        return cut_short(self.obey(line), fault.chance)

    def garble(self, line: str, fault: Fault) -> str:
        """Some characters of the answer are others."""
        return garbled(self.obey(line), fault.chance)

    def beside(self, line: str, fault: Fault) -> str:
        """Something happens before the command runs, and the session goes on."""
        fault.hook()
        return self.obey(line)

    def boot(self, line: str, fault: Fault) -> str:
        """The switch boots, which ends every session."""
        if fault.chance.random() < 0.5:  # noqa: PLR2004 - before or after the command
            self.obey(line)
        fault.hook()
        return ""

    def signal(self, line: str, fault: Fault) -> str:
        """The process of the product gets a signal while the command runs."""
        output = self.obey(line)
        fault.hook()
        return output


_FAULTS: Final[dict[str, Callable[[Ears, str, Fault], str]]] = {
    "refuse": Ears.refuse,
    "cut before": Ears.cut_before,
    "cut after": Ears.cut_after,
    "flood": Ears.flood,
    "duplicate": Ears.duplicate,
    "truncate": Ears.truncate,
    "garble": Ears.garble,
    "another admin": Ears.beside,
    "boot": Ears.boot,
    "SIGINT": Ears.signal,
    "SIGTERM": Ears.signal,
}


@dataclass(slots=True)
class SshRunner(Runner):
    """Runs steps whose session is a real one."""

    dialled: dict[str, Any] = field(default_factory=dict[str, Any])
    """Where the emulator listens, in place of what the file says."""
    kinds: tuple[str, ...] = (*_FAULTS,)

    def seams(self, time: Time) -> Sequence[tuple[object, str, object]]:
        """Only the address is another one."""
        del time
        opened = switch_session.open_session

        def opens(endpoint: Any, profile: Any, secrets: Any, deadline_s: float) -> object:  # noqa: ANN401 - as the product's
            own = replace(endpoint, command_s=COMMAND_S, **self.dialled)
            return opened(own, profile, secrets, min(deadline_s, DEADLINE_S))

        return ((switch_session, "open_session", opens),)


@contextmanager
def listening(place: Place, wire: Wire, password: str) -> Generator[SshRunner]:
    """The emulator of a place as an SSH server, until the history is over."""
    switch = cast("SshSwitch[Any, Any]", place.room.switch)
    held: SwitchConfig = switch._config  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the seam
    user = place.plan.endpoint.user
    config = replace(held, address="127.0.0.1", port=0, user=user, password=password)
    prepare = (*system_of(place.system).session.prepare,)
    anyone: Any = switch
    serve, login = switch.serve, anyone.session

    async def hear(process: Process) -> None:
        """Only the login of this session has ears: people at the console have their own."""

        def first() -> Ears:
            anyone.session = login
            return Ears(login(), wire, switch, prepare)

        anyone.session = first  # the emulator asks for its login before it waits
        await serve(process)

    with running_loop() as loop, patch.multiple(switch, _config=config, serve=hear):
        asyncio.run_coroutine_threadsafe(switch.start(), loop).result(START_S)
        key = keys.host_key(config.host_key_seed).public_openssh
        at = {"address": config.address, "port": switch.ssh_port, "host_key": key}
        try:
            yield SshRunner(wire, dialled=at)
        finally:
            asyncio.run_coroutine_threadsafe(switch.stop(), loop).result(START_S)
