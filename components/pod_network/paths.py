"""Where K3s keeps what container networking needs (K3s documentation, multus-ipams)."""

from __future__ import annotations

from typing import Final

CNI_CONFIG_DIR: Final = "/var/lib/rancher/k3s/agent/etc/cni/net.d"
CNI_BIN_DIR: Final = "/var/lib/rancher/k3s/data/cni"
"""Since v1.31.2+k3s1; before, the folder carried a hash and changed with each upgrade."""
MULTUS_KUBECONFIG: Final = f"{CNI_CONFIG_DIR}/multus.d/multus.kubeconfig"
WHEREABOUTS_CONFIG: Final = f"{CNI_CONFIG_DIR}/whereabouts.d/whereabouts.conf"
