"""A run after one that ended badly: what it takes up, and what it knows and says of the cordon."""

from __future__ import annotations

from typing import Any

import pytest

from components.core.errors import DeviceError, HostKeyError
from components.disruption.node import ANNOTATION
from components.kubernetes.client import Answer, Body
from components.remote.host_session import HostAnswer
from components.remote.step import Endpoint
from tests.disruption.played import PlayedCluster, PlayedHost, make_pod, small_cluster
from tests.disruption.test_run import FIRMWARE, REQUEST, VFS, fails

RAISED = {"nic.0000:05:00.0.fw_num_of_vfs": "8 -> 16"}


@pytest.fixture
def cluster() -> PlayedCluster:
    return small_cluster()


def kill_at(cluster: PlayedCluster, host: PlayedHost, kind: str) -> None:
    """End a run at its first request of this kind to the cluster."""
    run = host.run()

    class Dying:
        def call(self, method: str, path: str, body: Body | None = None) -> Answer:
            if method == kind:
                raise KeyboardInterrupt
            return cluster.call(method, path, body)

    run.cluster = Dying
    with pytest.raises(KeyboardInterrupt):
        run.perform()


def power_loss(host: PlayedHost) -> None:
    """The host boots, and no run asked for it."""
    host.boot += 1
    assert host.cluster is not None
    name = host.request.endpoint.device
    host.cluster.nodes[name]["status"]["nodeInfo"]["bootID"] = f"boot-{host.boot}"


@pytest.mark.parametrize("method", ["PATCH", "POST"])
@pytest.mark.parametrize("waits", ["boots", "drains"])
def test_a_boot_alone_does_not_say_that_the_host_was_drained(
    cluster: PlayedCluster, method: str, waits: str
) -> None:
    host = PlayedHost(REQUEST, cluster, drains=dict(VFS))
    kill_at(cluster, host, method)
    assert host.mark == "boot-1"
    power_loss(host)
    if waits == "boots":
        host.boots, host.drains = dict(RAISED), {}
    host.run().perform()
    assert "evict train-gpu01" in cluster.asked
    assert not cluster.cordoned("gpu01")
    assert (host.boots, host.drains, host.mark) == ({}, {}, "")


def test_plugins_count_what_a_later_run_sets(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, drains=dict(VFS))
    kill_at(cluster, host, "POST")
    power_loss(host)
    host.run().perform()
    assert "restart plugin-gpu01" in cluster.asked


def test_a_node_is_waited_for_after_the_last_of_several_boots(cluster: PlayedCluster) -> None:
    """It is still Ready with the boot between until its kubelet is heard of again."""
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    kill_at(cluster, host, "POST")
    power_loss(host)
    host.boots = dict(RAISED)
    run = host.run()
    info = cluster.nodes["gpu01"]["status"]["nodeInfo"]

    def pause(seconds: float) -> None:
        host.pause(seconds)
        info["bootID"] = "boot-2" if host.now_s < 200 else "boot-3"

    run.pause = pause
    run.perform()
    assert host.now_s >= 200


def test_what_shows_late_does_not_boot_a_host_that_was_not_drained(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, drains=dict(VFS))
    kill_at(cluster, host, "PATCH")
    power_loss(host)
    host.drains = {}
    run = host.run()
    ask = run.run

    def late(endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        if "action=" not in stdin and host.boot == 2:
            host.boots = dict(RAISED)
        return ask(endpoint, command, stdin, deadline_s)

    run.run = late
    run.perform()
    assert cluster.asked == ["cordon gpu01", "evict train-gpu01", "uncordon gpu01"]
    assert host.boot == 3


def test_a_cluster_that_starts_with_its_host_is_waited_for(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, drains=dict(VFS))
    kill_at(cluster, host, "POST")
    power_loss(host)
    cluster.starting = True
    run = host.run()

    def pause(seconds: float) -> None:
        host.pause(seconds)
        cluster.starting = host.now_s < 60

    run.pause = pause
    run.perform()
    assert "evict train-gpu01" in cluster.asked


@pytest.mark.parametrize("waits", [{}, FIRMWARE])
def test_a_mark_without_a_boot_id_is_a_mark(cluster: PlayedCluster, waits: dict[str, str]) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(waits), mark=" ")
    host.run().perform()
    assert ("evict train-gpu01" in cluster.asked) is bool(waits)
    assert (host.mark, cluster.cordoned("gpu01")) == ("", False)


