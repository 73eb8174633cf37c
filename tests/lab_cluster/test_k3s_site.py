from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from components.core.errors import DeviceError
from components.jobs.job_plan import MPI_OPERATOR_FILE
from components.kubernetes.manifest import load_vendored
from lab.cluster.api import Api
from lab.cluster.build import ensure_binaries
from lab.cluster.document import Doc, docs_at, name_of, number_at, pairs_at, text_at
from lab.cluster.k3s_token import hash_ca
from lab.cluster.pki import KeyPair
from lab.cluster.pod_view import Pod
from lab.cluster.process import wait_until
from lab.physics.request import parse_request
from tests.cli import conftest as cli
from tests.cli.conftest import Call
from tests.golden.site import EXAMPLES
from tests.lab_cluster.conftest import PODS, FakeLab, Site
from tests.lab_physics.examples import Played, example

NO_FOLDER = "Missing privilege separation directory: /run/sshd\n"
pytestmark = pytest.mark.cluster
railyard = cli.railyard
HERE = Path(__file__).parent


def allocatable(site: Site, node: str) -> dict[str, str]:
    return pairs_at(site.api.find(f"/api/v1/nodes/{node}"), "status", "allocatable")


def ready(site: Site, node: str) -> str:
    document = site.api.find(f"/api/v1/nodes/{node}")
    for condition in docs_at(document, "status", "conditions"):
        if text_at(condition, "type") == "Ready":
            return text_at(condition, "status")
    return ""


def pods(site: Site) -> list[Pod]:
    return [Pod(item) for item in site.api.items("/api/v1/namespaces/default/pods")]


@pytest.fixture(scope="module")
def pod_network(site: Site) -> None:
    """Multus' definition, whereabouts', and two rails."""
    documents = ensure_binaries()["multus-daemonset.yml"].read_text().split("\n---\n")
    crd = next(text for text in documents if "CustomResourceDefinition" in text)
    (site.folder / "nad.yaml").write_text(crd)
    site.kubectl("apply", "-f", str(site.folder / "nad.yaml"))
    name = "crd/network-attachment-definitions.k8s.cni.cncf.io"
    site.kubectl("wait", "--for=condition=Established", name, "--timeout=20s")
    site.apply(load_vendored("components.pod_network", "whereabouts-crds-v0.9.4.json.gz"))
    site.kubectl("apply", "-f", str(HERE / "rails.yaml"))


def test_nodes_join_by_token_and_report_ready(site: Site) -> None:
    wait_until("both nodes", lambda: ready(site, "gpu01") == ready(site, "gpu02") == "True", 120)
    labels = pairs_at(site.api.find("/api/v1/nodes/mgmt01"), "metadata", "labels")
    assert labels["node-role.kubernetes.io/control-plane"] == "true"
    assert "node-role.kubernetes.io/control-plane" not in pairs_at(
        site.api.find("/api/v1/nodes/gpu01"), "metadata", "labels"
    )


def test_kubeconfig_is_as_k3s_writes_it(site: Site) -> None:
    file = site.root("mgmt01") / "etc/rancher/k3s/k3s.yaml"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "https://127.0.0.1:6443" in file.read_text()


def test_a_token_of_another_cluster_is_refused(site: Site) -> None:
    wrong = hash_ca(b"another cluster")
    site.configure("gpu09", site.agent_config(19, f"K10{wrong}::node:site-secret"))
    site.start("gpu09", "agent")
    site.wait_log("gpu09", "token CA hash does not match the Cluster CA certificate hash")
    assert site.api.find("/api/v1/nodes/gpu09") is None
    site.stop("gpu09")


def test_a_wrong_password_is_refused(site: Site) -> None:
    site.configure("gpu08", site.agent_config(18, "not-the-token"))
    site.start("gpu08", "agent")
    site.wait_log("gpu08", "401 Unauthorized")
    assert site.api.find("/api/v1/nodes/gpu08") is None
    site.stop("gpu08")


def test_the_same_name_from_another_machine_is_refused(site: Site) -> None:
    root = site.configure("imposter", site.agent_config(17))
    (root / "etc/hostname").write_text("gpu01\n")
    site.start("imposter", "agent")
    site.wait_log("imposter", "Node password rejected")
    site.stop("imposter")


def test_an_unknown_key_of_the_configuration_is_refused(site: Site) -> None:
    site.configure("typo", f"{site.agent_config(16)}node-lable: a=b\n")
    assert site.start("typo", "agent").wait(60) == 1
    assert "flag provided but not defined: -node-lable" in site.log("typo")


