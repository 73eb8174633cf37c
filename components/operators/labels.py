"""Labels of nodes that plugins and jobs select by; set as patches, so that only they are ours."""

from __future__ import annotations

from pydantic import JsonValue

from components.kubernetes.manifest import Body, Manifest
from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.operators.firmware import firmware_labels
from components.pod_network.pools import pool_labels
from components.pod_network.sriov_operator import vf_labels


def node_labels(spec: ClusterSpec, host: Host) -> dict[str, str]:
    """The labels of one node, sorted; none on those that run no jobs.

    Labels of pools, VFs and firmware say which objects of the network operator are for the node:
    by the one of a pool it gets a block of addresses. `nvidia.com/gpu.present` lets the GPU
    device plugin's chart onto a node where no node feature discovery runs. `rdma` and
    `gpu-use-type` are those by which training jobs find their nodes.
    """
    if host.role != "worker":
        return {}
    labels = {
        **pool_labels(spec, host),
        **vf_labels(spec, host),
        **firmware_labels(spec, host),
    }
    if spec.jobs.deepspeed is not None:
        labels["gpu-use-type"] = "exclusive"
    if spec.operators.gpu_device_plugin is not None and host.gpus:
        labels["nvidia.com/gpu.present"] = "true"
    if spec.pod_network.mode == "rdma_shared":
        labels["rdma"] = "hca"
    return labels


def label_patches(spec: ClusterSpec) -> tuple[Manifest, ...]:
    """A patch for each node that has labels of ours."""
    return tuple(_patch(host, labels) for host in spec.hosts if (labels := node_labels(spec, host)))


def _patch(host: Host, labels: dict[str, str]) -> Manifest:
    values: dict[str, JsonValue] = {**labels}
    body: Body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": host.node, "labels": values},
    }
    return Manifest(f"{host.name}-labels", "v1", "NodePatch", body, 0)
