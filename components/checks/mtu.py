"""Rules on packet sizes along the path."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from components.checks.rule import Finding, Findings, at
from components.checks.topology import (
    Cable,
    PlacedNic,
    list_cables,
    list_link_ports,
    list_nics,
)
from components.core.problem import SpecPath
from components.fabric.links import link_addresses
from components.model.cluster import ClusterSpec
from components.model.units import FULL_RDMA_NEEDS_BYTES, LARGEST_RDMA_MTU, rdma_mtu


@dataclass(frozen=True, slots=True)
class _Hop:
    name: str
    mtu_bytes: int
    path: SpecPath


def _site_mtu(spec: ClusterSpec, name: str) -> _Hop:
    return _Hop(name, spec.rdma.mtu_bytes, ("rdma", "mtu_bytes"))


def _pf(spec: ClusterSpec, nic: PlacedNic) -> _Hop:
    mtu_bytes = nic.nic.mtu_bytes
    if mtu_bytes is None:
        return _site_mtu(spec, "PF")
    return _Hop("PF", mtu_bytes, (*nic.path, "mtu_bytes"))


def _vf(spec: ClusterSpec, nic: PlacedNic) -> _Hop:
    mtu_bytes = nic.nic.vf_mtu_bytes
    if mtu_bytes is None:
        pf = _pf(spec, nic)
        return _Hop("VF", pf.mtu_bytes, pf.path)
    return _Hop("VF", mtu_bytes, (*nic.path, "vf_mtu_bytes"))


def _pod(spec: ClusterSpec) -> _Hop:
    mtu_bytes = spec.pod_network.mtu_bytes
    if mtu_bytes is None:
        return _site_mtu(spec, "pod interface")
    return _Hop("pod interface", mtu_bytes, ("pod_network", "mtu_bytes"))


def _port(spec: ClusterSpec, cable: Cable) -> _Hop:
    mtu_bytes = cable.port.port.mtu_bytes
    if mtu_bytes is None:
        return _Hop("switch port", spec.rdma.port_mtu_bytes, ("rdma", "port_mtu_bytes"))
    return _Hop("switch port", mtu_bytes, (*cable.port.path, "mtu_bytes"))


def check_mtu_chain(spec: ClusterSpec) -> Findings:
    """The MTU never shrinks on the way out: pod <= VF <= PF <= switch port.

    A NIC never fragments an RDMA packet. A hop with a smaller MTU drops the large ones silently:
    ping works, and RDMA hangs in retries.
    """
    for nic in list_nics(spec):
        yield from _compare(_pod(spec), _vf(spec, nic), _pf(spec, nic))
    for cable in list_cables(spec):
        yield from _compare(_pf(spec, cable.nic), _port(spec, cable))


def _compare(*chain: _Hop) -> Findings:
    for inner, outer in pairwise(chain):
        if inner.mtu_bytes > outer.mtu_bytes:
            yield Finding(
                f"the {inner.name}'s MTU of {inner.mtu_bytes} is larger than the {outer.name}'s "
                f"{outer.mtu_bytes}.",
                (at(inner.path, inner.mtu_bytes), at(outer.path, outer.mtu_bytes)),
                f"raise the {outer.name} to {inner.mtu_bytes} or more, or lower the {inner.name} "
                f"to {outer.mtu_bytes} or less.",
            )


_IPV6_BYTES: Final = 1280
"""Least MTU of a link that carries IPv6 (RFC 8200): BGP between link-local addresses needs it."""


def _largest(spec: ClusterSpec) -> _Hop:
    """The PF with the largest MTU that its own port takes: of the others `mtu-chain` tells."""
    cards = ((_pf(spec, cable.nic), _port(spec, cable)) for cable in list_cables(spec))
    fit = (pf for pf, port in cards if pf.mtu_bytes <= port.mtu_bytes)
    return max(fit, key=lambda pf: pf.mtu_bytes, default=_site_mtu(spec, "PF"))


def check_link_mtu(spec: ClusterSpec) -> Findings:
    """A link between switches takes the packets of the cards, and IPv6 where BGP speaks by it.

    A smaller one drops the large packets of every rail that crosses it, and none of the small ones:
    ping works, and RDMA hangs in retries.
    """
    numbered = link_addresses(spec)
    plain = [cable.nic for cable in list_cables(spec) if cable.port.port.mtu_bytes is None]
    is_told = any(_pf(spec, nic).mtu_bytes > spec.rdma.port_mtu_bytes for nic in plain)
    card = _largest(spec)
    for port in list_link_ports(spec):
        if is_told and port.port.mtu_bytes is None:
            continue  # `mtu-chain` tells of `rdma.port_mtu_bytes`
        mtu, path = spec.rdma.port_mtu_bytes, ("rdma", "port_mtu_bytes")
        if port.port.mtu_bytes is not None:
            mtu, path = port.port.mtu_bytes, (*port.path, "mtu_bytes")
        bare = port.port.mode == "routed" and (port.switch.name, port.name) not in numbered
        least, why = card.mtu_bytes, "the cards send packets of"
        places = (at(path, mtu), at(card.path, card.mtu_bytes))
        if bare and least < _IPV6_BYTES:
            least, why, places = _IPV6_BYTES, "BGP without an address of the link needs", places[:1]
        if mtu < least:
            yield Finding(
                f"the link at {port} has an MTU of {mtu}, and {why} {least}.",
                places,
                f"raise it to {least} or more at both ends.",
            )


def check_rdma_path_mtu(spec: ClusterSpec) -> Findings:
    """The VF's MTU leaves room for an RDMA path MTU of 4096.

    The kernel takes the largest of 256, 512, 1024, 2048 and 4096 that fits after 96 bytes of RoCE
    headers, so 4192 is the least MTU for 4096. A smaller one works, at a lower message rate.
    """
    for nic in list_nics(spec):
        vf = _vf(spec, nic)
        path_mtu = rdma_mtu(vf.mtu_bytes)
        if path_mtu < LARGEST_RDMA_MTU:
            yield Finding(
                f"a VF MTU of {vf.mtu_bytes} gives an RDMA path MTU of only {path_mtu}.",
                (at(vf.path, vf.mtu_bytes),),
                f"set it to {FULL_RDMA_NEEDS_BYTES} or more; 9000 is usual.",
                "warning",
            )


def check_rail_mtu(spec: ClusterSpec) -> Findings:
    """All VFs of one rail have the same MTU.

    The path MTU of a connection is the smaller one of its two ends: one host with a small MTU
    slows all its partners, and no error is seen anywhere.
    """
    first: dict[str, _Hop] = {}
    for nic in list_nics(spec):
        vf = _vf(spec, nic)
        other = first.setdefault(nic.nic.rail, vf)
        if other.mtu_bytes != vf.mtu_bytes:
            yield Finding(
                f"VFs of {nic} have MTU {vf.mtu_bytes}, others of the rail {other.mtu_bytes}.",
                (at(vf.path, vf.mtu_bytes), at(other.path, other.mtu_bytes)),
                f"give all NICs of {nic.nic.rail} the same MTU.",
            )
