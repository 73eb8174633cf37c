"""Plan from the file which probes acceptance runs, which counters it reads, and the job of `watch`.

The objects of `watch` are not in the plan's digest: another schedule needs no other proof.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, collapse_addresses
from pathlib import Path
from typing import Final, Literal, get_args

import yaml

from components.acceptance import evidence
from components.acceptance.evidence import HopRole, Limits, Probe, RailLimit
from components.acceptance.probes import probe_job, probe_plan
from components.acceptance.probes.ib_look import IbLook, plan_ib_limits, plan_ib_looks
from components.acceptance.probes.probe_job import HostProbe, ProbeJob
from components.acceptance.probes.probe_plan import Budget, Way
from components.artefacts.lock import Lock, render_lock
from components.core.record import field, record, replace
from components.core.to_json import OMIT_EMPTY
from components.fabric.cabling import RoutedLinks, plan_links, planned_bgp
from components.fabric.fabric_plan import switch_endpoint
from components.kubernetes import rights
from components.kubernetes.manifest import Body, Manifest, login_manifests, make_manifest, pulling
from components.kubernetes.planes.base import ClusterRef, KubernetesPlan, refer_to
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.jobs import Watch
from components.model.once import once
from components.model.owners import gpu_paths
from components.model.sources import EvidenceStore
from components.model.units import rdma_mtu
from components.model.worker_kinds import nic_on, on_infiniband
from components.operators.operators_plan import OperatorsPlan
from components.pod_network.attachment import expected_allocatable
from components.remote.endpoint import host_endpoint
from components.remote.step import Endpoint

ADAPTERS: Final = "adapters"
"""Placeholder for all InfiniBand adapters of a host, because their names are unknown beforehand."""
_ORDER: Final = get_args(HopRole)
OWNER: Final = "railyard-watch"
"""Name of the objects, and the beginning of their resources' names."""
MOST_BYTES: Final = 1_000_000
"""Of a site in a ConfigMap: the API refuses more than 1 MiB (core/validation, MaxSecretSize)."""
_CLASSES: Final = "scheduling.k8s.io"
_GROUPS: Final = {"Namespace": 0, "CronJob": 3}


@record
class HopPlan:
    """One interface on the way of one direction of a probe."""

    rail: str
    direction: str
    role: HopRole
    device: str
    interface: str
    """Name of the interface or port; `ADAPTERS` for every InfiniBand adapter of the device."""
    is_dark: bool = field(default=False, metadata=OMIT_EMPTY)
    """Railyard has no login to the device, and therefore cannot read its counters."""


@record
class CounterSource:
    """One device whose counters are read before and after the probes that cross it."""

    endpoint: Endpoint
    os: str
    """`linux`, `infiniband` for a host's adapters, or the switch's system."""
    interfaces: tuple[str, ...]
    links: RoutedLinks | None = field(default=None, metadata=OMIT_EMPTY)
    """Of a switch with routed links: the BGP sessions to expect on them, read with the counters."""


@record
class ProbePlan:
    """One probe: its subject, its commands and its hops."""

    probe: Probe
    job: ProbeJob | None
    """Its objects in the cluster; None for a probe on hosts."""
    hops: tuple[HopPlan, ...]
    host: HostProbe | None = None
    """Its commands on hosts; exactly one of the two is there."""
    round: int = field(default=0, metadata=OMIT_EMPTY)
    """Neighbouring probes with the same number above 0 run at once; a probe with 0 runs alone."""

    @property
    def command(self) -> tuple[str, ...]:
        """Its command, for people."""
        way = self.job or self.host
        return way.command if way else ()

    @property
    def objects(self) -> tuple[Body, ...]:
        """Its objects in the cluster."""
        return self.job.objects if self.job else ()


