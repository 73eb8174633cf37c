"""The lab's systemd: starts, watches and ends the units of one host."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from lab.hosts.namespace import INNER_PATH
from lab.hosts.notify import NotifySocket
from lab.hosts.processes import (
    WRAPPERS,
    alive,
    command_of,
    main_pid,
    processes_of,
    send,
    signal_all,
)
from lab.hosts.unit_state import Launch, Launcher, UnitState
from lab.hosts.units import (
    BUILTIN_SERVICES,
    BUILTIN_TARGETS,
    Unit,
    conditions_met,
    full_name,
    load_unit,
    normal_limit,
    order_units,
    parse_exec,
    unit_environment,
    wanted_by_links,
)

DEFAULT_RESTART_S = 0.1
DEFAULT_STOP_S = 90.0
DEFAULT_START_S = 90.0
START_LIMIT_BURST = 5
"""systemd's DefaultStartLimitBurst, within 10 s."""
START_LIMIT_S = 10.0
POLL_S = 0.05
EMPTY: Mapping[str, str] = MappingProxyType({})
BOOT_PATIENCE_S = 60.0
"""How long the boot waits for services that say themselves when they are ready."""
EXEC_DEADLINE_S = 5.0
EXEC_POLL_S = 0.005
CLEAN_EXITS = frozenset({0, -signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM, -signal.SIGPIPE})
"""What SuccessExitStatus= takes as clean by default (systemd.service(5))."""
BOOT_TARGETS = ("sysinit.target", "basic.target", "network-pre.target", "network.target",
                "network-online.target", "timers.target", "multi-user.target",
                "graphical.target", "default.target")  # fmt: skip
PULLED_IN = ("Requires", "BindsTo", "Wants")


class UnitNotFoundError(Exception):
    """No unit file and no built-in unit has this name."""


