"""Who brings each part of an existing cluster: Railyard, another, or none at all."""

from __future__ import annotations

from typing import Literal

from components.model.units import Frozen

Owner = Literal["ours", "theirs", "none"]
"""`ours`: Railyard installs it, and is refused where another one is there. `theirs`: it is there;
nothing of it is installed, and each look says where it is not what the site needs. `none`: it is
not needed."""


class ClusterParts(Frozen):
    """Who brings what of an existing cluster; what is left out follows from the rest of the file.

    By default Railyard brings what the site needs. Beside a network operator of others, the device
    plugin of the pod network's mode is theirs too.
    """

    multus: Owner | None = None
    """Multus and the definition of its attachments."""
    attachments: Owner | None = None
    """The attachments by which jobs get onto the rails, each named as its rail's `network`. Those
    of probes are ours in any case."""
    whereabouts: Owner | None = None
    """The address management of pods, with `ipam: whereabouts`."""
    nv_ipam: Owner | None = None
    """The address management of pods, with `ipam: nv-ipam`."""
    sriov_cni: Owner | None = None
    """The CNI program that moves a VF into a pod."""
    ib_sriov_cni: Owner | None = None
    """The same for InfiniBand."""
    ipoib_cni: Owner | None = None
    """The CNI program that makes IPoIB interfaces."""
    rdma_cni: Owner | None = None
    """The CNI program that moves a VF's RDMA device into its pod."""
    cni_plugins: Owner | None = None
    """Those of the reference programs that the site needs."""
    sriov_device_plugin: Owner | None = None
    """The device plugin that publishes VFs, or whole HCAs."""
    shared_device_plugin: Owner | None = None
    """The device plugin that publishes shared cards."""
    gpu_device_plugin: Owner | None = None
    """The device plugin that publishes GPUs; ours by `operators.gpu_device_plugin`."""
    gpu_operator: Owner | None = None
    """The GPU operator; ours by `operators.gpu`."""
    network_operator: Owner | None = None
    """The network operator; ours by `operators.network`."""
    mpi_operator: Owner | None = None
    """The MPI operator."""
    trainer: Owner | None = None
    """Kubeflow Trainer, which Railyard never installs; `theirs` for jobs of the form `trainjob`."""
