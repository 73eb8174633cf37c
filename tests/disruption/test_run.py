"""One run of `reboot-hosts`: only what waits, out and back in order, and every way to fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.core.errors import DeviceError, UnreachableError
from components.disruption.node import ANNOTATION
from components.remote.host_session import HostAnswer
from components.remote.step import Endpoint
from tests.disruption.played import (
    BUDGET,
    PlayedCluster,
    PlayedHost,
    frozen,
    make_node,
    make_pod,
    request_of,
    small_cluster,
)
from tests.golden.site import load_example

REQUEST = request_of(load_example("dgx-roce"), "gpu01")
FIRMWARE = {"nic.0000:05:00.0.ats": "off -> on"}
VFS = {"nic.0000:05:00.0.vfs": "8 -> 4"}
WORDS = "nic 0000:05:00.0 ats off -> on"


@pytest.fixture
def cluster() -> PlayedCluster:
    return small_cluster()


def fails(host: PlayedHost, *words: str) -> str:
    with pytest.raises(DeviceError) as caught:
        host.run().perform()
    text = str(caught.value)
    for each in words:
        assert each in text
    return text


def test_nothing_pending_is_one_look(cluster: PlayedCluster) -> None:
    host, before = PlayedHost(REQUEST, cluster), frozen(cluster)
    assert host.run().perform() == {"changed": [], "pending": [], "rebooted": False}
    assert host.actions == ["look"]
    assert frozen(cluster) == before


def test_a_boot_goes_out_and_back_in_order(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    assert host.run().perform() == {
        "boot_after": "boot-2",
        "boot_before": "boot-1",
        "changed": [
            "cordoned",
            "evicted jobs/train-gpu01",
            "asked for the reboot",
            "booted",
            "uncordoned",
        ],
        "pending": [WORDS],
        "rebooted": True,
    }
    assert cluster.asked == ["cordon gpu01", "evict train-gpu01", "uncordon gpu01"]
    assert not cluster.cordoned("gpu01")
    assert ANNOTATION not in cluster.nodes["gpu01"]["metadata"]["annotations"]
    assert host.mark == ""
    assert host.actions.index("begin") < host.actions.index("reboot")
    assert host.actions[-2:] == ["forget", "look"]


def test_what_needs_no_boot_is_set_while_the_node_is_empty(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, drains=dict(VFS))
    done = host.run().perform()
    assert (done["rebooted"], host.boot) == (False, 1)
    assert done["changed"] == [
        "cordoned",
        "evicted jobs/train-gpu01",
        "set nic.0000:05:00.0.vfs",
        "restarted jobs/plugin-gpu01",
        "uncordoned",
    ]
    assert "reboot" not in host.actions


def test_pods_of_daemon_sets_mirrors_and_ended_pods_stay(cluster: PlayedCluster) -> None:
    cluster.pods["static"] = make_pod("static", "gpu01", "Node")
    cluster.pods["static"]["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    cluster.pods["over"] = make_pod("over", "gpu01", "", status={"phase": "Succeeded"})
    PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE)).run().perform()
    assert set(cluster.pods) == {"plugin-gpu01", "static", "over", "train-gpu02", "plugin-gpu02"}


def test_pods_with_local_data_are_named(cluster: PlayedCluster) -> None:
    cluster.pods["train-gpu01"]["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    host = PlayedHost(REQUEST, cluster, drains=dict(VFS))
    assert "ended with their local data: jobs/train-gpu01" in str(host.run().perform()["changed"])


def test_somebody_elses_cordon_stays(cluster: PlayedCluster) -> None:
    cluster.nodes["gpu01"]["spec"]["unschedulable"] = True
    PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE)).run().perform()
    assert cluster.cordoned("gpu01")
    assert cluster.asked == ["evict train-gpu01"]


@pytest.mark.parametrize("nodes", [None, ["mgmt01", "gpu02"]])
def test_a_host_that_is_no_node_yet_has_nothing_to_drain(nodes: list[str] | None) -> None:
    cluster = None if nodes is None else PlayedCluster({name: make_node(name) for name in nodes})
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    assert host.run().perform()["changed"] == ["asked for the reboot", "booted"]
    assert cluster is None or cluster.asked == []


def test_deny_changes_nothing(cluster: PlayedCluster) -> None:
    host = PlayedHost(replace(REQUEST, reboots="deny"), cluster, boots=dict(FIRMWARE))
    fails(host, "has to leave service", WORDS, "disruption.reboots = deny", "Nothing was changed.")
    assert host.actions == ["look"]
    assert cluster.asked == []


def test_a_host_that_never_comes_back_is_named_with_its_last_state(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE), lost=True)
    fails(
        host,
        "gpu01 (",
        "waiting for the boot",
        "new boot within 1800 s",
        "connection refused; its node is cordoned",
        "done   cordoned, evicted jobs/train-gpu01, asked for the reboot",
        "groups after this one are not touched",
    )
    assert (cluster.cordoned("gpu01"), host.mark) == (True, "boot-1")


def test_a_host_that_did_not_boot_anew_is_no_success(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE), stuck=True)
    fails(host, "it answers, and is still on boot boot-1")
    assert cluster.cordoned("gpu01")


def test_a_budget_that_holds_the_only_pod_leaves_all_as_it_was(cluster: PlayedCluster) -> None:
    cluster.guarded = {"train-gpu01"}
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    fails(
        host, "draining: pods are left after 600 s", f"jobs/train-gpu01 ({BUDGET})", "is not cord"
    )
    assert cluster.asked == ["cordon gpu01", "uncordon gpu01"]
    assert (host.mark, host.boots, host.boot) == ("", FIRMWARE, 1)


def test_a_drain_that_fails_names_the_pods_that_it_evicted(cluster: PlayedCluster) -> None:
    cluster.pods["held"] = make_pod("held", "gpu01")
    cluster.guarded = {"held"}
    for name in ("held", "train-gpu01"):
        cluster.pods[name]["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    text = fails(
        host,
        f"pods are left after 600 s (disruption.drain_deadline_s): jobs/held ({BUDGET})",
        "done   cordoned, evicted jobs/train-gpu01, ended with their local data: jobs/train-gpu01,"
        " uncordoned",
    )
    assert text.count("jobs/held") == 1


def test_a_pod_that_never_ends_was_evicted_all_the_same(cluster: PlayedCluster) -> None:
    cluster.linger = 10**9
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    fails(host, "jobs/train-gpu01 (is ending)", "done   cordoned, evicted jobs/train-gpu01, uncor")


def test_a_budget_that_lets_go_in_time_is_waited_for(cluster: PlayedCluster) -> None:
    cluster.guarded = {"train-gpu01"}
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    run = host.run()
    run.pause = lambda s: (host.pause(s), host.now_s > 100 and cluster.guarded.clear())
    assert run.perform()["rebooted"] is True


def test_a_pod_that_nothing_would_start_again_is_not_ended(cluster: PlayedCluster) -> None:
    cluster.pods["bare"] = make_pod("bare", "gpu01", "")
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    fails(host, "nothing would start these pods of gpu01 again: jobs/bare")
    assert "evict" not in " ".join(cluster.asked)
    assert not cluster.cordoned("gpu01")


@pytest.mark.parametrize("kill_at", ["begin", "converge", "reboot", "ready", "forget"])
def test_a_killed_run_is_finished_by_the_next(cluster: PlayedCluster, kill_at: str) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE), kill_at=kill_at)
    with pytest.raises(KeyboardInterrupt):
        host.run().perform()
    host.kill_at = ""
    assert host.run().perform()["rebooted"] is True
    assert host.actions.count("reboot") == 1
    assert not cluster.cordoned("gpu01")
    assert (host.mark, host.boots, host.boot) == ("", {}, 2)
    assert host.run().perform()["changed"] == []


def test_a_run_killed_while_the_host_boots_is_finished(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE), away_s=60)
    run = host.run()

    def die(seconds: float) -> None:
        host.pause(seconds)
        if host.back_at_s is not None:
            raise KeyboardInterrupt

    run.pause = die
    with pytest.raises(KeyboardInterrupt):
        run.perform()
    fails(host, "the first look: gpu01", "connection refused")  # it is still away
    host.pause(100)
    assert host.run().perform()["pending"] == ["the work of an earlier run"]
    assert not cluster.cordoned("gpu01")


def test_without_a_boot_the_boot_unit_has_not_run(cluster: PlayedCluster) -> None:
    ready = {"unit": "inactive", "rdma.a": "ok"}
    host = PlayedHost(REQUEST, cluster, drains=dict(VFS), ready=ready)
    assert host.run().perform()["rebooted"] is False


@pytest.mark.parametrize(
    ("ready", "words"),
    [
        ({"unit": "failed"}, "railyard-nics.service failed at this boot"),
        (
            {"unit": "active", "rdma.0000:05:00.0": "port 1 of mlx5_0 is 1: DOWN, want ACTIVE"},
            "is not ready for RDMA: rdma.0000:05:00.0: port 1 of mlx5_0 is 1: DOWN, want ACTIVE",
        ),
    ],
)
def test_bad_cards_keep_the_node_out(
    cluster: PlayedCluster, ready: dict[str, str], words: str
) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE), ready=ready)
    fails(host, words, "its node is cordoned")
    assert cluster.cordoned("gpu01")
    host.ready = {"unit": "active", "rdma.0000:05:00.0": "ok"}
    assert host.run().perform()["changed"] == ["uncordoned"]


def test_a_card_that_cannot_write_to_itself_keeps_the_node_out(cluster: PlayedCluster) -> None:
    looped = {"loopback.0000:05:00.0": "ib_write_bw from mlx5_0 to itself failed: status 12"}
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE), looped=looped)
    fails(host, "an RDMA write from each card to itself", "failed: status 12", "node is cordoned")
    host.looped = {"loopback.0000:05:00.0": "ok"}
    changed = host.run().perform()["changed"]
    assert changed == ["an RDMA write to itself passed on 1 card(s)", "uncordoned"]


def test_an_adapter_that_is_passed_over_is_told(cluster: PlayedCluster) -> None:
    words = "port 1 of mlx5_8 is 1: DOWN, want ACTIVE"
    looped = {"loopback.0000:18:00.0": "ok", "spare.0000:d8:00.0": words}
    host = PlayedHost(replace(REQUEST, hcas=1), cluster, boots=dict(FIRMWARE), looped=looped)
    changed = host.run().perform()["changed"]
    assert "an RDMA write to itself passed on 1 card(s)" in str(changed)
    assert f"passed over, beyond hcas = 1: 0000:d8:00.0: {words}" in str(changed)


def test_a_node_that_does_not_offer_its_devices_stays_out(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    run = host.run()

    def pause(seconds: float) -> None:
        host.pause(seconds)
        cluster.nodes["gpu01"]["status"]["allocatable"]["nvidia.com/gpu"] = "0"

    run.pause = pause
    with pytest.raises(DeviceError, match=r"node gpu01 does not offer nvidia\.com/gpu after 600 s"):
        run.perform()
    assert cluster.cordoned("gpu01")


def test_what_still_waits_after_a_boot_is_said(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    run = host.run()
    run.pause = lambda s: (host.pause(s), host.boots.update(FIRMWARE))
    with pytest.raises(DeviceError, match=r"(?s)still waits after all.*switch the power off"):
        run.perform()
    assert host.actions.count("reboot") == 2


def test_a_name_that_udev_does_not_give_is_said_and_the_node_serves(
    cluster: PlayedCluster,
) -> None:
    unnamed = {"nic.0000:05:00.0.boot_rdma": "rocep5s0 -> roce_rail0"}
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    run = host.run()
    run.pause = lambda s: (host.pause(s), host.boots.update(unnamed))
    with pytest.raises(DeviceError) as caught:
        run.perform()
    said = str(caught.value)
    assert "udev did not rename: nic 0000:05:00.0 boot_rdma rocep5s0 -> roce_rail0" in said
    assert "is back in service" in said
    assert "Firmware" not in said
    assert host.actions.count("reboot") == 1
    assert not cluster.cordoned("gpu01")


def test_what_shows_only_after_a_boot_takes_a_second_one(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    run = host.run()

    def pause(seconds: float) -> None:
        was = host.boot
        host.pause(seconds)
        if (was, host.boot) == (1, 2):
            host.boots = {"nic.0000:05:00.0.fw_pci_wr_ordering": "per_mkey -> force_relax"}

    run.pause = pause
    assert run.perform()["rebooted"] is True
    assert (host.boot, host.boots, host.actions.count("reboot")) == (3, {}, 2)
    assert not cluster.cordoned("gpu01")


def test_a_silent_cluster_stops_the_host_from_going(cluster: PlayedCluster) -> None:
    cluster.silent = True
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE))
    with pytest.raises(UnreachableError, match="asking the cluster: the cluster did not answer"):
        host.run().perform()
    assert host.actions == ["look"]


def test_firmware_of_a_guest_is_not_its_own_to_load() -> None:
    request = replace(REQUEST, loads_firmware=False, settings={**REQUEST.settings, **FIRMWARE})
    host = PlayedHost(request)
    seen: list[str] = []
    run = host.run()

    def ask(endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        seen.append(stdin)
        return host.ask(endpoint, command, stdin, deadline_s)

    run.run = ask
    run.perform()
    assert ".ats=" not in seen[0]
    assert ".vfs=8\n" in seen[0]


def test_what_waits_for_the_hypervisor_does_not_fail_its_guest() -> None:
    host = PlayedHost(replace(REQUEST, loads_firmware=False), drains=dict(VFS), left=list(VFS))
    assert host.run().perform()["rebooted"] is False
    host = PlayedHost(REQUEST, drains=dict(VFS), left=list(VFS))
    fails(host, "still waits after all: nic 0000:05:00.0 vfs 8 -> 4")


def test_no_reboot_is_made_where_only_a_power_cycle_helps(cluster: PlayedCluster) -> None:
    host = PlayedHost(REQUEST, cluster, boots=dict(FIRMWARE), powers=dict(FIRMWARE))
    fails(host, "firmware waits that a reboot does not load: nic 0000:05:00.0 ats off -> on")
    assert (host.actions, cluster.asked) == (["look"], [])
