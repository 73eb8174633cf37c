"""What one emulated ESXi host keeps on its disk in the lab."""

from __future__ import annotations

import hashlib
import time
import uuid

from pydantic import BaseModel, ConfigDict

from lab.hypervisors.config import EsxiConfig
from lab.hypervisors.esxi.release import kernel_options, parse_release

FIRST_UPTIME_S = 40 * 86400.0
"""How long a host has been up when the lab is made: the first reboot must show in its uptime."""
FIRST_WORLD = 2098001
"""World ids of guests have seven digits; the exact number means nothing."""


class Refusal(Exception):  # noqa: N818 - it is what the device says, not a fault of the program
    """What the device does not do, in its own words.

    Args:
        text: What the tool prints.
        detail: What else lands in the VM's log, if there is a VM.
    """

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.detail = detail


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class KernelValue(_Part):
    """One kernel option: what the next boot will use, and what this boot uses."""

    configured: str
    runtime: str


class Owner(_Part):
    """Whether a device belongs to virtual machines: as configured, and now."""

    configured: bool = False
    current: bool = False


class VmState(_Part):
    """One virtual machine."""

    vmid: int
    on: bool
    held: str
    """The .vmx that hostd, or the running VMX process, holds in memory."""
    effective: str
    """The .vmx of the last power-on; devices follow this one."""
    world: int = 0
    tools: bool = True
    """VMware Tools answer, so a shutdown of the guest works."""


class Stored(_Part):
    """The whole state of one host, its files aside."""

    uuid: str
    boot_time_s: float
    kernel: dict[str, KernelValue]
    passthru: dict[str, Owner]
    vms: dict[str, VmState]
    maintenance: bool = False
    lockdown: bool = False
    ssh_refused: bool = False
    rebooting: bool = False
    """It went down and has not come up: a lab that ended in between boots it at its start."""
    next_world: int = FIRST_WORLD
    unmodelled: list[str] = []


def host_uuid(seed: str) -> str:
    """A UUID that is the same on every machine."""
    return str(uuid.UUID(bytes=hashlib.sha256(f"railyard-lab/{seed}".encode()).digest()[:16]))


def fresh(config: EsxiConfig, texts: dict[str, str]) -> Stored:
    """The state of a host whose virtual machines somebody installed by hand.

    Args:
        config: The host.
        texts: The .vmx text of each virtual machine.
    """
    options = kernel_options(parse_release(config.release))
    used = {sbdf for vm in config.vms for sbdf in (vm.gpu, vm.nic)}
    vms: dict[str, VmState] = {}
    for number, vm in enumerate(config.vms):
        text, world = texts[vm.name], FIRST_WORLD + number if vm.powered_on else 0
        vms[vm.name] = VmState(
            vmid=number + 1, on=vm.powered_on, held=text, effective=text, world=world
        )
    return Stored(
        uuid=host_uuid(config.host_key_seed),
        boot_time_s=time.time() - FIRST_UPTIME_S,
        kernel={o.name: KernelValue(configured=o.default, runtime=o.default) for o in options},
        passthru={
            d.sbdf: Owner(configured=d.sbdf in used, current=d.sbdf in used) for d in config.devices
        },
        vms=vms,
        next_world=FIRST_WORLD + len(config.vms),
    )
