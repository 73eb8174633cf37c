"""nv-ipam: pools, blocks and labels of nodes, with the network operator and without it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.artefacts.listing import images_of
from components.checks.pod_networks import check_multus_owner
from components.model.cluster import ClusterSpec
from components.operators.operators_plan import node_labels, plan_operators
from components.pod_network.pod_network_plan import plan_pod_network
from components.pod_network.pools import plan_pools
from tests.pod_network.sites import make_site

NVIDIA = "nvcr.io/nvidia/mellanox"
OF_OPERATOR = {"network": {"chart": {"version": "26.4.1"}}}


def bodies(spec: ClusterSpec) -> dict[tuple[str, str], Any]:
    manifests = plan_pod_network(spec).manifests
    return {(m.kind, m.name): m.body for m in manifests}


def policy(spec: ClusterSpec) -> Any:  # noqa: ANN401 - a Kubernetes object
    return next(m.body for m in plan_operators(spec).gates if m.kind == "NicClusterPolicy")


def test_a_pool_is_a_rail_with_what_no_pod_gets() -> None:
    network = {
        "ipam": "nv-ipam",
        "exclusions": [{"rail": "rail-0", "first": "10.10.111.200", "last": "10.10.111.210"}],
    }
    spec = make_site("sriov", "roce", network=network)
    pool = bodies(spec)["IPPool", "sriov111"]
    assert pool["metadata"]["namespace"] == "kube-system"
    assert pool["spec"] == {
        "subnet": "10.10.111.0/24",
        "perNodeBlockSize": 16,
        "exclusions": [
            {"startIP": "10.10.111.254", "endIP": "10.10.111.254"},
            {"startIP": "10.10.111.200", "endIP": "10.10.111.210"},
        ],
        "nodeSelector": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {
                            "key": "pool.railyard.dev/sriov111",
                            "operator": "In",
                            "values": ["true"],
                        }
                    ]
                }
            ]
        },
    }
    found = json.loads(bodies(spec)["NetworkAttachmentDefinition", "sriov111"]["spec"]["config"])
    assert found["ipam"] == {"type": "nv-ipam", "poolName": "sriov111", "poolType": "ippool"}
    probe = bodies(spec)["NetworkAttachmentDefinition", "sriov111-probe"]["spec"]["config"]
    assert json.loads(probe)["ipam"]["addresses"] == [{"address": "10.10.111.254/24"}]


def test_the_gateway_is_in_the_pool_and_the_routes_go_by_it() -> None:
    rails = [
        {"name": "rail-0", "vlan": 111, "subnet": "10.10.111.0/24", "gateway": "10.10.111.1",
         "resource": "sriov_111", "network": "sriov111"},
        {"name": "rail-1", "vlan": 112, "subnet": "10.10.112.0/24",
         "resource": "sriov_112", "network": "sriov112"},
    ]  # fmt: skip
    routes = [{"rail": "rail-0", "to": "10.10.112.0/24"}]
    spec = make_site("sriov", "roce", network={"ipam": "nv-ipam", "routes": routes}, rails=rails)
    wanted = bodies(spec)["IPPool", "sriov111"]["spec"]
    assert (wanted["gateway"], wanted["routes"]) == ("10.10.111.1", [{"dst": "10.10.112.0/24"}])
    other = bodies(spec)["IPPool", "sriov112"]["spec"]
    assert not {"gateway", "routes"} & other.keys()


def test_blocks_follow_each_other_and_one_that_is_kept_is_left_out() -> None:
    kept = [{"rail": "rail-0", "first": "10.10.111.17", "last": "10.10.111.32"}]
    network = {"ipam": "nv-ipam", "addresses_per_node": 16, "exclusions": kept}
    pool = plan_pools(make_site("sriov", "roce", network=network))[0]
    found = [(str(first), free) for first, free in pool.blocks()]
    assert found[:3] == [("10.10.111.1", 16), ("10.10.111.33", 16), ("10.10.111.49", 16)]
    # The sixteenth block would hold the broadcast address.
    assert len(found) == 14
    assert found[-1] == ("10.10.111.225", 16)


def test_a_node_is_labelled_for_the_pools_of_its_rails() -> None:
    spec = make_site("sriov", "roce", network={"ipam": "nv-ipam"})
    labels = {"pool.railyard.dev/sriov111": "true", "pool.railyard.dev/sriov112": "true"}
    assert [node_labels(spec, host) for host in spec.hosts] == [{}, labels, labels]
    ipoib = make_site("ipoib", "infiniband", network={"ipam": "nv-ipam"})
    found = node_labels(ipoib, ipoib.workers[0])
    assert len([key for key in found if key.startswith("pool.railyard.dev/ib")]) == 8


def test_without_the_operator_its_own_objects_come() -> None:
    spec = make_site("sriov", "roce", network={"ipam": "nv-ipam"})
    found = bodies(spec)
    assert ("CustomResourceDefinition", "ippools.nv-ipam.nvidia.com") in found
    daemon = found["DaemonSet", "nv-ipam-node"]["spec"]["template"]["spec"]
    assert daemon["containers"][0]["image"] == "ghcr.io/mellanox/nvidia-k8s-ipam:v0.4.0"
    folders = {each["name"]: each["hostPath"]["path"] for each in daemon["volumes"]}
    assert folders["cnibin"] == "/var/lib/rancher/k3s/data/cni"
    assert folders["cniconf"] == "/var/lib/rancher/k3s/agent/etc/cni/net.d/nv-ipam.d"
    assert "--ippools-namespace=$(POD_NAMESPACE)" in daemon["containers"][0]["args"]
    assert ("Deployment", "nv-ipam-controller") in found
    assert ("DaemonSet", "whereabouts") not in found
    groups = [m.group for m in plan_pod_network(spec).manifests if m.kind == "IPPool"]
    assert groups == [2, 2]
    images = [image for image, _ in images_of(spec)]
    assert "ghcr.io/mellanox/nvidia-k8s-ipam:v0.4.0" in images


@pytest.mark.parametrize(
    ("way", "transport", "brought", "own"),
    [
        ("sriov", "roce", {"cniPlugins", "multus"}, {"sriov-cni"}),
        ("sriov", "infiniband", {"cniPlugins", "multus"}, {"ib-sriov-cni"}),
        ("macvlan", "roce", {"cniPlugins", "multus"}, set[str]()),
        ("ipoib", "infiniband", {"cniPlugins", "multus", "ipoib"}, set[str]()),
    ],
)
def test_with_the_operator_its_policy_brings_them(
    way: Any,  # noqa: ANN401 - a pod network
    transport: str,
    brought: set[str],
    own: set[str],
) -> None:
    network = {"ipam": "nv-ipam", "multus": "operator"}
    spec = make_site(way, transport, network=network, operators=OF_OPERATOR)
    wanted = policy(spec)["spec"]
    assert set(wanted["secondaryNetwork"]) == brought
    assert wanted["secondaryNetwork"]["multus"] == {
        "image": "multus-cni",
        "repository": NVIDIA,
        "version": "network-operator-v26.4.1",
    }
    assert wanted["nvIpam"]["image"] == "nvidia-k8s-ipam"
    assert wanted["nvIpam"]["enableWebhook"] is False
    found = bodies(spec)
    assert {name for kind, name in found if kind == "DaemonSet"} == own
    assert not [name for kind, name in found if kind == "CustomResourceDefinition"]
    pools = {body["metadata"]["namespace"] for (kind, _), body in found.items() if kind == "IPPool"}
    assert pools == {"nvidia-network-operator"}
    images = [image for image, _ in images_of(spec)]
    assert f"{NVIDIA}/nvidia-k8s-ipam:network-operator-v26.4.1" in images
    assert f"{NVIDIA}/multus-cni:network-operator-v26.4.1" in images
    assert not [
        image for image in images if image.startswith("ghcr.io/k8snetworkplumbingwg/multus")
    ]


def test_dhcp_has_its_daemon_under_the_operator_too() -> None:
    rails = [
        {"name": f"rail-{n}", "vlan": 111 + n, "subnet": f"10.10.{111 + n}.0/24",
         "dhcp_server": f"10.10.{111 + n}.2", "resource": f"sriov_{111 + n}",
         "network": f"sriov{111 + n}"}
        for n in range(2)
    ]  # fmt: skip
    network = {"ipam": "dhcp", "multus": "operator"}
    spec = make_site("sriov", "roce", network=network, operators=OF_OPERATOR, rails=rails)
    sets = {name for kind, name in bodies(spec) if kind == "DaemonSet"}
    assert sets == {"sriov-cni", "dhcp-cni"}
    assert "nvIpam" not in policy(spec)["spec"]


def test_the_definition_of_attachments_is_the_charts_where_there_is_one() -> None:
    """The real plugin refuses to make an object that is there, and the chart comes first."""
    name = ("CustomResourceDefinition", "network-attachment-definitions.k8s.cni.cncf.io")
    assert name in bodies(make_site("sriov", "roce"))
    spec = make_site("sriov", "roce", operators=OF_OPERATOR)
    assert name not in bodies(spec)
    assert ("DaemonSet", "multus") in bodies(spec)


def on_existing(**components: str) -> dict[str, Any]:
    """A cluster that is there, with parts of others."""
    return {
        "kubernetes": {
            "plane": "existing",
            "version": "v1.34.9",
            "kubeconfig": {"secret": "kubeconfig"},
            "components": components,
        }
    }


def test_multus_of_others_and_of_the_policy_contradict_each_other() -> None:
    network = {"multus": "operator"}
    more = {"operators": OF_OPERATOR, **on_existing(multus="theirs")}
    spec = make_site("sriov", "roce", "existing", network, **more)
    (found,) = check_multus_owner(spec)
    assert found.what == ("multus is operator, but kubernetes.components says theirs.")
    assert found.fix == "remove one of the two."


def test_nv_ipam_of_others_is_taken_and_has_our_pools() -> None:
    network = {"ipam": "nv-ipam"}
    spec = make_site("sriov", "roce", "existing", network, **on_existing(nv_ipam="theirs"))
    made = bodies(spec)
    assert ("IPPool", "sriov111") in made
    assert not [name for _, name in made if "nv-ipam" in name or "nv-ipam.nvidia.com" in name]
