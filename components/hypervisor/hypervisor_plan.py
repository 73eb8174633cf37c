"""The settings that each hypervisor should have, the step that sets them, and its reboots.

The state is flat, as a host's: `kernel.atsSupport.configured`, `pci.<address>.passthrough`,
`vm.<name>.vmx.<key>`, `vm.<name>.power`. Two values are only known on the host, so the state has
words that the scripts resolve: `gpu_pci_id` belongs to the `pciPassthruN` that holds the GPU, and
`numa_node` is the node of both devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final, Literal, get_args

from components.catalogue.environments import parse_release
from components.core.errors import Bug
from components.core.key_values import HostState, parse_state
from components.core.problem import Finding, Place
from components.core.record import record, replace
from components.core.templates import fault_text, finding_of
from components.core.to_json import to_json
from components.drift.device_drift import Watched
from components.model.cluster import ClusterSpec
from components.model.environments import Hypervisor
from components.remote.endpoint import endpoint_of, host_endpoint
from components.remote.lines import read_request, render_lines
from components.remote.sending import plan_sending
from components.remote.step import Endpoint, RemoteStep
from components.remote.tools import Tool, ToolCall, assemble

REBOOT_DEADLINE_S: Final = 1800.0
"""Seconds for one host: a GPU server's self-test takes many minutes (sources.md#esxi)."""
Verb = Literal["observe", "converge", "undo", "reboot", "place"]
_PARTS: Final = ("input", "reading", "writing")
EDIT_DEADLINE_S: Final = 300.0
"""Seconds for the work on one host, not counting the shutdown of its guests."""
PARAMETERS: Final = frozenset({"order", "reboots", "power_off", "shutdown_s"})
"""Lines on stdin that control this run and do not set anything on the hypervisor."""
PASSED_THROUGH: Final = "VM Passthru"
"""Owner of a device that a virtual machine may use, as `esxcli hardware pci list` prints it."""
_AT_BOOT: Final = ("runtime", "current_owner")
"""Settings that take effect only at a boot of the hypervisor."""


@record
class Guest:
    """One virtual machine, and how to reach its operating system."""

    endpoint: Endpoint
    cards: tuple[str, ...] = ()
    """PCI addresses, as the guest numbers them, of cards whose firmware may wait for a boot."""


@record
class RebootRequest:
    """The stdin of one reboot step."""

    endpoint: Endpoint
    stack: str
    settings: Mapping[str, str]
    """The settings that the converge step gave the hypervisor."""
    order: tuple[str, ...]
    """The virtual machines, in the order in which they are powered on."""
    guests: tuple[Guest, ...]
    reboots: Literal["allow", "deny"]
    power_off: Literal["guest", "hard"]
    shutdown_s: float
    deadline_s: float = REBOOT_DEADLINE_S
    repair: str = ""
    """Why this runs although the plan is the same: repair notes of the steps that it serves."""

    def render(self, repair: str = "") -> str:
        """The request with one value on each line; a preview then shows the changed ones."""
        return render_lines(to_json(replace(self, repair=repair)))

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every device that the step connects to."""
        return (self.endpoint, *(guest.endpoint for guest in self.guests))


def parse_request(text: str) -> RebootRequest:
    """Read a request; UsageError names the first fault."""
    return read_request(RebootRequest, text, "reboot request")


@cache
def _file(name: str) -> str:
    folder = resources.files("components.hypervisor").joinpath("scripts")
    return folder.joinpath(f"{name}.sh").read_text("utf-8")


@cache
def hypervisor_tool() -> Tool:
    """The script that runs on an ESXi host.

    ESXi logs root in directly and lacks `sudo`. Its older releases also lack a `timeout` with the
    usual options, so the tool ends itself after `deadline_s=`, and reports what it has done.
    """
    verbs = {verb: _file(verb) for verb in get_args(Verb)}
    return assemble("hypervisor", tuple(map(_file, _PARTS)), verbs)


def hypervisor_call(verb: Verb) -> ToolCall:
    """One verb of the tool for ESXi hosts."""
    return ToolCall(hypervisor_tool(), verb)


@record
class RebootStep:
    """One check of a hypervisor, which reboots it if a setting waits for a boot."""

    name: str
    request: RebootRequest
    serves: tuple[str, ...]
    """Steps before this one: if they are repaired, their settings may wait for a boot again."""

    @property
    def step(self) -> RemoteStep:
        """This step as a plain step, for plans and goldens."""
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


@record
class HypervisorPlan:
    """One hypervisor: its wanted state, and the steps that reach it."""

    name: str
    endpoint: Endpoint
    desired: HostState
    watched: Watched
    reboot: RebootStep
    """Runs after the converge step, for the hypervisor's own settings."""
    firmware_reboot: RebootStep | None
    """Runs after the guests, for firmware settings of the cards; None if no card needs any."""

    @property
    def converge(self) -> RemoteStep:
        """The step that applies the settings."""
        return self.watched.step

    @property
    def own_steps(self) -> tuple[RemoteStep, ...]:
        """The steps before the guests, in the order in which they run."""
        return self.sending, self.converge, self.reboot.step

    @property
    def last_steps(self) -> tuple[RemoteStep, ...]:
        """The step after the guests, if a card needs it."""
        return (self.firmware_reboot.step,) if self.firmware_reboot else ()

    @property
    def sending(self) -> RemoteStep:
        """The step that copies the tools to the host, before every other one."""
        settings = parse_state(self.converge.desired).values
        lines = HostState({key: settings[key] for key in ("order", "stack")}).render()
        tools = self.converge.tools
        return plan_sending(self.endpoint, tools, (ToolCall(tools[0], "place"), lines))


