"""What switches that Railyard does not manage must be set to: a page for whoever runs them.

It has a module of its own because no other one knows the fabric of a file without switches.
"""

from __future__ import annotations

from collections.abc import Iterator

from components.fabric.queues import marking_of
from components.model.cluster import ClusterSpec
from components.model.fabric import Rail, Rdma
from components.model.name_lists import fold_names
from components.model.owners import runs_on_foreign_fabric


def foreign_fabric(spec: ClusterSpec) -> tuple[str, ...]:
    """The settings of all hops of the rails, a line each; none if Railyard has switches to set.

    Thresholds of ECN are the file's, else those that NVIDIA recommends for its own switches.
    """
    return tuple(_lines(spec)) if runs_on_foreign_fabric(spec) else ()


def _lines(spec: ClusterSpec) -> Iterator[str]:
    rdma = spec.rdma
    yield "# The file has no switches: none is set, read or judged. Set every port to a card of the"
    yield "# list, and every link between such switches, to what follows."
    for rail in spec.rails:
        yield _rail(spec, rail)
    yield f"MTU: {rdma.port_mtu_bytes} bytes or more (the cards send up to {rdma.mtu_bytes})"
    yield "trust: DSCP (layer 3), not the priority of the VLAN tag"
    yield f"RoCE: DSCP {rdma.dscp} to priority {rdma.priority} and queue {rdma.traffic_class}"
    yield (
        f"congestion notifications: DSCP {rdma.cnp_dscp} to priority and queue "
        f"{rdma.cnp_priority}, strict: served before all others"
    )
    yield from _marking(spec)
    yield _pause(rdma)
    yield "DCBX: off, so that no switch changes what the cards are set to"


def _rail(spec: ClusterSpec, rail: Rail) -> str:
    tagged = spec.kubernetes is not None and spec.pod_network.mode == "sriov"
    form = "tagged (the pods' VFs tag)" if tagged else "untagged (the cards do not tag)"
    hosts: dict[str, list[str]] = {}
    for host in spec.hosts:
        for nic in host.nics:
            if nic.rail == rail.name:
                hosts.setdefault(f"{nic.netdev} {nic.speed_gbit_s}G", []).append(host.name)
    cards = [f"{fold_names(names)} {card}" for card, names in hosts.items()]
    gateway = f", gateway {rail.gateway}" if rail.gateway else ""
    head = f"{rail.name}: VLAN {rail.vlan} {form}, {rail.subnet}{gateway}"
    return f"{head}; {sum(map(len, hosts.values()))} ports: {', '.join(cards)}"


def _marking(spec: ClusterSpec) -> Iterator[str]:
    rdma = spec.rdma
    for speed in sorted({nic.speed_gbit_s for host in spec.hosts for nic in host.nics}):
        ecn = marking_of(rdma, "", speed)  # no system's row: NVIDIA's
        yield (
            f"ECN: on, ports of {speed} Gbit/s mark in queue {rdma.traffic_class} from "
            f"{ecn.min_kib} KiB, and {ecn.percent} % of packets at {ecn.max_kib} KiB"
        )


def _pause(rdma: Rdma) -> str:
    if rdma.mode == "lossy_ecn":
        return "PFC: off on every priority (rdma.mode is lossy_ecn)"
    half = rdma.mode == "semi_lossless"
    side = "obeyed on ports to cards, sent nowhere" if half else "on every port, both ways"
    watchdog = ", with the PFC watchdog" if rdma.pfc_watchdog else ""
    headroom = "; its buffer needs headroom for the length of the cable"
    return f"PFC: on for priority {rdma.priority} alone, {side}{watchdog}{headroom}"
