"""Refuse interruptions that `disruption` forbids, addresses in use, failed guards, and losses.

The engine runs an exec when its text changed. A text without a good verdict must be sent again
although the file did not change, so a repeated run carries a number.

The file permits a loss (`kubernetes: {reset: allow}`, `disruption: {ports: allow}`). For one
update, `RAILYARD_CONFIRM` permits it by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Final

from components.checks.addresses import as_ipv4
from components.core.difference import Difference
from components.core.key_values import HostState, parse_state
from components.core.plain_text import plain_text
from components.core.problem import Finding, Place
from components.core.record import record, replace
from components.core.templates import finding_of
from components.disruption import forecast
from components.disruption.leave_plan import describe_leaving, leaving_nodes, leaving_refused
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift, Unreachable
from components.fabric import edit
from components.fabric.effects import interrupting, ports_of
from components.fabric.fabric_plan import SwitchPlan
from components.fabric.state import SwitchState
from components.fabric.targets import digest_of, number_of, numbered
from components.hypervisor.hypervisor_plan import reboots_refused
from components.kubernetes.kubespray.perform import kubespray_changes
from components.kubernetes.kubespray.wanted import STEP as KUBESPRAY
from components.kubernetes.kubespray.wanted import WORKERS_KUBELET
from components.kubernetes.manifest import map_at
from components.kubernetes.planes.k3s import ALLOWS_RESET
from components.kubernetes.planes.node_files import CA_FILE
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines
from components.update import identity
from components.update.seen import Facts, Situation
from components.update.servers import config_of, describe_servers

_PORTS: Final = ("disruption", "ports")
ADDRESS: Final = "others.address"
"""The MAC address of a machine that answers for the virtual address and is not a balancer."""
ROUTER: Final = "others.router"
"""The address of another VRRP router with the same number."""
_PATH: Final = ("kubernetes", "virtual_address")
_KEEPALIVED: Final = "keepalived.conf."
_NUMBER: Final = "virtual_router_id "
_ACCESS: Final = "-cluster-access"
LOSS: Final = "loss"
_CHOICES: Final = (
    ("secrets_encryption", "\nsecrets-encryption: true", "secrets_encryption: {}", "true", "false"),
    ("agent_token", "\nagent-token-file: ", "{} agent_token", "an", "no"),
)
"""Keys that cannot change later: the line in config.yaml that only this choice writes, the file's
words, and the word in them with and without the choice."""


def judge_disruptions(at: Situation) -> Iterator[Finding]:
    """Refuse, at preview, interruptions of traffic that the file denies.

    Always refuse reboots that would continue past a host which may not have come back. For an
    unread device, as with `railyard:observe: never`, every difference from the last applied state
    counts. If nothing was applied either, the step itself reads the device and refuses.
    """
    plan, facts, applied = at.plan, at.seen.devices, identity.known_state(at)
    seen = known_hosts(plan, facts, applied)
    away = {name: fact.reason for name, fact in facts.items() if isinstance(fact, Unreachable)}
    yield from forecast.passing_refused(plan.reboots, seen, away)
    if at.spec.disruption.ports != "allow":
        yield from _interrupting(at, applied)
    if at.spec.disruption.reboots == "deny":
        yield from reboots_refused(plan.hypervisors, seen)
        yield from forecast.departures_refused(plan.reboots, seen)
        # kubespray itself refuses that nodes leave.
        if plan.kubernetes is not None and plan.kubernetes.playbooks is None:
            yield from leaving_refused(leaving_nodes(plan.kubernetes, applied))


def host_departures(
    plan: ClusterPlan, facts: Mapping[str, Facts], applied: Applied
) -> tuple[str, ...]:
    """Describe which hosts the update drains or reboots, and in which group."""
    leaving = leaving_nodes(plan.kubernetes, applied) if plan.departures else ()
    going = forecast.forecast_departures(plan.reboots, known_hosts(plan, facts, applied))
    drained = (
        words
        for switch in plan.switches
        if (leave := plan.ports.get(switch.name))
        for words in leave.describe(_stopped(switch, facts, applied))
    )
    servers, hosts = describe_servers(plan, applied), map(str, going)
    return (*describe_leaving(leaving), *servers, *drained, *hosts)


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
            found[watched.device] = HostState({**was, forecast.IN_SERVICE: "yes"})
    return found | {name: fact for name, fact in facts.items() if isinstance(fact, HostState)}


def _interrupting(at: Situation, applied: Applied) -> Iterator[Finding]:
    policy, facts = at.spec.disruption.ports, at.seen.devices
    changing = {drift.device for drift in at.drifts if drift.edited or drift.differences}
    for switch in at.plan.switches:
        name, leave, seen = switch.name, at.plan.ports.get(switch.name), facts.get(switch.name)
        if leave is not None and policy == "drain":
            yield from leave.refused(_stopped(switch, facts, applied))
        elif switch.exec is not None:
            if switch.exec.interrupts and is_sent(switch, applied, at.drifts):
                words = {"device": name, "lines": "; ".join(switch.exec.interrupts)}
                yield finding_of(__file__, "exec-interrupts", Place(_PORTS, "deny"), **words)
        elif name in changing and (found := _interruptions(switch, seen, applied)):
            unread = " (against the last applied settings, since nothing was read)"
            base = unread if seen is None else ""
            words = {"device": name, "base": base, "words": edit.interrupted_words(switch, found)}
            yield finding_of(__file__, "interrupts", Place(_PORTS, policy), **words)


def _interruptions(switch: SwitchPlan, seen: Facts, applied: Applied) -> tuple[Difference, ...]:
    """Return the interruptions by known values; the step itself checks an unknown switch."""
    was = edit.last_applied(switch, applied)
    has = was if seen is None else seen
    if not isinstance(has, SwitchState):
        return ()
    before = _recorded(switch, applied)
    change = edit.Edit(switch.os, switch.desired, was or SwitchState(), before)
    return interrupting(change.effects(has))


def _stopped(switch: SwitchPlan, facts: Mapping[str, Facts], applied: Applied) -> tuple[str, ...]:
    """Return the ports that the update interrupts, as `ports_of` names them."""
    return ports_of(_interruptions(switch, facts.get(switch.name), applied))


def _recorded(switch: SwitchPlan, applied: Applied) -> SwitchState | None:
    """Return the values from before the first update, which removed settings go back to."""
    step = applied.step(switch.step_named("baseline"))
    was = edit.read_baseline(step.stdout) if step is not None and step.stdout else None
    return None if was is None else SwitchState.model_validate(was)


def switch_changes(
    spec: ClusterSpec, plan: ClusterPlan, applied: Applied, facts: Mapping[str, Facts]
) -> tuple[str, ...]:
    """Describe the changes on each switch and their interruptions."""
    found: dict[str, str] = {}
    for switch in plan.switches:
        seen, was = facts.get(switch.name), edit.last_applied(switch, applied)
        read = seen if isinstance(seen, SwitchState) else None
        before = _recorded(switch, applied)
        text = edit.preview_switch(switch, was, read, spec.disruption.ports, before)
        found |= {switch.name: text} if text else {}
    waves = edit.render_waves(plan.switches, found, spec.disruption.switch_waves.canary)
    return (*found.values(), *waves)


def exec_notes(
    switches: tuple[SwitchPlan, ...], applied: Applied, drifts: tuple[DeviceDrift, ...]
) -> dict[str, str]:
    """Return the run number of each exec step; a first run has none."""
    drifted = {drift.device for drift in drifts if drift.differences}
    notes: dict[str, str] = {}
    for switch in switches:
        name, save = switch.step_named("exec"), switch.step_named("save")
        sent = applied.step(name)
        if switch.exec is None or sent is None:
            continue
        # A failed judge of a text last sent leaves no state, or an old one.
        pairs = ((name, switch.step), (save, switch.step_named("saved")))
        judged = (map_at(parse_lines(applied.stdin(judge)), "judges") for _, judge in pairs)
        texts = zip((applied.step(name) for name, _ in pairs), judged, strict=True)
        good = all(each and digest_of(each.create) == judges.get("text") for each, judges in texts)
        number = number_of(sent.create) + (switch.name in drifted or not good)
        if number:
            notes[name] = str(number)
    return notes


def is_sent(switch: SwitchPlan, applied: Applied, drifts: tuple[DeviceDrift, ...]) -> bool:
    """Whether this update sends a switch's exec: its text is new, or runs again."""
    name = switch.step_named("exec")
    sent = applied.step(name)
    if switch.exec is None or sent is None:
        return switch.exec is not None
    run = exec_notes((switch,), applied, drifts).get(name, "")
    return sent.create != numbered(switch.os, switch.exec.apply, run)


