"""The product's own manifests on a K3s site: shared cards, whole HCAs, and GPUs by the plugin."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from components.acceptance.acceptance_plan import Policy, plan_acceptance
from components.acceptance.collect.cluster_jobs import KubernetesApi, run_probe
from components.acceptance.collect.probe_runs import collect_evidence
from components.acceptance.collect.turn import Turn
from components.acceptance.handover import AcceptRequest
from components.acceptance.judge.site import judge_evidence
from components.acceptance.probes.probe_job import PairTest, perftest_job
from components.checks.site import load_checked_site
from components.jobs.templates import number_objects
from components.kubernetes.kubernetes_plan import plan_kubernetes
from components.kubernetes.manifest import Body, Manifest
from components.model.cluster import ClusterSpec
from components.model.operators import Operators
from components.model.worker_kinds import RailPair
from components.operators.operators_plan import plan_operators
from components.pod_network.attachment import expected_allocatable
from components.pod_network.pod_network_plan import plan_pod_network
from lab.cluster.build import ensure_binaries
from lab.cluster.document import Doc, as_doc, at, docs_at, pairs_at, text_at
from lab.cluster.pod_view import Pod
from lab.cluster.process import wait_until
from lab.cluster.tenants import tenant_pod
from lab.physics.request import parse_request
from tests.golden.site import EXAMPLES, changed_spec, load_example
from tests.lab_cluster.conftest import PODS, TOKEN, FakeLab, Site
from tests.lab_cluster.nodes import make_hca_node, make_shared_node
from tests.lab_physics.examples import Played

pytestmark = pytest.mark.cluster
RUNTIME = "default-runtime: nvidia\n"


class ModeSite(Site):
    """A site of its own: the objects of the others would be in the way."""

    @property
    def block(self) -> str:
        return f"127.246.{os.getpid() // 250 % 250 + 1}"

    def patch_labels(self, manifest: Manifest) -> None:
        labels = at(as_doc(manifest.body), "metadata", "labels")
        self.api.merge(f"/api/v1/nodes/{manifest.name}", {"metadata": {"labels": labels}})

    def allocatable(self, node: str) -> dict[str, str]:
        return pairs_at(self.api.find(f"/api/v1/nodes/{node}"), "status", "allocatable")

    def pods(self) -> dict[str, Pod]:
        items = self.api.items(PODS)
        return {text_at(item, "metadata", "labels", "job-name"): Pod(item) for item in items}


@pytest.fixture(scope="module")
def modes(tmp_path_factory: pytest.TempPathFactory, fake_lab: FakeLab) -> Iterator[ModeSite]:
    """Two nodes with shared cards, one with another card, one with HCAs."""
    ensure_binaries()
    site = ModeSite(tmp_path_factory.mktemp("modes"), fake_lab.socket_path)
    head = f"token: {TOKEN}\nnode-ip: {site.address(10)}\ncluster-init: true\n"
    site.configure("mgmt01", f"{head}disable: [traefik]\n")
    try:
        site.start("mgmt01", "server")
        site.wait_log("mgmt01", "up and running")
        roots = {
            name: site.configure(name, site.agent_config(number) + RUNTIME)
            for number, name in ((11, "node03"), (12, "node04"), (13, "odd"), (14, "worker-0"))
        }
        make_shared_node(roots["node03"])
        make_shared_node(roots["node04"])
        make_shared_node(roots["odd"], "1017")
        make_hca_node(roots["worker-0"], count=8, ethernet=1)
        for name in roots:
            site.start(name, "agent")
            site.wait_log(name, "up and running")
        yield site
    finally:
        site.end()


def shared_spec() -> ClusterSpec:
    return load_example("shared-rdma")


def offers(site: ModeSite, node: str, wanted: dict[str, int]) -> bool:
    texts = {resource: str(count) for resource, count in wanted.items()}
    return texts.items() <= site.allocatable(node).items()


@pytest.fixture(scope="module")
def shared(modes: ModeSite) -> ModeSite:
    """Shared cards and GPUs are published, as the example of NVIDIA's notes has them."""
    modes.install_network(plan_pod_network(shared_spec()).manifests)
    operators = plan_operators(shared_spec())
    for patch in operators.labels:
        modes.patch_labels(patch)
    modes.install(operators.charts[0])
    return modes


def test_shared_cards_become_resources_where_a_card_matches(shared: ModeSite) -> None:
    for node, wanted in expected_allocatable(shared_spec()).items():
        wait_until(f"the resources of {node}", lambda n=node, w=wanted: offers(shared, n, w), 120)
    cards = {"rdma/hca", "rdma/hca_shared_devices_b"}
    assert set(expected_allocatable(shared_spec())["node03"]) == {*cards, "nvidia.com/gpu"}
    assert not cards & shared.allocatable("odd").keys()  # GPUs it has once the plugin came below