def test_the_log_endpoint_refuses_who_is_not_the_api_server(site: Site) -> None:
    node = site.root("gpu01") / "var/lib/rancher/k3s/agent"
    own = KeyPair(node / "serving-kubelet.crt", node / "serving-kubelet.key")
    kubelet = Api(f"https://{site.address(11)}:10250", node / "server-ca.crt", own)
    assert kubelet.raw("GET", "/containerLogs/default/x/y", None, "text/plain")[0] == 403
    anonymous = Api(kubelet.server, kubelet.ca)
    with pytest.raises(DeviceError, match="no answer"):
        anonymous.raw("GET", "/containerLogs/default/x/y", None, "text/plain")


@pytest.fixture(scope="module")
def operators(site: Site, pod_network: None) -> None:
    """The GPU operator, and ours for MPI: its real controller reads jobs by the small schema."""
    del pod_network
    binaries = ensure_binaries()
    site.apply(load_vendored("components.jobs", MPI_OPERATOR_FILE))
    chart = HERE.parents[1] / "lab/cluster/charts/gpu-operator"
    config = site.root("mgmt01") / "var/lib/rancher/k3s/server/admin.kubeconfig"
    helm = [str(binaries["helm"]), "upgrade", "--install", "gpu-operator", str(chart)]
    helm += ["-n", "gpu-operator", "--create-namespace", "--set", "driver.enabled=false"]
    homes = {f"HELM_{kind}_HOME": str(site.folder / "helm") for kind in ("CACHE", "CONFIG", "DATA")}
    own = {"HOME": str(site.folder), "KUBECONFIG": str(config)}
    subprocess.run(helm, check=True, timeout=60, env={**homes, **own})


def wait_for_offers(site: Site) -> None:
    """Until both nodes offer VFs and GPUs."""
    wanted = {"intel.com/sriov_111": "4", "intel.com/sriov_112": "4", "nvidia.com/gpu": "8"}
    for node in ("gpu01", "gpu02"):
        offers = lambda n=node: wanted.items() <= allocatable(site, n).items()  # noqa: E731 - one
        wait_until("VFs and GPUs", offers, 120)
    policy = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
    wait_until(
        "the policy", lambda: text_at(site.api.find(policy), "status", "state") == "ready", 20
    )


@pytest.mark.usefixtures("operators")
def test_a_real_mpijob_runs_on_the_attached_vfs(site: Site, fake_lab: FakeLab) -> None:
    wait_for_offers(site)
    site.kubectl("apply", "-f", str(HERE / "mpijob.yaml"))
    site.kubectl("wait", "--for=condition=Succeeded", "mpijob/allreduce", "--timeout=60s")
    assert site.kubectl("logs", "job/allreduce-launcher") == "played\n"
    request = fake_lab.asked[-1]
    assert request["kind"] == "nccl"
    networks = [docs_at(pod, "networks") for pod in docs_at(request, "pods")]
    assert [[n["vlan"] for n in pod] for pod in networks] == [[111, 112], [111, 112]]
    addresses = {text_at(n, "ip") for pod in networks for n in pod}
    assert len(addresses) == 4
    # Its workers stay, with all GPUs.
    site.kubectl("delete", "mpijob/allreduce", "--wait=true", "--timeout=120s")


