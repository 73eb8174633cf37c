"""The RDMA shared device plugin and macvlan, as the notes of the shared-rdma site have them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.core.errors import SpecError
from components.kubernetes.manifest import Manifest
from components.kubernetes.objects import GpuReady
from components.model.cluster import ClusterSpec
from components.pod_network import PodNetwork
from components.pod_network.networks import shared_plugin_config
from components.pod_network.pod_network_plan import PodNetworkPlan, plan_pod_network
from components.testing import record_program
from tests.golden.site import changed_spec, load_example
from tests.graph.test_components import RUN, access, waits_for_what_was_before
from tests.pod_network.sites import plugin_config
from tests.pod_network.test_existing_cluster import existing


@pytest.fixture
def spec() -> ClusterSpec:
    return load_example("shared-rdma")


def changed_network(spec: ClusterSpec, **changes: Any) -> ClusterSpec:  # noqa: ANN401 - keys of the model
    return changed_spec(spec, pod_network=spec.pod_network.model_copy(update=changes))


def of_kind(spec: ClusterSpec, kind: str) -> list[Any]:
    return [m.body for m in plan_pod_network(spec).manifests if m.kind == kind]


def daemon_sets(spec: ClusterSpec) -> dict[str, Any]:
    return {body["metadata"]["name"]: body for body in of_kind(spec, "DaemonSet")}


def test_the_configuration_is_that_of_the_notes_and_arenas_name(spec: ClusterSpec) -> None:
    entry = {"rdmaHcaMax": 500, "selectors": {"deviceIDs": ["101b"]}}
    assert json.loads(shared_plugin_config(spec)) == {
        "periodicUpdateInterval": 300,
        "configList": [
            {"resourceName": "hca_shared_devices_b", **entry},
            {"resourceName": "hca", **entry},
        ],
    }
    other = json.loads(shared_plugin_config(changed_network(spec, resource_prefix="example.com")))
    assert {e["resourcePrefix"] for e in other["configList"]} == {"example.com"}


def test_the_plugin_is_deployed_as_in_the_notes_but_pinned(spec: ClusterSpec) -> None:
    body = daemon_sets(spec)["rdma-shared-dp-ds"]
    pod = body["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert body["metadata"]["namespace"] == "kube-system"
    assert (pod["hostNetwork"], pod["priorityClassName"]) == (True, "system-node-critical")
    assert container["image"] == "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3"
    assert container["securityContext"] == {"privileged": True}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {
        "device-plugin": "/var/lib/kubelet/device-plugins",
        "plugins-registry": "/var/lib/kubelet/plugins_registry",
        "config": "/k8s-rdma-shared-dev-plugin",
        "devs": "/dev/",
    }
    config = plugin_config(spec)
    assert config["immutable"] is True
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]


def test_a_changed_configuration_restarts_the_plugin(spec: ClusterSpec) -> None:
    def name(site: ClusterSpec) -> str:
        config = plugin_config(site)
        return config["metadata"]["name"]

    assert name(spec).startswith("rdma-devices-")
    assert name(spec) != name(changed_network(spec, periodic_update_s=60))


def test_each_rail_has_a_macvlan_on_its_card(spec: ClusterSpec) -> None:
    jobs, probe = of_kind(spec, "NetworkAttachmentDefinition")
    config = json.loads(jobs["spec"]["config"])
    assert (
        config.items()
        >= {
            "type": "macvlan",
            "master": "enp88s0",
            "mode": "bridge",
            "mtu": 9000,
            "name": "macvlan156",
        }.items()
    )
    assert config["ipam"]["exclude"] == ["10.106.156.254/32"]
    server = json.loads(probe["spec"]["config"])["ipam"]
    assert server["range_start"] == server["range_end"] == "10.106.156.254"
    # macvlan takes no device: Multus must not look for one.
    assert "annotations" not in jobs["metadata"]


def test_macvlan_is_brought_alone_to_where_k3s_looks(spec: ClusterSpec) -> None:
    pod = daemon_sets(spec)["macvlan-cni"]["spec"]["template"]["spec"]
    assert pod["volumes"][0]["hostPath"] == {"path": "/var/lib/rancher/k3s/data/cni"}
    script = pod["containers"][0]["command"][2]
    assert "/usr/src/cni/bin/macvlan" in script
    assert "bin/*" not in script


def test_an_mtu_of_the_pods_brings_its_plugin_to_k3s_and_to_no_other() -> None:
    ours = load_example("dgx-roce")
    assert "tuning-cni" not in daemon_sets(ours)
    pod = daemon_sets(changed_network(ours, mtu_bytes=4200))["tuning-cni"]["spec"]["template"]
    script = pod["spec"]["containers"][0]["command"][2]
    assert "cp /usr/src/cni/bin/tuning /host/opt/cni/bin/" in script
    foreign = changed_network(existing("v1.33.4"), mtu_bytes=4200)
    assert "tuning-cni" not in daemon_sets(foreign)


def test_in_the_hosts_network_there_is_only_the_plugin(spec: ClusterSpec) -> None:
    manifests = plan_pod_network(changed_network(spec, host_network=True)).manifests
    assert [m.kind for m in manifests] == ["ConfigMap", "DaemonSet"]


def test_groups_never_fall_and_resource_names_are_unique(spec: ClusterSpec) -> None:
    manifests: tuple[Manifest, ...] = plan_pod_network(spec).manifests
    groups = [manifest.group for manifest in manifests]
    assert groups == sorted(groups)
    assert len({manifest.resource_name for manifest in manifests}) == len(manifests)


def test_two_names_of_one_rails_card_are_refused(spec: ClusterSpec) -> None:
    last = spec.hosts[-1]
    nic = last.nics[0].model_copy(update={"netdev": "ens6f0"})
    hosts = (*spec.hosts[:-1], last.model_copy(update={"nics": (nic,)}))
    with pytest.raises(SpecError, match="enp88s0 on node03, ens6f0 on node04"):
        plan_pod_network(changed_spec(spec, hosts=hosts))


@pytest.mark.parametrize("name", ["crusoe-k3s", "esxi-roce"])
def test_other_sites_need_no_pod_network(name: str) -> None:
    assert plan_pod_network(load_example(name)) == PodNetworkPlan(())


def test_an_empty_pod_network_still_waits_for_the_operators() -> None:
    def program() -> None:
        cluster = access()
        PodNetwork("my-network", PodNetworkPlan(()), GpuReady(cluster.gate, cluster))

    graph = record_program(RUN, program)
    assert waits_for_what_was_before(graph)
    assert graph.named("my-network-ready").dependencies == ("before",)
