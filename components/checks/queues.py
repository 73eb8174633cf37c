"""Rules on how the classes of a port share it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from components.checks.rule import Finding, at
from components.model.cluster import ClusterSpec

WHOLE: Final = 100
"""Percent of a port. Cumulus refuses more; EOS and SONiC would weigh what is over it again."""
BEST_EFFORT: Final = 0
"""The class of everything that is not marked (NIC and switch maps)."""


def check_queue_shares(spec: ClusterSpec) -> Iterator[Finding]:
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
