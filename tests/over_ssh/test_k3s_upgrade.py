"""K3s nodes to the next release over real SSH and a real API, with a kill in the middle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from components.core.errors import DeviceError
from components.disruption.disruption_plan import plan_upgrades
from components.disruption.node import ANNOTATION, open_cluster
from components.disruption.request import NodeUpgrade
from components.disruption.upgrade import (
    UpgradeRun,
    kubelet_arguments_of,
    release_of,
    run_upgrade_node,
)
from components.kubernetes.client import Body, Calls
from components.model.cluster import ClusterSpec, Disruption
from components.model.kubernetes import Alignment
from components.remote.host_session import HostAnswer, Run, run_on_hosts
from components.remote.step import Endpoint, env_name
from components.remote.tools import keep_text
from lab.cache import cache_root
from lab.cluster.artefact import LATER, later_checksum
from lab.cluster.build import ensure_binaries
from lab.keys import client_secrets
from lab.site import MIRROR
from tests.kubernetes.plans import planned
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = [pytest.mark.lab, pytest.mark.cluster]
OLD = "v1.36.3+k3s1"
NEW = "v1.36.4+k3s1"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@dataclass
class Site:
    """The running site, and its upgrade to the next release."""

    lab: HostLab

    def spec(self, version: str, **source: str) -> ClusterSpec:
        plane = self.lab.spec.k3s
        assert plane is not None
        files = plane.source.model_copy(update=source)
        kubernetes = plane.model_copy(update={"version": version, "source": files})
        away = Disruption(reboots="allow", max_unavailable=1, drain_deadline_s=60)
        return self.lab.spec.model_copy(update={"kubernetes": kubernetes, "disruption": away})

    @property
    def newer(self) -> ClusterSpec:
        binary = f"{MIRROR}/{NEW}/k3s"
        return self.spec(NEW, binary=binary, binary_sha256=later_checksum(NEW))

    @property
    def requests(self) -> list[NodeUpgrade]:
        return self.requests_of(self.newer)

    def requests_of(self, spec: ClusterSpec) -> list[NodeUpgrade]:
        groups = plan_upgrades(spec, planned(spec, self.lab.stack))
        return [step.request for group in groups for step in group.steps]

    def request_of(self, spec: ClusterSpec, node: str) -> NodeUpgrade:
        return next(each for each in self.requests_of(spec) if each.name == node)

    @property
    def environ(self) -> dict[str, str]:
        secrets = client_secrets(self.lab.stack)
        return {env_name(name): value for name, value in secrets.items()}

    def calls(self) -> Calls:
        request = self.requests[0]
        run = run_on_hosts(request.endpoints, self.environ)
        found = open_cluster(request.cluster, "", run, self.environ)
        assert found is not None
        return found

    def get(self, path: str) -> Body:
        answer = self.calls().call("GET", path)
        assert answer.status == 200, answer.text
        return answer.body

    def releases(self) -> dict[str, str]:
        nodes = self.get("/api/v1/nodes")["items"]
        return {node["metadata"]["name"]: release_of(node) for node in nodes}

    def upgrade(self, request: NodeUpgrade) -> dict[str, object]:
        """As the step of an update does it."""
        for text in request.texts:
            keep_text(text)
        return json.loads(run_upgrade_node(request.render(), self.environ))

    def killed(self, request: NodeUpgrade) -> None:
        """A run that ends when it has installed K3s and waits for the node."""
        run = run_on_hosts(request.endpoints, self.environ)

        def look() -> Calls | None:
            return open_cluster(request.cluster, request.name, run, self.environ)

        with pytest.raises(KeyboardInterrupt):
            UpgradeRun(request, _dying(run), look).perform()


def _dying(run: Run) -> Run:
    def ask(endpoint: Endpoint, command: str, stdin: str, deadline_s: float) -> HostAnswer:
        run(endpoint, command, stdin, deadline_s)
        raise KeyboardInterrupt

    return ask


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    cache = cache_root()
    ensure_binaries(cache)
    with running_hosts("k3s-upgrade", tmp_path_factory.mktemp("k3s") / "lab", cache) as running:
        site = Site(running)
        plan = planned(site.spec(OLD), running.stack)
        for step in (*plan.tokens, *plan.agent_tokens, *plan.servers, *plan.agents):
            stdin = f"value-of-{step.secret_stdin}" if step.secret_stdin else step.desired
            answer = running.run(step, step.apply, stdin)
            assert answer.exit_status == 0, answer.stderr
        yield site
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"mgmt01": [], "gpu01": [], "gpu02": []}


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where requests keep what they name by digest."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


def deployment(node: str) -> Body:
    pod = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [{"name": "idle", "image": "registry.k8s.io/pause:3.10"}],
    }
    labels = {"app": "idle"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "idle"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def test_all_nodes_come_to_the_next_release_over_a_kill(site: Site) -> None:
    server, first, second = site.requests
    assert [server.name, first.name, second.name] == ["mgmt01", "gpu01", "gpu02"]
    assert NEW in LATER
    assert site.releases() == {"mgmt01": OLD, "gpu01": OLD, "gpu02": OLD}

    assert "set k3s, service" in str(site.upgrade(server)["changed"])
    assert site.releases()["mgmt01"] == NEW
    assert site.upgrade(server)["changed"] == []

    answer = site.calls().call("POST", DEPLOYMENTS, deployment("gpu01"))
    assert answer.status == 201, answer.text
    _await_pod(site, "gpu01")
    site.killed(first)
    node = site.get("/api/v1/nodes/gpu01")
    assert node["spec"]["unschedulable"] is True
    assert ANNOTATION in node["metadata"]["annotations"]
    # Nothing may leave while gpu01 is out of service.
    with pytest.raises(DeviceError, match="gpu01 is out of service already"):
        site.upgrade(second)
    assert site.releases()["gpu02"] == OLD

    assert "uncordoned" in str(site.upgrade(first)["changed"])
    assert "unschedulable" not in site.get("/api/v1/nodes/gpu01")["spec"]
    assert "set k3s, service" in str(site.upgrade(second)["changed"])
    assert site.releases() == {"mgmt01": NEW, "gpu01": NEW, "gpu02": NEW}
    # The install steps that follow in an update find nothing to do.
    plan = planned(site.newer, site.lab.stack)
    for step in (*plan.servers, *plan.agents):
        done = site.lab.run(step, step.apply, step.desired)
        assert json.loads(done.stdout)["changed"] == [], done.stderr


def test_another_alignment_of_a_worker_starts_its_kubelet_with_a_new_state(site: Site) -> None:
    """The lab's kubelet refuses the state of another policy, as the real one does."""
    release = site.releases()["gpu02"]
    spec = site.newer if release == NEW else site.spec(OLD)
    own = Alignment(reserved_cpus="0-1", job_cpus=8, job_memory_gib=64)
    assert spec.k3s is not None
    aligned = spec.model_copy(update={"kubernetes": spec.k3s.model_copy(update={"alignment": own})})
    there, back = (site.request_of(each, "gpu02") for each in (aligned, spec))
    assert "set config.yaml, kubelet, service" in str(site.upgrade(there)["changed"])
    node = site.get("/api/v1/nodes/gpu02")
    assert "cpu-manager-policy=static" in kubelet_arguments_of(node)
    assert "unschedulable" not in node["spec"]
    assert site.upgrade(there)["changed"] == []
    done = site.upgrade(replace(back, leaves=there.kubelet))
    assert "set config.yaml, kubelet, service" in str(done["changed"])
    assert kubelet_arguments_of(site.get("/api/v1/nodes/gpu02")) == ()
    assert site.releases()["gpu02"] == release


def _await_pod(site: Site, node: str) -> None:
    request = site.requests[0]
    waits = UpgradeRun(request, run_on_hosts((), {}), site.calls)
    ends_at_s = waits.now() + 30
    while waits.now() < ends_at_s:
        pods = site.get(PODS)["items"]
        if any(pod["spec"].get("nodeName") == node for pod in pods):
            return
        waits.pause(0.2)
    pytest.fail(f"no pod came to {node}")
