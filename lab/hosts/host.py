"""One lab host: its namespace, its model, its systemd, its tools and its SSH server."""

from __future__ import annotations

import asyncio
import resource
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from components.core.errors import UsageError
from lab.cluster.artefact import LabPlaces, publish
from lab.hosts import accounts
from lab.hosts.accounts import Account
from lab.hosts.containers import ContainerHost
from lab.hosts.counting import Counting
from lab.hosts.driver_versions import reaches_gpu_memory
from lab.hosts.hca_sysfs import is_active
from lab.hosts.lab_file import LabFile
from lab.hosts.model import HostModel
from lab.hosts.namespace import (
    CONTROL_VARIABLES,
    INNER_CONTROL,
    INNER_PATH,
    HostPaths,
    Namespace,
    Who,
    start_namespace,
)
from lab.hosts.rootfs import prepare_root, python_prefix, read_only_paths
from lab.hosts.snapshot import take_snapshot
from lab.hosts.ssh import Login, SshService
from lab.hosts.stream_tools import Streams, run_on_streams
from lab.hosts.supervisor import Supervisor
from lab.hosts.tool_server import ToolServer, find_command
from lab.hosts.tools.apt import Apt
from lab.hosts.tools.call import AsyncTool, ToolCall, ToolResult
from lab.hosts.tools.docker import Docker
from lab.hosts.tools.modules import boot_modules
from lab.hosts.tools.mpirun import OpenMpi
from lab.hosts.tools.perftest import Perftest
from lab.hosts.tools.perftest_names import PERFTEST_NAMES
from lab.hosts.tools.sudo import (
    SudoRequest,
    judge_sudo,
    load_rules,
    parse_sudo,
    sudo_environment,
)
from lab.hosts.tools.systemctl import Systemctl
from lab.hosts.tools.transient import systemd_run
from lab.hosts.tools.unit_report import journalctl
from lab.hosts.topology_file import write_topology
from lab.hosts.unit_state import Launch
from lab.hosts.units import DEFAULT_MEMLOCK_BYTES
from lab.views import HcaView, HostConfig, NicView

REBOOT_GRACE_S = 0.3
"""How long `reboot` lets its own caller end before the machine goes down."""


