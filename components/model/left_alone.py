"""What of a site Railyard neither sets nor reads, in words: for `check` and the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from components.catalogue.cluster_parts import TABLE
from components.model.cluster import ClusterSpec
from components.model.owners import owners_of

_SHOWN: Final = 8
"""Hosts that a line names; `hosts` of the file has all of them."""


def not_touched(hosts: Sequence[str]) -> tuple[str, ...]:
    """What becomes of hosts that nothing logs in to, as one line; none without such hosts."""
    if not hosts:
        return ()
    more = f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else ""
    named = f"{', '.join(hosts[:_SHOWN])}{more}"
    return (f"{named}: not touched and not looked at: no login (login: none)",)


def left_alone(spec: ClusterSpec) -> tuple[str, ...]:
    """Say what stays untouched: devices that the file names, and all that it does not name."""
    named = [f"{each.name} ({each.network} switch)" for each in spec.other_switches]
    plain = spec.infiniband.switches if spec.infiniband else ()
    named += [f"{each.name} ({each.model}, not logged in to)" for each in plain]
    rest = ["network devices of hosts that are not under nics: bonds, management, storage"]
    if spec.switches:
        rest.append("switch ports that are not under ports, but for what holds for a whole switch")
    theirs = [TABLE[part].title for part, owner in owners_of(spec).items() if owner == "theirs"]
    if theirs:
        rest.append(f"of others in the cluster, and looked at: {', '.join(theirs)}")
    return (*named, *rest, *not_touched([host.name for host in spec.unreached]))
