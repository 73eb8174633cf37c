"""`make_plan`: turn the checked file into a complete plan of plain values."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Literal, get_args

from components.acceptance import acceptance_plan
from components.artefacts.lock import Lock
from components.artefacts.resolve import resolved
from components.cloud.cloud_plan import CloudPlan, plan_cloud
from components.containers.container_plan import PayloadPlan, plan_payload
from components.core.errors import UsageError
from components.core.record import field, record, replace
from components.core.templates import fault_text
from components.core.to_json import HIDDEN, OMIT_EMPTY, json_pieces
from components.disruption import disruption_plan as disruption
from components.disruption.leave_plan import DepartureStep, PortsLeave, plan_departures, plan_ports
from components.drift.device_drift import Watched
from components.fabric.fabric_plan import SwitchPlan, plan_fabric
from components.fabric.ports import marking_of
from components.hosts.host_plan import HostPlan, plan_hosts
from components.hosts.keys.ask import Leftovers
from components.hypervisor.hypervisor_plan import HypervisorPlan, plan_hypervisors
from components.jobs.job_plan import JobsPlan, plan_jobs
from components.kubernetes.kubernetes_plan import plan_kubernetes
from components.kubernetes.manifest import Manifest, outlives
from components.kubernetes.planes.base import KubernetesPlan
from components.model.cluster import ClusterSpec
from components.model.once import without_collector
from components.model.owners import left_alone, runs_on_foreign_fabric
from components.model.texts import fold_names
from components.operators.operators_plan import OperatorsPlan, plan_operators
from components.pod_network.pod_network_plan import PodNetworkPlan, plan_pod_network
from components.remote.step import OBSERVE_DEADLINE_S, RemoteStep
from components.remote.tools import Tool, distinct

_STACK: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Stack names that the scripts on the hosts accept, no longer than Pulumi permits."""
Part = Literal["switches", "hosts", "cluster"]
"""Parts that a user's own program may take from a plan: `hosts` includes instances and hypervisors,
`cluster` everything that runs on hosts, with or without Kubernetes."""
PARTS: Final[tuple[Part, ...]] = get_args(Part)
_RESOURCES_OF_A_SWITCH: Final = 2
"""Its baseline and its settings; with `executor: exec` it has twice as many."""
_RESOURCES_OF_ANY_SITE: Final = 20
"""Stages, their gates, the records of the last update, acceptance: 18 to 21 in the examples."""
_RESOURCES_OF_A_CLOUD: Final = 3
"""A preflight, and what sweeps networks and instances."""


def foreign_fabric(spec: ClusterSpec) -> Iterator[str]:
    """Yield the settings for every hop of the rails, a line each, if the file has no switches.

    ECN thresholds come from the file, else from NVIDIA's advice for its own switches.
    """
    rdma = spec.rdma
    if not runs_on_foreign_fabric(spec):
        return
    yield from fault_text(__file__, "foreign-head").splitlines()
    tagged = spec.kubernetes is not None and spec.pod_network.mode == "sriov"
    form = "tagged (the pods' VFs tag)" if tagged else "untagged (the cards do not tag)"
    for rail in spec.rails:
        hosts: dict[str, list[str]] = {}
        for host in spec.hosts:
            for nic in (nic for nic in host.nics if nic.rail == rail.name):
                hosts.setdefault(f"{nic.netdev} {nic.speed_gbit_s}G", []).append(host.name)
        cards = ", ".join(f"{fold_names(names)} {card}" for card, names in hosts.items())
        gateway = f", gateway {rail.gateway}" if rail.gateway else ""
        head = f"{rail.name}: VLAN {rail.vlan} {form}, {rail.subnet}{gateway}"
        yield f"{head}; {sum(map(len, hosts.values()))} ports: {cards}"
    yield from fault_text(__file__, "foreign-rdma", rdma=rdma).splitlines()
    for speed in sorted({nic.speed_gbit_s for host in spec.hosts for nic in host.nics}):
        ecn = marking_of(rdma, "", speed)  # no switch system: NVIDIA's values
        yield fault_text(__file__, "foreign-ecn", speed=speed, queue=rdma.traffic_class, ecn=ecn)
    half = rdma.mode == "semi_lossless"
    side = "obeyed on ports to cards, sent nowhere" if half else "on every port, both ways"
    words = {"watchdog": ", with the PFC watchdog" if rdma.pfc_watchdog else "", "side": side}
    row = "foreign-no-pfc" if rdma.mode == "lossy_ecn" else "foreign-pfc"
    yield fault_text(__file__, row, priority=rdma.priority, **words)
    yield fault_text(__file__, "foreign-dcbx")


