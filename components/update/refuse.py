"""Collect every reason to refuse an update, and find irreversible losses.

A refusal is a text: its first line states the fault, and the indented lines below give place and
fix. A new kind of refusal is one function of a `Situation` and one entry of `REFUSALS`.

The file permits a loss (`kubernetes: {reset: allow}`, `disruption: {ports: allow}`). For one
update, `RAILYARD_CONFIRM` permits it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Final, cast

from components.checks.addresses import as_ipv4
from components.core.key_values import parse_state
from components.core.problem import Lines
from components.disruption.leave_plan import renamed_nodes
from components.drift.applied import Applied
from components.drift.device_drift import DeviceDrift, Watched
from components.fabric.edit import applied_switch
from components.hosts.preview import hosts_refused, refuse_settings
from components.kubernetes.kubespray.perform import kubespray_changes
from components.kubernetes.kubespray.wanted import STEP as KUBESPRAY
from components.kubernetes.kubespray.wanted import WORKERS_KUBELET
from components.kubernetes.planes.k3s import ALLOWS_RESET
from components.kubernetes.planes.node_files import CA_FILE
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines
from components.update.decide import refusals
from components.update.identity import (
    identity_refused,
    planned_devices,
    recorded_devices,
    recorded_nodes,
    renamed_unsaid,
)
from components.update.refusals import balancers_refused, disruptions_refused, guards_refused
from components.update.seen import Seen
from components.update.servers import place_of, quorum_refused, roles_refused, upgrades_refused

_ACCESS: Final = "-cluster-access"
_RESET: Final = "write `kubernetes: {reset: allow}`"


@dataclass(frozen=True, slots=True)
class Loss:
    """One loss that an update would cause."""

    what: str
    """The loss and the edit that causes it, in words."""
    allowed: bool
    """The file permits it; for servers, the last update recorded that."""
    fix: str
    names: tuple[str, ...] = ()
    """Names to type to permit it for one update; empty if only the file can."""


def find_losses(spec: ClusterSpec, plan: ClusterPlan, applied: Applied) -> tuple[Loss, ...]:
    """Find everything that this update would destroy."""
    servers = (*_servers(plan, applied),)
    cluster = () if servers else (*_workers(spec, plan, applied), *_cluster(spec, applied))
    return (*servers, *cluster, *_switches(spec, plan, applied))


def losses_refused(losses: tuple[Loss, ...], confirmed: frozenset[str]) -> tuple[str, ...]:
    """Refuse losses that neither the file nor a typed name permits, and names without a loss."""
    refused = [
        _loss_refusal(each)
        for each in losses
        if not (each.allowed or (each.names and confirmed.issuperset(each.names)))
    ]
    names = {name for each in losses for name in each.names}
    if wrong := sorted(confirmed - names):
        lost = ", ".join(sorted(names)) or "nothing that can be confirmed"
        refused.append(
            f"confirm: {', '.join(wrong)} would not be lost in this update; it would lose {lost}\n"
            "  where  RAILYARD_CONFIRM. Nothing was changed on any device.\n"
            "  fix    take it out: a confirmation is for one update"
        )
    return tuple(refused)


def _loss_refusal(loss: Loss) -> str:
    confirm = f"; or, for one update, set RAILYARD_CONFIRM={','.join(loss.names)}"
    return (
        f"protected: {loss.what}\n"
        "  where  this cannot be taken back. Nothing was changed on any device.\n"
        f"  fix    {loss.fix}{confirm if loss.names else ''}"
    )


def _servers(plan: ClusterPlan, applied: Applied) -> Iterator[Loss]:
    """Report the loss of the only server, or of more than half: etcd and all its data."""
    had, kept = recorded_nodes(applied, "server"), _nodes(plan)
    gone = [name for name in had if name not in kept]
    if 2 * len(gone) <= len(had):
        return
    stdins = [applied.steps[f"{name}-k3s"].stdin for name in gone]
    named = ", ".join(gone)
    which = "the only server" if len(had) == 1 else f"{len(gone)} of {len(had)} servers"
    yield Loss(
        f"{named} would lose K3s: {which} of the cluster, with etcd, its certificate authority and"
        " all that is stored in it",
        all(ALLOWS_RESET in f"\n{stdin}" for stdin in stdins),
        f"put {named} back into the file; or put it back, {_RESET}, update, and then remove it",
    )


def _nodes(plan: ClusterPlan) -> set[str]:
    """Return all hosts with K3s in either role; `roles_refused` handles changed roles."""
    nodes = (*plan.kubernetes.servers, *plan.kubernetes.agents) if plan.kubernetes else ()
    return {step.endpoint.device for step in nodes}


def _workers(spec: ClusterSpec, plan: ClusterPlan, applied: Applied) -> Iterator[Loss]:
    had, kept = recorded_nodes(applied, "agent"), _nodes(plan)
    if len(had) > 1 and not kept.intersection(had):
        yield Loss(
            f"all {len(had)} workers of the cluster {spec.name} would leave it at once",
            _may_reset(spec),
            f"remove some of them, and the rest with another update; or {_RESET}",
            (spec.name,),
        )


def _may_reset(spec: ClusterSpec) -> bool:
    planes = (spec.k3s, spec.kubespray)
    return any(plane is not None and plane.reset == "allow" for plane in planes)


def _cluster(spec: ClusterSpec, applied: Applied) -> Iterator[Loss]:
    """Report another cluster name, or a removed certificate authority of the registry."""
    if spec.k3s is None and spec.kubespray is None:
        return
    access = [step for name, step in applied.steps.items() if name.endswith(_ACCESS) and step.stdin]
    was = parse_state(access[0].stdin).values.get("cluster", "") if access else ""
    if was and was != spec.name:
        yield Loss(
            f"the cluster {was} would become {spec.name}, and every object that Railyard made in it"
            " would be deleted and made again",
            _may_reset(spec),
            f"write `name: {was}`; or {_RESET}",
            (was,),
        )
    registry = spec.sources.registry
    nodes = [step for name, step in applied.steps.items() if name.endswith("-k3s")]
    had = any(f"\n{CA_FILE}." in f"\n{step.stdin}" for step in nodes)
    if had and (registry is None or registry.ca is None):
        yield Loss(
            "the nodes would lose the certificate authority of the registry, and pull no image"
            " from it any more",
            _may_reset(spec),
            f"write `sources.registry.ca` again; or {_RESET}",
            ("registry-ca",),
        )


def _switches(spec: ClusterSpec, plan: ClusterPlan, applied: Applied) -> Iterator[Loss]:
    """Report switches that leave the file while they connect hosts that stay in it."""
    now = planned_devices(plan)
    devices = recorded_devices(applied)
    unmanaged = (*spec.other_switches, *(spec.infiniband.switches if spec.infiniband else ()))
    plugged = {port.to for switch in spec.switches for port in switch.ports.values()}
    plugged |= {str(end) for switch in unmanaged for end in switch.ports.values()}
    loose = [
        host.name
        for host in spec.hosts
        if host.name in devices and not plugged.issuperset(_ends(host))
    ]
    for name, device in devices.items():
        if device.kind != "switch" or name in now or not loose:
            continue
        ports = len(applied_switch(applied.steps[f"{name}-apply"])[0].ports)
        if ports:
            yield Loss(
                f"{name} leaves the file while {', '.join(loose)} are cabled to it: its {ports}"
                " ports go back to their values of before",
                spec.disruption.ports != "deny",
                f"put {name} back into `switches`; or write `disruption: {{ports: allow}}`",
                (name,),
            )


def _ends(host: Host) -> set[str]:
    """Return the names that switch ports use for a host's ends."""
    rails = {f"{host.name}/{nic.rail}" for nic in host.nics if nic.rail}
    return rails | {f"{host.name}/hca-{number}" for number in range(host.hcas)}


