"""What a plain exec on a switch can be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.catalogue.switches.systems import SWITCH_SYSTEMS
from components.checks.rule import Finding, at
from components.core.errors import SpecError
from components.fabric.exec_plan import describe_interrupts, find_form, why_no_exec
from components.fabric.lacks import lacks
from components.fabric.plan import SwitchPlan, plan_fabric
from components.model.cluster import ClusterSpec
from components.model.fabric import Switch

ALLOWED: Final = "allow-interruptions"


def check_exec_system(spec: ClusterSpec) -> Iterator[Finding]:
    """A switch with `executor: exec` has a system whose exec requests can be trusted.

    The whole configuration goes as one request, so what the switch does after a refused line must
    be known, and what it prints must tell a success from a failure. The whole must fit into one
    argument of a program, where bash takes it.
    """
    for s, switch in enumerate(spec.switches):
        why = why_no_exec(switch.os)
        if switch.executor == "exec" and why is not None:
            fitting = sorted(name for name in SWITCH_SYSTEMS if find_form(name))
            yield Finding(
                f"{switch.name} cannot take its configuration as one exec: {why}.",
                (
                    at(("switches", s, "executor"), switch.executor),
                    at(("switches", s, "os"), switch.os),
                ),
                f"remove executor; `exec` works with {', '.join(fitting)}.",
            )
        elif switch.executor == "exec":
            yield from _refuse_plan(spec, s)


def _refuse_plan(spec: ClusterSpec, s: int) -> Iterator[Finding]:
    switch = spec.switches[s]
    plan, form = _plan_one(spec, switch), find_form(switch.os)
    texts, longest = plan.exec if plan else None, form.longest if form else None
    missing = form.find_missing(plan.desired) if plan and form else None
    if missing is not None:
        yield Finding(
            f"{switch.name} cannot take its configuration as one exec: {missing}.",
            (at(("switches", s, "executor"), switch.executor),),
            "remove executor: `device` records what was there.",
        )
    needed = max(len(texts.apply), len(texts.undo)) if texts else 0
    if longest is not None and needed > longest:
        yield Finding(
            f"one exec of {switch.name} would have {needed} characters; it takes {longest}.",
            (at(("switches", s, "executor"), switch.executor),),
            "remove executor: `device` sends a line at a time.",
        )


def _plan_one(spec: ClusterSpec, switch: Switch) -> SwitchPlan | None:
    model = switch.hardware
    known = model is not None and all(model.has_port(switch.os, name) for name in switch.ports)
    if not known or any(lacks(spec.rdma, switch)):
        return None  # another rule names what the switch cannot do
    try:
        (plan,) = plan_fabric(spec.model_copy(update={"switches": (switch,)}))
    except SpecError:
        return None  # another rule names the rail that is not there
    return plan


def check_exec_disruptive(spec: ClusterSpec) -> Iterator[Finding]:
    """An exec that interrupts traffic is allowed in words, and nothing else needs the word.

    An exec reads nothing first, so it sends an MTU with its shutdown, and the one-shot RoCE, at
    every change of the file, even if the switch has them already.
    """
    for s, switch in enumerate(spec.switches):
        allowed = switch.exec_disruptive == ALLOWED
        where = at(("switches", s, "exec_disruptive"), switch.exec_disruptive)
        if switch.executor == "device" and allowed:
            yield Finding(
                f"{switch.name} sets exec_disruptive to {ALLOWED}, but its executor is device.",
                (where,),
                "remove exec_disruptive, or set executor to exec.",
            )
        elif switch.executor == "exec" and not allowed:
            yield from _refuse_interruptions(spec, s)


def _refuse_interruptions(spec: ClusterSpec, s: int) -> Iterator[Finding]:
    switch = spec.switches[s]
    if find_form(switch.os) is None:
        return
    plan = _plan_one(spec, switch)
    found = plan.exec.interrupts if plan and plan.exec else ()
    if found:
        yield Finding(
            f"each change of the file would interrupt {switch.name}: {describe_interrupts(found)}.",
            (
                at(("switches", s, "executor"), switch.executor),
                at(("switches", s, "exec_disruptive"), switch.exec_disruptive),
            ),
            f"set exec_disruptive to {ALLOWED}, or remove executor: `device` sends only what"
            " differs.",
        )