@record
class LeftByDestroy:
    """Settings of a site that remain after `destroy`, or until a restart."""

    hosts: Mapping[str, Leftovers]
    """By host, without hosts that keep nothing."""
    steps: Mapping[str, str]
    """Steps without an undo, and the reason."""
    cluster: tuple[str, ...] = field(default=(), metadata=OMIT_EMPTY)
    """Our definitions and namespaces in an existing cluster."""


@record
class ClusterPlan:
    """Everything that `pulumi up` will do: no secrets, no unknowns, no Pulumi."""

    name: str
    stack: str
    cloud: CloudPlan | None
    switches: tuple[SwitchPlan, ...]
    hypervisors: tuple[HypervisorPlan, ...]
    hosts: tuple[HostPlan, ...]
    payload: PayloadPlan | None
    kubernetes: KubernetesPlan | None
    operators: OperatorsPlan
    pod_network: PodNetworkPlan
    jobs: JobsPlan
    acceptance: acceptance_plan.AcceptancePlan
    reboots: tuple[disruption.RebootGroup, ...] = field(default=(), metadata=OMIT_EMPTY)
    """Hosts that may have to leave service, in their groups."""
    left_alone: tuple[str, ...] = field(default=(), metadata=HIDDEN)
    """Parts that Railyard neither sets nor reads, in words; no change here repeats acceptance."""
    foreign_fabric: tuple[str, ...] = field(default=(), metadata=HIDDEN)
    """Required settings for switches outside the file, in words; empty if the file has switches."""
    unreached: tuple[str, ...] = field(default=(), metadata=HIDDEN)
    """Hosts without a login: no step runs there, and nothing is read."""
    upgrades: tuple[disruption.UpgradeGroup, ...] = field(default=(), metadata=HIDDEN)
    """Every K3s node by its upgrade group; an update keeps only the due ones."""
    look_s: float = field(default=OBSERVE_DEADLINE_S, metadata=HIDDEN)
    departures: DepartureStep | None = field(default=None, metadata=HIDDEN)
    """Drains nodes that left the file; None if no node ever existed."""
    ports: Mapping[str, PortsLeave] = field(default_factory=dict[str, PortsLeave], metadata=HIDDEN)
    """Switch to the hosts that leave service while its ports change (`disruption.ports: drain`)."""
    asked: acceptance_plan.AcceptancePlan | None = field(default=None, metadata=HIDDEN)
    """Acceptance, as far as this run needs it; None: all of it."""
    piece: str = field(default="", metadata=HIDDEN)
    """The name of the piece, if the plan has only one piece of a split site."""
    site_digest: str = field(default="", metadata=HIDDEN)
    """The digest of the site, if the plan has only one piece."""

    @property
    def watched(self) -> tuple[Watched, ...]:
        """Every step whose device is checked for drift."""
        return (
            *(hypervisor.watched for hypervisor in self.hypervisors),
            *(host.watched for host in self.hosts),
            *(proof for host in self.hosts if (proof := host.watched_verify)),
            *(self.payload.watched if self.payload else ()),
            *(self.kubernetes.watched if self.kubernetes else ()),
        )

    @property
    def steps(self) -> tuple[RemoteStep, ...]:
        """Every step on a host, in a possible order of execution."""
        return (
            *(step for each in self.hypervisors for step in each.own_steps),
            *(step for host in self.hosts for step in (host.sending, *host.all_steps)),
            *(each.step for group in self.reboots for each in group.steps),
            *(step for each in self.hypervisors for step in each.last_steps),
            *(host.verify for host in self.hosts if host.verify),
            *(self.payload.steps if self.payload else ()),
            *(self.kubernetes.steps if self.kubernetes else ()),
        )

    @property
    def rooms(self) -> Mapping[str, tuple[Manifest, ...]]:
        """Stage to its objects in the cluster."""
        return {
            "operators": self.operators.manifests,
            "pod-network": self.pod_network.manifests,
            "jobs": self.jobs.all_manifests,
        }

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """Every object in the cluster."""
        return tuple(each for room in self.rooms.values() for each in room)

    @property
    def left_by_destroy(self) -> LeftByDestroy:
        """Settings that destroy cannot undo; derived from the plan, so not in the digest."""
        hosts = {host.name: host.left_by_destroy for host in self.hosts}
        foreign = self.kubernetes is not None and self.kubernetes.existing is not None
        stay = (each for each in self.manifests if outlives(each, foreign=foreign))
        return LeftByDestroy(
            hosts={name: left for name, left in hosts.items() if left != Leftovers((), ())},
            steps={step.name: step.why_no_undo for step in self.steps if step.why_no_undo},
            cluster=tuple(f"{each.kind} {each.name}" for each in stay),
        )

    def only(self, parts: Collection[Part]) -> ClusterPlan:
        """Keep only some parts of the site; the others are neither read nor judged."""
        plan = self if "switches" in parts else replace(self, switches=())
        if "hosts" not in parts:
            plan = replace(plan, cloud=None, hypervisors=(), hosts=(), reboots=())
        if "cluster" not in parts:
            plan = replace(
                plan, payload=None, kubernetes=None, upgrades=(), departures=None,
                operators=replace(plan.operators, charts=(), manifests=()),
                pod_network=replace(plan.pod_network, manifests=()),
                jobs=replace(plan.jobs, manifests=(), watch=()),
                acceptance=replace(plan.acceptance, access=None),
            )  # fmt: skip
        return plan

    @property
    def secret_names(self) -> frozenset[str]:
        """The names of secrets that its switches and steps use."""
        ends = (*(each.endpoint for each in self.switches), *(each.endpoint for each in self.steps))
        names = {name for end in ends for name in end.secret_names}
        return frozenset(names | {each.secret_stdin for each in self.steps if each.secret_stdin})

    @property
    def digest(self) -> str:
        """A short fingerprint of the site; acceptance runs again when it changes."""
        if self.site_digest:
            return self.site_digest
        found = hashlib.sha256()
        for piece in json_pieces(self):
            found.update(piece.encode())
        return found.hexdigest()[:16]