@record
class Policy:
    """When a probe runs, and how the gate treats a probe that did not."""

    asked: bool = True
    """False: nothing is proven in this run, because the site says `accept: never`."""
    accept: Literal["changed", "always", "never", "canary"] = "changed"
    """The value in the file; a change of it starts another proof."""
    when_busy: Literal["warn", "wait", "fail"] = "warn"
    busy_wait_s: float = 600.0
    time_budget_s: float | None = None
    max_age_days: int = field(default=0, metadata=OMIT_EMPTY)
    """0: `evidence.MAX_AGE_DAYS`; older plans thus keep their digests."""
    scope: str = field(default="", metadata=OMIT_EMPTY)
    """The scope that a person asked for, if no earlier proof of the whole counts."""


@record
class AcceptancePlan:
    """The whole proof."""

    cluster: str
    gate: Literal["fail", "warn"]
    limits: Limits
    probes: tuple[ProbePlan, ...]
    sources: tuple[CounterSource, ...]
    workers: tuple[str, ...]
    memlock: tuple[Body, ...]
    """In a cluster one Job per worker, in the same order: it prints a pod's locked-memory limit."""
    timeout_s: float
    nodes: Mapping[str, str] = field(default_factory=dict[str, str], metadata=OMIT_EMPTY)
    """Worker to the name of its node, if it differs."""
    ib: tuple[IbLook, ...] = field(default=(), metadata=OMIT_EMPTY)
    """Hosts to ask about a fabric of the site's own InfiniBand switches."""
    access: ClusterRef | None = field(default=None, metadata=OMIT_EMPTY)
    """The servers that have the kubeconfig when the probes run; None without a cluster."""
    images: tuple[ProbePlan, ...] = field(default=(), metadata=OMIT_EMPTY)
    """The checks of the jobs' images, which come before all probes."""
    policy: Policy = Policy()
    shared: str = ""
    """Digest of everything that concerns more than one host: jobs, traffic class, rails, pod
    network, operators. While it stays, an update may prove only the changed hosts."""
    left_out: tuple[Probe, ...] = field(default=(), metadata=OMIT_EMPTY)
    networks: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]], metadata=OMIT_EMPTY
    )
    """Routed switch to the networks that it announces."""
    budget: Budget | None = field(default=None, metadata=OMIT_EMPTY)
    """The coverage of the suite and its duration; None for a site without Kubernetes."""
    store: EvidenceStore | None = field(default=None, metadata=OMIT_EMPTY)
    """Where machines share the evidence; None for the archive of each."""

    @property
    def objects(self) -> tuple[Body, ...]:
        """The objects of all probes in the cluster."""
        probes = (*self.images, *self.probes)
        return (*self.memlock, *(body for each in probes for body in each.objects))

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every device that acceptance reaches directly: counters, and commands on hosts."""
        hosts = [probe.host for probe in self.probes if probe.host is not None]
        ends = [end for host in hosts for end in (host.client, host.server) if end is not None]
        return (
            *(source.endpoint for source in self.sources),
            *(end.endpoint for end in ends),
            *(look.endpoint for look in self.ib),
            *(server.endpoint for server in (self.access.servers if self.access else ())),
        )


def plan_acceptance(spec: ClusterSpec, kubernetes: KubernetesPlan | None = None) -> AcceptancePlan:
    """Plan the limits, and for every probe the hops that its bytes must cross."""
    cluster, age = probe_plan.plan_probes(spec), spec.acceptance.max_age_days
    shared = (
        spec.jobs, spec.acceptance, spec.rdma, *spec.rails, spec.pod_network, spec.operators,
        spec.kubernetes, spec.containers, spec.ib_fabric,
    )  # fmt: skip
    texts = "\n".join(part.model_dump_json() if part is not None else "" for part in shared)
    in_cluster = [
        replace(_probe(spec, job.probe, job=job), round=number)
        for job, number in zip(cluster.jobs, cluster.rounds, strict=True)
    ]
    on_hosts = [_probe(spec, host.probe, host=host) for host in probe_job.plan_payload_probes(spec)]
    return AcceptancePlan(
        cluster=spec.name,
        gate=spec.acceptance.gate,
        limits=_limits(spec),
        probes=(*in_cluster, *on_hosts),
        sources=_sources(spec),
        workers=tuple(host.name for host in spec.workers),
        memlock=cluster.memlock,
        timeout_s=spec.acceptance.timeout_s,
        nodes={host.name: host.node for host in spec.workers if host.node != host.name},
        ib=plan_ib_looks(spec),
        access=refer_to(spec, kubernetes),
        images=tuple(ProbePlan(job.probe, job, ()) for job in cluster.images),
        shared=hashlib.sha256(texts.encode()).hexdigest()[:16],
        networks={name: bgp.networks for name, bgp in planned_bgp(spec).items()},
        budget=cluster.budget,
        store=spec.evidence_store,
        policy=Policy(
            asked=spec.acceptance.accept != "never",
            accept=spec.acceptance.accept,
            when_busy=spec.acceptance.when_busy,
            busy_wait_s=spec.acceptance.busy_wait_s,
            time_budget_s=spec.acceptance.time_budget_s,
            max_age_days=0 if age == evidence.MAX_AGE_DAYS else age,
        ),
    )


def _limits(spec: ClusterSpec) -> Limits:
    asked, topology = spec.acceptance, spec.jobs.topology_file
    floor, scan, images = asked.nccl_floor, asked.deepspeed_scan, asked.resnet50
    infiniband = spec.rdma.transport == "infiniband"
    fabric = spec.ib_fabric if infiniband else None
    return Limits(
        transport="ib" if infiniband else "roce",
        require_gdr="none" not in gpu_paths(spec),
        priority=None if infiniband else spec.rdma.priority,
        traffic_class=None if infiniband else spec.rdma.traffic_class,
        waived=dict(spec.waive),
        rails=tuple(
            _rail_limit(spec, name, speed) for name, speed in probe_job.rail_speeds(spec).items()
        ),
        pair_fraction=asked.perftest_min_fraction,
        nccl_fraction=asked.nccl_min_fraction,
        losses=asked.limits,
        latency_tail_us=asked.latency_tail_us,
        allocatable=expected_allocatable(spec),
        topology_file=topology.mount_path if topology else "",
        nccl_min_version=asked.nccl_min_version or "",
        nccl_floor_gb_s=floor.min_gbyte_s if floor else None,
        nccl_warn_gb_s=floor.warn_gbyte_s if floor else None,
        nccl_floor_source=floor.source if floor else "",
        images_floor_s=images.min_images_s if images else None,
        scan_floor_gbit_s=scan.min_busbw_gbit_s if scan else None,
        # The benchmark takes 2^1 to 2^(maxsize - 1) elements a rank.
        scan_sizes=scan.maxsize_exponent - 1 if scan else 0,
        ib=plan_ib_limits(spec),
        groups=probe_plan.worker_groups(spec),
        unproven=probe_plan.list_unproven(spec),
        hcas=fabric.hcas if fabric else 0,
        hca_rate_gbit_s=fabric.rate_gbit_s if fabric else 0.0,
        hca_names=fabric.expected_hcas if fabric else (),
    )


def _rail_limit(spec: ClusterSpec, name: str, speed: float) -> RailLimit:
    """The speed of a rail, and the addresses and devices that a test on it must show."""
    rail = spec.rail(name)
    nics = [nic for host in spec.workers for nic in host.nics if nic.rail == name]
    given = (text for nic in nics for text in (nic.address, nic.pod_address) if text)
    networks = collapse_addresses([*([rail.subnet] if rail else []), *map(IPv4Network, given)])
    devices = {nic.rdma or "" for nic in nics}
    is_vf = spec.pod_network.mode == "sriov" and not spec.pod_network.host_network
    site, pod = spec.rdma.mtu_bytes, spec.pod_network.mtu_bytes
    mtus = [nic.vf_mtu_bytes or nic.mtu_bytes or site for nic in nics] or [site]
    return RailLimit(
        name=name,
        line_rate_gbit_s=speed,
        rdma_mtu_bytes=rdma_mtu(min(*mtus, pod or max(mtus))),
        networks=tuple(map(str, networks)),
        devices=() if is_vf or "" in devices else tuple(sorted(devices)),
    )


def _probe(
    spec: ClusterSpec, probe: Probe, job: ProbeJob | None = None, host: HostProbe | None = None
) -> ProbePlan:
    hosts = [found for found in (spec.host(node) for node in probe.nodes) if found is not None]
    if probe.kind == "node":
        return ProbePlan(probe, job, (), host)
    if spec.rdma.transport == "infiniband":
        ends: Mapping[HopRole, str] = {"sender_nic": "sends", "receiver_nic": "receives"}
        hops = tuple(
            HopPlan("infiniband", f"{each.name} {way}", role, each.name, ADAPTERS, each.ssh is None)
            for each in hosts
            for role, way in ends.items()
        )
        return ProbePlan(probe, job, hops, host)
    # A collective goes around the hosts as a ring; one perftest has one direction.
    pairs = list(zip(hosts, (*hosts[1:], *hosts[:1]), strict=True))
    ways = [(rail, rail, *pair) for rail in probe.rails for pair in pairs]
    if probe.kind == "perftest":
        (one, other), (near, *_, far) = hosts, (*probe.rails, *probe.rails)
        both = evidence.has_two_directions(probe)
        ways = [(near, far, one, other)] + [(far, near, other, one)] * both
    ways = [] if probe.refused else ways
    return ProbePlan(probe, job, tuple(hop for way in ways for hop in _hops(spec, *way)), host)


@once
def _ports(spec: ClusterSpec) -> Mapping[str, tuple[str, str]]:
    """Each plugged interface, `gpu01/rail-0`, to its switch and port; of two the first."""
    found: dict[str, tuple[str, str]] = {}
    for switch in spec.switches:
        for name, port in switch.ports.items():
            found.setdefault(port.to, (switch.name, name))
    return found


def _hops(spec: ClusterSpec, rail: str, far: str, sender: Host, receiver: Host) -> list[HopPlan]:
    direction = f"{sender.name} -> {receiver.name}"
    places: Way = []
    ends: tuple[tuple[HopRole, HopRole, Host, str], ...] = (
        ("sender_nic", "switch_ingress", sender, rail),
        ("receiver_nic", "switch_egress", receiver, far),
    )
    for nic_role, port_role, host, name in ends:
        if (nic := nic_on(host, name)) is not None:
            places.append((nic_role, host.name, nic.netdev))
        if (port := _ports(spec).get(f"{host.name}/{name}")) is not None:
            places.append((port_role, *port))
    found = spec.rail(rail)
    leaves = [device for role, device, _ in places if role.startswith("switch_")]
    if found is not None and found.leaves and len({*leaves}) > 1:
        places += probe_plan.ports_between(spec, *leaves)
    places.sort(key=lambda place: _ORDER.index(place[0]))
    dark = {host.name for host in (sender, receiver) if host.ssh is None}
    return [
        HopPlan(rail, direction, role, device, name, role.endswith("_nic") and device in dark)
        for role, device, name in places
    ]


def _sources(spec: ClusterSpec) -> tuple[CounterSource, ...]:
    if spec.rdma.transport == "infiniband":
        return tuple(
            CounterSource(host_endpoint(host), "infiniband", (ADAPTERS,))
            for host in on_infiniband(spec)
            if host.ssh is not None
        )
    links = plan_links(spec)
    return (
        *(
            CounterSource(switch_endpoint(each), each.os, (*each.ports,), links.get(each.name))
            for each in spec.switches
        ),
        *(
            CounterSource(host_endpoint(host), "linux", tuple(nic.netdev for nic in host.nics))
            for host in spec.workers
            if host.nics and host.ssh is not None
        ),
    )


def plan_watch(
    spec: ClusterSpec,
    files: Mapping[str, str],
    acceptance: AcceptancePlan,
    operators: OperatorsPlan,
    managed: Iterable[Manifest],
) -> tuple[Manifest, ...]:
    """Plan the objects of `watch`; none without it or without Kubernetes.

    `files` is the site that the job reads, by `site_files`; its audit reads `managed` objects.
    """
    watch = spec.watch
    if watch is None or spec.kubernetes is None:
        return ()
    *bodies, job = _own_objects(watch, files)
    bodies.append(pulling(spec, job))
    # Its own roles are read too.
    roles = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
    needed = [*rights.of_looks(*((rights.RBAC, each) for each in roles))]
    for body in (*(each.body for each in managed), *bodies):
        needed += _readable(rights.of_object(body))
    needed += _readable(rights.of_charts(chart.namespace for chart in operators.charts))
    if watch.accept:
        needed += rights.of_jobs(spec, acceptance.objects)
        # With a class of their own, its pods preempt no others (`lend_class`).
        needed.append(rights.Right("", _CLASSES, "priorityclasses", (), ("create", "delete")))
    if watch.conditions:
        nodes = tuple(sorted(host.node for host in spec.workers))
        needed.append(rights.Right("", "", "nodes/status", nodes, ("update",)))
    granted = sorted(rights.joined(needed))
    subject: Body = {"kind": "ServiceAccount", "name": OWNER, "namespace": watch.namespace}
    for place in dict.fromkeys(each.namespace for each in granted):
        name = f"{OWNER}-{place}" if place else OWNER
        bodies += rights.role_of(name, place, granted, subject)
    login = login_manifests(spec, OWNER, watch.namespace, 1)
    made = [make_manifest(OWNER, each, _GROUPS.get(str(each["kind"]), 2)) for each in bodies]
    return tuple(sorted((*made, *login), key=lambda each: each.group))


def _readable(found: Iterable[rights.Right]) -> Iterator[rights.Right]:
    """Yield what remains of rights without their verbs that change something."""
    for each in found:
        if verbs := tuple(verb for verb in each.verbs if verb in rights.READS):
            yield rights.Right(each.namespace, each.group, each.resource, each.names, verbs)


def site_files(spec: ClusterSpec, lock: Lock) -> Mapping[str, str]:
    """Return a site as JSON, which is YAML too, with ranges written out; and its lock."""
    values = spec.model_dump(mode="json", exclude_unset=True, by_alias=True)
    files = {"site.yaml": json.dumps(values, separators=(",", ":")) + "\n"}
    return files | ({"site.lock.yaml": render_lock(lock.entries)} if lock.exists else {})


def _own_objects(watch: Watch, files: Mapping[str, str]) -> Iterator[Body]:
    """Yield the objects of watch.yaml, with the settings of the file."""
    text = Path(__file__).with_name("watch.yaml").read_text("utf-8")
    space, account, site, job = yaml.load_all(text, yaml.CSafeLoader)
    space["metadata"]["name"] = watch.namespace
    for body in (account, site, job):
        body["metadata"]["namespace"] = watch.namespace
    site["data"] = {**files}
    job["spec"] |= {"schedule": watch.schedule, "timeZone": watch.time_zone}
    job["spec"] |= dict.fromkeys(
        ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), watch.keep
    )
    run = job["spec"]["jobTemplate"]["spec"]
    run["activeDeadlineSeconds"], pod = watch.deadline_s, run["template"]["spec"]
    (container,), volumes = pod["containers"], pod["volumes"]
    container["image"] = watch.image
    if watch.secret is not None:
        container["envFrom"] = [{"secretRef": {"name": watch.secret}}]
    if watch.node is not None:
        del pod["affinity"]
        pod["nodeSelector"] = {"kubernetes.io/hostname": watch.node}
    if watch.claim is not None:
        volumes[1] = {"name": "work", "persistentVolumeClaim": {"claimName": watch.claim}}
    if watch.folder is not None:
        volumes.append({"name": "metrics", "hostPath": {"path": watch.folder, "type": "Directory"}})
        container["volumeMounts"].append({"name": "metrics", "mountPath": watch.folder})
    yield from (space, account, site, job)