class Supervisor:
    """All units of one host, from its boot to its end."""

    def __init__(self, root: Path, hostname: Callable[[], str], launcher: Launcher) -> None:
        """Play systemd over the unit files below `root`."""
        self.root = root
        self._hostname = hostname
        self._launcher = launcher
        self._sockets = root / "sockets"
        self._sockets.mkdir(parents=True, exist_ok=True)
        self.states: dict[str, UnitState] = {}
        self.transient: dict[str, Unit] = {}
        self._tasks: set[asyncio.Task[None] | asyncio.Task[bool]] = set()
        self.journal = root / "log/journal"
        self.journal.mkdir(parents=True, exist_ok=True)

    def state(self, name: str) -> UnitState:
        """The state of a unit, loading it when it is not known yet.

        Raises:
            UnitNotFoundError: There is no such unit.
        """
        full = full_name(name)
        known = self.states.get(full)
        if known is not None:
            return known
        unit = self.transient.get(full) or load_unit(self.root, full)
        if unit is None:
            raise UnitNotFoundError(full)
        state = UnitState(unit)
        if full in BUILTIN_SERVICES and not unit.settings.get("ExecStart"):
            state.active, state.sub = "active", "running"
        self.states[full] = state
        return state

    def reload(self) -> None:
        """`systemctl daemon-reload`: read all unit files again; processes stay as they are."""
        for name, state in list(self.states.items()):
            unit = self.transient.get(name) or load_unit(self.root, name)
            if unit is not None:
                state.unit = unit
            elif state.active in ("inactive", "failed"):
                del self.states[name]

    def needs_reload(self, name: str) -> bool:
        """The files of a loaded unit differ from what was loaded."""
        state = self.states.get(full_name(name))
        on_disk = load_unit(self.root, full_name(name))
        return state is not None and on_disk is not None and on_disk != state.unit

    async def boot(self) -> None:
        """Start what is enabled, in order, as the boot to the default target does."""
        wanted: dict[str, Unit] = {}
        for target in BOOT_TARGETS:
            for name in wanted_by_links(self.root, target):
                self._collect(name, wanted)
        slow: set[asyncio.Task[bool]] = set()
        for unit in order_units(list(wanted.values())):
            start = asyncio.create_task(self._start_one(self.state(unit.name)))
            if unit.type == "notify":
                # It may wait for another host; the login service does not wait for it.
                slow.add(start)
            else:
                await start
        if slow:
            _, late = await asyncio.wait(slow, timeout=BOOT_PATIENCE_S)
            self._tasks |= late

    def _collect(self, name: str, into: dict[str, Unit]) -> None:
        full = full_name(name)
        if full in into or full in BUILTIN_TARGETS:
            return
        try:
            unit = self.state(full).unit
        except UnitNotFoundError:
            return
        into[full] = unit
        for key in PULLED_IN:
            for needed in unit.names(key):
                self._collect(needed, into)

    async def start(self, name: str) -> bool:
        """Start a unit and what it pulls in; True when it is up (or done) afterwards."""
        wanted: dict[str, Unit] = {}
        full = full_name(name)
        self.state(full)
        self._collect(full, wanted)
        good = True
        for unit in order_units(list(wanted.values())):
            started = await self._start_one(self.state(unit.name))
            required = unit.name in wanted[full].names("Requires") if full in wanted else False
            if required and not started:
                return False
            if unit.name == full:
                good = started
        return good

    async def _start_one(self, state: UnitState) -> bool:
        async with state.starting:  # a second caller waits for the start that is under way
            return state.active == "active" or await self._start_stopped(state)

    async def _start_stopped(self, state: UnitState) -> bool:
        unit = state.unit
        if unit.name in BUILTIN_TARGETS or unit.name in BUILTIN_SERVICES:
            state.active, state.sub = "active", "active"
            return True
        if not conditions_met(unit, self.root):
            self._log(unit, f"Condition check resulted in {unit.name} being skipped.")
            return True
        await self._drain(state)
        state.active, state.sub, state.result = "activating", "start", "success"
        state.invocation = uuid.uuid4().hex
        state.memlock = unit.memlock
        try:
            return await self._run_start(state)
        except (FileNotFoundError, KeyError) as error:
            self._log(unit, f"Failed to load environment files or user: {error}")
            return self._fail(state, "resources", 0)

    async def _run_start(self, state: UnitState) -> bool:
        unit = state.unit
        for line in unit.before_start:
            if not await self._run_to_end(state, line):
                return self._fail(state, "exit-code", state.status)
        if unit.type in ("oneshot", "forking"):
            return await self._run_oneshot(state)
        lines = unit.settings.get("ExecStart", ())
        if not lines:
            return self._fail(state, "resources", 0)
        good = await self._start_main(state, lines[0])
        if not good:
            return False
        state.active, state.sub = "active", "running"
        state.watcher = asyncio.create_task(self._watch(state))
        for line in unit.settings.get("ExecStartPost", ()):
            await self._run_to_end(state, line)
        return True

    async def _start_main(self, state: UnitState, line: str) -> bool:
        if state.unit.type != "notify":
            state.process = await self._spawn(state, line)
            await self._wait_for_exec(state)
            return True
        notify = NotifySocket(self._sockets, state.invocation)
        try:
            process = await self._spawn(state, line, {"NOTIFY_SOCKET": notify.inner})
            state.process = process
            limit = state.unit.seconds("TimeoutStartSec", DEFAULT_START_S)
            deadline = None if limit in (0.0, float("inf")) else limit
            ready = await notify.wait(process, deadline)
        finally:
            notify.close()
        if ready or state.process is not process:  # stopped meanwhile: the stop has the last word
            return ready
        result = "timeout" if process.returncode is None else "protocol"
        signal_all(state.invocation, signal.SIGKILL)
        self._fail(state, result, process.returncode or 0)
        self._restart_by_policy(state, clean=False)
        return False

    async def _wait_for_exec(self, state: UnitState) -> None:
        """Wait until the service's own program runs, so that its main pid is known."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + EXEC_DEADLINE_S
        while loop.time() < deadline and state.process is not None:
            pid = main_pid(state.process)
            if state.process.returncode is not None or (pid and command_of(pid) not in WRAPPERS):
                return
            await asyncio.sleep(EXEC_POLL_S)

    async def _run_oneshot(self, state: UnitState) -> bool:
        unit = state.unit
        limit = unit.seconds("TimeoutStartSec", 0.0 if unit.type == "oneshot" else DEFAULT_START_S)
        deadline = None if limit in (0.0, float("inf")) else limit
        try:
            async with asyncio.timeout(deadline):
                for line in unit.settings.get("ExecStart", ()):
                    if not await self._run_to_end(state, line):
                        return self._fail(state, "exit-code", state.status)
        except TimeoutError:
            signal_all(state.invocation, signal.SIGKILL)
            return self._fail(state, "timeout", 0)
        stays = unit.flag("RemainAfterExit") or unit.type == "forking"
        state.active, state.sub = ("active", "exited") if stays else ("inactive", "dead")
        return True

    async def _run_to_end(self, state: UnitState, line: str) -> bool:
        process = await self._spawn(state, line)
        state.process = process
        state.status = await process.wait()
        state.process = None
        return state.status == 0 or line.lstrip("@:+!").startswith("-")

    async def _spawn(
        self, state: UnitState, line: str, extra: Mapping[str, str] = EMPTY
    ) -> asyncio.subprocess.Process:
        unit = state.unit
        env = {"PATH": INNER_PATH, "LANG": "C.UTF-8", "INVOCATION_ID": state.invocation}
        env = {**env, **unit_environment(unit, self.root), **extra}
        command = parse_exec(line, unit.name, self._hostname(), env)
        launch = Launch(
            command.argv,
            env,
            user=unit.last("User", "root"),
            cwd=unit.last("WorkingDirectory", "/").lstrip("-"),
            memlock=unit.memlock,
        )
        return await self._launcher.spawn(launch, self.journal / f"{unit.name}.log")

    def _log(self, unit: Unit, text: str) -> None:
        with (self.journal / f"{unit.name}.log").open("a") as log:
            log.write(f"systemd: {text}\n")

    def _fail(self, state: UnitState, result: str, status: int) -> bool:
        state.active, state.sub, state.result, state.status = "failed", "failed", result, status
        state.process = None
        self._log(state.unit, f"{state.unit.name}: Failed with result '{result}'.")
        return False

    async def _watch(self, state: UnitState) -> None:
        """Wait for a service's main process and do what Restart= says."""
        process = state.process
        if process is None:
            return
        status = await process.wait()
        state.status, state.process = status, None
        if state.unit.last("KillMode") != "process":
            signal_all(state.invocation, signal.SIGKILL)
        clean = status in CLEAN_EXITS
        if clean:
            state.active, state.sub = "inactive", "dead"
        else:
            self._fail(state, "exit-code" if status > 0 else "signal", status)
        self._restart_by_policy(state, clean=clean)

    def _restart_by_policy(self, state: UnitState, *, clean: bool) -> None:
        policy = state.unit.last("Restart", "no")
        if policy == "always" or (policy == "on-failure" and not clean):
            task = asyncio.create_task(self._restart(state))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _restart(self, state: UnitState) -> None:
        now = asyncio.get_running_loop().time()
        state.starts = [t for t in state.starts if now - t < START_LIMIT_S] + [now]
        if len(state.starts) > START_LIMIT_BURST:
            self._log(state.unit, "Start request repeated too quickly.")
            self._fail(state, "start-limit-hit", state.status)
            return
        state.active, state.sub = "activating", "auto-restart"
        await asyncio.sleep(state.unit.seconds("RestartSec", DEFAULT_RESTART_S))
        if state.sub == "auto-restart":
            state.restarts += 1
            state.active = "inactive"
            await self._start_one(state)

    async def _drain(self, state: UnitState) -> None:
        if state.watcher is not None:
            state.watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await state.watcher
            state.watcher = None

    async def stop(self, name: str) -> None:
        """Stop a unit: ExecStop, SIGTERM, and SIGKILL after TimeoutStopSec."""
        state = self.state(name)
        if state.active == "inactive" and state.sub != "auto-restart":
            return
        unit = state.unit
        await self._drain(state)
        process = state.process
        state.active, state.sub = "deactivating", "stop"
        for line in unit.settings.get("ExecStop", ()):
            await self._run_to_end(state, line)
        state.process = process
        await self._end_processes(state)
        for line in unit.settings.get("ExecStopPost", ()):
            await self._run_to_end(state, line)
        state.process, state.active, state.sub = None, "inactive", "dead"
        if full_name(name) in self.transient:
            self.transient.pop(full_name(name))
            self.states.pop(full_name(name), None)

    async def _end_processes(self, state: UnitState) -> None:
        unit = state.unit
        only_main = unit.last("KillMode") == "process"
        number = getattr(signal, unit.last("KillSignal", "SIGTERM"), signal.SIGTERM)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + unit.seconds("TimeoutStopSec", DEFAULT_STOP_S)
        main = main_pid(state.process)
        targets = [main] if only_main and main else processes_of(state.invocation)
        for pid in targets:
            send(pid, number)
        while any(alive(pid) for pid in targets):
            if loop.time() > deadline:
                for pid in targets:
                    send(pid, signal.SIGKILL)
            await asyncio.sleep(POLL_S)
        if state.process is not None:
            await state.process.wait()

    def running_memlock_unlimited(self) -> bool:
        """The running K3s service may lock any amount of memory, and so may its pods."""
        states = [self.states.get(name) for name in ("k3s.service", "k3s-agent.service")]
        return any(
            s is not None and s.active == "active" and normal_limit(s.memlock) == "infinity"
            for s in states
        )

    async def shut_down(self) -> None:
        """Stop every running service in the reverse of its start order (an orderly power-off)."""
        running = [s.unit for s in self.states.values() if s.process is not None]
        for unit in reversed(order_units(running)):
            await self.stop(unit.name)
        self.forget()

    def forget(self) -> None:
        """After a power cut: no unit runs any more, and none is remembered."""
        for state in self.states.values():
            if state.watcher is not None:
                state.watcher.cancel()
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self.states.clear()
        self.transient.clear()

    def run_later(self, name: str, delay_s: float) -> None:
        """Start a transient unit after a delay, as `systemd-run --on-active` does."""

        async def later() -> None:
            await asyncio.sleep(delay_s)
            await self.start(name)

        task = asyncio.create_task(later())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
