"""Rules on the one traffic class that RoCE packets have on every layer."""

from __future__ import annotations

from typing import Final

from components.checks.rule import Finding, Findings, at, places
from components.checks.topology import list_all_ports
from components.fabric.queues import marking_of, port_marking
from components.fabric.systems import system_of
from components.fabric.systems.switch_system import ONE_SHOT_PRIORITY
from components.model.cluster import ClusterSpec


def check_one_traffic_class(spec: ClusterSpec) -> Findings:
    """NCCL_IB_TC is the ToS byte of `rdma.dscp`, with an ECN-capable codepoint.

    What the application writes into its packets decides the queue on every hop. Packets that are
    not marked travel in class 0, where neither ECN nor PFC of the RoCE class does anything. A
    two-node test often runs at full speed all the same. With the lowest bits `00` a switch drops
    where it should mark, and `11` says that it has marked already; `01` and `10` are both
    ECN-capable (RFC 3168), and a public cloud documents the first, 41.
    """
    wanted, actual = spec.rdma.ip_traffic_class, spec.jobs.nccl_ib_tc
    if actual is None:
        return
    dscp, codepoint = actual >> 2, actual & _ECN_BITS
    if dscp == spec.rdma.dscp and codepoint in _ECN_CAPABLE:
        return
    reason = f"which is DSCP {dscp}" if dscp != spec.rdma.dscp else _NOT_CAPABLE[codepoint]
    yield Finding(
        f"NCCL would send with traffic class {actual}, {reason}; every hop expects {wanted} "
        f"(DSCP {spec.rdma.dscp}, ECN-capable).",
        places(spec, "jobs.nccl_ib_tc", "rdma.dscp"),
        f"remove nccl_ib_tc (it follows rdma.dscp), or set it to {wanted}.",
    )


_ECN_BITS: Final = 0b11
_ECN_CAPABLE: Final = frozenset({0b01, 0b10})
_NOT_CAPABLE: Final = {
    0b00: "which switches do not mark: its ECN bits are `00`",
    0b11: "which every receiver takes for marked: its ECN bits are `11`",
}
"""RFC 3168, section 5."""


def check_cnp_separate(spec: ClusterSpec) -> Findings:
    """Congestion notifications do not share the queue of the RoCE data.

    They are served strictly before it; in the same queue they would wait for what they are to
    slow down.
    """
    rdma = spec.rdma
    if rdma.cnp_priority == rdma.priority:
        key = "cnp_dscp" if rdma.cnp_class is None else "cnp_class"
        yield Finding(
            f"DSCP {rdma.dscp} and CNP DSCP {rdma.cnp_dscp} are both priority {rdma.priority}: "
            "RoCE data and its congestion notifications share a queue.",
            (at(("rdma", key), getattr(rdma, key)), at(("rdma", "dscp"), rdma.dscp)),
            "give the notifications a priority of their own: cnp_dscp 48 is priority 6.",
        )


def check_ecn_thresholds(spec: ClusterSpec) -> Findings:
    """Marking begins at a smaller queue than the one at which most packets are marked.

    Equal or swapped thresholds mark everything or nothing. They are in KiB here; other systems
    take bytes. What the file leaves out is what the vendor recommends for the speed of the port.
    """
    yield from _common_thresholds(spec)
    for speed, marking in spec.rdma.ecn_by_speed.items():
        if marking.min_kib >= marking.max_kib:
            path = ("rdma", "ecn_by_speed", str(speed))
            yield Finding(
                f"on ports of {speed} Gbit/s ECN marking would begin at {marking.min_kib} KiB, "
                f"not below its maximum of {marking.max_kib} KiB.",
                (at((*path, "min_kib"), marking.min_kib), at((*path, "max_kib"), marking.max_kib)),
                "make min_kib the smaller one.",
            )
    for port in list_all_ports(spec):
        own = port_marking(spec.rdma, port.switch.os, port.port, 0)
        low, high = own.min_kib, own.max_kib
        if (port.port.ecn_min_kib or port.port.ecn_max_kib) and low >= high:
            key = "ecn_min_kib" if port.port.ecn_min_kib else "ecn_max_kib"
            yield Finding(
                f"on {port} ECN marking begins at {low} KiB, not below its maximum {high} KiB.",
                (at((*port.path, key), low if key == "ecn_min_kib" else high),),
                "give the port both thresholds, the smaller one first.",
            )


