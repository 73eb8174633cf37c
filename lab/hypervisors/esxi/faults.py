"""Faults that a person or a test may cause on an emulated ESXi host."""

from __future__ import annotations

from collections.abc import Sequence

from components.core.errors import UsageError
from lab.hypervisors.esxi.machine import EsxiMachine
from lab.hypervisors.esxi.stored import Refusal
from lab.hypervisors.esxi.vmx import parse_vmx, render_vmx

FORMS = """\
  kernel OPTION VALUE              configured by hand, for the next boot
  vmx VM KEY VALUE|unset           changed by hand in the host client, for the next power-on
  vmx-line VM TEXT                 a line is added to the file of a machine that is off
  vm-power VM on|off               somebody powers it on, or cuts its power
  vm-tools VM on|off               VMware Tools answer or not
  passthrough SBDF on|off          toggled by hand, for the next boot
  maintenance on|off               set by hand
  lockdown on|off                  SSH lets nobody in
  ssh-refused on|off               the SSH service is stopped"""


async def cause_fault(machine: EsxiMachine, args: Sequence[str]) -> str:
    """Cause one fault and say in words what was done; SSH itself is the caller's business.

    Raises:
        UsageError: There is no such fault, or a word of it is wrong.
    """
    try:
        done = await _power(machine, args) or _setting(machine, args) or _switch(machine, args)
    except Refusal as refusal:
        raise UsageError(f"{machine.config.name} refuses: {refusal.text}") from refusal
    if done is None:
        name, text = machine.config.name, " ".join(args)
        raise UsageError(f"{name}: no fault {text!r}; the faults of an ESXi host are:\n{FORMS}")
    machine.commit()
    return f"{machine.config.name}: {done}"


async def _power(machine: EsxiMachine, args: Sequence[str]) -> str | None:
    match list(args):
        case ["vm-power", vm, "on"]:
            machine.vm_config(vm)
            await machine.power_on(vm)
            return f"{vm} is powered on"
        case ["vm-power", vm, "off"]:
            machine.vm_config(vm)
            await machine.power_off(vm)
            return f"{vm} is powered off"
        case _:
            return None


def _setting(machine: EsxiMachine, args: Sequence[str]) -> str | None:
    match list(args):
        case ["kernel", option, value]:
            machine.set_kernel(option, value)
            return f"{option} is configured as {value}"
        case ["vmx", vm, key, value]:
            return _edit(machine, vm, key, None if value == "unset" else value)
        case ["vmx-line", vm, *words] if words:
            if machine.stored.vms[machine.vm_config(vm).name].on:
                raise UsageError(f"{vm} runs: its file would be written over at power-off")
            with machine.vmx_path(vm).open("a") as file:
                file.write(f"{' '.join(words)}\n")
            return f"the file of {vm} has a line more"
        case ["passthrough", sbdf, "on" | "off" as state]:
            machine.set_passthru(sbdf, enable=state == "on", now=False)
            return f"passthrough of {sbdf} is {state} at the next boot"
        case _:
            return None


def _switch(machine: EsxiMachine, args: Sequence[str]) -> str | None:
    match list(args):
        case ["maintenance", "on" | "off" as state]:
            if state == "on" and machine.running():
                raise UsageError(f"{', '.join(machine.running())} run: power them off first")
            machine.set_maintenance(on=state == "on")
        case ["lockdown", "on" | "off" as state]:
            machine.stored.lockdown = state == "on"
        case ["ssh-refused", "on" | "off" as state]:
            machine.stored.ssh_refused = state == "on"
        case ["vm-tools", vm, "on" | "off" as state]:
            machine.stored.vms[machine.vm_config(vm).name].tools = state == "on"
        case _:
            return None
    return f"{' '.join(args[:-1])} is {state}"


def _edit(machine: EsxiMachine, name: str, key: str, value: str | None) -> str:
    """As the host client does: hostd's copy and the file, but not what runs."""
    machine.vm_config(name)
    vm = machine.stored.vms[name]
    settings = parse_vmx(vm.held, name)
    settings.pop(key, None)
    if value is not None:
        settings[key] = value
    vm.held = render_vmx(settings)
    machine.vmx_path(name).write_text(vm.held)
    return f"{key} of {name} is {value if value is not None else 'gone'} at the next power-on"
