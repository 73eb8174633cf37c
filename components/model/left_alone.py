"""What of a site Railyard neither sets nor reads, in words: for `check` and the plan."""

from __future__ import annotations

from components.catalogue.cluster_parts import TABLE
from components.model.cluster import ClusterSpec
from components.model.owners import owners_of


def left_alone(spec: ClusterSpec) -> tuple[str, ...]:
    """Say what stays untouched: devices that the file names, and all that it does not name."""
    named = [f"{each.name} ({each.network} switch)" for each in spec.other_switches]
    rest = ["network devices of hosts that are not under nics: bonds, management, storage"]
    if spec.switches:
        rest.append("switch ports that are not under ports, but for what holds for a whole switch")
    theirs = [TABLE[part].title for part, owner in owners_of(spec).items() if owner == "theirs"]
    if theirs:
        rest.append(f"of others in the cluster, and looked at: {', '.join(theirs)}")
    return (*named, *rest)
