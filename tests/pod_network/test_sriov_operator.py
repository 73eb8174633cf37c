"""VFs and firmware by the network operator, and what the hosts let go of then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.core.key_values import parse_state
from components.fabric.network_plan import plan_subnet
from components.hosts.host_plan import plan_hosts
from components.model.cluster import ClusterSpec
from components.operators.operators_plan import node_labels, plan_operators
from components.pod_network.attachment import expected_allocatable
from components.pod_network.pod_network_plan import plan_pod_network
from tests.pod_network.sites import make_site

OF_HOSTS = {"network": {"chart": {"version": "26.4.1"}}}
VFS = {"network": {"chart": {"version": "26.4.1"}, "vfs": "operator"}}
FIRMWARE = {"network": {"chart": {"version": "26.4.1"}, "firmware": "operator"}}
MANAGED: dict[str, Any] = {
    "user": {"name": "nvidia", "uid": 1000},
    "driver": {"kind": "present"},
    "firmware": {"manage": True, "relaxed_ordering": True},
}


def bodies(spec: ClusterSpec) -> dict[tuple[str, str], Any]:
    return {(m.kind, m.name): m.body for m in plan_pod_network(spec).manifests}


def worker_keys(spec: ClusterSpec) -> set[str]:
    plan = next(each for each in plan_hosts(spec, "dev") if each.name == "gpu01")
    return set(parse_state(plan.converge.desired).values)


def test_a_policy_for_each_rail_by_its_root_devices() -> None:
    spec = make_site("sriov", "roce", operators=VFS)
    found = bodies(spec)
    policy = found["SriovNetworkNodePolicy", "rail-0-8-9000"]
    assert policy["metadata"]["namespace"] == "nvidia-network-operator"
    assert policy["spec"] == {
        "resourceName": "sriov_111",
        "nodeSelector": {"vfs.railyard.dev/rail-0": "8-9000"},
        "nicSelector": {"vendor": "15b3", "rootDevices": ["0000:05:00.0"]},
        "numVfs": 8,
        "mtu": 9000,
        "linkType": "eth",
        "deviceType": "netdevice",
        "isRdma": True,
        "priority": 90,
    }
    labels = node_labels(spec, spec.workers[0])
    assert labels == {
        "vfs.railyard.dev/rail-0": "8-9000",
        "vfs.railyard.dev/rail-1": "8-9000",
    }
    assert expected_allocatable(spec)["gpu01"] == {
        "nvidia.com/sriov_111": 8,
        "nvidia.com/sriov_112": 8,
    }


def test_another_number_of_vfs_is_another_policy() -> None:
    spec = make_site("sriov", "roce", operators=VFS)
    nics = tuple(nic.model_copy(update={"vfs": 4}) for nic in spec.workers[1].nics)
    hosts = tuple(
        host.model_copy(update={"nics": nics}) if host.name == "gpu02" else host
        for host in spec.hosts
    )
    names = {name for kind, name in bodies(spec.model_copy(update={"hosts": hosts}))
             if kind == "SriovNetworkNodePolicy"}  # fmt: skip
    assert names == {"rail-0-8-9000", "rail-0-4-9000", "rail-1-8-9000", "rail-1-4-9000"}


def test_the_operator_makes_the_attachments_of_its_networks() -> None:
    network = {"mtu_bytes": 4200, "rdma_isolation": True}
    spec = make_site("sriov", "roce", network=network, operators=VFS)
    found = bodies(spec)
    assert not [name for kind, name in found if kind == "NetworkAttachmentDefinition"]
    wanted = found["SriovNetwork", "sriov111"]["spec"]
    assert (wanted["vlan"], wanted["spoofChk"], wanted["trust"]) == (111, "off", "on")
    assert (wanted["resourceName"], wanted["networkNamespace"]) == ("sriov_111", "default")
    assert json.loads(wanted["ipam"])["range"] == "10.10.111.0/24"
    assert json.loads(f"[{wanted['metaPlugins']}]") == [
        {"type": "tuning", "mtu": 4200},
        {"type": "rdma"},
    ]
    probe = found["SriovNetwork", "sriov111-probe"]["spec"]
    assert json.loads(probe["ipam"])["range_start"] == "10.10.111.254"


def test_on_infiniband_the_networks_have_no_vlan() -> None:
    network = {"rdma_isolation": True}
    spec = make_site("sriov", "infiniband", network=network, operators=VFS)
    found = bodies(spec)
    wanted = found["SriovIBNetwork", "ib0"]["spec"]
    assert json.loads(wanted["metaPlugins"]) == {"type": "rdma"}
    assert wanted["linkState"] == "enable"
    assert not {"vlan", "spoofChk", "trust"} & wanted.keys()
    policy = found["SriovNetworkNodePolicy", "rail-0-8"]["spec"]
    assert policy["linkType"] == "ib"
    assert "mtu" not in policy


def test_what_the_operator_brings_is_not_brought_twice() -> None:
    spec = make_site("sriov", "roce", network={"rdma_isolation": True}, operators=VFS)
    assert {name for kind, name in bodies(spec) if kind == "DaemonSet"} == {
        "multus",
        "whereabouts",
    }
    plan = plan_operators(spec)
    policy: Any = next(m.body for m in plan.gates if m.kind == "NicClusterPolicy")
    assert "sriovDevicePlugin" not in policy["spec"]
    values: Any = plan.charts[0].values
    assert values["sriovNetworkOperator"] == {"enabled": True}
    assert values["sriov-network-operator"] == {
        "operator": {"resourcePrefix": "nvidia.com", "cniBinPath": "/var/lib/rancher/k3s/data/cni"},
        "sriovOperatorConfig": {"deploy": True, "disablePlugins": ["mellanox"]},
    }


@pytest.mark.parametrize("transport", ["roce", "infiniband"])
def test_the_host_lets_go_of_vfs_and_their_mtu(transport: str) -> None:
    port = "0000:05:00.0" if transport == "roce" else "0000:18:00.0"
    own = worker_keys(make_site("sriov", transport, operators=OF_HOSTS))
    assert f"nic.{port}.vfs" in own
    left = worker_keys(make_site("sriov", transport, operators=VFS))
    gone = own - left
    assert f"nic.{port}.vfs" in gone
    assert not [
        key for key in left if key.endswith((".vfs", ".vf_mtu_bytes", ".mtu_bytes", ".guid"))
    ]
    if transport == "roce":
        marks = ("vf_roce_tos", "vf_traffic_class")
        keys = ("vfs", "vf_mac", "vf_mtu_bytes", "mtu_bytes", "eswitch_now", *marks)
        assert gone == {f"nic.{pci}.{key}" for pci in (port, "0000:84:00.0") for key in keys}


def test_the_host_lets_go_of_firmware_and_a_template_has_it() -> None:
    own = worker_keys(make_site("sriov", "roce", host_defaults=MANAGED))
    spec = make_site("sriov", "roce", host_defaults=MANAGED, operators=FIRMWARE)
    gone = own - worker_keys(spec)
    assert "nic.0000:05:00.0.fw_num_of_vfs" in gone
    assert not [key for key in worker_keys(spec) if ".fw_" in key and "floor" not in key]
    templates = [m for m in plan_operators(spec).gates if m.kind == "NicConfigurationTemplate"]
    (template,) = templates
    body: Any = template.body
    assert body["spec"]["nicSelector"] == {
        "nicType": "1017",
        "pciAddresses": ["0000:05:00.0", "0000:84:00.0"],
    }
    assert body["spec"]["template"]["numVfs"] == 8
    assert body["spec"]["template"]["linkType"] == "Ethernet"
    raw = {each["name"]: each["value"] for each in body["spec"]["template"]["rawNvConfig"]}
    assert raw["PCI_WR_ORDERING"] == "force_relax"
    assert raw["ADVANCED_PCI_SETTINGS"] == "True"
    (label,) = body["spec"]["nodeSelector"]
    assert [label in node_labels(spec, host) for host in spec.hosts] == [False, True, True]
    policy: Any = next(m.body for m in plan_operators(spec).gates if m.kind == "NicClusterPolicy")
    daemon = policy["spec"]["nicConfigurationOperator"]["configurationDaemon"]
    assert daemon["image"] == "nic-configuration-operator-daemon"
    values: Any = plan_operators(spec).charts[0].values
    assert values["maintenanceOperator"] == {"enabled": True}
    # Their kind is there when the policy is ready.
    groups = {m.kind: m.group for m in plan_operators(spec).gates}
    assert groups["NicConfigurationTemplate"] > groups["NicClusterPolicy"]


def _partitioned(**operators: Any) -> ClusterSpec:  # noqa: ANN401 - keys of the file
    keys: dict[str, Any] = {"operators": operators} if operators else {}
    spec = make_site("sriov", "infiniband", **keys)
    assert spec.infiniband is not None
    rails = tuple(
        rail.model_copy(update={"partition": "training"} if rail.name == "rail-0" else {})
        for rail in spec.infiniband.rails
    )
    fabric = spec.infiniband.model_copy(update={"rails": rails})
    return spec.model_copy(update={"infiniband": fabric})


def test_vfs_are_members_of_their_rails_partition_on_switches() -> None:
    spec = _partitioned()
    state = plan_subnet(spec, spec.switches[0]).ib
    assert state is not None
    members = state.partitions["training"].members
    # Eight ports of each host, and the eight VFs of its first HCA.
    assert len(members) == 32
    assert set(members.values()) == {"full"}
    first = [guid for guid in members if guid.startswith("02")]
    assert len(first) == 16
    desired = next(
        each for each in plan_hosts(spec, "dev") if each.name == "gpu01"
    ).converge.desired
    assert parse_state(desired).values["vf.0000:18:00.0.0.guid"] in first
    storage = state.partitions["storage"].members
    assert not [guid for guid in storage if guid.startswith("02")]
    config = json.loads(bodies(spec)["NetworkAttachmentDefinition", "ib0"]["spec"]["config"])
    assert "pkey" not in config


def test_with_ufm_a_pod_has_its_guid_and_key_from_ib_kubernetes() -> None:
    spec = _partitioned(network={"ib_kubernetes": {"ufm_secret": "ufm"}})
    config = json.loads(bodies(spec)["NetworkAttachmentDefinition", "ib0"]["spec"]["config"])
    assert (config["pkey"], config["ibKubernetesEnabled"]) == ("0x0101", True)
    other = json.loads(bodies(spec)["NetworkAttachmentDefinition", "ib1"]["spec"]["config"])
    assert "pkey" not in other
    policy: Any = next(m.body for m in plan_operators(spec).gates if m.kind == "NicClusterPolicy")
    assert policy["spec"]["ibKubernetes"] == {
        "image": "ib-kubernetes",
        "repository": "nvcr.io/nvidia/mellanox",
        "version": "network-operator-v26.7.1",
        "pKeyGUIDPoolRangeStart": "02:00:00:00:00:00:00:00",
        "pKeyGUIDPoolRangeEnd": "02:ff:ff:ff:ff:ff:ff:ff",
        "periodicUpdateSeconds": 5,
        "ufmSecret": "ufm",
    }
    assert not [key for key in worker_keys(spec) if key.endswith(".guid")]
