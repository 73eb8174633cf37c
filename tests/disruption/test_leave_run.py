"""`drain-nodes` against a played API: who is drained, what a refusal puts back, who stays."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from components.checks.site import load_checked_site
from components.core.errors import DeviceError
from components.disruption.leave_plan import (
    STEP,
    NodesLeave,
    choose_departures,
    leaving_nodes,
    parse_leave,
    plan_departures,
)
from components.disruption.ports import LeaveRun
from components.drift.applied import Applied, AppliedStep
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane
from components.model.worker_kinds import with_instances
from tests.disruption.played import BUDGET, PlayedCluster, make_pod, small_cluster
from tests.golden.site import EXAMPLES, changed_spec, load_example
from tests.kubernetes.plans import planned


def request_of(*nodes: str) -> NodesLeave:
    spec = load_example("dgx-roce")
    step = plan_departures(spec, "dev", planned(spec, "dev"))
    assert step is not None
    return NodesLeave("dev", step.request.cluster, 600, nodes, 1)


@dataclass
class Played:
    """Time passes while the run waits."""

    cluster: PlayedCluster = field(default_factory=small_cluster)
    now_s: float = 0.0

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def drain(self, *nodes: str) -> dict[str, object]:
        run = LeaveRun(
            request_of(*nodes), lambda: self.cluster, now=lambda: self.now_s, pause=self.pause
        )
        return run.perform()


def test_it_is_closed_and_emptied_and_stays_so() -> None:
    played = Played()
    assert played.drain("gpu02") == {
        "changed": {"gpu02": ["cordoned", "evicted jobs/train-gpu02"]},
        "passed_over": {},
    }
    assert played.cluster.asked == ["cordon gpu02", "evict train-gpu02"]
    assert [*played.cluster.pods] == ["train-gpu01", "plugin-gpu01", "plugin-gpu02"]


def test_all_are_closed_before_one_is_emptied() -> None:
    played = Played()
    played.drain("gpu01", "gpu02")
    assert played.cluster.asked[:2] == ["cordon gpu01", "cordon gpu02"]
    assert sorted(played.cluster.asked[2:]) == ["evict train-gpu01", "evict train-gpu02"]


def test_a_pod_that_may_not_go_ends_it_and_all_take_pods_again() -> None:
    played = Played()
    played.cluster.guarded = {"train-gpu02"}
    with pytest.raises(DeviceError) as refused:
        played.drain("gpu01", "gpu02")
    words = str(refused.value)
    assert words.startswith("gpu01, gpu02 cannot leave the cluster: gpu02: pods are left after 600")
    assert BUDGET in words
    assert "nothing was changed on a switch or a host" in words
    assert not played.cluster.cordoned("gpu01")
    assert not played.cluster.cordoned("gpu02")


def test_a_pod_that_nothing_starts_again_is_not_ended() -> None:
    played = Played()
    played.cluster.pods["mine"] = make_pod("mine", "gpu02", owner="")
    with pytest.raises(
        DeviceError, match="nothing would start these pods of gpu02 again: jobs/mine"
    ):
        played.drain("gpu02")
    assert "train-gpu02" in played.cluster.pods


def test_a_node_that_is_lost_or_gone_is_passed_over() -> None:
    played = Played()
    played.cluster.nodes["gpu02"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert played.drain("gpu02", "gpu09") == {
        "changed": {},
        "passed_over": {
            "gpu02": "it is not Ready: no kubelet would end its pods",
            "gpu09": "it left the cluster",
        },
    }
    assert played.cluster.asked == []


def test_a_request_is_read_as_it_was_written() -> None:
    asked = request_of("gpu02")
    assert parse_leave(asked.render()) == asked


def without(spec: ClusterSpec, host: str) -> ClusterSpec:
    return spec.model_copy(
        update={"hosts": tuple(each for each in spec.hosts if each.name != host)}
    )


def test_kubesprays_nodes_leave_as_its_state_has_them() -> None:
    spec = load_checked_site(EXAMPLES / "dgx-roce" / "kubespray.yaml").spec_or_raise()
    playbooks = planned(spec, "dev").playbooks
    assert playbooks is not None
    applied = Applied({playbooks.step.name: AppliedStep(playbooks.step.desired)})
    less = planned(without(spec, "gpu02"), "dev")
    assert leaving_nodes(planned(spec, "dev"), applied) == ()
    assert leaving_nodes(less, applied) == ("gpu02",)
    assert leaving_nodes(less, Applied()) == ()


def test_the_nodes_of_a_cluster_of_others_are_theirs() -> None:
    plane = ExistingPlane(plane="existing", version="v1.36.3", context=None)
    spec = changed_spec(load_example("dgx-roce"), kubernetes=plane)
    applied = Applied({"gpu02-node": AppliedStep("node=gpu02")})
    assert plan_departures(spec, "dev", planned(spec, "dev")) is None
    assert leaving_nodes(planned(spec, "dev"), applied) == ()


def test_without_switches_nothing_is_taken_before_the_drain_of_the_node_itself() -> None:
    spec = with_instances(load_example("crusoe-k3s"))
    assert plan_departures(spec, "dev", planned(spec, "dev")) is None


def test_nothing_is_asked_while_none_leaves_and_none_has_left() -> None:
    spec = load_example("dgx-roce")
    kubernetes = planned(spec, "dev")
    step = plan_departures(spec, "dev", kubernetes)
    applied = Applied({"gpu02-node": AppliedStep("node=gpu02")})
    assert choose_departures(step, kubernetes, applied) is None
    recorded = AppliedStep(request_of("gpu09").render())
    kept = choose_departures(step, kubernetes, Applied({STEP: recorded}))
    assert kept is not None
    assert kept.kept == recorded.stdin
