"""Where kubelet looks for CNI configurations and programs, by distribution of Kubernetes.

Sources: lab/sources.md#cni-folders.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal


@dataclass(frozen=True, slots=True)
class CniPaths:
    """Two folders of every node."""

    net_d: str
    """CNI configurations."""
    bin: str
    """CNI programs."""

    @property
    def multus_kubeconfig(self) -> str:
        """What Multus writes for its own program."""
        return f"{self.net_d}/multus.d/multus.kubeconfig"

    @property
    def whereabouts_config(self) -> str:
        """What whereabouts writes for its own program."""
        return f"{self.net_d}/whereabouts.d/whereabouts.conf"

    @property
    def whereabouts_kubeconfig(self) -> str:
        """By which its program reaches the cluster."""
        return f"{self.net_d}/whereabouts.d/whereabouts.kubeconfig"

    def pool_config(self, rail: str) -> str:
        """What of a rail the node's own leaf has; each node has another text there."""
        return f"{self.net_d}/whereabouts.d/{rail}.conf"

    def pool_folder(self, rail: str) -> str:
        """The same for nv-ipam, which reads a file of one name in a folder (`confDir`)."""
        return f"{self.net_d}/nv-ipam.d/{rail}"


UPSTREAM: Final = CniPaths("/etc/cni/net.d", "/opt/cni/bin")
"""The defaults of containerd and CRI-O, which most distributions keep."""
DISTRIBUTIONS: Final[dict[str, CniPaths]] = {
    # The folder of programs since the releases of FIRST_K3S; before, its name had a hash in it.
    "k3s": CniPaths("/var/lib/rancher/k3s/agent/etc/cni/net.d", "/var/lib/rancher/k3s/data/cni"),
    "rke2": UPSTREAM,
    "kubeadm": UPSTREAM,
    "kubespray": UPSTREAM,
    "k0s": UPSTREAM,
    "microk8s": CniPaths(
        "/var/snap/microk8s/current/args/cni-network", "/var/snap/microk8s/current/opt/cni/bin"
    ),
    "aks": UPSTREAM,
    "eks": UPSTREAM,
    "oke": UPSTREAM,
}
FIRST_K3S: Final = {(1, 28): 15, (1, 29): 10, (1, 30): 6, (1, 31): 2}
"""Minor of Kubernetes to its first patch whose K3s has the folder above; every later minor has it.
docs.k3s.io, "Multus and IPAM plugins". Older K3s has its programs in `data/current/bin`, a link
that every upgrade moves, so what a pod installed there is lost with the next one."""
_SUFFIX: Final = re.compile(r"\+(k3s|rke2|k0s)")


def distribution_of(version: str) -> str | None:
    """The distribution that a version tells by its suffix: `v1.36.3+k3s1`; None: it tells none."""
    found = _SUFFIX.search(version)
    return found[1] if found else None


if TYPE_CHECKING:
    Distribution = str
else:
    Distribution = Literal[tuple(DISTRIBUTIONS)]
"""The type of `kubernetes.distribution`."""
