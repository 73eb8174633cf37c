"""What of a site Railyard neither sets nor reads, in words: for `check` and the plan."""

from __future__ import annotations

from components.model.cluster import ClusterSpec


def left_alone(spec: ClusterSpec) -> tuple[str, ...]:
    """Say what stays untouched: devices that the file names, and all that it does not name."""
    named = [f"{each.name} ({each.network} switch)" for each in spec.other_switches]
    rest = ["network devices of hosts that are not under nics: bonds, management, storage"]
    if spec.switches:
        rest.append("switch ports that are not under ports, but for what holds for a whole switch")
    return (*named, *rest)
