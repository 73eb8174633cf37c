"""A running cluster for tests: `with running_plane(folder) as plane: ...`.

The plane is real; one simulated node (`node-1`) runs every pod that fits, and the pods of a Job end
well after a second. Start it once a test session: it takes about four seconds.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from components.core.errors import DeviceError
from lab.cluster.build import ensure_binaries
from lab.cluster.document import docs_at, text_at
from lab.cluster.fake_nodes import NodeFacts, register_node, start_kwok
from lab.cluster.plane import ControlPlane
from lab.cluster.process import wait_until

API_PORT = 6443
CLAIM_PORT = 6442
"""Bound and never listened on, as long as the plane on this address lives."""


@contextmanager
def claimed_address() -> Generator[str]:
    """A loopback address that no other plane of this machine uses, claimed by a port on it.

    Raises:
        DeviceError: None of 250 addresses is free.
    """
    for step in range(250):
        number = os.getpid() + step
        address = f"127.43.{number // 250 % 250 + 1}.{number % 250 + 1}"
        with socket.socket() as claim:
            try:
                claim.bind((address, CLAIM_PORT))
            except OSError:
                continue
            yield address
            return
    raise DeviceError(f"every address from 127.43.{os.getpid() // 250 % 250 + 1}.1 on is in use")


def node_is_ready(plane: ControlPlane, name: str) -> bool:
    """Whether a node's Ready condition is True."""
    node = plane.admin.find(f"/api/v1/nodes/{name}") or {}
    return any(
        text_at(condition, "type") == "Ready" and text_at(condition, "status") == "True"
        for condition in docs_at(node, "status", "conditions")
    )


@contextmanager
def running_plane(folder: Path) -> Generator[ControlPlane]:
    """Start a control plane with one simulated node under `folder`, and end it again.

    Args:
        folder: an empty folder; keep it short-lived, it holds private keys.
    """
    stages = ("nodes_and_pods.yaml", "bare_jobs.yaml")
    binaries = ensure_binaries()
    with claimed_address() as address:
        plane = ControlPlane(folder, address, API_PORT, binaries)
        plane.start()
        try:
            kwok = start_kwok(binaries["kwok"], plane.admin, plane.kubeconfig, folder, stages)
            plane.children.append(kwok)
            register_node(plane.admin, NodeFacts("node-1", plane.address))
            wait_until("node-1 to be Ready", lambda: node_is_ready(plane, "node-1"), 30)
            yield plane
        finally:
            plane.stop()
