"""What others have in a cluster, and what we may do there, against a real API server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from pydantic import JsonValue
from typer.testing import CliRunner

from components.checks.site import load_checked_site
from components.cli.group import app
from components.core.problem import Finding
from components.drift.applied import Applied
from components.kubernetes.client import KubernetesCalls
from components.kubernetes.live.look import Asked, find_not_ready
from components.kubernetes.manifest import Manifest, load_vendored
from components.model.cluster import ClusterSpec
from components.plan.make import ClusterPlan, make_plan
from components.preflight.cluster import look_at_cluster
from components.update.cluster import judge_existing
from lab.cluster.build import ensure_binaries
from lab.cluster.document import name_of
from lab.cluster.fake_nodes import NodeFacts, register_node
from lab.cluster.plane import ControlPlane
from lab.cluster.process import wait_until
from lab.cluster.testing import node_is_ready, running_plane
from tests.golden.site import EXAMPLES
from tests.preflight.played import PLAYED

pytestmark = pytest.mark.cluster
OFFERED: dict[str, JsonValue] = {
    "nvidia.com/gpu": "8",
    "rdma/hca_shared_devices_b": "500",
    "rdma/hca": "500",
}
HERE = PLAYED["tests/update/test_parts_running.py"]
NODES = ("node03", "node04", "node03.dc1.example.com", "node04.dc1.example.com")
ACCOUNT = "system:serviceaccount:kube-system:railyard"
DAEMON_SET = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {name}, namespace: kube-system}}
spec:
  selector: {{matchLabels: {{name: {name}}}}}
  template:
    metadata: {{labels: {{name: {name}}}}}
    spec:
      tolerations: [{{operator: Exists}}]
      containers: [{{name: main, image: "{image}"}}]
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: mpi-operator, namespace: kube-system}
spec:
  selector: {matchLabels: {app: mpi}}
  template:
    metadata: {labels: {app: mpi}}
    spec: {containers: [{name: main, image: "mpioperator/mpi-operator:0.7.0"}]}
"""
MULTUS = "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.2.1-thick"
PLUGIN = "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3"


