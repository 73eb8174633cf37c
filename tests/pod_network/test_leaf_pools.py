"""A rail over several leaves: its pools, its one attachment, and the files that nodes get."""

from __future__ import annotations

import json
import subprocess
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from components.artefacts.listing import images_of
from components.model.cluster import ClusterSpec
from components.operators.operators_plan import node_labels
from components.pod_network.attachment import NETWORKS, rail_attachment, server_address
from components.pod_network.pod_network_plan import plan_pod_network
from components.pod_network.rails import Kept, Pool, pool_of, pools_of
from tests.checks.by_name import findings_of
from tests.golden.site import changed_spec, load_example

FOLDER = "/var/lib/rancher/k3s/agent/etc/cni/net.d"


@pytest.fixture(scope="module")
def spec() -> ClusterSpec:
    return load_example("spine-leaf")


def bodies(spec: ClusterSpec, kind: str) -> dict[str, Any]:
    manifests = plan_pod_network(spec).manifests
    return {m.body["metadata"]["name"]: m.body for m in manifests if m.kind == kind}  # type: ignore[index,call-overload] # any JSON


def one(address: str) -> Kept:
    return Kept(IPv4Address(address), IPv4Address(address))


def ipam(spec: ClusterSpec, name: str) -> Any:  # noqa: ANN401 - any JSON
    body = bodies(spec, "NetworkAttachmentDefinition")[name]
    return json.loads(body["spec"]["config"])["ipam"]


def test_a_rail_has_a_pool_for_each_leaf(spec: ClusterSpec) -> None:
    assert pools_of(spec)["rail-0"] == (
        Pool(
            rail="rail-0",
            leaf="leaf-01",
            network=IPv4Network("10.10.111.0/25"),
            gateway=IPv4Address("10.10.111.1"),
            kept=(one("10.10.111.126"), one("10.10.111.1")),
            whole=IPv4Network("10.10.111.0/24"),
            nodes=("gpu01", "gpu02", "gpu03", "gpu04", "gpu05", "gpu06", "gpu07", "gpu08"),
        ),
        Pool(
            rail="rail-0",
            leaf="leaf-05",
            network=IPv4Network("10.10.111.128/25"),
            gateway=IPv4Address("10.10.111.129"),
            kept=(one("10.10.111.254"), one("10.10.111.129")),
            whole=IPv4Network("10.10.111.0/24"),
            nodes=("gpu09", "gpu10", "gpu11", "gpu12", "gpu13", "gpu14", "gpu15", "gpu16"),
        ),
    )


def test_a_rail_on_one_subnet_has_one_pool_and_no_route() -> None:
    (pool,) = pools_of(load_example("dgx-roce"))["rail-0"]
    assert (pool.leaf, pool.whole, pool.nodes) == ("", None, ("gpu01", "gpu02"))


def test_jobs_have_one_attachment_a_rail_which_asks_the_node(spec: ClusterSpec) -> None:
    path = f"{FOLDER}/whereabouts.d/rail-0.conf"
    assert ipam(spec, "sriov111") == {"type": "whereabouts", "configuration_path": path}


def test_a_server_is_on_the_subnet_of_its_own_leaf(spec: ClusterSpec) -> None:
    rail, near, far = spec.rails[0], spec.workers[0], spec.workers[15]
    assert rail_attachment(spec, rail, server=far).annotations[NETWORKS] == "sriov111-leaf-05-probe"
    assert server_address(spec, rail, near) == "10.10.111.126"
    assert server_address(spec, rail, far) == "10.10.111.254"
    assert pool_of(spec, rail, far).leaf == "leaf-05"
    found = ipam(spec, "sriov111-leaf-05-probe")
    assert (found["range"], found["range_start"]) == ("10.10.111.128/25", "10.10.111.254")
    assert found["routes"] == [{"dst": "10.10.111.0/24", "gw": "10.10.111.129"}]


def written_on(node: str, spec: ClusterSpec, folder: Path) -> dict[str, Any]:
    """What the planned script leaves on a node: it is run here, on folders of the test."""
    name = {"whereabouts": "rail-pools", "nv-ipam": "nv-ipam-pools"}[spec.pod_network.ipam]
    (data,) = (b["data"] for n, b in bodies(spec, "ConfigMap").items() if n.startswith(name))
    pod = bodies(spec, "DaemonSet")[name]["spec"]["template"]["spec"]
    _, _, script = pod["containers"][0]["command"]
    pools, host = folder / "pools", folder / "host"
    pools.mkdir()
    for name, text in data.items():
        (pools / name).write_text(text)
    script = script.replace("/pools", str(pools)).replace("/host", str(host))
    script = script.replace("exec sleep infinity\n", "")
    subprocess.run(["/bin/sh", "-c", script], check=True, env={"NODENAME": node}, timeout=20)
    files = sorted(host.rglob("*.conf"))
    return {str(file.relative_to(host)): json.loads(file.read_text()) for file in files}


def test_each_node_gets_what_its_leaves_have(spec: ClusterSpec, tmp_path: Path) -> None:
    found = written_on("gpu09", spec, tmp_path)
    assert [*found] == [f"whereabouts.d/rail-{number}.conf" for number in range(8)]
    assert found["whereabouts.d/rail-0.conf"] == {
        "kubernetes": {"kubeconfig": f"{FOLDER}/whereabouts.d/whereabouts.kubeconfig"},
        "range": "10.10.111.128/25",
        "exclude": ["10.10.111.254/32", "10.10.111.129/32"],
        "routes": [{"dst": "10.10.111.0/24", "gw": "10.10.111.129"}],
    }
    assert found["whereabouts.d/rail-7.conf"]["range"] == "10.10.118.128/25"


