"""Where the nodes of a site keep the programs of container networking, and which they lack."""

from __future__ import annotations

from components.catalogue.cni_folders import DISTRIBUTIONS, UPSTREAM, CniPaths, distribution_of
from components.model.cluster import ClusterSpec
from components.model.kubernetes import ExistingPlane


def cni_paths(spec: ClusterSpec) -> CniPaths:
    """The CNI folders of every node: those of our K3s or kubespray, or of the existing cluster.

    There they are what the file says, else those of the distribution that it names or that the
    version tells by its suffix, else the defaults of containerd and CRI-O.
    """
    plane = spec.kubernetes
    if not isinstance(plane, ExistingPlane):
        return DISTRIBUTIONS["kubespray" if spec.kubespray else "k3s"]
    if plane.cni is not None:
        return CniPaths(plane.cni.net_d, plane.cni.bin)
    return DISTRIBUTIONS.get(plane.distribution or distribution_of(plane.version) or "", UPSTREAM)


def lacks_tuning(spec: ClusterSpec) -> bool:
    """Whether attachments ask for the plugin `tuning` on nodes that have none.

    An MTU of the pods' own is set by it. Of the reference plugins K3s brings seven, and that is not
    one of them (sources.md#pod-network); other distributions bring all.
    """
    network = spec.pod_network
    asked = network.mode == "sriov" and network.mtu_bytes is not None
    return asked and cni_paths(spec) == DISTRIBUTIONS["k3s"]
