"""Group hosts that may leave service for a reboot or a K3s upgrade, with one step each.

The host reports in its turn whether it must boot; without waiting changes its step reads once and
ends. An upgrade step exists only from a node's first upgrade on: a site without upgrades keeps none
in its state, and a first install does not wait for a group (`chosen`).

The limits of `kubernetes.version` follow Kubernetes' version skew policy and K3s' documentation of
upgrades (lab/sources.md#k3s).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from components.catalogue.operator_versions import parse_k3s
from components.core.key_values import HostState, parse_state
from components.core.plain_text import shortened
from components.core.problem import Finding, Place
from components.core.record import field, record, replace
from components.core.templates import finding_of
from components.core.to_json import OMIT_EMPTY
from components.disruption.request import READY_DEADLINE_S, HostReboot, NodeUpgrade
from components.drift.applied import Applied
from components.hosts.host_plan import HostPlan
from components.hosts.keys.ask import find_row, needs_drain
from components.kubernetes.planes.base import KubernetesPlan, refer_to
from components.kubernetes.planes.node_files import arguments_in
from components.model.cluster import ClusterSpec, units_of_hosts
from components.model.hosts import Host
from components.model.texts import fold_names
from components.remote.lines import parse_lines
from components.remote.step import RemoteStep
from components.remote.tools import ToolCall

REBOOT_VERB: Final = "device reboot-hosts"
HOSTS_A_STEP: Final = 100
"""Hosts of one resource: the engine hands its last output, 80 bytes a host, to the next run."""
UPGRADE_VERB: Final = "device upgrade-node"
UPGRADE_SUFFIX: Final = "-upgrade"
_SHOWN: Final = 8
"""Most nodes that a refusal lists."""


@record
class HostRebootStep:
    """A step that reads a host, and may reboot it."""

    name: str
    request: HostReboot
    serves: str
    """The converge step whose repair also repeats this step, since its settings may wait again."""

    @property
    def step(self) -> RemoteStep:
        """The step as a `RemoteStep`, for plans and goldens."""
        asked = self.request
        phases_s = asked.drain_deadline_s + asked.boot_deadline_s + READY_DEADLINE_S
        return RemoteStep(
            name=self.name,
            endpoint=asked.endpoint,
            dialect="device",
            desired=asked.render(),
            apply=REBOOT_VERB,
            deadline_s=phases_s + 2 * asked.converge_deadline_s,
            why_no_undo="a reboot cannot be taken back; other steps put back what it loaded",
            reboots=True,
        )


@record
class RebootGroup:
    """Hosts that may be out of service together; the next group waits for all."""

    number: int
    """From 1."""
    steps: tuple[HostRebootStep, ...]
    unit: str = field(default="", metadata=OMIT_EMPTY)
    """The unit of a split site; its stack has the group."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names, in file order."""
        return tuple(step.request.endpoint.device for step in self.steps)


def reboot_parts(groups: Sequence[RebootGroup]) -> Mapping[str, list[HostRebootStep]]:
    """Put whole groups of one unit together, up to `HOSTS_A_STEP` hosts, each under its name."""
    parts: dict[str, list[HostRebootStep]] = {}
    last: dict[str, int] = {}
    for group in groups:
        head = f"{group.unit}-" if group.unit else ""
        number = last.setdefault(head, 1)
        there = len(parts.get(f"{head}{number}", ()))
        if there and there + len(group.steps) > HOSTS_A_STEP:
            last[head] = number = number + 1
        parts.setdefault(f"{head}{number}", []).extend(group.steps)
    return parts


def group_hosts(
    hosts: Sequence[Host], max_unavailable: int, units: Mapping[str, str] | None = None
) -> tuple[tuple[Host, ...], ...]:
    """Split hosts into groups: workers first, then each other host alone.

    Workers come first, so a fault appears on a machine outside any quorum, and the first failed
    group stops the update. A group never mixes workers of different domains, so a failed group
    affects only one rack, leaf or unit, nor of different stacks: `units` maps hosts to their own.
    Groups keep the order of the file.
    """
    workers = [host for host in hosts if host.role == "worker"]
    groups = [*worker_groups(workers, max_unavailable, units)]
    for role in ("control_plane", "balancer", "storage", "login"):
        groups += [(host,) for host in hosts if host.role == role]
    return tuple(groups)


