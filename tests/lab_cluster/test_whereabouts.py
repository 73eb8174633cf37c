"""Addresses of whereabouts in the lab: kept in the API, and freed as v0.9.4 frees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.kubernetes.manifest import load_vendored
from components.pod_network.manifests import (
    RECONCILED,
    RECONCILER,
    SCHEDULE,
    config_map,
    deployment,
)
from lab.cluster.build import ensure_binaries
from lab.cluster.document import Doc, doc_at, docs_at, pairs_at, text_at
from lab.cluster.pod_view import Pod
from lab.cluster.process import wait_until
from lab.cluster.whereabouts import is_schedule
from tests.lab_cluster.conftest import PODS, Site

OWN = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system"
POOL = f"{OWN}/ippools/10.10.111.0-24"
"""As `IPPoolName` of pkg/storage/kubernetes/ipam.go names the pool of 10.10.111.0/24."""
IMAGE = "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4"


@pytest.fixture(scope="module")
def rails(site: Site) -> Site:
    """The pod network of two rails, without the reconciler."""
    documents = ensure_binaries()["multus-daemonset.yml"].read_text().split("\n---\n")
    (site.folder / "nad.yaml").write_text(
        next(text for text in documents if "CustomResourceDefinition" in text)
    )
    site.kubectl("apply", "-f", str(site.folder / "nad.yaml"))
    name = "crd/network-attachment-definitions.k8s.cni.cncf.io"
    site.kubectl("wait", "--for=condition=Established", name, "--timeout=20s")
    site.apply(load_vendored("components.pod_network", "whereabouts-crds-v0.9.4.json.gz"))
    site.kubectl("apply", "-f", str(Path(__file__).parent / "rails.yaml"))
    for node in ("gpu01", "gpu02"):
        wait_until(f"VFs of {node}", lambda n=node: vfs(site, n) == "4", 60)
    return site


def vfs(site: Site, node: str) -> str:
    found = site.api.find(f"/api/v1/nodes/{node}")
    return pairs_at(found, "status", "allocatable").get("intel.com/sriov_111", "")


def start(site: Site, name: str, node: str) -> str:
    """Start a pod on the rail; gives its address."""
    body: Doc = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"k8s.v1.cni.cncf.io/networks": "sriov111"},
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {
                    "name": "main",
                    "image": "i",
                    "resources": {"limits": {"intel.com/sriov_111": "1"}},
                }
            ],
        },
    }
    site.api.request("POST", PODS, body)
    path = f"{PODS}/{name}"
    wait_until(f"an address of {name}", lambda: bool(addresses(site, path)), 120)
    (address,) = addresses(site, path)
    return address


def addresses(site: Site, path: str) -> set[str]:
    return Pod(site.api.find(path) or {}).addresses()


def allocations(site: Site) -> dict[str, str]:
    """Offset in the pool to the pod that has it."""
    found = doc_at(site.api.find(POOL), "spec", "allocations")
    return {key: text_at(found, key, "podref") for key in found}


def is_down(site: Site, node: str) -> bool:
    conditions = docs_at(site.api.find(f"/api/v1/nodes/{node}"), "status", "conditions")
    return any(
        text_at(c, "type") == "Ready" and text_at(c, "status") == "Unknown" for c in conditions
    )


@pytest.mark.cluster
def test_addresses_of_a_lost_node_come_back_by_the_reconciler_alone(rails: Site) -> None:
    assert start(rails, "ends", "gpu01") == "10.10.111.1"
    assert start(rails, "lost", "gpu02") == "10.10.111.2"
    assert allocations(rails) == {"1": "default/ends", "2": "default/lost"}
    reserved = f"{OWN}/overlappingrangeipreservations/10.10.111.2"
    assert text_at(rails.api.find(reserved), "spec", "podref") == "default/lost"

    rails.delete(f"{PODS}/ends")
    wait_until("its own node to free it", lambda: allocations(rails) == {"2": "default/lost"}, 120)

    rails.stop("gpu02")
    wait_until("gpu02 to be down", lambda: is_down(rails, "gpu02"), 120)
    rails.delete(f"{PODS}/lost")
    assert start(rails, "next", "gpu01") == "10.10.111.1"
    assert start(rails, "further", "gpu01") == "10.10.111.3", "nobody freed the lost pod's"
    kept = {"1": "default/next", "2": "default/lost", "3": "default/further"}
    assert allocations(rails) == kept

    account = {"name": "whereabouts", "namespace": "kube-system"}
    rails.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}])
    schedule = config_map(RECONCILED, {"cron-expression": SCHEDULE})
    rails.apply([schedule, deployment(RECONCILER, IMAGE, strategy="Recreate")])
    wait_until("the reconciler", lambda: "2" not in allocations(rails), 120)
    assert allocations(rails) == {"1": "default/next", "3": "default/further"}
    wait_until("the reservation to follow", lambda: rails.api.find(reserved) is None, 120)
    assert start(rails, "last", "gpu01") == "10.10.111.2"


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (SCHEDULE, True),
        ("*/15 0-6,12 * * *", True),
        ("", False),
        ("daily", False),
        ("30 4 * *", False),
        ("30 24 * * *", False),
        ("75 4 * * *", False),
    ],
)
def test_only_a_cron_expression_is_a_schedule(text: str, *, valid: bool) -> None:
    assert is_schedule(text) is valid
