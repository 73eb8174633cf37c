"""Which hosts may have to leave service, in which groups, and one step for each of them.

Whether a host really has to is read from the host when its turn comes: a step where nothing waits
looks once and ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from components.core.key_values import parse_state
from components.disruption.request import READY_DEADLINE_S, HostReboot
from components.hosts.keys.ask import needs_boot, needs_drain
from components.hosts.plan import HostPlan
from components.kubernetes.planes.base import KubernetesPlan
from components.kubernetes.reference import ClusterRef, refer_to
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.once import once
from components.model.texts import fold_names
from components.remote.step import RemoteStep

VERB: Final = "device reboot-host"


@dataclass(frozen=True, slots=True)
class HostRebootStep:
    """One look at a host that may end in a reboot of it."""

    name: str
    request: HostReboot
    serves: str
    """The converge step whose repair this one repeats: what it sets again may wait again."""

    @property
    def step(self) -> RemoteStep:
        """The same as a plain step, for plans and goldens."""
        asked = self.request
        phases_s = asked.drain_deadline_s + asked.boot_deadline_s + READY_DEADLINE_S
        return RemoteStep(
            name=self.name,
            endpoint=asked.endpoint,
            dialect="device",
            desired=asked.render(),
            apply=VERB,
            deadline_s=phases_s + 2 * asked.converge_deadline_s,
            why_no_undo="a reboot cannot be taken back; other steps put back what it loaded",
            reboots=True,
        )


@dataclass(frozen=True, slots=True)
class RebootGroup:
    """Hosts that may be out of service together; the next group waits for all of them."""

    number: int
    """From 1."""
    steps: tuple[HostRebootStep, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names, in the order of the file."""
        return tuple(step.request.endpoint.device for step in self.steps)


def group_hosts(hosts: Sequence[Host], max_unavailable: int) -> tuple[tuple[Host, ...], ...]:
    """Cut hosts into groups: workers first, then the others, each of them alone.

    Workers come first, because what goes wrong then goes wrong on a machine that is no member of
    a quorum; and at the first bad group all ends. Workers of different domains are never in one
    group: a group that fails is then of one rack, leaf or unit.

    Args:
        hosts: In the order of the file, which the groups keep.
        max_unavailable: Most workers in one group; less than 1 counts as 1.
    """
    groups = [*worker_groups([host for host in hosts if host.role == "worker"], max_unavailable)]
    for role in ("control_plane", "balancer", "storage", "login"):
        groups += [(host,) for host in hosts if host.role == role]
    return tuple(groups)


def worker_groups(workers: Sequence[Host], max_unavailable: int) -> Iterator[tuple[Host, ...]]:
    """Cut workers into groups of one domain each, one domain after the other."""
    size, domains = max(1, max_unavailable), dict[str | None, list[Host]]()
    for host in workers:
        domains.setdefault(host.domain, []).append(host)
    for members in domains.values():
        yield from (tuple(members[at : at + size]) for at in range(0, len(members), size))


def plan_reboots(
    spec: ClusterSpec, plans: Sequence[HostPlan], kubernetes: KubernetesPlan | None
) -> tuple[RebootGroup, ...]:
    """Plan the groups of all hosts on which something can wait for a drain or a boot."""
    by_name = {plan.name: plan for plan in plans}
    hosts = [host for host in spec.reached if may_wait(by_name[host.name])]
    cluster = refer_to(spec, kubernetes)
    groups: list[RebootGroup] = []
    for number, members in enumerate(group_hosts(hosts, spec.disruption.max_unavailable), 1):
        names = tuple(host.node for host in members)
        steps = [_step(spec, host, by_name[host.name], names, cluster) for host in members]
        groups.append(RebootGroup(number, tuple(steps)))
    return tuple(groups)


def may_wait(plan: HostPlan) -> bool:
    """Whether a host has a setting that jobs must make way for, or that only a boot loads."""
    return any(needs_drain(key) or needs_boot(key) for key in plan.desired.values)


@once
def _workers(spec: ClusterSpec) -> str:
    return fold_names(host.node for host in spec.workers)


def _step(
    spec: ClusterSpec,
    host: Host,
    plan: HostPlan,
    group: tuple[str, ...],
    cluster: ClusterRef | None,
) -> HostRebootStep:
    settings = parse_state(plan.converge.desired).values
    return HostRebootStep(
        name=f"{host.name}-reboot",
        request=HostReboot(
            endpoint=plan.endpoint,
            role=host.role,
            stack=settings["stack"],
            settings=settings,
            loads_firmware=not spec.hypervisors,
            group=group,
            cluster=cluster,
            reboots=spec.disruption.reboots,
            max_unavailable=spec.disruption.max_unavailable,
            converge_deadline_s=plan.converge.deadline_s,
            drain_deadline_s=spec.disruption.drain_deadline_s,
            boot_deadline_s=spec.disruption.boot_deadline_s,
            hcas=host.hcas,
            workers=_workers(spec) if cluster else "",
            node=host.node if host.node != host.name else "",
        ),
        serves=plan.converge.name,
    )
