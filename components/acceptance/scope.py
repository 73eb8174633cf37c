"""Which part of a site is proven: all of it, what changed with its partners, or one pair."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from components.acceptance.plan import AcceptancePlan, plan_acceptance
from components.model.cluster import ClusterSpec

Accept = Literal["changed", "always", "never", "canary"]


def narrow(
    spec: ClusterSpec, whole: AcceptancePlan, accept: Accept, changed: Collection[str] | None
) -> AcceptancePlan:
    """The acceptance of this run.

    Args:
        spec: The site.
        whole: The acceptance of all of it.
        accept: When and how much the site proves.
        changed: Devices that this update changes; None where that is not known, or where more
            than devices changed, and the whole site is to be proven.
    """
    if accept == "never":
        return replace(whole, policy=replace(whole.policy, asked=False))
    if accept == "canary":
        return _among(spec, whole, _pair(spec, changed or ()))
    if spec.acceptance.scope == "changed" and changed:
        return _among(spec, whole, _with_partners(whole, changed))
    return whole


def _with_partners(whole: AcceptancePlan, changed: Collection[str]) -> set[str]:
    """The hosts of every pair that a changed device takes part in, itself or on the way."""
    hosts: set[str] = set()
    for each in whole.probes:
        crossed = {hop.device for hop in each.hops}
        if each.probe.kind == "perftest" and (crossed | {*each.probe.nodes}) & {*changed}:
            hosts |= {*each.probe.nodes}
    return hosts


def _pair(spec: ClusterSpec, changed: Collection[str]) -> set[str]:
    """The first changed worker and its neighbour, or the first two."""
    pairs = list(pairwise(host.name for host in spec.workers))
    touched = [pair for pair in pairs if set(pair) & {*changed}]
    return {*(touched or pairs or [()])[0]}


def _among(spec: ClusterSpec, whole: AcceptancePlan, hosts: Collection[str]) -> AcceptancePlan:
    """The proof of a site that had these workers alone, and what is left out of the whole one."""
    if len(hosts) < 2 or len(hosts) == len(spec.workers):  # noqa: PLR2004 - RDMA is proven between two
        return whole
    kept = tuple(host for host in spec.hosts if host.role != "worker" or host.name in hosts)
    part = plan_acceptance(spec.model_copy(update={"hosts": kept}))
    asked = {(each.probe.name, each.probe.nodes) for each in part.probes}
    left = [each.probe for each in whole.probes if (each.probe.name, each.probe.nodes) not in asked]
    return replace(part, left_out=tuple(left))
