"""Shared cards, whole HCAs and macvlan: what nodes publish, and what a pod then has of RDMA."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.errors import DeviceError
from components.jobs.templates import job_script
from components.operators.operators_plan import host_device_config, nic_cluster_policy
from components.pod_network.networks import macvlan_attachments, shared_plugin_config
from lab.cluster.allocate import allocate, dump_allocation
from lab.cluster.attach import AttachError, Site, attach
from lab.cluster.device_plugin import plan_pools
from lab.cluster.devices import Card, NodeDevices, dump_devices, parse_devices, scan_devices
from lab.cluster.document import Doc
from lab.cluster.gpu_operator import NIC_LABEL
from lab.cluster.launcher import run_launcher
from lab.cluster.network_operator import NicPolicy, nic_policy_status
from lab.cluster.pod_probe import World, container_of, probe_pod
from lab.cluster.pod_shell import run_script
from lab.cluster.pod_view import (
    CNI_BIN_DIR,
    MTUS,
    NETWORK_STATUS,
    NETWORKS,
    NodeState,
    Pod,
    dump_status,
)
from lab.cluster.shared_plugin import plan_shared
from tests.golden.site import load_example
from tests.lab_cluster.nodes import TOPOLOGY, make_hca_node, make_shared_node

SHARED = load_example("shared-rdma")
CLOUD = load_example("crusoe-k3s")
PROBE = "registry.example.com/railyard-probe:1"
DEEPSPEED = "registry.example.com/deepspeed:1"
MPIRUN = ["mpirun", "--mca", "plm_rsh_args", "-o StrictHostKeyChecking=no", "-np", "16"]
MARKED = {NIC_LABEL: "true"}


def shared_devices(folder: Path, device: str = "101b", address: str = "") -> NodeDevices:
    make_shared_node(folder, device, address)
    return scan_devices(folder / "sys", None)


def hca_devices(folder: Path, **kinds: int) -> NodeDevices:
    make_hca_node(folder, **kinds)
    return scan_devices(folder / "sys", None)


def make_pod(name: str, spec: dict[str, Any], **more: object) -> Pod:
    metadata = {"name": name, "namespace": "default", "uid": name, **more}
    document = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    return Pod(cast("Doc", document))


def daemon(image: str) -> Pod:
    volumes = [{"name": "bin", "hostPath": {"path": CNI_BIN_DIR}}]
    return make_pod(image, {"containers": [{"image": image}], "volumes": volumes})


def limits(**resources: int) -> dict[str, Any]:
    wanted = {name.replace("__", "/").replace("_dot_", "."): n for name, n in resources.items()}
    return {"containers": [{"name": "c", "image": PROBE, "resources": {"limits": wanted}}]}


CNI = (
    daemon("ghcr.io/k8snetworkplumbingwg/multus-cni:v4.3.0"),
    daemon("ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4"),
    daemon("ghcr.io/k8snetworkplumbingwg/plugins:v1.6.2"),
)


def shared_node(devices: NodeDevices, pods: Sequence[Pod] = CNI) -> NodeState:
    shared = plan_shared(shared_plugin_config(SHARED), devices.cards)
    return NodeState("node03", devices, (), pods, shared)


def definitions() -> dict[str, Doc]:
    return {"default/macvlan156": cast("Doc", macvlan_attachments(SHARED, SHARED.rails[0])[0])}


def attached(node: NodeState, pod: Pod) -> Pod:
    got = attach(pod, node, Site(definitions(), frozenset(), address_pools=True))
    assert got is not None
    notes: Doc = {**pod.annotations, NETWORK_STATUS: dump_status(got.statuses)}
    notes[MTUS] = json.dumps(dict(got.mtus))
    metadata: Doc = {**cast("Doc", pod.document["metadata"]), "annotations": notes}
    return Pod({**pod.document, "metadata": metadata})


def test_cards_survive_their_json_form(tmp_path: Path) -> None:
    devices = shared_devices(tmp_path, address="10.106.156.3")
    (card,) = devices.cards
    assert (card.netdev, card.rdma, card.addresses) == ("enp88s0", "mlx5_2", ("10.106.156.3",))
    assert parse_devices(json.loads(json.dumps(dump_devices(devices)))) == devices


def test_the_products_configuration_publishes_both_names(tmp_path: Path) -> None:
    pools = plan_shared(shared_plugin_config(SHARED), shared_devices(tmp_path).cards)
    assert [(p.resource, p.count) for p in pools] == [
        ("rdma/hca_shared_devices_b", 500),
        ("rdma/hca", 500),
    ]


def test_without_a_matching_card_nothing_is_published(tmp_path: Path) -> None:
    pools = plan_shared(shared_plugin_config(SHARED), shared_devices(tmp_path, "1017").cards)
    assert [pool.count for pool in pools] == [0, 0]


CARD = Card("0000:58:00.0", "15b3", "101b", "mlx5_core", "enp88s0", "mlx5_2", "Ethernet",
            "4: ACTIVE", "100 Gb/sec (4X EDR)", 9000, (), 0)  # fmt: skip


@given(
    vendors=st.lists(st.sampled_from(["15b3", "8086"]), max_size=2),
    devices=st.lists(st.sampled_from(["101b", "1017"]), max_size=2),
    names=st.lists(st.sampled_from(["enp88s0", "eth0"]), max_size=2),
)
def test_selectors_are_alternatives_within_and_demands_between(
    vendors: list[str], devices: list[str], names: list[str]
) -> None:
    selectors = {"vendors": vendors, "deviceIDs": devices, "ifNames": names, "linkTypes": ["ether"]}
    entry = {"resourceName": "a", "rdmaHcaMax": 7, "selectors": selectors}
    (pool,) = plan_shared(json.dumps({"configList": [entry]}), [CARD])
    lists = ((vendors, "15b3"), (devices, "101b"), (names, "enp88s0"))
    assert pool.count == (7 if all(not given or own in given for given, own in lists) else 0)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"resourceName": "a", "rdmaHcaMax": 1}], "neither selectors nor devices"),
        ([{"rdmaHcaMax": 1, "devices": ["x"]}], "no resourceName"),
        ([{"resourceName": "a", "devices": ["x"]}] * 2, "there twice"),
    ],
)
def test_a_configuration_that_the_plugin_refuses(entries: list[Doc], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        plan_shared(json.dumps({"configList": entries}), [CARD])


def test_macvlan_needs_its_plugin_its_master_and_an_mtu_that_fits(tmp_path: Path) -> None:
    devices = shared_devices(tmp_path)
    pod = make_pod("p", limits(rdma__hca=1), annotations={NETWORKS: "macvlan156"})
    on_rail = attached(shared_node(devices), pod)
    status = on_rail.network_status()[1]
    assert (status["interface"], status["ips"]) == ("net1", ["10.106.156.1"])
    assert on_rail.mtu_of("net1") == 9000
    with pytest.raises(AttachError, match='failed to find plugin "macvlan"'):
        attached(shared_node(devices, CNI[:2]), pod)
    (card,) = devices.cards
    for other, message in (
        (replace(card, netdev="ens6"), '"macvlan156": Link not found'),
        (replace(card, mtu_bytes=1500), r"invalid MTU 9000, must be \[0, master MTU\(1500\)\]"),
    ):
        with pytest.raises(AttachError, match=message):
            attached(shared_node(replace(devices, cards=(other,))), pod)


@pytest.mark.parametrize("resource", ["rdma/hca", "rdma/hca_shared_devices_b", ""])
def test_a_pod_on_macvlan_has_rdma_only_with_a_resource(tmp_path: Path, resource: str) -> None:
    node = shared_node(shared_devices(tmp_path))
    wanted = {resource: 1} if resource else {}
    containers = [{"name": "c", "image": PROBE, "resources": {"limits": wanted}}]
    pod = make_pod("p", {"containers": containers}, annotations={NETWORKS: "macvlan156"})
    world = World({"node03": node}, [], definitions())
    bound = attached(node, pod)
    cast("Doc", bound.document["spec"])["nodeName"] = "node03"
    networks = cast("list[Doc]", probe_pod(bound, world)["networks"])
    assert [n["kind"] for n in networks] == (["pf"] if resource else [])
    if resource:
        expected = {"interface": "net1", "rdma": "mlx5_2", "vlan": 0, "pf": "0000:58:00.0"}
        assert networks[0].items() >= expected.items()


def test_the_products_script_finds_the_card_under_a_macvlan_interface(tmp_path: Path) -> None:
    node = shared_node(shared_devices(tmp_path, address="10.106.156.3"))
    script = job_script("rdma_shared_device") + 'exec ib_read_bw -d "$hca" -x "$gid"\n'
    pod = make_pod("p", limits(rdma__hca=1), annotations={NETWORKS: "macvlan156"})
    bound = attached(node, pod)
    cast("Doc", bound.document["spec"])["nodeName"] = "node03"
    world = World({"node03": node}, [], definitions())
    run = run_script(["/bin/sh", "-c", script], container_of(bound, world))
    # NVIDIA/nccl#1573: 0 to 3 are the host's two addresses, 4 to 7 the pod's, each as v1 and v2.
    assert run.call == ("ib_read_bw", "-d", "mlx5_2", "-x", "7")


def test_a_client_that_tries_again_is_done_with_its_first_call(tmp_path: Path) -> None:
    node = shared_node(shared_devices(tmp_path, address="10.106.156.3"))
    call = "ib_write_bw -R 10.106.156.254"
    script = job_script("perftest_client").replace("ib_write_bw_call", call)
    pod = make_pod("p", {**limits(rdma__hca=1), "nodeName": "node03"})
    run = run_script(["sh", "-c", script], container_of(pod, World({"node03": node}, [], {})))
    assert run.call == tuple(call.split())


def test_the_products_script_works_in_the_hosts_network(tmp_path: Path) -> None:
    node = shared_node(shared_devices(tmp_path, address="10.106.156.3"))
    script = job_script("rdma_shared_device") + 'exec ib_write_bw -d "$hca" -x "$gid"\n'
    spec: dict[str, Any] = {
        **limits(rdma__hca=1),
        "hostNetwork": True,
        "nodeName": "node03",
    }
    spec["containers"][0]["env"] = [{"name": "RAIL_INTERFACE", "value": "enp88s0"}]
    pod, world = make_pod("p", spec), World({"node03": node}, [], {})
    run = run_script(["sh", "-c", script], container_of(pod, world))
    assert run.call == ("ib_write_bw", "-d", "mlx5_2", "-x", "3")
    assert probe_pod(pod, world)["host_network"] is True
    without = make_pod("q", {**spec, "containers": [{"name": "c"}]})
    assert probe_pod(without, world)["host_network"] is False


def test_the_policy_takes_infiniband_cards_only(tmp_path: Path) -> None:
    devices = hca_devices(tmp_path, count=8, ethernet=1)
    (pool,) = plan_pools(host_device_config(CLOUD), [c.as_function() for c in devices.cards])
    assert (pool.resource, len(pool.devices), pool.rdma) == ("nvidia.com/hostdev", 8, True)


def nic_policy(*, ready: bool = True) -> NicPolicy:
    network = CLOUD.operators.network
    assert network is not None
    return NicPolicy(cast("Doc", nic_cluster_policy(CLOUD, network)), ready)


def test_a_policy_is_ready_only_with_operator_label_and_driver(tmp_path: Path) -> None:
    devices = hca_devices(tmp_path, count=2)
    bare = replace(devices, cards=tuple(replace(card, rdma="") for card in devices.cards))
    node = {"worker-0": devices}
    for policy, nodes, labels, state in (
        (nic_policy(), node, MARKED, "ready"),
        (nic_policy(ready=False), node, MARKED, "notReady"),
        (nic_policy(), node, {}, "notReady"),
        (nic_policy(), {"worker-0": bare}, MARKED, "notReady"),
    ):
        status = nic_policy_status(policy, nodes, {"worker-0": labels})
        assert status["state"] == state
        published = sum(len(p.devices) for p in policy.pools(nodes["worker-0"], labels))
        assert published == (2 if state == "ready" else 0)


def test_a_policy_with_the_shared_plugin_publishes_what_ours_would(tmp_path: Path) -> None:
    devices = hca_devices(tmp_path, count=2)
    entry = {"resourceName": "hca", "rdmaHcaMax": 63, "selectors": {"linkTypes": ["infiniband"]}}
    plugin: Doc = {"config": json.dumps({"configList": [entry]})}
    policy = NicPolicy({"spec": {"rdmaSharedDevicePlugin": plugin}}, True)  # noqa: FBT003 - the operator is ready
    assert [(p.resource, p.count) for p in policy.shared(devices, MARKED)] == [("rdma/hca", 63)]
    assert policy.shared(devices, {}) == ()
    status = nic_policy_status(policy, {"worker-0": devices}, {"worker-0": MARKED})
    assert status["appliedStates"] == [{"name": "state-RDMA-device-plugin", "state": "ready"}]
    entry["selectors"] = {}
    plugin["config"] = json.dumps({"configList": [entry]})
    assert (
        nic_policy_status(policy, {"worker-0": devices}, {"worker-0": MARKED})["state"] == "error"
    )


def test_a_broken_policy_is_an_error(tmp_path: Path) -> None:
    node = {"worker-0": hca_devices(tmp_path)}
    document: Doc = {"spec": {"sriovDevicePlugin": {"config": "{"}}}
    assert nic_policy_status(NicPolicy(document, True), node, {"worker-0": MARKED})["state"] == (  # noqa: FBT003 - the operator is ready
        "error"
    )


@given(wanted=st.lists(st.integers(min_value=0, max_value=5), max_size=5))
def test_a_device_is_given_to_one_pod_only(wanted: list[int]) -> None:
    functions = tuple(replace(CARD.as_function(), pci=f"0000:a{n}:00.0") for n in range(8))
    pool = replace(plan_pools(host_device_config(CLOUD), ())[0], devices=functions, whole=True)
    pods: list[Pod] = []
    for number, count in enumerate(wanted):
        node = NodeState("worker-0", NodeDevices(), (pool,), pods)
        spec = limits(nvidia_dot_com__hostdev=count)
        picked = allocate(make_pod(str(number), spec), node)
        notes = {"lab.railyard.dev/devices": dump_allocation(picked)} if picked else {}
        pods.append(make_pod(str(number), spec, annotations=notes))
    held = [pci for pod in pods for devices in pod.allocated().values() for pci in devices]
    assert len(held) == len(set(held)) <= 8
    for pod, count in zip(pods, wanted, strict=True):
        assert sum(map(len, pod.allocated().values())) in {0, count}


def cloud_worker(name: str, node: str, devices: NodeDevices, image: str = PROBE) -> Pod:
    held = {"nvidia.com/hostdev": [card.pci for card in devices.cards if card.rate[0] == "4"]}
    container = {
        "name": "worker",
        "image": image,
        "resources": {"limits": {"nvidia.com/gpu": 8, "nvidia.com/hostdev": 8}},
        "volumeMounts": [{"name": "topology", "mountPath": "/opt/topo.xml"}],
    }
    spec = {
        "nodeName": node,
        "containers": [container],
        "hostname": name,
        "subdomain": "job",
        "volumes": [{"name": "topology", "hostPath": {"path": TOPOLOGY, "type": "File"}}],
    }
    labels = {"training.kubeflow.org/job-name": "job", "training.kubeflow.org/job-role": "worker"}
    notes = {"lab.railyard.dev/devices": dump_allocation(held)}
    pod = make_pod(name, spec, labels=labels, annotations=notes)
    cast("Doc", pod.document["status"])["podIP"] = f"198.18.0.{len(node)}"
    return pod


class Physics:
    """Keeps what was asked, and answers."""

    def __init__(self) -> None:
        self.asked: list[Doc] = []

    def ask(self, request: Doc) -> Doc:
        self.asked.append(request)
        return {"log": "played\n", "exit_code": 0}


def launch(
    command: list[str],
    devices: NodeDevices,
    services: set[str],
    image: str = PROBE,
    worker_image: str = PROBE,
) -> tuple[str, int, list[Doc]]:
    nodes = {name: NodeState(name, devices, (), ()) for name in ("w-0", "w-01")}
    workers = [
        cloud_worker(f"job-worker-{i}", node, devices, worker_image) for i, node in enumerate(nodes)
    ]
    labels = {"training.kubeflow.org/job-name": "job", "training.kubeflow.org/job-role": "launcher"}
    container = {"name": "launcher", "image": image, "command": command}
    spec = {"nodeName": "w-0", "containers": [container]}
    hostfile = "".join(f"{pod.name}.job.default.svc slots=8\n" for pod in workers)
    world = World(nodes, workers, {}, {"default/job": hostfile}, frozenset(services))
    physics = Physics()
    ended = run_launcher(make_pod("launcher", spec, labels=labels), world, cast("Any", physics))
    return ended.log, ended.exit_code, physics.asked


def test_each_rank_finds_the_fast_hcas_of_its_node(tmp_path: Path) -> None:
    devices = hca_devices(tmp_path, count=8, slow=2, ethernet=1)
    program = ["all_reduce_perf", "-b", "8"]
    wrapped = ["/bin/sh", "-c", job_script("ib_hcas"), "ib_hcas", *program]
    log, code, asked = launch([*MPIRUN, *wrapped], devices, set())
    assert (log, code) == ("played\n", 0)
    names = ",".join(f"mlx5_{number}:1" for number in range(8))
    for pod in cast("list[Doc]", asked[0]["pods"]):
        env = cast("Doc", pod["env"])
        assert (env["NCCL_IB_HCA"], env["UCX_NET_DEVICES"]) == (f"={names}", names)
        assert pod["files"] == ["/opt/topo.xml"]
        assert [n["pf"] for n in cast("list[Doc]", pod["networks"])] == [
            f"mlx5_{number}" for number in range(8)
        ]
    launcher = cast("Doc", asked[0]["launcher"])
    assert launcher["command"] == [*MPIRUN, *program]


def test_a_node_whose_ports_are_down_fails_the_job(tmp_path: Path) -> None:
    devices = hca_devices(tmp_path, count=2)
    down = replace(devices, cards=tuple(replace(c, state="1: DOWN") for c in devices.cards))
    wrapped = ["sh", "-c", job_script("ib_hcas"), "ib_hcas", "all_reduce_perf"]
    log, code, asked = launch([*MPIRUN, *wrapped], down, set())
    assert "no active InfiniBand port" in log
    assert (code, asked) == (1, [])


def test_deepspeed_starts_only_when_every_name_resolves(tmp_path: Path) -> None:
    devices = hca_devices(tmp_path)
    call = 'deepspeed --hostfile=/job/hostfile --master_addr="$master" all_reduce.py --scan'
    script = job_script("deepspeed_launch").replace("deepspeed_call", call)
    log, code, asked = launch(["/bin/sh", "-c", script], devices, {"default/job"}, DEEPSPEED)
    assert code == 0
    assert "job-worker-1.job.default.svc resolves to 198.18.0.4" in log
    assert log.endswith("played\n")
    assert asked[0]["kind"] == "deepspeed_scan"
    command = cast("list[str]", cast("Doc", asked[0]["launcher"])["command"])
    assert command[:2] == ["deepspeed", "--hostfile=/job/hostfile"]
    assert command[2] == "--master_addr=job-worker-0.job.default.svc"
    log, code, asked = launch(["/bin/sh", "-c", script], devices, set(), DEEPSPEED)
    assert "does not resolve: look at the cluster's DNS" in log
    assert (code, asked) == (1, [])