def _common_thresholds(spec: ClusterSpec) -> Findings:
    """What the file says for every speed, beside what is recommended for the rest."""
    rdma = spec.rdma
    said = {"ecn_min_kib": rdma.ecn_min_kib, "ecn_max_kib": rdma.ecn_max_kib}
    places = tuple(at(("rdma", key), kib) for key, kib in said.items() if kib is not None)
    for os in dict.fromkeys(s.os for s in spec.switches if s.carries == "roce") if places else ():
        marking = marking_of(rdma, os)
        if marking.min_kib >= marking.max_kib:
            yield Finding(
                f"ECN marking begins at {marking.min_kib} KiB, not below {marking.max_kib} KiB.",
                places,
                "make ecn_min_kib the smaller one; 150 and 1500 suit 100 Gbit/s ports.",
            )
            return


def check_pfc_priority(spec: ClusterSpec) -> Findings:
    """A lossless class is neither priority 0 nor 7.

    PFC pauses all that is in the priority. Priority 0 holds every unmarked packet, and
    7 the network's own control traffic: pausing either stops the site. A switch that is made
    lossless by a one-shot, as by Onyx' `roce`, knows priority 3 only.
    """
    rdma = spec.rdma
    if rdma.host_pfc and rdma.priority in {0, 7}:
        content = "all unmarked traffic" if rdma.priority == 0 else "network control traffic"
        yield Finding(
            f"PFC on priority {rdma.priority} (DSCP {rdma.dscp}) would pause {content}.",
            places(spec, "rdma.dscp", "rdma.mode"),
            "use DSCP 26, which is priority 3, or mode lossy_ecn.",
        )
        return
    bound = [s for s in spec.switches if rdma.mode in system_of(s.os).one_shot_modes]
    if rdma.host_pfc and rdma.priority != ONE_SHOT_PRIORITY and bound:
        yield Finding(
            f"{bound[0].name} makes priority {ONE_SHOT_PRIORITY} lossless, not {rdma.priority}.",
            places(spec, "rdma.dscp", "rdma.mode"),
            "use DSCP 26, which is priority 3, or mode lossy_ecn.",
        )


WHOLE: Final = 100
"""Percent of a port. Cumulus refuses more; EOS and SONiC would weigh what is over it again."""
BEST_EFFORT: Final = 0
"""The class of everything that is not marked (NIC and switch maps)."""


def check_queue_shares(spec: ClusterSpec) -> Findings:
    """The shares of a port are 100 together, and RoCE and everything unmarked have one.

    A class without a share gets what the others leave, which is nothing while RoCE sends: then
    the unmarked traffic of class 0, such as SSH and Kubernetes over the same port, starves. A
    strict class goes before every share, so it is for small traffic alone.
    """
    rdma, schedule = spec.rdma, spec.rdma.schedule
    if schedule is None:
        return
    place = ("rdma", "schedule", "shares")
    shares, total = schedule.shares, sum(schedule.shares.values())
    said = ", ".join(f"{tc}: {share}" for tc, share in sorted(shares.items()))
    where = (at(place, f"{{{said}}}"),)
    strict = {*schedule.strict, rdma.cnp_priority}
    both = sorted({*shares} & strict)
    needed = [tc for tc in (rdma.traffic_class, BEST_EFFORT) if tc not in shares]
    example = f"{{{BEST_EFFORT}: 50, {rdma.traffic_class}: 50}}"
    if both:
        yield Finding(
            f"class {both[0]} has a share of the port and is served strictly, before all shares.",
            where,
            f"leave it out of shares, for example shares: {example}.",
        )
    elif needed:
        yield Finding(
            f"class {needed[0]} has no share of the port: it would starve while others send.",
            where,
            f"give it one, for example shares: {example}.",
        )
    elif total != WHOLE:
        yield Finding(
            f"the shares of the classes are {total} % of the port together.",
            where,
            f"make them {WHOLE}, for example shares: {example}.",
        )
