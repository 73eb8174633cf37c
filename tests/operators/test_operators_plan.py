"""The operators of each example: values, policies and labels, and the order in which they come."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.artefacts.listing import images_of
from components.catalogue.operator_versions import (
    GPU_DEVICE_PLUGIN,
    NETWORK_OPERATOR,
    find_line,
)
from components.core.errors import SpecError
from components.jobs.job_plan import plan_jobs
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane, Toleration
from components.model.operators import ChartSource, NetworkOperator
from components.operators import Operators
from components.operators.operators_plan import OperatorsPlan, node_labels, plan_operators
from components.pod_network.pod_network_plan import plan_pod_network
from components.testing import Graph, record_program
from tests.golden.site import changed_spec, load_example
from tests.graph.test_components import RUN, access


@pytest.fixture
def cloud() -> ClusterSpec:
    return load_example("crusoe-k3s")


@pytest.fixture
def shared() -> ClusterSpec:
    return load_example("shared-rdma")


def values_of(spec: ClusterSpec, release: str) -> Any:  # noqa: ANN401 - Helm values
    return next(c.values for c in plan_operators(spec).charts if c.release == release)


def policy_of(spec: ClusterSpec) -> Any:  # noqa: ANN401 - a Kubernetes object
    return next(m.body for m in plan_operators(spec).gates if m.kind == "NicClusterPolicy")


def with_network(spec: ClusterSpec, **changes: Any) -> ClusterSpec:  # noqa: ANN401 - keys of the model
    network = spec.operators.network
    assert network is not None
    changed = network.model_copy(update=changes)
    return changed_spec(spec, operators=spec.operators.model_copy(update={"network": changed}))


def test_the_cloud_image_keeps_its_drivers(cloud: ClusterSpec) -> None:
    gpu = values_of(cloud, "gpu-operator")
    assert gpu["driver"] == {"enabled": False}
    assert gpu["toolkit"] == {"enabled": False}
    assert "ofedDriver" not in policy_of(cloud)["spec"]


def test_one_node_feature_discovery(cloud: ClusterSpec) -> None:
    assert values_of(cloud, "gpu-operator")["nfd"] == {"enabled": True}
    expected = {"enabled": False, "deployNodeFeatureRules": False}
    assert values_of(cloud, "network-operator")["nfd"] == expected
    alone = changed_spec(cloud, operators=cloud.operators.model_copy(update={"gpu": None}))
    assert "nfd" not in values_of(alone, "network-operator")


def test_the_network_operator_uses_the_folders_of_k3s(cloud: ClusterSpec) -> None:
    assert values_of(cloud, "network-operator")["operator"] == {
        "cniBinDirectory": "/var/lib/rancher/k3s/data/cni",
        "cniNetworkDirectory": "/var/lib/rancher/k3s/agent/etc/cni/net.d",
    }


def test_the_policy_publishes_infiniband_and_waits_for_the_operators_word(
    cloud: ClusterSpec,
) -> None:
    policy = policy_of(cloud)
    plugin = policy["spec"]["sriovDevicePlugin"]
    (resource,) = json.loads(plugin["config"])["resourceList"]
    assert f"{resource['resourcePrefix']}/{resource['resourceName']}" == "nvidia.com/hostdev"
    assert resource["selectors"]["linkTypes"] == ["infiniband"]
    assert plugin["version"] == "network-operator-v" + _network(cloud).chart.version
    notes = policy["metadata"]["annotations"]
    assert notes["pulumi.com/waitFor"] == "jsonpath={.status.state}=ready"
    assert "namespace" not in policy["metadata"]


def _network(spec: ClusterSpec) -> NetworkOperator:
    assert spec.operators.network is not None
    return spec.operators.network


def test_in_a_cluster_of_others_the_network_operator_uses_the_workers_of_the_file_alone(
    cloud: ClusterSpec,
) -> None:
    """AKS has cards of Mellanox in its system pools, and a driver container would take theirs."""
    own, plane = load_example("quantum-ib"), ExistingPlane(plane="existing", version="v1.34.1")
    affinity = policy_of(changed_spec(own, kubernetes=plane))["spec"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu01", "gpu02"]}
    assert terms == [{"matchExpressions": [here]}]
    assert "nodeAffinity" not in policy_of(own)["spec"]
    unnamed = changed_spec(cloud, kubernetes=plane)
    assert "nodeAffinity" not in policy_of(unnamed)["spec"], "no worker has a name yet"


@pytest.mark.parametrize(("reboots", "turns"), [("allow", 2), ("deny", 1)])
def test_a_driver_of_another_tag_gets_onto_the_nodes_if_they_may_be_drained(
    reboots: str, turns: int
) -> None:
    """`OnDelete` replaces no pod, and the policy waits for each (network operator v26.4.1)."""
    tag = "doca3.4.1-26.04-1.1.0.0-1"
    site = with_network(load_example("quantum-ib"), driver="operator", driver_tag=tag)
    asked = site.disruption.model_copy(update={"reboots": reboots})
    policy = policy_of(changed_spec(site, disruption=asked))
    upgrades = policy["spec"]["ofedDriver"].get("upgradePolicy")
    assert policy["metadata"]["annotations"]["pulumi.com/timeoutSeconds"] == str(1800 * turns)
    if reboots == "deny":
        assert upgrades is None
        return
    assert (upgrades["autoUpgrade"], upgrades["maxParallelUpgrades"]) == (True, 1)
    assert (upgrades["drain"]["enable"], upgrades["drain"]["force"]) == (True, False)
    assert upgrades["drain"]["timeoutSeconds"] == asked.drain_deadline_s


def test_the_nic_policy_comes_before_the_wait_for_the_gpu_policy(cloud: ClusterSpec) -> None:
    gates = [(gate.kind, gate.group) for gate in plan_operators(cloud).gates]
    assert gates == [("NicClusterPolicy", 0), ("ClusterPolicyPatch", 1)]


def test_the_driver_container_is_one_that_is_known(cloud: ClusterSpec) -> None:
    known = ChartSource(chart="network-operator", repo="https://x", version="26.4.1")
    driver = policy_of(with_network(cloud, driver="operator", chart=known))["spec"]["ofedDriver"]
    assert (driver["image"], driver["version"]) == ("doca-driver", "doca3.4.1-26.04-1.1.0.0-1")
    unknown = known.model_copy(update={"version": "26.7.1"})
    with pytest.raises(SpecError, match=r"network operator 26\.7\.1 is not known"):
        plan_operators(with_network(cloud, driver="operator", chart=unknown))
    named = with_network(cloud, driver="operator", chart=unknown, driver_tag="doca3.5.0-26.07-1")
    assert policy_of(named)["spec"]["ofedDriver"]["version"] == "doca3.5.0-26.07-1"


def test_labels_are_on_workers_only(shared: ClusterSpec) -> None:
    expected = {"gpu-use-type": "exclusive", "nvidia.com/gpu.present": "true", "rdma": "hca"}
    assert [node_labels(shared, host) for host in shared.hosts] == [{}, expected, expected]
    patches = plan_operators(shared).labels
    assert [(p.kind, p.name) for p in patches] == [("NodePatch", "node03"), ("NodePatch", "node04")]
    assert node_labels(load_example("dgx-roce"), load_example("dgx-roce").workers[0]) == {}


def test_the_device_plugin_alone(shared: ClusterSpec) -> None:
    plan = plan_operators(shared)
    assert [(c.release, c.namespace, c.values) for c in plan.charts] == [
        ("nvidia-device-plugin", "nvidia-device-plugin", {})
    ]
    assert plan.gates == ()


TAINT = Toleration(key="team", value="ml", effect="NoExecute")
OURS = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoExecute"}
GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
CONTROL_PLANE = {**GPU_TAINT, "key": "node-role.kubernetes.io/control-plane"}


def tainted(spec: ClusterSpec) -> ClusterSpec:
    """The same on a cluster that is there, whose workers have a taint."""
    plane = ExistingPlane(plane="existing", version="v1.36.3", tolerations=(TAINT,))
    return spec.model_copy(update={"kubernetes": plane})


def mpi_operator_of(spec: ClusterSpec) -> Any:  # noqa: ANN401 - the spec of a Deployment
    (found,) = (each.body for each in plan_jobs(spec).manifests if each.kind == "Deployment")
    return found["spec"]


def test_the_operators_tolerate_what_the_file_says_beside_their_own(
    cloud: ClusterSpec, shared: ClusterSpec
) -> None:
    """Helm replaces a list, so that what a chart tolerates by itself comes again."""
    gpu = values_of(tainted(cloud), "gpu-operator")
    assert gpu["daemonsets"] == {"tolerations": [GPU_TAINT, OURS]}
    discovery = {"worker": {"tolerations": [CONTROL_PLANE, GPU_TAINT, OURS]}}
    assert gpu["node-feature-discovery"] == discovery
    assert "node-feature-discovery" not in values_of(tainted(cloud), "network-operator")
    assert policy_of(tainted(cloud))["spec"]["tolerations"] == [OURS]
    alone = tainted(
        cloud.model_copy(update={"operators": cloud.operators.model_copy(update={"gpu": None})})
    )
    assert values_of(alone, "network-operator")["node-feature-discovery"] == discovery
    assert values_of(tainted(shared), "nvidia-device-plugin")["tolerations"] == [
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        GPU_TAINT,
        OURS,
    ]
    (operator,) = (
        each.body for each in plan_jobs(tainted(cloud)).manifests if each.kind == "Deployment"
    )
    pod: Any = operator["spec"]
    assert pod["template"]["spec"]["tolerations"] == [OURS]


def test_without_taints_the_charts_keep_their_own(cloud: ClusterSpec, shared: ClusterSpec) -> None:
    for spec in (cloud, shared):
        assert "olerations" not in json.dumps([each.values for each in plan_operators(spec).charts])
    assert "tolerations" not in policy_of(cloud)["spec"]
    assert "olerations" not in json.dumps(
        [each.body for each in plan_jobs(cloud).manifests if each.kind == "Deployment"]
    )


def test_without_kubernetes_there_are_no_operators(shared: ClusterSpec) -> None:
    assert plan_operators(changed_spec(shared, kubernetes=None)) == OperatorsPlan((), ())


def operators_graph(plan: OperatorsPlan) -> Graph:
    def program() -> None:
        Operators("my-operators", plan, access())

    return record_program(RUN, program)


def test_charts_come_one_after_another_and_policies_last(cloud: ClusterSpec) -> None:
    graph = operators_graph(plan_operators(cloud))
    assert "gpu-operator" in graph.named("network-operator").dependencies
    policy = graph.named("network-operator-nicclusterpolicy-nic-cluster-policy")
    assert {"gpu-operator", "network-operator"} <= set(policy.dependencies)
    assert policy.name in graph.named("gpu-operator-ready").dependencies


def test_labels_come_before_the_chart_that_selects_by_them(shared: ClusterSpec) -> None:
    graph = operators_graph(plan_operators(shared))
    assert {"node03-labels", "node04-labels"} <= set(
        graph.named("nvidia-device-plugin").dependencies
    )


def test_the_catalogue_knows_its_own_ranges() -> None:
    line = find_line("26.7.1", NETWORK_OPERATOR)
    assert line is not None
    assert line.describe() == "1.32 and later"
    assert (line.holds((1, 31)), line.holds((1, 32)), line.holds((1, 40))) == (False, True, True)
    older = find_line("v26.4.1", NETWORK_OPERATOR)
    assert older is not None
    assert (older.describe(), older.holds((1, 35)), older.holds((1, 36))) == (
        "1.31 to 1.35",
        True,
        False,
    )
    assert find_line("24.7.0", NETWORK_OPERATOR) is None
    assert find_line("0.19.3", GPU_DEVICE_PLUGIN) is not None


def test_gdrcopy_comes_with_the_operators_driver() -> None:
    spec = load_example("dgx-roce")
    assert spec.operators.gpu is not None
    assert "gdrcopy" not in values_of(spec, "gpu-operator")
    gpu = spec.operators.gpu.model_copy(update={"driver": "operator", "gdrcopy": True})
    operators = spec.operators.model_copy(update={"gpu": gpu})
    values = values_of(changed_spec(spec, operators=operators), "gpu-operator")
    assert values["gdrcopy"] == {"enabled": True}


def test_the_toolkit_of_the_operator_edits_no_file() -> None:
    spec = load_example("dgx-roce")
    assert spec.operators.gpu is not None
    gpu = spec.operators.gpu.model_copy(update={"driver": "operator"})
    operators = spec.operators.model_copy(update={"gpu": gpu})
    values = values_of(changed_spec(spec, operators=operators), "gpu-operator")
    assert values["toolkit"] == {"enabled": True}
    assert values["cdi"] == {"enabled": True, "nriPluginEnabled": True}


def test_the_policy_follows_the_release_of_the_chart(cloud: ClusterSpec) -> None:
    for release in ("26.4.1", "26.7.1"):
        chart = ChartSource(chart="network-operator", repo="https://x", version=release)
        plugin = policy_of(with_network(cloud, chart=chart))["spec"]["sriovDevicePlugin"]
        assert plugin["version"] == f"network-operator-v{release}"


def test_definitions_are_upgraded_with_the_chart(cloud: ClusterSpec) -> None:
    assert values_of(cloud, "gpu-operator")["operator"] == {"upgradeCRD": True}
    assert values_of(cloud, "network-operator")["upgradeCRDs"] is True


def with_operator(spec: ClusterSpec) -> ClusterSpec:
    operators = spec.operators.model_copy(update={"network": NetworkOperator()})
    return changed_spec(spec, operators=operators)


@pytest.mark.parametrize(
    ("example", "key", "image", "ours"),
    [
        ("dgx-roce", "sriovDevicePlugin", "sriov-network-device-plugin", "sriovdp-config"),
        ("shared-rdma", "rdmaSharedDevicePlugin", "k8s-rdma-shared-dev-plugin", "rdma-devices"),
    ],
)
def test_the_network_operator_brings_the_device_plugin_in_place_of_ours(
    example: str, key: str, image: str, ours: str
) -> None:
    spec = load_example(example)
    before = plan_pod_network(spec).manifests
    (config,) = [m for m in before if m.kind == "ConfigMap" and m.name.startswith(ours)]
    policy = policy_of(with_operator(spec))["spec"]
    assert set(policy) == {key}
    assert policy[key]["image"] == image
    assert policy[key]["repository"] == "nvcr.io/nvidia/mellanox"
    assert policy[key]["version"] == "network-operator-v26.7.1"
    assert {"config.json": policy[key]["config"]} == config.body["data"]
    after = {m.resource_name for m in plan_pod_network(with_operator(spec)).manifests}
    gone = {m.resource_name for m in before} - after
    # The chart brings the definition of attachments.
    (definition,) = (name for name in gone if name.startswith("multus-customresourcedefinition"))
    gone.remove(definition)
    assert after < {m.resource_name for m in before}
    assert all("plugin" in name or "rdma-shared-dp" in name for name in gone)
    assert config.resource_name in gone
    assert len(gone) == (3 if example == "dgx-roce" else 2)


def test_its_images_are_named_and_ours_are_not() -> None:
    for example, ours in (("dgx-roce", "sriov-network-device"), ("shared-rdma", "k8s-rdma-shared")):
        names = [image for image, _ in images_of(with_operator(load_example(example)))]
        (found,) = [name for name in names if ours in name]
        assert found.startswith("nvcr.io/nvidia/mellanox/")
        assert found.endswith(":network-operator-v26.7.1")
