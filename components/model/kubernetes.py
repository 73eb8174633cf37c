"""Kubernetes itself, the operators, the pod networks and the jobs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.model.units import (
    DnsLabel,
    Frozen,
    ImageName,
    Ipv4Net,
    MtuBytes,
    SecretRef,
    Sha256,
)


class K3sSource(Frozen):
    """Where the K3s binary and install script come from: a pinned mirror or local path."""

    binary: str
    """Absolute path on the hosts, or an https URL."""
    binary_sha256: Sha256
    """Checksum of `binary`."""
    install_script: str
    """Absolute path on the hosts, or an https URL, of K3s' install script."""
    install_script_sha256: Sha256
    """Checksum of `install_script`."""


class Kubernetes(Frozen):
    """The control plane and how it is installed."""

    plane: Literal["k3s"] = "k3s"
    """What installs the control plane."""
    version: str
    """For example `v1.36.3+k3s1`."""
    source: K3sSource
    """Pinned binary and install script."""
    token: SecretRef = SecretRef(secret="k3s_token")  # noqa: S106 - the name of a secret, not one
    """Join token of the cluster."""
    api_port: Annotated[int, Field(ge=1, le=65535)] = 6443
    """Port of the Kubernetes API."""
    pod_cidr: Ipv4Net = Field(default="10.42.0.0/16", validate_default=True)
    """Addresses of pods on the cluster's own network; K3s' default."""
    service_cidr: Ipv4Net = Field(default="10.43.0.0/16", validate_default=True)
    """Addresses of services; K3s' default."""
    registry_mirror: str | None = None
    """Registry of the site's images, for example `192.168.100.10:5000` (plain HTTP)."""


class ChartSource(Frozen):
    """One Helm chart, pinned."""

    chart: str
    """`oci://…`, or a path of the project, or a chart name when `repo` is given."""
    repo: str | None = None
    """Address of a chart repository."""
    version: str


class GpuOperator(Frozen):
    """The NVIDIA GPU operator."""

    chart: ChartSource
    """The operator's chart."""
    driver: Literal["operator", "host"] = "host"
    """Who owns the GPU driver: the operator's container, or the host (DGX OS)."""


class Operators(Frozen):
    """The operators of the cluster."""

    gpu: GpuOperator | None = None
    """The GPU operator; without it nothing is installed for GPUs."""


class PodNetwork(Frozen):
    """How a pod gets onto the rails."""

    mode: Literal["sriov"] = "sriov"
    """How a pod gets a rail: a VF of its own."""
    ipam: Literal["whereabouts", "dhcp"] = "whereabouts"
    """Who gives addresses to pods; `dhcp` needs a server on each rail."""
    resource_prefix: str = "intel.com"
    """Prefix of the extended resources, before `sriov_111`."""
    mtu_bytes: MtuBytes | None = None
    """MTU of the pod's interface in bytes; default `rdma.mtu_bytes`."""
    namespace: DnsLabel = "default"
    """Namespace of the NetworkAttachmentDefinitions and of the jobs."""


class Jobs(Frozen):
    """What runs on the cluster."""

    image: ImageName
    """Image of the acceptance and sample jobs: nccl-tests and perftest in it."""
    mpi_operator: bool = True
    """Install the MPI operator, which acceptance needs."""
    gdr_level: str = "2"
    """NCCL_NET_GDR_LEVEL; 2 is the DeepOps guide's value."""
    nccl_ib_tc: Annotated[int, Field(ge=0, le=255)] | None = None
    """NCCL_IB_TC; default from `rdma.dscp`. Another value is refused by `one-traffic-class`."""
    gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    """NCCL_IB_GID_INDEX; default: left to NCCL, which finds the RoCE v2 GID (NCCL >= 2.21)."""


class Acceptance(Frozen):
    """What the finished path must prove."""

    gate: Literal["fail", "warn"] = "fail"
    """`fail`: `pulumi up` fails with the verdict table."""
    perftest_min_fraction: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Least ib_write_bw average over line rate; the DeepOps guide shows 92.4 of 100."""
    nccl_min_fraction: Annotated[float, Field(gt=0, le=1)] = 0.85
    """Least busbw over the sum of the rails' line rate; the DeepOps guide: 22.9 of 25 GB/s."""
    nccl_max_size: str = "2G"
    """Largest message of the all-reduce, in nccl-tests' notation."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """Deadline of one probe in seconds."""
