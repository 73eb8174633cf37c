"""A whole look at a cluster in memory: what is read, in how many requests, and what it comes to."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from components.core.errors import DeviceError
from components.core.plain_text import placeholder
from components.drift.device_drift import Unreachable
from components.kubernetes.live.look import (
    Asked,
    ClusterDrift,
    judge_look,
    look_at_cluster,
    read_cluster,
)
from components.kubernetes.live.read import ReleaseRef
from components.kubernetes.manifest import Body
from components.kubernetes.planes.base import ClusterRef, Server
from components.remote.step import Endpoint
from tests.kubernetes.live.played_api import PlayedApi, load, release_secret

CONFIG = load("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: one}}")[0]
PLUGIN = load("""
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: plugin, namespace: kube-system}
spec: {template: {spec: {containers: [{name: c, image: "image:1"}]}}}
""")[0]
CHART = """
# Source: gpu-operator/templates/operator.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: gpu-operator, annotations: {made: 2026-01-01}}
spec: {replicas: 1}
---
# a template that rendered nothing
---
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec: {driver: {enabled: false, version: "580"}}
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterpolicies.nvidia.com}
spec: {group: nvidia.com, names: {kind: ClusterPolicy, plural: clusterpolicies}}
"""
RELEASE = ReleaseRef("gpu-operator", "gpu-operator")
READY = {"type": "Ready", "status": "True"}


def node(name: str, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - keys of the API
    conditions = [spec.pop("ready", READY)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"conditions": conditions},
    }


@pytest.fixture
def api() -> PlayedApi:
    """A cluster as it was applied."""
    played = PlayedApi()
    played.kinds["nvidia.com/v1"] = ("ClusterPolicy",)
    played.put(copy.deepcopy(CONFIG), copy.deepcopy(PLUGIN), node("gpu01"), node("gpu02"))
    deployment, policy = (each for each in load(CHART) if each)
    deployment["metadata"] |= {"namespace": "gpu-operator", "annotations": {"made": "2026-01-01"}}
    played.put(deployment, policy, *load(DEFINITION))
    played.put(release_secret(CHART, policies=DEFINITION))
    return played


ASKED = Asked((CONFIG, PLUGIN), (RELEASE,), ("gpu01", "gpu02"), ("default", "gpu-operator"))
IMAGE = "spec.template.spec.containers[c].image"
OF_RELEASE = " of Helm release gpu-operator"
PLUGIN_PATH = "/apis/apps/v1/namespaces/kube-system/daemonsets/plugin"
POLICY_PATH = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com"
OPERATOR_PATH = "/apis/apps/v1/namespaces/gpu-operator/deployments/gpu-operator"


def judged(api: PlayedApi, asked: Asked = ASKED) -> ClusterDrift:
    return judge_look(read_cluster(api, asked))


def test_a_cluster_as_it_was_applied(api: PlayedApi) -> None:
    drift = judged(api)
    assert (drift.lines, drift.touched, drift.exit_code) == ((), False, 0)
    assert drift.render() == "cluster      no drift\n"
    assert not [each for each in api.asked if not each.startswith("GET ")]


def test_objects_edited_and_deleted_are_named(api: PlayedApi) -> None:
    api.objects[PLUGIN_PATH]["spec"]["template"]["spec"]["containers"][0]["image"] = "other:1"
    del api.objects["/api/v1/namespaces/default/configmaps/a"]
    drift = judged(api)
    assert drift.lines == (
        "ConfigMap default/a is absent, want there",
        f'DaemonSet kube-system/plugin: {IMAGE} is "other:1", want "image:1"',
    )
    assert (drift.touched, drift.exit_code) == (True, 3)


def test_what_is_within_a_release_is_compared_with_its_own_record(api: PlayedApi) -> None:
    api.objects[POLICY_PATH]["spec"]["driver"]["version"] = "470"
    del api.objects[OPERATOR_PATH]
    drift = judged(api)
    assert drift.lines == (
        "Deployment gpu-operator/gpu-operator of Helm release gpu-operator is absent, want there",
        f'ClusterPolicy cluster-policy{OF_RELEASE}: spec.driver.version is "470", want "580"',
    )
    assert drift.touched


def test_a_definition_that_is_gone_takes_its_objects_with_it(api: PlayedApi) -> None:
    del api.objects[CRD_PATH], api.objects[POLICY_PATH], api.kinds["nvidia.com/v1"]
    assert judged(api).lines == (
        f"CustomResourceDefinition clusterpolicies.nvidia.com{OF_RELEASE} is absent, want there",
        "ClusterPolicy cluster-policy of Helm release gpu-operator is absent, want there",
    )


def test_a_release_that_is_gone_or_failed(api: PlayedApi) -> None:
    secret = api.path(release_secret(CHART))
    del api.objects[secret]
    gone = judged(api)
    (line,) = gone.lines
    assert line.startswith("Helm release gpu-operator/gpu-operator is absent, want there: ")
    assert line.endswith("`pulumi up --refresh` installs it again")
    api.put(release_secret(CHART, status="superseded"))
    api.put(release_secret(CHART, version=2, policies=DEFINITION))
    api.put(release_secret("", status="failed", version=10))
    failed = judged(api)
    words = "Helm release gpu-operator/gpu-operator: status is failed, want deployed"
    assert failed.lines == (words,)
    assert failed.undeployed == {"gpu-operator": "failed"}


def test_a_record_that_cannot_be_read_says_how_to_look_at_it(api: PlayedApi) -> None:
    secret = release_secret(CHART)
    secret["data"]["release"] = "bm8="
    api.put(secret)
    with pytest.raises(DeviceError, match="helm status gpu-operator --namespace gpu-operator"):
        judged(api)


def test_nodes_that_take_no_pods(api: PlayedApi) -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    of_cluster = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    api.put(node("gpu01", unschedulable=True, taints=[taint, soft, of_cluster]))
    del api.objects["/api/v1/nodes/gpu02"]
    drift = judged(api)
    assert drift.lines == (
        "node gpu02 is not in the cluster",
        "node gpu01 is cordoned: kubectl uncordon opens it",
        "node gpu01 is tainted team=a:NoSchedule: kubectl taint node gpu01 team=a:NoSchedule-",
    )
    assert (drift.absent_nodes, drift.touched) == (("gpu02",), True)


def test_a_decision_of_another_is_named_and_asks_for_no_proof(api: PlayedApi) -> None:
    api.put(node("gpu01", unschedulable=True))
    quota, policy = load("""
