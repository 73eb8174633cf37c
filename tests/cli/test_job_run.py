"""Following a job on a cluster in memory, through the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from components.acceptance.collect.cluster_jobs import Body
from components.submit import follow as following
from components.submit.follow import LogReader
from tests.acceptance.fake_cluster import NO_IMAGE, NO_NETWORK, NO_VF, FakeCluster, Fate
from tests.cli.conftest import Call, Ended
from tests.golden.site import EXAMPLES

SITE = str(EXAMPLES / "dgx-roce" / "site.yaml")
PYTORCH = ("--nodes", "gpu01,gpu02", "--image", "reg/train:1", "--run")
READY: Body = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
CORDONED: Body = {**READY, "spec": {"unschedulable": True}}
TAINTED: Body = {
    **READY,
    "spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]},
}
GONE: Body = {
    "status": {"conditions": [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped"}]}
}


@dataclass
class Cluster(FakeCluster):
    """With nodes, and with the API groups of job operators."""

    nodes: Mapping[str, Body] = field(default_factory=lambda: {"gpu01": READY, "gpu02": READY})
    groups: tuple[str, ...] = ("kubeflow.org/v2beta1",)

    def get(self, path: str) -> Body | None:
        if path.startswith("/api/v1/nodes/"):
            return self.nodes.get(path.rpartition("/")[2])
        if path.count("/") == 3 and path.startswith("/apis/"):
            return {} if path.removeprefix("/apis/") in self.groups else None
        return super().get(path)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    fake = Cluster()

    def opened(*_: object) -> Cluster:
        return fake

    monkeypatch.setattr("components.cli.job.open_cluster", opened)
    monkeypatch.setattr(following, "pause", fake.pause)
    return fake


@pytest.fixture
def run(railyard: Call, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> Call:
    del cluster

    def call(*words: str) -> Ended:
        monkeypatch.setenv("RAILYARD_SECRET_SWITCH_PASSWORD", "x")
        return railyard("job", words[0], SITE, *words[1:])

    return call


def pytorch(run: Call, *more: str) -> Ended:
    return run("pytorch", *PYTORCH, *more, "--", "train.py")


def test_it_is_created_followed_and_told(run: Call, cluster: Cluster) -> None:
    cluster.log = "epoch 1\n\x1b[2Jepoch 2\n"
    done = pytorch(run)
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "pytorch: created in namespace default",
        "epoch 1",
        "\\x1b[2Jepoch 2",
        "passed: the job ended well; nothing judges its log",
        "take it away: kubectl -n default delete service/pytorch job/pytorch",
    ]
    assert len(cluster.objects) == 2, "what a user made stays until the user takes it away"


def test_a_job_that_fails_ends_with_1(run: Call, cluster: Cluster) -> None:
    cluster.fates = {"pytorch": "fails"}
    done = pytorch(run)
    assert done.code == 1
    assert "failed: the job did not end well: BackoffLimitExceeded it failed" in done.out


def test_a_log_that_cannot_be_judged_ends_with_4(run: Call) -> None:
    assert run("nccl", "--nodes", "gpu01,gpu02", "--run").code == 4


def test_every_rail_is_told_by_its_name(run: Call) -> None:
    done = run("perftest", "--nodes", "gpu01,gpu02", "--run")
    assert "rail-0: the log\nrail-1: the log\n" in done.out
    assert "rail-1, error: " in done.out


def test_ctrl_c_leaves_the_job_and_says_how_to_go_on(
    run: Call, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fates = {"nccl": "runs"}

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(following, "pause", interrupted)
    done = run("nccl", "--nodes", "gpu01,gpu02", "--run", "--name", "nccl-a")
    assert done.code == 130
    assert len(cluster.objects) == 1
    label = "training.kubeflow.org/job-name=nccl-a,training.kubeflow.org/job-role=launcher"
    assert done.out.endswith(
        "nccl-a goes on in the cluster.\n"
        f"  follow it   kubectl -n default logs -f --tail=-1 -l {label}\n"
        "  end it      kubectl -n default delete mpijob/nccl-a\n"
    )


def test_what_it_waits_for_is_said_once(
    run: Call, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fates = {"nccl": "unschedulable"}
    looks = iter(range(12))

    def pause() -> None:
        if next(looks, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(following, "pause", pause)
    done = run("nccl", "--nodes", "gpu01,gpu02", "--run")
    assert done.out.count(f"waiting: pod nccl-launcher-0 is not scheduled: {NO_VF}\n") == 1


WAITS: dict[str, tuple[Fate, str]] = {
    "resources that others have": (
        "unschedulable",
        (
            f"pod nccl-launcher-0 is not scheduled: {NO_VF}\n"
            "  fix    it starts when they are free; `railyard drift` says whether nodes offer too"
            " few"
        ),
    ),
    "a network that cannot be made": (
        "no_network",
        (
            f"pod nccl-launcher-0 waits: FailedCreatePodSandBox: {NO_NETWORK}\n"
            "  fix    `railyard drift` compares attachments, plugins and VFs with the file"
        ),
    ),
    "an image that is not there": (
        "no_image",
        (
            f"pod nccl-launcher-0 waits: ImagePullBackOff: {NO_IMAGE}\n"
            "  fix    is the image's name right, and is the registry's login in sources.registry?"
        ),
    ),
}


@pytest.mark.parametrize("case", WAITS)
def test_pods_that_do_not_start_are_given_up_with_the_reason(
    case: str, run: Call, cluster: Cluster
) -> None:
    fate, words = WAITS[case]
    cluster.fates = {"nccl": fate}
    done = run("nccl", "--nodes", "gpu01,gpu02", "--run", "--start-deadline-s", "20")
    assert done.code == 4
    look = "kubectl -n default describe pod nccl-launcher-0"
    assert done.out == (f"nccl: created in namespace default\nwaiting: {words}\n  next   {look}\n")
    assert f"nccl did not start in 20 s: {words.partition(chr(10))[0]}\n" in done.err
    assert "end it      kubectl -n default delete mpijob/nccl" in done.err
    assert len(cluster.objects) == 1, "it stays: what held it may come free"


def test_a_job_of_which_no_pod_is_made_is_given_up(run: Call, cluster: Cluster) -> None:
    cluster.fates = {"nccl": "runs"}
    cluster.events = ({"involvedObject": {"name": "of another"}, "message": "no"},)
    done = run("nccl", "--nodes", "gpu01,gpu02", "--run", "--start-deadline-s", "4")
    assert done.code == 4
    assert "nccl did not start in 4 s: the cluster made no pod: does its controller" in done.err


def test_pods_that_run_and_print_nothing_are_not_given_up(
    run: Call, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fates, cluster.log = {"nccl": "runs"}, ""
    looks = iter(range(12))

    def pause() -> None:
        if next(looks, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(following, "pause", pause)
    done = run("nccl", "--nodes", "gpu01,gpu02", "--run", "--start-deadline-s", "4")
    assert done.code == 130


REFUSED: dict[str, tuple[dict[str, Body], str]] = {
    "cordoned": (
        {"gpu01": READY, "gpu02": CORDONED},
        "node gpu02 is cordoned\n  fix    kubectl unc",
    ),
    "tainted": (
        {"gpu01": TAINTED, "gpu02": READY},
        "node gpu01 is tainted team=a:NoSchedule\n  fix",
    ),
    "not ready": (
        {"gpu01": GONE, "gpu02": READY},
        "node gpu01 is not ready: Kubelet stopped\n  fix",
    ),
    "absent": ({"gpu01": READY}, "node gpu02 is not in the cluster\n  fix    let it join"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_node_that_takes_no_pods_is_refused(case: str, run: Call, cluster: Cluster) -> None:
    cluster.nodes, words = REFUSED[case]
    done = pytorch(run)
    assert done.code == 1
    assert words in done.err
    assert cluster.objects == {}


def test_a_name_in_use_is_refused_with_what_takes_it_away(run: Call, cluster: Cluster) -> None:
    assert pytorch(run).code == 0
    done = pytorch(run)
    assert done.code == 1
    assert "Job pytorch is in namespace default already\n  fix    give the job another" in done.err
    assert "delete that one: kubectl -n default delete service/pytorch job/pytorch" in done.err
    assert pytorch(run, "--name", "second").code == 0
    assert len(cluster.objects) == 4


def test_all_reasons_come_at_once(run: Call, cluster: Cluster) -> None:
    cluster.nodes = {"gpu01": CORDONED}
    done = run("nccl", "--nodes", "gpu01,gpu7", "--run", "--name", "A")
    assert done.code == 2
    wanted = ("gpu7 is not a host", '"A" is not a valid job name', "node gpu01 is cordoned")
    assert [words for words in wanted if words not in done.err] == []


def test_a_cluster_without_the_operator_is_named(run: Call, cluster: Cluster) -> None:
    cluster.groups = ()
    done = run("nccl", "--nodes", "gpu01,gpu02", "--run")
    assert done.code == 1
    assert "does not serve MPIJob (kubeflow.org/v2beta1)\n  fix    set jobs.mpi_op" in done.err


def test_trainer_is_taken_where_it_is(run: Call, cluster: Cluster) -> None:
    cluster.groups = ("trainer.kubeflow.org/v1alpha1",)
    cluster.fates = {"pytorch": "fails"}
    cluster.events = ()
    made: list[Any] = []
    cluster.post = lambda path, body: made.append((path, body["kind"]))
    assert pytorch(run).code == 1, "it was deleted while it ran: the stand-in kept nothing"
    assert [kind for _, kind in made] == ["TrainingRuntime", "TrainJob"]
    assert pytorch(run, "--form", "job").code == 1
    assert [kind for _, kind in made[2:]] == ["Service", "Job"]


def test_what_was_made_before_a_refusal_is_taken_away_again(run: Call, cluster: Cluster) -> None:
    cluster.refuses = ("POST /apis/batch",)
    done = pytorch(run)
    assert done.code == 1
    assert "500 no" in done.err
    assert cluster.objects == {}


def test_a_cluster_that_stops_answering_says_how_to_go_on(
    run: Call, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fates = {"pytorch": "runs"}

    def lost() -> None:
        cluster.refuses = ("GET",)

    monkeypatch.setattr(following, "pause", lost)
    done = pytorch(run)
    assert done.code == 1
    assert "pytorch goes on in the cluster." in done.err


class Kubelet:
    """Lines with times, as a kubelet gives them: from the start of a second on."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked: list[str] = []

    def text(self, path: str) -> str:
        self.asked.append(path)
        since = path.partition("sinceTime=")[2].replace("%3A", ":").removesuffix("Z")
        return "".join(f"{line}\n" for line in self.lines if line[:19] >= since)


def test_a_log_is_read_on_from_its_last_second() -> None:
    kubelet: Any = Kubelet()
    log = LogReader("/log")
    kubelet.lines = ["2026-01-02T03:04:05Z a", "2026-01-02T03:04:06.1Z b"]
    assert log.read_on(kubelet) == ["a", "b"]
    kubelet.lines += [
        "2026-01-02T03:04:06.123Z c",
        "2026-01-02T03:04:07Z ",
        "2026-01-02T03:04:07Z d",
    ]
    assert log.read_on(kubelet) == ["c", "", "d"]
    assert log.read_on(kubelet) == []
    del kubelet.lines[:3]  # the kubelet rotated the file
    kubelet.lines.append("2026-01-02T03:04:07.5Z e")
    assert log.read_on(kubelet) == ["e"]
    assert kubelet.asked[-1] == "/log?timestamps=true&sinceTime=2026-01-02T03%3A04%3A07Z"