def with_tools(hosts: Iterable[HostPlan], later: Iterable[RemoteStep]) -> tuple[HostPlan, ...]:
    """Add to each host the tools for other rooms' steps on it."""
    needed: dict[str, list[Tool]] = {}
    for step in later:
        needed.setdefault(step.endpoint.device, []).extend(step.tools)
    return tuple(replace(host, tools=distinct(needed.get(host.name, ()))) for host in hosts)


def count_resources(plan: ClusterPlan) -> int:
    """About how many resources a state of this plan has; the exact number is known to a run."""
    rooms = (plan.operators, plan.pod_network, plan.jobs)
    found = _RESOURCES_OF_ANY_SITE + sum(len(room.manifests) for room in rooms)
    found += len(plan.operators.charts) + sum(1 + bool(host.verify) for host in plan.hosts)
    found += sum(2 + bool(each.firmware_reboot) for each in plan.hypervisors)
    found += sum(_RESOURCES_OF_A_SWITCH * (2 if each.exec else 1) for each in plan.switches)
    found += len(plan.payload.steps) if plan.payload else 0
    if kubernetes := plan.kubernetes:  # all steps of an agent are one resource
        joined = sum(len(kubernetes.chain_of(agent)) - 1 for agent in kubernetes.agents)
        found += len(kubernetes.steps) - joined
    if cloud := plan.cloud:
        found += len(cloud.images) + len(cloud.objects) + len(cloud.instances)
        found += _RESOURCES_OF_A_CLOUD
    return found


def scripts_of(plan: ClusterPlan) -> Mapping[str, str]:
    """Return the text of every tool in a plan: `<name> <digest>` to text."""
    tools = distinct(tool for step in plan.steps for tool in step.tools)
    return {f"{tool.name} {tool.digest}": tool.text for tool in tools}


@without_collector()
def make_plan(spec: ClusterSpec, stack: str, lock: Lock | None = None) -> ClusterPlan:
    """Plan every room of a site; UsageError if the name cannot name a folder on a device."""
    if not _STACK.fullmatch(stack):
        raise UsageError(fault_text(__file__, "stack-name", stack=stack))
    written, lock = spec, lock or Lock()
    spec = resolved(spec, lock)
    kubernetes, payload = plan_kubernetes(spec, stack), plan_payload(spec, stack)
    later = [step for room in (payload, kubernetes) if room for step in room.steps]
    hosts = with_tools(plan_hosts(spec, stack), later)
    plan = ClusterPlan(
        name=spec.name, stack=stack, cloud=plan_cloud(spec), switches=plan_fabric(spec),
        hypervisors=plan_hypervisors(spec, stack), hosts=hosts, payload=payload,
        kubernetes=kubernetes, operators=plan_operators(spec), pod_network=plan_pod_network(spec),
        jobs=plan_jobs(spec), acceptance=acceptance_plan.plan_acceptance(spec, kubernetes),
        reboots=disruption.plan_reboots(spec, hosts, kubernetes),
        upgrades=disruption.plan_upgrades(spec, kubernetes),
        departures=plan_departures(spec, stack, kubernetes),
        ports=plan_ports(spec, stack, kubernetes), left_alone=left_alone(spec),
        foreign_fabric=tuple(foreign_fabric(spec)), look_s=spec.deadlines.host.look_s,
        unreached=tuple(host.name for host in spec.unreached),
    )  # fmt: skip
    if spec.watch is None:
        return plan
    files = acceptance_plan.site_files(written, lock)
    watch = acceptance_plan.plan_watch(spec, files, plan.acceptance, plan.operators, plan.manifests)
    return replace(plan, jobs=replace(plan.jobs, watch=watch))
