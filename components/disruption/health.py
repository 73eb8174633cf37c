"""Check whether a cluster can spare a host: quorum of its servers, and workers out of service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, cast

from components.core.errors import DeviceError
from components.kubernetes.client import Body, Calls

Nodes: TypeAlias = Mapping[str, Body]
"""Name to node."""
SERVER_LABELS: Final = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/etcd",
    "node-role.kubernetes.io/master",
)
"""Labels of nodes that run the control plane (sources.md#reboots)."""
_OK: Final = 200


def read_nodes(calls: Calls) -> Nodes:
    """Return all nodes of the cluster."""
    answer = calls.call("GET", "/api/v1/nodes")
    if answer.status != _OK:
        raise DeviceError(f"the nodes of the cluster cannot be listed: {answer.words}")
    items = cast("list[Body]", answer.body.get("items") or [])
    return {str(node["metadata"]["name"]): node for node in items}


def part_of(body: Body, key: str) -> Body:
    """Return one part of an object, or an empty one."""
    return cast("Body", body.get(key) or {})


def is_ready(node: Body) -> bool:
    """Whether its condition Ready is True."""
    conditions = cast("list[Body]", part_of(node, "status").get("conditions") or [])
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def check_quorum(calls: Calls, host: str, planned: tuple[str, ...]) -> str:
    """Refuse to take a server out of service while another one is unhealthy.

    With one or two servers it is permitted, since no better time will come: the rest has no
    majority, so the API is down while the server boots. That loss is returned, in words. `planned`
    has all servers of the file; it is empty for an existing cluster, whose labels count.
    """
    nodes = read_nodes(calls)
    servers = {name for name, node in nodes.items() if _is_server(node)} | set(planned)
    others = sorted(servers - {host})
    absent = [name for name in others if name not in nodes or not is_ready(nodes[name])]
    if absent:
        raise DeviceError(
            f"{', '.join(absent)} of the {len(servers)} servers is not Ready: without {host} as"
            " well, etcd may lose its quorum. Bring it back first"
        )
    if not others:
        return f"the API is away while {host}, its only server, boots"
    answer = calls.call("GET", "/readyz?verbose")
    bad = [line for line in answer.text.splitlines() if line.startswith("[-]")]
    if answer.status != _OK or bad:
        words = "; ".join(bad) or answer.words
        raise DeviceError(f"the cluster's API is not ready to lose {host}: {words}")
    if len(others) == 1:
        return f"the API is away while {host} boots: {others[0]} alone is not a majority of etcd"
    return ""


def _is_server(node: Body) -> bool:
    labels = cast("Mapping[str, str]", node["metadata"].get("labels") or {})
    return any(label in labels for label in SERVER_LABELS)
