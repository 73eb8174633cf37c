"""`esxcli`: the commands that the lab's host knows, with the vendor's output."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from components.core.record import record
from lab.hosts.tools.call import ToolResult
from lab.hypervisors.esxi.machine import EsxiMachine
from lab.hypervisors.esxi.options import FORMATTERS, Option, Rows, fields, parse_options, render
from lab.hypervisors.esxi.pci_list import pci_blocks
from lab.hypervisors.esxi.release import kernel_options
from lab.hypervisors.esxi.stored import Refusal

Options = Mapping[str, str]
Schedule = Callable[[float], None]
"""Reboots the host after so many seconds."""
MIN_REBOOT_DELAY_S = 10
"""`esxcli system shutdown reboot --help`: the delay is 10 seconds or more."""


@record
class Host:
    """What a command works on."""

    machine: EsxiMachine
    schedule_reboot: Schedule


Answer = str | Rows
Handler = Callable[[Host, Options], Awaitable[Answer]]


@record
class Command:
    """One command: its options, and what it does."""

    run: Handler
    options: tuple[Option, ...] = ()


async def _version(host: Host, _: Options) -> Answer:
    release = host.machine.release
    return fields({
        "Product": "VMware ESXi",
        "Version": release.version,
        "Build": f"Releasebuild-{release.build}",
        "Update": str(release.update),
        "Patch": "0",
    })  # fmt: skip


async def _uuid(host: Host, _: Options) -> Answer:
    return f"{host.machine.stored.uuid}\n"


async def _hostname(host: Host, _: Options) -> Answer:
    name = host.machine.config.name
    return fields({"Domain Name": "", "Fully Qualified Domain Name": name, "Host Name": name})


async def _kernel_list(host: Host, options: Options) -> Answer:
    wanted = options.get("option")
    rows: list[tuple[str, ...]] = []
    for option in kernel_options(host.machine.release):
        if wanted in (None, option.name):
            held = host.machine.stored.kernel[option.name]
            values = (held.configured, held.runtime, option.default)
            rows.append((option.name, option.kind, *values, option.description))
    if not rows:
        raise Refusal(f"Unable to find kernel setting: {wanted}\n")  # guess
    columns = ("Name", "Type", "Configured", "Runtime", "Default", "Description")
    return Rows(columns, tuple(rows))


async def _kernel_set(host: Host, options: Options) -> Answer:
    host.machine.set_kernel(options["setting"], options["value"])
    return ""


async def _maintenance_get(host: Host, _: Options) -> Answer:
    return "Enabled\n" if host.machine.stored.maintenance else "Disabled\n"


async def _maintenance_set(host: Host, options: Options) -> Answer:
    if options["enable"] == "true":
        await host.machine.enter_maintenance(float(options.get("timeout", "0")))
    else:
        host.machine.exit_maintenance()
    return ""


async def _reboot(host: Host, options: Options) -> Answer:
    if not host.machine.stored.maintenance:
        # That it refuses is documented; the words are a guess.
        raise Refusal("Unable to reboot: the host is not in maintenance mode.\n")
    delay = int(options.get("delay", MIN_REBOOT_DELAY_S))
    if delay < MIN_REBOOT_DELAY_S:
        raise Refusal(f"Error: Invalid value {delay} for option --delay\n")
    host.schedule_reboot(delay)
    return ""


async def _uptime(host: Host, _: Options) -> Answer:
    return f"{host.machine.uptime_us()}\n"


async def _processes(host: Host, _: Options) -> Answer:
    text = ""
    for name, vm in host.machine.stored.vms.items():
        if vm.on:
            digits = f"{vm.vmid:032x}"
            pairs = " ".join(digits[n : n + 2] for n in range(0, 32, 2))
            text += f"{name}\n" + fields({
                "World ID": str(vm.world),
                "Process ID": "0",
                "VMX Cartel ID": str(vm.world - 1),
                "UUID": f"{pairs[:23]}-{pairs[24:]}",
                "Display Name": name,
                "Config File": host.machine.vmx_inner(name),
            }) + "\n"  # fmt: skip
    return text


async def _kill(host: Host, options: Options) -> Answer:
    if options["type"] not in {"soft", "hard", "force"}:
        raise Refusal(f"Error: Invalid value {options['type']} for option --type\n")
    for name, vm in host.machine.stored.vms.items():
        if vm.on and str(vm.world) == options["world-id"]:
            await host.machine.power_off(name)
            return ""
    raise Refusal(f"Unable to find a virtual machine with the world ID {options['world-id']}.\n")


async def _pci_list(host: Host, _: Options) -> Answer:
    return pci_blocks(host.machine)


async def _passthru_list(host: Host, _: Options) -> Answer:
    owners = host.machine.stored.passthru
    rows = tuple((sbdf, str(owners[sbdf].configured).lower()) for sbdf in sorted(owners))
    return Rows(("Device ID", "Enabled"), rows, frozenset({"Enabled"}))


async def _passthru_set(host: Host, options: Options) -> Answer:
    enable = options["enable"] == "true"
    now = "apply-now" in options
    host.machine.set_passthru(options["device-id"], enable=enable, now=now)
    return ""


COMMANDS: Mapping[str, Command] = {
    "system version get": Command(_version),
    "system uuid get": Command(_uuid),
    "system hostname get": Command(_hostname),
    "system settings kernel list": Command(
        _kernel_list,
        (Option("o", "option"),),
    ),
    "system settings kernel set": Command(
        _kernel_set,
        (Option("s", "setting", required=True), Option("v", "value", required=True)),
    ),
    "system maintenanceMode get": Command(_maintenance_get),
    "system maintenanceMode set": Command(
        _maintenance_set,
        (
            Option("e", "enable", "bool", required=True),
            Option("t", "timeout", "number"),
            Option("m", "vsanmode"),
        ),
    ),
    "system shutdown reboot": Command(
        _reboot, (Option("r", "reason", required=True), Option("d", "delay", "number"))
    ),
    "system stats uptime get": Command(_uptime),
    "vm process list": Command(_processes),
    "vm process kill": Command(
        _kill, (Option("t", "type", required=True), Option("w", "world-id", required=True))
    ),
    "hardware pci list": Command(_pci_list),
    "hardware pci pcipassthru list": Command(_passthru_list),
    "hardware pci pcipassthru set": Command(
        _passthru_set,
        (
            Option("d", "device-id", required=True),
            Option("e", "enable", "bool", required=True),
            Option("a", "apply-now", "flag"),
        ),
    ),
}


async def esxcli(host: Host, argv: Sequence[str]) -> ToolResult:
    """Run one esxcli command; like the real one it prints refusals on stdout and ends with 1."""
    words = list(argv)
    formatter = ""
    if words and words[0].startswith("--formatter"):
        _, equals, value = words.pop(0).partition("=")
        formatter = value if equals or not words else words.pop(0)
        if formatter not in FORMATTERS:
            host.machine.unmodelled(f"esxcli --formatter={formatter}")
            return ToolResult(1, f"Error: Unknown formatter {formatter}\n")
    count = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    path = " ".join(words[:count])
    command = COMMANDS.get(path)
    if command is None or not _has(host, path):
        host.machine.unmodelled(" ".join(("esxcli", *argv)))
        return ToolResult(1, f"Error: Unknown command or namespace {path}\n")
    try:
        options = parse_options(path, command.options, words[count:])
    except Refusal as refusal:
        # It may be an option that a real host has and this one does not play.
        host.machine.unmodelled(" ".join(("esxcli", *argv)))
        return ToolResult(1, refusal.text.rstrip("\n") + "\n")
    try:
        answer = await command.run(host, options)
    except Refusal as refusal:
        return ToolResult(1, refusal.text.rstrip("\n") + "\n")
    return ToolResult(0, answer if isinstance(answer, str) else render(answer, formatter))


def _has(host: Host, path: str) -> bool:
    """Whether this release has the command: `pcipassthru` came with 7.0."""
    return "pcipassthru" not in path or host.machine.release.key >= (7, 0, 0)
