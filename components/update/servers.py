"""Servers and balancers that are lost: what still runs, what that means, and the next command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from components.core.key_values import HostState
from components.drift.applied import Applied
from components.drift.device_drift import Unreachable
from components.drift.watched import Watched
from components.plan.make import ClusterPlan
from components.update.seen import Seen

API: Final = "k3s.api"
"""What a server says of its own API: `ok`, or why not. A part of each look, and no setting."""
_RUNS: Final = "active"
_RESTORE: Final = "docs/howto/lose-a-server.md"


@dataclass(frozen=True, slots=True)
class Part:
    """One server, or one service of a balancer, as it was looked at."""

    name: str
    state: str
    """In words; empty where all is well."""
    reached: bool
    """Its host answers, so that an update can start it again."""


def servers_of(plan: ClusterPlan, applied: Applied, seen: Seen) -> tuple[Part, ...]:
    """The servers that were installed and looked at."""
    if plan.kubernetes is None:
        return ()
    names = {step.name for step in plan.kubernetes.servers}
    watched = [each for each in plan.kubernetes.watched_nodes if each.step.name in names]
    return _parts(watched, applied, seen, "k3s.service")


def _parts(watched: list[Watched], applied: Applied, seen: Seen, service: str) -> tuple[Part, ...]:
    found: list[Part] = []
    for each in watched:
        facts, recorded = seen.host(each.device), applied.step(each.step.name)
        if facts is None or recorded is None or not recorded.stdin:
            continue
        state = _state(facts, service)
        name = each.device.removesuffix(" k3s")
        found.append(Part(name, state, not isinstance(facts, Unreachable)))
    return tuple(found)


def _state(facts: HostState | Unreachable, service: str) -> str:
    if isinstance(facts, Unreachable):
        return f"is unreachable ({facts.reason})"
    running = facts.values.get(service, "absent").rpartition("/")[2]
    if running != _RUNS:
        return f"does not run ({service} is {running})"
    said = facts.values.get(API, "ok")
    return "" if said == "ok" else f"runs, and its API does not answer ({said})"


def lost_servers(plan: ClusterPlan, applied: Applied, seen: Seen) -> tuple[str, ...]:
    """What is said of servers and balancers that are lost, before an update and by `drift`.

    Args:
        plan: All that is wanted.
        applied: What was last applied: what was never installed cannot be lost.
        seen: What was observed.
    """
    servers = servers_of(plan, applied, seen)
    lost = [each for each in servers if each.state]
    balancers = list(plan.kubernetes.balancers) if plan.kubernetes else []
    down = [each for each in _parts(balancers, applied, seen, "service.active") if each.state]
    said: list[str] = []
    if lost and len(servers) > 1:
        said.append(_words_of_servers(plan, servers, lost))
    if down and len(lost) < len(servers):
        count = len({each.step.endpoint.device for each in balancers})
        said.append(_words_of_balancers(plan, down, count))
    return tuple(said)


def _words_of_servers(plan: ClusterPlan, servers: tuple[Part, ...], lost: list[Part]) -> str:
    needed, left = len(servers) // 2 + 1, len(servers) - len(lost)
    states = "; ".join(f"{each.name} {each.state}" for each in lost)
    if left >= needed:
        spare = left - needed
        more = f"{spare} more may be lost" if spare else "the loss of one more ends the API"
        return (
            f"{len(lost)} of {len(servers)} servers are lost: {states}. Nothing of the cluster is"
            f" lost: {left} hold all of it, and {more}. Next: {_next(plan, lost)}"
        )
    return (
        f"the cluster has no quorum: {left} of {len(servers)} servers are well, and etcd needs"
        f" {needed}: {states}. Jobs that run go on; nothing new starts. What is on the servers'"
        f" disks is not lost. Next: {_next(plan, lost)}; if the disks of {needed} or more are lost,"
        f" reset the cluster to one that has its data, or restore a snapshot: {_RESTORE}"
    )


def _next(plan: ClusterPlan, lost: list[Part]) -> str:
    found: list[str] = []
    if away := [each.name for each in lost if not each.reached]:
        found.append(f"bring {', '.join(away)} back, or replace the machine and its host key")
    if any(each.reached for each in lost):
        found.append(f"`pulumi up -s {plan.stack}` starts what does not run where the host answers")
    return ", then ".join(found)


def _words_of_balancers(plan: ClusterPlan, down: list[Part], balancers: int) -> str:
    states = "; ".join(f"{each.name} {each.state}" for each in down)
    hosts = {each.name.partition(" ")[0] for each in down}
    what = (
        "the other balancer has the address, and its loss would cut users off"
        if len(hosts) < balancers
        else "users and kubectl do not reach the API; nodes that have joined go on"
    )
    return f"{states}: {what}. Next: {_next(plan, down)}"


def quorum_refused(plan: ClusterPlan, applied: Applied, seen: Seen) -> tuple[str, ...]:
    """Refuse an update that would wait in vain: too few hosts of servers answer for a majority."""
    servers = servers_of(plan, applied, seen)
    reached = sum(each.reached for each in servers)
    needed = len(servers) // 2 + 1
    if len(servers) <= 1 or reached >= needed:
        return ()
    states = "; ".join(f"{each.name} {each.state}" for each in servers if each.state)
    return (
        (
            f"quorum: {reached} of {len(servers)} servers answer, and etcd needs {needed}:"
            f" {states}\n"
            "  where  no step of this update could end; nothing was changed on any device, and what"
            " is on the servers' disks is not lost.\n"
            f"  fix    bring {needed - reached} of them back; if their disks are lost: {_RESTORE}"
        ),
    )
