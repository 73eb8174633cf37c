"""Rules on switch systems and their sessions: VLANs, guards, execs."""

from __future__ import annotations

from typing import Final

from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.checks.lacks import lacks_any
from components.checks.rule import Finding, Findings, at, places
from components.checks.topology import list_all_ports
from components.core.errors import SpecError
from components.core.problem import SpecPath
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.systems import driver_of, system_of
from components.fabric.targets import LONGEST, find_form, why_no_exec
from components.model.cluster import ClusterSpec
from components.model.fabric import Inband, Switch
from components.model.guard_spec import SwitchGuards
from components.model.places import subnets_of

_DEFAULT_VLAN: Final = 1
"""The VLAN of untagged frames on a port without its own (IEEE 802.1Q: default PVID)."""


def check_reserved_vlan(spec: ClusterSpec) -> Findings:
    """No rail has a VLAN that the switches use themselves: VLAN 1, or one that the chip reserves.

    VLAN 1 is the untagged VLAN of every port of a bridge until it gets another one (IEEE 802.1Q,
    default PVID). A rail there receives untagged frames, also from other networks, and pods that
    tag get untagged answers. Cumulus Linux reserves 3725 to 3999 by default, and refuses or
    silently loses a bridge VLAN there.
    """
    for r, rail in enumerate(spec.rails):
        if rail.vlan == _DEFAULT_VLAN:
            what = f"{rail.name} is VLAN 1, which switch ports have untagged by default."
            fix = "choose a VLAN from 2 to 4094, here and on the switches."
            yield Finding(what, places(spec, f"rails.{r}.vlan"), fix)
        for s, switch in enumerate(spec.switches):
            kept = system_of(switch.os).reserved_vlans
            if rail.vlan in kept:
                yield Finding(
                    f"{rail.name} is VLAN {rail.vlan}, and {driver_of(switch.os).title} on "
                    f"{switch.name} keeps {kept.start} to {kept.stop - 1} for itself.",
                    places(spec, f"rails.{r}.vlan", f"switches.{s}.os"),
                    "choose a VLAN outside of that range.",
                )
                break


def check_guard_repair(spec: ClusterSpec) -> Findings:
    """A guard uses `repair` only if each switch system supports it.

    If a driver sets a value but cannot restore the old one exactly, the switch would stay changed;
    if a system documents no command for it, the driver would send a guess.
    """
    for name in SwitchGuards.model_fields:
        kind = f"switch.{name}"
        if spec.guards.way(kind) != "repair":
            continue
        for s, switch in enumerate(spec.switches):
            why = _why_not(switch, kind)
            if why is None:
                continue
            where: SpecPath = ("guards", "switch", name)
            what = f"{kind} cannot be repaired on {switch.name}: {why}."
            fix = f"write guards.switch.{name}: warn, or refuse"
            yield Finding(what, (at(where, "repair"), at(("switches", s, "os"), switch.os)), fix)


def _why_not(switch: Switch, kind: str) -> str | None:
    """Explain why a switch cannot be repaired; None if it can, or if the guard does not apply."""
    if switch.carries != "roce":
        return None
    if kind not in system_of(switch.os).repairs:
        title = driver_of(switch.os).title
        return f"the driver of {title} has no line that sets the harmless value and gives it back"
    if switch.executor == "exec":
        return "an exec sends its lines without reading, and cannot know what there is to mend"
    return None


ALLOWED: Final = "allow-interruptions"


def check_exec_system(spec: ClusterSpec) -> Findings:
    """A switch with `executor: exec` has a system with reliable exec requests.

    The whole configuration goes as one request, so it must be known how the switch continues after
    a refused line, and its output must tell a success from a failure. The request must fit into one
    argument of a program, if bash takes it.
    """
    for s, switch in enumerate(spec.switches):
        why = why_no_exec(switch.os)
        if switch.executor == "exec" and why is not None:
            fitting = sorted(name for name in SWITCH_SYSTEMS if find_form(name))
            what = f"{switch.name} cannot take its configuration as one exec: {why}."
            fix = f"remove executor; `exec` works with {', '.join(fitting)}."
            yield Finding(what, places(spec, f"switches.{s}.executor", f"switches.{s}.os"), fix)
        elif switch.executor == "exec":
            yield from _refuse_plan(spec, s)


def _refuse_plan(spec: ClusterSpec, s: int) -> Findings:
    switch = spec.switches[s]
    plan, form = _plan_one(spec, switch), find_form(switch.os)
    texts = plan.exec if plan else None
    missing = why_no_exec(switch.os, plan.desired) if plan else None
    if missing is not None:
        what = f"{switch.name} cannot take its configuration as one exec: {missing}."
        fix = "remove executor: `device` records what was there."
        yield Finding(what, places(spec, f"switches.{s}.executor"), fix)
    needed = max(len(texts.apply), len(texts.undo)) if texts else 0
    if form and not form.cli and needed > LONGEST:
        what = f"one exec of {switch.name} would have {needed} characters; it takes {LONGEST}."
        fix = "remove executor: `device` sends a line at a time."
        yield Finding(what, places(spec, f"switches.{s}.executor"), fix)


def _plan_one(spec: ClusterSpec, switch: Switch) -> SwitchPlan | None:
    model = switch.hardware
    known = model is not None and all(model.has_port(switch.os, name) for name in switch.ports)
    if not known or lacks_any(spec, switch):
        return None  # another rule reports the missing feature of the switch
    try:
        (plan,) = plan_fabric(spec.model_copy(update={"switches": (switch,)}))
    except SpecError:
        return None  # another rule reports the missing rail
    return plan