def with_own_memlock(objects: list[Body]) -> list[Body]:
    """The probe demands `unlimited`; a test machine that cannot raise its limit has another."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = "unlimited" if soft == resource.RLIM_INFINITY else str(soft // 1024)
    text = json.dumps(objects).replace("= unlimited ]", f"= {limit} ]")
    return [*json.loads(text)]


def test_the_products_perftest_runs_on_macvlan(shared: ModeSite, fake_lab: FakeLab) -> None:
    spec = shared_spec()
    case = spec.acceptance.perftest[0]
    pair = RailPair(spec.workers[0], spec.workers[1], 100)
    job = perftest_job(spec, pair, PairTest(case.name, spec.rails[0].name, (case,)))
    server, client = with_own_memlock(number_objects(job.objects, 1))
    config = shared.root("mgmt01") / "var/lib/rancher/k3s/server/admin.kubeconfig"
    api = KubernetesApi(config.read_text())
    ran = run_probe(api, [server, client], client, deadline_s=60)
    assert (ran.succeeded, ran.reason) == (True, "")
    server, client = docs_at(fake_lab.asked[-1], "pods")
    (there,), (here,) = docs_at(server, "networks"), docs_at(client, "networks")
    assert (text_at(there, "kind"), text_at(here, "kind")) == ("pf", "pf")
    assert {text_at(there, "ip"), text_at(here, "ip")} == {"10.106.156.1", "10.106.156.2"}
    command = client["command"]
    assert isinstance(command, list)
    assert command[:5] == ["ib_read_bw", "-d", "mlx5_2", "-x", "5"]
    assert command[-1] == text_at(there, "ip")


def test_nodes_without_a_login_are_proven_by_the_api_alone(
    shared: ModeSite, fake_lab: FakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No way to them is in the plan. The switch, which has one, is not part of this fixture."""
    spec = load_checked_site(EXAMPLES / "shared-rdma/without-ssh.yaml").spec_or_raise()

    def healthy(request: Doc) -> Doc:
        result = Played(spec).run(parse_request(request))
        return {"ok": True, "log": result.log, "exit_code": result.exit_code}

    monkeypatch.setattr(fake_lab, "physics", healthy)
    for patch in plan_operators(spec).labels:
        if patch.kind == "NodePatch":
            shared.patch_labels(patch)
    shared.install(plan_operators(spec).charts[0])
    for name, wanted in expected_allocatable(spec).items():
        wait_until(f"resources of {name}", lambda n=name, w=wanted: offers(shared, n, w), 120)
    plan = plan_acceptance(spec, plan_kubernetes(spec, "dev"))
    assert {each.device for each in plan.endpoints} == {"leaf-01"}
    probe = next(each for each in plan.probes if each.probe.kind == "perftest")
    assert probe.job is not None
    job = replace(probe.job, objects=tuple(with_own_memlock([*probe.job.objects])))
    alone = replace(plan, sources=(), images=(), probes=(replace(probe, job=job),))
    config = shared.root("mgmt01") / "var/lib/rancher/k3s/server/admin.kubeconfig"
    request = AcceptRequest("0123456789abcdef", "dev", "lab", alone)
    seen = collect_evidence(request, 3, {"kubeconfig": config.read_text()}, tmp_path)
    (item,) = seen.probes
    assert item.outcome == "completed"
    assert [hop.status for hop in item.hops] == [
        "no_login",
        "not_observed",
        "not_observed",
        "no_login",
    ]
    assert seen.memlock.keys() == {"node03", "node04"}
    assert not [each for each in seen.memlock.values() if each.startswith("no answer")]
    offered = {"nvidia.com/gpu": 8, "rdma/hca": 500, "rdma/hca_shared_devices_b": 500}
    assert seen.allocatable == {"node03": offered, "node04": offered}
    report = judge_evidence(seen)
    assert {each.subject for each in report.findings if each.check == "proof"} == {
        "node03",
        "node04",
    }
    (way,) = [each for each in report.findings if each.check == "traffic class"]
    assert (way.verdict, way.detail) == ("error", "leaf-01 1/1 not observed: no counters")


