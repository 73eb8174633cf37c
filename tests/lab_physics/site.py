"""The site of the DGX-1 RoCE example as plain values, healthy, and the probes that run on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from components.acceptance.digest import digest_log
from components.acceptance.evidence import (
    Evidence,
    Hop,
    HopRole,
    Limits,
    Probe,
    ProbeEvidence,
    RailLimit,
)
from lab.physics.probe import run
from lab.physics.request import Attachment, ProbePod, ProbeRequest, ProbeResult
from lab.views import NicView, PortView

EIGHT_DSCPS_A_PRIORITY = tuple(dscp >> 3 for dscp in range(64))
PFS = (("0000:05:00.0", "enp5s0", "mlx5_0"), ("0000:84:00.0", "enp132s0", "mlx5_1"))
VLANS = (111, 112)
PORTS = {("gpu01", 0): "1/1", ("gpu01", 1): "1/2", ("gpu02", 0): "1/3", ("gpu02", 1): "1/4"}
HOSTS = ("gpu01", "gpu02")
LIMITS = Limits(
    priority=3,
    traffic_class=3,
    rails=tuple(RailLimit(name=f"rail-{i}", line_rate_gbit_s=100) for i in (0, 1)),
)


def make_nic(host: str, rail: int) -> NicView:
    pci, netdev, rdma = PFS[rail]
    return NicView(
        host=host,
        pci=pci,
        netdev=netdev,
        rdma=rdma,
        link_up=True,
        speed_gbit_s=100,
        mtu_bytes=9000,
        vfs=8,
        trust="dscp",
        dscp_to_priority=EIGHT_DSCPS_A_PRIORITY,
        pfc_priorities=frozenset(),
        ecn_priorities=frozenset({3}),
        cnp_dscp=48,
        peermem=True,
        memlock_unlimited=True,
    )


def make_port(host: str, rail: int) -> PortView:
    return PortView(
        switch="leaf-01",
        port=PORTS[host, rail],
        admin_up=True,
        oper_up=True,
        speed_gbit_s=100,
        mtu_bytes=9216,
        mode="hybrid",
        access_vlan=1,
        allowed_vlans=frozenset({VLANS[rail]}),
        trust="L3",
        dscp_to_priority=EIGHT_DSCPS_A_PRIORITY,
        priority_to_tc=tuple(range(8)),
        ecn_kib={3: (150, 1500)},
        pfc_priorities=frozenset(),
    )


@dataclass
class Site:
    """Two workers, two rails, one leaf."""

    nics: dict[tuple[str, int], NicView] = field(
        default_factory=lambda: {
            (host, rail): make_nic(host, rail) for host in HOSTS for rail in (0, 1)
        }
    )
    ports: dict[tuple[str, int], PortView] = field(
        default_factory=lambda: {
            (host, rail): make_port(host, rail) for host in HOSTS for rail in (0, 1)
        }
    )
    env: dict[str, str] = field(default_factory=lambda: {"NCCL_DEBUG": "INFO", "NCCL_IB_TC": "104"})
    tos: int = 104
    largest: str = "2G"
    capabilities: tuple[str, ...] = ()

    def break_nic(self, host: str, rail: int, **changes: Any) -> None:  # noqa: ANN401 - the field that it names has the type
        self.nics[host, rail] = replace(self.nics[host, rail], **changes)

    def break_port(self, host: str, rail: int, **changes: Any) -> None:  # noqa: ANN401 - the field that it names has the type
        self.ports[host, rail] = replace(self.ports[host, rail], **changes)

    def run(self, request: ProbeRequest) -> ProbeResult:
        cables = {("leaf-01", name): (host, PFS[rail][0]) for (host, rail), name in PORTS.items()}
        return run(request, self.nics.values(), self.ports.values(), cables)

    def pod(self, name: str, host: str, command: tuple[str, ...]) -> ProbePod:
        networks = tuple(
            Attachment(
                interface=f"net{rail + 1}",
                ip=f"10.10.{VLANS[rail]}.1{HOSTS.index(host) + 1}",
                pf=PFS[rail][1],
                vlan=VLANS[rail],
                mtu_bytes=9000,
            )
            for rail in (0, 1)
        )
        return ProbePod(name, host, command, self.env, networks, capabilities=self.capabilities)

    def perftest(self, rail: int = 0, *extra: str) -> ProbeResult:
        options = ("ib_write_bw", "-R", "-d", PFS[rail][2], "--report_gbits", "-x", "3", *extra)
        server = self.pod("server", "gpu01", options)
        address = f"10.10.{VLANS[rail]}.11"
        client = self.pod("client", "gpu02", (*options, "-T", str(self.tos), address))
        return self.run(ProbeRequest("perftest", (server, client)))

    def nccl(self) -> ProbeResult:
        words = ("mpirun", "-np", "16", "--tag-output", "all_reduce_perf", "-b", "8")
        launcher = ProbePod("launcher", "", (*words, "-e", self.largest, "-f", "2", "-g", "1"))
        workers = tuple(self.pod(f"worker-{i}", host, ("sshd",)) for i, host in enumerate(HOSTS))
        return self.run(ProbeRequest("nccl", workers, launcher))


@dataclass(frozen=True)
class Way:
    """One direction of a rail."""

    rail: int
    sender: str = "gpu02"
    receiver: str = "gpu01"


def measure(result: ProbeResult, way: Way) -> tuple[Hop, ...]:
    """The four hops of a direction, from what the counters of each interface grew by."""
    places: tuple[tuple[HopRole, str], ...] = (
        ("sender_nic", way.sender),
        ("switch_ingress", way.sender),
        ("switch_egress", way.receiver),
        ("receiver_nic", way.receiver),
    )
    return tuple(_hop(result, way, role, host) for role, host in places)


def _hop(result: ProbeResult, way: Way, role: HopRole, host: str) -> Hop:
    pci, netdev, _ = PFS[way.rail]
    port = PORTS[host, way.rail]
    on_nic = role in ("sender_nic", "receiver_nic")
    nics = [item for item in result.nic_deltas if (item.host, item.pci) == (host, pci)]
    ports = [item for item in result.port_deltas if item.port == port]
    moved: Counter[int] = Counter()
    for item in nics if on_nic else ports:
        out = role in ("sender_nic", "switch_egress")
        moved.update(item.tx_bytes if out else item.rx_bytes)
    return Hop(
        rail=f"rail-{way.rail}",
        direction=f"{way.sender} -> {way.receiver}",
        role=role,
        device=host if on_nic else "leaf-01",
        interface=netdev if on_nic else port,
        total_bytes=moved.total(),
        bytes_by_class=dict(moved),
        discards=0 if on_nic else sum(item.discards for item in ports),
    )


def evidence_of(probe: Probe, result: ProbeResult, ways: tuple[Way, ...]) -> ProbeEvidence:
    hops = tuple(hop for way in ways for hop in measure(result, way))
    outcome = "completed" if result.exit_code == 0 else "failed"
    taken = digest_log(probe, result.log, outcome=outcome)
    return taken.model_copy(update={"hops": hops, "exit_code": result.exit_code})


def perftest_evidence(site: Site, rail: int = 0) -> ProbeEvidence:
    probe = Probe(
        name=f"perftest-rail-{rail}",
        kind="perftest",
        rails=(f"rail-{rail}",),
        nodes=("gpu02", "gpu01"),
    )
    return evidence_of(probe, site.perftest(rail), (Way(rail),))


def nccl_evidence(site: Site) -> ProbeEvidence:
    probe = Probe(
        name="nccl-all-reduce",
        kind="nccl",
        rails=("rail-0", "rail-1"),
        nodes=HOSTS,
        ranks=16,
    )
    ways = tuple(Way(rail, *pair) for rail in (0, 1) for pair in (HOSTS, HOSTS[::-1]))
    return evidence_of(probe, site.nccl(), ways)


def take_evidence(site: Site) -> Evidence:
    """All probes of the example on one site."""
    return Evidence(
        cluster="dgx-roce",
        plan_digest="0123456789abcdef",
        run=1,
        started_at="2026-01-01T00:00:00Z",
        # A proof counts for a month only, and commands know the real date.
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        provenance="lab",
        limits=LIMITS,
        probes=(perftest_evidence(site, 0), perftest_evidence(site, 1), nccl_evidence(site)),
    )
