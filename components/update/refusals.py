"""Refuse interruptions that `disruption` forbids, addresses in use, and failed guards.

The engine runs an exec when its text changed. A text without a good verdict must be sent again
although the file did not change, so a repeated run carries a number. The other checks: the
balancers' address must be free, and no guard may refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from components.core.difference import Difference
from components.core.key_values import HostState, parse_state
from components.core.plain_text import plain_text
from components.core.problem import Finding, Place, refusal
from components.disruption.forecast import (
    IN_SERVICE,
    departures_refused,
    passing_refused,
    render_departures,
)
from components.disruption.leave_plan import describe_leaving, leaving_nodes, leaving_refused
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import DeviceDrift, Unreachable, Watched
from components.fabric.edit import (
    Edit,
    interrupted_words,
    last_applied,
    preview_switch,
    read_baseline,
    render_waves,
)
from components.fabric.effects import interrupting, ports_of
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.state import SwitchState
from components.fabric.targets import digest_of, number_of, numbered
from components.hypervisor.hypervisor_plan import reboots_refused
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines
from components.update.identity import known_state
from components.update.seen import Facts, Seen, Situation
from components.update.servers import describe_servers

_PORTS: Final = ("disruption", "ports")


def judge_disruptions(at: Situation) -> Iterator[Finding]:
    """Refuse, at preview, interruptions of traffic that the file denies.

    Always refuse reboots that would continue past a host which may not have come back. For an
    unread device, as with `railyard:observe: never`, every difference from the last applied state
    counts. If nothing was applied either, the step itself reads the device and refuses.
    """
    plan, facts, applied = at.plan, at.seen.devices, known_state(at)
    seen = known_hosts(plan, facts, applied)
    away = {name: fact.reason for name, fact in facts.items() if isinstance(fact, Unreachable)}
    yield from passing_refused(plan.reboots, seen, away)
    if at.spec.disruption.ports != "allow":
        yield from _interrupting(at, applied)
    if at.spec.disruption.reboots == "deny":
        yield from reboots_refused(plan.hypervisors, seen)
        yield from departures_refused(plan.reboots, seen)
        # kubespray itself refuses that nodes leave.
        if plan.kubernetes is not None and plan.kubernetes.playbooks is None:
            yield from leaving_refused(leaving_nodes(plan.kubernetes, applied))


def host_departures(
    plan: ClusterPlan, facts: Mapping[str, Facts], applied: Applied
) -> tuple[str, ...]:
    """Describe which hosts the update drains or reboots, and in which group."""
    leaving = leaving_nodes(plan.kubernetes, applied) if plan.departures else ()
    waiting = render_departures(plan.reboots, known_hosts(plan, facts, applied))
    drained = (
        words
        for switch in plan.switches
        if (leave := plan.ports.get(switch.name))
        for words in leave.describe(_stopped(switch, facts, applied))
    )
    return (*describe_leaving(leaving), *describe_servers(plan, applied), *drained, *waiting)


def known_hosts(
    plan: ClusterPlan, facts: Mapping[str, Facts], applied: Applied
) -> Mapping[str, HostState]:
    """Return each host's and hypervisor's state: as read, else as last applied."""
    found: dict[str, HostState] = {}
    for watched in (each.watched for each in (*plan.hypervisors, *plan.hosts)):
        recorded = applied.stdin(watched.step.name)
        if facts.get(watched.device) is None and recorded:
            # Assume that it runs jobs, as a host does after an update.
            was = watched.settings_in(recorded).values
            found[watched.device] = HostState({**was, IN_SERVICE: "yes"})
    return found | {name: fact for name, fact in facts.items() if isinstance(fact, HostState)}


def _interrupting(at: Situation, applied: Applied) -> Iterator[Finding]:
    policy, facts = at.spec.disruption.ports, at.seen.devices
    changing = {drift.device for drift in at.drifts if drift.edited or drift.differences}
    for switch in at.plan.switches:
        leave = at.plan.ports.get(switch.name)
        if leave is not None and policy == "drain":
            yield from leave.refused(_stopped(switch, facts, applied))
        elif switch.exec is not None:
            if switch.exec.interrupts and is_sent(switch, applied, at.drifts):
                yield _exec_refusal(switch.name, switch.exec.interrupts)
        elif switch.name in changing:
            seen = facts.get(switch.name)
            if found := _interruptions(switch, seen, applied):
                yield _refusal(switch, found, policy, unread=seen is None)


def _interruptions(switch: SwitchPlan, seen: Facts, applied: Applied) -> tuple[Difference, ...]:
    """Return the interruptions by known values; the step itself checks an unknown switch."""
    was = last_applied(switch, applied)
    has = was if seen is None else seen
    if not isinstance(has, SwitchState):
        return ()
    edit = Edit(switch.os, switch.desired, was or SwitchState(), _recorded(switch, applied))
    return interrupting(edit.effects(has))


def _stopped(switch: SwitchPlan, facts: Mapping[str, Facts], applied: Applied) -> tuple[str, ...]:
    """Return the ports that the update interrupts, as `ports_of` names them."""
    return ports_of(_interruptions(switch, facts.get(switch.name), applied))


def _recorded(switch: SwitchPlan, applied: Applied) -> SwitchState | None:
    """Return the values from before the first update, which removed settings go back to."""
    baseline = applied.step(switch.baseline_step)
    if baseline is None or not baseline.stdout:
        return None
    return SwitchState.model_validate(read_baseline(baseline.stdout))


def switch_changes(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, facts: Mapping[str, Facts]
) -> tuple[str, ...]:
    """Describe the changes on each switch and their interruptions."""
    found: dict[str, str] = {}
    for switch in plan.switches:
        seen, was = facts.get(switch.name), last_applied(switch, applied)
        read = seen if isinstance(seen, SwitchState) else None
        before = _recorded(switch, applied)
        text = preview_switch(switch, was, read, spec.disruption.ports, before)
        found |= {switch.name: text} if text else {}
    waves = render_waves(plan.switches, found, spec.disruption.switch_waves.canary)
    return (*found.values(), *waves)


def _exec_refusal(device: str, interrupts: tuple[str, ...]) -> Finding:
    return refusal(
        "disruption",
        f"an exec sends all lines of {device}, needed or not, and among them:"
        f" {'; '.join(interrupts)}",
        Place(_PORTS, "deny"),
        "plan a window and set disruption.ports to allow, or executor to device, which sends only"
        " what differs",
        device,
    )


def _refusal(
    switch: SwitchPlan, changes: Sequence[Difference], policy: str, *, unread: bool
) -> Finding:
    base = " (against the last applied settings, since nothing was read)" if unread else ""
    words = interrupted_words(switch, changes)
    what = f"{switch.name} would interrupt traffic{base}: {words}"
    fix = "plan a window and set disruption.ports to allow, or take the change back"
    return refusal("disruption", what, Place(_PORTS, policy), fix, switch.name)


def exec_notes(
    switches: tuple[SwitchPlan, ...], applied: Applied, drifts: tuple[DeviceDrift, ...]
) -> dict[str, str]:
    """Return the run number of each exec step; a first run has none."""
    drifted = {drift.device for drift in drifts if drift.differences}
    notes: dict[str, str] = {}
    for switch in switches:
        sent = applied.step(switch.exec_step)
        if switch.exec is None or sent is None:
            continue
        again = switch.name in drifted or not _was_good(switch, applied)
        number = number_of(sent.create) + again
        if number:
            notes[switch.exec_step] = str(number)
    return notes


def is_sent(switch: SwitchPlan, applied: Applied, drifts: tuple[DeviceDrift, ...]) -> bool:
    """Whether this update sends a switch's exec: its text is new, or runs again."""
    sent = applied.step(switch.exec_step)
    if switch.exec is None or sent is None:
        return switch.exec is not None
    run = exec_notes((switch,), applied, drifts).get(switch.exec_step, "")
    return sent.create != numbered(switch.os, switch.exec.apply, run)


