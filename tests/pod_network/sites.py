"""Small sites for the matrix of pod networks: two examples, on either plane."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any, Final, cast

import yaml

from components.model.cluster import ClusterSpec
from components.model.hosts import Host
from components.model.owners import Way
from components.pod_network.pod_network_plan import plan_pod_network
from components.reading.port_ranges import spread_document
from tests.golden.site import EXAMPLES, changed_spec

PLANES: Final = ("k3s", "existing")
WAYS: Final[dict[Way, dict[str, Any]]] = {
    "sriov": {"mode": "sriov"},
    "host_device": {"mode": "host_device"},
    "macvlan": {"mode": "rdma_shared", "interface": "macvlan"},
    "ipoib": {"mode": "rdma_shared", "interface": "ipoib"},
    "none": {"mode": "rdma_shared", "interface": "none"},
    "host": {"mode": "rdma_shared", "host_network": True},
}
_EXISTING: Final = {
    "plane": "existing",
    "version": "v1.34.9",
    "kubeconfig": {"secret": "kubeconfig"},
}
_ADDRESSES: Final = {"gpu01": 11, "gpu02": 12}


@cache
def _example(name: str) -> dict[str, Any]:
    return cast("dict[str, Any]", yaml.safe_load((EXAMPLES / name / "site.yaml").read_text()))


def make_site(
    way: Way,
    transport: str,
    plane: str = "k3s",
    network: dict[str, Any] | None = None,
    **parts: Any,  # noqa: ANN401 - parts of a file
) -> ClusterSpec:
    """A site with one cell of the matrix; it says what the cell needs, and nothing more.

    Args:
        way: How pods get onto the rails.
        transport: `roce` or `infiniband`.
        plane: Who runs the control plane.
        network: More keys of `pod_network`.
        parts: Other parts of the file.
    """
    make = _on_roce if transport == "roce" else _on_infiniband
    data = make(way)
    data["pod_network"] = {"resource_prefix": "nvidia.com", **WAYS[way], **(network or {})}
    if WAYS[way]["mode"] == "rdma_shared":
        kind = "ether" if transport == "roce" else "infiniband"
        data["pod_network"]["shared_devices"] = [
            {"resource": "hca", "hca_max": 63, "vendors": ["15b3"], "link_types": [kind]}
        ]
    if plane == "existing":
        data["kubernetes"] = _EXISTING
        data["hosts"] = [host for host in data["hosts"] if host["role"] == "worker"]
    data |= parts
    return ClusterSpec.model_validate(spread_document(data))


def _on_roce(way: Way) -> dict[str, Any]:
    data = copy.deepcopy(_example("dgx-roce"))
    if WAYS[way]["mode"] != "rdma_shared":
        return data
    for number, rail in enumerate(data["rails"]):
        rail |= {"resource": "hca", "network": f"macvlan11{number + 1}"}
    ports = data["switches"][0]["ports"]
    data["switches"][0]["ports"] = {
        name: {"to": port, "mode": "access"} for name, port in ports.items()
    }
    for host in data["hosts"]:
        for number, nic in enumerate(host.get("nics", ())):
            nic["vfs"] = 0
            if way == "host":
                nic["address"] = f"10.10.11{number + 1}.{_ADDRESSES[host['name']]}"
    return data


def _on_infiniband(way: Way) -> dict[str, Any]:
    data = copy.deepcopy(_example("quantum-ib"))
    del data["operators"]["network"]
    if way not in {"sriov", "ipoib", "host_device"}:
        return data
    data["infiniband"]["rails"] = [
        {"name": f"rail-{n}", "resource": f"ib_{n}", "network": f"ib{n}"}
        | ({"subnet": f"10.20.{n}.0/24"} if way != "host_device" else {})
        | ({"interface": f"ibs{n}f0"} if way == "ipoib" else {})
        for n in range(8)
    ]
    for host in data["hosts"]:
        if host["role"] == "worker" and way != "ipoib":
            vfs = 8 if way == "sriov" else 0
            host["hca_sriov"] = [
                {"pci": f"0000:{slot}:00.0", "rail": f"rail-{n}", "vfs": vfs}
                for n, slot in enumerate(("18", "2a", "3a", "5d", "9a", "ab", "ba", "db"))
            ]
    return data


def make_two_leaves(second: str) -> tuple[ClusterSpec, Host]:
    """A rail on two leaves, and the worker on the second one.

    Args:
        second: Name of that worker's node.
    """
    parts = {
        leaf: {"subnet": f"10.10.111.{first}/25", "gateway": f"10.10.111.{first + 1}"}
        for leaf, first in (("leaf-01", 0), ("leaf-02", 128))
    }
    rail = {"name": "rail-0", "vlan": 111, "subnet": "10.10.111.0/24", "leaves": parts}
    other = {"name": "rail-1", "vlan": 112, "subnet": "10.10.112.0/24"}
    rails: list[Any] = [
        {**each, "resource": f"sriov_{each['vlan']}", "network": f"sriov{each['vlan']}"}
        for each in (rail, other)
    ]
    spec = make_site("sriov", "roce", rails=rails)
    ports = spec.switches[0].ports
    halves = [
        spec.switches[0].model_copy(
            update={
                "name": leaf,
                "ports": {name: port for name, port in ports.items() if host in port.to},
            }
        )
        for leaf, host in (("leaf-01", "gpu01"), ("leaf-02", "gpu02"))
    ]
    near, far = spec.workers
    far = far.model_copy(update={"node_name": second})
    hosts = (spec.hosts[0], near, far)
    return changed_spec(spec, switches=tuple(halves), hosts=hosts), far


def plugin_config(spec: ClusterSpec) -> Any:  # noqa: ANN401 - an object of Kubernetes
    """The ConfigMap of the device plugin."""
    found = [m.body for m in plan_pod_network(spec).manifests if m.kind == "ConfigMap"]
    (config,) = (body for body in found if "config.json" in cast("Any", body)["data"])
    return config