def test_a_node_that_was_uncordoned_by_hand_is_cordoned_again(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE), kill_at="reboot")
    with pytest.raises(KeyboardInterrupt):
        host.run().perform()
    node: dict[str, Any] = cluster.nodes["gpu01"]
    del node["spec"]["unschedulable"]
    node["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    recorded = node["metadata"]["annotations"][ANNOTATION]
    cluster.pods["train-b"] = make_pod("train-b", "gpu01")
    cluster.asked.clear()
    host.kill_at = "reboot"
    with pytest.raises(KeyboardInterrupt):
        host.run().perform()
    assert cluster.asked == ["cordon gpu01", "evict train-b"]
    assert node["metadata"]["annotations"][ANNOTATION] == recorded  # it offered GPUs before


KNOWN = "its node is cordoned"
UNKNOWN = "an earlier run took it out of service, so its node may be cordoned"


def test_the_cordon_of_an_earlier_run_is_not_denied(cluster: PlayedCluster) -> None:
    down = {"unit": "active", "rdma.a": "port DOWN"}
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE), ready=down)
    fails(host, "port DOWN", KNOWN)
    fails(host, "port DOWN", UNKNOWN)
    assert cluster.cordoned("gpu01")


def test_a_host_that_is_still_away_leaves_its_cordon_unknown(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE), lost=True)
    fails(host, KNOWN)
    fails(host, "the first look", "whether its node is cordoned is not known")


def test_a_host_that_is_no_node_has_no_cordon() -> None:
    down = {"unit": "active", "rdma.a": "port DOWN"}
    fails(PlayedHost(REQUEST, None, boots=dict(FIRMWARE), ready=down), "it is not a node")


def test_another_host_key_after_the_boot_is_told_with_what_was_done(
    cluster: PlayedCluster,
) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    run = host.run()

    def ask(endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        if host.back_at_s is not None:
            raise HostKeyError("the host key is not the pinned one")
        return host.ask(endpoint, command, stdin, deadline_s)

    run.run = ask
    with pytest.raises(HostKeyError) as caught:
        run.perform()
    text = str(caught.value)
    assert "waiting for the boot: the host key is not the pinned one" in text
    assert KNOWN in text
    assert "done   cordoned, evicted jobs/train-gpu01, asked for the reboot" in text


def test_a_node_of_another_name_is_not_rebooted_under_its_jobs(cluster: PlayedCluster) -> None:
    cluster.nodes["gpu01.example.com"] = cluster.nodes.pop("gpu01")
    cluster.nodes["gpu01.example.com"]["metadata"]["name"] = "gpu01.example.com"
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    fails(
        host,
        "the cluster lacks a node gpu01, but its node gpu01.example.com runs on this host",
        "Railyard drains a node by its host's name",
    )
    assert (host.actions, host.mark, cluster.asked) == (["look"], "", [])


GONE = {"nic.0000:05:00.0.vfs": "8 -> 0"}


@pytest.mark.parametrize("value", ["8 -> 0", "waits"])
@pytest.mark.parametrize("killed", ["", "converge", "ready"])
def test_vfs_that_a_run_takes_away_are_not_asked_for(
    cluster: PlayedCluster, value: str, killed: str
) -> None:
    host = PlayedHost(REQUEST, cluster, drains={"nic.0000:05:00.0.vfs": value}, kill_at=killed)
    allocatable = cluster.nodes["gpu01"]["status"]["allocatable"]
    if killed:
        with pytest.raises(KeyboardInterrupt):
            host.run().perform()
        host.kill_at = ""
    allocatable["intel.com/sriov_111"] = "0"
    host.run().perform()
    assert not cluster.cordoned("gpu01")


def test_gpus_are_asked_for_although_vfs_were_taken_away(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, drains=dict(GONE), kill_at="converge")
    with pytest.raises(KeyboardInterrupt):
        host.run().perform()
    host.kill_at = ""
    cluster.nodes["gpu01"]["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    with pytest.raises(DeviceError, match=r"does not offer nvidia\.com/gpu after"):
        host.run().perform()


def test_vfs_that_an_earlier_run_asked_back_are_let_go(cluster: PlayedCluster) -> None:
    """The run before failed for another reason, and the file takes the VFs away only now."""
    host = PlayedHost(REQUEST, cluster, drains=dict(VFS), kill_at="ready")
    with pytest.raises(KeyboardInterrupt):
        host.run().perform()
    host.kill_at, host.drains = "", dict(GONE)
    allocatable = cluster.nodes["gpu01"]["status"]["allocatable"]
    allocatable["intel.com/sriov_111"] = "0"
    host.run().perform()
    assert not cluster.cordoned("gpu01")
