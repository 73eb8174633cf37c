"""What an edit of the file would destroy for good: refused, unless it is allowed.

The file allows it (`kubernetes: {reset: allow}`, `disruption: {ports: allow}`), or for one update
`RAILYARD_CONFIRM`, which has the names of all that is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from components.core.key_values import parse_state
from components.drift.applied import Applied
from components.fabric.edit import applied_switch
from components.kubernetes.planes.k3s import ALLOWS_RESET
from components.kubernetes.planes.registries import CA_FILE
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.plan.make import ClusterPlan
from components.update.identity import planned_devices, recorded_devices, recorded_nodes

_ACCESS: Final = "-cluster-access"
_RESET: Final = "write `kubernetes: {reset: allow}`"


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that an update would destroy."""

    what: str
    """What is lost and by which edit, in words."""
    allowed: bool
    """The file allows it, or for servers the last update did."""
    fix: str
    names: tuple[str, ...] = ()
    """What to type to allow it for one update; none if the file alone can."""


def find_losses(spec: ClusterSpec, plan: ClusterPlan, applied: Applied) -> tuple[Loss, ...]:
    """All that this update would destroy."""
    servers = (*_servers(plan, applied),)
    cluster = () if servers else (*_workers(spec, plan, applied), *_cluster(spec, applied))
    return (*servers, *cluster, *_switches(spec, plan, applied))


def losses_refused(losses: tuple[Loss, ...], confirmed: frozenset[str]) -> tuple[str, ...]:
    """Refuse what neither the file nor a typed name allows, and a name of nothing that is lost."""
    refused = [_refusal(each) for each in losses if not is_allowed(each, confirmed)]
    names = {name for each in losses for name in each.names}
    if wrong := sorted(confirmed - names):
        lost = ", ".join(sorted(names)) or "nothing that can be confirmed"
        refused.append(
            f"confirm: {', '.join(wrong)} would not be lost in this update; it would lose {lost}\n"
            "  where  RAILYARD_CONFIRM. Nothing was changed on any device.\n"
            "  fix    take it out: a confirmation is for one update"
        )
    return tuple(refused)


def is_allowed(loss: Loss, confirmed: frozenset[str]) -> bool:
    """Whether the file allows a loss, or every name in it was typed."""
    return loss.allowed or (bool(loss.names) and confirmed.issuperset(loss.names))


def _refusal(loss: Loss) -> str:
    confirm = f"; or, for one update, set RAILYARD_CONFIRM={','.join(loss.names)}"
    return (
        f"protected: {loss.what}\n"
        "  where  this cannot be taken back. Nothing was changed on any device.\n"
        f"  fix    {loss.fix}{confirm if loss.names else ''}"
    )


def _servers(plan: ClusterPlan, applied: Applied) -> Iterator[Loss]:
    """The last server, or more than half of them: their etcd, with all that the cluster stores."""
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
    """All hosts that K3s is installed on, in either role: `roles_refused` refuses another role."""
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
    """Another name of the cluster, or no certificate authority for the registry any more."""
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
    """Switches that leave the file while hosts of the file are plugged in nowhere else."""
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
    """What the ports of switches are called that a host is plugged into."""
    rails = {f"{host.name}/{nic.rail}" for nic in host.nics if nic.rail}
    return rails | {f"{host.name}/hca-{number}" for number in range(host.hcas)}
