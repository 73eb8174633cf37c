"""A running cluster for tests: `with running_plane(folder) as plane: ...`.

The plane is real; one simulated node (`node-1`) runs every pod that fits, and the pods of a Job end
well after a second. Start it once a test session: it takes about four seconds.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lab.cluster.build import ensure_binaries
from lab.cluster.document import docs_at, text_at
from lab.cluster.fake_nodes import NodeFacts, register_node, start_kwok
from lab.cluster.plane import ControlPlane
from lab.cluster.process import wait_until

API_PORT = 6443


def private_address(offset: int = 0) -> str:
    """Give a loopback address that no other test process of this machine uses."""
    number = os.getpid() + offset
    return f"127.43.{number // 250 % 250 + 1}.{number % 250 + 1}"


def node_is_ready(plane: ControlPlane, name: str) -> bool:
    """Whether a node's Ready condition is True."""
    node = plane.admin.find(f"/api/v1/nodes/{name}") or {}
    return any(
        text_at(condition, "type") == "Ready" and text_at(condition, "status") == "True"
        for condition in docs_at(node, "status", "conditions")
    )


@contextmanager
def running_plane(folder: Path, offset: int = 0) -> Generator[ControlPlane]:
    """Start a control plane with one simulated node under `folder`, and end it again.

    Args:
        folder: an empty folder; keep it short-lived, it holds private keys.
        offset: another number for each further plane of the same process.
    """
    binaries = ensure_binaries()
    plane = ControlPlane(folder, private_address(offset), API_PORT, binaries)
    plane.start()
    stages = ("nodes_and_pods.yaml", "bare_jobs.yaml")
    try:
        kwok = start_kwok(binaries["kwok"], plane.admin, plane.kubeconfig, folder, stages)
        plane.children.append(kwok)
        register_node(plane.admin, NodeFacts("node-1", plane.address))
        wait_until("node-1 to be Ready", lambda: node_is_ready(plane, "node-1"), 30)
        yield plane
    finally:
        plane.stop()
