"""The images of the site: names of the product's manifests, contents as their Dockerfiles say."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from components.catalogue import upstream
from components.model.cluster import ClusterSpec
from lab.pods.configs import PAUSE
from lab.pods.images import Recipe

COREDNS: Final = "docker.io/rancher/mirrored-coredns-coredns:1.15.0"
_REFERENCE: Final = ("macvlan", "static", "dhcp")
"""Of the image's many programs those that the site's plans copy to nodes."""
_MULTUS_BIN: Final = "/usr/src/multus-cni/bin"
_ENTRY: Final = "/entrypoint.sh"
_SCRIPTS: Final = ("install-cni.sh", "lib.sh", "token-watcher.sh")


def recipes_of(spec: ClusterSpec, programs: Path, tree: Path) -> tuple[Recipe, ...]:
    """The images of the site.

    Args:
        spec: Its file names the image of the jobs.
        programs: The folder of the built programs.
        tree: The Debian tree.
    """
    multus = {f"{_MULTUS_BIN}/{name}": programs / name for name in ("multus", "passthru")}
    multus |= {f"/{name}": programs / name for name in ("install_multus", "thin_entrypoint")}
    names = ("whereabouts", "ip-control-loop", "ip-reconciler")
    whereabouts = {f"/{name}": programs / name for name in names}
    whereabouts |= {f"/{name}": programs / f"whereabouts-{name}" for name in _SCRIPTS}
    return (
        # The sandbox only has to stay; K3s' own program for it is written in C.
        Recipe(PAUSE, entrypoint=("/bin/sleep", "infinity"), busybox=True),
        Recipe(COREDNS, {"/coredns": programs / "coredns"}, ("/coredns",)),
        Recipe(upstream.MULTUS, multus, ("/thin_entrypoint",)),
        Recipe(upstream.WHEREABOUTS, whereabouts, ("/install-cni.sh",), busybox=True),
        Recipe(
            upstream.CNI_PLUGINS,
            {f"/usr/src/cni/bin/{name}": programs / name for name in _REFERENCE},
            ("/bin/sh",),
            busybox=True,
        ),
        Recipe(
            upstream.SHARED_DEVICE_PLUGIN,
            {
                "/bin/k8s-rdma-shared-dp": programs / "k8s-rdma-shared-dp",
                "/usr/share/hwdata/pci.ids": tree / "usr/share/misc/pci.ids",
            },
            ("/bin/k8s-rdma-shared-dp",),
            busybox=True,
        ),
        Recipe(
            f"docker.io/{upstream.MPI_OPERATOR_IMAGE}",
            {"/opt/mpi-operator": programs / "mpi-operator"},
            ("/opt/mpi-operator",),
        ),
        Recipe(spec.jobs.image, tree=tree),
    )


def sriov_recipes(programs: Path, tree: Path) -> tuple[Recipe, ...]:
    """The images of a pod network of VFs, of which `make lab-pods` has none."""
    return (
        Recipe(
            upstream.SRIOV_CNI,
            {"/usr/bin/sriov": programs / "sriov", _ENTRY: programs / "sriov-cni-entrypoint.sh"},
            (_ENTRY,),
            busybox=True,
        ),
        Recipe(
            upstream.SRIOV_DEVICE_PLUGIN,
            {
                "/usr/bin/sriovdp": programs / "sriovdp",
                _ENTRY: programs / "sriovdp-entrypoint.sh",
                "/usr/share/hwdata/pci.ids": tree / "usr/share/misc/pci.ids",
            },
            (_ENTRY,),
            busybox=True,
        ),
    )


def recipes_key(recipes: tuple[Recipe, ...]) -> str:
    """Changes with what is in the images: the folders of programs and tree carry their own keys."""
    return hashlib.sha256(repr(recipes).encode()).hexdigest()[:16]
