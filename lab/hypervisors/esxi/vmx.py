"""The .vmx file: its text, and what a power-on makes of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from lab.hypervisors.config import EsxiConfig, EsxiPciDevice, EsxiVmConfig
from lab.hypervisors.esxi.release import parse_release
from lab.hypervisors.esxi.stored import Refusal

LINE = re.compile(r'\s*([A-Za-z0-9_.:-]+)\s*=\s*(?:"([^"]*)"|([^"\s]+))\s*')
PAGES_OF_32_BIT = 917504
"""4 KiB pages of BARs below 4 GiB: the limit that the vendor's log names (Dell 199172)."""
PAGES_PER_GIB = 262144
DEFAULT_WINDOW_GIB = 32
"""64-bit window when 64bitMMIOSizeGB is not set; a guess, no driver may depend on it."""
DEVICE_POWER_ON = "Module 'DevicePowerOn' power on failed."
NO_SLOT = (
    "No PCIe slot available for pciPassthru0. Too many PCI devices are already configured. "
    "Remove some of the PCI devices and try again."
)
"""A .vmx without root ports for its devices (a report of a host with ESXi 8.0 U3)."""
_ROOT_PORT = re.compile(r"pciBridge[4-7]\.present")


def parse_vmx(text: str, path: str) -> dict[str, str]:
    """Read a .vmx as the VMX process does.

    Args:
        text: The file.
        path: Its name, for the messages.

    Raises:
        Refusal: A line is no setting, or a setting stands twice (names compare without case).
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = LINE.fullmatch(line)
        if match is None:
            raise Refusal(f'File "{path}" line {number}: Syntax error.')
        key, quoted, bare = match.groups()
        if key.lower() in seen:
            raise Refusal(f'File "{path}" line {number}: Variable "{key}" is already defined.')
        seen.add(key.lower())
        found[key] = quoted if quoted is not None else bare
    return found


def render_vmx(settings: Mapping[str, str]) -> str:
    """The text that the VMX process writes: every value in quotes."""
    return "".join(f'{key} = "{value}"\n' for key, value in settings.items())


def is_true(value: str | None) -> bool:
    """A setting as the VMX process reads it."""
    return value is not None and value.upper() in {"TRUE", "YES", "1"}


def decimal_id(sbdf: str) -> str:
    """`pciPassthruN.id`: the address in decimal, for example `00000:059:00.0`."""
    segment, bus, rest = sbdf.split(":")
    slot, function = rest.split(".")
    return f"{int(segment, 16):05d}:{int(bus, 16):03d}:{int(slot, 16):02d}.{int(function, 16)}"


def kind_of(device: EsxiPciDevice) -> str:
    """`pciPassthruN.allowedDevices` of a Dynamic DirectPath IO device."""
    return f"0x{device.vendor}:0x{device.device}"


def initial_vmx(config: EsxiConfig, vm: EsxiVmConfig, system_id: str) -> str:
    """The file of a machine that was made in the host client with two devices passed through."""
    hardware = parse_release(config.release).hardware
    settings = {
        ".encoding": "UTF-8",
        "config.version": "8",
        "virtualHW.version": hardware,
        "displayName": vm.name,
        "guestOS": "ubuntu-64",
        "firmware": "efi",
        "memSize": str(vm.memory_mib),
        "numvcpus": "32",
        "sched.mem.min": str(vm.memory_mib),
        "sched.mem.pin": "TRUE",
        "pciBridge0.present": "TRUE",
    }
    for number in range(4, 8):
        settings[f"pciBridge{number}.present"] = "TRUE"
        settings[f"pciBridge{number}.virtualDev"] = "pcieRootPort"
        settings[f"pciBridge{number}.functions"] = "8"
    by_address = {device.sbdf: device for device in config.devices}
    for number, sbdf in enumerate((vm.gpu, vm.nic)):
        device = by_address[sbdf]
        settings[f"pciPassthru{number}.present"] = "TRUE"
        if vm.dynamic:
            settings[f"pciPassthru{number}.allowedDevices"] = kind_of(device)
            continue
        settings[f"pciPassthru{number}.id"] = decimal_id(sbdf)
        settings[f"pciPassthru{number}.deviceId"] = f"0x{device.device}"
        settings[f"pciPassthru{number}.vendorId"] = f"0x{device.vendor}"
        settings[f"pciPassthru{number}.systemId"] = system_id
    # The GPU would not start without these, so whoever installed the guest has set them.
    settings["pciPassthru.use64bitMMIO"] = "TRUE"
    settings["pciPassthru.64bitMMIOSizeGB"] = "128"
    return render_vmx(settings)


def check_power_on(
    settings: Mapping[str, str], owned: Sequence[EsxiPciDevice], held: Collection[str] = ()
) -> None:
    """Refuse what ESXi refuses when a machine with passthrough devices is powered on.

    Args:
        settings: The .vmx.
        owned: Devices of the host that belong to virtual machines now.
        held: Addresses of those that a running machine has.

    Raises:
        Refusal: In the vendor's words.
    """
    devices = _passed_through(settings, owned, held)
    if not devices:
        return
    taken = next((device for device in devices if device.sbdf in held), None)
    if taken is not None:
        raise Refusal(
            DEVICE_POWER_ON, f"{taken.sbdf} is in use by another virtual machine"
        )  # guess
    if not any(_ROOT_PORT.fullmatch(key) and is_true(value) for key, value in settings.items()):
        raise Refusal(NO_SLOT)
    memory = settings.get("memSize", "")
    if settings.get("sched.mem.min") != memory:
        raise Refusal(
            "Invalid memory setting: memory reservation (sched.mem.min) should be equal to "
            f"memsize({memory})."
        )
    bars = sum(device.bar_gib for device in devices) * PAGES_PER_GIB
    limit = PAGES_OF_32_BIT
    if is_true(settings.get("pciPassthru.use64bitMMIO")):
        size = settings.get("pciPassthru.64bitMMIOSizeGB", str(DEFAULT_WINDOW_GIB))
        limit = int(size) * PAGES_PER_GIB if size.isdecimal() else 0
    if bars > limit:
        detail = f"PCIPassthru: total number of pages needed ({bars}) exceeds limit ({limit})"
        raise Refusal(DEVICE_POWER_ON, f"{detail}, failing")


def _passed_through(
    settings: Mapping[str, str], owned: Sequence[EsxiPciDevice], held: Collection[str]
) -> list[EsxiPciDevice]:
    by_id = {decimal_id(device.sbdf): device for device in owned}
    found: list[EsxiPciDevice] = []
    for key, value in settings.items():
        match = re.fullmatch(r"pciPassthru(\d+)\.present", key)
        if match is None or not is_true(value):
            continue
        name = f"pciPassthru{match[1]}"
        if allowed := settings.get(f"{name}.allowedDevices"):
            free = [d for d in owned if kind_of(d) == allowed and d.sbdf not in held]
            if not free:
                raise Refusal(DEVICE_POWER_ON, f"no free device for {name} ({allowed})")  # guess
            found.append(free[0])
            continue
        address = settings.get(f"{name}.id", "")
        if address not in by_id:
            # The log line is of a real host; the rest is a guess.
            raise Refusal(DEVICE_POWER_ON, f"AH No device hints found for {name} ({address})")
        found.append(by_id[address])
    return found
