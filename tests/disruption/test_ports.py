"""`disruption.ports: drain`: who leaves for which port, under which rules, and who comes back."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from components.core.errors import DeviceError
from components.disruption.leave_plan import NodesLeave, PortsLeave, plan_ports
from components.disruption.node import SWITCH
from components.disruption.ports import PortsRun
from components.kubernetes.kubernetes_plan import plan_kubernetes
from components.kubernetes.planes.base import ClusterRef
from tests.disruption.played import PlayedCluster, small_cluster
from tests.golden.site import load_example

BEHIND = {"1/1": "gpu01", "1/2": "gpu01", "1/3": "gpu02"}
WORKERS = ("gpu01", "gpu02")


def run_of(cluster: PlayedCluster | None, most: int = 1) -> PortsRun:
    seconds = count(step=5)
    leave = NodesLeave("dev", ClusterRef("dev"), 60)
    ports = PortsLeave("leaf-01", BEHIND, leave, WORKERS, most)
    return PortsRun(
        leave, lambda: cluster, now=lambda: next(seconds), pause=lambda _: None, ports=ports
    )


def test_only_the_nodes_behind_the_ports_leave_and_they_come_back() -> None:
    cluster = small_cluster()
    with run_of(cluster).out_of_service(("1/1", "1/2")):
        assert cluster.nodes["gpu01"]["spec"]["unschedulable"]
        assert cluster.nodes["gpu01"]["metadata"]["annotations"][SWITCH] == "leaf-01"
        assert not cluster.nodes["gpu02"]["spec"].get("unschedulable")
        left = [p for p in cluster.pods.values() if p["spec"]["nodeName"] == "gpu01"]
        assert all(p["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet" for p in left)
    assert not cluster.nodes["gpu01"]["spec"].get("unschedulable")
    assert SWITCH not in cluster.nodes["gpu01"]["metadata"]["annotations"]


def test_more_than_may_be_away_is_refused_before_a_cordon() -> None:
    cluster = small_cluster()
    words = "gpu01, gpu02 would have to leave service at once"
    with pytest.raises(DeviceError, match=words), run_of(cluster).out_of_service(("",)):
        pytest.fail("the switch would be changed")
    assert cluster.asked == []


def test_a_pod_that_stays_is_named_and_the_switch_is_not_touched() -> None:
    cluster = small_cluster()
    cluster.guarded = {*cluster.pods}
    words = r"(?s)pods are left after 60 s.*train-gpu01.*was not touched"
    with pytest.raises(DeviceError, match=words), run_of(cluster).out_of_service(("1/1",)):
        pytest.fail("the switch would be changed")
    assert not cluster.nodes["gpu01"]["spec"].get("unschedulable")


def test_what_a_killed_run_began_is_taken_up() -> None:
    cluster = small_cluster()
    with pytest.raises(KeyboardInterrupt), run_of(cluster).out_of_service(("1/1",)):
        raise KeyboardInterrupt
    assert cluster.nodes["gpu01"]["spec"]["unschedulable"]
    with run_of(cluster).out_of_service(()):  # the switch is as wanted by now
        pass
    assert not cluster.nodes["gpu01"]["spec"].get("unschedulable")


def test_the_cordon_of_somebody_else_stays() -> None:
    cluster = small_cluster()
    cluster.nodes["gpu01"]["spec"]["unschedulable"] = True
    with run_of(cluster).out_of_service(("1/1",)):
        pass
    assert cluster.nodes["gpu01"]["spec"]["unschedulable"]


def test_without_a_cluster_nobody_leaves() -> None:
    with run_of(None).out_of_service(("1/1",)):
        pass


def test_the_plan_names_the_node_behind_each_port() -> None:
    spec = load_example("dgx-roce")
    assert plan_ports(spec, "dev", plan_kubernetes(spec, "dev")) == {}
    drain = spec.disruption.model_copy(update={"ports": "drain"})
    spec = spec.model_copy(update={"disruption": drain})
    planned = plan_ports(spec, "dev", plan_kubernetes(spec, "dev"))["leaf-01"]
    assert {*planned.behind(("1/1",))} <= {host.node for host in spec.hosts}
    assert {*planned.behind(("",))} == {host.node for host in spec.workers}


GROUPS = ("1/1", "1/2", "1/3", "1/31")


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, (("1/31", "1/1", "1/2"), ("1/3",))),
        (2, (("1/31", "1/1", "1/2", "1/3"),)),
    ],
)
def test_ports_change_in_groups_of_so_many_workers(
    most: int, expected: tuple[tuple[str, ...], ...]
) -> None:
    """Both rails of gpu01 are one group; a port without a node changes with the first."""
    assert run_of(None, most).ports.groups(GROUPS) == expected


def test_servers_leave_one_by_one_and_a_whole_switch_is_one_group() -> None:
    ports = run_of(None, 2).ports
    served = replace(ports, nodes={"1/1": "mgmt01", "1/2": "mgmt02", "1/3": "gpu01"})
    assert served.groups(("1/1", "1/2", "1/3")) == (("1/3",), ("1/1",), ("1/2",))
    assert served.groups(("1/1", "")) == (("1/1", ""),)
    assert served.groups(("1/31",)) == (("1/31",),)


def test_the_preview_says_who_leaves_in_how_many_groups() -> None:
    ports = run_of(None, 1).ports
    (words,) = ports.describe(("1/1", "1/3"))
    assert words.endswith("before their ports of leaf-01 change, in 2 groups, one after the other")
    assert [*ports.refused(("1/1", "1/3"))] == []
    (refused,) = ports.refused(("",))
    assert "gpu01, gpu02 would leave service at once" in refused.what
    assert "write `disruption: {max_unavailable: 2}`" in refused.fix
    assert [*ports.describe(("1/31",))] == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_failed_change_brings_nodes_back_if_the_switch_is_as_it_was(*, kept: bool) -> None:
    cluster, error = small_cluster(), DeviceError("leaf-01 refused a line")
    error.kept = kept
    with pytest.raises(DeviceError) as caught, run_of(cluster).out_of_service(("1/1",)):
        raise error
    assert cluster.cordoned("gpu01") is not kept
    assert (SWITCH in cluster.nodes["gpu01"]["metadata"]["annotations"]) is not kept
    words = "take pods again" if kept else "`kubectl uncordon gpu01`"
    assert str(caught.value).startswith("leaf-01 refused a line\n")
    assert words in str(caught.value)


def test_what_a_run_before_left_unknown_stays_cordoned_when_nothing_is_changed() -> None:
    """This run changed nothing, but the one before may have."""
    cluster = small_cluster()
    with pytest.raises(KeyboardInterrupt), run_of(cluster).out_of_service(("1/1",)):
        raise KeyboardInterrupt
    error = DeviceError("leaf-01 cannot be reached")
    error.kept = True
    with pytest.raises(DeviceError), run_of(cluster).out_of_service(("1/1",)):
        raise error
    assert cluster.cordoned("gpu01")


def test_a_persons_cordon_is_not_reported_as_ours() -> None:
    cluster = small_cluster()
    cluster.nodes["gpu01"]["spec"]["unschedulable"] = True
    with pytest.raises(DeviceError) as caught, run_of(cluster).out_of_service(("1/1",)):
        raise DeviceError("leaf-01: the session was lost")
    assert "gpu01" not in str(caught.value)
    assert cluster.cordoned("gpu01")


def test_a_failure_of_a_later_group_says_what_the_groups_before_have() -> None:
    run, error = run_of(small_cluster()), DeviceError("leaf-01 refused a line")
    error.kept = True
    with run.out_of_service(("1/1", "1/2")):
        pass
    with pytest.raises(DeviceError) as caught, run.out_of_service(("1/3",)):
        raise error
    assert "before  the ports of gpu01 were changed, and saved" in str(caught.value)
    assert "gpu02 take pods again" in str(caught.value)