def judge_executors(at: Situation) -> Iterator[Finding]:
    """Refuse a change of executor: the update would undo its own work."""
    for switch in at.plan.switches:
        step, save = switch.step_named("exec"), switch.step_named("save")
        if switch.exec is None and at.applied.step(step) is not None:
            yield finding_of(__file__, "executor", device=switch.name, step=step, save=save)


def judge_balancers(at: Situation) -> Iterator[Finding]:
    """Refuse a virtual address that another machine has, and a VRRP number that another router has.

    A balancer on which keepalived has the address is skipped, since it would find itself. An unread
    device is skipped: its step checks again before a change.
    """
    found: list[Finding] = []
    for watched in at.plan.kubernetes.balancers if at.plan.kubernetes else ():
        facts = at.seen.host(watched.device)
        read = facts.values if isinstance(facts, HostState) else {}
        wanted = parse_state(watched.step.desired).values
        if mac := read.get(ADDRESS):
            address = wanted["virtual_address"]
            place = Place((*_PATH, "address"), address)
            found.append(finding_of(__file__, "virtual-address", place, address=address, mac=mac))
        if router := read.get(ROUTER):
            files = (text.strip() for key, text in wanted.items() if key.startswith(_KEEPALIVED))
            number = next(each for each in files if each.startswith(_NUMBER)).removeprefix(_NUMBER)
            place, words = Place((*_PATH, "router_id"), number), {"router": router}
            found.append(finding_of(__file__, "virtual-router", place, number=number, **words))
    yield from dict.fromkeys(found)


