"""`systemctl`: what it changes; what it reads is in unit_report.py.

Texts and exit codes: systemd 249's systemctl(1).
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from lab.hosts.processes import signal_all
from lab.hosts.supervisor import Supervisor, UnitNotFoundError
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.unit_report import Parsed, UnitReport, parse_systemctl
from lab.hosts.units import Unit, enabled_links, full_name, load_unit

NOT_FOUND = 5
RELOAD_BY_SIGNAL = "/bin/kill -s HUP $MAINPID"
Reboot = Callable[[], None]


class Systemctl:
    """The `systemctl` of one host."""

    def __init__(self, supervisor: Supervisor, reboot: Reboot) -> None:
        """Work on `supervisor`; `reboot` schedules a reboot of the host."""
        self._supervisor = supervisor
        self._reboot = reboot
        self._changing: dict[str, Callable[[ToolCall, Parsed], Awaitable[ToolResult]]] = {
            "start": self._start,
            "stop": self._stop,
            "restart": self._restart,
            "reload": self._reload,
            "reload-or-restart": self._restart,
            "try-restart": self._try_restart,
            "enable": self._enable,
            "disable": self._disable,
            "mask": self._mask,
            "unmask": self._unmask,
            "daemon-reload": self._daemon_reload,
            "reset-failed": self._reset_failed,
            "kill": self._kill,
            "reboot": self._do_reboot,
        }
        self._report = UnitReport(supervisor)

    async def run(self, call: ToolCall) -> ToolResult:
        """Run one command."""
        parsed = parse_systemctl(call.argv)
        if isinstance(parsed, str):
            text = f"systemctl: unrecognized option '{parsed}'\n"
            return call.unmodelled(ToolResult(1, err=text))
        read = self._report.run(parsed)
        if read is not None:
            return read
        action = self._changing.get(parsed.verb)
        if action is None:
            text = f"Unknown command verb {parsed.verb}.\n"
            return call.unmodelled(ToolResult(1, err=text))
        if call.uid:
            what = " ".join(parsed.units) or parsed.verb
            text = f"Failed to {parsed.verb} {what}: Interactive authentication required.\n"
            return ToolResult(1, err=text)
        return await action(call, parsed)

    async def _each(
        self, parsed: Parsed, action: Callable[[str], Awaitable[ToolResult]]
    ) -> ToolResult:
        rc, out, err = 0, "", ""
        for name in parsed.units:
            try:
                one = await action(full_name(name))
            except UnitNotFoundError as missing:
                one = ToolResult(
                    NOT_FOUND,
                    err=f"Failed to {parsed.verb} {missing}: Unit {missing} not found.\n",
                )
            rc, out, err = one.rc or rc, out + one.out, err + one.err
        return ToolResult(rc, out, err)

    def _changed_warning(self, name: str) -> str:
        if not self._supervisor.needs_reload(name):
            return ""
        return (
            f"Warning: The unit file, source configuration file or drop-ins of {name} changed on "
            "disk. Run 'systemctl daemon-reload' to reload units.\n"
        )

    async def _start_one(self, name: str) -> ToolResult:
        supervisor = self._supervisor
        if supervisor.state(name).unit.last("LoadState") == "masked":
            return ToolResult(1, err=f"Failed to start {name}: Unit {name} is masked.\n")
        warning = self._changed_warning(name)
        if await supervisor.start(name):
            return ToolResult(err=warning)
        reason = {
            "timeout": "a timeout was exceeded",
            "resources": "of unavailable resources or another system error",
        }.get(supervisor.state(name).result, "the control process exited with error code")
        return ToolResult(
            1,
            err=f"{warning}Job for {name} failed because {reason}.\n"
            f'See "systemctl status {name}" and "journalctl -xeu {name}" for details.\n',
        )

    async def _start(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        del call
        return await self._each(parsed, self._start_one)

    async def _stop(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        del call

        async def one(name: str) -> ToolResult:
            try:
                await self._supervisor.stop(name)
            except UnitNotFoundError:
                text = f"Failed to stop {name}: Unit {name} not loaded.\n"
                return ToolResult(NOT_FOUND, err=text)
            return ToolResult()

        return await self._each(parsed, one)

    async def _restart(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        del call

        async def one(name: str) -> ToolResult:
            self._supervisor.state(name)
            await self._supervisor.stop(name)
            return await self._start_one(name)

        return await self._each(parsed, one)

    async def _reload(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        async def one(name: str) -> ToolResult:
            state = self._supervisor.state(name)
            commands = state.unit.settings.get("ExecReload", ())
            if not commands:
                text = f"Job type reload is not applicable for unit {name}.\n"
                return ToolResult(1, err=text)
            if state.active != "active":
                return ToolResult(1, err=f"{name} is not active, cannot reload.\n")
            if commands != (RELOAD_BY_SIGNAL,):
                text = f"Failed to reload {name}: the lab plays only {RELOAD_BY_SIGNAL}\n"
                return call.unmodelled(ToolResult(1, err=text))
            signal_all(state.invocation, signal.SIGHUP)
            return ToolResult()

        return await self._each(parsed, one)

    async def _try_restart(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        running = tuple(n for n in parsed.units if self._report.active(n) == "active")
        return await self._restart(
            call, Parsed("restart", running, parsed.properties, parsed.flags)
        )

    def _links(self, unit: Unit) -> list[tuple[Path, str]]:
        """The links that enabling makes: (path on the outer machine, target inside)."""
        etc = self._supervisor.root / "etc/systemd/system"
        pairs = [(f"{t}.wants/{unit.name}") for t in unit.names("WantedBy")]
        pairs += [(f"{t}.requires/{unit.name}") for t in unit.names("RequiredBy")]
        pairs += [alias for alias in unit.names("Alias") if alias != unit.name]
        return [(etc / pair, unit.fragment) for pair in pairs]

    async def _enable(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        del call

        async def one(name: str) -> ToolResult:
            unit = load_unit(self._supervisor.root, name)
            if unit is None:
                text = f"Failed to enable unit: Unit file {name} does not exist.\n"
                return ToolResult(1, err=text)
            if unit.last("LoadState") == "masked":
                text = f"Failed to enable unit: Unit file {unit.fragment} is masked.\n"
                return ToolResult(1, err=text)
            text = ""
            for path, target in self._links(unit):
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.is_symlink():
                    path.symlink_to(target)
                    inner = "/" + str(path.relative_to(self._supervisor.root))
                    text += f"Created symlink {inner} → {target}.\n"
            return ToolResult(err=text)

        result = await self._each(parsed, one)
        self._supervisor.reload()
        if result.rc == 0 and "--now" in parsed.flags:
            started = await self._each(parsed, self._start_one)
            return ToolResult(started.rc, err=result.err + started.err)
        return result

    async def _disable(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        async def one(name: str) -> ToolResult:
            text = ""
            links = enabled_links(self._supervisor.root, name)
            if not links and load_unit(self._supervisor.root, name) is None:
                text = f"Failed to disable unit: Unit file {name} does not exist.\n"
                return ToolResult(1, err=text)
            for path in links:
                path.unlink()
                text += f"Removed /{path.relative_to(self._supervisor.root)}.\n"
                if not any(path.parent.iterdir()):
                    path.parent.rmdir()
            return ToolResult(err=text)

        result = await self._each(parsed, one)
        if "--now" in parsed.flags:
            stopped = await self._stop(call, parsed)
            result = ToolResult(result.rc or stopped.rc, err=result.err + stopped.err)
        self._supervisor.reload()
        return result

    async def _mask(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        del call

        async def one(name: str) -> ToolResult:
            path = self._supervisor.root / "etc/systemd/system" / name
            if path.exists() and not path.is_symlink():
                text = f"Failed to mask unit: File /etc/systemd/system/{name} already exists.\n"
                return ToolResult(1, err=text)
            path.unlink(missing_ok=True)
            path.symlink_to("/dev/null")
            return ToolResult(err=f"Created symlink /etc/systemd/system/{name} → /dev/null.\n")

        result = await self._each(parsed, one)
        self._supervisor.reload()
        return result

    async def _unmask(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        del call

        async def one(name: str) -> ToolResult:
            path = self._supervisor.root / "etc/systemd/system" / name
            if not path.is_symlink() or str(path.readlink()) != "/dev/null":
                return ToolResult()
            path.unlink()
            return ToolResult(err=f"Removed /etc/systemd/system/{name}.\n")

        result = await self._each(parsed, one)
        self._supervisor.reload()
        return result

    async def _daemon_reload(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        del call, parsed
        self._supervisor.reload()
        return ToolResult()

    async def _reset_failed(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        del call
        names = [full_name(name) for name in parsed.units] or list(self._supervisor.states)
        for name in names:
            state = self._supervisor.states.get(name)
            if state is not None and state.active == "failed":
                state.active, state.sub, state.result = "inactive", "dead", "success"
                state.starts.clear()
        return ToolResult()

    async def _kill(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        del call

        async def one(name: str) -> ToolResult:
            text = parsed.signal_name.upper()
            number = signal.Signals[text if text.startswith("SIG") else f"SIG{text}"]
            signal_all(self._supervisor.state(name).invocation, number)
            return ToolResult()

        return await self._each(parsed, one)

    async def _do_reboot(self, call: ToolCall, parsed: Parsed) -> ToolResult:
        del call, parsed
        self._reboot()
        return ToolResult()
