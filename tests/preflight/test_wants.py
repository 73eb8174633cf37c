"""What is asked of each host follows from the site, and does not grow with its square."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from pydantic import JsonValue

from components.artefacts.lock import Lock
from components.checks.site import load_checked_site
from components.model.cards import ContainerToolkit
from components.model.cluster import ClusterSpec
from components.plan.make import make_plan
from components.preflight.artefacts import Artefact, artefacts_of, charts_without_images
from components.preflight.judge import HostAnswers, judge_host
from components.preflight.run import host_script
from components.preflight.wants import HostWants, wants_of
from tests.golden.site import EXAMPLES, load_example
from tests.graph.example_sites import example_spec
from tests.graph.locked import lock_of
from tests.preflight.asking import ask


def wants(spec: ClusterSpec) -> dict[str, HostWants]:
    return dict(wants_of(spec, make_plan(spec, "x"), lock_of(spec)))


def told(facts: dict[str, str]) -> HostAnswers:
    return HostAnswers(facts, 0, 0)


def images(wants: HostWants) -> list[Artefact]:
    return [each for each in wants.artefacts if each.kind == "image"]


def test_a_worker_and_a_server_are_asked_for_what_they_do() -> None:
    asked = wants(load_example("dgx-roce"))
    server, worker = asked["mgmt01"], asked["gpu01"]
    assert (server.ports, worker.ports) == ((6443, 10250), (10250,))
    assert server.peers == (("192.168.2.11", 10250),)
    assert worker.peers == (("192.168.1.10", 6443), ("192.168.2.12", 10250))
    assert asked["gpu02"].peers == (("192.168.1.10", 6443), ("192.168.1.10", 10250))
    assert (server.gpus, worker.gpus) == (0, 8)
    assert (server.gpu_driver, worker.gpu_driver) == (None, "host")
    assert {name for tool in worker.tools for name in tool.names} == {
        *("flock", "curl", "mlnx_qos", "dcb", "ethtool", "setpci", "nvidia-container-runtime"),
    }
    assert {name for tool in server.tools for name in tool.names} == {"flock", "curl"}
    assert worker.cgroup_v2
    assert (
        "sum k3s https://github.com/k3s-io/k3s/releases/download/v1.36.3%2Bk3s1/k3s"
        in worker.render({})
    )


def test_a_runtime_that_railyard_installs_is_not_asked_for() -> None:
    spec = load_example("dgx-roce")
    ours = spec.host_defaults.model_copy(update={"toolkit": ContainerToolkit(kind="host")})
    worker = wants(spec.model_copy(update={"host_defaults": ours}))["gpu01"]
    assert "nvidia-container-runtime" not in {name for tool in worker.tools for name in tool.names}


def test_one_worker_alone_asks_for_images() -> None:
    for name in ("dgx-roce", "shared-rdma"):
        asked = wants(load_example(name))
        assert sum(bool(images(each)) for each in asked.values()) == 1


def test_a_host_outside_the_cluster_needs_no_free_port() -> None:
    spec = load_example("dgx-roce")
    *others, last = spec.hosts
    for role in ("storage", "login"):
        host = last.model_copy(update={"role": role})
        asked = wants(spec.model_copy(update={"hosts": (*others, host)}))
        assert asked[last.name].ports == ()


def test_an_older_kubernetes_takes_the_old_control_groups() -> None:
    spec = load_example("dgx-roce")
    assert spec.k3s is not None
    older = spec.k3s.model_copy(update={"version": "v1.34.3+k3s1"})
    asked = wants(spec.model_copy(update={"kubernetes": older}))
    assert not any(each.cgroup_v2 for each in asked.values())
    assert all(each.unit == "k3s" for each in asked.values())


def test_servers_that_join_are_asked_for_etcds_ports_too() -> None:
    spec = load_example("dgx-roce")
    first = spec.hosts[0]
    more = tuple(
        first.model_copy(
            update={
                "name": f"mgmt0{number}",
                "ssh": first.way.model_copy(update={"address": f"192.168.1.1{number}"}),
            }
        )
        for number in (2, 3)
    )
    asked = wants(spec.model_copy(update={"hosts": (*spec.hosts, *more)}))
    others = ("192.168.1.10", "192.168.1.13")
    assert asked["mgmt02"].peers == (
        *((other, port) for other in others for port in (6443, 2379, 2380)),
        ("192.168.1.13", 10250),
    )
    assert asked["gpu01"].peers == (
        *((f"192.168.1.1{number}", 6443) for number in (0, 2, 3)),
        ("192.168.2.12", 10250),
    )
    assert asked["mgmt01"].ports == (6443, 10250, 2379, 2380)
    assert "curl" in {name for tool in asked["mgmt01"].tools for name in tool.names}


def test_a_balancer_is_asked_whether_it_reaches_every_server() -> None:
    spec = load_checked_site(EXAMPLES / "dgx-roce" / "k3s-ha.yaml").spec_or_raise()
    asked, servers = wants(spec), tuple((each.address, 6443) for each in spec.servers)
    assert [asked[each.name].peers for each in spec.balancers] == [servers, servers]


def test_a_guest_without_its_gpu_yet_cannot_have_loaded_the_driver() -> None:
    """Without a device, modprobe ends with: could not insert 'nvidia': No such device."""
    spec = load_example("esxi-roce")
    guest = wants(spec)["vm01"]
    assert guest.gpu_driver == "host"
    facts = {"gpu_driver": "580.126.20", "kernel": "6.8.0-71-generic"}
    assert "gpu-driver-loaded" not in {each.rule for each in judge_host(guest, told(facts))}
    assert "gpu-driver" in {each.rule for each in judge_host(guest, told({}))}
    bare = wants(load_example("dgx-roce"))["gpu01"]
    assert "gpu-driver-loaded" in {each.rule for each in judge_host(bare, told(facts))}


@pytest.mark.parametrize(
    ("unit", "fact"),
    [("k3s", "k3s"), ("k3s-agent", "k3s"), ("kubelet", "kubelet"), ("railyard-haproxy",) * 2],
)
def test_a_host_says_which_unit_has_its_ports(unit: str, fact: str, tmp_path: Path) -> None:
    """The paths are those of K3s' install script, of kubespray and of `service.sh`."""
    (tmp_path / f"{unit}.service").touch()
    done = subprocess.run(
        ["/bin/sh", "-c", host_script().replace("/etc/systemd/system/", f"{tmp_path}/")],
        input="", capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert f"{fact}={unit}" in done.stdout.splitlines()


def test_every_host_is_asked_for_by_one_before_it() -> None:
    for name, port in (("dgx-roce", 10250), ("esxi-roce", 22)):
        asked = wants(load_example(name))
        ring = [peer for each in asked.values() for peer in each.peers if peer[1] == port]
        assert len(ring) == len({address for address, _ in ring}) == len(asked)


def test_images_of_containers_without_kubernetes_are_asked_for_too() -> None:
    spec = load_example("esxi-roce")
    assert spec.kubernetes is None
    (first, *others) = wants(spec).values()
    assert [each.name for each in images(first)] == ["image-base"]
    assert not any(map(images, others))


def test_images_that_charts_bring_are_those_of_the_lock() -> None:
    spec = load_example("crusoe-k3s")
    lock = lock_of(spec)
    assert charts_without_images(spec, lock) == ()
    key = ("chart", "gpu-operator")
    named = {
        "driver.version#image": "nvcr.io/nvidia/driver:580",
        "operator.version#image": "nvcr.io/nvidia/gpu-operator:v1",
        "validator.version#image": "nvcr.io/nvidia/gpu-operator:v1",
        "other.tag#tag": "ghcr.io/else/gpu-operator:v2",
    }
    entry = lock.entries[key].model_copy(update={"images": named})
    more = Lock({**lock.entries, key: entry}, exists=True)
    new = {*artefacts_of(spec, more)} - {*artefacts_of(spec, lock)}
    assert {each.name: each.address for each in new} == {
        "image-gpu-operator-driver.version": "nvcr.io/nvidia/driver:580",
        "image-gpu-operator-operator.version": "nvcr.io/nvidia/gpu-operator:v1",
        "image-gpu-operator-other.tag": "ghcr.io/else/gpu-operator:v2",
    }
    less = Lock({k: e for k, e in lock.entries.items() if k != key}, exists=True)
    assert [each.name for each in charts_without_images(spec, less)] == ["gpu-operator"]


def test_machines_of_a_cloud_that_are_not_made_are_not_asked() -> None:
    assert wants(example_spec("crusoe-k3s")) == {}


def test_questions_of_one_host_do_not_grow_with_the_site() -> None:
    spec = load_example("dgx-roce")
    worker = spec.hosts[1]
    many = tuple(
        worker.model_copy(
            update={
                "name": f"gpu{number:03}",
                "ssh": worker.way.model_copy(update={"address": f"10.0.0.{number}"}),
            }
        )
        for number in range(100)
    )
    asked = wants(spec.model_copy(update={"hosts": (spec.hosts[0], *many), "switches": ()}))
    lines = {len(each.render({}).splitlines()) for each in asked.values()}
    assert max(lines) < 30


def test_docker_hosts_are_asked_for_the_runtime_that_they_have() -> None:
    site = load_example("esxi-roce")
    wants = wants_of(site, make_plan(site, "site"), Lock())
    tools = [each for each in wants["vm01"].tools if "nvidia-container-runtime" in each.names]
    (found,) = tools
    assert found.why == "show GPUs to the containers that Docker runs"


def test_nft_is_asked_for_where_a_host_serves_the_api_to_some() -> None:
    spec = load_example("dgx-roce")
    assert spec.k3s is not None
    plane = spec.k3s.model_copy(update={"api_from": (IPv4Network("192.168.0.0/16"),)})
    asked = wants(spec.model_copy(update={"kubernetes": plane}))
    having = {
        host for host, each in asked.items() if any("nft" in tool.names for tool in each.tools)
    }
    assert having == {"mgmt01"}


@pytest.mark.parametrize(
    ("said", "bytes_added"),
    [
        ({}, 50),
        ({"calico_vxlan_mode": "CrossSubnet"}, 50),
        ({"calico_vxlan_mode": "Never", "calico_ipip_mode": "Always"}, 20),
        ({"calico_vxlan_mode": "Never", "calico_ipip_mode": "Never"}, 0),
    ],
)
def test_the_packets_of_pods_are_larger_than_the_pods_mtu(
    said: dict[str, JsonValue], bytes_added: int
) -> None:
    spec = load_checked_site(EXAMPLES / "dgx-roce" / "kubespray.yaml").spec_or_raise()
    assert spec.kubespray is not None
    plain = wants(spec)["gpu01"]
    assert (plain.pod_mtu_bytes, "node 192" in plain.render({})) == (0, False)
    plane = spec.kubespray.model_copy(update={"mtu_bytes": 8950, "extra_vars": said})
    asked = wants(spec.model_copy(update={"kubernetes": plane}))["gpu01"]
    assert (asked.pod_mtu_bytes, asked.pod_overhead_bytes) == (8950, bytes_added)
    assert "node 192.168.2.11" in asked.render({}).splitlines()


def test_the_device_of_the_nodes_address_is_found_by_it() -> None:
    wanted = HostWants("here", own_addresses=("127.0.0.1",), pod_mtu_bytes=1450)
    assert ask(wanted) == ()
    (found,) = ask(replace(wanted, pod_mtu_bytes=65_500, pod_overhead_bytes=50))
    assert (found.rule, found.actual) == ("pod-mtu", "lo carries 65536")
    assert "take 14 from kubernetes.mtu_bytes" in found.fix


def test_only_hcas_that_are_found_by_their_link_type_need_ipoib() -> None:
    spec = example_spec("crusoe-k3s")
    hosts = tuple(
        host.model_copy(update={"ssh": host.way.model_copy(update={"address": f"10.9.0.{number}"})})
        for number, host in enumerate(spec.hosts, start=1)
    )
    asked = wants(spec.model_copy(update={"hosts": hosts}))
    assert {name for name, each in asked.items() if each.ipoib} == {
        name for name in asked if "worker" in name
    }
    assert sum(each.ipoib for each in asked.values()) == 2
    assert not any(each.ipoib for each in wants(load_example("dgx-roce")).values())
    assert not any(each.ipoib for each in wants(load_example("quantum-ib")).values())


def test_the_hcas_without_ipoib_are_named(tmp_path: Path) -> None:
    for name, layer in (("mlx5_0", "InfiniBand"), ("mlx5_1", "InfiniBand"), ("mlx5_2", "Ethernet")):
        function = tmp_path / "sys/devices" / name
        (function / "infiniband" / name / "ports/1").mkdir(parents=True)
        (function / "infiniband" / name / "ports/1/link_layer").write_text(f"{layer}\n")
        (function / "infiniband" / name / "device").symlink_to(function)
        (tmp_path / "sys/class/infiniband").mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys/class/infiniband" / name).symlink_to(function / "infiniband" / name)
    (tmp_path / "sys/devices/mlx5_0/net/ib0").mkdir(parents=True)
    text = host_script().replace("/sys/class", f"{tmp_path}/sys/class")
    done = subprocess.run(
        ["/bin/sh", "-c", text], input="ipoib of functions\n",
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "ipoib=mlx5_1" in done.stdout.splitlines()
