"""`apt-get`: installs and removes the packages that the lab knows, and starts their services."""

from __future__ import annotations

from pathlib import Path

from lab.hosts.driver_state import forget_modules
from lab.hosts.supervisor import Supervisor
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.dkms import add_module
from lab.hosts.tools.driver_packages import Package, unsigned_source
from lab.hosts.tools.package_state import half_installed, lock_refusal, no_space
from lab.hosts.tools.packages import AptPlan, find_package, install, installed, plan_apt, remove
from lab.hosts.units import load_unit

HEAD = "Reading package lists...\nBuilding dependency tree...\nReading state information...\n"
INTERRUPTED = (
    "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.\n"
)


class Apt:
    """The `apt-get` of one host."""

    def __init__(self, supervisor: Supervisor, root: Path) -> None:
        """Work on the host's files and units."""
        self._supervisor = supervisor
        self._root = root

    async def run(self, call: ToolCall) -> ToolResult:
        """Run one command."""
        plan = plan_apt(call)
        if plan.answer is None and plan.verb == "update":
            return self._update()
        refusal = plan.answer or lock_refusal(call.model) or self._broken()
        if refusal is not None and not plan.simulated:
            return refusal
        if plan.simulated or plan.verb in ("check", "clean"):
            return plan.answer or ToolResult(out=HEAD)
        if plan.verb == "install":
            return await self._install(call, plan)
        return await self._remove(plan.names)

    def _update(self) -> ToolResult:
        folder = unsigned_source(self._root)
        if folder:
            text = f"W: GPG error: file:{folder} ./ InRelease: NO_PUBKEY A024F6F0E6D6A281\n"
            text += f"E: The repository 'file:{folder} ./ InRelease' is not signed.\n"
            return ToolResult(100, err=text)
        return ToolResult(out="Hit:1 http://archive.ubuntu.com/ubuntu jammy InRelease\n")

    def _broken(self) -> ToolResult | None:
        return ToolResult(100, HEAD, INTERRUPTED) if half_installed(self._root) else None

    async def _install(self, call: ToolCall, plan: AptPlan) -> ToolResult:
        out = HEAD
        for name in plan.names:
            refusal = no_space(call.model, name) or self._refuse_kernel(name, plan)
            if refusal is not None:
                return refusal
            new = install(self._root, name)
            for each in new:
                package = find_package(self._root, each) or Package("")
                out += f"Setting up {each} ({package.version}) ...\n"
                if package.dkms and (failed := add_module(call.model, package.version)):
                    return failed
                await self._start_service(package.service)
            if not new:
                version = installed(self._root)[name]
                out += f"{name} is already the newest version ({version}).\n"
        return ToolResult(out=out)

    def _refuse_kernel(self, name: str, plan: AptPlan) -> ToolResult | None:
        """A kernel that a package depends on: apt brings it, unless it is pinned away."""
        package = find_package(self._root, name) or Package("")
        kernels = [each for each in package.depends if each.startswith("linux-image-")]
        if not kernels:
            return None
        if plan.pinned:
            text = "The following packages have unmet dependencies:\n"
            text += f" {name} : Depends: {kernels[0]} but it is not installable\n"
            text += "E: Unable to correct problems, you have held broken packages.\n"
            return ToolResult(100, HEAD, text)
        (self._root / f"boot/vmlinuz-{kernels[0].removeprefix('linux-image-')}").write_text("")
        return None

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
            package = find_package(self._root, name) or Package("")
            service = package.service
            if service and name in installed(self._root):
                await self._supervisor.stop(service)
            if remove(self._root, name):
                out += f"Removing {name} ({package.version}) ...\n"
                if package.dkms:
                    forget_modules(self._root)
            else:
                out += f"Package '{name}' is not installed, so not removed\n"
        self._supervisor.reload()
        return ToolResult(out=out)
