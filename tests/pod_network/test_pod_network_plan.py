"""The pod network of the example: relations between its objects, and golden manifests."""

from __future__ import annotations

import json
from ipaddress import IPv4Address
from typing import Any

import pytest
import yaml

from components.core.errors import SpecError
from components.kubernetes.manifest import Manifest
from components.model.cluster import ClusterSpec
from components.pod_network.pod_network_plan import plan_pod_network
from components.pod_network.rails import probe_address
from tests.golden.site import changed_spec, load_example
from tests.pod_network.sites import make_site, plugin_config


@pytest.fixture
def spec() -> ClusterSpec:
    return load_example("dgx-roce")


def of_kind(spec: ClusterSpec, kind: str) -> list[Any]:
    return [m.body for m in plan_pod_network(spec).manifests if m.kind == kind]


def as_text(manifests: tuple[Manifest, ...]) -> str:
    return yaml.safe_dump_all([manifest.body for manifest in manifests], sort_keys=True)


def test_groups_never_fall_and_resource_names_are_unique(spec: ClusterSpec) -> None:
    manifests = plan_pod_network(spec).manifests
    groups = [manifest.group for manifest in manifests]
    assert groups == sorted(groups)
    assert len({manifest.resource_name for manifest in manifests}) == len(manifests)


def test_the_seeds_resources_and_attachments_are_there(spec: ClusterSpec) -> None:
    names = [body["metadata"]["name"] for body in of_kind(spec, "NetworkAttachmentDefinition")]
    assert names == ["sriov111", "sriov111-probe", "sriov112", "sriov112-probe"]
    config = json.loads(plugin_config(spec)["data"]["config.json"])
    assert config["resourceList"][0] == {
        "resourceName": "sriov_111",
        "resourcePrefix": "intel.com",
        "selectors": [
            {"vendors": ["15b3"], "devices": ["1018"], "pfNames": ["enp5s0"], "isRdma": True}
        ],
    }


def test_attachment_resource_and_rail_agree(spec: ClusterSpec) -> None:
    published = {
        f"{entry['resourcePrefix']}/{entry['resourceName']}"
        for entry in json.loads(plugin_config(spec)["data"]["config.json"])["resourceList"]
    }
    for body in of_kind(spec, "NetworkAttachmentDefinition"):
        name = body["metadata"]["name"]
        rail = next(rail for rail in spec.rails if name.startswith(rail.network))
        config = json.loads(body["spec"]["config"])
        resource = body["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"]
        assert resource in published
        assert resource == f"intel.com/{rail.resource}"
        assert config["vlan"] == rail.vlan
        assert config["ipam"]["range"] == str(rail.subnet)
        assert config["name"] == name
        assert (config["spoofchk"], config["trust"]) == ("off", "on")
        assert "vlanQoS" not in config


def test_jobs_never_get_the_address_of_the_probes_server(spec: ClusterSpec) -> None:
    bodies = {b["metadata"]["name"]: b for b in of_kind(spec, "NetworkAttachmentDefinition")}
    for rail in spec.rails:
        jobs = json.loads(bodies[rail.network]["spec"]["config"])["ipam"]
        probe = json.loads(bodies[f"{rail.network}-probe"]["spec"]["config"])["ipam"]
        assert jobs["exclude"] == [f"{probe['range_start']}/32"]
        assert probe["range_start"] == probe["range_end"] == str(probe_address(rail.subnet))
        assert IPv4Address(probe["range_start"]) in rail.subnet


def test_every_image_has_an_exact_version(spec: ClusterSpec) -> None:
    text = as_text(plan_pod_network(spec).manifests)
    images = [line.split("image: ")[1] for line in text.splitlines() if " image: " in line]
    assert len(images) == 6
    assert all(image.rpartition(":v")[2].count(".") == 2 for image in images)


def test_cni_parts_use_the_folders_of_k3s(spec: ClusterSpec) -> None:
    folders = {
        volume["hostPath"]["path"]
        for body in of_kind(spec, "DaemonSet")
        for volume in body["spec"]["template"]["spec"]["volumes"]
        if "hostPath" in volume and "cni" in volume["name"]
    }
    assert folders == {
        "/var/lib/rancher/k3s/data/cni",
        "/var/lib/rancher/k3s/agent/etc/cni/net.d",
    }


def test_a_changed_configuration_restarts_the_device_plugin(spec: ClusterSpec) -> None:
    def name(site: ClusterSpec) -> str:
        plugin = of_kind(site, "DaemonSet")[-1]
        assert plugin["metadata"]["name"] == "sriov-device-plugin"
        volumes = plugin["spec"]["template"]["spec"]["volumes"]
        (name,) = (each["configMap"]["name"] for each in volumes if "configMap" in each)
        config = plugin_config(site)
        assert (config["metadata"]["name"], config["immutable"]) == (name, True)
        return name

    prefix = spec.pod_network.model_copy(update={"resource_prefix": "nvidia.com"})
    assert name(spec) != name(changed_spec(spec, pod_network=prefix))


