"""`railyard job` against a real API server: simulated nodes, real scheduler and Job controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from pydantic import JsonValue

from components.acceptance.collect.cluster_jobs import collection_of
from components.jobs.job_plan import MPI_OPERATOR_FILE, plan_own_pods
from components.kubernetes.manifest import load_vendored
from components.submit import follow
from lab.cluster.document import name_of, pairs_at, text_at
from lab.cluster.fake_nodes import NodeFacts, register_node
from lab.cluster.https import serve_tls
from lab.cluster.kubelet import PORT, make_kubelet
from lab.cluster.pki import KeyPair
from lab.cluster.plane import ControlPlane
from lab.cluster.process import wait_until
from lab.cluster.testing import node_is_ready, running_plane
from tests.cli import conftest
from tests.cli.conftest import Call
from tests.golden.site import EXAMPLES
from tests.submit import own_pods
from tests.submit.jobs import asked_for, job_of
from tests.submit.test_make import CASES

pytestmark = pytest.mark.cluster
railyard = conftest.railyard
SITE = str(EXAMPLES / "shared-rdma" / "existing.yaml")
NODES = ("node03", "node04")
OFFERED: dict[str, JsonValue] = {
    "nvidia.com/gpu": "8",
    "rdma/hca_shared_devices_b": "500",
    "rdma/hca": "500",
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CNI = "lab.railyard.dev/cni"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SERVICES = "/api/v1/namespaces/default/services"
WITH_PODS: Any = {"propagationPolicy": "Foreground"}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY = "MutatingAdmissionPolicy"
COLLECTIONS = {
    ("v1", "ConfigMap"): "/api/v1/namespaces/default/configmaps",
    (ADMISSION[6:], "MutatingAdmissionPolicy"): f"{ADMISSION}/mutatingadmissionpolicies",
    (
        ADMISSION[6:],
        "MutatingAdmissionPolicyBinding",
    ): f"{ADMISSION}/mutatingadmissionpolicybindings",
}
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}


def log_of(namespace: str, pod: str) -> str:
    """The kubelet's answer: kwok starts nothing that could print."""
    return f"{namespace}/{pod.rpartition('-')[0]} of {pod.count('-') + 1} parts\n"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("jobs")
    with running_plane(folder) as running:
        pair = KeyPair(folder / "kubelet.crt", folder / "kubelet.key")
        running.ca.issue(pair, "kubelet", sans=[running.address])
        address = (running.address, PORT)
        kubelet = serve_tls(address, pair, make_kubelet(log_of), running.ca.files.cert)
        try:
            for name in NODES:
                register_node(running.admin, NodeFacts(name, running.address))
                wait_until(f"{name} to be Ready", lambda n=name: node_is_ready(running, n), 120)
                _offer(running, name)
            yield running
        finally:
            kubelet.shutdown()
            kubelet.server_close()


def _offer(plane: ControlPlane, name: str) -> None:
    path = f"/api/v1/nodes/{name}"
    wanted = {"capacity": OFFERED, "allocatable": OFFERED}
    plane.admin.merge(f"{path}/status", cast("Any", {"status": wanted}))
    node = plane.admin.find(path)
    assert text_at(node, "status", "allocatable", "nvidia.com/gpu") == "8"


def _job(call: Call, name: str, *more: str) -> Any:  # noqa: ANN401 - what the fixture gives
    words = ("--nodes", "node03,node04", "--name", name, "--run")
    more = more if "--image" in more else ("--image", "reg/train:1", *more)
    return call("job", "pytorch", SITE, *words, *more, "--", "train.py")