class LabHost:
    """An emulated machine that boots, is logged in to, reboots and is switched off."""

    def __init__(self, lab: LabFile, config: HostConfig, fuse_mount: Path) -> None:
        """Play `config` in the folders of `lab`."""
        self.config = config
        self.root = lab.root / "hosts" / config.name
        self.paths = HostPaths(
            root=self.root,
            files=fuse_mount / config.name,
            tools=lab.root / "sysroot",
            sockets=self.root / "sockets",
            read_only=tuple(read_only_paths(lab.project, lab.cache)),
            python_prefix=python_prefix(),
            trust=lab.trust,
        )
        prepare_root(self.root, config)
        publish(self.root, LabPlaces(lab.python, lab.project, lab.cache, INNER_CONTROL))
        self.paths.sockets.mkdir(exist_ok=True)
        self.model = HostModel(config, self.root / "nvram.json")
        self.model.boot(self._stored_hostname(), cold=not config.guest)
        if config.topology_file is not None:
            write_topology(self.root, self.model, config.topology_file)
        self.supervisor = Supervisor(self.root, lambda: self.model.hostname, self)
        self.containers = ContainerHost(
            lab.stack, lab.root, self.root, self.model, self.supervisor,
            lambda: self.namespace, self.control_socket,
        )  # fmt: skip
        self._tools = self._make_tools()
        self._ssh = SshService(
            (config.address, config.port),
            config.host_key_seed,
            lambda: accounts.load_accounts(self.root),
            self._authorized_keys,
            self._spawn_for_login,
        )
        self._namespace: Namespace | None = None
        self._rebooting: asyncio.Task[None] | None = None
        self.ssh_refused = False
        self._counting = Counting()

    def _make_tools(self) -> ToolServer:
        """The emulated tools that act on this machine as a whole, beside those of its model."""

        async def journal(call: ToolCall) -> ToolResult:
            return journalctl(self.supervisor, call)

        async def run(call: ToolCall) -> ToolResult:
            return await systemd_run(self.supervisor, call)

        systemd: dict[str, AsyncTool] = {
            "systemctl": Systemctl(self.supervisor, self.schedule_reboot).run,
            "systemd-run": run,
            "journalctl": journal,
            "reboot": self._reboot_tool,
            "shutdown": self._reboot_tool,
        }
        containers = self.containers
        mpi, perftest = OpenMpi(containers), Perftest(containers)
        streamed = {
            "sudo": self._sudo,
            "docker": Docker(containers).run,
            "mpirun": mpi.mpirun,
            "mpiexec": mpi.mpirun,
            "orted": mpi.orted,
            **dict.fromkeys(PERFTEST_NAMES, perftest.run),
        }
        systemd["apt-get"] = Apt(self.supervisor, self.root).run
        return ToolServer(self.paths.sockets, self.model, self.root, systemd, streamed)

    @property
    def control_socket(self) -> Path:
        """Where processes of this host reach the lab (`INNER_CONTROL` inside)."""
        return self.paths.sockets / INNER_CONTROL.name

    def _stored_hostname(self) -> str:
        return (self.root / "etc/hostname").read_text().strip() or self.config.name

    @property
    def namespace(self) -> Namespace:
        """The running namespace.

        Raises:
            UsageError: The host is down.
        """
        if self._namespace is None:
            raise UsageError(f"lab host {self.config.name} is down")
        return self._namespace

    async def start(self) -> None:
        """Boot: namespace, kernel state, tools, enabled units, SSH."""
        self._namespace = start_namespace(self.model.hostname, self.paths)
        self._counting = Counting()
        self.model.on_hostname = self._namespace.set_hostname
        self._tools.start()
        boot_modules(self.model, self.root)
        await self.supervisor.boot()
        if not self.ssh_refused:
            await self._ssh.open()

    def put_behind(self, firewall: Callable[[], bool]) -> None:
        """Let SSH in only while a firewall in front of the machine does."""
        self._ssh.lets_in = firewall

    async def stop(self) -> None:
        """Switch off in order: SSH, the units, the namespace."""
        await self._ssh.close()
        await self.supervisor.shut_down()
        self._power_off()

    def _power_off(self) -> None:
        self._tools.stop()
        self.supervisor.forget()
        namespace, self._namespace = self._namespace, None
        self.model.on_hostname = lambda _: None
        if namespace is not None:
            namespace.kill()

    async def reboot(self) -> None:
        """Lose what a reboot loses, then boot again; a guest's cards are not reset by it."""
        await self.power_off()
        await self.power_on(cold=not self.config.guest)

    async def power_off(self) -> None:
        """Cut the power: SSH, then everything that runs. Nothing happens when it is off."""
        await self._ssh.close()
        self._power_off()

    def allow_ats(self, *, allowed: bool, placed: bool) -> None:
        """Say what the hypervisor permits, as of the last power-on.

        Args:
            allowed: Devices of this guest may use translated addresses with each other.
            placed: GPU, card and memory are on one NUMA node.
        """
        self.model.ats_allowed, self.model.placed = allowed, placed

    async def power_on(self, *, cold: bool) -> None:
        """Boot a machine that is off.

        Args:
            cold: The cards were reset since, so their firmware takes its next-boot settings: of a
                guest that is so when its hypervisor has rebooted.
        """
        if self._namespace is not None:
            return
        self.model.boot(self._stored_hostname(), cold=cold)
        await self.start()

    def schedule_reboot(self) -> None:
        """Reboot soon, so that the caller's command still ends."""
        if self._rebooting is not None and not self._rebooting.done():
            return

        async def later() -> None:
            await asyncio.sleep(REBOOT_GRACE_S)
            await self.reboot()

        self._rebooting = asyncio.create_task(later())

    async def _reboot_tool(self, call: ToolCall) -> ToolResult:
        if call.uid:
            text = "Failed to set wall message, ignoring: Interactive authentication required.\n"
            text += "Failed to reboot system via logind: Interactive authentication required.\n"
            return ToolResult(1, err=text)
        if call.tool == "shutdown" and "-r" not in call.argv:
            return call.unmodelled(ToolResult(1, err="shutdown: only -r is played in the lab\n"))
        self.schedule_reboot()
        return ToolResult()

    def _prefix(self, account: Account, memlock: str, cwd: str) -> list[str]:
        groups = accounts.group_ids(self.root, account) if account.uid else ()
        who = Who(account.uid, account.gid, groups)
        return self.namespace.argv([], who, cwd=cwd, memlock=reachable_memlock(memlock))

    def _find(self, user: str) -> Account:
        account = accounts.find_account(self.root, user)
        if account is None:
            raise KeyError(user)
        return account

    async def spawn(self, launch: Launch, log: Path) -> asyncio.subprocess.Process:
        """Start a command of a unit in the namespace."""
        account = self._find(launch.user)
        argv = [*self._prefix(account, launch.memlock, launch.cwd), *launch.argv]
        env = {"HOME": account.home, "USER": account.name, "LOGNAME": account.name,
               "SHELL": account.shell, **CONTROL_VARIABLES, **launch.env}  # fmt: skip
        with log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd="/",
                start_new_session=True,
            )

    def _spawn_for_login(self, login: Login) -> subprocess.Popen[bytes]:
        account, command = login.account, login.command
        cwd = account.home if (self.root / account.home.lstrip("/")).is_dir() else "/"
        argv = self._prefix(account, str(DEFAULT_MEMLOCK_BYTES), cwd)
        shell = [account.shell, "-c", command] if command is not None else [account.shell, "-l"]
        env = {"HOME": account.home, "USER": account.name, "LOGNAME": account.name,
               "SHELL": account.shell, "PATH": INNER_PATH, "LANG": "C.UTF-8",
               **CONTROL_VARIABLES}  # fmt: skip
        env["SSH_CONNECTION"] = f"{login.peer} 0 {self.config.address} {self.config.port}"
        if login.original is not None:
            env["SSH_ORIGINAL_COMMAND"] = login.original
        return subprocess.Popen(
            [*argv, *shell],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd="/",
            start_new_session=True,
        )

    def _authorized_keys(self, account: Account) -> list[str]:
        path = self.root / account.home.lstrip("/") / ".ssh/authorized_keys"
        return path.read_text().splitlines() if path.exists() else []

    async def _sudo(self, call: ToolCall, streams: Streams) -> ToolResult:
        request = parse_sudo(call.argv)
        if isinstance(request, ToolResult):
            return request
        caller = accounts.name_of_uid(self.root, call.uid)
        own = accounts.find_account(self.root, caller)
        groups = accounts.groups_of(self.root, own) if own is not None else frozenset[str]()
        target = accounts.find_account(self.root, request.user)
        if target is None:
            return ToolResult(1, err=f"sudo: unknown user {request.user}\n")
        words = _shell_form(request, target)
        path = find_command(self.root, self.paths.tools, words[0])
        if path is None:
            return ToolResult(1, err=f"sudo: {words[0]}: command not found\n")
        refused = judge_sudo(load_rules(self.root, caller, groups), request, path)
        if refused is not None:
            return refused
        env = sudo_environment(request, (caller, call.uid, call.gid), target.home, call.env)
        env |= CONTROL_VARIABLES
        cwd = target.home if request.login else call.cwd
        # Through sh, since an absolute name of a missing file must fail as it does under sudo.
        argv = [*self._prefix(target, str(DEFAULT_MEMLOCK_BYTES), cwd), path, *words[1:]]
        return await run_on_streams(argv, env, call, streams)

    def nic_views(self) -> list[NicView]:
        """What the physics and the node agent may know of the host's cards."""
        with self.model.lock:
            peermem = reaches_gpu_memory(self.model)
            unlimited = self.supervisor.running_memlock_unlimited()
            unlimited = unlimited or self.containers.locks_memory()
            return [
                nic.view(
                    peermem=peermem,
                    memlock_unlimited=unlimited,
                    gdr_allowed=self.model.gdr_allowed(nic.config.pci),
                )
                for nic in self.model.nics
            ]

    def hca_views(self) -> list[HcaView]:
        """What the physics may know of the host's InfiniBand adapters."""
        with self.model.lock:
            path = self.config.topology_file
            there = path is not None and (self.root / path.lstrip("/")).exists()
            return [
                HcaView(
                    host=self.config.name,
                    name=hca.name,
                    pci=hca.pci,
                    rate_gbit_s=hca.rate_gbit_s,
                    link_layer=hca.link_layer,
                    numa=hca.numa,
                    active=is_active(self.model, hca),
                    peermem=reaches_gpu_memory(self.model),
                    memlock_unlimited=self.supervisor.running_memlock_unlimited(),
                    topology_file=path if there else None,
                    bare=hca.bare,
                )
                for hca in self.config.hcas
            ]

    def counted(self) -> dict[str, int]:
        """SSH connections and commands so far, and processes since the last boot, as `counting`."""
        processes = self._counting.count(self.namespace)
        ssh = self._ssh
        return {"connections": ssh.connections, "sessions": ssh.sessions, "processes": processes}

    def snapshot(self) -> dict[str, object]:
        """Everything a change on this host could show in, in a canonical form."""
        return take_snapshot(self.root, self.model, self.supervisor)

    async def set_ssh_refused(self, *, refused: bool) -> None:
        """Fault: the SSH port refuses connections until it is switched back."""
        self.ssh_refused = refused
        if refused:
            await self._ssh.close()
        else:
            await self._ssh.open()

    def status(self) -> dict[str, object]:
        """A short summary for `lab status`."""
        return {
            "name": self.config.name,
            "address": f"{self.config.address}:{self.config.port}",
            "up": self._namespace is not None,
            "ssh": "open" if self._ssh.is_open else "refused",
            "boot_id": self.model.boot_id,
            "vfs": {nic.config.netdev: len(nic.vfs) for nic in self.model.nics},
            "units": {
                name: state.active
                for name, state in sorted(self.supervisor.states.items())
                if state.unit.fragment
            },
            "unmodelled": list(self.model.unmodelled),
            "nics": [asdict(nic.config) for nic in self.model.nics],
        }


def reachable_memlock(wanted: str) -> str:
    """The nearest limit to a LimitMEMLOCK that this process may set, in the words of `enter`.

    A container without CAP_SYS_RESOURCE cannot go above its own hard limit; what the host has
    configured is then known from its unit alone, which is where the lab reads it anyway.
    """
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    if hard == resource.RLIM_INFINITY:
        return "unlimited" if wanted == "infinity" else wanted
    return str(hard if wanted == "infinity" else min(hard, int(wanted)))


def _shell_form(request: SudoRequest, target: Account) -> tuple[str, ...]:
    if not (request.login or request.shell):
        return request.command
    return (target.shell, "-c", " ".join(request.command)) if request.command else (target.shell,)
