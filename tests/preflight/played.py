"""What a site can lack that is played: made in an emulated part, and found there by the command.

Each file below finds exactly the causes that it has here; the table in `docs/howto/preflight.md`
says which rows are played (`tests/docs/test_preflight_page.py`). What is in neither is judged by
literal answers (`tests/preflight/lacks.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLAYED: Final[Mapping[str, frozenset[str]]] = {
    "tests/over_ssh/test_preflight.py": frozenset(
        (
            "artefact-k3s",
            "artefact-k3s-install-script",
            "card-file",
            "cgroup",
            "chart-images",
            "clock",
            "cloud-init-hostname",
            "cloud-init-hosts",
            "disk/var/lib",
            "eswitch",
            "gpu-driver",
            "gpu-driver-loaded",
            "gpu-driver-version",
            "gpu-modules",
            "gpus",
            "half-installed",
            "host-key",
            "lldpad",
            "login",
            "module-nvidia_peermem",
            "netdev",
            "network-manager",
            "network-manager-profile",
            "own-name",
            "package-lock",
            "peer-6443",
            "port-10250",
            "port-6443",
            "rdma-driver",
            "reach",
            "selinux",
            "serial",
            "signature-mlx5_core",
            "sudo",
            "swap",
            "tool-ethtool",
            "tool-nvidia-container-runtime",
            "tool-setpci",
        )
    ),
    "tests/over_ssh/test_preflight_devices.py": frozenset(
        (
            "ats-support",
            "esxi-pci",
            "esxi-release",
            "esxi-vm",
            "switch-model",
            "switch-release",
            "switch-rights",
        )
    ),
    "tests/fabric/test_ufm.py": frozenset(("ufm-release", "ufm-rights")),
    "tests/preflight/test_cloud.py": frozenset(
        (
            "cloud-api",
            "cloud-capacity",
            "cloud-image",
            "cloud-infiniband",
            "cloud-location",
            "cloud-name",
            "cloud-quota",
            "cloud-type",
        )
    ),
    "tests/update/test_parts_running.py": frozenset(
        (
            "cilium-exclusive",
            "mpi_operator-not-ready",
            "multus-absent",
            "multus-foreign",
            "pod-policy",
            "rights",
            "runtime-class",
            "service-mesh",
        )
    ),
    "tests/preflight/test_engine.py": frozenset(
        ("backend", "lab-passphrase", "language", "plugin-command", "pulumi")
    ),
    "tests/preflight/test_here.py": frozenset(("chart-gpu",)),
    "tests/preflight/test_kubespray.py": frozenset(
        ("kubespray-environment", "kubespray-ssh", "kubespray-tree")
    ),
    "tests/preflight/test_sources.py": frozenset(("image-jobs",)),
}
