"""The owner of a cluster that exists already: a host of the lab, and not of the site."""

from __future__ import annotations

import pytest

from components.core.errors import UsageError
from components.model.cluster import ClusterSpec
from lab.cluster.artefact import checksums
from lab.existing import MEMLOCK, OWNER, by_hand, image_steps, with_owner
from lab.existing_parts import parts_of_owner
from lab.site import k3s_source, lab_file, load_document, overlay
from tests.golden.site import EXAMPLES, changed_spec
from tests.lab.test_site import PLACES

SOURCE = k3s_source({"k3s": "0" * 64, "install.sh": "1" * 64})
STACK = "shared-rdma"
RUNNING = {"DaemonSet", "Deployment"}


def relocated(file: str) -> ClusterSpec:
    document = load_document(EXAMPLES / STACK / file)
    return ClusterSpec.model_validate(overlay(document, STACK, checksums()))


def test_a_site_with_its_own_cluster_has_no_other_owner() -> None:
    assert with_owner(relocated("site.yaml"), STACK, SOURCE) is None


def test_a_cluster_that_the_lab_does_not_play_is_refused_by_its_name() -> None:
    spec = relocated("theirs.yaml")
    assert spec.kubernetes is not None
    plane = spec.kubernetes.model_copy(update={"distribution": "aks"})
    with pytest.raises(UsageError, match=r"installs k3s or kubespray.*v1\.36\.3 of aks\."):
        with_owner(changed_spec(spec, kubernetes=plane), STACK, SOURCE)


def test_the_nodes_of_kubespray_have_their_own_names_folders_and_taints() -> None:
    spec = relocated("theirs.yaml")
    found = with_owner(spec, STACK, SOURCE)
    assert found is not None
    owned, plan = found
    nodes = [f"node={host}.dc1.example.com\n" for host in ("node03", "node04")]
    for steps in (plan.agents, plan.nodes):
        for node, step in zip(nodes, steps, strict=True):
            assert node in step.desired
    assert plan.version == "v1.36.3+k3s1", "the program of the lab; the file says v1.36.3"
    hands = by_hand(spec, owned)
    assert hands.keys() == {OWNER, "node03", "node04"}
    for line in (
        "mkdir -p /etc/rancher/k3s/config.yaml.d /etc/cni/net.d /opt/cni/bin\n",
        "node-name: node03.dc1.example.com\n",
        "- lab.railyard.dev/distribution=kubespray\n",
        "- lab.railyard.dev/kubelet=v1.36.3\n",
        "node-taint:\n- nvidia.com/gpu=present:NoSchedule\n",
        "LimitMEMLOCK=infinity",
    ):
        assert line in hands["node03"]
    assert "node-name" not in hands[OWNER]
    assert "node-taint" not in hands[OWNER]
    k3s = relocated("existing.yaml")
    assert by_hand(k3s, k3s) == {"node03": MEMLOCK, "node04": MEMLOCK}


def test_the_owner_brings_what_the_site_calls_theirs_and_no_more() -> None:
    assert parts_of_owner(relocated("existing.yaml")) == ()
    parts = parts_of_owner(relocated("theirs.yaml"))
    assert [f"{each.kind} {each.name}" for each in parts if each.kind in RUNNING] == [
        "DaemonSet multus",
        "DaemonSet whereabouts",
        "Deployment whereabouts-reconciler",
        "DaemonSet macvlan-cni",
        "DaemonSet rdma-shared-dp-ds",
        "Deployment mpi-operator",
    ]
    assert {each.name for each in parts if each.kind == "CustomResourceDefinition"} == {
        "network-attachment-definitions.k8s.cni.cncf.io",
        "ippools.whereabouts.cni.cncf.io",
        "overlappingrangeipreservations.whereabouts.cni.cncf.io",
        "mpijobs.kubeflow.org",
    }
    assert not [each for each in parts if each.kind == "NetworkAttachmentDefinition"]


def test_the_owner_logs_in_where_railyard_does_not() -> None:
    spec = relocated("without-ssh.yaml")
    assert [host.ssh for host in spec.hosts] == [None, None]
    found = with_owner(spec, STACK, SOURCE)
    assert found is not None
    lab = lab_file(found[0], STACK, PLACES)
    assert [host.name for host in lab.hosts] == [OWNER, "node03", "node04"]
    assert len({host.address for host in lab.hosts}) == 3
    image = image_steps(spec, found[0], STACK)
    assert [step.name for step in image] == ["node03-host", "node04-host"]
    assert all("nic.0000:58:00.0.mtu_bytes=9000\n" in step.desired for step in image)
    reached = relocated("existing.yaml")
    assert image_steps(reached, reached, STACK) == ()


def test_the_owner_installs_on_the_workers_of_the_site() -> None:
    spec = relocated("existing.yaml")
    found = with_owner(spec, STACK, SOURCE)
    assert found is not None
    owned, plan = found
    assert [step.endpoint.device for step in (*plan.servers, *plan.agents)] == [
        OWNER,
        *(host.name for host in spec.workers),
    ]
    assert spec.kubernetes is not None
    assert plan.version == spec.kubernetes.version
    lab = lab_file(owned, STACK, PLACES)
    assert [host.name for host in lab.hosts] == [OWNER, *(host.name for host in spec.hosts)]
    assert len({host.address for host in lab.hosts}) == len(lab.hosts)
