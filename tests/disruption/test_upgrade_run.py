"""`upgrade-node` against a played API and host: what is done, in which order, and after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from components.core.errors import DeviceError, UnreachableError
from components.disruption.disruption_plan import plan_upgrades
from components.disruption.node import ANNOTATION
from components.disruption.request import NodeUpgrade, parse_upgrade
from components.disruption.upgrade import UpgradeRun
from components.kubernetes.client import Calls
from components.model.cluster import ClusterSpec, Disruption
from components.model.kubernetes import Alignment
from components.remote.host_session import HostAnswer
from components.remote.step import Endpoint
from components.remote.tools import keep_text
from tests.disruption.played import PlayedCluster, frozen, small_cluster
from tests.golden.site import changed_spec, load_example
from tests.kubernetes.plans import planned

OLD, NEW = "v1.36.3+k3s1", "v1.36.4+k3s1"


def newer_spec() -> ClusterSpec:
    spec = load_example("dgx-roce")
    assert spec.k3s is not None
    return changed_spec(
        spec,
        kubernetes=spec.k3s.model_copy(update={"version": NEW}),
        disruption=Disruption(reboots="allow", max_unavailable=1),
    )


def request_of(node: str, spec: ClusterSpec | None = None) -> NodeUpgrade:
    site = spec or newer_spec()
    steps = [step for group in plan_upgrades(site, planned(site, "dev")) for step in group.steps]
    return next(step.request for step in steps if step.request.name == node)


@dataclass
class PlayedUpgrade:
    """One node: its host installs in no time, and its kubelet reports a little later."""

    request: NodeUpgrade
    cluster: PlayedCluster = field(default_factory=small_cluster)
    now_s: float = 0.0
    installs: int = 0
    fails: str = ""
    """What the install script says before it fails."""
    kill_at: str = ""
    """`install`, or `wait`: the part in which this run is killed."""
    reports_at_s: float | None = None
    arguments: str = ""
    """Of its kubelet, from the next start on."""

    def __post_init__(self) -> None:
        """All nodes run the release before."""
        for node in self.cluster.nodes.values():
            node["status"]["nodeInfo"].setdefault("kubeletVersion", OLD)

    @property
    def info(self) -> dict[str, str]:
        return self.cluster.nodes[self.request.name]["status"]["nodeInfo"]

    def pause(self, seconds: float) -> None:
        self.now_s += seconds
        if self.kill_at == "wait":
            raise KeyboardInterrupt
        if self.reports_at_s is not None and self.now_s >= self.reports_at_s:
            self.info["kubeletVersion"] = self.request.version
            self.started_with(self.arguments)
            self.cluster.silent = False

    def started_with(self, arguments: str) -> None:
        """K3s writes on its node what it was started with."""
        words = [part for each in arguments.split() for part in ("--kubelet-arg", each)]
        notes = self.cluster.nodes[self.request.name]["metadata"].setdefault("annotations", {})
        notes["k3s.io/node-args"] = json.dumps(["agent", "--docker", "true", *words])

    def ask(self, endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        del command, deadline_s
        assert endpoint == self.request.endpoint
        assert f"version={NEW}\n" in stdin
        if self.kill_at == "install":
            raise KeyboardInterrupt
        self.installs += 1
        if self.fails:
            return HostAnswer("", self.fails, 1)
        self.reports_at_s = self.now_s + 10
        self.cluster.asked.append(f"install {self.request.name}")
        return HostAnswer(json.dumps({"changed": ["k3s", "service"]}) + "\n", "", 0)

    def run(self) -> dict[str, object]:
        look: Callable[[], Calls | None] = lambda: self.cluster  # noqa: E731 - the run wants one
        return UpgradeRun(
            self.request, self.ask, look, now=lambda: self.now_s, pause=self.pause
        ).perform()


def test_a_worker_is_drained_then_installed_then_put_back() -> None:
    played = PlayedUpgrade(request_of("gpu01"))
    evidence = played.run()
    assert played.cluster.asked == [
        "cordon gpu01", "evict train-gpu01", "install gpu01", "uncordon gpu01",
    ]  # fmt: skip
    assert evidence == {
        "before": OLD,
        "changed": [
            *("cordoned", "evicted jobs/train-gpu01", "set k3s, service", "uncordoned"),
        ],
        "version": NEW,
    }


def test_a_server_is_closed_and_not_drained_and_the_outage_is_said() -> None:
    played = PlayedUpgrade(request_of("mgmt01"))
    evidence = played.run()
    assert played.cluster.asked == ["cordon mgmt01", "install mgmt01", "uncordon mgmt01"]
    assert "the API is away while K3s starts again on mgmt01" in str(evidence["changed"])


def test_a_node_that_runs_the_release_is_left_alone() -> None:
    played = PlayedUpgrade(request_of("gpu01"))
    played.info["kubeletVersion"] = NEW
    before = frozen(played.cluster)
    assert played.run() == {"before": NEW, "changed": [], "version": NEW}
    assert (frozen(played.cluster), played.installs) == (before, 0)


def test_what_is_no_node_yet_is_left_to_its_install_step() -> None:
    played = PlayedUpgrade(request_of("gpu01"))
    del played.cluster.nodes["gpu01"]
    assert played.run()["changed"] == []
    assert played.installs == 0


@pytest.mark.parametrize("moment", ["install", "wait"])
def test_a_run_that_was_killed_is_finished_by_the_next(moment: str) -> None:
    played = PlayedUpgrade(request_of("gpu01"), kill_at=moment)
    with pytest.raises(KeyboardInterrupt):
        played.run()
    assert played.cluster.cordoned("gpu01")
    played.kill_at = ""
    played.run()
    assert played.info["kubeletVersion"] == NEW
    assert not played.cluster.cordoned("gpu01")
    assert ANNOTATION not in played.cluster.nodes["gpu01"]["metadata"]["annotations"]


def test_a_run_that_was_killed_before_the_last_word_only_puts_the_node_back() -> None:
    played = PlayedUpgrade(request_of("gpu01"))
    node = played.cluster.nodes["gpu01"]
    node["metadata"]["annotations"][ANNOTATION] = "[]"
    node["spec"]["unschedulable"] = True
    played.info["kubeletVersion"] = NEW
    assert played.run()["changed"] == ["uncordoned"]
    assert played.installs == 0


def test_the_cordon_of_somebody_else_stays() -> None:
    played = PlayedUpgrade(request_of("gpu01"))
    played.cluster.nodes["gpu01"]["spec"]["unschedulable"] = True
    played.run()
    assert played.cluster.cordoned("gpu01")


def test_a_budget_that_holds_a_pod_leaves_all_as_it_was() -> None:
    played = PlayedUpgrade(replace(request_of("gpu01"), drain_deadline_s=10))
    played.cluster.guarded.add("train-gpu01")
    with pytest.raises(DeviceError, match="would violate the pod's disruption budget"):
        played.run()
    assert not played.cluster.cordoned("gpu01")
    assert played.installs == 0


def test_no_more_workers_leave_than_the_file_allows() -> None:
    played = PlayedUpgrade(request_of("gpu01"))
    played.cluster.nodes["gpu02"]["status"]["conditions"][0]["status"] = "False"
    with pytest.raises(DeviceError, match="gpu02 is out of service already"):
        played.run()
    assert not played.cluster.cordoned("gpu01")


def test_a_server_stays_while_another_one_is_not_well() -> None:
    played = PlayedUpgrade(request_of("mgmt01"), small_cluster(servers=3))
    played.cluster.nodes["mgmt02"]["status"]["conditions"][0]["status"] = "False"
    with pytest.raises(DeviceError, match="mgmt02 of the 3 servers is not Ready"):
        played.run()
    assert played.installs == 0


def test_an_install_that_fails_is_told_with_what_was_done_and_what_comes_next() -> None:
    played = PlayedUpgrade(request_of("gpu01"), fails="railyard: checksum of /k3s is 0, want 1")
    with pytest.raises(DeviceError) as caught:
        played.run()
    said = str(caught.value)
    assert "installing K3s v1.36.4+k3s1: railyard: checksum of /k3s is 0, want 1" in said
    assert "last   K3s v1.36.3+k3s1; its node is cordoned by us" in said
    assert "done   cordoned, evicted jobs/train-gpu01" in said
    assert "run `pulumi up` again" in said


def test_where_the_file_denies_it_nothing_is_touched() -> None:
    played = PlayedUpgrade(replace(request_of("gpu01"), reboots="deny"))
    before = frozen(played.cluster)
    with pytest.raises(DeviceError, match=r"disruption\.reboots is deny"):
        played.run()
    assert (frozen(played.cluster), played.installs) == (before, 0)


def test_the_only_server_that_a_killed_run_left_stopped_is_started_anew() -> None:
    played = PlayedUpgrade(request_of("mgmt01"))
    played.cluster.silent = True
    assert "its API did not answer" in str(played.run()["changed"])
    assert played.info["kubeletVersion"] == NEW


def test_a_worker_is_not_touched_while_the_cluster_is_silent() -> None:
    played = PlayedUpgrade(request_of("gpu01"))
    played.cluster.silent = True
    with pytest.raises(UnreachableError, match="did not answer"):
        played.run()
    assert played.installs == 0


def test_a_request_comes_back_as_it_was_sent(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    request = request_of("mgmt01")
    for text in request.texts:
        keep_text(text)
    assert parse_upgrade(request.render()) == request
    assert "config.yaml.01" not in request.render()


ALIGNED = (
    "cpu-manager-policy=static reserved-cpus=0-1"
    " topology-manager-policy=best-effort topology-manager-scope=container"
)


def aligned_request(node: str) -> NodeUpgrade:
    spec = newer_spec()
    assert spec.k3s is not None
    own = Alignment(reserved_cpus="0-1", job_cpus=32, job_memory_gib=256)
    return request_of(
        node, changed_spec(spec, kubernetes=spec.k3s.model_copy(update={"alignment": own}))
    )


def test_another_alignment_drains_a_worker_that_runs_the_release() -> None:
    played = PlayedUpgrade(aligned_request("gpu01"), arguments=ALIGNED)
    assert played.request.kubelet == ALIGNED
    played.info["kubeletVersion"] = NEW
    played.started_with("")
    played.run()
    assert played.cluster.asked == [
        "cordon gpu01", "evict train-gpu01", "install gpu01", "uncordon gpu01",
    ]  # fmt: skip
    again = PlayedUpgrade(played.request, played.cluster)
    played.cluster.asked.clear()
    assert again.run()["changed"] == []
    assert (played.cluster.asked, again.installs) == ([], 0)


def test_a_kubelet_that_did_not_take_its_arguments_is_not_put_back() -> None:
    played = PlayedUpgrade(aligned_request("gpu01"), arguments="")
    words = r"(?s)its kubelet with no arguments of ours, and is Ready.*node is cordoned by us"
    with pytest.raises(DeviceError, match=words):
        played.run()
    assert "uncordon gpu01" not in played.cluster.asked


def test_an_alignment_that_the_file_leaves_is_taken_away_and_anothers_stays() -> None:
    request = replace(request_of("gpu01"), leaves=ALIGNED)
    played = PlayedUpgrade(request)
    played.info["kubeletVersion"] = NEW
    played.started_with(ALIGNED)
    assert "cordoned" in str(played.run()["changed"])
    other = PlayedUpgrade(request_of("gpu01"))
    other.info["kubeletVersion"] = NEW
    other.started_with("cpu-manager-policy=static reserved-cpus=0")
    assert other.run()["changed"] == [], "another's arguments are no work of ours"


def test_only_workers_are_aligned() -> None:
    assert aligned_request("mgmt01").kubelet == ""
