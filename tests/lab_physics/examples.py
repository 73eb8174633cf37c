"""An example site as the physics sees it, built from its file, and its planned probes played on it.

The devices are healthy unless a test breaks one; counters become the snapshots that acceptance
would have read, so that a planned probe goes all the way from command to verdict.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from components.acceptance.acceptance_plan import AcceptancePlan, ProbePlan, plan_acceptance
from components.acceptance.collect.counters import Snapshot, measure_hops
from components.acceptance.digest import digest_log
from components.acceptance.evidence import Evidence, ProbeEvidence
from components.acceptance.judge.site import Report, judge_evidence
from components.fabric.fabric_plan import plan_fabric
from components.jobs.templates import number_objects
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.worker_kinds import with_instances
from components.pod_network.rails import pool_of
from lab.hosts.cards import H100, V100, Gpu
from lab.physics.path import Between
from lab.physics.probe import run
from lab.physics.request import Attachment, ProbePod, ProbeRequest, ProbeResult
from lab.views import GpuView, HcaView, NicView, PortView, RouterView
from tests.golden.site import load_example
from tests.lab_physics.site import EIGHT_DSCPS_A_PRIORITY

HCAS = (*(f"mlx5_{n}" for n in range(4)), *(f"mlx5_{n}" for n in range(5, 9)))
"""An H100 instance: mlx5_4 is the management port."""
SERVER_IP = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b")


def example(name: str) -> ClusterSpec:
    return with_instances(load_example(name))


def nic_views(spec: ClusterSpec) -> dict[tuple[str, str], NicView]:
    return {
        (host.name, nic.rail): NicView(
            host=host.name,
            pci=nic.pci,
            netdev=nic.netdev,
            rdma=f"mlx5_{index}",
            link_up=True,
            speed_gbit_s=nic.speed_gbit_s,
            mtu_bytes=spec.rdma.mtu_bytes,
            vfs=nic.vfs,
            trust="dscp",
            dscp_to_priority=EIGHT_DSCPS_A_PRIORITY,
            pfc_priorities=frozenset(),
            ecn_priorities=frozenset({3}),
            cnp_dscp=48,
            peermem=True,
            memlock_unlimited=spec.kubernetes is not None,
        )
        for host in spec.workers
        for index, nic in enumerate(host.nics)
    }


def port_views(spec: ClusterSpec) -> dict[tuple[str, str], PortView]:
    rails = {rail.name: rail.vlan for rail in spec.rails}
    found: dict[tuple[str, str], PortView] = {}
    for switch in spec.switches if spec.rails else ():
        for name, port in switch.ports.items():
            vlan = rails.get(port.to.partition("/")[2], 0)
            access, routed = port.mode == "access", port.mode == "routed"
            vlans = frozenset[int]() if access or routed else frozenset({vlan})
            found[switch.name, name] = PortView(
                switch=switch.name,
                port=name,
                admin_up=True,
                oper_up=True,
                speed_gbit_s=800 if spec.switches[0].routing else 100,
                mtu_bytes=spec.rdma.port_mtu_bytes,
                mode="access" if access else "trunk" if routed else "hybrid",
                access_vlan=vlan if access else 0 if routed else 1,
                allowed_vlans=vlans,
                trust="L3",
                dscp_to_priority=EIGHT_DSCPS_A_PRIORITY,
                priority_to_tc=tuple(range(8)),
                ecn_kib={3: (150, 1500)},
                pfc_priorities=frozenset(),
            )
    return found


def router_views(spec: ClusterSpec) -> dict[str, RouterView]:
    """The routers of a fabric that is as its plan wants it."""
    found: dict[str, RouterView] = {}
    for plan in plan_fabric(spec):
        bgp = plan.desired.bgp
        if bgp is not None:
            found[plan.name] = RouterView(
                plan.name, plan.desired.addresses or {}, bgp.asn, bgp.neighbors, bgp.networks
            )
    return found


def hca_views(spec: ClusterSpec) -> dict[tuple[str, str], HcaView]:
    if spec.ib_fabric is None:
        return {}
    names = [*((name, "InfiniBand", 400) for name in HCAS), ("mlx5_4", "Ethernet", 100)]
    if spec.cloud is None:
        names = [(f"mlx5_{number}", "InfiniBand", 400) for number in range(spec.ib_fabric.hcas)]
    return {
        (host.name, name): HcaView(
            host=host.name,
            name=name,
            pci=f"0000:0{index}:00.0",
            rate_gbit_s=rate,
            link_layer="InfiniBand" if layer == "InfiniBand" else "Ethernet",
            numa=0,
            active=True,
            peermem=True,
            memlock_unlimited=True,
            topology_file="/etc/crusoe/nccl_topo/h100-80gb-sxm-ib-cloud-hypervisor.xml",
            bare=spec.cloud is None,
        )
        for host in spec.workers
        for index, (name, layer, rate) in enumerate(names)
    }


def gpu_views(gpu: Gpu, count: int = 8) -> tuple[GpuView, ...]:
    """Sound GPUs of one model."""
    link = (gpu.pcie_gen, gpu.pcie_gen, 16, 16)
    return tuple(
        GpuView(
            index, f"00000000:{index + 6:02X}:00.0", gpu.name, *link, gpu.nvlinks, gpu.nvlink_gb_s,
            gpu.bus_gb_s,
        )
        for index in range(count)
    )  # fmt: skip


@dataclass
class Played:
    """One example with its devices."""

    spec: ClusterSpec
    nics: dict[tuple[str, str], NicView] = field(init=False)
    ports: dict[tuple[str, str], PortView] = field(init=False)
    hcas: dict[tuple[str, str], HcaView] = field(init=False)
    routers: dict[str, RouterView] = field(init=False)
    tagged: bool = False
    """Every pod has VFs in the VLANs of its rails; else a rail on one leaf is untagged."""
    files: tuple[str, ...] = ("/opt/nccl_topo/h100-80gb-sxm-ib.xml",)
    pods_have_routes: bool = True
    """Of a rail on several leaves: the attachment has brought the way to the others."""
    nccl: str = ""
    """Release of NCCL in the image of the jobs; empty for the lab's own."""
    hidden_gids: bool = False
    """The shared cards have addresses of their host, whose GIDs the pods do not see."""

    def __post_init__(self) -> None:
        """Make the devices as the file has them."""
        self.nics = nic_views(self.spec)
        self.ports = port_views(self.spec)
        self.hcas = hca_views(self.spec)
        self.routers = router_views(self.spec)

    @property
    def plan(self) -> AcceptancePlan:
        return plan_acceptance(self.spec)

    def break_nics(self, **changes: Any) -> None:  # noqa: ANN401 - the field that it names has the type
        self.nics = {key: replace(nic, **changes) for key, nic in self.nics.items()}

    def break_ports(self, **changes: Any) -> None:  # noqa: ANN401 - the field that it names has the type
        self.ports = {key: replace(port, **changes) for key, port in self.ports.items()}

    def break_hcas(self, names: tuple[str, ...], **changes: Any) -> None:  # noqa: ANN401 - the field that it names has the type
        for key, hca in self.hcas.items():
            if hca.name in names:
                self.hcas[key] = replace(hca, **changes)

    def run(self, request: ProbeRequest) -> ProbeResult:
        cables = {
            (switch.name, name): (host, self.nics[host, rail].pci)
            for switch in self.spec.switches
            for name, port in switch.ports.items()
            if switch.carries == "roce"
            if port.peer is None
            for host, rail in [port.to.split("/")]
        }
        links = {
            (switch.name, name): port.peer
            for switch in self.spec.switches
            for name, port in switch.ports.items()
            if port.peer is not None and switch.carries == "roce"
        }
        return run(
            request,
            self.nics.values(),
            self.ports.values(),
            cables,
            self.hcas.values(),
            Between(links, tuple(self.routers.values())),
        )

    def pod(self, host: Host, command: tuple[str, ...], address: str = "") -> ProbePod:
        """A worker of a job on one host, as the node agent or a lab host describes it."""
        on_hosts = self.spec.containers is not None
        networks: list[Attachment] = []
        for index, nic in enumerate(host.nics):
            rail = next(rail for rail in self.spec.rails if rail.name == nic.rail)
            number = self.spec.workers.index(host) + 11
            pool = pool_of(self.spec, rail, host)
            found = nic.address or str(pool.network.network_address + number)
            known = pool.whole is not None and self.pods_have_routes
            networks.append(
                Attachment(
                    interface=nic.netdev if on_hosts else f"net{index + 1}",
                    ip=address or found,
                    pf=nic.pci,
                    vlan=rail.vlan if pool.whole or self.tagged else 0,
                    prefix=pool.network.prefixlen if pool.whole else 0,
                    routes=((str(pool.whole), str(pool.gateway)),) if known else (),
                    kind="vf" if pool.whole or self.tagged else "pf",
                    hidden_gids=self.hidden_gids,
                )
            )
        networks += [
            Attachment("", "", name, kind="hca") for node, name in self.hcas if node == host.name
        ]
        return ProbePod(
            host.name if on_hosts else f"worker-{self.spec.workers.index(host)}",
            host.name,
            command,
            networks=tuple(networks),
            gpus=host.gpus,
            gpu_views=gpu_views(V100 if self.spec.ib_fabric is None else H100, host.gpus),
            capabilities=("IPC_LOCK",),
            files=self.files,
            nccl=self.nccl,
        )

    def play(self, probe: ProbePlan) -> ProbeEvidence:
        result = self.run(self._request(probe))
        outcome = "completed" if result.exit_code == 0 else "failed"
        log = result.log
        if probe.probe.kind == "deepspeed_scan":
            # The launcher's script says this before the call, from the cluster's DNS.
            names = (f"deepspeed-scan-1-worker-{n}.deepspeed-scan-1.default.svc" for n in (0, 1))
            log = "".join(f"railyard: {name} resolves to 10.42.0.2\n" for name in names) + log
        base = digest_log(probe.probe, log, outcome=outcome)
        before, after = self._counters({}), self._counters(_moved(result))
        hops = tuple(found for hop in probe.hops for found in measure_hops(hop, before, after))
        return base.model_copy(update={"hops": hops, "command": " ".join(probe.command)})

    def _request(self, probe: ProbePlan) -> ProbeRequest:
        hosts = [host for name in probe.probe.nodes for host in [self.spec.host(name)] if host]
        if probe.probe.kind == "perftest":
            return self._perftest(probe, hosts)
        workers = tuple(self.pod(host, ("sshd",)) for host in hosts)
        if probe.job is None:
            return ProbeRequest("mpirun", workers, ProbePod("first", command=probe.command))
        body = cast("Mapping[str, Any]", number_objects(probe.job.objects, 1)[0])
        template = body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
        container = template["containers"][0]
        env = {item["name"]: item["value"] for item in container.get("env", [])}
        words = tuple(container["command"])
        # The launcher's own script ends with its arguments as the call; a pod's shell runs it.
        words = words[4:] if "mpi_launch" in words[:4] else words
        launcher = ProbePod("launcher", "", words, env)
        return ProbeRequest("nccl", workers, launcher)

    def _perftest(self, probe: ProbePlan, hosts: list[Host]) -> ProbeRequest:
        if "ib_read_bw" in probe.command:
            hosts.reverse()
        client, server = hosts
        *call, address = probe.command
        known = SERVER_IP.fullmatch(address) is not None
        (rail,) = [each for each in self.spec.rails if each.name == probe.probe.rails[0]]
        address = address if known else str(pool_of(self.spec, rail, server).probe)
        pods = (self.pod(server, tuple(call), address), self.pod(client, (*call, address)))
        return ProbeRequest("perftest", pods)

    def _counters(self, moved: Mapping[tuple[str, str], Counter[str]]) -> Snapshot:
        """All counters that the plan reads, at what was moved."""
        names = [f"{way}_prio{n}_bytes" for way in ("rx", "tx") for n in range(8)]
        names += [f"tx_tc{n}_bytes" for n in range(8)] + ["rx_discards"]
        found: dict[tuple[str, str], dict[str, int]] = {}
        for nic in self.nics.values():
            found[nic.host, nic.netdev] = _filled(names, moved.get((nic.host, nic.pci)))
        for key in self.ports:
            found[key] = _filled(names, moved.get(key))
        for hca in self.hcas.values():
            if hca.active and hca.link_layer == "InfiniBand":
                grown = moved.get((hca.host, hca.pci), Counter[str]())
                words = {"port_xmit_data": grown["tx_prio0_bytes"] // 4}
                words |= {"port_rcv_data": grown["rx_prio0_bytes"] // 4}
                found[hca.host, hca.name] = words
        counted = {place: {**words, "out_of_sequence": 0} for place, words in found.items()}
        return Snapshot(counted)

    def report(self, *names: str) -> Report:
        """The judged evidence of the planned probes of these names, or of all."""
        plan = self.plan
        chosen = [probe for probe in plan.probes if not names or probe.probe.name in names]
        return judge_evidence(
            Evidence(
                cluster=plan.cluster,
                plan_digest="0123456789abcdef",
                run=1,
                started_at="2026-01-01T00:00:00Z",
                finished_at="2026-01-01T00:01:00Z",
                provenance="lab",
                limits=plan.limits,
                probes=tuple(
                    self.play(probe)
                    for probe in chosen
                    if probe.probe.kind not in ("mpi_hosts", "mpi_gpus", "node")
                ),
                allocatable=plan.limits.allocatable,
            )
        )


def _filled(names: list[str], moved: Counter[str] | None) -> dict[str, int]:
    return {name: (moved or Counter[str]())[name] for name in names}


def _moved(result: ProbeResult) -> dict[tuple[str, str], Counter[str]]:
    moved: dict[tuple[str, str], Counter[str]] = {}
    for item in result.nic_deltas:
        counts = moved.setdefault((item.host, item.pci), Counter())
        counts.update({f"rx_prio{key}_bytes": size for key, size in item.rx_bytes.items()})
        counts.update({f"tx_prio{key}_bytes": size for key, size in item.tx_bytes.items()})
    for item in result.port_deltas:
        counts = moved.setdefault((item.switch, item.port), Counter())
        counts.update({f"rx_prio{key}_bytes": size for key, size in item.rx_bytes.items()})
        counts.update({f"tx_tc{key}_bytes": size for key, size in item.tx_bytes.items()})
        counts["rx_discards"] += item.discards
    return moved
