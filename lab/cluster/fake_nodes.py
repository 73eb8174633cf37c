"""kwok, which plays nodes and pods, and the Node objects it plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from components.core.record import field, record
from lab.cluster.api import Api
from lab.cluster.document import Doc, Json, doc_at
from lab.cluster.process import Child
from lab.cluster.release import K3S_VERSION

STAGES = Path(__file__).parent / "stages"
PLAYED_BY_KWOK = "kwok.x-k8s.io/node"
INTERNAL_IP = "k3s.io/internal-ip"
BOOT_ID = "lab.railyard.dev/boot-id"
KERNEL = "lab.railyard.dev/kernel"
RELEASE = "lab.railyard.dev/release"
HOST = "lab.railyard.dev/host"
"""The machine of a node, which may be called otherwise."""
POD_RANGE = "198.18.0.0/16"
"""Of the benchmark range: pod addresses cannot be loopback (sources.md#kubernetes-in-the-lab)."""
LEASE_S = 200
"""kwok renews a lease after a quarter of it. A node of the lab is lost when its K3s reports nothing
(`reports.py`), and each lease that is written makes the node agent look at the whole cluster."""
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


@record
class NodeFacts:
    """What a node says of itself when it registers."""

    name: str
    address: str
    boot_id: str = "unknown"
    kernel: str = "5.15.0-113-generic"
    release: str = K3S_VERSION
    """Of K3s: its kubelet reports it."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: Sequence[Doc] = ()
    cpus: int = 80
    memory: str = "512Gi"


def render_node(facts: NodeFacts) -> Doc:
    """Render the Node object of a machine; the defaults are a DGX-1's (80 threads, 512 GiB)."""
    resources: Doc = {
        "cpu": str(facts.cpus),
        "memory": facts.memory,
        "ephemeral-storage": "7Ti",
        "pods": "110",
    }
    annotations: dict[str, Json] = {
        PLAYED_BY_KWOK: "fake",
        INTERNAL_IP: facts.address,
        BOOT_ID: facts.boot_id,
        KERNEL: facts.kernel,
        RELEASE: facts.release,
        **facts.annotations,
    }
    labels: dict[str, Json] = {
        "kubernetes.io/hostname": facts.name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        **facts.labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": facts.name, "annotations": annotations, "labels": labels},
        "spec": {"taints": list(facts.taints)} if facts.taints else {},
        "status": {"capacity": resources, "allocatable": dict(resources)},
    }


def register_node(api: Api, facts: NodeFacts) -> None:
    """Create a node, or bring the annotations and status of an existing one up to date.

    Labels and taints count only at the first registration (sources.md#k3s).
    """
    path = f"/api/v1/nodes/{facts.name}"
    node = render_node(facts)
    if api.find(path) is None:
        api.apply(path, node)
        return
    annotations = doc_at(node, "metadata", "annotations")
    api.merge(path, {"metadata": {"annotations": annotations}})
    info: Doc = {"bootID": facts.boot_id, "kubeletVersion": facts.release}
    api.merge(f"{path}/status", {"status": {"nodeInfo": info}})


def start_kwok(
    binary: Path, api: Api, kubeconfig: Path, folder: Path, stages: Sequence[str]
) -> Child:
    """Start kwok on a control plane; it opens no port.

    Args:
        binary: the kwok program.
        api: a client that may delete node leases.
        kubeconfig: the credentials kwok uses.
        folder: where its log goes.
        stages: file names under `lab/cluster/stages`.
    """
    # A fresh kwok waits for the leases of the one before it to end (run and seen).
    api.request("DELETE", _LEASES)
    argv = [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        f"--manage-nodes-with-annotation-selector={PLAYED_BY_KWOK}=fake",
        "--node-ip=127.0.0.1",
        f"--cidr={POD_RANGE}",
        f"--node-lease-duration-seconds={LEASE_S}",
        *(f"--config={STAGES / name}" for name in stages),
    ]
    child = Child("kwok", argv, folder / "logs" / "kwok.log")
    # Without this kwok reads and writes ~/.kwok.
    child.start({"HOME": str(folder), "KWOK_WORKDIR": str(folder / "kwok")})
    return child