def check_exec_disruptive(spec: ClusterSpec) -> Findings:
    """An exec that interrupts traffic is explicitly allowed, and other switches omit the key.

    An exec reads nothing first, so it sends an MTU with its shutdown, and the one-shot RoCE, at
    every change of the file, even if the switch has them already.
    """
    for s, switch in enumerate(spec.switches):
        allowed = switch.exec_disruptive == ALLOWED
        where = at(("switches", s, "exec_disruptive"), switch.exec_disruptive)
        if switch.executor == "device" and allowed:
            what = f"{switch.name} sets exec_disruptive to {ALLOWED}, but its executor is device."
            yield Finding(what, (where,), "remove exec_disruptive, or set executor to exec.")
        elif switch.executor == "exec" and not allowed:
            yield from _refuse_interruptions(spec, s)


def _refuse_interruptions(spec: ClusterSpec, s: int) -> Findings:
    switch = spec.switches[s]
    if find_form(switch.os) is None:
        return
    plan = _plan_one(spec, switch)
    found = plan.exec.interrupts if plan and plan.exec else ()
    if found:
        what = f"each change of the file would interrupt {switch.name}: {'; '.join(found)}."
        where = places(spec, f"switches.{s}.executor", f"switches.{s}.exec_disruptive")
        fix = f"set exec_disruptive to {ALLOWED}, or remove executor: `device` sends only changes."
        yield Finding(what, where, fix)


_KEEP = "give the switch its management port, or another port and VLAN for the session."


def check_management_port(spec: ClusterSpec) -> Findings:
    """The file does not set the port or VLAN that carries the session to a switch.

    It cannot contain the management port and its VRF at all. A switch that is managed in-band names
    that port and VLAN with `inband`, and Railyard leaves them alone: shutting the port for a new
    MTU, removing it from a VLAN, or flapping it by a one-shot would cut the session in the middle
    of a change, and the undo could not log in either. Addresses of the fabric differ from the
    switch's login address. The rule `subnet-overlap` keeps the management network apart from the
    rails.
    """
    for s, switch in enumerate(spec.switches):
        yield from _addresses(spec, s, switch)
        if switch.inband is not None:
            path: SpecPath = ("switches", s, "inband")
            yield from _ports(spec, switch, switch.inband, path)
            yield from _vlans(spec, switch, switch.inband, path)
            yield from _one_shot(spec, switch, switch.inband, path)


def _ports(spec: ClusterSpec, switch: Switch, inband: Inband, path: SpecPath) -> Findings:
    model = switch.hardware
    if model is not None and not model.has_port(switch.os, inband.port):
        what = f"{switch.name} is managed by port {inband.port}, but {model.described} has none."
        yield Finding(what, (at((*path, "port"), inband.port),), _KEEP)
    for port in list_all_ports(spec):
        if port.switch.name != switch.name or model is None:
            continue
        names = {name: model.whole_port(switch.os, name) for name in (port.name, inband.port)}
        if names[port.name] is not None and names[port.name] == names[inband.port]:
            yield Finding(
                f"port {port.name} of {switch.name} carries our own session, and the file would "
                "set its mode, its MTU and its queues.",
                (port.place, at((*path, "port"), inband.port)),
                _KEEP,
            )


def _vlans(spec: ClusterSpec, switch: Switch, inband: Inband, path: SpecPath) -> Findings:
    for r, rail in enumerate(spec.rails):
        if rail.vlan == inband.vlan:
            yield Finding(
                f"VLAN {inband.vlan} carries our own session with {switch.name} and is that of "
                f"{rail.name}, which an undo takes away.",
                (at(("rails", r, "vlan"), rail.vlan), at((*path, "vlan"), inband.vlan)),
                _KEEP,
            )


def _one_shot(spec: ClusterSpec, switch: Switch, inband: Inband, path: SpecPath) -> Findings:
    system, mode = system_of(switch.os), spec.rdma.mode
    title = driver_of(switch.os).title
    if system.one_shot_flaps and mode in system.one_shot_modes:
        yield Finding(
            f"{mode} is one command for the whole switch on {title}, which may flap every port, "
            f"also {inband.port}, by which our own session with {switch.name} comes in.",
            (at(("rdma", "mode"), mode), at((*path, "port"), inband.port)),
            "reach the switch by its management port.",
        )


def _addresses(spec: ClusterSpec, index: int, switch: Switch) -> Findings:
    place = at(("switches", index, "ssh", "address"), switch.ssh.address)
    if switch.routing is not None and str(switch.routing.router_id) == switch.ssh.address:
        yield Finding(
            f"{switch.name} is reached at {switch.ssh.address}, its router_id, which undo removes.",
            (place, at(("switches", index, "routing", "router_id"), switch.routing.router_id)),
            "choose a router_id that is no address of the management network.",
        )
    for r, rail in enumerate(spec.rails):
        for subnet in subnets_of(rail):
            if str(subnet.gateway) != switch.ssh.address:
                continue
            key: SpecPath = ("leaves", subnet.leaf, "gateway") if subnet.leaf else ("gateway",)
            yield Finding(
                f"{switch.name} is reached at {switch.ssh.address}, which is the gateway of "
                f"{rail.name}: undo takes that address away.",
                (place, at(("rails", r, *key), subnet.gateway)),
                "reach the switch by an address of the management network.",
            )
