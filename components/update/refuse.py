"""Find irreversible losses, and edits that a cluster takes only at its first installation.

The file permits a loss (`kubernetes: {reset: allow}`, `disruption: {ports: allow}`). For one
update, `RAILYARD_CONFIRM` permits it by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final, cast

from components.checks.addresses import as_ipv4
from components.core.key_values import parse_state
from components.core.problem import Finding, Place, refusal
from components.drift.applied import Applied
from components.drift.device_drift import Watched
from components.fabric.edit import applied_switch
from components.kubernetes.kubespray.perform import kubespray_changes
from components.kubernetes.kubespray.wanted import STEP as KUBESPRAY
from components.kubernetes.kubespray.wanted import WORKERS_KUBELET
from components.kubernetes.planes.k3s import ALLOWS_RESET
from components.kubernetes.planes.node_files import CA_FILE
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.plan.make import ClusterPlan
from components.remote.lines import parse_lines
from components.update.identity import (
    known_state,
    planned_devices,
    recorded_devices,
    recorded_nodes,
)
from components.update.seen import Seen, Situation

_ACCESS: Final = "-cluster-access"
_RESET: Final = "write `kubernetes: {reset: allow}`"


LOSS: Final = "loss"


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


def find_losses(at: Situation) -> tuple[Loss, ...]:
    """Find everything that this update would destroy."""
    spec, plan, applied = at.spec, at.plan, known_state(at)
    servers = (*_servers(plan, applied),)
    cluster = () if servers else (*_workers(spec, plan, applied), *_cluster(spec, applied))
    return (*servers, *cluster, *_switches(spec, plan, applied))


def judge_losses(at: Situation) -> Iterator[Finding]:
    """Refuse losses that neither the file nor a typed name permits, and names without a loss.

    Permitted losses are warnings with the rule `loss`.
    """
    losses = find_losses(at)
    for each in losses:
        if each.allowed or (each.names and at.confirmed.issuperset(each.names)):
            yield Finding(f"WILL BE LOST: {each.what}", severity="warning", rule=LOSS)
        else:
            confirm = f"; or, for one update, set RAILYARD_CONFIRM={','.join(each.names)}"
            fix = each.fix + (confirm if each.names else "")
            yield refusal("protected", each.what, "nothing can undo it", fix)
    names = {name for each in losses for name in each.names}
    if wrong := sorted(at.confirmed - names):
        lost = ", ".join(sorted(names)) or "nothing that can be confirmed"
        what = f"{', '.join(wrong)} would not be lost in this update; it would lose {lost}"
        fix = "take it out: a confirmation is for one update"
        yield refusal("confirm", what, "RAILYARD_CONFIRM", fix)


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
        f"{named} would lose K3s: {which} of the cluster, with etcd, its certificate authority and "
        "all its data",
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
        what = f"all {len(had)} workers of the cluster {spec.name} would leave it at once"
        fix = f"remove some with this update, and the rest with another; or {_RESET}"
        yield Loss(what, _may_reset(spec), fix, (spec.name,))


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
        what = (
            f"the cluster {was} would become {spec.name}, and every object that Railyard made in it"
            " would be deleted and made again"
        )
        yield Loss(what, _may_reset(spec), f"write `name: {was}`; or {_RESET}", (was,))
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


def judge_first_install(at: Situation) -> Iterator[Finding]:
    """Refuse to turn encryption of Secrets, or the agents' token, on or off later.

    K3s wants the same value on all servers at every start (sources.md#k3s). It turns encryption on
    later only by commands between two restarts of all servers.
    """
    if at.plan.kubernetes is None or not at.plan.kubernetes.servers:
        return
    first = at.plan.kubernetes.servers[0]
    recorded = at.applied.stdin(first.name)
    for choice in _CHOICES if recorded else ():
        had = _has(choice, recorded)
        if had == _has(choice, first.desired):
            continue
        was, wants = (choice.on, choice.off) if had else (choice.off, choice.on)
        yield refusal(
            choice.rule,
            f"the cluster was installed with {was}, and the file says {wants}: K3s chooses it at"
            " its first start.",
            Place(("kubernetes", choice.key), wants.rpartition(": ")[2]),
            f"write {was}",
        )


def _has(choice: _Choice, stdin: str) -> bool:
    values = parse_state(stdin).values.items()
    return any(
        key.startswith("config.yaml.") and value.startswith(choice.line) for key, value in values
    )


_LIST = ("kubernetes", "api_from")


def judge_api(at: Situation) -> Iterator[Finding]:
    """Refuse an `api_from` without the address from which a server sees Railyard connect.

    An unread host is skipped, since its own step refuses. Sessions through a jump host or by IPv6
    are skipped too, since the API then sees another address.
    """
    found: dict[str, list[str]] = {}
    filters = at.plan.kubernetes.filters if at.plan.kubernetes else ()
    allowed = ""
    for watched in filters:
        allowed = parse_state(watched.step.desired).values["allowed"]
        peer = _peer(watched, at.seen)
        if peer is not None and not any(peer in IPv4Network(each) for each in allowed.split()):
            found.setdefault(str(peer), []).append(watched.step.endpoint.device)
    for address, hosts in found.items():
        what = (
            f"{', '.join(hosts)} would no longer be reached at the API by Railyard, which comes"
            f" from {address} there."
        )
        yield refusal("api-from", what, Place(_LIST, allowed), "add that address to api_from")


def _peer(watched: Watched, seen: Seen) -> IPv4Address | None:
    """Return the source address of the session, if the API sees the same one."""
    facts = seen.host(watched.device)
    address = as_ipv4(getattr(facts, "values", {}).get("peer", ""))
    if address is None or watched.step.endpoint.jump or address.is_loopback:
        return None
    return address


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
    had, wanted = _kubelet(recorded), _kubelet(playbooks.step.desired)
    if had != wanted:
        yield refusal(
            "alignment",
            f"the cluster was installed with {had or 'no alignment'}, and kubespray does not change"
            " it on existing nodes.",
            Place(("kubernetes", "alignment"), str(wanted or "none")),
            "undo the edit. To change it yourself: drain a worker, write the fields into"
            " /etc/kubernetes/kubelet-config.yaml, remove /var/lib/kubelet/cpu_manager_state, start"
            " its kubelet again",
        )


def _kubelet(stdin: str) -> dict[str, object]:
    wanted = cast("dict[str, dict[str, object]]", parse_lines(stdin).get("wanted") or {})
    settings = wanted.get("settings") or {}
    return cast("dict[str, object]", settings.get(WORKERS_KUBELET) or {})


def judge_playbooks(at: Situation) -> Iterator[Finding]:
    """Refuse what kubespray cannot do."""
    yield from map(Finding, played_playbooks(at)[1])


def played_playbooks(at: Situation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Describe kubespray's work in this update, and its refusals."""
    played = at.applied.step(KUBESPRAY)
    return kubespray_changes(at.plan.kubernetes, played.stdout if played else "")