def test_pods_of_others_make_a_collective_busy_and_stay(shared: ModeSite) -> None:
    """The real scheduler places them, and Railyard's own question is asked of the real API."""
    spec = shared_spec()
    for name in ("node03", "node04"):
        wait_until("GPUs", lambda n=name: offers(shared, n, {"nvidia.com/gpu": 8}), 120)
    config = shared.root("mgmt01") / "var/lib/rancher/k3s/server/admin.kubeconfig"
    api = KubernetesApi(config.read_text())
    probe = next(p for p in plan_acceptance(spec).probes if p.probe.name == "nccl-all-reduce")
    assert probe.job is not None
    objects = number_objects(probe.job.objects, 1)

    def why() -> str:
        return Turn(Policy(), api).why_skipped(probe, objects)

    def phase(name: str) -> str:
        return shared.phase(f"{PODS}/{name}")

    assert why() == ""
    shared.apply([tenant_pod("train", "node03", {"nvidia.com/gpu": 6})])
    wait_until("the user's pod", lambda: phase("train") == "Running", 120)
    assert why() == "busy: pod default/train uses 6 of 8 GPUs of node03"
    shared.apply([tenant_pod("more", "node03", {"nvidia.com/gpu": 3})])
    wait_until("the scheduler's refusal", lambda: phase("more") == "Pending", 120)
    assert why().startswith("busy: pod default/train uses 6"), "a pod without a node holds nothing"
    assert phase("train") == "Running", "nothing of a user is evicted"
    shared.delete(f"{PODS}/train", f"{PODS}/more")
    wait_until("free GPUs", lambda: why() == "", 120)
    shared.api.merge("/api/v1/nodes/node04", {"spec": {"unschedulable": True}})
    assert why().startswith("cordoned: node node04 refuses pods")
    shared.api.merge("/api/v1/nodes/node04", {"spec": {"unschedulable": None}})


def test_a_pod_without_a_matching_card_stays_pending(modes: ModeSite) -> None:
    container: Body = {
        "name": "c",
        "image": "i",
        "resources": {"limits": {"rdma/hca_shared_devices_b": 1}},
    }
    pod: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "waits", "namespace": "default"},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": "odd"}, "containers": [container]},
    }
    modes.apply([pod])

    def told() -> bool:
        document = modes.api.find(f"{PODS}/waits")
        messages = [text_at(c, "message") for c in docs_at(document, "status", "conditions")]
        return any("Insufficient rdma/hca_shared_devices_b" in text for text in messages)

    wait_until("the scheduler's refusal", told, 120)
    modes.delete(f"{PODS}/waits")


def test_storage_is_bound_as_the_example_wants_it(modes: ModeSite) -> None:
    sample = shared_spec().jobs.deepspeed
    assert sample is not None
    volume: Body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "data-pv"},
        "spec": {
            "storageClassName": "manual",
            "capacity": {"storage": f"{sample.capacity_gib}Gi"},
            "accessModes": [sample.access_mode],
            "nfs": {"server": str(sample.nfs_server), "path": sample.path},
        },
    }
    claim: Body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "storageClassName": "manual",
            "accessModes": [sample.access_mode],
            "resources": {"requests": {"storage": f"{sample.request_gib}Gi"}},
        },
    }
    modes.apply([volume, claim])
    path = modes.path_of(as_doc(claim))
    wait_until("the claim to be bound", lambda: modes.phase(path) == "Bound", 120)


def host_device_operators() -> ClusterSpec:
    """The cloud example with the network operator alone: GPUs come from the plugin here."""
    spec = load_example("crusoe-k3s")
    return changed_spec(spec, operators=Operators(network=spec.operators.network))


@pytest.fixture(scope="module")
def hcas(modes: ModeSite) -> ModeSite:
    """The network operator runs, with its policy."""
    plan = plan_operators(host_device_operators())
    assert [chart.release for chart in plan.charts] == ["network-operator"]
    modes.install(plan.charts[0])
    modes.apply([manifest.body for manifest in plan.gates])
    path = "/apis/mellanox.com/v1alpha1/nicclusterpolicies/nic-cluster-policy"
    wait_until(
        "the policy", lambda: text_at(modes.api.find(path), "status", "state") == "ready", 40
    )
    return modes


def test_the_network_operator_publishes_the_hcas(hcas: ModeSite) -> None:
    wait_until("eight HCAs", lambda: offers(hcas, "worker-0", {"nvidia.com/hostdev": 8}), 120)
    assert "nvidia.com/hostdev" not in hcas.allocatable("node03")


def hca_pod(name: str, count: int) -> Body:
    container: Body = {
        "name": "c",
        "image": "i",
        "resources": {"limits": {"nvidia.com/hostdev": count}},
    }
    metadata: Body = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {
        "containers": [container]}}  # fmt: skip


def test_hcas_are_given_out_by_count(hcas: ModeSite) -> None:
    hcas.apply([hca_pod("first", 5), hca_pod("second", 3)])

    def find(name: str) -> Pod:
        document: Doc = hcas.api.find(f"{PODS}/{name}") or {}
        return Pod(document)

    wait_until("devices", lambda: all(find(n).allocated() for n in ("first", "second")), 120)
    held = find("first").devices_in_use() | find("second").devices_in_use()
    assert len(held) == 8
    hcas.apply([hca_pod("third", 1)])

    def refused() -> bool:
        conditions = docs_at(find("third").document, "status", "conditions")
        return any("Insufficient nvidia.com/hostdev" in text_at(c, "message") for c in conditions)

    wait_until("the scheduler's refusal", refused, 120)
