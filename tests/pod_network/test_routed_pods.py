"""Pods on virtual functions behind routed switch ports: a /31 for each of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.acceptance.probes.probe_plan import plan_probes
from components.checks.pod_networks import check_pod_route
from components.fabric.fabric_plan import plan_fabric
from components.jobs.templates import job_script
from components.model.cluster import ClusterSpec
from components.operators.operators_plan import node_labels
from components.pod_network.attachment import rail_attachment, server_address
from components.pod_network.pod_network_plan import plan_pod_network
from lab.cluster.document import Doc
from lab.cluster.nv_ipam import NoAddressError, NodeStore, give_address, give_prefixes
from tests.pod_network.sites import make_site
from tests.schemas.judge import judge

PODS = {
    ("gpu01", "rail-0"): "10.10.111.1",
    ("gpu01", "rail-1"): "10.10.112.1",
    ("gpu02", "rail-0"): "10.10.111.3",
    ("gpu02", "rail-1"): "10.10.112.3",
}


def routed(**network: Any) -> ClusterSpec:  # noqa: ANN401 - parts of a file
    """Two workers with two cards each, whose ports are routed."""
    spec = make_site("sriov", "roce", network={"ipam": "nv-ipam", **network})
    data = spec.model_dump(mode="python", exclude_unset=True)
    (switch,) = data["switches"]
    switch |= {
        "os": "cumulus",
        "model": "SN5600",
        "release": "5.11.1",
        "routing": {"asn": 65101, "router_id": "10.255.0.1"},
        "ports": {
            f"swp{n}": {"to": f"{host}/{rail}", "mode": "routed"}
            for n, (host, rail) in enumerate(PODS, 1)
        },
    }
    for host in data["hosts"]:
        for nic in host.get("nics", ()):
            nic |= {"vfs": 1, "pod_address": PODS[host["name"], nic["rail"]]}
    return ClusterSpec.model_validate(json.loads(json.dumps(data, default=str)))


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return routed()


def bodies(spec: ClusterSpec) -> dict[tuple[str, str], Any]:
    return {(m.kind, m.name): m.body for m in plan_pod_network(spec).manifests}


def test_the_port_has_the_other_address_of_each_pods_network(spec: ClusterSpec) -> None:
    (leaf,) = plan_fabric(spec)
    assert leaf.desired.addresses is not None
    assert leaf.desired.addresses["swp1"] == ("10.10.111.0/31",)
    assert leaf.desired.addresses["swp4"] == ("10.10.112.2/31",)
    assert leaf.desired.bgp is not None
    assert "10.10.111.2/31" in leaf.desired.bgp.networks


def test_a_rail_is_one_cidr_pool_that_says_each_nodes_network(spec: ClusterSpec) -> None:
    pool = bodies(spec)["CIDRPool", "sriov111"]["spec"]
    assert pool["staticAllocations"] == [
        {"nodeName": "gpu01", "prefix": "10.10.111.0/31", "gateway": "10.10.111.0"},
        {"nodeName": "gpu02", "prefix": "10.10.111.2/31", "gateway": "10.10.111.2"},
    ]
    assert (pool["cidr"], pool["perNodeNetworkPrefix"]) == ("10.10.111.0/24", 31)
    assert pool["routes"] == [{"dst": "10.10.111.0/24"}]
    assert not [name for kind, name in bodies(spec) if kind == "IPPool"]
    labels = node_labels(spec, spec.workers[0])
    (term,) = pool["nodeSelector"]["nodeSelectorTerms"]
    assert labels[term["matchExpressions"][0]["key"]] == "true"


def test_pods_send_without_a_tag_and_draw_from_the_pool_of_their_node(spec: ClusterSpec) -> None:
    names = [name for kind, name in bodies(spec) if kind == "NetworkAttachmentDefinition"]
    assert names == ["sriov111", "sriov112"]
    config = json.loads(bodies(spec)["NetworkAttachmentDefinition", "sriov111"]["spec"]["config"])
    assert config["vlan"] == 0
    assert config["ipam"] == {"type": "nv-ipam", "poolName": "sriov111", "poolType": "cidrpool"}


def test_the_controller_gives_each_pod_the_address_that_the_file_says(spec: ClusterSpec) -> None:
    """By the rules of nv-ipam v0.4.0, which the lab plays: the gateway is given to nobody."""
    labels = {host.node: {**node_labels(spec, host)} for host in spec.hosts}
    for rail in spec.rails:
        pool: Doc = json.loads(json.dumps(bodies(spec)["CIDRPool", rail.network]))
        given = give_prefixes(pool, labels)
        pool["status"] = {"allocations": given}
        ipam: Doc = {"poolName": rail.network, "poolType": "cidrpool"}
        for host in spec.workers:
            store, used = NodeStore(), set[str]()
            address = give_address(ipam, host.node, [pool], used, store)
            assert address == PODS[host.name, rail.name]
            assert address == server_address(spec, rail, host)
            with pytest.raises(NoAddressError, match="no free addresses"):
                give_address(ipam, host.node, [pool], {address}, store)
        with pytest.raises(NoAddressError, match="not found"):
            give_address(ipam, "mgmt01", [pool], set(), NodeStore())


def test_a_bandwidth_test_goes_to_the_one_pod_behind_the_servers_port(spec: ClusterSpec) -> None:
    rail, (near, far) = spec.rails[0], spec.workers
    assert rail_attachment(spec, rail, server=far) == rail_attachment(spec, rail)
    commands = [job.command for job in plan_probes(spec).jobs if job.probe.kind == "perftest"]
    assert [command[-1] for command in commands] == [
        PODS[far.name, each.name] for each in spec.rails
    ]
    assert near.name != far.name


def test_with_source_based_routes_the_client_names_its_own_address(tmp_path: Path) -> None:
    """`sbr` takes the interface's routes out of the main table (plugins v1.6.2, doRoutes)."""
    jobs = plan_probes(routed(source_routing=True)).jobs
    commands = [job.command for job in jobs if job.probe.kind == "perftest"]
    assert all(command[-3:-1] == ("--bind_source_ip", "$address") for command in commands)
    assert not [c for job in plan_probes(routed()).jobs for c in job.command if "bind_source" in c]
    (tmp_path / "gids").mkdir()
    (tmp_path / "gids" / "3").write_text("0000:0000:0000:0000:0000:ffff:0a0a:6f03\n")
    script = f"ports={tmp_path} gid=3\n{job_script('source_address')}echo $address"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "10.10.111.3\n"


def test_routes_are_the_pools_and_go_by_the_own_port_alone() -> None:
    other = {"rail": "rail-0", "to": "10.10.112.0/24"}
    spec = routed(routes=[other], source_routing=True)
    assert not [*check_pod_route(spec)]
    assert bodies(spec)["CIDRPool", "sriov111"]["spec"]["routes"][1] == {"dst": "10.10.112.0/24"}
    chain = json.loads(bodies(spec)["NetworkAttachmentDefinition", "sriov111"]["spec"]["config"])[
        "plugins"
    ]
    assert [each["type"] for each in chain] == ["sriov", "sbr"]
    (found,) = check_pod_route(routed(routes=[{**other, "via": "10.10.111.0"}]))
    assert found.fix == "remove via."


def test_the_api_server_knows_each_field_of_the_pools(spec: ClusterSpec) -> None:
    found = [body for (kind, _), body in bodies(spec).items() if kind == "CIDRPool"]
    assert [what for body in found for what in judge(body)] == []
    wrong = {**found[0], "spec": {**found[0]["spec"], "perNodeBlockSize": 16}}
    assert judge(wrong)
