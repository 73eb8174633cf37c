"""What each hypervisor shall look like, the step that brings it there, and its reboots.

The state is flat, as a host's: `kernel.atsSupport.configured`, `pci.<address>.passthrough`,
`vm.<name>.vmx.<key>`, `vm.<name>.power`. Two values are not known before the host is asked, and
are written in words that the scripts resolve: `gpu_pci_id` belongs to the `pciPassthruN` that
holds the GPU, and `numa_node` is the node of both devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from components.catalogue.environments import parse_release
from components.core.errors import Bug
from components.core.key_values import HostState, parse_state
from components.drift.device_drift import Watched
from components.hypervisor.request import Guest, RebootRequest
from components.hypervisor.scripts import hypervisor_call
from components.model.cluster import ClusterSpec
from components.model.environments import Hypervisor, VirtualMachine
from components.model.hosts import Host
from components.remote.endpoint import endpoint_of, host_endpoint
from components.remote.sending import plan_sending
from components.remote.step import Endpoint, RemoteStep
from components.remote.tools import ToolCall

EDIT_DEADLINE_S: Final = 300.0
"""Seconds for the work on one host beside waiting for its guests to shut down."""
PARAMETERS: Final = frozenset({"order", "reboots", "power_off", "shutdown_s"})
"""Lines on stdin that are no setting of the hypervisor but say how this run is to be done."""
PASSED_THROUGH: Final = "VM Passthru"
"""The owner of a device that a virtual machine may have, as `esxcli hardware pci list` has it."""


@dataclass(frozen=True, slots=True)
class RebootStep:
    """One look at a hypervisor that may end in a reboot of it."""

    name: str
    request: RebootRequest
    serves: tuple[str, ...]
    """Steps whose repair this one repeats: what they set again may wait for a boot again."""

    @property
    def step(self) -> RemoteStep:
        """The same as a plain step, for plans and goldens."""
        return RemoteStep(
            name=self.name,
            endpoint=self.request.endpoint,
            dialect="device",
            desired=self.request.render(),
            apply="device reboot",
            deadline_s=self.request.deadline_s,
            why_no_undo="a reboot cannot be taken back; other steps put back what it loaded",
            reboots=True,
        )


@dataclass(frozen=True, slots=True)
class HypervisorPlan:
    """One hypervisor: the state it shall have, and the steps that bring it there."""

    name: str
    endpoint: Endpoint
    desired: HostState
    watched: Watched
    reboot: RebootStep
    """After the converge step: for what the hypervisor itself has waiting."""
    firmware_reboot: RebootStep | None
    """After the guests: for firmware settings of the cards. None where no card has any."""

    @property
    def converge(self) -> RemoteStep:
        """The step that carries the settings."""
        return self.watched.step

    @property
    def steps(self) -> tuple[RemoteStep, ...]:
        """Every step, in the order in which they run."""
        last = (self.firmware_reboot.step,) if self.firmware_reboot else ()
        return (self.sending, self.converge, self.reboot.step, *last)

    @property
    def sending(self) -> RemoteStep:
        """The step that puts the tools on the host, before every other one."""
        settings = parse_state(self.converge.desired).values
        lines = HostState({key: settings[key] for key in ("order", "stack")}).render()
        tools = self.converge.tools
        return plan_sending(self.endpoint, tools, (ToolCall(tools[0], "place"), lines))


def plan_hypervisors(spec: ClusterSpec, stack: str | None = None) -> tuple[HypervisorPlan, ...]:
    """Plan every hypervisor of the site.

    Args:
        spec: The checked site.
        stack: Names the folder of the recorded previous values; default the cluster's name.
    """
    return tuple(_plan(spec, each, stack or spec.name) for each in spec.hypervisors)


def _plan(spec: ClusterSpec, hypervisor: Hypervisor, stack: str) -> HypervisorPlan:
    endpoint = hypervisor_endpoint(hypervisor)
    desired = desired_state(hypervisor)
    deadline_s = EDIT_DEADLINE_S + hypervisor.shutdown_s * len(hypervisor.vms)
    converge = RemoteStep(
        name=f"{hypervisor.name}-hypervisor",
        endpoint=endpoint,
        dialect="ash",
        desired=HostState({**desired.values, **_parameters(spec, hypervisor, stack)}).render(),
        apply=hypervisor_call("converge"),
        undo=hypervisor_call("undo"),
        deadline_s=deadline_s,
    )
    guests = [(vm, _guest(spec, vm)) for vm in hypervisor.vms]
    ats = any(host.nics and spec.settings_of(host).firmware.ats for _, host in guests)
    return HypervisorPlan(
        name=hypervisor.name,
        endpoint=endpoint,
        desired=desired,
        watched=Watched(
            hypervisor.name,
            converge,
            desired,
            hypervisor_call("observe"),
            PARAMETERS,
        ),
        reboot=RebootStep(
            f"{hypervisor.name}-reboot",
            _request(spec, hypervisor, stack, asked=False),
            (converge.name,),
        ),
        firmware_reboot=RebootStep(
            f"{hypervisor.name}-firmware-reboot",
            _request(spec, hypervisor, stack, asked=True),
            (converge.name, *_guest_steps(host.name for _, host in guests)),
        )
        if ats
        else None,
    )


def _guest_steps(hosts: Iterable[str]) -> Iterator[str]:
    """The steps of `plan_hosts` that write and prove a card's firmware setting."""
    for host in hosts:
        yield f"{host}-host"
        yield f"{host}-ats"


