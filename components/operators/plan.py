"""The operators: Helm values, and the status that says that an operator has done its work.

Sources: the GPU operator's chart and documentation (platform support, RDMA, CDI pages).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from components.kubernetes.manifest import TIMEOUT, WAIT_FOR, Body, Manifest, make_manifest
from components.model.cluster import ClusterSpec
from components.model.gpu_direct import gpu_paths, has_own_rdma_driver
from components.model.operators import ChartSource, GpuOperator
from components.operators.labels import label_patches
from components.operators.network import (
    NETWORK_NAMESPACE,
    network_operator_values,
    nic_cluster_policy,
)

GPU_NAMESPACE: Final = "gpu-operator"
PLUGIN_NAMESPACE: Final = "nvidia-device-plugin"
POLICY: Final = "cluster-policy"
"""Name of the ClusterPolicy that the chart makes."""
CHART_DEADLINE_S: Final = 900.0
"""Seconds for the chart's own Deployments; images of several GB come from a mirror."""
POLICY_DEADLINE_S: Final = 1800
"""Seconds until the policy is ready: the driver container may compile for 20 minutes."""
_LABELS_KIND: Final = "NodePatch"


@dataclass(frozen=True, slots=True)
class ChartPlan:
    """One Helm release."""

    release: str
    chart: str
    version: str
    repo: str | None
    namespace: str
    values: Body
    deadline_s: float


@dataclass(frozen=True, slots=True)
class OperatorsPlan:
    """All operators, what must be there before them, and the gates behind them."""

    charts: tuple[ChartPlan, ...]
    """In the order of their installation."""
    manifests: tuple[Manifest, ...]

    @property
    def labels(self) -> tuple[Manifest, ...]:
        """The labels of nodes, which come before the charts."""
        return tuple(manifest for manifest in self.manifests if manifest.kind == _LABELS_KIND)

    @property
    def gates(self) -> tuple[Manifest, ...]:
        """What waits for the operators, and comes after the charts."""
        return tuple(manifest for manifest in self.manifests if manifest.kind != _LABELS_KIND)


def plan_operators(spec: ClusterSpec) -> OperatorsPlan:
    """Plan the operators that the file names; without Kubernetes there are none.

    Raises:
        SpecError: An operator shall bring a driver that is not known here.
    """
    if spec.kubernetes is None:
        return OperatorsPlan((), ())
    operators = spec.operators
    charts: list[ChartPlan] = []
    policies: list[Manifest] = []
    if (plugin := operators.gpu_device_plugin) is not None:
        charts.append(_chart("nvidia-device-plugin", plugin.chart, PLUGIN_NAMESPACE, {}))
    if (gpu := operators.gpu) is not None:
        values = gpu_operator_values(spec, gpu)
        charts.append(_chart("gpu-operator", gpu.chart, GPU_NAMESPACE, values))
        policies.append(_policy_gate())
    if (network := operators.network) is not None:
        values = network_operator_values(spec)
        charts.append(_chart("network-operator", network.chart, NETWORK_NAMESPACE, values))
        # First: a GPU driver container waits for the RDMA driver before it becomes ready.
        policy = make_manifest("network-operator", nic_cluster_policy(spec, network), 0)
        policies.insert(0, policy)
    gates = (replace(policy, group=group) for group, policy in enumerate(policies))
    return OperatorsPlan(tuple(charts), (*label_patches(spec), *gates))


def _chart(release: str, source: ChartSource, namespace: str, values: Body) -> ChartPlan:
    return ChartPlan(
        release=release,
        chart=source.chart,
        version=source.version,
        repo=source.repo,
        namespace=namespace,
        values=values,
        deadline_s=CHART_DEADLINE_S,
    )


def gpu_operator_values(spec: ClusterSpec, gpu: GpuOperator) -> Body:
    """The values in which we differ from the chart.

    With the driver on the host (DGX OS), the container toolkit is there too: K3s finds its runtime
    at its start and makes it the default (`default-runtime`), so the operator brings neither. With
    the operator's driver the toolkit works through containerd's NRI and edits no file that K3s
    would write again. `driver.rdma` says whether that driver's container loads the peer memory
    module; with the driver on the host, the host loads it.
    """
    if gpu.driver == "host":
        return {
            "driver": {"enabled": False},
            "toolkit": {"enabled": False},
            "cdi": {"enabled": True},
            "nfd": {"enabled": True},
            "dcgmExporter": {"serviceMonitor": {"enabled": False}},
        }
    paths = gpu_paths(spec)
    rdma: Body = {"enabled": "peermem" in paths, "useHostMofed": has_own_rdma_driver(spec)}
    driver: Body = {"enabled": True, "rdma": rdma}
    if "dma_buf" in paths:  # it needs the open ones, and the default `auto` goes by the GPU
        driver["kernelModuleType"] = "open"
    return {
        "driver": driver,
        "toolkit": {"enabled": True},
        "cdi": {"enabled": True, "nriPluginEnabled": True},
        "nfd": {"enabled": True},
        "dcgmExporter": {"serviceMonitor": {"enabled": False}},
    }


def _policy_gate() -> Manifest:
    """A patch of the chart's ClusterPolicy that changes nothing and waits for its state.

    Pods that run are no proof: the operator writes `ready` only when every node's operands work.
    """
    body: Body = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {
            "name": POLICY,
            "annotations": {
                "railyard.dev/gate": "ready",
                WAIT_FOR: "jsonpath={.status.state}=ready",
                TIMEOUT: str(POLICY_DEADLINE_S),
            },
        },
    }
    return Manifest("gpu-operator-ready", "nvidia.com/v1", "ClusterPolicyPatch", body, 0)
