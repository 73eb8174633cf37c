"""Refuse interruptions that `disruption` forbids, addresses in use, and failed guards.

The engine runs an exec when its text changed. A text without a good verdict must be sent again
although the file did not change, so a repeated run carries a number. The other checks: the
balancers' address must be free, and no guard may refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from components.core.difference import Difference, ForeignSetting
from components.core.key_values import HostState, parse_state
from components.core.plain_text import plain_text
from components.core.problem import Lines
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
    applied_switch,
    interrupted_words,
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
from components.model.guard_spec import Guards
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines
from components.remote.step import OWN_CLIENT, RemoteStep
from components.update.seen import Facts, Seen
from components.update.servers import describe_servers, place_of


def disruptions_refused(
    spec: ClusterSpec,
    plan: ClusterPlan,
    drifts: tuple[DeviceDrift, ...],
    facts: Mapping[str, Facts],
    applied: Applied,
) -> tuple[str, ...]:
    """Refuse, at preview, interruptions of traffic that the file denies.

    Always refuse reboots that would continue past a host which may not have come back. For an
    unread device, as with `railyard:observe: never`, every difference from the last applied state
    counts. If nothing was applied either, the step itself reads the device and refuses.
    """
    seen = known_hosts(plan, facts, applied)
    away = {name: fact.reason for name, fact in facts.items() if isinstance(fact, Unreachable)}
    refused = [*passing_refused(plan.reboots, seen, away)]
    if spec.disruption.ports != "allow":
        refused += _interrupting(spec, plan, drifts, facts, applied)
    if spec.disruption.reboots == "deny":
        refused += reboots_refused(plan.hypervisors, seen)
        refused += departures_refused(plan.reboots, seen)
        # kubespray itself refuses that nodes leave.
        if plan.kubernetes is not None and plan.kubernetes.playbooks is None:
            refused += leaving_refused(leaving_nodes(plan.kubernetes, applied))
    return tuple(refused)


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
        recorded = applied.step(watched.step.name)
        if facts.get(watched.device) is None and recorded is not None and recorded.stdin:
            # Assume that it runs jobs, as a host does after an update.
            was = watched.settings_in(recorded.stdin).values
            found[watched.device] = HostState({**was, IN_SERVICE: "yes"})
    return found | {name: fact for name, fact in facts.items() if isinstance(fact, HostState)}


def _interrupting(
    spec: ClusterSpec,
    plan: ClusterPlan,
    drifts: tuple[DeviceDrift, ...],
    facts: Mapping[str, Facts],
    applied: Applied,
) -> Iterator[str]:
    changing = {drift.device for drift in drifts if drift.edited or drift.differences}
    for switch in plan.switches:
        leave = plan.ports.get(switch.name)
        if leave is not None and spec.disruption.ports == "drain":
            yield from leave.refused(_stopped(switch, facts, applied))
        elif switch.exec is not None:
            if switch.exec.interrupts and is_sent(switch, applied, drifts):
                yield _exec_refusal(switch.name, switch.exec.interrupts)
        elif switch.name in changing:
            seen = facts.get(switch.name)
            if found := _interruptions(switch, seen, applied):
                yield _refusal(switch, found, spec.disruption.ports, unread=seen is None)


def _interruptions(switch: SwitchPlan, seen: Facts, applied: Applied) -> tuple[Difference, ...]:
    """Return the interruptions by known values; the step itself checks an unknown switch."""
    recorded = applied.step(switch.step)
    was = applied_switch(recorded)[0] if recorded is not None and recorded.stdin else None
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
        recorded, seen = applied.step(switch.step), facts.get(switch.name)
        was = applied_switch(recorded)[0] if recorded is not None and recorded.stdin else None
        read = seen if isinstance(seen, SwitchState) else None
        before = _recorded(switch, applied)
        text = preview_switch(switch, was, read, spec.disruption.ports, before)
        found |= {switch.name: text} if text else {}
    waves = render_waves(plan.switches, found, spec.disruption.switch_waves.canary)
    return (*found.values(), *waves)


def _exec_refusal(device: str, interrupts: tuple[str, ...]) -> str:
    return (
        f"disruption: an exec sends all lines of {device}, needed or not, and among them:"
        f" {'; '.join(interrupts)}\n"
        "  where  disruption.ports = deny\n"
        "  fix    plan a window and set disruption.ports to allow, or executor to device, which"
        " sends only what differs"
    )


def _refusal(
    switch: SwitchPlan, changes: Sequence[Difference], policy: str, *, unread: bool
) -> str:
    base = " (against what was last applied, since nothing was read)" if unread else ""
    return (
        f"disruption: {switch.name} would interrupt traffic{base}:"
        f" {interrupted_words(switch, changes)}\n"
        f"  where  disruption.ports = {policy}\n"
        "  fix    plan a window and set disruption.ports to allow, or take the change back"
    )


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


def changed_client(steps: Iterable[RemoteStep], applied: Applied) -> tuple[str, ...]:
    """Refuse a change of SSH client for a device's steps: the update would undo its own work.

    Host steps are provider resources or `railyard` calls. If the type changes, the engine makes the
    new steps first, then deletes the old ones, and their undo runs.
    """
    found: dict[str, tuple[str, str]] = {}
    for step in steps:
        recorded = applied.step(step.name)
        if recorded is None or not recorded.create or step.dialect == "device":
            continue
        had, has = OWN_CLIENT in recorded.create, bool(step.endpoint.why_own_client)
        if had != has:
            device, why = step.endpoint.device, step.endpoint.why_own_client
            found.setdefault(device, (step.name, why or "the command provider can reach it now"))
    return tuple(
        f"reach: {device} would be reached by another SSH client: {why}.\n"
        f"  where  the state holds {name}: this update would make new steps and then undo what"
        " the old ones did. Nothing was changed on any device.\n"
        f"  fix    reach {device} as before; or take it out of the file with one update, and put it"
        " back with the next"
        for device, (name, why) in found.items()
    )


def left_by_exec(switches: tuple[SwitchPlan, ...], applied: Applied) -> tuple[str, ...]:
    """Refuse a change of executor: the update would undo its own work."""
    return tuple(
        f"executor: {switch.name} was configured by a plain exec, and the file now says"
        f" `executor: device`.\n"
        f"  where  the state holds {switch.exec_step}: this update would remove it, and so reset"
        " the switch to factory values.\n"
        f"  fix    remove the steps {switch.exec_step} and {switch.save_step} with `pulumi state"
        " delete`, which sends nothing; the values from before the first exec are not recorded"
        for switch in switches
        if switch.exec is None and applied.step(switch.exec_step) is not None
    )


ADDRESS: Final = "others.address"
"""The MAC address of a machine that answers for the virtual address and is not a balancer."""
ROUTER: Final = "others.router"
"""The address of another VRRP router with the same number."""
_PATH: Final = ("kubernetes", "virtual_address")
_NUMBER: Final = "virtual_router_id "


def balancers_refused(plan: ClusterPlan, seen: Seen, lines: Lines) -> tuple[str, ...]:
    """Refuse a virtual address that another machine has, and a VRRP number that another router has.

    A balancer on which keepalived has the address is skipped, since it would find itself. An unread
    device is skipped: its step checks again before a change.
    """
    balancers = plan.kubernetes.balancers if plan.kubernetes else ()
    return tuple(dict.fromkeys(text for each in balancers for text in _refused(each, seen, lines)))


def _refused(watched: Watched, seen: Seen, lines: Lines) -> Iterator[str]:
    facts = seen.host(watched.device)
    if not isinstance(facts, HostState):
        return
    found = facts.values
    wanted = parse_state(watched.step.desired).values
    if mac := found.get(ADDRESS):
        address = wanted["virtual_address"]
        yield (
            f"virtual-address: {address} is already used by {mac}, which is not a balancer of this"
            " site.\n"
            f"  where  {place_of(lines, (*_PATH, 'address'), address)}\n"
            "  fix    choose a free address of that network, or take it from that machine. Nothing"
            " was changed on any device."
        )
    if router := found.get(ROUTER):
        number = _number(wanted)
        yield (
            f"virtual-router: {router} is a VRRP router of the number {number} in the network of"
            " the balancers.\n"
            f"  where  {place_of(lines, (*_PATH, 'router_id'), number)}\n"
            "  fix    choose another router_id, from 1 to 255. Nothing was changed on any device."
        )


def _number(wanted: Mapping[str, str]) -> str:
    found = (line.strip() for key, line in wanted.items() if key.startswith("keepalived.conf."))
    return next(line for line in found if line.startswith(_NUMBER)).removeprefix(_NUMBER)


def guards_refused(
    guards: Guards, plan: ClusterPlan, applied: Applied, drifts: tuple[DeviceDrift, ...]
) -> tuple[str, ...]:
    """Refuse, at preview and all at once, findings whose guard is `refuse`.

    An unread device gives no findings, so with `railyard:observe: never` no guard refuses.
    """
    known = applied.instances
    addresses = {switch.name: switch.endpoint.where for switch in plan.switches}
    addresses |= {each.device: each.step.endpoint.known(known).where for each in plan.watched}
    return tuple(
        _guard_refusal(drift.device, beside, addresses.get(drift.device, ""))
        for drift in drifts
        for beside in drift.beside
        if guards.way(beside.kind) == "refuse"
    )


def _guard_refusal(device: str, beside: ForeignSetting, where: str) -> str:
    return (
        f"guards: {device}: {beside.setting}; it is not ours, and it breaks {beside.breaks}\n"
        f"  where  {where}; guards.{beside.kind} is refuse. Nothing was changed on any device.\n"
        f"  fix    {plain_text(beside.fix)}; to go on with a warning: guards.{beside.kind}: warn"
    )
