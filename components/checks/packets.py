"""Rules on RoCE packets: their sizes along the path, and the one traffic class on every layer."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Final, NamedTuple

from components.checks import topology
from components.checks.rule import Finding, Findings, Here, at, find, places, twins, values, walk
from components.core.problem import Place
from components.fabric.links import link_addresses
from components.fabric.ports import marking_of, port_marking
from components.fabric.systems import system_of
from components.fabric.systems.switch_system import ONE_SHOT_PRIORITY
from components.model.cluster import ClusterSpec
from components.model.switch_models import Schedule
from components.model.units import FULL_RDMA_NEEDS_BYTES, LARGEST_RDMA_MTU, rdma_mtu

_IPV6_BYTES: Final = 1280
"""Least MTU of a link that carries IPv6 (RFC 8200): BGP between link-local addresses needs it."""
_NOT_CAPABLE: Final = {
    0b00: "switches do not mark its ECN bits `00`",
    0b11: "its ECN bits `11` count as marked",
}
"""RFC 3168, section 5."""
WHOLE: Final = 100
"""Percent of a port. Cumulus refuses more; EOS and SONiC would only use the shares as weights."""
BEST_EFFORT: Final = 0
"""The class of all unmarked traffic (NIC and switch maps)."""


class _Hop(NamedTuple):
    name: str
    mtu_bytes: int
    place: Place


def _hop(spec: ClusterSpec, name: str, own: tuple[Place, ...], key: str = "mtu_bytes") -> _Hop:
    """Return one hop with its own MTU, else with the site's."""
    place = next((each for each in own if each.value), places(spec, f"rdma.{key}")[0])
    return _Hop(name, int(place.value or 0), place)


def _pf(spec: ClusterSpec, nic: topology.PlacedNic) -> _Hop:
    return _hop(spec, "PF", nic.at("mtu_bytes"))


def _vf(spec: ClusterSpec, nic: topology.PlacedNic) -> _Hop:
    return _hop(spec, "VF", nic.at("vf_mtu_bytes", "mtu_bytes"))


def _port(spec: ClusterSpec, port: topology.PlacedPort) -> _Hop:
    return _hop(spec, "switch port", port.at("mtu_bytes"), "port_mtu_bytes")


def check_mtu_chain(spec: ClusterSpec) -> Findings:
    """The MTU never shrinks on the way out: pod <= VF <= PF <= switch port.

    A hop with a smaller MTU silently drops the large packets: ping works, and RDMA hangs in
    retries.
    """
    pod = _hop(spec, "pod", places(spec, "pod_network.mtu_bytes"))
    nics, cables = topology.list_nics(spec), topology.list_cables(spec)
    chains: list[tuple[_Hop, ...]] = [(pod, _vf(spec, nic), _pf(spec, nic)) for nic in nics]
    chains += [(_pf(spec, cable.nic), _port(spec, cable.port)) for cable in cables]
    for (inner, least, near), (outer, most, far) in chain.from_iterable(map(pairwise, chains)):
        if least > most:
            yield find("mtu-chain", near, far, inner=inner, least=least, outer=outer, most=most)


def check_link_mtu(spec: ClusterSpec) -> Findings:
    """A link between switches takes the packets of the cards, and IPv6 where BGP speaks by it.

    A smaller MTU silently drops the large packets of every rail that crosses the link.
    """
    numbered = link_addresses(spec)
    cables = topology.list_cables(spec)
    cards = [(_pf(spec, each.nic), _port(spec, each.port), each) for each in cables]
    site = [pf for pf, _, cable in cards if cable.port.port.mtu_bytes is None]
    reports_site = any(pf.mtu_bytes > spec.rdma.port_mtu_bytes for pf in site)
    fit = (pf for pf, port, _ in cards if pf.mtu_bytes <= port.mtu_bytes)
    card = max(fit, key=lambda pf: pf.mtu_bytes, default=_hop(spec, "PF", ()))
    for port in topology.list_link_ports(spec):
        if reports_site and port.port.mtu_bytes is None:
            continue  # `mtu-chain` reports `rdma.port_mtu_bytes`
        hop, limit = _port(spec, port), (card.place,)
        bare = port.port.mode == "routed" and (port.switch.name, port.name) not in numbered
        least, why = card.mtu_bytes, "the cards send packets of"
        if bare and least < _IPV6_BYTES:
            least, why, limit = _IPV6_BYTES, "BGP on a link without an address needs", ()
        if hop.mtu_bytes < least:
            yield find("link-mtu", hop.place, *limit, port=port, hop=hop, why=why, least=least)


def check_rdma_path_mtu(spec: ClusterSpec) -> Findings:
    """The VF's MTU leaves room for an RDMA path MTU of 4096.

    The kernel subtracts 96 bytes for RoCE headers, so 4192 is the least MTU for 4096.
    """
    for nic in topology.list_nics(spec):
        vf = _vf(spec, nic)
        path_mtu = rdma_mtu(vf.mtu_bytes)
        if path_mtu < LARGEST_RDMA_MTU:
            words = {"vf": vf, "path_mtu": path_mtu, "needed": FULL_RDMA_NEEDS_BYTES}
            yield find("rdma-path-mtu", vf.place, **words)


def check_rail_mtu(spec: ClusterSpec) -> Findings:
    """All VFs of one rail have the same MTU.

    The path MTU of a connection is the smaller one of its two ends: one host with a small MTU slows
    all its partners without an error.
    """
    for nic, first in twins(topology.list_nics(spec), lambda nic: nic.nic.rail):
        own, other = _vf(spec, nic), _vf(spec, first)
        if own.mtu_bytes != other.mtu_bytes:
            yield find("rail-mtu", own.place, other.place, nic=nic, own=own, other=other)