def test_a_node_that_is_in_no_pool_gets_no_file(spec: ClusterSpec, tmp_path: Path) -> None:
    assert written_on("mgmt01", spec, tmp_path) == {}


def test_routes_of_the_file_and_source_routing_follow_the_leaf(
    spec: ClusterSpec, tmp_path: Path
) -> None:
    network = spec.pod_network.model_validate(
        {
            **spec.pod_network.model_dump(),
            "routes": [{"rail": "rail-0", "to": "10.10.112.0/24"}],
            "source_routing": True,
        }
    )
    written = written_on("gpu09", changed_spec(spec, pod_network=network), tmp_path)
    found = written["whereabouts.d/rail-0.conf"]
    assert found["gateway"] == "10.10.111.129"
    assert found["routes"] == [
        {"dst": "10.10.111.0/24", "gw": "10.10.111.129"},
        {"dst": "10.10.112.0/24", "gw": "10.10.111.129"},
    ]


def test_whereabouts_finds_the_files_by_their_own_path(spec: ClusterSpec) -> None:
    pod = bodies(spec, "DaemonSet")["whereabouts"]["spec"]["template"]["spec"]
    paths = [each["mountPath"] for each in pod["containers"][0]["volumeMounts"]]
    assert FOLDER in paths, "it reads attachments to free what pods that are gone had"
    other = bodies(load_example("dgx-roce"), "DaemonSet")
    assert "rail-pools" not in other
    assert FOLDER not in str(other["whereabouts"]).replace(f"/host{FOLDER}", "").replace(
        f"'path': '{FOLDER}'", ""
    )


def test_another_leaf_is_another_object_so_that_pods_restart(spec: ClusterSpec) -> None:
    fewer = changed_spec(spec, hosts=spec.hosts[:-1])
    names = [
        [name for name in bodies(each, "ConfigMap") if name.startswith("rail-pools-")]
        for each in (spec, fewer)
    ]
    assert names[0] != names[1]


def by_blocks(spec: ClusterSpec, **more: object) -> ClusterSpec:
    network = {**spec.pod_network.model_dump(), "ipam": "nv-ipam", **more}
    return changed_spec(spec, pod_network=spec.pod_network.model_validate(network))


def test_another_ipam_gives_no_object_a_second_name_of_its_resource(spec: ClusterSpec) -> None:
    """The engine makes what is new first: the API would answer that the object exists."""
    names: dict[tuple[str, str], set[str]] = {}
    for each in (spec, by_blocks(spec)):
        for manifest in plan_pod_network(each).manifests:
            names.setdefault((manifest.kind, manifest.name), set()).add(manifest.resource_name)
    assert ("DaemonSet", "nv-ipam-pools") in names
    assert {key: found for key, found in names.items() if len(found) > 1} == {}


def test_nv_ipam_has_a_pool_for_each_leaf_and_the_way_to_the_others(spec: ClusterSpec) -> None:
    spec = by_blocks(spec, addresses_per_node=15)
    pools = bodies(spec, "IPPool")
    assert [*pools][:2] == ["sriov111-leaf-01", "sriov111-leaf-05"]
    assert len(pools) == 16
    far = pools["sriov111-leaf-05"]["spec"]
    (term,) = far.pop("nodeSelector")["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["key"] == "pool.railyard.dev/sriov111-leaf-05"
    assert far == {
        "subnet": "10.10.111.128/25",
        "perNodeBlockSize": 15,
        "gateway": "10.10.111.129",
        "exclusions": [{"startIP": "10.10.111.254", "endIP": "10.10.111.254"}],
        "routes": [{"dst": "10.10.111.0/24"}],
    }
    host = next(each for each in spec.workers if each.name == "gpu09")
    labels = [key for key in node_labels(spec, host) if "sriov111" in key]
    assert labels == ["pool.railyard.dev/sriov111-leaf-05"]


def test_nv_ipams_attachment_asks_the_node_for_the_pool(spec: ClusterSpec, tmp_path: Path) -> None:
    blocks = by_blocks(spec)
    folder = f"{FOLDER}/nv-ipam.d/rail-0"
    assert ipam(blocks, "sriov111") == {
        "type": "nv-ipam",
        "confDir": folder,
        "poolType": "ippool",
    }
    pod = bodies(blocks, "DaemonSet")["nv-ipam-pools"]["spec"]["template"]["spec"]
    plugins = blocks.sources.images.cni_plugins
    assert pod["containers"][0]["image"] == plugins, "nv-ipam's own image has no shell"
    assert plugins in [image for image, _ in images_of(blocks)]
    found = written_on("gpu09", blocks, tmp_path)
    assert [*found] == [f"nv-ipam.d/rail-{number}/nv-ipam.conf" for number in range(8)]
    assert found["nv-ipam.d/rail-0/nv-ipam.conf"] == {"poolName": "sriov111-leaf-05"}
    probe = ipam(blocks, "sriov111-leaf-05-probe")
    assert probe["addresses"] == [{"address": "10.10.111.254/25"}]
    assert probe["routes"] == [{"dst": "10.10.111.0/24", "gw": "10.10.111.129"}]


def test_a_leaf_with_too_few_blocks_is_named_by_its_own_subnet(spec: ClusterSpec) -> None:
    found = findings_of("pod-pool", by_blocks(spec))
    assert found[0].what == (
        "10.10.111.0/25 of rail-0 has 7 blocks of 16, but 8 workers need one each."
    )
    assert found[0].where[0].path == ("rails", 0, "leaves", "leaf-01", "subnet")
    assert findings_of("pod-pool", by_blocks(spec, addresses_per_node=15)) == []