def judge_guards(at: Situation) -> Iterator[Finding]:
    """Refuse, at preview and all at once, findings whose guard is `refuse`.

    An unread device gives no findings, so with `railyard:observe: never` no guard refuses.
    """
    found = ((drift.device, each) for drift in at.drifts for each in drift.beside)
    for device, each in found:
        if at.spec.guards.way(each.kind) == "refuse":
            words = {"setting": each.setting, "breaks": each.breaks, "guard": each.kind}
            words |= {"place": at.addresses.get(device, ""), "mend": plain_text(each.fix)}
            yield finding_of(__file__, "guards", **words, device=device)


@record
class Loss:
    """One loss that an update would cause."""

    found: Finding
    """The loss and the edit that causes it."""
    allowed: bool
    """The file permits it; for servers, the last update recorded that."""
    names: tuple[str, ...] = ()
    """Names to type to permit it for one update; empty if only the file can."""


def find_losses(at: Situation) -> tuple[Loss, ...]:
    """Find everything that this update would destroy."""
    spec, plan, applied = at.spec, at.plan, identity.known_state(at)
    # In either role: `judge_roles` handles changed roles.
    installs = plan.kubernetes.installs if plan.kubernetes else ()
    kept = {step.endpoint.device for step in installs}
    had = identity.recorded_nodes(applied, "server")
    gone = [name for name in had if name not in kept]
    cluster: list[Loss] = []
    if 2 * len(gone) > len(had):  # more than half: etcd and all its data
        which = "the only server" if len(had) == 1 else f"{len(gone)} of {len(had)} servers"
        found = finding_of(__file__, "servers", gone=", ".join(gone), which=which)
        allowed = all(ALLOWS_RESET in f"\n{applied.stdin(f'{name}-k3s')}" for name in gone)
        cluster.append(Loss(found, allowed))
    return (*(cluster or _cluster(spec, applied, kept)), *_switches(spec, plan, applied))


def judge_losses(at: Situation) -> Iterator[Finding]:
    """Refuse losses that neither the file nor a typed name permits, and names without a loss.

    Permitted losses are warnings with the rule `loss`.
    """
    losses = find_losses(at)
    for each in losses:
        if each.allowed or (each.names and at.confirmed.issuperset(each.names)):
            yield Finding(f"WILL BE LOST: {each.found.what}", severity="warning", rule=LOSS)
        else:
            confirm = f"; or, for one update, set RAILYARD_CONFIRM={','.join(each.names)}"
            yield replace(each.found, fix=each.found.fix + (confirm if each.names else ""))
    names = {name for each in losses for name in each.names}
    if wrong := sorted(at.confirmed - names):
        lost = ", ".join(sorted(names)) or "nothing that can be confirmed"
        yield finding_of(__file__, "confirm", wrong=", ".join(wrong), lost=lost)


def _cluster(spec: ClusterSpec, applied: Applied, kept: set[str]) -> Iterator[Loss]:
    """Report the loss of all workers, another cluster name, or a removed CA of the registry."""
    planes = [plane for plane in (spec.k3s, spec.kubespray) if plane is not None]
    may_reset = any(plane.reset == "allow" for plane in planes)
    had = identity.recorded_nodes(applied, "agent")
    if len(had) > 1 and not kept.intersection(had):
        found = finding_of(__file__, "workers", count=len(had), cluster=spec.name)
        yield Loss(found, may_reset, (spec.name,))
    if not planes:
        return
    steps = [(name, step.stdin) for name, step in applied.steps.items() if step.stdin]
    access = next((stdin for name, stdin in steps if name.endswith(_ACCESS)), "")
    was = parse_state(access).values.get("cluster", "")
    if was and was != spec.name:
        found = finding_of(__file__, "cluster-name", was=was, cluster=spec.name)
        yield Loss(found, may_reset, (was,))
    registry = spec.sources.registry
    nodes = (stdin for name, stdin in steps if name.endswith("-k3s"))
    has_ca = registry is not None and registry.ca is not None
    if not has_ca and any(f"\n{CA_FILE}." in f"\n{stdin}" for stdin in nodes):
        yield Loss(finding_of(__file__, "registry-ca"), may_reset, ("registry-ca",))


