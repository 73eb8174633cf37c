"""What the programs of a node read: containerd, kubelet, kube-proxy and the network of its pods.

Paths are those of K3s (sources.md#k3s), since the product's manifests name them.
"""

from __future__ import annotations

import json
from typing import Final

from components.catalogue.cluster_parts import DISTRIBUTIONS
from components.core.record import record
from lab.cluster.document import Doc
from lab.pods.cgroups import PLACE

MANAGEMENT: Final = "10.29.0"
"""The network of nodes, API server and registry; it lies in a namespace of the lab's own."""
CONTROL_PLANE: Final = f"{MANAGEMENT}.1"
PODS: Final = "10.42.0.0/16"
SERVICES: Final = "10.43.0.0/16"
DNS: Final = "10.43.0.10"
"""K3s' defaults of --cluster-cidr, --service-cidr and --cluster-dns."""
K3S: Final = DISTRIBUTIONS["k3s"]
SOCKET: Final = "/run/k3s/containerd/containerd.sock"
REGISTRY_PORT: Final = 5000
MIRROR: Final = f"{CONTROL_PLANE}:{REGISTRY_PORT}"
"""The registry that has all images of the site (`sources.registry` of its file)."""
PAUSE: Final = "docker.io/rancher/mirrored-pause:3.6"
"""K3s' sandbox image; the lab's own is made locally and has this name."""
POD_MTU: Final = 1450
K3S_PLUGINS: Final = ("bridge", "host-local", "loopback", "portmap")
"""Of the plugins that K3s links into its folder of CNI programs; macvlan is not among them."""


@record
class NodeAddresses:
    """What follows from a node's number."""

    name: str
    number: int

    @property
    def management(self) -> str:
        """Its address in the network of nodes."""
        return f"{MANAGEMENT}.{10 + self.number}"

    @property
    def pods(self) -> str:
        """The range of its pods."""
        return f"10.42.{self.number}.0/24"


def kubelet_config(node: NodeAddresses, folder: str, *, unified: bool) -> Doc:
    """The configuration of kubelet.

    Args:
        node: The node.
        folder: Where the node sees its certificates.
        unified: The machine has control groups of version 2; version 1 must be allowed.
    """
    config: Doc = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.management,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{folder}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{PLACE}/{node.name}",
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        # Its data lie in memory, where these shares say nothing.
        "evictionHard": {"memory.available": "100Mi"},
        "failSwapOn": False,
        "healthzPort": 0,
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        # Lowering it wants CAP_SYS_RESOURCE.
        "oomScoreAdj": 0,
        "podCIDR": node.pods,
        "resolvConf": "",
        "shutdownGracePeriod": "0s",
        "tlsCertFile": f"{folder}/kubelet.crt",
        "tlsPrivateKeyFile": f"{folder}/kubelet.key",
    }
    if not unified:
        config["failCgroupV1"] = False
    return config


def render_files(node: NodeAddresses) -> dict[str, str]:
    """The node's other files, by path."""
    plain = f'server = "http://{MIRROR}"\n[host."http://{MIRROR}"]\n'
    return {
        "/etc/containerd/config.toml": _CONTAINERD,
        f"/etc/containerd/certs.d/{MIRROR}/hosts.toml": plain
        + 'capabilities = ["pull", "resolve"]\n',
        "/etc/kube-proxy.yaml": json.dumps(_kube_proxy(node)),
        f"{K3S.net_d}/10-flannel.conflist": json.dumps(_pod_network(node), indent=1),
        "/etc/hosts": f"127.0.0.1 localhost\n{node.management} {node.name}\n",
        "/etc/machine-id": f"{node.number:032x}\n",
        "/etc/resolv.conf": "",
    }


_CONTAINERD: Final = f"""version = 3
root = "/var/lib/rancher/k3s/agent/containerd"
state = "/run/k3s/containerd"
oom_score = 0

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{MIRROR}/{PAUSE}"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "/etc/containerd/certs.d"

[plugins."io.containerd.cri.v1.runtime"]
# Lowering a score wants CAP_SYS_RESOURCE, which not every machine's root has.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{K3S.bin}"]
conf_dir = "{K3S.net_d}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "/usr/sbin/runc"
SystemdCgroup = false
"""


def _pod_network(node: NodeAddresses) -> Doc:
    """What flannel's plugin hands to `bridge` and `portmap`, under the name that K3s gives it."""
    ipam: Doc = {
        "type": "host-local",
        "ranges": [[{"subnet": node.pods}]],
        "routes": [{"dst": PODS}],
    }
    bridge: Doc = {
        "type": "bridge",
        "bridge": "cni0",
        "mtu": POD_MTU,
        "isDefaultGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "forceAddress": True,
        "ipam": ipam,
    }
    return {"name": "cbr0", "cniVersion": "1.0.0", "plugins": [bridge]}


def _kube_proxy(node: NodeAddresses) -> Doc:
    """kube-proxy by nftables: one program, where iptables wants a dozen."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": "/opt/lab/node/proxy.kubeconfig"},
        "clusterCIDR": PODS,
        "hostnameOverride": node.name,
        # The table of connections is the whole machine's.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s"},
        "healthzBindAddress": f"{node.management}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    }
