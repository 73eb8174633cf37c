"""What a cluster can spare: workers within the allowance, servers within the quorum."""

from __future__ import annotations

import pytest

from components.errors import DeviceError
from tests.golden.site import load_example
from tests.reboots.played import PlayedCluster, PlayedHost, request_of, small_cluster, with_role

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


def control_plane(cluster: PlayedCluster) -> PlayedHost:
    return PlayedHost(with_role(REQUEST, "mgmt01"), cluster, boots=dict(FIRMWARE))


def test_a_server_goes_while_the_others_hold_the_quorum() -> None:
    cluster = small_cluster(servers=3)
    assert control_plane(cluster).run().perform()["rebooted"] is True


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
