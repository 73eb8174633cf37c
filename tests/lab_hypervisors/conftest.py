"""One emulated ESXi host with one guest, on addresses of these tests alone."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.hosts.tools.call import ToolResult
from lab.hypervisors.config import (
    EsxiConfig,
    EsxiVmConfig,
    gpu_device,
    management_nic,
    nic_device,
)
from lab.hypervisors.esxi.esxcli import Host, esxcli
from lab.hypervisors.esxi.machine import EsxiMachine, GuestHooks
from lab.hypervisors.esxi.vim_cmd import vim_cmd
from lab.keys import client_key

GPU, NIC, OTHER_NIC = "0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0"
ADDRESS, PORT = "127.231.0.11", 2222
CONFIG = EsxiConfig(
    name="esx01",
    address=ADDRESS,
    port=PORT,
    user="root",
    authorized_key=client_key("esxi-test").public_openssh,
    host_key_seed="esxi-test/esx01",
    release="7.0U2",
    devices=(
        management_nic(),
        gpu_device(GPU, 0),
        nic_device(NIC, "ConnectX-6", 0),
        nic_device(OTHER_NIC, "ConnectX-6", 1),
    ),
    vms=(EsxiVmConfig("vm01", 262144, GPU, NIC, guest="vm01"),),
)


class Bench:
    """A host's state and tools without SSH."""

    def __init__(self, folder: Path, release: str = "7.0U2", config: EsxiConfig = CONFIG) -> None:
        self.power: list[tuple[str, bool]] = []
        self.cold: list[tuple[str, ...]] = []
        self.reboots: list[float] = []
        self.folder = folder
        self.config = dataclasses.replace(config, release=release)
        self.machine = self.load()

    def load(self) -> EsxiMachine:
        return EsxiMachine(
            self.config, self.folder, GuestHooks(self._on_power, self._on_host_reboot)
        )

    async def _on_power(self, name: str, on: bool) -> None:  # noqa: FBT001 - the shape of the hook
        self.power.append((name, on))

    async def _on_host_reboot(self, names: tuple[str, ...]) -> None:
        self.cold.append(names)

    async def run(self, line: str | Sequence[str]) -> ToolResult:
        tool, *argv = line.split() if isinstance(line, str) else line
        if tool == "esxcli":
            return await esxcli(Host(self.machine, self.reboots.append), argv)
        return await vim_cmd(self.machine, argv)

    def ask(self, line: str | Sequence[str]) -> ToolResult:
        return asyncio.run(self.run(line))

    def out(self, line: str) -> str:
        done = self.ask(line)
        assert done.rc == 0, done
        return done.out

    def vmx(self) -> Path:
        return self.machine.vmx_path("vm01")

    def set_key(self, key: str, value: str | None) -> None:
        """Edit the file, as a careful person does while the machine is off."""
        lines = [n for n in self.vmx().read_text().splitlines() if not n.startswith(f"{key} ")]
        lines += [f'{key} = "{value}"'] if value is not None else []
        self.vmx().write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "esx01")