def _switches(spec: ClusterSpec, plan: ClusterPlan, applied: Applied) -> Iterator[Loss]:
    """Report switches that leave the file while they connect hosts that stay in it."""
    now, devices = identity.planned_devices(plan), identity.recorded_devices(applied)
    unmanaged = (*spec.other_switches, *(spec.infiniband.switches if spec.infiniband else ()))
    plugged = {port.to for switch in spec.switches for port in switch.ports.values()}
    plugged |= {str(end) for switch in unmanaged for end in switch.ports.values()}
    loose = [
        host.name
        for host in spec.hosts
        if host.name in devices
        and not plugged.issuperset(
            [f"{host.name}/{nic.rail}" for nic in host.nics if nic.rail]
            + [f"{host.name}/hca-{number}" for number in range(host.hcas)]
        )
    ]
    for name, device in devices.items() if loose else ():
        if device.kind != "switch" or name in now:
            continue
        if ports := len(edit.applied_switch(applied.steps[f"{name}-apply"])[0].ports):
            hosts = ", ".join(loose)
            found = finding_of(__file__, "switch", name=name, hosts=hosts, ports=ports)
            yield Loss(found, spec.disruption.ports != "deny", (name,))


def judge_first_install(at: Situation) -> Iterator[Finding]:
    """Refuse to turn encryption of Secrets, or the agents' token, on or off later.

    K3s wants the same value on all servers at every start (sources.md#k3s). It turns encryption on
    later only by commands between two restarts of all servers.
    """
    if at.plan.kubernetes is None or not at.plan.kubernetes.servers:
        return
    first = at.plan.kubernetes.servers[0]
    recorded = at.applied.stdin(first.name)
    for key, line, words, on, off in _CHOICES if recorded else ():
        had, has = (line in f"\n{config_of(stdin)}" for stdin in (recorded, first.desired))
        if had != has:
            was, wants = (words.format(on if each else off) for each in (had, has))
            place = Place(("kubernetes", key), wants.rpartition(": ")[2])
            rule = key.replace("_", "-")
            yield finding_of(__file__, "first-install", place, rule=rule, was=was, wants=wants)


def judge_api(at: Situation) -> Iterator[Finding]:
    """Refuse an `api_from` without the address from which a server sees Railyard connect.

    An unread host is skipped, since its own step refuses. Sessions through a jump host or by IPv6
    are skipped too, since the API then sees another address.
    """
    found: dict[str, list[str]] = {}
    allowed = ""
    for watched in at.plan.kubernetes.filters if at.plan.kubernetes else ():
        facts, end = at.seen.host(watched.device), watched.step.endpoint
        peer = as_ipv4(facts.values.get("peer", "")) if isinstance(facts, HostState) else None
        allowed = parse_state(watched.step.desired).values["allowed"]
        if peer is None or end.jump or peer.is_loopback:
            continue
        if not any(peer in IPv4Network(each) for each in allowed.split()):
            found.setdefault(str(peer), []).append(end.device)
    for address, hosts in found.items():
        place, words = Place(("kubernetes", "api_from"), allowed), {"hosts": ", ".join(hosts)}
        yield finding_of(__file__, "api-from", place, address=address, **words)


def judge_alignment(at: Situation) -> Iterator[Finding]:
    """Refuse another alignment on nodes that kubespray installed.

    kubespray restarts a kubelet but keeps its CPU manager's state, and a kubelet refuses the state
    of another policy (its pkg/kubelet/cm/cpumanager), so each worker would be down until someone
    removes that file.
    """
    playbooks = at.plan.kubernetes.playbooks if at.plan.kubernetes else None
    recorded = at.applied.stdin(playbooks.step.name) if playbooks else ""
    if playbooks is None or not recorded:
        return
    had, wanted = (
        map_at(parse_lines(stdin), "wanted", "settings", WORKERS_KUBELET)
        for stdin in (recorded, playbooks.step.desired)
    )
    if had != wanted:
        place = Place(("kubernetes", "alignment"), str(wanted or "none"))
        yield finding_of(__file__, "alignment", place, had=had or "no alignment")


def judge_playbooks(at: Situation) -> Iterator[Finding]:
    """Refuse what kubespray cannot do."""
    yield from map(Finding, played_playbooks(at)[1])


def played_playbooks(at: Situation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Describe kubespray's work in this update, and its refusals."""
    played = at.applied.step(KUBESPRAY)
    return kubespray_changes(at.plan.kubernetes, played.stdout if played else "")
