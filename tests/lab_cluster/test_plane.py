from __future__ import annotations

import shutil
from pathlib import Path

import psutil
import pytest

from lab.cluster.document import name_of
from lab.cluster.testing import node_is_ready, running_plane

pytestmark = pytest.mark.cluster


def test_a_plane_comes_up_listens_on_loopback_only_and_leaves_nothing(tmp_path: Path) -> None:
    with running_plane(tmp_path) as plane:
        assert node_is_ready(plane, "node-1")
        names = {name_of(item) for item in plane.admin.items("/api/v1/namespaces")}
        assert "kube-system" in names
        processes = [psutil.Process(child.pid) for child in plane.children]
        listening = {
            connection.laddr.ip
            for process in processes
            for connection in process.net_connections()
            if connection.status == psutil.CONN_LISTEN
        }
        assert listening == {plane.address}
    assert not any(process.is_running() for process in processes)
    shutil.rmtree(tmp_path)