@dataclass(frozen=True, slots=True)
class _Choice:
    """A key of the file that cannot change later."""

    rule: str
    key: str
    line: str
    """Start of the config.yaml line that only this choice writes."""
    on: str
    """The file's words with the choice."""
    off: str
    """The file's words without it."""


_CHOICES: Final = (
    _Choice(
        "secrets-encryption",
        "secrets_encryption",
        "secrets-encryption: true",
        "secrets_encryption: true",
        "secrets_encryption: false",
    ),
    _Choice("agent-token", "agent_token", "agent-token-file: ", "an agent_token", "no agent_token"),
)


def first_install_refused(plan: ClusterPlan, applied: Applied, lines: Lines) -> tuple[str, ...]:
    """Refuse to turn encryption of Secrets, or the agents' token, on or off later.

    K3s wants the same value on all servers at every start (sources.md#k3s). It turns encryption on
    later only by commands between two restarts of all servers.
    """
    if plan.kubernetes is None or not plan.kubernetes.servers:
        return ()
    first = plan.kubernetes.servers[0]
    recorded = applied.step(first.name)
    if recorded is None or not recorded.stdin:
        return ()
    return tuple(
        _refusal(choice, lines, had=had)
        for choice in _CHOICES
        if (had := _has(choice, recorded.stdin)) != _has(choice, first.desired)
    )