@pytest.fixture(autouse=True)
def kubeconfig(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster by its secret; between two looks, pods get the networks that they ask for.

    That is what a node agent of the lab does, and this plane has none.
    """
    monkeypatch.setenv("RAILYARD_SECRET_KUBECONFIG", plane.kubeconfig.read_text())
    monkeypatch.setattr(follow, "LOOK_S", 0.2)
    wait, looks = follow.pause, iter(range(300))

    def pause() -> None:
        if next(looks, None) is None:
            raise KeyboardInterrupt
        for pod in plane.admin.items("/api/v1/namespaces/default/pods"):
            if text_at(pod, "spec", "nodeName"):
                path = f"/api/v1/namespaces/default/pods/{text_at(pod, 'metadata', 'name')}"
                plane.admin.merge(path, {"metadata": {"annotations": {CNI: "attached"}}})
        wait()

    monkeypatch.setattr(follow, "pause", pause)


def definitions() -> dict[str, JsonValue]:
    """The kinds of the MPI operator and of Kubeflow Trainer v2.3.0, by where they are served."""
    bodies = [
        *load_vendored("components.jobs", MPI_OPERATOR_FILE),
        *load_vendored("tests.submit", "trainer.json.gz"),
    ]
    found: dict[str, JsonValue] = {}
    for body in cast("list[Any]", bodies):
        if body["kind"] == "CustomResourceDefinition":
            spec = body["spec"]
            version = spec["versions"][0]["name"]
            found[f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"] = body
    return found


@pytest.fixture
def kinds(plane: ControlPlane) -> None:
    """Both operators' kinds are there."""
    for body in definitions().values():
        if plane.admin.find(f"{CRDS}/{name_of(body)}") is None:
            plane.admin.request("POST", CRDS, body)
    for path in definitions():
        wait_until(f"{path} to be served", lambda p=path: plane.admin.answers(p), 120)


@pytest.fixture
def no_kinds(plane: ControlPlane) -> None:
    """None of them is: where Trainer is, `pytorch` makes a TrainJob, which nobody here runs."""
    for path in (f"{CRDS}/{name_of(each)}" for each in definitions().values()):
        if plane.admin.find(path) is not None:
            plane.admin.request("DELETE", path)
            wait_until(f"{path} to be gone", lambda p=path: plane.admin.find(p) is None, 120)
    for path in (each.rpartition("/")[0] for each in definitions()):
        wait_until(f"{path} to be gone", lambda p=path: not plane.admin.answers(p), 120)


@pytest.fixture
def no_jobs(plane: ControlPlane) -> Iterator[None]:
    """The jobs of a test go with it: their pods hold the GPUs of all nodes."""
    yield
    for name in map(name_of, plane.admin.items(JOBS)):
        plane.admin.request("DELETE", f"{JOBS}/{name}", WITH_PODS)
        plane.admin.request("DELETE", f"{SERVICES}/{name}")
    wait_until("the jobs to be gone", lambda: not plane.admin.items(JOBS), 120)


@pytest.mark.usefixtures("no_kinds", "no_jobs")
def test_it_runs_to_its_end_and_its_name_is_taken_then(
    plane: ControlPlane,
    railyard: Call,
) -> None:
    done = _job(railyard, "train-a")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "train-a: created in namespace default",
        "default/train-a-0 of 4 parts",
        "passed: the job ended well; nothing judges its log",
        "take it away: kubectl -n default delete service/train-a job/train-a",
    ]
    pods = plane.admin.items(
        "/api/v1/namespaces/default/pods", {"labelSelector": "job-name=train-a"}
    )
    assert sorted(text_at(pod, "spec", "nodeName") for pod in pods) == [*NODES]
    again = _job(railyard, "train-a")
    assert again.code == 1
    assert "Job train-a is in namespace default already" in again.err


@pytest.mark.usefixtures("no_kinds")
def test_a_node_that_is_closed_and_an_operator_that_lacks_are_refused_at_once(
    plane: ControlPlane,
    railyard: Call,
) -> None:
    path = "/api/v1/nodes/node04"
    plane.admin.merge(path, {"spec": {"unschedulable": True}})
    try:
        done = railyard("job", "nccl", SITE, "--nodes", "node03,node04", "--run")
    finally:
        plane.admin.merge(path, {"spec": {"unschedulable": None}})
    assert done.code == 1
    assert "node node04 is cordoned" in done.err
    assert "the cluster does not serve MPIJob (kubeflow.org/v2beta1)" in done.err


@pytest.mark.usefixtures("no_kinds", "no_jobs")
def test_an_image_that_is_not_there_and_gpus_that_others_have_are_told(railyard: Call) -> None:
    image = "lab.railyard.dev/absent:1"
    done = _job(railyard, "train-b", "--image", image, "--start-deadline-s", "5")
    assert done.code == 4
    words = f'failed to resolve reference "{image}": {image}: not found'
    assert words in done.err
    assert "ImagePullBackOff: Back-off pulling image" in done.out
    assert "  next   kubectl -n default describe pod train-b-0-" in done.out
    done = _job(railyard, "train-c", "--start-deadline-s", "3")  # train-b holds all GPUs
    assert done.code == 4
    assert "2 Insufficient nvidia.com/gpu" in done.err


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("case", CASES)
def test_every_manifest_is_valid(case: str, plane: ControlPlane) -> None:
    """A field that the definition does not have is refused (`fieldValidation: Strict`)."""
    asked, site = CASES[case]
    for body in job_of(asked, site).objects:
        plane.admin.request("POST", collection_of(body), cast("Any", body), query=STRICT)