def worker_groups(
    workers: Sequence[Host], max_unavailable: int, units: Mapping[str, str] | None = None
) -> Iterator[tuple[Host, ...]]:
    """Split workers into groups of one unit and one domain, domain by domain."""
    size, domains = max(1, max_unavailable), dict[tuple[str | None, ...], list[Host]]()
    for host in workers:
        domains.setdefault(((units or {}).get(host.name), host.domain), []).append(host)
    for members in domains.values():
        yield from (tuple(members[at : at + size]) for at in range(0, len(members), size))


def plan_reboots(
    spec: ClusterSpec, plans: Sequence[HostPlan], kubernetes: KubernetesPlan | None
) -> tuple[RebootGroup, ...]:
    """Plan the groups of all hosts that may need a drain or a boot."""
    by_name = {plan.name: plan for plan in plans}
    waiting = {
        plan.name
        for plan in plans
        if any(needs_drain(key) or find_row(key).loads_at_start for key in plan.desired.values)
    }
    hosts = [host for host in spec.reached if host.name in waiting]
    cluster = refer_to(spec, kubernetes)
    workers = fold_names(host.node for host in spec.workers) if cluster else ""
    groups, units = list[RebootGroup](), units_of_hosts(spec)
    apart = group_hosts(hosts, spec.disruption.max_unavailable, units)
    for number, members in enumerate(apart, 1):
        steps: list[HostRebootStep] = []
        for host in members:
            plan = by_name[host.name]
            settings = parse_state(plan.converge.desired).values
            request = HostReboot(
                endpoint=plan.endpoint,
                role=host.role,
                stack=settings["stack"],
                settings=settings,
                loads_firmware=not spec.hypervisors,
                group=tuple(each.node for each in members),
                cluster=cluster,
                reboots=spec.disruption.reboots,
                max_unavailable=spec.disruption.max_unavailable,
                converge_deadline_s=plan.converge.deadline_s,
                drain_deadline_s=spec.disruption.drain_deadline_s,
                boot_deadline_s=spec.disruption.boot_deadline_s,
                hcas=host.hcas,
                workers=workers,
                node=host.node if host.node != host.name else "",
            )
            steps.append(HostRebootStep(f"{host.name}-reboot", request, plan.converge.name))
        groups.append(RebootGroup(number, tuple(steps), units.get(members[0].name, "")))
    return tuple(groups)


@record
class UpgradeStep:
    """The upgrade of one node."""

    request: NodeUpgrade
    install: str
    """Name of the step that installed K3s there."""
    kept: str = ""
    """The recorded stdin of a finished upgrade, which keeps it from running again."""

    @property
    def name(self) -> str:
        """`<node>-upgrade`."""
        return f"{self.request.name}{UPGRADE_SUFFIX}"