def _refusal(choice: _Choice, lines: Lines, *, had: bool) -> str:
    was, wants = (choice.on, choice.off) if had else (choice.off, choice.on)
    place = place_of(lines, ("kubernetes", choice.key), wants.rpartition(": ")[2])
    return (
        f"{choice.rule}: the cluster was installed with {was}, and the file says {wants}: K3s"
        f" chooses it at its first start.\n"
        f"  where  {place}\n"
        f"  fix    write {was}. Nothing was changed on any device."
    )


def _has(choice: _Choice, stdin: str) -> bool:
    values = parse_state(stdin).values.items()
    return any(
        key.startswith("config.yaml.") and value.startswith(choice.line) for key, value in values
    )


_LIST = ("kubernetes", "api_from")


def api_refused(plan: ClusterPlan, seen: Seen, lines: Lines) -> tuple[str, ...]:
    """Refuse an `api_from` without the address from which a server sees Railyard connect.

    An unread host is skipped, since its own step refuses. Sessions through a jump host or by IPv6
    are skipped too, since the API then sees another address.

    Args:
        plan: The wanted state.
        seen: The facts; hosts that serve the API report the session's source address.
        lines: The line of each value in the file.
    """
    found: dict[str, list[str]] = {}
    filters = plan.kubernetes.filters if plan.kubernetes else ()
    allowed = ""
    for watched in filters:
        allowed = parse_state(watched.step.desired).values["allowed"]
        peer = _peer(watched, seen)
        if peer is not None and not any(peer in IPv4Network(each) for each in allowed.split()):
            found.setdefault(str(peer), []).append(watched.step.endpoint.device)
    return tuple(
        (
            f"api-from: {', '.join(hosts)} would no longer be reached at the API by Railyard, which"
            f" comes from {address} there.\n"
            f"  where  {place_of(lines, _LIST, allowed)}\n"
            "  fix    add that address to api_from. Nothing was changed on any device."
        )
        for address, hosts in found.items()
    )


def _peer(watched: Watched, seen: Seen) -> IPv4Address | None:
    """Return the source address of the session, if the API sees the same one."""
    facts = seen.host(watched.device)
    address = as_ipv4(getattr(facts, "values", {}).get("peer", ""))
    if address is None or watched.step.endpoint.jump or address.is_loopback:
        return None
    return address