def test_another_pod_mtu_is_set_by_a_chained_plugin(spec: ClusterSpec) -> None:
    smaller = changed_spec(
        spec, pod_network=spec.pod_network.model_copy(update={"mtu_bytes": 4200})
    )
    config = json.loads(of_kind(smaller, "NetworkAttachmentDefinition")[0]["spec"]["config"])
    assert [plugin["type"] for plugin in config["plugins"]] == ["sriov", "tuning"]
    assert config["plugins"][1]["mtu"] == 4200


def test_ipoib_has_no_key_for_the_mtu_and_gets_it_by_the_chained_plugin() -> None:
    site = make_site("ipoib", "infiniband", network={"mtu_bytes": 2044})
    config = json.loads(of_kind(site, "NetworkAttachmentDefinition")[0]["spec"]["config"])
    main, tuning = config["plugins"]
    assert {*main} == {"type", "master", "ipam"}, "NetConf of ipoib-cni v1.2.2, and Multus' own"
    assert tuning == {"type": "tuning", "mtu": 2044}
    assert "tuning-cni" in {each["metadata"]["name"] for each in of_kind(site, "DaemonSet")}


def test_the_reconciler_of_whereabouts_runs_beside_its_daemons(spec: ClusterSpec) -> None:
    (reconciler,) = of_kind(spec, "Deployment")
    pod = reconciler["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (daemons,) = (x for x in of_kind(spec, "DaemonSet") if x["metadata"]["name"] == "whereabouts")
    assert container["command"] == ["/ip-reconciler"], "doc/crds/reconciler-deployment.yaml, v0.9.4"
    assert container["image"] == daemons["spec"]["template"]["spec"]["containers"][0]["image"]
    assert container["volumeMounts"] == [
        {"name": "cron-scheduler-configmap", "mountPath": "/cron-schedule"}
    ]
    (volume,) = pod["volumes"]
    (schedule,) = (x for x in of_kind(spec, "ConfigMap") if "cron-expression" in x["data"])
    assert volume["configMap"] == {
        "name": schedule["metadata"]["name"],
        "items": [{"key": "cron-expression", "path": "config"}],
    }
    assert reconciler["spec"]["replicas"] == 1, "none leads"
    assert reconciler["spec"]["strategy"] == {"type": "Recreate"}


def test_one_pf_name_on_two_rails_is_refused(spec: ClusterSpec) -> None:
    gpu02 = spec.hosts[2]
    first, second = gpu02.nics
    swapped = gpu02.model_copy(
        update={
            "nics": (
                first.model_copy(update={"rail": second.rail}),
                second.model_copy(update={"rail": first.rail}),
            )
        }
    )
    with pytest.raises(SpecError, match="enp5s0 is rail-1 on gpu02 and rail-0 on another host"):
        plan_pod_network(changed_spec(spec, hosts=(*spec.hosts[:2], swapped)))


@pytest.mark.parametrize("example", ["dgx-roce", "shared-rdma"])
def test_no_pod_gets_the_address_of_a_card(example: str) -> None:
    spec = load_example(example)
    rail = spec.rails[0]
    hosts = tuple(
        host.model_copy(
            update={
                "nics": tuple(
                    nic.model_copy(update={"address": str(rail.subnet[number])})
                    for nic in host.nics
                    if nic.rail == rail.name
                )
            }
        )
        for number, host in enumerate(spec.hosts, 1)
    )
    bodies = of_kind(changed_spec(spec, hosts=hosts), "NetworkAttachmentDefinition")
    [config] = [b["spec"]["config"] for b in bodies if b["metadata"]["name"] == rail.network]
    cards = [nic.address for host in hosts for nic in host.nics]
    assert len(cards) > 1
    assert all(f'"{address}/32"' in config for address in cards)


def test_no_pod_gets_the_address_of_the_gateway(spec: ClusterSpec) -> None:
    first = spec.rails[0].subnet.network_address + 1
    rails = (spec.rails[0].model_copy(update={"gateway": first}), spec.rails[1])
    routed = changed_spec(spec, rails=rails)
    bodies = {b["metadata"]["name"]: b for b in of_kind(routed, "NetworkAttachmentDefinition")}
    kept = {
        rail.name: json.loads(bodies[rail.network]["spec"]["config"])["ipam"]["exclude"]
        for rail in rails
    }
    assert kept == {
        "rail-0": [f"{probe_address(rails[0].subnet)}/32", f"{first}/32"],
        "rail-1": [f"{probe_address(rails[1].subnet)}/32"],
    }
