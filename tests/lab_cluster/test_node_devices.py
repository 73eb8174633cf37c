"""The GPU plugin on its own, and what a lab host's /sys says to a node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from components.model.kubernetes import ExistingPlane
from components.operators.operators_plan import nic_cluster_policy
from components.pod_network.networks import shared_plugin_config
from lab.cluster.devices import NodeDevices, scan_devices
from lab.cluster.document import Doc
from lab.cluster.gpu_plugin import default_runtime, plugin_gpus
from lab.cluster.network_operator import NicPolicy, nic_policy_status
from lab.cluster.pod_view import NodeState
from lab.cluster.shared_plugin import plan_shared
from lab.hosts.model import HostModel
from lab.hosts.sysfs import SysLink, Table, make_sys_table
from lab.views import HcaConfig, HostConfig, NicConfig
from tests.golden.site import load_example
from tests.lab_cluster.test_pod_devices import MARKED, SHARED, daemon, hca_devices, nic_policy


@pytest.mark.parametrize(
    ("words", "docker", "driver", "gpus"),
    [
        (["agent", "--default-runtime", "nvidia"], "", True, 8),
        (["agent"], "", True, 0),
        (["agent", "--default-runtime", "nvidia"], "", False, 0),
        (["agent", "--docker", "true"], "nvidia", True, 8),
        (["agent", "--docker", "true", "--default-runtime", "nvidia"], "runc", True, 0),
    ],
)
def test_the_gpu_plugin_needs_driver_and_runtime(
    words: list[str], docker: str, *, driver: bool, gpus: int
) -> None:
    devices = NodeDevices(
        gpus=8, nvidia_driver=driver, nvidia_runtime=not docker, docker_runtime=docker
    )
    node: Doc = {"metadata": {"annotations": {"k3s.io/node-args": json.dumps(words)}}}
    plugin = daemon("nvcr.io/nvidia/k8s-device-plugin:v0.20.0")
    state = NodeState("node03", devices, (), [plugin])
    assert plugin_gpus(state, default_runtime(node, state)) == gpus
    assert plugin_gpus(NodeState("node03", devices, (), []), "nvidia") == 0


def write_tree(table: Table, root: Path) -> None:
    """The /sys of a lab host as plain files."""
    for path, entry in table.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, SysLink):
            place.symlink_to(entry.target)
        else:
            place.write_text(entry.read())


def lab_devices(root: Path, host: HostConfig) -> NodeDevices:
    model = HostModel(host, root / "nvram")
    model.boot(host.name)
    write_tree(make_sys_table(model), root / "sys")
    return scan_devices(root / "sys", None)


def lab_host(**devices: Any) -> HostConfig:  # noqa: ANN401 - fields of the view
    return HostConfig("n", "127.0.0.1", 22, "u", "", "seed", **devices)


def test_the_lab_hosts_sys_is_read_as_a_nodes(tmp_path: Path) -> None:
    nic = NicConfig("0000:58:00.0", "enp88s0", "mlx5_2", "15b3", "101b", "101c", 0, 100, 0)
    devices = lab_devices(tmp_path, lab_host(gpus=8, nics=(nic,)))
    (card,) = devices.cards
    assert (card.device, card.netdev, card.rdma, card.vfs) == ("101b", "enp88s0", "mlx5_2", 0)
    assert [pool.count for pool in plan_shared(shared_plugin_config(SHARED), devices.cards)] == [
        500,
        500,
    ]


def test_the_lab_hosts_hcas_are_published(tmp_path: Path) -> None:
    hcas = tuple(
        HcaConfig(f"mlx5_{n}", f"0000:a{n}:00.0", 400, "InfiniBand", n // 4) for n in range(8)
    )
    devices = lab_devices(tmp_path, lab_host(gpus=8, hcas=hcas))
    (pool,) = nic_policy().pools(devices, MARKED)
    assert (pool.resource, len(pool.devices)) == ("nvidia.com/hostdev", 8)
    assert {card.state for card in devices.cards} == {"4: ACTIVE"}


def test_in_a_cluster_of_others_the_policy_leaves_other_nodes_with_cards_alone(
    tmp_path: Path,
) -> None:
    """AKS' system pools have cards of Mellanox too, and the label that says so."""
    own, plane = load_example("quantum-ib"), ExistingPlane(plane="existing", version="v1.34.1")
    site, network = own.model_copy(update={"kubernetes": plane}), own.operators.network
    assert network is not None
    policy = NicPolicy(cast("Doc", nic_cluster_policy(site, network)), operator_ready=True)
    host = "kubernetes.io/hostname"
    labels = {name: {**MARKED, host: name} for name in (site.workers[0].node, "aks-system-0")}
    devices = hca_devices(tmp_path, count=2)
    published = [len(policy.pools(devices, own)) for own in labels.values()]
    assert published == [1, 0]
    assert nic_policy_status(policy, dict.fromkeys(labels, devices), labels)["state"] == "ready"