@pytest.mark.usefixtures("operators")
def test_a_users_nccl_job_is_followed_to_its_verdict(
    site: Site,
    fake_lab: FakeLab,
    railyard: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RoCE against TCP in one job: the real controller, and what the lab's physics prints."""
    file = users_site(site, tmp_path, monkeypatch)
    monkeypatch.setattr(fake_lab, "physics", healthy)
    words = ("--nodes", "gpu01,gpu02", "--run", "--name", "mine", "--compare", "tcp")
    done = railyard("job", "nccl", file, *words)
    assert done.code == 0, done.out + done.err
    lines = done.out.splitlines()
    assert lines[0] == "mine: created in namespace default"
    assert any("NET/IB/0/GDRDMA" in line for line in lines)
    assert sum(line.startswith("passed: all_reduce_perf, ") for line in lines) == 2
    assert any(" over RDMA, " in line and line.startswith("passed: ") for line in lines)
    assert "  PASSED  ranks: expected 16 ranks on 2 hosts, actual 16 ranks on 2 hosts" in done.out
    assert lines[-1] == "take it away: kubectl -n default delete mpijob/mine"
    site.kubectl("delete", "mpijob/mine", "--wait=true", "--timeout=120s")


def users_site(site: Site, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of a user whose cluster this is, with all that jobs need installed."""
    wait_for_offers(site)
    document = yaml.safe_load((EXAMPLES / "dgx-roce/site.yaml").read_text())
    document["hosts"] = [each for each in document["hosts"] if each["role"] == "worker"]
    document["kubernetes"] = {"plane": "existing", "version": "v1.36.3+k3s1"}
    file = folder / "site.yaml"
    file.write_text(yaml.safe_dump(document))
    config = site.root("mgmt01") / "var/lib/rancher/k3s/server/admin.kubeconfig"
    monkeypatch.setenv("RAILYARD_SECRET_KUBECONFIG", config.read_text())
    return str(file)


@pytest.mark.usefixtures("operators")
def test_resnet_with_horovod_is_judged_and_its_failures_are_named(
    site: Site,
    fake_lab: FakeLab,
    railyard: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = users_site(site, tmp_path, monkeypatch)

    def train(name: str, physics: Callable[[Doc], Doc], image: str, *more: str) -> tuple[int, str]:
        monkeypatch.setattr(fake_lab, "physics", physics)
        words = ("--nodes", "gpu01,gpu02", "--run", "--name", name, "--image", image, *more)
        done = railyard("job", "horovod", file, *words)
        site.kubectl("delete", f"mpijob/{name}", "--wait=true", "--timeout=120s")
        return done.code, done.out + done.err

    code, said = train("resnet", healthy, HOROVOD, "--compare", "tcp")
    assert code == 0, said
    lines = said.splitlines()
    assert "[1,0]<stdout>:Number of GPUs: 16" in lines
    assert sum(line.startswith("passed: horovod, ") for line in lines) == 2
    assert any(" images/s over RDMA, " in line and line.startswith("passed: ") for line in lines)

    code, said = train("half", half_on_tcp, HOROVOD)
    assert code == 1, said
    assert "some hosts use RDMA and some sockets" in said
    code, said = train("bare", healthy, "lab.railyard.dev/no-benchmark:1")
    assert code == 1, said
    assert "tensorflow2_synthetic_benchmark.py': [Errno 2] No such file or directory" in said
    assert "the image lacks the program, or a mount is missing" in said


@pytest.mark.usefixtures("operators")
def test_a_pytorch_job_shows_its_first_nodes_log_and_fails_with_its_ranks(
    site: Site,
    fake_lab: FakeLab,
    railyard: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without Trainer an Indexed Job, whose pods meet at the name of the first one."""
    file = users_site(site, tmp_path, monkeypatch)
    words = ("--nodes", "gpu01,gpu02", "--run", "--image", "registry.example/ddp-tutorial:2.9")

    def train(name: str, physics: Callable[[Doc], Doc]) -> tuple[int, list[str]]:
        monkeypatch.setattr(fake_lab, "physics", physics)
        program = ("--", "/workspace/multinode.py", "1", "1")
        done = railyard("job", "pytorch", file, *words, "--name", name, *program)
        site.kubectl("delete", f"service/{name}", f"job/{name}", "--wait=true", "--timeout=120s")
        return done.code, (done.out + done.err).splitlines()

    code, said = train("ddp", healthy)
    assert code == 0, said
    assert "[GPU0] Epoch 0 | Batchsize: 32 | Steps: 4" in said
    assert not any(line.startswith("[GPU8]") for line in said)
    assert "passed: the job ended well; nothing judges its log" in said
    code, said = train("ddp-half", half_on_tcp)
    assert code == 1, said
    assert any("torch.distributed.DistBackendError" in line for line in said)
    assert any(line.startswith("failed: the job did not end well: ") for line in said)


HOROVOD = "registry.example/horovod:0.28.1"


def half_on_tcp(request: Doc) -> Doc:
    """As `healthy`, but the links of gpu02's cards are down: its ranks are left with TCP."""
    played = Played(example("dgx-roce"))
    for key, nic in played.nics.items():
        played.nics[key] = replace(nic, link_up=nic.host != "gpu02")
    result = played.run(parse_request(request))
    return {"ok": True, "log": result.log, "exit_code": result.exit_code}


def healthy(request: Doc) -> Doc:
    """What the lab daemon answers where all devices are as the example's file wants them."""
    result = Played(example("dgx-roce")).run(parse_request(request))
    return {"ok": True, "log": result.log, "exit_code": result.exit_code}


@pytest.mark.usefixtures("pod_network")
def test_a_lost_vf_lowers_the_allocatable_count(site: Site) -> None:
    key = "intel.com/sriov_112"
    wait_until("four VFs", lambda: allocatable(site, "gpu02").get(key) == "4", 120)
    pf = site.root("gpu02") / "sys/bus/pci/devices/0000:84:00.0"
    links = sorted(pf.glob("virtfn*"))
    for link in links:
        link.unlink()
    wait_until("no VF", lambda: allocatable(site, "gpu02")[key] == "0", 120)
    for number, link in enumerate(links):
        link.symlink_to(f"../0000:84:00.{number + 1}")
    wait_until("four VFs again", lambda: allocatable(site, "gpu02").get(key) == "4", 120)


@pytest.mark.usefixtures("pod_network")
def test_a_missing_attachment_keeps_the_pod_in_container_creating(site: Site) -> None:
    body: Doc = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "lost",
            "namespace": "default",
            "annotations": {"k8s.v1.cni.cncf.io/networks": "nowhere"},
        },
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "gpu01"},
    }
    site.api.request("POST", "/api/v1/namespaces/default/pods", body)

    def told() -> bool:
        events = site.api.items("/api/v1/namespaces/default/events")
        texts = [text_at(e, "message") for e in events if name_of(e).startswith("lost.")]
        return any("cannot find a network-attachment-definition (nowhere)" in t for t in texts)

    wait_until("the event", told, 120)
    pod = next(pod for pod in pods(site) if pod.name == "lost")
    assert pod.phase == "Pending"
    waiting = docs_at(pod.document, "status", "containerStatuses")
    assert text_at(waiting[0], "state", "waiting", "reason") == "ContainerCreating"


