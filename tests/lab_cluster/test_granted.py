"""What a real cluster lacks is absent in the lab: held against a table with sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from components.catalogue.cluster_parts import DISTRIBUTIONS
from components.core.errors import DeviceError
from lab.cluster.attach import Site, attach
from lab.cluster.device_plugin import plan_pools
from lab.cluster.devices import Card, NodeDevices
from lab.cluster.document import Doc
from lab.cluster.gpu_operator import Policy, gpus_of, policy_status
from lab.cluster.gpu_plugin import plugin_gpus
from lab.cluster.k3s_config import HostPaths
from lab.cluster.k3s_node import DeviceWatch, look_around, refuse_machine
from lab.cluster.k3s_token import check_ca, format_token, parse_token
from lab.cluster.pod_view import CNI_BIN_DIR, NETWORKS, NodeState, Pod
from lab.cluster.shared_plugin import plan_shared
from tests.granted import Outcome, Played, State, columns, hold, listed, rows_of
from tests.lab_cluster.test_rules import VF

CARD = Card(
    pci="0000:58:00.0", vendor="15b3", device="101b", driver="mlx5_core", netdev="enp88s0",
    rdma="mlx5_2", link_layer="Ethernet", state="4: ACTIVE", rate="100 Gb/sec", mtu_bytes=9000,
    addresses=(), vfs=0,
)  # fmt: skip
GPU_LABEL = "feature.node.kubernetes.io/pci-10de.present"


ROWS = rows_of(Path(__file__).with_name("granted.yaml"), Played)


def daemon(image: str, folder: str, script: str = "") -> Pod:
    """A running pod that has a folder of its node."""
    container = {"name": "c", "image": image, "command": ["sh", "-c", script] if script else []}
    volumes = [{"name": "bin", "hostPath": {"path": folder}}]
    spec = {"containers": [container], "volumes": volumes}
    metadata = {"name": image, "namespace": "kube-system", "uid": image}
    return Pod(cast("Doc", {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}))


def gpus_by_operator(state: State, _folder: Path) -> Outcome:
    devices = NodeDevices(
        gpus=8,
        nvidia_driver=state.get("driver", True),
        nvidia_runtime=state.get("runtime", False),
    )
    spec = {
        "driver": {"enabled": False},
        "toolkit": {"enabled": state.get("toolkit", False)},
        "cdi": {"enabled": True, "nriPluginEnabled": state.get("nri", False)},
    }
    policy = Policy({"spec": cast("Doc", spec)}, operator_ready=True)
    labels = {GPU_LABEL: "true"} if state.get("label", True) else {}
    node = NodeState("gpu01", devices, (), [])
    status = policy_status(policy, [node], {"gpu01": labels})
    assert (status["state"] == "ready") is (gpus_of(node, policy, labels) == 8)
    return status["state"] == "ready", json.dumps(status)


def gpus_by_plugin(state: State, _folder: Path) -> Outcome:
    devices = NodeDevices(gpus=8, nvidia_driver=True, nvidia_runtime=state["runtime"])
    plugin = daemon("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "/dev")
    cast("dict[str, Any]", plugin.document["spec"])["runtimeClassName"] = "nvidia"
    return plugin_gpus(NodeState("gpu01", devices, (), [plugin]), "") == 8, ""


def runtime_of_later(state: State, folder: Path) -> Outcome:
    paths, search = HostPaths(folder), "/usr/local/bin:/usr/bin"
    started = look_around(paths, "k3s", search)
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/nvidia-container-runtime").touch(mode=0o755)
    if state["restart"]:
        started = look_around(paths, "k3s", search)
    return DeviceWatch(paths, started).devices.nvidia_runtime, ""


def pool(state: State, _folder: Path) -> Outcome:
    selectors = [{"vendors": ["15b3"], "devices": [state.get("device", "1018")]}]
    resource = {"resourceName": state.get("name", "sriov_111"), "selectors": selectors}
    found = plan_pools(json.dumps({"resourceList": [resource]}), [VF])
    return bool(found[0].devices), ""


def rdma_of_pool(state: State, _folder: Path) -> Outcome:
    place = {"isRdma": True}
    selector = {"vendors": ["15b3"], **(place if state["inside"] else {})}
    resource = {"resourceName": "sriov_111", "selectors": [selector]}
    found = plan_pools(
        json.dumps({"resourceList": [{**resource, **({} if state["inside"] else place)}]}), [VF]
    )
    return found[0].rdma, ""


def shared_pool(state: State, _folder: Path) -> Outcome:
    entry = {"resourceName": "hca", "rdmaHcaMax": 500, "selectors": {"vendors": ["15b3"]}}
    found = plan_shared(json.dumps({"configList": [entry]}), [replace(CARD, rdma=state["rdma"])])
    return found[0].count == 500, ""


def attached(state: State, _folder: Path) -> Outcome:
    script = "; ".join(f"cp /src/{name} /host/bin" for name in state.get("plugins", ["macvlan"]))
    script += "; exec /src/dhcp daemon" if state.get("daemon") else ""
    pods = [
        daemon("k8snetworkplumbingwg/multus-cni:v4.3.0", state.get("multus", CNI_BIN_DIR)),
        daemon("k8snetworkplumbingwg/whereabouts:v0.9.4", state.get("whereabouts", CNI_BIN_DIR)),
        daemon("k8snetworkplumbingwg/plugins:v1.6.2", CNI_BIN_DIR, script),
        daemon("k8snetworkplumbingwg/rdma-cni:v1.6.0", CNI_BIN_DIR),
        daemon("mellanox/nvidia-k8s-ipam:v0.4.0", state.get("nv_ipam", CNI_BIN_DIR)),
    ]
    block = {"nodeName": state.get("node", "gpu01"), "startIP": "10.10.1.1", "endIP": "10.10.1.2"}
    ip_pool = {"metadata": {"name": "rail"}, "status": {"allocations": [block]}}
    main = {
        "type": "macvlan",
        "master": state.get("master", "enp88s0"),
        "mtu": state.get("mtu", 9000),
        "capabilities": {"ips": True},
        "ipam": {
            "type": state.get("ipam", "whereabouts"),
            "range": state.get("range", "10.10.1.0/30"),
            "configuration_path": state.get("path", DISTRIBUTIONS["k3s"].whereabouts_config),
            "poolName": "rail",
        },
    }
    plugins = [main, *([{"type": state["chained"]}] if "chained" in state else [])]
    definition = {"spec": {"config": json.dumps({"plugins": plugins})}}
    metadata = {
        "name": "worker",
        "namespace": "default",
        "uid": "worker",
        "annotations": {NETWORKS: state.get("networks", "rail")},
    }
    pod = Pod(cast("Doc", {"metadata": metadata, "spec": {"containers": []}}))
    site = Site(
        {"default/rail": cast("Doc", definition)},
        frozenset(state.get("used", ())),
        state.get("kinds", True),
        lambda _: state.get("answer", ""),
        [cast("Doc", ip_pool)],
    )
    devices = NodeDevices(cards=(CARD,), exclusive=state.get("exclusive", False))
    node = NodeState("gpu01", devices, (), pods)
    given = attach(pod, node, site)
    return bool(given), "" if given else "nothing attached"


def started(state: State, folder: Path) -> Outcome:
    (folder / "sys/fs/cgroup").mkdir(parents=True)
    (folder / "bin").mkdir()
    if state.get("cgroup", 2) == 2:
        (folder / "sys/fs/cgroup/cgroup.controllers").touch()
    if state["runtime"]:
        (folder / "bin/nvidia-container-runtime").touch(mode=0o755)
    refuse_machine(HostPaths(folder), {"default-runtime": ["nvidia"]}, str(folder / "bin"))
    return True, ""


def token(state: State, _folder: Path) -> Outcome:
    check_ca(parse_token(format_token(b"ours", "node", "secret")), state["ca"].encode())
    return True, ""


PLAYS: dict[str, Callable[[State, Path], Outcome]] = {
    "gpus by operator": gpus_by_operator,
    "gpus by plugin": gpus_by_plugin,
    "a runtime of later": runtime_of_later,
    "a pool": pool,
    "rdma of a pool": rdma_of_pool,
    "a shared pool": shared_pool,
    "attach": attached,
    "k3s": started,
    "token": token,
}


def tried(row: Played, state: State, folder: Path) -> Outcome:
    try:
        return PLAYS[row.play](state, folder)
    except DeviceError as error:
        return False, str(error)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.thing)
def test_a_thing_is_there_only_with_what_brings_it(tmp_path: Path, row: Played) -> None:
    hold(row, partial(tried, row), tmp_path)


def test_the_page_lists_the_same() -> None:
    assert columns(ROWS) == listed("What a cluster has only when")
    assert {row.play for row in ROWS} == PLAYS.keys()
