"""`apt-get`: installs and removes the packages that the lab knows, and starts their services."""

from __future__ import annotations

from pathlib import Path

from lab.hosts.supervisor import Supervisor
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.packages import ARCHIVE, install, installed, plan_apt, remove
from lab.hosts.units import load_unit

HEAD = "Reading package lists...\nBuilding dependency tree...\nReading state information...\n"


class Apt:
    """The `apt-get` of one host."""

    def __init__(self, supervisor: Supervisor, root: Path) -> None:
        """Work on the host's files and units."""
        self._supervisor = supervisor
        self._root = root

    async def run(self, call: ToolCall) -> ToolResult:
        """Run one command."""
        plan = plan_apt(call)
        if plan.answer is not None:
            return plan.answer
        if plan.verb == "update":
            return ToolResult(out="Hit:1 http://archive.ubuntu.com/ubuntu jammy InRelease\n")
        if plan.verb == "install":
            return await self._install(plan.names)
        return await self._remove(plan.names)

    async def _install(self, names: tuple[str, ...]) -> ToolResult:
        out = HEAD
        for name in names:
            new = install(self._root, name)
            for each in new:
                out += f"Setting up {each} ({ARCHIVE[each].version}) ...\n"
                await self._start_service(ARCHIVE[each].service)
            if not new:
                out += f"{name} is already the newest version ({ARCHIVE[name].version}).\n"
        return ToolResult(out=out)

    async def _start_service(self, service: str) -> None:
        """What deb-systemd-helper does after the unpacking: enable and start."""
        unit = load_unit(self._root, service) if service else None
        if unit is None:
            return
        for target in unit.names("WantedBy"):
            folder = self._root / "etc/systemd/system" / f"{target}.wants"
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / service).is_symlink():
                (folder / service).symlink_to(unit.fragment)
        self._supervisor.reload()
        await self._supervisor.start(service)

    async def _remove(self, names: tuple[str, ...]) -> ToolResult:
        out = HEAD
        for name in names:
            service = ARCHIVE[name].service
            if service and name in installed(self._root):
                await self._supervisor.stop(service)
            if remove(self._root, name):
                out += f"Removing {name} ({ARCHIVE[name].version}) ...\n"
            else:
                out += f"Package '{name}' is not installed, so not removed\n"
        self._supervisor.reload()
        return ToolResult(out=out)
