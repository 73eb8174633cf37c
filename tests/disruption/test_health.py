"""What a cluster can spare: workers within the allowance, servers within the quorum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.core.errors import DeviceError
from components.disruption.node import ANNOTATION
from components.disruption.request import HostReboot
from components.kubernetes.client import Answer, Body
from tests.disruption.played import (
    PlayedCluster,
    PlayedHost,
    make_node,
    make_pod,
    request_of,
    small_cluster,
    with_role,
)
from tests.golden.site import load_example

REQUEST = request_of(load_example("dgx-roce"), "gpu01")
FIRMWARE = {"nic.0000:05:00.0.ats": "off -> on"}


@pytest.fixture
def cluster() -> PlayedCluster:
    return small_cluster()


def fails(host: PlayedHost, *words: str) -> None:
    with pytest.raises(DeviceError) as caught:
        host.run().perform()
    assert all(each in str(caught.value) for each in words), str(caught.value)


def test_a_worker_out_of_service_elsewhere_uses_up_the_allowance(cluster: PlayedCluster) -> None:
    cluster.nodes["gpu02"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    fails(host, "gpu02 is out of service already", "max_unavailable is 1")
    assert (cluster.asked, host.mark) == ([], "")


def four_workers() -> tuple[PlayedCluster, HostReboot]:
    """gpu01 of a group of three, and gpu04 beyond it, which somebody cordoned."""
    cluster = small_cluster()
    for name in ("gpu03", "gpu04"):
        cluster.nodes[name] = make_node(name)
        cluster.pods[f"train-{name}"] = make_pod(f"train-{name}", name)
    cluster.nodes["gpu04"]["spec"]["unschedulable"] = True
    group = ("gpu01", "gpu02", "gpu03")
    return cluster, replace(REQUEST, workers="gpu[01-04]", group=group, max_unavailable=3)


def leave(cluster: PlayedCluster, *names: str) -> None:
    """Other hosts of the group are on their way out."""
    for name in names:
        cluster.nodes[name]["spec"]["unschedulable"] = True
        cluster.nodes[name]["metadata"]["annotations"] = {ANNOTATION: "[]"}


@pytest.mark.parametrize("others", [(), ("gpu02",)])
def test_hosts_of_the_group_that_stay_do_not_count(others: tuple[str, ...]) -> None:
    cluster, request = four_workers()
    leave(cluster, *others)
    assert PlayedHost(request, cluster, boots=dict(FIRMWARE)).run().perform()["rebooted"] is True


def test_one_too_many_of_a_group_stays_and_the_sum_is_told() -> None:
    cluster, request = four_workers()
    leave(cluster, "gpu02", "gpu03")
    host = PlayedHost(request, cluster, boots=dict(FIRMWARE))
    words = "gpu02, gpu03 of its group left before it, and gpu01 would make it 4"
    fails(host, "gpu04 is out of service already", words, "max_unavailable is 3. Bring gpu04 back")
    assert (cluster.asked, host.mark) == ([], "")


def test_hosts_of_a_group_that_ask_together_do_not_all_go() -> None:
    cluster, request = four_workers()
    host = PlayedHost(request, cluster, boots=dict(FIRMWARE))
    run = host.run()

    class Together:
        def call(self, method: str, path: str, body: Body | None = None) -> Answer:
            if method == "PATCH" and "cordon gpu01" not in cluster.asked:
                leave(cluster, "gpu02", "gpu03")  # they asked when this one did
            return cluster.call(method, path, body)

    run.cluster = Together
    with pytest.raises(DeviceError, match="gpu01 would make it 4"):
        run.perform()
    assert cluster.asked == ["cordon gpu01", "uncordon gpu01"]
    assert (host.mark, host.boot, cluster.cordoned("gpu01")) == ("", 1, False)


def test_a_group_that_is_the_whole_allowance_goes_together() -> None:
    cluster, request = four_workers()
    cluster.nodes["gpu04"]["spec"] = {}
    leave(cluster, "gpu02", "gpu03")
    assert PlayedHost(request, cluster, boots=dict(FIRMWARE)).run().perform()["rebooted"] is True


def control_plane(cluster: PlayedCluster) -> PlayedHost:
    return PlayedHost(with_role(REQUEST, "mgmt01"), cluster, boots=dict(FIRMWARE))


def test_a_server_goes_while_the_others_hold_the_quorum() -> None:
    cluster = small_cluster(servers=3)
    done = control_plane(cluster).run().perform()
    assert (done["rebooted"], "the API is away" in str(done["changed"])) == (True, False)


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        (1, "the API is away while mgmt01, its only server, boots"),
        (2, "the API is away while mgmt01 boots: mgmt02 alone is not a majority of etcd"),
    ],
)
def test_what_the_cluster_loses_without_the_server_is_told(servers: int, words: str) -> None:
    host = control_plane(small_cluster(servers=servers))
    host.lost = True
    fails(host, f"done   {words}, cordoned, asked for the reboot")
    assert host.actions.count("reboot") == 1


@pytest.mark.parametrize(
    ("lose", "words"),
    [
        ("node", "mgmt02 of the 3 servers is not Ready"),
        ("etcd", "not ready to lose mgmt01: [-]etcd failed"),
    ],
)
def test_without_a_quorum_no_server_goes(lose: str, words: str) -> None:
    cluster = small_cluster(servers=3)
    if lose == "node":
        cluster.nodes["mgmt02"]["status"]["conditions"] = []
    else:
        cluster.readyz = "[+]ping ok\n[-]etcd failed: reason withheld\n"
    host = control_plane(cluster)
    fails(host, words)
    assert (cluster.asked, host.mark, host.boot) == ([], "", 1)


def test_the_only_server_is_waited_for_with_its_api() -> None:
    cluster = small_cluster()
    host = control_plane(cluster)
    run = host.run()

    def pause(seconds: float) -> None:
        host.pause(seconds)
        cluster.silent = host.back_at_s is not None or host.now_s < 200
        cluster.starting = not cluster.silent and host.now_s < 300

    run.pause = pause
    assert run.perform()["rebooted"] is True
    assert not cluster.cordoned("mgmt01")


def test_a_run_that_goes_on_waits_for_an_api_that_starts() -> None:
    cluster = small_cluster()
    host = control_plane(cluster)
    host.kill_at = "ready"
    with pytest.raises(KeyboardInterrupt):
        host.run().perform()
    host.kill_at, cluster.starting = "", True
    run = host.run()
    until_s = host.now_s + 60

    def pause(seconds: float) -> None:
        host.pause(seconds)
        cluster.starting = host.now_s < until_s

    run.pause = pause
    assert run.perform()["rebooted"] is True
    assert not cluster.cordoned("mgmt01")