PODS = "/api/v1/namespaces/{}/pods"
DRY: Any = {"dryRun": "All"}


def completed(plane: ControlPlane, body: Any, namespace: str = "default") -> Any:  # noqa: ANN401 - a pod
    """The pod as the API server would store it."""
    body = {**body, "metadata": {**body["metadata"], "namespace": namespace}}
    answer: Any = plane.admin.request("POST", PODS.format(namespace), body, query=DRY)
    return answer["spec"]


@pytest.fixture(scope="module")
def admitting(plane: ControlPlane) -> None:
    """A cluster with the ConfigMaps and the policy of a cloud's site, as an update makes them."""
    for manifest in plan_own_pods(own_pods.site(), 0):
        name = manifest.api_version, manifest.kind
        plane.admin.request("POST", COLLECTIONS[name], cast("Any", manifest.body))

    def acts() -> bool:
        return "envFrom" in completed(plane, own_pods.pod(own_pods.container()))["containers"][0]

    wait_until("the policy to act", acts, 120)


@pytest.mark.usefixtures("admitting")
def test_a_users_pod_gets_environment_and_topology_where_it_asks_for_rails(
    plane: ControlPlane,
) -> None:
    found = completed(plane, own_pods.pod(own_pods.container(), own_pods.container("side", hcas=0)))
    ours, side = found["containers"]
    assert ours["envFrom"] == [own_pods.OURS]
    assert ours["volumeMounts"] == [own_pods.MOUNT]
    assert found["volumes"] == [own_pods.VOLUME]
    assert side.keys().isdisjoint({"envFrom", "volumeMounts"})
    path = "/api/v1/namespaces/default/configmaps/railyard-rdma"
    stored = pairs_at(plane.admin.find(path), "data")
    assert (stored["NCCL_SOCKET_IFNAME"], stored["NCCL_TOPO_FILE"]) == ("eth0", own_pods.FOLDER)


@pytest.mark.usefixtures("admitting")
def test_what_a_users_pod_says_itself_stays_and_counts_more(plane: ControlPlane) -> None:
    theirs = {"secretRef": {"name": "theirs"}}
    data = {"name": "data", "mountPath": "/data"}
    volume: Any = {"name": "data", "emptyDir": {}}
    container = own_pods.container(
        envFrom=[theirs], env=[{"name": "NCCL_ALGO", "value": "TREE"}], volumeMounts=[data]
    )
    found = completed(plane, own_pods.pod(container, volumes=[volume]))
    (mine,) = found["containers"]
    assert mine["envFrom"] == [own_pods.OURS, theirs], "of two sources the later one counts"
    assert mine["env"] == [{"name": "NCCL_ALGO", "value": "TREE"}]
    assert mine["volumeMounts"] == [data, own_pods.MOUNT]
    assert found["volumes"] == [volume, own_pods.VOLUME]


@pytest.mark.usefixtures("admitting")
def test_pods_beside_the_rails_other_namespaces_and_own_mounts_are_left(
    plane: ControlPlane,
) -> None:
    plain = completed(plane, own_pods.pod(own_pods.container(hcas=0)))
    elsewhere = completed(plane, own_pods.pod(own_pods.container()), "kube-public")
    for found in (plain, elsewhere):
        assert found["containers"][0].keys().isdisjoint({"envFrom", "volumeMounts"})
        assert "volumes" not in found
    mount = {"name": "topo", "mountPath": own_pods.FOLDER}
    volume = {"name": "topo", "hostPath": {"path": "/mine.xml", "type": ""}}
    body = own_pods.pod(
        own_pods.container(envFrom=[own_pods.OURS], volumeMounts=[mount]), volumes=[volume]
    )
    found = completed(plane, body)
    assert found["containers"][0]["envFrom"] == [own_pods.OURS]
    assert found["containers"][0]["volumeMounts"] == [mount]
    assert found["volumes"] == [volume]


@pytest.mark.usefixtures("admitting")
def test_the_policy_takes_our_own_jobs_as_they_are(plane: ControlPlane) -> None:
    body: Any = job_of(
        asked_for("pytorch", "crusoe-k3s-worker-0,crusoe-k3s-worker-1"), "crusoe-k3s"
    ).objects[1]
    template = body["spec"]["template"]["spec"]
    found = completed(plane, own_pods.pod(*template["containers"], volumes=template["volumes"]))
    assert found["containers"][0]["env"][:3] == template["containers"][0]["env"][:3]
    assert found["containers"][0]["volumeMounts"] == template["containers"][0]["volumeMounts"]
    assert found["volumes"] == template["volumes"]
