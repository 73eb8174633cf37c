"""The GPU operator's part of a node, from its inputs: labels, GPUs and the ClusterPolicy's state.

Nothing becomes ready by itself: the operator's Deployment must be ready, node feature discovery
must run on the node, and the driver must be there, from the host or from the operator
(lab/sources.md#operators).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from components.catalogue.cluster_parts import UPSTREAM
from components.core.record import record
from lab.cluster.document import Doc, Json, at, doc_at, docs_at, number_at, text_at
from lab.cluster.pod_view import NodeState

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
GPU = "nvidia.com/gpu"
K3S = "/var/lib/rancher/k3s/"
"""K3s' folder, where its containerd is configured (sources.md#k3s)."""
_GPU_LABEL = "feature.node.kubernetes.io/pci-10de.present"
NIC_LABEL = "feature.node.kubernetes.io/pci-15b3.present"
"""Set on nodes with a Mellanox card."""
_SRIOV_LABEL = "feature.node.kubernetes.io/pci-15b3.sriov.capable"


@record
class Policy:
    """A ClusterPolicy and whether its operator works."""

    document: Doc
    operator_ready: bool

    @property
    def installs_driver(self) -> bool:
        """The operator brings the driver in a container."""
        return at(self.document, "spec", "driver", "enabled") is not False

    def brings_runtime(self, node: NodeState) -> bool:
        """The operator's toolkit reaches the node's containerd: by NRI, or by a file that it reads.

        On its own it edits /etc/containerd/config.toml, which K3s does not read.
        """
        spec = doc_at(self.document, "spec")
        if at(spec, "toolkit", "enabled") is False:
            return False
        files = (text_at(item, "value") for item in docs_at(spec, "toolkit", "env"))
        reads = node.cni == UPSTREAM or any(K3S in file for file in files)
        return reads or at(spec, "cdi", "nriPluginEnabled") is True

    def missing(self, node: NodeState, labels: Mapping[str, str]) -> str:
        """What a node lacks for its GPUs to be used under this policy; empty for nothing."""
        devices = node.devices
        there = {
            "operator": self.operator_ready,
            f"label {_GPU_LABEL}": _GPU_LABEL in labels,
            "driver": self.installs_driver or devices.nvidia_driver,
            "container runtime": self.brings_runtime(node) or devices.runs_gpu_containers,
            "device plugin": at(self.document, "spec", "devicePlugin", "enabled") is not False,
        }
        return ", ".join(name for name, found in there.items() if not found)

    def serves(self, node: NodeState, labels: Mapping[str, str]) -> bool:
        """Whether the node's GPUs can be used under this policy."""
        return not self.missing(node, labels)


def operator_ready(deployments: Sequence[Doc]) -> bool:
    """Whether a ready Deployment of the GPU operator exists."""
    return any(
        text_at(deployment, "metadata", "labels", "app.kubernetes.io/component") == "gpu-operator"
        and number_at(deployment, "status", "readyReplicas") > 0
        for deployment in deployments
    )


def discovered_labels(node: NodeState) -> dict[str, str]:
    """The labels that node feature discovery sets, once its worker runs on the node."""
    if not node.running("node-feature-discovery"):
        return {}
    found = {
        _GPU_LABEL: node.devices.gpus > 0,
        NIC_LABEL: node.devices.mellanox_cards > 0,
        _SRIOV_LABEL: bool(node.devices.vfs),
    }
    return {label: "true" for label, present in found.items() if present}


def gpus_of(node: NodeState, policy: Policy | None, labels: Mapping[str, str]) -> int:
    """How many GPUs the node offers to pods."""
    return node.devices.gpus if policy and policy.serves(node, labels) else 0


def policy_status(
    policy: Policy, nodes: Sequence[NodeState], labels: Mapping[str, Mapping[str, str]]
) -> Doc:
    """The status that the operator would write: `ready` or `notReady` with the reason."""
    reason = ""
    gpu_nodes = [node for node in nodes if node.devices.gpus]
    if not policy.operator_ready:
        reason = "the operator's Deployment is not ready"
    elif not gpu_nodes:
        reason = "no node with a GPU has joined"
    else:
        lacking = ((n.name, policy.missing(n, labels.get(n.name, {}))) for n in gpu_nodes)
        waiting = [f"{name}: {words} missing" for name, words in lacking if words]
        if waiting:
            reason = f"operands are not ready on {'; '.join(waiting)}"
    ready: Json = {
        "type": "Ready",
        "status": "False" if reason else "True",
        "reason": "OperandNotReady" if reason else "Reconciled",
        "message": reason,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    state = "notReady" if reason else "ready"
    return {"state": state, "namespace": "gpu-operator", "conditions": [ready]}
