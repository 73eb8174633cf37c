"""The operators: Helm values, and the status that says that an operator has done its work.

Sources: the GPU operator's chart and documentation (platform support, RDMA, CDI pages).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from components.kubernetes.manifest import TIMEOUT, WAIT_FOR, Body, Manifest
from components.model.cluster import ClusterSpec
from components.model.kubernetes import GpuOperator

GPU_NAMESPACE: Final = "gpu-operator"
POLICY: Final = "cluster-policy"
"""Name of the ClusterPolicy that the chart makes."""
CHART_DEADLINE_S: Final = 900.0
"""Seconds for the chart's own Deployments; images of several GB come from a mirror."""
POLICY_DEADLINE_S: Final = 1800
"""Seconds until the policy is ready: the driver container may compile for 20 minutes."""


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
    """All operators, and the gates behind them."""

    charts: tuple[ChartPlan, ...]
    manifests: tuple[Manifest, ...]


def plan_operators(spec: ClusterSpec) -> OperatorsPlan:
    """Plan the operators that the file names."""
    gpu = spec.operators.gpu
    if gpu is None:
        return OperatorsPlan((), ())
    chart = ChartPlan(
        release="gpu-operator",
        chart=gpu.chart.chart,
        version=gpu.chart.version,
        repo=gpu.chart.repo,
        namespace=GPU_NAMESPACE,
        values=gpu_operator_values(spec, gpu),
        deadline_s=CHART_DEADLINE_S,
    )
    return OperatorsPlan((chart,), (_policy_gate(),))


def gpu_operator_values(spec: ClusterSpec, gpu: GpuOperator) -> Body:
    """The values in which we differ from the chart.

    With the driver on the host (DGX OS), the container toolkit is there too: K3s finds its runtime
    at its start and makes it the default (`default-runtime`), so the operator brings neither. With
    the operator's driver the toolkit works through containerd's NRI and edits no file that K3s
    would write anew.
    """
    if gpu.driver == "host":
        return {
            "driver": {"enabled": False},
            "toolkit": {"enabled": False},
            "cdi": {"enabled": True},
            "nfd": {"enabled": True},
            "dcgmExporter": {"serviceMonitor": {"enabled": False}},
        }
    own_rdma_driver = spec.host_defaults.driver.kind != "inbox"
    return {
        "driver": {
            "enabled": True,
            "rdma": {"enabled": spec.host_defaults.peermem, "useHostMofed": own_rdma_driver},
        },
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
