"""A flat fabric: all rails in one subnet and one VLAN, with a resource each or one for all."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from components.acceptance.probes.probe_plan import list_unproven, plan_probes
from components.hosts.settings import rail_sysctls
from components.jobs.templates import nccl_environment
from components.model.cluster import ClusterSpec
from components.operators.operators_plan import node_labels
from components.pod_network.attachment import (
    expected_allocatable,
    pod_attachment,
    rail_attachment,
    server_address,
)
from components.pod_network.pod_network_plan import plan_pod_network
from components.pod_network.pools import plan_pools
from tests.golden.site import changed_spec
from tests.pod_network.sites import make_site, plugin_config

SUBNET = IPv4Network("10.10.111.0/24")
ARP = {
    "net.ipv4.conf.IFNAME.arp_announce": "2",
    "net.ipv4.conf.IFNAME.arp_ignore": "1",
    "net.ipv4.conf.IFNAME.rp_filter": "2",
}
"""What keeps the addresses of one machine on their own cards (kernel documentation, ip-sysctl)."""


def flat(way: Any = "sriov", *, shared: bool = False, **network: Any) -> ClusterSpec:  # noqa: ANN401 - parts of a file
    """Two rails in one network; with `shared` they have one resource, and each card one VF."""
    spec = make_site(way, "roce", network=network)
    one = {"vlan": 111, "subnet": SUBNET} | ({"resource": "rail_vf"} if shared else {})
    rails = tuple(rail.model_copy(update=one) for rail in spec.rails)
    hosts = tuple(
        host.model_copy(
            update={"nics": tuple(nic.model_copy(update={"vfs": 1}) for nic in host.nics)}
        )
        for host in spec.hosts
    )
    return changed_spec(spec, rails=rails, **({"hosts": hosts} if shared else {}))


def configs(spec: ClusterSpec) -> dict[str, Any]:
    found = [m.body for m in plan_pod_network(spec).manifests]
    made = [b for b in found if b["kind"] == "NetworkAttachmentDefinition"]
    bodies: list[Any] = [*made]
    return {b["metadata"]["name"]: json.loads(b["spec"]["config"]) for b in bodies}


@pytest.mark.parametrize("way", ["sriov", "macvlan"])
def test_each_interface_of_a_pod_answers_for_its_own_address_alone(way: str) -> None:
    for config in configs(flat(way)).values():
        (tuning,) = [each for each in config["plugins"] if each["type"] == "tuning"]
        assert tuning["sysctl"] == ARP
    assert "tuning" not in json.dumps(configs(make_site("sriov", "roce")))


def test_cards_with_addresses_have_the_same_settings_on_the_host() -> None:
    spec = flat("host")
    found = rail_sysctls(spec, spec.workers[0])
    for netdev in ("enp5s0", "enp132s0"):
        mine = {key.replace(netdev, "IFNAME"): found[key] for key in found if netdev in key}
        assert mine == ARP


def test_an_mtu_and_the_arp_settings_are_one_call_of_the_plugin() -> None:
    config = configs(flat(mtu_bytes=4200))["sriov111"]
    (tuning,) = [each for each in config["plugins"] if each["type"] == "tuning"]
    assert (tuning["mtu"], tuning["sysctl"]) == (4200, ARP)


def test_k3s_gets_the_plugin_that_it_does_not_bring() -> None:
    names = {m.name for m in plan_pod_network(flat()).manifests}
    assert "tuning-cni" in names


def test_the_servers_of_two_rails_have_two_addresses_and_no_pod_gets_either() -> None:
    spec = flat()
    servers = [server_address(spec, rail, spec.workers[0]) for rail in spec.rails]
    assert servers == ["10.10.111.254", "10.10.111.253"]
    found = configs(spec)
    for rail, server in zip(spec.rails, servers, strict=True):
        kept = found[rail.network]["plugins"][0]["ipam"]["exclude"]
        assert {f"{each}/32" for each in servers} == {*kept}
        probe = found[f"{rail.network}-probe"]["plugins"][0]["ipam"]
        assert probe["range_start"] == probe["range_end"] == server


def test_no_pod_gets_the_address_of_a_card_of_another_rail() -> None:
    spec = flat()
    host = spec.workers[0]
    nic = host.nics[1].model_copy(update={"address": "10.10.111.9"})
    own = host.model_copy(update={"nics": (host.nics[0], nic)})
    spec = changed_spec(spec, hosts=(spec.hosts[0], own, spec.hosts[2]))
    assert "10.10.111.9/32" in configs(spec)["sriov111"]["plugins"][0]["ipam"]["exclude"]


def test_static_addresses_of_clients_and_servers_are_four() -> None:
    spec = flat(ipam="static")
    clients = [
        json.loads(next(iter(rail_attachment(spec, rail).annotations.values())))[0]["ips"][0]
        for rail in spec.rails
    ]
    servers = [server_address(spec, rail, spec.workers[0]) for rail in spec.rails]
    assert clients == ["10.10.111.252/24", "10.10.111.251/24"]
    assert not {each.partition("/")[0] for each in clients} & {*servers}


def test_nv_ipam_has_one_pool_for_all_rails() -> None:
    spec = flat(ipam="nv-ipam")
    (pool,) = plan_pools(spec)
    assert (pool.name, pool.nodes, pool.needs, pool.block) == (
        "sriov111",
        ("gpu01", "gpu02"),
        16,
        32,
    )
    assert {IPv4Address(int(SUBNET[-2]) - n) for n in (0, 1)} <= {k.first for k in pool.kept}
    drawn = {
        name: config["plugins"][0]["ipam"].get("poolName")
        for name, config in configs(spec).items()
        if not name.endswith("-probe")
    }
    assert drawn == {"sriov111": "sriov111", "sriov112": "sriov111"}
    labels = [key for key in node_labels(spec, spec.workers[0]) if key.startswith("pool.")]
    assert labels == ["pool.railyard.dev/sriov111"]


def test_nccl_may_use_any_card_on_a_flat_fabric_and_the_file_may_say_otherwise() -> None:
    assert "NCCL_CROSS_NIC" not in nccl_environment(flat())
    assert nccl_environment(make_site("sriov", "roce"))["NCCL_CROSS_NIC"] == "0"


def test_a_pod_takes_as_many_of_one_resource_as_there_are_rails() -> None:
    spec = flat(shared=True)
    attachment = pod_attachment(spec)
    assert attachment.resources == {"nvidia.com/rail_vf": 2}
    assert attachment.annotations == {"k8s.v1.cni.cncf.io/networks": "sriov111,sriov112"}
    offered = {
        name: found["nvidia.com/rail_vf"] for name, found in expected_allocatable(spec).items()
    }
    assert offered == {"gpu01": 2, "gpu02": 2}


def test_one_resource_is_one_entry_of_the_plugin_over_the_cards_of_all_rails() -> None:
    config = json.loads(plugin_config(flat(shared=True))["data"]["config.json"])
    (entry,) = config["resourceList"]
    assert entry["resourceName"] == "rail_vf"
    assert entry["selectors"][0]["pfNames"] == ["enp132s0", "enp5s0"]


def test_no_bandwidth_of_one_rail_is_claimed_where_a_pod_cannot_choose_it() -> None:
    kinds = [job.probe.kind for job in plan_probes(flat(shared=True)).jobs]
    assert "perftest" not in kinds
    assert "nccl" in kinds
    assert [each.what for each in list_unproven(flat(shared=True))] == [
        "the bandwidth of each one alone"
    ]
    assert "perftest" in [job.probe.kind for job in plan_probes(flat()).jobs]