def alignment_refused(plan: ClusterPlan, applied: Applied, lines: Lines) -> tuple[str, ...]:
    """Refuse another alignment on nodes that kubespray installed.

    kubespray restarts a kubelet but keeps its CPU manager's state, and a kubelet refuses the state
    of another policy (its pkg/kubelet/cm/cpumanager), so each worker would be down until someone
    removes that file.
    """
    playbooks = plan.kubernetes.playbooks if plan.kubernetes else None
    recorded = applied.step(playbooks.step.name) if playbooks else None
    if playbooks is None or recorded is None or not recorded.stdin:
        return ()
    had, wanted = _kubelet(recorded.stdin), _kubelet(playbooks.step.desired)
    if had == wanted:
        return ()
    where = place_of(lines, ("kubernetes", "alignment"), str(wanted or "none"))
    return (
        (
            f"alignment: the cluster was installed with {had or 'no alignment'}, and kubespray does"
            " not change it on nodes that are there.\n"
            f"  where  {where}\n"
            "  fix    take the edit back. By hand: drain a worker, write the fields into"
            " /etc/kubernetes/kubelet-config.yaml, remove /var/lib/kubelet/cpu_manager_state, start"
            " its kubelet again. Nothing was changed on any device."
        ),
    )


def _kubelet(stdin: str) -> dict[str, object]:
    wanted = cast("dict[str, dict[str, object]]", parse_lines(stdin).get("wanted") or {})
    settings = wanted.get("settings") or {}
    return cast("dict[str, object]", settings.get(WORKERS_KUBELET) or {})


@dataclass(frozen=True, slots=True)
class Situation:
    """One update before its first resource: the wanted, applied and observed states."""

    spec: ClusterSpec
    plan: ClusterPlan
    applied: Applied
    seen: Seen
    drifts: tuple[DeviceDrift, ...]
    lines: Lines = field(default_factory=Lines)
    """The line of each value in the site file, as `CheckedSite.lines` has it."""
    confirmed: frozenset[str] = frozenset()
    """Names that the user typed to permit their loss in this update."""

    @property
    def known(self) -> Applied:
        """The applied state without the devices that `identity_refused` already reports."""
        names = tuple(
            f"{name}-" for name in renamed_unsaid(self.spec, self.plan, self.applied, self.seen)
        )
        if not names:
            return self.applied
        left = {
            name: step for name, step in self.applied.steps.items() if not name.startswith(names)
        }
        return replace(self.applied, steps=left)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses that this update would cause."""
        return find_losses(self.spec, self.plan, self.known)


def played_playbooks(
    plan: ClusterPlan, applied: Applied
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Describe kubespray's work in this update, and its refusals."""
    played = applied.step(KUBESPRAY)
    return kubespray_changes(plan.kubernetes, played.stdout if played else "")


REFUSALS: Final[tuple[Callable[[Situation], tuple[str, ...]], ...]] = (
    lambda at: identity_refused(at.spec, at.plan, at.applied, at.seen),
    lambda at: roles_refused(at.spec, at.plan, at.applied, at.lines),
    lambda at: losses_refused(at.losses, at.confirmed),
    lambda at: refusals(at.plan, at.applied, at.drifts),
    lambda at: guards_refused(at.spec.guards, at.plan, at.applied, at.drifts),
    lambda at: disruptions_refused(at.spec, at.plan, at.drifts, at.seen.devices, at.known),
    lambda at: quorum_refused(at.plan, at.applied, at.seen),
    lambda at: first_install_refused(at.plan, at.applied, at.lines),
    lambda at: alignment_refused(at.plan, at.applied, at.lines),
    lambda at: renamed_nodes(at.plan.kubernetes, at.applied),
    lambda at: api_refused(at.plan, at.seen, at.lines),
    lambda at: balancers_refused(at.plan, at.seen, at.lines),
    lambda at: upgrades_refused(at.spec, at.plan, at.applied, at.seen, at.lines),
    lambda at: hosts_refused(at.spec, at.plan.hosts, at.seen.devices),
    lambda at: refuse_settings(at.plan.hosts, at.seen.devices),
    lambda at: played_playbooks(at.plan, at.applied)[1],
)
"""In print order."""


def refuse_update(at: Situation) -> tuple[str, ...]:
    """Return every refusal of this update; empty if it may start."""
    return tuple(text for refuse in REFUSALS for text in refuse(at))
