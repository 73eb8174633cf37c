"""What pods ask for is what plugins publish, in every mode."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.core.errors import SpecError
from components.model.cluster import ClusterSpec
from components.model.pod_network import SharedDevice
from components.pod_network.attachment import (
    PodAttachment,
    expected_allocatable,
    pod_attachment,
    rail_attachment,
    server_address,
    takes_nic,
)
from components.pod_network.networks import shared_plugin_config
from tests.golden.site import changed_spec, load_example


def changed_network(spec: ClusterSpec, **changes: Any) -> ClusterSpec:  # noqa: ANN401 - keys of the model
    return changed_spec(spec, pod_network=spec.pod_network.model_copy(update=changes))


def with_workers(spec: ClusterSpec) -> ClusterSpec:
    """The cloud example as it is once its instances are known."""
    worker = load_example("dgx-roce").workers[0]
    named = [
        worker.model_copy(update={"name": f"crusoe-k3s-worker-{n}", "nics": (), "hcas": 8})
        for n in range(2)
    ]
    return changed_spec(spec, hosts=tuple(named))


def test_a_pod_of_each_example() -> None:
    networks = "k8s.v1.cni.cncf.io/networks"
    assert pod_attachment(load_example("dgx-roce")) == PodAttachment(
        {"intel.com/sriov_111": 1, "intel.com/sriov_112": 1},
        {networks: "sriov111,sriov112"},
        host_network=False,
    )
    shared = load_example("shared-rdma")
    assert pod_attachment(shared) == PodAttachment(
        {"rdma/hca_shared_devices_b": 1}, {networks: "macvlan156"}, host_network=False
    )
    assert pod_attachment(changed_network(shared, host_network=True)) == PodAttachment(
        {"rdma/hca_shared_devices_b": 1}, {}, host_network=True
    )
    assert pod_attachment(load_example("crusoe-k3s")) == PodAttachment(
        {"nvidia.com/hostdev": 8}, {}, host_network=False
    )


@pytest.mark.parametrize("name", ["dgx-roce", "shared-rdma"])
def test_a_server_is_on_the_network_with_the_known_address(name: str) -> None:
    spec = load_example(name)
    rail, host = spec.rails[0], spec.workers[1]
    networks = rail_attachment(spec, rail, server=host).annotations.values()
    assert list(networks) == [f"{rail.network}-probe"]
    assert server_address(spec, rail, host) == str(rail.subnet[-2])
    assert list(rail_attachment(spec, rail).resources) == [
        f"{spec.pod_network.resource_prefix}/{rail.resource}"
    ]


def test_in_the_hosts_network_the_server_has_the_cards_address() -> None:
    spec = changed_network(load_example("shared-rdma"), host_network=True)
    rail, host = spec.rails[0], spec.workers[1]
    with pytest.raises(SpecError, match="node04 lacks an address on rail-0"):
        server_address(spec, rail, host)
    nic = host.nics[0].model_copy(update={"address": "10.106.156.4"})
    assert server_address(spec, rail, host.model_copy(update={"nics": (nic,)})) == "10.106.156.4"


def test_what_each_worker_must_offer() -> None:
    assert expected_allocatable(load_example("dgx-roce"))["gpu01"] == {
        "nvidia.com/gpu": 8,
        "intel.com/sriov_111": 8,
        "intel.com/sriov_112": 8,
    }
    assert expected_allocatable(load_example("shared-rdma"))["node04"] == {
        "nvidia.com/gpu": 8,
        "rdma/hca": 500,
        "rdma/hca_shared_devices_b": 500,
    }
    assert expected_allocatable(with_workers(load_example("crusoe-k3s"))) == {
        f"crusoe-k3s-worker-{n}": {"nvidia.com/gpu": 8, "nvidia.com/hostdev": 8} for n in range(2)
    }
    assert expected_allocatable(load_example("esxi-roce")) == {}


@pytest.mark.parametrize("name", ["dgx-roce", "shared-rdma", "crusoe-k3s"])
def test_pods_ask_for_no_more_than_every_worker_offers(name: str) -> None:
    spec = load_example(name)
    spec = with_workers(spec) if spec.cloud else spec
    for offered in expected_allocatable(spec).values():
        for resource, count in pod_attachment(spec).resources.items():
            assert offered[resource] >= count


def test_the_selectors_mean_the_same_here_and_in_the_plugins_file() -> None:
    spec = load_example("shared-rdma")
    nic = spec.workers[0].nics[0]
    for device, taken in (
        (SharedDevice(resource="a", device_ids=("101b",)), True),
        (SharedDevice(resource="a", device_ids=("1017", "101b"), vendors=("15b3",)), True),
        (SharedDevice(resource="a", device_ids=("101b",), vendors=("8086",)), False),
        (SharedDevice(resource="a", interfaces=("enp88s0",)), True),
        (SharedDevice(resource="a", interfaces=("enp5s0",)), False),
        (SharedDevice(resource="a"), False),
    ):
        assert takes_nic(device, nic) is taken
        site = changed_network(spec, shared_devices=(device,))
        (entry,) = json.loads(shared_plugin_config(site))["configList"]
        assert entry["selectors"].get("deviceIDs", []) == [*device.device_ids]
        assert entry["selectors"].get("ifNames", []) == [*device.interfaces]
