"""The operators and device plugins that make GPUs and RDMA cards resources of the cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import StringConstraints

from components.model.units import EXACT_RELEASE, Frozen


class ChartSource(Frozen):
    """One Helm chart, pinned."""

    chart: str
    """`oci://…`, or a path of the project, or a chart name when `repo` is given."""
    repo: str | None = None
    """Address of a chart repository."""
    version: Annotated[str, StringConstraints(pattern=EXACT_RELEASE)]
    """One exact release: a range or `latest` would install another chart on the next run."""


class GpuOperator(Frozen):
    """The NVIDIA GPU operator."""

    chart: ChartSource
    """The operator's chart."""
    driver: Literal["operator", "host"] = "host"
    """Who owns the GPU driver: the operator's container, or the host (DGX OS)."""


class NetworkOperator(Frozen):
    """The NVIDIA network operator; with `pod_network.mode: host_device` it publishes the HCAs."""

    chart: ChartSource
    """The operator's chart."""
    driver: Literal["host", "operator"] = "host"
    """Who owns the RDMA driver: the host's image, or the operator's DOCA-OFED container."""


class GpuDevicePlugin(Frozen):
    """NVIDIA's k8s-device-plugin on its own, for sites without the GPU operator."""

    chart: ChartSource
    """The plugin's chart."""


class Operators(Frozen):
    """The operators of the cluster."""

    gpu: GpuOperator | None = None
    """The GPU operator; without it nothing is installed for GPUs."""
    network: NetworkOperator | None = None
    """The network operator."""
    gpu_device_plugin: GpuDevicePlugin | None = None
    """The GPU device plugin alone; not together with the GPU operator."""
