"""A cluster with an owner: the parts that are there are taken, used and proven, and not touched."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Any, Final, cast

import pytest

from lab.cluster.build import ensure_binaries
from lab.existing_parts import KUBECONFIG
from tests.site.conftest import play_example
from tests.site.playground import Done, Playground, run

pytestmark = pytest.mark.story

EXAMPLE: Final = "shared-rdma/theirs.yaml"
PROBES: Final = (
    "perftest-rail-0-node03-node04",
    "nccl-all-reduce",
    "deepspeed-scan",
    "memlock node03",
    "allocatable node03",
    "allocatable node04",
)
KINDS: Final = (
    "clusterpolicies.nvidia.com",
    "clusterroles",
    "clusterrolebindings",
    "configmaps",
    "customresourcedefinitions",
    "daemonsets",
    "deployments",
    "mutatingadmissionpolicies",
    "namespaces",
    "network-attachment-definitions",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "secrets",
    "serviceaccounts",
    "services",
)
PARTS: Final = {
    "DaemonSet kube-system/multus",
    "DaemonSet kube-system/whereabouts",
    "DaemonSet kube-system/macvlan-cni",
    "DaemonSet kube-system/rdma-shared-dp-ds",
    "DaemonSet gpu-operator/gpu-operator-node-feature-discovery-worker",
    "Deployment gpu-operator/gpu-operator",
    "Deployment mpi-operator/mpi-operator",
    "ClusterPolicy cluster-policy",
    "CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io",
    "CustomResourceDefinition mpijobs.kubeflow.org",
}
"""Some of what the owner had brought; all of it is compared."""
OURS: Final = {
    "ConfigMap default/deepspeed-helloworld",
    "Deployment default/tensorboard",
    "NetworkAttachmentDefinition default/macvlan156",
    "NetworkAttachmentDefinition default/macvlan156-probe",
    "PersistentVolume training-data-pv",
    "PersistentVolumeClaim default/training-data",
    "Service default/tensorboard",
}
"""All that an update makes beside the labels of the nodes."""
OF_SERVER: Final = {"generation", "managedFields", "resourceVersion"}


@pytest.fixture(scope="module")
def site(mark: str) -> Generator[Playground]:
    """The lab with the owner's cluster, before anything of Railyard was applied."""
    with play_example(mark, EXAMPLE) as site:
        yield site


def kubectl(site: Playground, *arguments: str) -> Done:
    """The owner at a shell."""
    flags = ("--kubeconfig", str(site.lab / KUBECONFIG))
    environment = {"HOME": str(site.lab / "owner"), "PATH": "/usr/bin:/bin"}
    return run([str(ensure_binaries()["kubectl"]), *flags, *arguments], environment)


def objects(site: Playground) -> dict[str, dict[str, Any]]:
    """Every object of KINDS, with its uid, without what controllers write into each one."""
    asked = ("get", ",".join(KINDS), "--all-namespaces", "--output", "json")
    listed = json.loads(kubectl(site, *asked, "--show-managed-fields").must())
    return {_name(each): each for each in listed["items"]}


def _name(body: dict[str, Any]) -> str:
    place = f"{body['metadata']['namespace']}/" if "namespace" in body["metadata"] else ""
    return f"{body['kind']} {place}{body['metadata']['name']}"


def as_owned(body: dict[str, Any]) -> dict[str, Any]:
    """What its owner wrote, and which object it is."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in OF_SERVER}
    return {key: value for key, value in body.items() if key != "status"} | {"metadata": metadata}


def managers(body: dict[str, Any]) -> set[str]:
    fields = cast("list[dict[str, str]]", body["metadata"].get("managedFields", []))
    return {each["manager"] for each in fields}


def touched(now: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> set[str]:
    """Objects that were there and are others now, or that Pulumi wrote into."""
    return {
        name
        for name, body in before.items()
        if as_owned(now.get(name, {"metadata": {}})) != as_owned(body)
        or any(each.startswith("pulumi") for each in managers(now[name]))
    }


def settings(site: Playground) -> dict[str, object]:
    """All devices, but for who needs a tool: the lab's owner sends its own by Railyard's sender."""
    devices = cast("dict[str, dict[str, Any]]", site.settings())
    for host in devices["hosts"].values():
        files = cast("dict[str, str]", host["files"])
        host["files"] = {path: each for path, each in files.items() if "/needed-by." not in path}
    return cast("dict[str, object]", devices)


@pytest.mark.timeout(3600)  # four commands of an engine: minutes where the cores are shared
def test_what_is_theirs_is_taken_and_given_back_untouched(site: Playground) -> None:
    before, devices = objects(site), settings(site)
    assert before.keys() >= PARTS
    nodes = {name for name in before if name.startswith("Node ")}
    assert nodes == {"Node owner01", *(f"Node node0{n}.dc1.example.com" for n in (3, 4))}

    first = site.up().must()
    for probe in PROBES:
        assert re.search(rf"^PASSED +{probe} ", first, re.MULTILINE), first
    assert "acceptance passed" in first
    there = objects(site)
    assert there.keys() - before.keys() == OURS
    assert touched(there, before) == nodes - {"Node owner01"}, "they have our labels"
    assert "rdma" in there["Node node03.dc1.example.com"]["metadata"]["labels"]

    assert site.preview().quiet
    site.railyard("drift", site.stack).must()
    kubectl(site, "delete", "network-attachment-definition", "macvlan156").must()
    lost = site.railyard("drift", site.stack).must(3)
    assert "NetworkAttachmentDefinition default/macvlan156 is absent, want there" in lost
    assert "acceptance passed" in site.up().must()
    assert touched(objects(site), before) == nodes - {"Node owner01"}

    site.pulumi("destroy", "--yes", "--skip-preview").must()
    after = objects(site)
    assert after.keys() == before.keys()
    assert touched(after, before) == set()
    assert settings(site) == devices
    assert not site.resources()
    assert not site.strays()
