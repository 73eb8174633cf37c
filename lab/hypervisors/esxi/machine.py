"""The host behind the tools: kernel options, devices, maintenance mode, virtual machines."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

from components.core.errors import UsageError
from components.core.record import record
from lab.hypervisors.config import EsxiConfig, EsxiPciDevice, EsxiVmConfig, EsxiVmView
from lab.hypervisors.esxi.release import Release, kernel_options, parse_release
from lab.hypervisors.esxi.stored import Refusal, Stored, VmState, fresh, host_uuid
from lab.hypervisors.esxi.vmx import (
    check_power_on,
    decimal_id,
    initial_vmx,
    is_true,
    parse_vmx,
    render_vmx,
)

GUEST_SHUTDOWN_S = 0.4
"""How long a guest of the lab takes to shut down."""
MAINTENANCE_POLL_S = 0.05
CURRENT_STATE = "The attempted operation cannot be performed in the current state ({})."
NOT_ALLOWED = "The operation is not allowed in the current state."
NO_TOOLS = "Cannot complete operation because VMware Tools is not running in this virtual machine."
"""Messages of vim.fault InvalidPowerState, InvalidState and ToolsUnavailable."""


async def _ignore_power(_name: str, _on: bool) -> None:  # noqa: FBT001 - the shape of the hook
    return


async def _nothing(_names: tuple[str, ...]) -> None:
    return


@record
class GuestHooks:
    """What the lab does with the guests of a host."""

    on_power: Callable[[str, bool], Awaitable[None]] = _ignore_power
    """A virtual machine was powered on or off; called before the tool answers."""
    on_host_reboot: Callable[[tuple[str, ...]], Awaitable[None]] = _nothing
    """The host lost power under these virtual machines: their cards start cold."""


class EsxiMachine:
    """One host's state, kept on disk, and what may be done with it."""

    def __init__(self, config: EsxiConfig, folder: Path, hooks: GuestHooks) -> None:
        """Play `config` with its state in `folder`."""
        self.config = config
        self.release: Release = parse_release(config.release)
        self.vmfs = folder / "vmfs/volumes"
        self._path = folder / "state.json"
        self._hooks = hooks
        self._power = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.stored = self._load()

    def _load(self) -> Stored:
        if self._path.exists():
            return Stored.model_validate_json(self._path.read_text())
        system_id = host_uuid(self.config.host_key_seed)
        texts = {vm.name: initial_vmx(self.config, vm, system_id) for vm in self.config.vms}
        for vm in self.config.vms:
            path = self.vmx_path(vm.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[vm.name])
            path.chmod(0o755)  # as the host client leaves it
            link = self.vmfs / vm.datastore
            if not link.is_symlink():
                link.symlink_to(self.volume(vm.datastore).name)
        stored = fresh(self.config, texts)
        self._write(stored)
        return stored

    def volume(self, datastore: str) -> Path:
        """The folder of a datastore: its name is a link to a UUID, as on VMFS."""
        parts = host_uuid(f"{self.config.host_key_seed}/{datastore}").split("-")
        return self.vmfs / f"{parts[0]}-{parts[1]}{parts[2]}-{parts[3]}-{parts[4]}"

    def commit(self) -> None:
        """Write the state to disk, whole or not at all."""
        self._write(self.stored)

    def _write(self, stored: Stored) -> None:
        scratch = self._path.with_suffix(".part")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(stored.model_dump_json(indent=1))
        os.replace(scratch, self._path)  # noqa: PTH105 - says atomic to readers

    def unmodelled(self, line: str) -> None:
        """Record a command that the emulation does not know."""
        self.stored.unmodelled.append(line)
        self.commit()

    # Kernel and devices

    def set_kernel(self, name: str, value: str) -> None:
        """Set what the next boot uses.

        Raises:
            Refusal: There is no such option here, or the value is none of its kind; both texts
                are guesses.
        """
        held = self.stored.kernel.get(name)
        if held is None:
            raise Refusal(f"Unable to set setting: Invalid or unknown kernel setting '{name}'.")
        if value.upper() not in {"TRUE", "FALSE"}:
            raise Refusal(f"Unable to set setting: Invalid value '{value}' for '{name}' (Bool).")
        held.configured = value.upper()
        self.commit()

    def device(self, sbdf: str) -> EsxiPciDevice | None:
        """The device at this address."""
        return next((d for d in self.config.devices if d.sbdf == sbdf.lower()), None)

    def set_passthru(self, sbdf: str, *, enable: bool, now: bool) -> None:
        """Give a device to virtual machines, or back to VMkernel.

        Raises:
            Refusal: It already is so, it carries the management network, or it is not there.
        """
        device = self.device(sbdf)
        fault = "Unable to configure the PCI device: "
        if device is None:
            raise Refusal(f"{fault}Device {sbdf} not found.")  # guess
        owner = self.stored.passthru[device.sbdf]
        if owner.configured == enable:
            name = "passthru" if enable else "vmkernel"
            raise Refusal(f"{fault}Device owner is already configured to {name}.")
        if device.vmnic:
            raise Refusal(
                f"{fault}Device ownership cannot be changed to passthru as it is used by "
                f"vswitch vSwitch0 for uplink {device.vmnic}"
            )
        owner.configured = enable
        if now and device.sbdf not in self._held():
            owner.current = enable
        self.commit()

    def _held(self) -> frozenset[str]:
        """The devices that running machines have, by their .vmx of the last power-on."""
        found: set[str] = set()
        for name in self.running():
            settings = parse_vmx(self.stored.vms[name].effective, name)
            ids = {value for key, value in settings.items() if key.endswith(".id")}
            found |= {d.sbdf for d in self.config.devices if decimal_id(d.sbdf) in ids}
        return frozenset(found)

    def uptime_us(self) -> int:
        """Microseconds since the boot."""
        return int((time.time() - self.stored.boot_time_s) * 1e6)

    # Maintenance mode

    async def enter_maintenance(self, timeout_s: float) -> None:
        """Wait until no guest runs, then enter; a timeout of 0 waits for ever.

        Raises:
            Refusal: It is in that mode already, or the guests still run after the timeout (both
                texts are guesses).
        """
        if self.stored.maintenance:
            raise Refusal("Maintenance mode is already enabled.")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s if timeout_s else None
        while self.running():
            if deadline is not None and loop.time() > deadline:
                raise Refusal("Unable to enter maintenance mode: Operation timed out.")
            await asyncio.sleep(MAINTENANCE_POLL_S)
        self.set_maintenance(on=True)

    def exit_maintenance(self) -> None:
        """Leave maintenance mode.

        Raises:
            Refusal: It is not in that mode; the text is a guess.
        """
        if not self.stored.maintenance:
            raise Refusal("Maintenance mode is already disabled.")
        self.set_maintenance(on=False)

    def set_maintenance(self, *, on: bool) -> None:
        """Set the mode itself; it outlives a reboot, so whoever entered has to leave."""
        self.stored.maintenance = on
        self.commit()

    # Virtual machines

    def running(self) -> list[str]:
        """Names of the virtual machines that run."""
        return [name for name, vm in self.stored.vms.items() if vm.on]

    def vm_config(self, name: str) -> EsxiVmConfig:
        """The installed machine with this name.

        Raises:
            UsageError: There is none.
        """
        found = next((vm for vm in self.config.vms if vm.name == name), None)
        if found is None:
            known = ", ".join(vm.name for vm in self.config.vms) or "none"
            raise UsageError(f"{self.config.name} has no VM {name!r}; its VMs: {known}")
        return found

    def vm_by_id(self, vmid: str) -> str:
        """The name behind a Vmid.

        Raises:
            Refusal: There is none.
        """
        for name, vm in self.stored.vms.items():
            if str(vm.vmid) == vmid:
                return name
        raise Refusal(f'Unable to find a VM corresponding to "{vmid}"')

    def vmx_path(self, name: str) -> Path:
        """Its .vmx on the machine that the lab runs on."""
        return self.volume(self.vm_config(name).datastore) / name / f"{name}.vmx"

    def vmx_inner(self, name: str) -> str:
        """Its .vmx by its name on the ESXi host."""
        return f"/vmfs/volumes/{self.vmx_path(name).relative_to(self.vmfs)}"

    async def power_on(self, name: str) -> None:
        """Power on with what hostd holds; a file that was not reloaded is overwritten.

        Raises:
            Refusal: As ESXi refuses.
        """
        await asyncio.shield(self._begin(self._power_on(name)))

    async def _power_on(self, name: str) -> None:
        async with self._power:
            vm = self.stored.vms[name]
            if vm.on:
                raise Refusal(CURRENT_STATE.format("Powered on"))
            if self.stored.maintenance:
                raise Refusal(NOT_ALLOWED)
            settings = parse_vmx(vm.held, self.vmx_inner(name))
            owned = [d for d in self.config.devices if self.stored.passthru[d.sbdf].current]
            check_power_on(settings, owned, self._held())
            self._start_vm(name, vm, render_vmx(settings))
            try:
                await self._hooks.on_power(name, True)  # noqa: FBT003 - the shape of the hook
            except UsageError:
                # The lab could not start the guest, so the machine must not be shown as running.
                vm.on, vm.world = False, 0
                self.commit()
                raise

    def _start_vm(self, name: str, vm: VmState, text: str) -> None:
        vm.on, vm.held, vm.effective = True, text, text
        vm.world = self.stored.next_world
        self.stored.next_world += 1
        self.vmx_path(name).write_text(text)
        self.commit()

    async def power_off(self, name: str) -> None:
        """Cut the power; the VMX process writes its own .vmx over whatever was edited.

        Raises:
            Refusal: It does not run.
        """
        await asyncio.shield(self._begin(self._power_off(name)))

    async def _power_off(self, name: str) -> None:
        async with self._power:
            vm = self.stored.vms[name]
            if not vm.on:
                raise Refusal(CURRENT_STATE.format("Powered off"))
            await self._hooks.on_power(name, False)  # noqa: FBT003 - the shape of the hook
            self.vmx_path(name).write_text(vm.held)
            vm.on, vm.world = False, 0
            self.commit()

    def shutdown(self, name: str) -> None:
        """Ask the guest to shut down; it takes a while.

        Raises:
            Refusal: It does not run, or its VMware Tools do not answer.
        """
        vm = self.stored.vms[name]
        if not vm.on:
            raise Refusal(CURRENT_STATE.format("Powered off"))
        if not vm.tools:
            raise Refusal(NO_TOOLS)

        self._begin(self._shut_down(name))

    async def _shut_down(self, name: str) -> None:
        await asyncio.sleep(GUEST_SHUTDOWN_S)
        if self.stored.vms[name].on:
            await self._power_off(name)

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Start what goes on when whoever asked goes away, as a task of hostd does."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settle(self) -> None:
        """Let what has begun end; whoever asked for it has its outcome."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def reload(self, name: str) -> None:
        """Read the .vmx again; of a running machine nothing changes."""
        vm = self.stored.vms[name]
        path = self.vmx_path(name)
        if not vm.on and path.exists():
            vm.held = path.read_text()
            self.commit()

    def log(self, name: str, text: str) -> None:
        """Write to a virtual machine's own log."""
        with (self.vmx_path(name).parent / "vmware.log").open("a") as file:
            file.write(f"{text}\n")

    async def lose_power(self) -> None:
        """Everything that runs ends, as at a reboot."""
        self.stored.rebooting = True
        await self.settle()
        for name in self.running():
            await self.power_off(name)
        await self._hooks.on_host_reboot(tuple(self.stored.vms))

    def boot(self) -> None:
        """Come up with what was configured; virtual machines stay off (no autostart)."""
        for value in self.stored.kernel.values():
            value.runtime = value.configured
        for owner in self.stored.passthru.values():
            owner.current = owner.configured
        self.stored.boot_time_s = time.time()
        self.stored.rebooting = False
        self.commit()

    def view(self, name: str) -> EsxiVmView:
        """What decides about GPUDirect of this guest."""
        config, vm = self.vm_config(name), self.stored.vms[name]
        settings = parse_vmx(vm.effective, name)
        numa = {device.sbdf: device.numa for device in self.config.devices}
        names = {o.name for o in kernel_options(self.release)} & {"atsSupport", "vtdAtsSupport"}
        nodes = re.findall(r"\d+", settings.get("numa.nodeAffinity", ""))
        return EsxiVmView(
            vm=name,
            guest=config.guest,
            powered_on=vm.on,
            ats_kernel=any(self.stored.kernel[option].runtime == "TRUE" for option in names),
            allow_p2p=is_true(settings.get("pciPassthru.allowP2P")),
            relax_acs=is_true(settings.get("pciPassthru.RelaxACSforP2P")),
            gpu_numa=numa[config.gpu],
            nic_numa=numa[config.nic],
            affinity=frozenset(map(int, nodes)) if nodes else None,
        )
