"""One InfiniBand fabric of the lab: ibsim, the subnet managers, and what the ports say."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from components.core.errors import UsageError
from lab.infiniband.manager import ADAPTIVE, END_DEADLINE_S, Manager
from lab.infiniband.memory import MemoryFolder
from lab.infiniband.ports import (
    DOWN,
    KnownManager,
    PortState,
    parse_keys,
    parse_managers,
    parse_port,
)
from lab.infiniband.programs import Programs
from lab.infiniband.topology import (
    Cable,
    Plug,
    hca_node,
    list_cables,
    manager_on,
    render_network,
    switch_node,
)
from lab.views import HcaPort, ManagerView, SubnetView

START_DEADLINE_S: Final = 10.0
START_POLL_S: Final = 0.02
ATTEND_S: Final = 0.2
GIVE_UP_S: Final = 0.8
"""When opensm gives up an answer on a real port: its `transaction_timeout` of 200 ms, for the
request and its three `transaction_retries`."""
FRESH_S: Final = 1.0
"""An answer of a port is asked again after so many seconds: a look reads its key table entry by
entry."""
READY: Final = "Network simulator ready."
FOLDER: Final = "infiniband"
Look = Callable[[], tuple[tuple[SubnetView, ...], tuple[HcaPort, ...]]]
"""All switches and all HCA ports, as they are now."""
AnswerT = TypeVar("AnswerT")


class Fabric:
    """Links of ibsim, one opensm for each device that runs a subnet manager."""

    def __init__(
        self,
        unpacked: Path,
        folder: Path,
        look: Look,
        polling_ms: int,
        elsewhere: Callable[[], tuple[ManagerView, ...]] = tuple[ManagerView, ...],
    ) -> None:
        """Nothing runs yet.

        Args:
            unpacked: Folder of Debian's packages.
            folder: Where files and logs of the fabric lie.
            look: Says what the emulated switches and hosts have.
            polling_ms: How often a standby asks its master, in milliseconds.
            elsewhere: Says which managers run on no switch.
        """
        self._elsewhere = elsewhere
        socket = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
        self._programs = Programs(unpacked, f"railyard-{socket}", folder)
        self._memory: MemoryFolder | None = None
        self._folder = folder
        self._look = look
        self._polling_ms = polling_ms
        self._simulator: subprocess.Popen[bytes] | None = None
        self._unlinked: frozenset[Plug] = frozenset()
        self._managers: dict[str, Manager] = {}
        self._attending: asyncio.Task[None] | None = None
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str], tuple[float, object]] = {}

    async def start(self) -> None:
        """Load the cables into ibsim and start the subnet managers.

        Raises:
            UsageError: ibsim does not come up; its own text says why.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._memory = MemoryFolder()
        self._programs = replace(self._programs, work=self._memory.path)
        switches, hcas = self._look()
        network = self._folder / "network.txt"
        network.write_text(render_network(switches, hcas))
        log = self._folder / "ibsim.log"
        log.write_text("")
        self._simulator = self._programs.start(
            self._programs.argv("usr/bin/ibsim", ["-s", str(network)], preload=False),
            log,
            self._programs.environment(),
            subprocess.PIPE,
        )
        deadline = time.monotonic() + START_DEADLINE_S
        while READY not in log.read_text():
            if self._simulator.poll() is not None or time.monotonic() > deadline:
                raise UsageError(f"ibsim did not start: {log.read_text().strip()}")
            await asyncio.sleep(START_POLL_S)
        self._attending = asyncio.create_task(self._attend())
        self.sync()

    def stop(self) -> None:
        """End every process of the fabric."""
        if self._attending is not None:
            self._attending.cancel()
        for manager in self._managers.values():
            manager.end()
        self._managers.clear()
        if self._simulator is not None:
            self._simulator.kill()
            self._simulator.wait(timeout=END_DEADLINE_S)
            self._simulator = None
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def sync(self) -> None:
        """Bring links and managers to what switches and hosts have now."""
        simulator = self._simulator
        if simulator is None or simulator.stdin is None:
            return
        switches, hcas = self._look()
        unlinked = frozenset(
            cable.near for cable in list_cables(switches, hcas) if not _is_up(cable, switches, hcas)
        )
        orders = [f"relink {end.on_console}" for end in sorted(self._unlinked - unlinked)]
        orders += [f"unlink {end.on_console}" for end in sorted(unlinked - self._unlinked)]
        simulator.stdin.write("".join(f"{order}\n" for order in orders).encode())
        simulator.stdin.flush()
        self._unlinked = unlinked
        wanted = self._wanted(switches)
        for name in self._managers.keys() - wanted.keys():
            self._managers.pop(name).end()
        for view in wanted.values():
            self._manage(view)
        with self._lock:
            self._answers.clear()

    def _wanted(self, switches: Sequence[SubnetView]) -> dict[str, ManagerView]:
        found = (*(manager_on(view) for view in switches), *self._elsewhere())
        return {each.name: each for each in found if each is not None}

    def _manage(self, view: ManagerView) -> None:
        running = self._managers.get(view.name)
        if running is not None and running.take(view):
            return
        if running is not None:
            running.end()
        folder = self._folder / view.name
        self._managers[view.name] = Manager(self._programs, view, folder, self._polling_ms)

    @property
    def is_adaptive(self) -> bool:
        """A manager spreads packets over equal paths."""
        engines = [each.routing_engine for each in self._wanted(self._look()[0]).values()]
        return any(engine.startswith(ADAPTIVE) for engine in engines)

    async def _attend(self) -> None:
        """Do for the managers what ibsim and libumad2sim leave out, and a port's own firmware does.

        A switch tells the master of a new standby (trap 144), which ibsim does not; and a standby
        tells that to a master of a lower priority itself, but the answer (TrapRepress) is dropped
        by ibsim (sim_mad.c), and nothing gives it up, as the kernel's umad does: opensm's next
        sweep waits for it without an end, so such a manager is started again.
        """
        told: set[Manager] = set()
        since: dict[Manager, float] = {}
        while True:
            await asyncio.sleep(ATTEND_S)
            managers = [each for each in self._managers.values() if each.runs]
            new = {each for each in managers if each.is_standby} - told
            for other in managers if new else ():
                if not other.is_standby:
                    other.sweep()
            told |= new
            now = time.monotonic()
            since = {each: since.get(each, now) for each in managers if each.is_between}
            stuck = {each for each, at in since.items() if now - at > GIVE_UP_S}
            if stuck:
                self._start_again(stuck)

    def _start_again(self, stuck: set[Manager]) -> None:
        for name, view in self._wanted(self._look()[0]).items():
            if self._managers.get(name) in stuck:
                self._managers.pop(name).end()
                self._manage(view)

    @property
    def pids(self) -> dict[str, int]:
        """Process of ibsim, and of each manager by the name of its device."""
        own = {"ibsim": self._simulator.pid} if self._simulator is not None else {}
        return own | {name: manager.pid for name, manager in self._managers.items()}

    def port(self, guid: str) -> PortState:
        """State of an HCA port, as its own `smpquery portinfo` has it."""

        def ask() -> PortState:
            text = self._ask(guid, "smpquery", ("-D", "portinfo", "0", "1"))
            return parse_port(text) if text else DOWN

        return self._fresh(guid, "portinfo", ask)

    def keys(self, guid: str) -> tuple[int, ...]:
        """Key table of an HCA port; empty while it has no link."""

        def ask() -> tuple[int, ...]:
            return parse_keys(self._ask(guid, "smpquery", ("-D", "pkeys", "0", "1")))

        return self._fresh(guid, "pkeys", ask)

    def managers(self, guid: str) -> tuple[KnownManager, ...]:
        """All that the master of a port's subnet knows, itself first; empty where none answers."""
        return parse_managers(self._ask(guid, "saquery", ("SMIR",)))

    def _fresh(self, guid: str, what: str, ask: Callable[[], AnswerT]) -> AnswerT:
        now = time.monotonic()
        with self._lock:
            at, answer = self._answers.get((guid, what), (0.0, None))
        if answer is None or now - at > FRESH_S:
            answer = ask()
            with self._lock:
                self._answers[guid, what] = (now, answer)
        return answer  # pyright: ignore[reportReturnType] - one kind of answer for each key

    def _ask(self, guid: str, tool: str, words: Sequence[str]) -> str:
        """What a tool says at the HCA of a port GUID; nothing where it fails or ibsim is gone."""
        if self._simulator is None or self._simulator.poll() is not None:
            return ""  # a tool would wait for ibsim for ever
        done = self._programs.run(hca_node(guid), tool, words)
        return "" if done.returncode else done.stdout

    def command(
        self, guid: str, tool: str, words: Sequence[str]
    ) -> tuple[list[str], dict[str, str]]:
        """Command line and environment of one of infiniband-diags' tools at an HCA."""
        node = hca_node(guid)
        return self._programs.argv(f"usr/sbin/{tool}", words), self._programs.environment(node)

    def reach(self, guid: str) -> tuple[tuple[SubnetView, ...], tuple[HcaPort, ...], int]:
        """Switches and ports that have a path to a port, and the number of links among them."""
        switches, hcas = self._look()
        up = [each for each in list_cables(switches, hcas) if _is_up(each, switches, hcas)]
        seen = {hca_node(guid)}
        while (
            more := {
                end.node
                for cable in up
                if {cable.near.node, cable.far.node} & seen
                for end in (cable.near, cable.far)
            }
            - seen
        ):
            seen |= more
        return (
            tuple(view for view in switches if switch_node(view) in seen),
            tuple(hca for hca in hcas if hca_node(hca.guid) in seen and hca.link_up),
            sum(cable.near.node in seen for cable in up),
        )


def _is_up(cable: Cable, switches: Sequence[SubnetView], hcas: Sequence[HcaPort]) -> bool:
    """Both ends are on and the cable is in."""
    up = {Plug(switch_node(view), view.number_of(port)) for view in switches for port in view.up}
    up |= {Plug(hca_node(hca.guid), 1) for hca in hcas if hca.link_up}
    return {cable.near, cable.far} <= up