def _was_good(switch: SwitchPlan, applied: Applied) -> bool:
    """Whether both texts last sent were judged good."""
    pairs = ((switch.exec_step, switch.step), (switch.save_step, switch.saved_step))
    return all(_is_judged(applied.step(judge), applied.step(sent)) for sent, judge in pairs)


def _is_judged(judge: AppliedStep | None, sent: AppliedStep | None) -> bool:
    """Whether the sent text was judged: a failed judge leaves no state, or an old one."""
    if judge is None or sent is None or not judge.stdin:
        return False
    judged = parse_lines(judge.stdin).get("judges")
    return isinstance(judged, dict) and judged.get("text") == digest_of(sent.create)


def judge_executors(at: Situation) -> Iterator[Finding]:
    """Refuse a change of executor: the update would undo its own work."""
    for switch in at.plan.switches:
        if switch.exec is None and at.applied.step(switch.exec_step) is not None:
            yield refusal(
                "executor",
                f"{switch.name} was configured by a plain exec, and the file now says"
                " `executor: device`.",
                f"step {switch.exec_step} of the state: this update would remove it, and so reset"
                " the switch to factory values",
                f"remove the steps {switch.exec_step} and {switch.save_step} with `pulumi state "
                "delete`, which leaves the switch alone; the values from before the first exec "
                "are not recorded",
                switch.name,
            )


