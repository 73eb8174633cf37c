"""What the hosts' drivers mean for the whole cluster: one operator serves all of them."""

from __future__ import annotations

from typing import Literal

from components.model.cluster import ClusterSpec
from components.model.drivers import GpuDirect


def gpu_paths(spec: ClusterSpec) -> frozenset[GpuDirect]:
    """How cards reach GPU memory, over all workers with GPUs; without one, by the defaults."""
    found: set[GpuDirect] = {spec.settings_of(h).gpu_path for h in spec.workers if h.gpus}
    return frozenset(found or {spec.host_defaults.gpu_path})


def has_own_rdma_driver(spec: ClusterSpec) -> bool:
    """Whether a worker's RDMA driver is a package: the GPU driver's container builds on it then."""
    found = {spec.settings_of(host).driver.kind for host in spec.workers}
    return bool((found or {spec.host_defaults.driver.kind}) - {"inbox"})


def gpu_driver_owner(spec: ClusterSpec) -> Literal["operator", "host"] | None:
    """`operator` or `host`; None where nothing says who brings the GPU driver."""
    stated = spec.host_defaults.gpu_driver
    operator = spec.operators.gpu
    return stated or (operator.driver if operator else None)
