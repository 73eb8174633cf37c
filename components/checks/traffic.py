"""Rules on the one traffic class that RoCE packets have on every layer."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.rule import Finding, at
from components.checks.topology import list_all_ports
from components.fabric.systems import system_of
from components.fabric.systems.switch_system import ONE_SHOT_PRIORITY
from components.model.cluster import ClusterSpec


def check_one_traffic_class(spec: ClusterSpec) -> Iterator[Finding]:
    """NCCL_IB_TC is the ToS byte of `rdma.dscp`, with the ECN-capable bit.

    What the application writes into its packets decides the queue on every hop. Packets that are
    not marked travel in class 0, where neither ECN nor PFC of the RoCE class does anything. A
    two-node test often runs at full speed all the same. Without the lowest bits `10` a switch
    drops where it should mark.
    """
    wanted, actual = spec.rdma.ip_traffic_class, spec.jobs.nccl_ib_tc
    if actual is None or actual == wanted:
        return
    dscp = actual >> 2
    reason = (
        "which switches do not mark: its ECN bits are not `10`"
        if dscp == spec.rdma.dscp
        else f"which is DSCP {dscp}"
    )
    yield Finding(
        f"NCCL would send with traffic class {actual}, {reason}; every hop expects {wanted} "
        f"(DSCP {spec.rdma.dscp}, ECN-capable).",
        (at(("jobs", "nccl_ib_tc"), actual), at(("rdma", "dscp"), spec.rdma.dscp)),
        f"remove nccl_ib_tc (it follows rdma.dscp), or set it to {wanted}.",
    )


def check_cnp_separate(spec: ClusterSpec) -> Iterator[Finding]:
    """Congestion notifications do not share the queue of the RoCE data.

    They are served strictly before it; in the same queue they would wait for what they are to
    slow down.
    """
    rdma = spec.rdma
    if rdma.cnp_priority == rdma.priority:
        yield Finding(
            f"DSCP {rdma.dscp} and CNP DSCP {rdma.cnp_dscp} are both priority {rdma.priority}: "
            "RoCE data and its congestion notifications share a queue.",
            (at(("rdma", "cnp_dscp"), rdma.cnp_dscp), at(("rdma", "dscp"), rdma.dscp)),
            "give the notifications a priority of their own: cnp_dscp 48 is priority 6.",
        )


def check_ecn_thresholds(spec: ClusterSpec) -> Iterator[Finding]:
    """Marking begins at a smaller queue than the one at which every packet is marked.

    Equal or swapped thresholds mark everything or nothing. They are in KiB here; other systems
    take bytes.
    """
    rdma = spec.rdma
    # Where a switch has a profile, `cumulus-profile` says what the two have to be.
    profile = any(system_of(switch.os).profile is not None for switch in spec.switches)
    if rdma.ecn_min_kib >= rdma.ecn_max_kib and not profile:
        yield Finding(
            f"ECN marking would begin at {rdma.ecn_min_kib} KiB, not below its maximum of "
            f"{rdma.ecn_max_kib} KiB.",
            (
                at(("rdma", "ecn_min_kib"), rdma.ecn_min_kib),
                at(("rdma", "ecn_max_kib"), rdma.ecn_max_kib),
            ),
            "make ecn_min_kib the smaller one; 150 and 1500 suit 100 Gbit/s ports.",
        )
    for port in list_all_ports(spec):
        low = port.port.ecn_min_kib or rdma.ecn_min_kib
        high = port.port.ecn_max_kib or rdma.ecn_max_kib
        if (port.port.ecn_min_kib or port.port.ecn_max_kib) and low >= high:
            key = "ecn_min_kib" if port.port.ecn_min_kib else "ecn_max_kib"
            yield Finding(
                f"on port {port.name} of {port.switch.name} ECN marking would begin at {low} KiB, "
                f"not below its maximum of {high} KiB.",
                (at((*port.path, key), low if key == "ecn_min_kib" else high),),
                "give the port both thresholds, the smaller one first.",
            )


def check_pfc_priority(spec: ClusterSpec) -> Iterator[Finding]:
    """A lossless class is neither priority 0 nor 7.

    PFC pauses all that is in the priority. Priority 0 holds every unmarked packet, and
    7 the network's own control traffic: pausing either stops the site. A switch that is made
    lossless by a one-shot, as by Onyx' `roce`, knows priority 3 only.
    """
    rdma = spec.rdma
    if rdma.host_pfc and rdma.priority in {0, 7}:
        content = "all unmarked traffic" if rdma.priority == 0 else "network control traffic"
        yield Finding(
            f"PFC on priority {rdma.priority}, which is that of DSCP {rdma.dscp}, would pause "
            f"{content}.",
            (at(("rdma", "dscp"), rdma.dscp), at(("rdma", "mode"), rdma.mode)),
            "use DSCP 26, which is priority 3, or mode lossy_ecn.",
        )
        return
    bound = [s for s in spec.switches if rdma.mode in system_of(s.os).one_shot_modes]
    if rdma.host_pfc and rdma.priority != ONE_SHOT_PRIORITY and bound:
        yield Finding(
            f"{bound[0].name} can make only priority {ONE_SHOT_PRIORITY} lossless, and "
            f"DSCP {rdma.dscp} is priority {rdma.priority}.",
            (at(("rdma", "dscp"), rdma.dscp), at(("rdma", "mode"), rdma.mode)),
            "use DSCP 26, which is priority 3, or mode lossy_ecn.",
        )
