"""Rules on groups of hosts."""

from __future__ import annotations

from collections.abc import Iterator

from components.checks.rule import Finding, at
from components.model.cluster import ClusterSpec
from components.reading.wording import did_you_mean


def check_host_group(spec: ClusterSpec) -> Iterator[Finding]:
    """A host names a group that exists, and a group has hosts.

    A misspelt group would leave its host with `host_defaults`, and no message would say so.
    """
    known = [group.name for group in spec.host_groups]
    for h, host in enumerate(spec.hosts):
        if host.group is not None and host.group not in known:
            yield Finding(
                f"{host.name} is of the group {host.group}, which is not in host_groups.",
                (at(("hosts", h, "group"), host.group),),
                "name a group of host_groups, or add this one there."
                + did_you_mean(host.group, known),
            )
    used = {host.group for host in spec.hosts}
    for g, group in enumerate(spec.host_groups):
        path = ("host_groups", g, "name")
        if group.name in known[:g]:
            yield Finding(
                f"two groups of hosts are called {group.name}.",
                (at(path, group.name), at(("host_groups", known.index(group.name), "name"))),
                "rename one of them, or make them one.",
            )
        elif group.name not in used:
            yield Finding(
                f"no host is of the group {group.name}.",
                (at(path, group.name),),
                f"write `group: {group.name}` at its hosts, or remove the group.",
            )