def plan_hypervisors(spec: ClusterSpec, stack: str | None = None) -> tuple[HypervisorPlan, ...]:
    """Plan every hypervisor; `stack` names the folder of former values, by default the site's."""
    return tuple(_plan(spec, each, stack or spec.name) for each in spec.hypervisors)


def _plan(spec: ClusterSpec, hypervisor: Hypervisor, stack: str) -> HypervisorPlan:
    endpoint = endpoint_of(hypervisor.name, "host", hypervisor.ssh)  # root logs in by key
    desired, hosts = desired_state(hypervisor), {host.name: host for host in spec.hosts}
    guests = [hosts[vm.name] for vm in hypervisor.vms]  # the checks refuse a machine without one
    parameters = {
        "stack": stack,
        "order": ",".join(vm.name for vm in hypervisor.vms),
        "reboots": spec.disruption.reboots,
        "power_off": hypervisor.power_off,
        "shutdown_s": str(hypervisor.shutdown_s),
    }
    converge = RemoteStep(
        name=f"{hypervisor.name}-hypervisor",
        endpoint=endpoint,
        dialect="ash",
        desired=HostState({**desired.values, **parameters}).render(),
        apply=hypervisor_call("converge"),
        undo=hypervisor_call("undo"),
        deadline_s=EDIT_DEADLINE_S + hypervisor.shutdown_s * len(hypervisor.vms),
    )
    ats = any(host.nics and spec.settings_of(host).firmware.ats for host in guests)
    # The steps of `plan_hosts` that write and prove a card's firmware setting.
    firmware = [f"{host.name}-{end}" for host in guests for end in ("host", "ats")]
    ends = [(host_endpoint(host), tuple(nic.pci for nic in host.nics)) for host in guests]
    request = RebootRequest(
        endpoint=endpoint,
        stack=stack,
        settings=desired.values,
        order=tuple(vm.name for vm in hypervisor.vms),
        guests=tuple(Guest(end) for end, _ in ends),
        reboots=spec.disruption.reboots,
        power_off=hypervisor.power_off,
        shutdown_s=hypervisor.shutdown_s,
    )
    return HypervisorPlan(
        name=hypervisor.name,
        endpoint=endpoint,
        desired=desired,
        watched=Watched(hypervisor.name, converge, desired, hypervisor_call("observe"), PARAMETERS),
        reboot=RebootStep(f"{hypervisor.name}-reboot", request, (converge.name,)),
        firmware_reboot=RebootStep(
            f"{hypervisor.name}-firmware-reboot",
            replace(request, guests=tuple(Guest(end, cards) for end, cards in ends)),
            (converge.name, *firmware),
        )
        if ats
        else None,
    )


def desired_state(hypervisor: Hypervisor) -> HostState:
    """All settings that one hypervisor should have; `.vmx` keys: sources.md#esxi."""
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
            "vmx.sched.mem.min": memory,  # passthrough pins all memory: power-on refuses less
            "vmx.sched.mem.minSize": memory,
            "vmx.sched.mem.pin": "TRUE",
        }
        state |= {f"vm.{vm.name}.{key}": value for key, value in keys.items()}
        for device in (vm.gpu, vm.nic):
            state[f"pci.{device}.passthrough"] = "true"
            state[f"pci.{device}.current_owner"] = PASSED_THROUGH
    return HostState(state)


def reboots_refused(
    plans: tuple[HypervisorPlan, ...], observed: Mapping[str, HostState]
) -> tuple[Finding, ...]:
    """List, at preview, the reboots and shutdowns that the site file denies.

    Call it only if `disruption.reboots` is `deny`. Devices that were not observed (hypervisors, and
    hosts for the firmware of their cards) are not judged here; the steps refuse them.
    """
    where = Place(("disruption", "reboots"), "deny")
    return tuple(
        finding_of(__file__, "reboots", where, device=plan.name, what=line)
        for plan in plans
        for line in _of_hypervisor(plan, observed)
    )


def _of_hypervisor(plan: HypervisorPlan, observed: Mapping[str, HostState]) -> Iterator[str]:
    seen = observed[plan.name].values if plan.name in observed else {}
    wanted = sorted(plan.desired.values.items())
    differing = [(key, seen[key], value) for key, value in wanted if seen.get(key, value) != value]
    for key, actual, value in differing:
        if key.rpartition(".")[2] in _AT_BOOT:
            yield f"{plan.name} would be rebooted: {key} is {actual}, want {value}"
    for key, actual, value in differing:
        parts = key.split(".", 2)
        if parts[0] == "vm" and parts[2] != "power" and seen.get(f"vm.{parts[1]}.power") == "on":
            change = f"{parts[2]} is {actual}, want {value}"
            yield f"{parts[1]} on {plan.name} would be shut down: {change}"
    for guest in plan.firmware_reboot.request.guests if plan.firmware_reboot else ():
        facts = observed.get(guest.endpoint.device, HostState({})).values
        for card in guest.cards:
            if (now := facts.get(f"nic.{card}.ats", "on")) != "on":
                yield fault_text(__file__, "ats", plan=plan, card=card, guest=guest, now=now)