def check_one_traffic_class(spec: ClusterSpec) -> Findings:
    """NCCL_IB_TC is the ToS byte of `rdma.dscp`, with an ECN-capable codepoint.

    Unmarked packets travel in class 0, without ECN and PFC of the RoCE class; a two-node test often
    runs at full speed all the same. With the lowest bits `00` a switch drops packets instead of
    marking them, and `11` means already marked; `01` and `10` are ECN-capable (RFC 3168).
    """
    for each in values(spec, "jobs.nccl_ib_tc"):
        dscp, ecn = divmod(each.value, 4)
        reason = _NOT_CAPABLE.get(ecn) if dscp == spec.rdma.dscp else f"it is DSCP {dscp}"
        if reason is not None:
            wanted = spec.rdma.ip_traffic_class
            where = (each.place, *places(spec, "rdma.dscp"))
            yield find("one-traffic-class", *where, each=each, reason=reason, needed=wanted)


def check_cnp_separate(spec: ClusterSpec) -> Findings:
    """Congestion notifications do not share the queue of the RoCE data.

    In the same queue they would wait behind the data that they should slow down.
    """
    rdma = spec.rdma
    if rdma.cnp_priority == rdma.priority:
        key = "cnp_dscp" if rdma.cnp_class is None else "cnp_class"
        yield find("cnp-separate", *places(spec, f"rdma.{key}", "rdma.dscp"), rdma=rdma)


def check_ecn_thresholds(spec: ClusterSpec) -> Findings:
    """Marking begins at a smaller queue than the one at which most packets are marked.

    Equal or swapped thresholds mark everything or nothing.
    """
    rdma = spec.rdma
    said = places(spec, "rdma.ecn_min_kib", "rdma.ecn_max_kib")
    where = tuple(place for place in said if place.value is not None)
    oses = dict.fromkeys(s.os for s in spec.switches if s.carries == "roce") if where else ()
    common = (marking_of(rdma, os) for os in oses)  # recommended values for omitted ones
    for each in [each for each in common if each.min_kib >= each.max_kib][:1]:
        yield find("ecn-thresholds", *where, each=each)
    for speed, each in rdma.ecn_by_speed.items():
        if each.min_kib >= each.max_kib:
            here = Here(each, ("rdma", "ecn_by_speed", str(speed)))
            yield find("ecn-thresholds-gbit", *here("min_kib", "max_kib"), speed=speed, each=each)
    for port in topology.list_all_ports(spec):
        own = port_marking(rdma, port.switch.os, port.port, 0)
        low, high = own.min_kib, own.max_kib
        key = "ecn_min_kib" if port.port.ecn_min_kib else "ecn_max_kib"
        if (port.port.ecn_min_kib or port.port.ecn_max_kib) and low >= high:
            yield find("ecn-thresholds-maximum", *port.at(key), port=port, low=low, high=high)


def check_pfc_priority(spec: ClusterSpec) -> Findings:
    """A lossless class is neither priority 0 nor 7.

    Priority 0 has every unmarked packet, and 7 the network's own control traffic: a pause of either
    stops the site. A switch that becomes lossless by a one-shot, such as Onyx' `roce`, supports
    only priority 3.
    """
    rdma = spec.rdma
    bound = [s for s in spec.switches if rdma.mode in system_of(s.os).one_shot_modes]
    if rdma.priority in {0, 7}:
        content = "all unmarked traffic" if rdma.priority == 0 else "network control traffic"
        what = f"PFC on priority {rdma.priority} (DSCP {rdma.dscp}) would pause {content}."
    elif rdma.priority != ONE_SHOT_PRIORITY and bound:
        what = f"{bound[0].name} makes priority {ONE_SHOT_PRIORITY} lossless, not {rdma.priority}."
    else:
        return
    if rdma.host_pfc:
        fix = "use DSCP 26, which is priority 3, or mode lossy_ecn."
        yield Finding(what, places(spec, "rdma.dscp", "rdma.mode"), fix)


def check_queue_shares(spec: ClusterSpec) -> Findings:
    """The shares of a port are 100 together, and RoCE and unmarked traffic each have one.

    While RoCE sends, a class without a share starves, such as class 0 with SSH and Kubernetes. A
    strict class goes before every share, so keep it for small traffic.
    """
    rdma = spec.rdma
    for schedule, here in walk(spec, "rdma.schedule", Schedule):
        shares, total = schedule.shares, sum(schedule.shares.values())
        said = ", ".join(f"{tc}: {share}" for tc, share in sorted(shares.items()))
        both = sorted({*shares} & {*schedule.strict, rdma.cnp_priority})
        needed = [tc for tc in (rdma.traffic_class, BEST_EFFORT) if tc not in shares]
        if both:
            what = f"class {both[0]} is strict, so it is served before all shares and needs none."
            fix = "remove it from shares"
        elif needed:
            what = f"class {needed[0]} lacks a share of the port: it would starve while others "
            what, fix = f"{what}send.", "give it one"
        else:
            what = f"the shares of the classes add up to {total} % of the port."
            fix = f"make them {WHOLE}"
        if both or needed or total != WHOLE:
            fix += f", for example shares: {{{BEST_EFFORT}: 50, {rdma.traffic_class}: 50}}."
            yield Finding(what, (at((*here.path, "shares"), f"{{{said}}}"),), fix)
