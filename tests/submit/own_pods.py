"""Pods as users write them, and a site whose API server completes them."""

from __future__ import annotations

from typing import Any

from components.model.cluster import ClusterSpec
from components.model.jobs import OwnPods
from tests.golden.site import changed_spec
from tests.lab_physics.examples import example

RESOURCE = "nvidia.com/hostdev"
FOLDER = "/opt/nccl_topo/h100-80gb-sxm-ib.xml"
ON_NODE = "/etc/crusoe/nccl_topo/h100-80gb-sxm-ib-cloud-hypervisor.xml"
OURS = {"configMapRef": {"name": "railyard-rdma"}}
MOUNT = {"name": "railyard-topology", "mountPath": FOLDER, "readOnly": True}
VOLUME = {"name": "railyard-topology", "hostPath": {"path": ON_NODE, "type": "File"}}


def site(*namespaces: str) -> ClusterSpec:
    """A cloud's site: HCAs by count, a topology file, a script that finds the HCAs."""
    spec = example("crusoe-k3s")
    own = OwnPods(namespaces=namespaces, admission=True)
    return changed_spec(spec, jobs=spec.jobs.model_copy(update={"own_pods": own}))


def pod(*containers: Any, **more: Any) -> Any:  # noqa: ANN401 - a pod as a user writes it
    body = {"automountServiceAccountToken": False, **more, "containers": [*containers]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "mine", "namespace": "default"},
        "spec": body,
    }


def container(name: str = "c", hcas: int = 8, **more: Any) -> Any:  # noqa: ANN401 - as above
    limits = {RESOURCE: hcas} if hcas else {"cpu": "1"}
    return {"name": name, "image": "reg/a:1", "resources": {"limits": limits}, **more}
