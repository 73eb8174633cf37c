"""The guests of emulated hypervisors: lab hosts that are powered on and off from outside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from lab.hypervisors.config import EsxiConfig, EsxiVmView
from lab.hypervisors.esxi.machine import GuestHooks
from lab.hypervisors.esxi.server import EsxiHost


class Guest(Protocol):
    """What a hypervisor does with the machine that plays its guest."""

    async def power_on(self, *, cold: bool) -> None:
        """Boot; `cold` when the cards were reset since."""
        ...

    async def power_off(self) -> None:
        """Cut the power."""
        ...

    def allow_ats(self, *, allowed: bool, placed: bool) -> None:
        """Say what the machine below permits, as of the last power-on."""
        ...


class Hypervisors:
    """All emulated hypervisors of a lab, and the power of their guests."""

    def __init__(
        self, configs: tuple[EsxiConfig, ...], state: Path, guests: Mapping[str, Guest]
    ) -> None:
        """Make the hypervisors; nothing runs yet.

        Args:
            configs: The hypervisors of the lab file.
            state: Folder of their state.
            guests: Lab hosts by name.
        """
        self._guests = guests
        self._cold: set[str] = set()
        hooks = GuestHooks(self._on_power, self._on_host_reboot)
        self.hosts = {each.name: EsxiHost(each, state / each.name, hooks) for each in configs}
        self._guest_of = {vm.name: vm.guest for each in configs for vm in each.vms}
        self._host_of = {vm.name: each.name for each in configs for vm in each.vms}

    async def start(self) -> None:
        """Start the hypervisors, then the guests that are powered on."""
        for host in self.hosts.values():
            await host.start()
        for vm in self._guest_of:
            if self._view(vm).powered_on:
                await self._on_power(vm, True)  # noqa: FBT003 - the shape of the hook

    async def stop(self) -> None:
        """Stop the hypervisors; their guests are lab hosts and stop with those."""
        for host in self.hosts.values():
            await host.stop()

    def _view(self, vm: str) -> EsxiVmView:
        return self.hosts[self._host_of[vm]].machine.view(vm)

    async def _on_power(self, vm: str, on: bool) -> None:  # noqa: FBT001 - the shape of the hook
        guest = self._guests[self._guest_of[vm]]
        if not on:
            await guest.power_off()
            return
        view = self._view(vm)
        guest.allow_ats(allowed=view.ats_allowed, placed=view.placed)
        cold = vm in self._cold
        self._cold.discard(vm)
        await guest.power_on(cold=cold)

    async def _on_host_reboot(self, vms: tuple[str, ...]) -> None:
        self._cold.update(vms)
        for vm in vms:
            await self._guests[self._guest_of[vm]].power_off()