@pytest.mark.usefixtures("pod_network")
@pytest.mark.parametrize(
    ("image", "end"),
    [("no-sshd", (128, "StartError", "")), ("no-run-sshd", (255, "Error", NO_FOLDER))],
)
def test_a_worker_whose_sshd_cannot_start_was_never_ready(
    site: Site, image: str, end: tuple[int, str, str]
) -> None:
    """So the MPI operator makes no launcher: exit codes and words are those of real pods."""
    limits: Doc = {"intel.com/sriov_111": 1}
    worker: Doc = {
        "name": "worker",
        "image": f"lab.railyard.dev/{image}:1",
        "command": ["/usr/sbin/sshd", "-De"],
        "resources": {"limits": limits},
    }
    body: Doc = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": image,
            "namespace": "default",
            "labels": {"training.kubeflow.org/job-role": "worker"},
            "annotations": {"k8s.v1.cni.cncf.io/networks": "sriov111"},
        },
        "spec": {"restartPolicy": "Never", "containers": [worker]},
    }
    site.api.request("POST", "/api/v1/namespaces/default/pods", body)
    path = f"/api/v1/namespaces/default/pods/{image}"
    wait_until("its end", lambda: text_at(site.api.find(path), "status", "phase") == "Failed", 120)
    state = docs_at(site.api.find(path), "status", "containerStatuses")[0]
    ended = (
        number_at(state, "state", "terminated", "exitCode"),
        text_at(state, "state", "terminated", "reason"),
        site.kubectl("logs", image),
    )
    assert ended == end


def test_a_command_that_the_lab_does_not_play_fails(site: Site) -> None:
    spec = '{"spec":{"restartPolicy":"Never"}}'
    site.kubectl("run", "odd", "--image=i", "--restart=Never", f"--overrides={spec}", "--command",
                 "--", "stress-ng")  # fmt: skip
    wait_until(
        "its end", lambda: any(p.name == "odd" and p.phase == "Failed" for p in pods(site)), 20
    )
    assert "executable file not found" in site.kubectl("logs", "odd")


def test_a_pod_without_a_job_ends_as_its_gpus_do(site: Site, fake_lab: FakeLab) -> None:
    limits: Doc = {"limits": {"nvidia.com/gpu": 8}}
    look: Doc = {"name": "look", "image": "i", "command": ["nvidia-smi"], "resources": limits}
    spec: Doc = {"nodeName": "gpu01", "restartPolicy": "Never", "containers": [look]}
    site.apply([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "look"}, "spec": spec}])
    wait_until("its end", lambda: site.phase(f"{PODS}/look") == "Succeeded", 120)
    assert site.kubectl("logs", "look") == "played\n"
    assert text_at(fake_lab.asked[-1], "op") == "gpu_call"


def test_a_silent_node_becomes_not_ready_and_comes_back(site: Site) -> None:
    agent = site.processes[1]
    agent.terminate()
    assert agent.wait(5) == 0
    wait_until("gpu01 to be down", lambda: ready(site, "gpu01") == "Unknown", 120)
    site.start("gpu01", "agent")
    wait_until("gpu01 to be back", lambda: ready(site, "gpu01") == "True", 120)


def test_the_server_keeps_its_data_and_credentials_over_a_restart(site: Site) -> None:
    config = site.root("mgmt01") / "etc/rancher/k3s/k3s.yaml"
    before = config.read_text()
    server = site.processes[0]
    server.terminate()
    assert server.wait(5) == 0
    site.start("mgmt01", "server")
    wait_until("the API", lambda: site.api.answers("/api/v1/nodes/gpu02"), 60)
    wait_until("k3s", lambda: site.log("mgmt01").count("up and running") == 2, 60)
    assert config.read_text() == before
