"""`railyard job pytorch` where Kubeflow Trainer is: its real controllers, and JobSet's, run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from components.submit import follow
from lab.cluster.document import Doc, pairs_at, text_at
from lab.cluster.plane import ControlPlane
from lab.cluster.trainer_build import ensure_trainer
from lab.cluster.trainer_run import TrainerControllers
from tests.cli.conftest import Call
from tests.submit import test_real_cluster
from tests.submit.test_real_cluster import NODES, submit_pytorch

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("trainer", "kubeconfig")]
plane = test_real_cluster.plane
kubeconfig = test_real_cluster.kubeconfig
railyard = test_real_cluster.railyard
LONGEST = "t" * 40
"""The longest name that `railyard job` takes: JobSet's names of jobs and pods are longer."""
PODS = "/api/v1/namespaces/default/pods"
OF_TRAINER = "jobset.sigs.k8s.io/jobset-name"


@pytest.fixture(scope="module")
def trainer(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    controllers = TrainerControllers(plane, ensure_trainer(), tmp_path_factory.mktemp("trainer"))
    try:
        controllers.start()
        yield
    finally:
        controllers.stop()


def pods_of(plane: ControlPlane, name: str) -> list[Any]:
    found: list[Any] = [*plane.admin.items(PODS, {"labelSelector": f"{OF_TRAINER}={name}"})]
    return sorted(found, key=lambda pod: pod["metadata"]["name"])


def test_a_trainjob_runs_to_its_end_on_the_chosen_nodes(
    plane: ControlPlane, railyard: Call
) -> None:
    done = submit_pytorch(railyard, LONGEST)
    assert done.code == 0, done.out + done.err
    assert done.out.splitlines() == [
        f"{LONGEST}: created in namespace default",
        f"default/{LONGEST}-node-0-0 of 5 parts",
        "passed: the job ended well; nothing judges its log",
        f"take it away: kubectl -n default delete trainingruntime/{LONGEST} trainjob/{LONGEST}",
    ]
    pods = pods_of(plane, LONGEST)
    assert sorted(text_at(pod, "spec", "nodeName") for pod in pods) == [*NODES]
    for index, pod in enumerate(pods):
        assert pod["spec"]["hostname"] == f"{LONGEST}-node-0-{index}"
        assert pod["spec"]["subdomain"] == LONGEST
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
        env = {each["name"]: each for each in container["env"]}
        assert {name: env[name]["value"] for name in env if name.startswith("PET_M")} == {
            "PET_MASTER_ADDR": f"{LONGEST}-node-0-0.{LONGEST}",
            "PET_MASTER_PORT": "29500",
        }
        assert (env["PET_NNODES"]["value"], env["PET_NPROC_PER_NODE"]["value"]) == ("2", "8")
        assert "NCCL_IB_TC" in env
        assert pairs_at(pod, "metadata", "annotations")[follow.INDEX] == str(index)
    service = plane.admin.find(f"/api/v1/namespaces/default/services/{LONGEST}")
    assert text_at(service, "spec", "clusterIP") == "None"


def test_a_trainjob_whose_rank_fails_has_failed(
    plane: ControlPlane, railyard: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pod ends with 1 as soon as it runs; JobSet fails the set, and Trainer its job."""
    pause = follow.pause

    def failing() -> None:
        for pod in pods_of(plane, "broken"):
            notes: Doc = {"lab.railyard.dev/exit-code": "1"}
            path = f"{PODS}/{text_at(pod, 'metadata', 'name')}"
            plane.admin.merge(path, {"metadata": {"annotations": notes}})
        pause()

    monkeypatch.setattr(follow, "pause", failing)
    done = submit_pytorch(railyard, "broken")
    assert done.code == 1, done.out + done.err
    assert "failed: the job did not end well: " in done.out
    assert "jobset failed" in done.out.lower()


def test_a_plain_job_is_made_where_the_user_asks_for_one(
    plane: ControlPlane, railyard: Call
) -> None:
    done = submit_pytorch(railyard, "plain", "--form", "job")
    assert done.code == 0, done.out + done.err
    assert pods_of(plane, "plain") == []
    assert "delete service/plain job/plain" in done.out
