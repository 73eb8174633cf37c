"""Evidence of acceptance: the plan, the contents of the logs, the counters of every hop.

It is the output of the evidence step and the input of the gate. It does not judge; `judge/` does.
Its JSON form is indented and has only short lines, because the engine's plugin protocol breaks
lines of 64 KiB; raw logs stay in files, and the evidence has only their digests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import not_
from typing import Literal

from pydantic import Field, ValidationError

from components.acceptance.logs import log_model
from components.acceptance.logs.log_model import Seen
from components.acceptance.logs.node import NodeLog
from components.acceptance.probes.ib_look import IbFacts, IbLimits
from components.core.difference import ForeignSetting
from components.core.errors import UsageError
from components.model.jobs import LATENCY_TAIL_US, LossLimits
from components.model.units import LARGEST_RDMA_MTU

MAX_AGE_DAYS = 30
"""Default of `acceptance.max_age_days`, which says why."""

HopRole = Literal[
    "sender_nic", "switch_ingress", "uplink_egress", "spine_ingress", "spine_egress",
    "downlink_ingress", "switch_egress", "receiver_nic",
]  # fmt: skip
"""In the order of the way. Each role between the two leaves is several ports, and the switches
choose which of them the bytes take."""
HopStatus = Literal[
    "observed", "not_observed", "not_counted", "uncounted", "unreachable", "no_login"
]
"""`uncounted`: the system or driver does not count bytes by priority (EOS and SONiC on arrival,
some NICs), and the other hops prove the class. `not_counted`: a counter went back during the probe,
because it was cleared or wrapped."""
ProbeKind = Literal[
    "image", "node", "perftest", "nccl", "deepspeed_scan", "resnet50", "mpi_hosts", "mpi_gpus"
]
Outcome = Literal["completed", "failed", "timed_out", "not_run", "skipped"]
"""`not_run`: the run was tried. `skipped`: it was not tried, and `detail` gives the reason."""


class RailLimit(Seen):
    """The speed of the slowest link of a rail."""

    name: str
    line_rate_gbit_s: float
    rdma_mtu_bytes: int = Field(
        default=LARGEST_RDMA_MTU, exclude_if=lambda each: each == LARGEST_RDMA_MTU
    )
    """The RDMA MTU that the smallest MTU of its interfaces gives."""
    networks: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """IPv4 networks of the addresses that both ends of a test have; empty for any GID."""
    devices: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Names of its RDMA devices, if the file gives them and pods see the cards themselves."""


class WorkerGroup(Seen):
    """Workers of one kind, and the reason if no collective runs between them."""

    name: str
    hosts: tuple[str, ...]
    gpus: int
    rails: tuple[str, ...]
    unproven: str = ""


class Unproven(Seen):
    """A subject that no probe proves, with the reason."""

    subject: str
    what: str
    why: str


class Limits(Seen):
    """The expectations for every probe, with the factors of the floors."""

    transport: Literal["roce", "ib"] = "roce"
    require_gdr: bool = True
    priority: int | None = None
    """The priority of RDMA on NICs and at switch ingress; None for InfiniBand, which has none."""
    traffic_class: int | None = None
    """The egress traffic class of that priority."""
    waived: Mapping[str, str] = Field(default_factory=dict, exclude_if=not_)
    rails: tuple[RailLimit, ...] = ()
    pair_fraction: float = 0.90
    """Least `ib_write_bw` average over line rate: NVIDIA's ngc_multinode_perf and Imbue; the
    DeepOps guide measured 0.924."""
    nccl_fraction: float = 0.85
    """Least NCCL bus bandwidth over the line rate of all rails; the DeepOps guide: 0.916."""
    losses: LossLimits = Field(default=LossLimits(), exclude_if=lambda each: each == LossLimits())
    latency_tail_us: float = Field(
        default=LATENCY_TAIL_US, exclude_if=lambda each: each == LATENCY_TAIL_US
    )
    """Most that 99.9 % of the small messages of a latency test may take."""
    hcas: int = 0
    """InfiniBand: adapters of every worker that must take part."""
    hca_rate_gbit_s: float = 0.0
    hca_names: tuple[str, ...] = ()
    """InfiniBand: adapters that must be among them; empty for any."""
    topology_file: str = ""
    """NCCL's topology file as the pods see it; empty if NCCL reads the PCIe tree."""
    nccl_min_version: str = ""
    """Least release of NCCL; empty for any."""
    nccl_floor_gb_s: float | None = None
    """Least bus bandwidth given as a number instead of `nccl_fraction`; GB/s."""
    nccl_warn_gb_s: float | None = None
    """Below it, the report warns; GB/s."""
    nccl_floor_source: str = ""
    """Where that number comes from."""
    images_floor_s: float | None = None
    """Least images per second of the training benchmark, all GPUs together."""
    scan_floor_gbit_s: float | None = None
    """Least bus bandwidth of DeepSpeed's largest message, in Gb/s."""
    scan_sizes: int = 0
    allocatable: dict[str, dict[str, int]] = Field(default_factory=dict[str, dict[str, int]])
    """Worker to the extended resources that it must offer to pods."""
    groups: tuple[WorkerGroup, ...] = Field(default=(), exclude_if=not_)
    unproven: tuple[Unproven, ...] = Field(default=(), exclude_if=not_)
    """Subjects that no probe proves: the report lists them, and they never pass."""
    ib: IbLimits | None = Field(default=None, exclude_if=lambda each: each is None)
    """Expectations for a fabric of the site's own InfiniBand switches."""

    def rdma_mtu_on(self, rails: Sequence[str]) -> int:
        """The smallest RDMA MTU of some rails in bytes; without a known rail, the largest."""
        own = (rail.rdma_mtu_bytes for rail in self.rails if rail.name in rails)
        return min(own, default=LARGEST_RDMA_MTU)


