"""`EsxiHost`: one emulated ESXi host behind a real SSH server."""

from __future__ import annotations

import asyncio
import hashlib
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from components.core.errors import UsageError
from lab.hosts.accounts import Account
from lab.hosts.compiled import CLIENT, compiled
from lab.hosts.namespace import Namespace
from lab.hosts.ssh import Login, SshService
from lab.hosts.tool_server import Request
from lab.hosts.tools.call import ToolResult
from lab.hypervisors.config import EsxiConfig
from lab.hypervisors.esxi.esxcli import Host, esxcli
from lab.hypervisors.esxi.faults import cause_fault
from lab.hypervisors.esxi.machine import EsxiMachine, GuestHooks
from lab.hypervisors.esxi.rootfs import (
    INNER_PATH,
    build_tools,
    make_ram_disks,
    start_namespace,
)
from lab.hypervisors.esxi.tools import ToolSocket
from lab.hypervisors.esxi.vim_cmd import vim_cmd

BOOT_S = 1.0
"""How long a host of the lab is away when it reboots."""
LAB_SECONDS_PER_SECOND = 0.1
"""A delay of 10 s that a command asks for lasts 1 s in the lab."""
NO_HOOKS = GuestHooks()
_NO_FIPS = "ssh-ed25519"


class EsxiHost:
    """One ESXi host: state and files on disk, a shell over SSH, and faults on demand."""

    def __init__(self, config: EsxiConfig, state: Path, hooks: GuestHooks = NO_HOOKS) -> None:
        """Play `config` with all its files in the folder `state`."""
        self.config = config
        self._folder = state.absolute()
        self.machine = EsxiMachine(config, self._folder, hooks)
        self._tools = ToolSocket(self._folder / "sockets", self._answer)
        self._ssh = SshService(
            (config.address, config.port),
            config.host_key_seed,
            self._accounts,
            self._authorized_keys,
            self._spawn,
            "ecdsa",
        )
        self._namespace: Namespace | None = None
        self._going_down: asyncio.Task[None] | None = None

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """Commands that were run and that this emulator does not know; a test fails on any."""
        return tuple(self.machine.stored.unmodelled)

    async def start(self) -> None:
        """Open the shell: namespace, tools, SSH. It goes on where it was stopped."""
        build_tools(self._folder / "tools", compiled(CLIENT))
        if self.machine.stored.rebooting:
            self.machine.boot()
            make_ram_disks(self._folder, self.config)
        elif not (self._folder / "etc").exists():
            make_ram_disks(self._folder, self.config)
        await self._tools.start()
        await self._open()

    async def _open(self) -> None:
        self._namespace = start_namespace(self._folder, self.config)
        await self._follow_ssh()

    async def _follow_ssh(self) -> None:
        if self.machine.stored.ssh_refused or self._namespace is None:
            await self._ssh.close()
        else:
            await self._ssh.open()

    async def stop(self) -> None:
        """Close SSH and end every process of the host; guests and state stay as they are."""
        if self._going_down is not None:
            self._going_down.cancel()
        await self._close()
        await self.machine.settle()
        self._tools.stop()

    async def _close(self) -> None:
        await self._ssh.close()
        namespace, self._namespace = self._namespace, None
        if namespace is not None:
            namespace.kill()

    async def reboot(self) -> None:
        """Lose what a reboot loses, and come back with what was configured."""
        await self._close()
        await self.machine.lose_power()
        make_ram_disks(self._folder, self.config)
        await asyncio.sleep(BOOT_S)
        self.machine.boot()
        await self._open()

    def schedule_reboot(self, delay_s: float) -> None:
        """Reboot after so many seconds of the host; they pass faster in the lab."""
        if self._going_down is not None and not self._going_down.done():
            return

        async def later() -> None:
            await asyncio.sleep(delay_s * LAB_SECONDS_PER_SECOND)
            await self.reboot()

        self._going_down = asyncio.create_task(later())

    async def finish_reboot(self) -> None:
        """Wait for the reboot that was asked for, if any."""
        if self._going_down is not None:
            await self._going_down

    async def _answer(self, request: Request) -> ToolResult:
        try:
            return await self._run_tool(request)
        except UsageError as error:
            # What the lab cannot do, such as starting a guest; it must not look like the device.
            return ToolResult(255, err=f"the lab failed: {error}\n")

    async def _run_tool(self, request: Request) -> ToolResult:
        match request.tool, request.argv:
            case "esxcli", argv:
                return await esxcli(Host(self.machine, self.schedule_reboot), argv)
            case "vim-cmd", argv:
                return await vim_cmd(self.machine, argv)
            case "vmware", ("-v",):
                release = self.machine.release
                return ToolResult(0, f"VMware ESXi {release.version} build-{release.build}\n")
            case "reboot", ("-f",):
                self.schedule_reboot(1)
                return ToolResult()
            case tool, argv:
                self.machine.unmodelled(" ".join((tool, *argv)))
                return ToolResult(1, err=f"{tool}: not played in the lab: {' '.join(argv)}\n")

    def _accounts(self) -> list[Account]:
        """Who may log in: in lockdown mode nobody, since only DCUI exceptions may."""
        if self.machine.stored.lockdown:
            return []
        return [Account(self.config.user, 0, 0, "/", "/bin/sh")]

    def _authorized_keys(self, account: Account) -> list[str]:
        """Those that sshd may use: it is in FIPS mode, which has no ed25519 (sources.md#esxi)."""
        path = self._folder / f"etc/ssh/keys-{account.name}/authorized_keys"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if _NO_FIPS not in line]

    def _spawn(self, login: Login) -> subprocess.Popen[bytes]:
        if self._namespace is None:
            raise UsageError(f"{self.config.name} is down")
        account = login.account
        words = ["-l"] if login.command is None else ["-c", login.command]
        return subprocess.Popen(
            self._namespace.argv([account.shell, *words]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"HOME": "/", "USER": account.name, "SHELL": account.shell, "PATH": INNER_PATH},
            cwd="/",
            start_new_session=True,
        )

    async def fault(self, args: Sequence[str]) -> str:
        """Cause a fault, or do by hand what a person might.

        Raises:
            UsageError: The fault is unknown, its values are wrong, or the host refuses.
        """
        done = await cause_fault(self.machine, args)
        await self._follow_ssh()
        return done

    def snapshot(self) -> JsonValue:
        """What a change on this host could show in, canonical: no clocks, no run-time values."""
        stored = self.machine.stored
        return {
            "kernel": {name: value.configured for name, value in sorted(stored.kernel.items())},
            "passthrough": {sbdf: own.configured for sbdf, own in sorted(stored.passthru.items())},
            "maintenance": stored.maintenance,
            "lockdown": stored.lockdown,
            "vms": {
                name: {"on": vm.on, "vmx": list(vm.held.splitlines())}
                for name, vm in sorted(stored.vms.items())
            },
            "files": dict(self._files()),
        }

    def _files(self) -> list[tuple[str, str]]:
        root = self.machine.vmfs
        found: list[tuple[str, str]] = []
        for path in sorted(root.rglob("*")):
            if path.name == "vmware.log":
                continue
            info = path.lstat()
            text = f"{stat.S_IMODE(info.st_mode):04o}"
            if stat.S_ISREG(info.st_mode):
                text += f" {hashlib.sha256(path.read_bytes()).hexdigest()}"
            found.append((str(path.relative_to(root)), text))
        return found

    def status(self) -> dict[str, object]:
        """A short summary for `lab status`."""
        stored = self.machine.stored
        return {
            "name": self.config.name,
            "address": f"{self.config.address}:{self.config.port}",
            "release": self.config.release,
            "up": self._namespace is not None,
            "ssh": "open" if self._ssh.is_open else "refused",
            "maintenance": stored.maintenance,
            "lockdown": stored.lockdown,
            "vms": {name: "on" if vm.on else "off" for name, vm in stored.vms.items()},
            "unmodelled": list(stored.unmodelled),
        }