ADDRESS: Final = "others.address"
"""The MAC address of a machine that answers for the virtual address and is not a balancer."""
ROUTER: Final = "others.router"
"""The address of another VRRP router with the same number."""
_PATH: Final = ("kubernetes", "virtual_address")
_NUMBER: Final = "virtual_router_id "


def judge_balancers(at: Situation) -> Iterator[Finding]:
    """Refuse a virtual address that another machine has, and a VRRP number that another router has.

    A balancer on which keepalived has the address is skipped, since it would find itself. An unread
    device is skipped: its step checks again before a change.
    """
    balancers = at.plan.kubernetes.balancers if at.plan.kubernetes else ()
    yield from dict.fromkeys(found for each in balancers for found in _taken(each, at.seen))


def _taken(watched: Watched, seen: Seen) -> Iterator[Finding]:
    facts = seen.host(watched.device)
    if not isinstance(facts, HostState):
        return
    wanted = parse_state(watched.step.desired).values
    if mac := facts.values.get(ADDRESS):
        address = wanted["virtual_address"]
        what = f"{address} is already used by {mac}, which is not a balancer of this site."
        fix = "choose a free address of that network, or take it from that machine"
        yield refusal("virtual-address", what, Place((*_PATH, "address"), address), fix)
    if router := facts.values.get(ROUTER):
        number = _number(wanted)
        what = f"{router} is a VRRP router of the number {number} in the network of the balancers."
        fix = "choose another router_id, from 1 to 255"
        yield refusal("virtual-router", what, Place((*_PATH, "router_id"), number), fix)


def _number(wanted: Mapping[str, str]) -> str:
    found = (line.strip() for key, line in wanted.items() if key.startswith("keepalived.conf."))
    return next(line for line in found if line.startswith(_NUMBER)).removeprefix(_NUMBER)


def judge_guards(at: Situation) -> Iterator[Finding]:
    """Refuse, at preview and all at once, findings whose guard is `refuse`.

    An unread device gives no findings, so with `railyard:observe: never` no guard refuses.
    """
    for drift in at.drifts:
        for each in drift.beside:
            if at.spec.guards.way(each.kind) == "refuse":
                yield refusal(
                    "guards",
                    f"{drift.device}: {each.setting}; it is outside the plan, and it breaks"
                    f" {each.breaks}",
                    f"{at.addresses.get(drift.device, '')}; guards.{each.kind} is refuse",
                    f"{plain_text(each.fix)}; to go on with a warning: guards.{each.kind}: warn",
                    drift.device,
                )