class Probe(Seen):
    """One planned probe."""

    name: str
    kind: ProbeKind
    rails: tuple[str, ...]
    nodes: tuple[str, ...]
    """perftest: sender, receiver. NCCL: the hosts of the workers."""
    ranks: int = 0
    """Ranks that must take part; of `mpi_gpus`, the GPUs that must be listed."""
    collective: str = "all_reduce"
    rates: dict[str, float] = Field(default_factory=dict[str, float], exclude_if=not_)
    """Rail to its line rate for this probe in Gb/s, if its hosts are faster than others."""
    flows: int = Field(default=0, exclude_if=not_)
    """perftest: its connections, if several."""
    tools: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """perftest: the programs that ran one after the other; empty for `ib_write_bw` alone."""
    refused: bool = Field(default=False, exclude_if=not_)
    """perftest: its ends are on separate rails and must not reach each other."""
    image: str = Field(default="", exclude_if=not_)
    programs: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Of `image`: the programs that jobs call in it."""
    nccl_least: str = Field(default="", exclude_if=not_)
    """Of `image`: the oldest NCCL that works in the pods of this site; empty for any."""
    nccl_suspect: str = Field(default="", exclude_if=not_)
    """Of `image`: an NCCL reported to crash on the V100 of this site."""


def places_of(probe: Probe) -> list[tuple[str, str]]:
    """Each host of a probe, with each of its rails."""
    return [(node, rail) for rail in probe.rails for node in probe.nodes]


def has_two_directions(probe: Probe) -> bool:
    """Whether a perftest reads as well as it writes, which makes both ends send."""
    return len(probe.tools) > 1 and "ib_read_bw" in probe.tools


def sends_back(probe: Probe, direction: str) -> bool:
    """Whether a hop's direction is from the server of a perftest to its client."""
    if probe.kind != "perftest":
        return False
    client, server = probe.nodes
    return direction in {f"{server} -> {client}", f"{server} sends", f"{client} receives"}


class Hop(Seen):
    """The growth of one interface's counters for one direction of a probe: after minus before."""

    rail: str
    direction: str
    """`gpu01 -> gpu02`."""
    role: HopRole
    device: str
    interface: str
    status: HopStatus = "observed"
    detail: str = ""
    """Why it was not observed, or which counters were missing."""
    total_bytes: int | None = 0
    """None: the system lacks such counters (`uncounted`)."""
    bytes_by_class: dict[int, int] = Field(default_factory=dict[int, int])
    """Priorities at NICs and switch ingress, traffic classes at switch egress."""
    pause_frames: int | None = None
    """PFC frames in both directions, over all priorities."""
    pauses_received: dict[int, int] = Field(default_factory=dict[int, int], exclude_if=not_)
    """By priority, if any: the interface's sending was paused."""
    pauses_sent: dict[int, int] = Field(default_factory=dict[int, int], exclude_if=not_)
    """By priority, if any: its neighbour's sending was paused."""
    storms: dict[int, int] = Field(default_factory=dict[int, int], exclude_if=not_)
    """By traffic class, if any: how often the PFC watchdog found its queue stuck."""
    discards: int | None = None
    out_of_sequence: int | None = None
    ecn_marked: int | None = None
    """Of a switch, the packets that it marked; of a NIC, the packets that arrived marked."""
    shared: int = Field(default=0, exclude_if=not_)
    """How many probes of a round crossed it in one direction; 0 for one alone. It counted all."""
    retransmissions: int | None = Field(default=None, exclude_if=lambda each: each is None)
    errors: dict[str, int] = Field(default_factory=dict[str, int], exclude_if=not_)
    """Counter to growth, if it grew: a sound link counts no errors."""
    noted: dict[str, int] = Field(default_factory=dict[str, int], exclude_if=not_)
    """The same for counters that fail nothing but explain why a probe is slow."""

    @property
    def place(self) -> str:
        """How the hop is named to a person."""
        return f"{self.device} {self.interface}"


class RoutingSeen(Seen):
    """One routed link on the way of a probe, as its switch showed it afterwards."""

    device: str
    where: str
    """`port swp31`, or `switch`."""
    what: str
    fix: str
    kind: Literal["lost", "unread", "unsaid"] = "lost"