class Cluster:
    """A control plane, and the files that go to it."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane, self.folder = plane, folder

    def kubectl(self, *words: str, text: str = "") -> str:
        argv = [str(ensure_binaries()["kubectl"]), f"--kubeconfig={self.plane.kubeconfig}", *words]
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, manifests: list[Manifest], *words: str) -> None:
        items = [each.body for each in manifests]
        text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
        self.kubectl("apply", "--server-side", "-f", "-", *words, text=text)

    def remove(self, *bodies: object) -> None:
        """Take all of it away again: no test counts on another one before it."""
        text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [*bodies]})
        self.kubectl("delete", "--ignore-not-found", "-f", "-", text=text)

    def kubeconfig(self, token: str) -> str:
        document = yaml.safe_load(self.plane.kubeconfig.read_text())
        document["users"][0]["user"] = {"token": token}
        return yaml.safe_dump(document)

    def pods(self) -> str:
        return self.kubectl("get", "pods", "-n", "kube-system", "-l", "app=mpi", "-o", "yaml")

    def judge(self, name: str) -> tuple[Finding, ...]:
        spec, plan = site(name)
        calls = KubernetesCalls(self.plane.kubeconfig.read_text())
        return judge_existing(spec, plan, Applied(), calls)


def site(name: str) -> tuple[ClusterSpec, ClusterPlan]:
    checked = load_checked_site(EXAMPLES / "shared-rdma" / name)
    spec = checked.spec_or_raise()
    return spec, make_plan(spec, "x", checked.lock)


def causes(found: tuple[Finding, ...]) -> list[str]:
    return [each.rule for each in found]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("theirs")
    with running_plane(folder) as plane:
        for name in NODES:
            register_node(plane.admin, NodeFacts(name, plane.address))
        for name in NODES:
            wait_until(f"{name} to be Ready", lambda n=name: node_is_ready(plane, n), 120)
            wanted = cast("Any", {"status": {"capacity": OFFERED, "allocatable": OFFERED}})
            plane.admin.merge(f"/api/v1/nodes/{name}/status", wanted)
        yield Cluster(plane, folder)


def test_the_printed_rights_are_enough_and_each_is_needed(cluster: Cluster) -> None:
    spec, plan = site("existing.yaml")
    file = str(EXAMPLES / "shared-rdma/existing.yaml")
    printed = CliRunner().invoke(app, ["rbac", file]).output
    cluster.kubectl("apply", "-f", "-", text=printed)
    manifests = [each for each in plan.manifests if not each.kind.endswith("Patch")]
    first = [each for each in manifests if each.kind in {"Namespace", "CustomResourceDefinition"}]
    try:
        cluster.apply(first, f"--as={ACCOUNT}")
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
        cluster.apply([each for each in manifests if each not in first], f"--as={ACCOUNT}")
        token = cluster.kubectl("create", "token", "railyard", "-n", "kube-system").strip()
        secrets = {"kubeconfig": cluster.kubeconfig(token)}
        found = tuple(look_at_cluster(spec, plan, Applied(), secrets))
        cluster.kubectl("delete", "role", "railyard", "-n", "kube-system")
        (lack,) = look_at_cluster(spec, plan, Applied(), secrets)
    finally:
        cluster.remove(*(each.body for each in manifests), *yaml.safe_load_all(printed))
    # kubectl made them, and so they are not this stack's: an update would overwrite them.
    assert causes(found) == [
        "multus-foreign",
        "attachments-there",
        "whereabouts-foreign",
        "cni_plugins-there",
        "shared_device_plugin-foreign",
        "mpi_operator-foreign",
        "object-there",
    ]
    assert {found[0].rule, lack.rule} <= HERE
    assert found[0].actual.startswith("DaemonSet kube-system/multus (multus-cni:v4.3.0")
    assert lack.actual.startswith("may not ")
    assert "daemonsets in kube-system" in lack.actual


def test_parts_of_others_are_missed_until_they_are_there_and_ready(cluster: Cluster) -> None:
    found = cluster.judge("theirs.yaml")
    assert {"multus-absent", "runtime-class"} <= HERE & {*causes(found)}
    assert "shared_device_plugin-absent" in causes(found)
    assert "gpu_operator-policy" in causes(found)
    assert "namespace" not in causes(found)
    (absent,) = [each for each in found if each.rule == "runtime-class"]
    assert absent.actual == "no RuntimeClass nvidia; there are none"
    definition = load_vendored("components.pod_network", "multus-crd-v4.3.0.json.gz")[0]
    images = {"kube-multus-ds": MULTUS, "rdma-shared-dp-ds-of-owner": PLUGIN}
    sets = [
        yaml.safe_load(DAEMON_SET.format(name=name, image=image)) for name, image in images.items()
    ]
    try:
        cluster.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump(definition))
        cluster.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(sets))
        for name in images:
            wait = "--timeout=50s"
            cluster.kubectl("rollout", "status", f"ds/{name}", "-n", "kube-system", wait)
        found = cluster.judge("theirs.yaml")
        refused = cluster.judge("existing.yaml")
    finally:
        cluster.remove(definition, *sets)
    assert not {"multus-absent", "multus-definition", "multus-not-ready"} & {*causes(found)}
    assert not {each for each in causes(found) if each.startswith("shared_device_plugin")}
    (multus,) = [each for each in refused if each.rule == "multus-foreign"]
    assert multus.actual == "DaemonSet kube-system/kube-multus-ds (multus-cni:v4.2.1-thick)"


def test_a_part_of_others_that_is_not_ready_says_why(cluster: Cluster) -> None:
    """No node has that label: as a selector of the owner's that fits no node any more."""
    pod = {"nodeSelector": {"kubernetes.io/os": "plan9"}}
    text = yaml.safe_load(DEPLOYMENT)
    text["spec"]["template"]["spec"] |= pod
    calls = KubernetesCalls(cluster.plane.kubeconfig.read_text())
    cluster.kubectl("apply", "-f", "-", text=yaml.safe_dump(text))
    try:
        wait_until("the scheduler's answer", lambda: "Unschedulable" in cluster.pods(), 120)
        judged = cluster.judge("theirs.yaml")
        (same,) = find_not_ready(calls, Asked(objects=(text,)))
    finally:
        cluster.remove(text)
    (found,) = [each for each in judged if each.rule == "mpi_operator-not-ready"]
    assert found.rule in HERE
    assert found.actual.startswith(
        "Deployment kube-system/mpi-operator: 0 of 1 pods are ready (pod"
    )
    assert "Unschedulable: 0/5 nodes are available" in found.actual
    assert str(same).startswith("Deployment kube-system/mpi-operator: 0 of 1 pods are ready\n  pod")


def test_a_policy_that_forbids_our_pods_is_named_by_a_dry_run(cluster: Cluster) -> None:
    label = "pod-security.kubernetes.io/enforce"
    assert "pod-policy" not in causes(cluster.judge("theirs.yaml"))
    cluster.kubectl("label", "namespace", "default", f"{label}=baseline")
    try:
        judged = cluster.judge("theirs.yaml")
    finally:
        cluster.kubectl("label", "namespace", "default", f"{label}-")
    (found,) = [each for each in judged if each.rule == "pod-policy"]
    assert found.rule in HERE
    assert found.what == "a policy forbids pods of this site in default."
    assert 'violates PodSecurity "baseline:latest"' in found.actual
    assert "IPC_LOCK" in found.actual
    pods = cluster.plane.admin.items("/api/v1/namespaces/default/pods")
    assert not [each for each in map(name_of, pods) if each.startswith("railyard-look")]


def test_settings_of_others_that_break_a_pod_network_are_seen(cluster: Cluster) -> None:
    """A mesh on the namespace of jobs, and a Cilium that wants no other network beside it."""
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cilium-config", "namespace": "kube-system"},
        "data": {"cni-exclusive": "true"},
    }
    before = causes(cluster.judge("existing.yaml"))
    cluster.kubectl("apply", "-f", "-", text=yaml.safe_dump(settings))
    cluster.kubectl("label", "namespace", "default", "kuma.io/sidecar-injection=enabled")
    try:
        found = causes(cluster.judge("existing.yaml"))
        assert set(found) - set(before) == {"cilium-exclusive", "service-mesh"} <= HERE
    finally:
        cluster.kubectl("label", "namespace", "default", "kuma.io/sidecar-injection-")
        cluster.remove(settings)
