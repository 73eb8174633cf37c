"""`vim-cmd`: inventory and power of virtual machines, and lockdown mode.

Captured: `Retrieved runtime info` and the state on the second line. The table of getallvms, the
progress lines and the form of a fault are as public scripts read them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from lab.hosts.tools.call import ToolResult
from lab.hypervisors.esxi.machine import EsxiMachine
from lab.hypervisors.esxi.stored import Refusal

VmCommand = Callable[[EsxiMachine, str], Awaitable[str]]


async def _getstate(machine: EsxiMachine, name: str) -> str:
    state = "Powered on" if machine.stored.vms[name].on else "Powered off"
    return f"Retrieved runtime info\n{state}\n"


async def _on(machine: EsxiMachine, name: str) -> str:
    try:
        await machine.power_on(name)
    except Refusal as refusal:
        machine.log(name, f"{refusal.text}\n{refusal.detail}".strip())
        raise Refusal(f"Powering on VM:\nPower on failed\n{refusal.text}") from refusal
    return "Powering on VM:\n"


async def _off(machine: EsxiMachine, name: str) -> str:
    try:
        await machine.power_off(name)
    except Refusal as refusal:
        raise Refusal(f"Powering off VM:\nPower off failed\n{refusal.text}") from refusal
    return "Powering off VM:\n"


async def _shutdown(machine: EsxiMachine, name: str) -> str:
    machine.shutdown(name)
    return ""


async def _reload(machine: EsxiMachine, name: str) -> str:
    machine.reload(name)
    return ""


VM_COMMANDS: Mapping[str, VmCommand] = {
    "vmsvc/power.getstate": _getstate,
    "vmsvc/power.on": _on,
    "vmsvc/power.off": _off,
    "vmsvc/power.shutdown": _shutdown,
    "vmsvc/reload": _reload,
}
"""Commands with one argument: the Vmid."""


VM_COLUMNS = ("Vmid", "Name", "File", "Guest OS", "Version", "Annotation")


def _all_vms(machine: EsxiMachine) -> str:
    rows: list[tuple[str, ...]] = [VM_COLUMNS]
    for config in machine.config.vms:
        vmid = str(machine.stored.vms[config.name].vmid)
        file = f"[{config.datastore}] {config.name}/{config.name}.vmx"
        version = f"vmx-{machine.release.hardware}"
        rows.append((vmid, config.name, file, "ubuntu64Guest", version, ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["   ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "".join(f"{line}\n" for line in lines)


def _lockdown(machine: EsxiMachine, command: str) -> str:
    if command == "lockdown_is_enabled":
        return f"{str(machine.stored.lockdown).lower()}\n"
    machine.stored.lockdown = command == "lockdown_mode_enter"
    machine.commit()
    return ""


LOCKDOWN = ("lockdown_is_enabled", "lockdown_mode_enter", "lockdown_mode_exit")


async def vim_cmd(machine: EsxiMachine, argv: Sequence[str]) -> ToolResult:
    """Run one vim-cmd command."""
    match list(argv):
        case ["vmsvc/getallvms"]:
            return ToolResult(0, _all_vms(machine))
        case ["vimsvc/auth/lockdown_is_enabled"] | ["-U", "dcui", str()] as words if (
            words[-1].startswith("vimsvc/auth/") and words[-1].rpartition("/")[2] in LOCKDOWN
        ):
            return ToolResult(0, _lockdown(machine, words[-1].rpartition("/")[2]))
        case [str(command), *words] if command in VM_COMMANDS:
            return await _run_on_vm(machine, command, words)
        case words:
            machine.unmodelled(" ".join(("vim-cmd", *words)))
            return ToolResult(1, err=f"Invalid command '{words[0] if words else ''}'.\n")


async def _run_on_vm(machine: EsxiMachine, command: str, words: Sequence[str]) -> ToolResult:
    if len(words) != 1:
        return ToolResult(1, f"Insufficient arguments.\nUsage: {command.split('/')[1]} vmid\n")
    try:
        name = machine.vm_by_id(words[0])
        return ToolResult(0, await VM_COMMANDS[command](machine, name))
    except Refusal as refusal:
        return ToolResult(1, f"{refusal.text}\n")