class ProbeEvidence(Seen):
    """One probe as it ran."""

    probe: Probe
    outcome: Outcome
    detail: str = ""
    """Of a probe that did not complete: the last state."""
    duration_s: float = 0.0
    command: str = ""
    log_file: str = ""
    log_sha256: str = ""
    log_bytes: int = 0
    log_tail: tuple[str, ...] = ()
    nccl: log_model.NcclLog | None = None
    """The log of a collective, or NCCL's messages in a framework's or a node's log."""
    perftest: log_model.PerftestLog | None = None
    deepspeed: log_model.DeepSpeedLog | None = None
    training: log_model.TrainingLog | None = None
    mpi: log_model.MpiLog | None = None
    image: log_model.ImageLog | None = None
    node: NodeLog | None = None
    """Of `node`: the state of its GPUs; the load's own log is in `nccl`."""
    problem: log_model.ParseProblem | None = None
    proven_at: str = ""
    """Of a skipped probe: when it was last proven; empty for never."""
    hops: tuple[Hop, ...] = ()
    round: int = Field(default=0, exclude_if=not_)
    """Of probes that ran at once: their common number; 0 for a probe that ran alone."""
    routing: tuple[RoutingSeen, ...] = Field(default=(), exclude_if=not_)
    """Routed links on its way that carried no routes after it."""


class LeftOut(Seen):
    """A probe of the site that this run did not ask for."""

    name: str
    proven_at: str = ""
    """When it was last proven; empty for never."""


class Unreachable(Seen):
    """A device that could not be asked."""

    device: str
    address: str
    detail: str


class ForeignSettingSeen(Seen):
    """A setting outside our management that breaks our traffic on one device."""

    device: str
    kind: str
    """As the file names it under `guards`."""
    setting: str
    """`rewrite_dscp of port 1/1`."""
    actual: str
    harmless: str
    breaks: str
    fix: str


class Evidence(Seen):
    """One run of acceptance."""

    schema_version: int = 1
    cluster: str
    plan_digest: str
    run: int
    started_at: str
    """UTC, ISO 8601."""
    finished_at: str
    provenance: Literal["real", "lab"]
    """`lab`: devices and numbers are simulated, and every report repeats this."""
    limits: Limits
    probes: tuple[ProbeEvidence, ...]
    unreachable: tuple[Unreachable, ...] = ()
    memlock: dict[str, str] = Field(default_factory=dict[str, str])
    """Worker to what `ulimit -l` printed in a pod there."""
    allocatable: dict[str, dict[str, int]] = Field(default_factory=dict[str, dict[str, int]])
    """Worker to the extended resources that it offered to pods; a worker is absent if not read."""
    ib: dict[str, IbFacts] = Field(default_factory=dict[str, IbFacts])
    """Worker to its view of a fabric of the site's own InfiniBand switches."""
    when_busy: Literal["warn", "wait", "fail"] = "fail"
    """How the gate treats probes whose nodes were in use by others."""
    left_out: tuple[LeftOut, ...] = ()
    places_left_out: tuple[str, ...] = ()
    """`host rail` of the probes outside of the scope."""
    last_proofs: dict[str, str] = Field(default_factory=dict[str, str])
    """`host rail` to the end of the last run before this one that proved it."""
    beside: tuple[ForeignSettingSeen, ...] | None = Field(
        default=None, exclude_if=lambda each: each is None
    )
    """Settings outside our management, as found before the update; None: nothing was read."""
    scope: str = Field(default="", exclude_if=not_)
    """The scope that a person asked for; a pass covers only this scope, not the whole site."""
    max_age_days: int = Field(default=MAX_AGE_DAYS, exclude_if=lambda each: each == MAX_AGE_DAYS)
    facts: dict[str, str] = Field(default_factory=dict[str, str])
    """Inventory for the report: versions, firmware, MTU, GID, as `name: value`."""


def days_since(date: str, now: datetime) -> float | None:
    """The age of a date as evidence has it; None for another text."""
    try:
        then = datetime.fromisoformat(date)
    except ValueError:
        return None
    return (now - (then if then.tzinfo else then.replace(tzinfo=UTC))).total_seconds() / 86_400


def diff_counters(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """The growth of each counter; one that went back was cleared or wrapped, and is left out."""
    return {name: n - before.get(name, 0) for name, n in after.items() if n >= before.get(name, 0)}


def dump_evidence(evidence: Evidence) -> str:
    """The JSON form: indented, because then every line is short."""
    whole = log_model.cut_texts(evidence.model_dump(mode="json"))
    return json.dumps(whole, indent=1, sort_keys=True)


def parse_evidence(text: str) -> Evidence:
    """Reads the JSON form; UsageError if the text is not evidence of this version."""
    try:
        return Evidence.model_validate_json(text)
    except ValidationError as error:
        raise UsageError(f"this is not acceptance evidence: {error}") from error


def as_seen(device: str, beside: ForeignSetting) -> ForeignSettingSeen:
    """Convert one foreign setting to its form in the evidence."""
    found = beside.found
    return ForeignSettingSeen(
        device=device,
        kind=beside.kind,
        setting=f"{found.setting} of {found.where}",
        actual=found.actual,
        harmless=found.desired,
        breaks=beside.breaks,
        fix=beside.fix,
    )