def _parameters(spec: ClusterSpec, hypervisor: Hypervisor, stack: str) -> dict[str, str]:
    return {
        "stack": stack,
        "order": ",".join(vm.name for vm in hypervisor.vms),
        "reboots": spec.disruption.reboots,
        "power_off": hypervisor.power_off,
        "shutdown_s": str(hypervisor.shutdown_s),
    }


def _guest(spec: ClusterSpec, vm: VirtualMachine) -> Host:
    host = spec.host(vm.name)
    if host is None:
        raise Bug(f"virtual machine {vm.name} is no host, and the checks let it pass")
    return host


def _request(
    spec: ClusterSpec, hypervisor: Hypervisor, stack: str, *, asked: bool
) -> RebootRequest:
    hosts = [_guest(spec, vm) for vm in hypervisor.vms]
    cards = {host.name: tuple(nic.pci for nic in host.nics) if asked else () for host in hosts}
    return RebootRequest(
        endpoint=hypervisor_endpoint(hypervisor),
        stack=stack,
        settings=desired_state(hypervisor).values,
        order=tuple(vm.name for vm in hypervisor.vms),
        guests=tuple(Guest(host_endpoint(host), cards[host.name]) for host in hosts),
        reboots=spec.disruption.reboots,
        power_off=hypervisor.power_off,
        shutdown_s=hypervisor.shutdown_s,
    )


def hypervisor_endpoint(hypervisor: Hypervisor) -> Endpoint:
    """Address, pinned key and secret names of one hypervisor; root logs in by key."""
    return endpoint_of(hypervisor.name, "host", hypervisor.ssh)


def desired_state(hypervisor: Hypervisor) -> HostState:
    """All settings that one hypervisor shall have.

    Raises:
        Bug: The release cannot be read; the checks refuse that.
    """
    release = parse_release(hypervisor.release)
    if release is None:
        raise Bug(f"release {hypervisor.release!r} cannot be read, and the checks let it pass")
    state = {
        "release": release.text,
        "kernel.atsSupport.configured": "TRUE",
        "kernel.atsSupport.runtime": "TRUE",
        "maintenance": "Disabled",
    }
    for vm in hypervisor.vms:
        state |= _machine(vm)
    return HostState(state)


def _machine(vm: VirtualMachine) -> dict[str, str]:
    """One machine's devices and its `.vmx` keys (sources.md#esxi)."""
    memory = str(vm.memory_mib)
    keys = {
        "gpu_pci_id": vm.gpu,
        "numa_node": f"of {vm.gpu} and {vm.nic}",
        "power": "on",
        "vmx.memSize": memory,
        "vmx.pciPassthru.64bitMMIOSizeGB": str(vm.mmio_gib),
        "vmx.pciPassthru.RelaxACSforP2P": "TRUE",
        "vmx.pciPassthru.allowP2P": "TRUE",
        "vmx.pciPassthru.use64bitMMIO": "TRUE",
        "vmx.sched.mem.min": memory,  # passthrough pins all memory: less is refused at power-on
        "vmx.sched.mem.minSize": memory,
        "vmx.sched.mem.pin": "TRUE",
    }
    state = {f"vm.{vm.name}.{key}": value for key, value in keys.items()}
    for device in (vm.gpu, vm.nic):
        state[f"pci.{device}.passthrough"] = "true"
        state[f"pci.{device}.current_owner"] = PASSED_THROUGH
    return state