@record
class UpgradeGroup:
    """Nodes that may be out of service together; the next group waits for all."""

    steps: tuple[UpgradeStep, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names, in file order."""
        return tuple(step.request.name for step in self.steps)


def plan_upgrades(spec: ClusterSpec, kubernetes: KubernetesPlan | None) -> tuple[UpgradeGroup, ...]:
    """Plan the groups of all nodes; empty if Railyard does not install K3s."""
    cluster = refer_to(spec, kubernetes)
    if spec.k3s is None or kubernetes is None or cluster is None:
        return ()
    installs = {step.endpoint.device: step for step in (*kubernetes.servers, *kubernetes.agents)}
    disruption, workers = spec.disruption, fold_names(host.node for host in spec.workers)
    # Servers come first, since a kubelet may be older than its API server, but never newer. They
    # upgrade one at a time: each is a member of etcd, and two could be its majority.
    workers_in_groups = worker_groups(spec.workers, disruption.max_unavailable)
    groups: list[UpgradeGroup] = []
    for members in (*((host,) for host in spec.servers), *workers_in_groups):
        steps: list[UpgradeStep] = []
        for host in members:
            install = installs[host.name]
            lines = dict(parse_state(install.desired).values)
            if "cluster" in lines:
                lines["cluster"] = "running"  # an upgraded cluster already exists
            request = NodeUpgrade(
                endpoint=install.endpoint,
                role="control_plane" if host.role == "control_plane" else "worker",
                stack=lines["stack"],
                version=kubernetes.version,
                group=tuple(each.node for each in members),
                cluster=cluster,
                reboots=disruption.reboots,
                max_unavailable=disruption.max_unavailable,
                drain_deadline_s=disruption.drain_deadline_s,
                install_deadline_s=install.deadline_s,
                arguments=install.apply.arguments if isinstance(install.apply, ToolCall) else (),
                install=HostState(lines).render(),
                workers=workers,
                kubelet=arguments_in(lines),
            )
            steps.append(UpgradeStep(request, install.name))
        groups.append(UpgradeGroup(tuple(steps)))
    return tuple(groups)


def recorded_release(applied: Applied, install: str) -> str:
    """Return the release that an install step last installed; empty if it never ran."""
    return parse_state(applied.stdin(install)).values.get("version", "")


def chosen(
    groups: tuple[UpgradeGroup, ...],
    applied: Applied,
    versions: Mapping[str, str],
    new: Collection[str] = (),
) -> tuple[UpgradeGroup, ...]:
    """Choose this update's steps: other releases, and finished upgrades; not `new` machines."""
    found = (
        tuple(
            each
            for step in group.steps
            if step.request.name not in new and (each := _chosen(step, applied, versions))
        )
        for group in groups
    )
    return tuple(UpgradeGroup(steps) for steps in found if steps)


def _chosen(step: UpgradeStep, applied: Applied, versions: Mapping[str, str]) -> UpgradeStep | None:
    wanted, installed = step.request.version, recorded_release(applied, step.install)
    runs = versions.get(step.request.name, installed)
    recorded, kubelet = applied.stdin(step.name), step.request.kubelet
    last = parse_lines(recorded)
    if (last.get("version"), last.get("kubelet", "")) == (wanted, kubelet):
        return replace(step, kept=recorded)
    if not installed:
        return None
    had = arguments_in(parse_state(applied.stdin(step.install)).values)
    if (installed, had) == (wanted, kubelet):
        return None  # its install step already used this release
    request = replace(step.request, before=runs, leaves="" if kubelet else had)
    return replace(step, request=request)


def due(groups: tuple[UpgradeGroup, ...]) -> tuple[UpgradeGroup, ...]:
    """Keep only groups and nodes that this update upgrades."""
    left = (UpgradeGroup(tuple(s for s in group.steps if not s.kept)) for group in groups)
    return tuple(group for group in left if group.steps)


def judge_versions(found: Mapping[str, str], wanted: str) -> Finding | None:
    """Refuse a downgrade, and a jump over a minor release; skip nodes without K3s."""
    target, where = parse_k3s(wanted), Place(("kubernetes", "version"), wanted)
    known = {node: each for node, text in found.items() if (each := parse_k3s(text))}
    if target is None:
        return None
    newer = [node for node, each in known.items() if each > target]
    if newer:
        latest = found[max(newer, key=lambda node: known[node])]
        words = {"runs": _runs(newer, found), "version": wanted, "latest": latest}
        return finding_of(__file__, "downgrade", where, **words)
    major, minor = target[:2]
    far = [node for node, each in known.items() if (each[0], each[1] + 1) < (major, minor)]
    if not far:
        return None
    first = min(known[node][:2] for node in far)
    words = {"runs": _runs(far, found), "version": wanted, "oldest": f"{first[0]}.{first[1] + 1}"}
    return finding_of(__file__, "jump", where, **words)


def _runs(nodes: Sequence[str], found: Mapping[str, str]) -> str:
    """Format releases: `gpu01, gpu02 run K3s v1.36.3+k3s1; mgmt01 runs K3s v1.37.1+k3s1`."""
    by_release: dict[str, list[str]] = {}
    for node in nodes:
        by_release.setdefault(found[node], []).append(node)
    return "; ".join(
        f"{shortened(names, _SHOWN)} {'run' if len(names) > 1 else 'runs'} K3s {release}"
        for release, names in by_release.items()
    )