apiVersion: v1
kind: ResourceQuota
metadata: {name: none, namespace: default}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: gpu-operator}
""")
    api.put(quota, policy)
    drift = judged(api)
    assert drift.lines == (
        "node gpu01 is cordoned: kubectl uncordon opens it",
        "ResourceQuota default/none does not belong to the plan, and it may block probes",
        "NetworkPolicy gpu-operator/deny does not belong to the plan, and it may block probes",
    )
    assert (drift.touched, drift.exit_code) == (False, 3)


def test_a_policy_of_ours_is_ours(api: PlayedApi) -> None:
    (policy,) = load("""
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: ours, namespace: default}
""")
    api.put(copy.deepcopy(policy))
    assert judged(api, Asked((policy,), namespaces=("default",))).lines == ()


def test_many_of_a_kind_are_one_list_page_by_page(api: PlayedApi) -> None:
    many: list[Body] = [{**CONFIG, "metadata": {"name": f"c{number}"}} for number in range(7)]
    api.page = 3
    api.put(*map(copy.deepcopy, many[:-1]))
    (line,) = judged(api, Asked(tuple(many))).lines
    assert line == "ConfigMap default/c6 is absent, want there"
    maps = [each for each in api.asked if "configmaps" in each]
    assert maps == [
        "GET /api/v1/namespaces/default/configmaps?limit=500",
        "GET /api/v1/namespaces/default/configmaps?limit=500&continue=3",
        "GET /api/v1/namespaces/default/configmaps?limit=500&continue=6",
    ]


def test_a_refusal_is_no_drift(api: PlayedApi) -> None:
    api.refuses = "daemonsets"
    with pytest.raises(DeviceError, match="403 may not read daemonsets"):
        judged(api)


CLUSTER = ClusterRef("site", kubeconfig_secret="kubeconfig")
KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


def test_an_api_that_is_silent_makes_an_exit_code_of_its_own(api: PlayedApi) -> None:
    api.silent = True
    found = look_at_cluster(CLUSTER, {"kubeconfig": KUBECONFIG}, ASKED, lambda _: api)
    assert isinstance(found, Unreachable)
    drift = ClusterDrift(unreachable=found.reason)
    assert drift.exit_code == 4
    assert drift.render().startswith(
        "cluster      unreachable: the cluster did not answer GET /api"
    )


def test_where_no_server_is_made_there_is_no_cluster_to_read(api: PlayedApi) -> None:
    endpoint = Endpoint(
        "mgmt01", "host", placeholder("mgmt01", "address"), 22, "root", "ssh-ed25519 A"
    )
    made = ClusterRef(
        "site", (Server(endpoint, f"https://{placeholder('mgmt01', 'address')}:6443"),)
    )
    assert look_at_cluster(made.known({}), {}, ASKED, lambda _: api) is None
    (server,) = made.known({"mgmt01": {"address": "192.0.2.1"}}).servers
    assert (server.endpoint.address, server.url) == ("192.0.2.1", "https://192.0.2.1:6443")
    assert api.asked == []
