"""Plane x pod network x transport: each cell is checked and planned, or refused with its reason."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pytest

from components.checks.site import check_site
from components.core.errors import SpecError
from components.core.templates import read_table
from components.model.owners import Way
from components.model.pod_network import Ipam
from components.pod_network import matrix
from components.pod_network.attachment import expected_allocatable, pod_attachment
from components.pod_network.matrix import WAYS
from components.pod_network.pod_network_plan import plan_pod_network
from tests.pod_network.sites import PLANES, make_site

PAGE = Path(__file__).parents[2] / "docs/reference/pod-networks.md"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
MULTUS = ("multus", "whereabouts")
Words = dict[str, str]
TABLE: dict[str, dict[str, Words]] = read_table(matrix.__file__, "matrix")
TRANSPORTS = ("roce", "infiniband")


@dataclass(frozen=True)
class Cell:
    """What a site of this cell has; all of it in the words of the real parts."""

    sets: tuple[str, ...]
    pod: dict[str, int]
    node: dict[str, int]
    networks: str = ""
    first: dict[str, Any] = field(default_factory=dict[str, Any])
    """Keys of the first plugin of the first attachment."""
    host_network: bool = False


IB = [f"ib_{n}" for n in range(8)]
CELLS: dict[tuple[Way, str], Cell] = {
    ("sriov", "roce"): Cell(
        (*MULTUS, "sriov-cni", "sriov-device-plugin"),
        {"nvidia.com/sriov_111": 1, "nvidia.com/sriov_112": 1},
        {"nvidia.com/sriov_111": 8, "nvidia.com/sriov_112": 8},
        "sriov111,sriov112",
        {"type": "sriov", "vlan": 111},
    ),
    ("sriov", "infiniband"): Cell(
        (*MULTUS, "ib-sriov-cni", "sriov-device-plugin"),
        {f"nvidia.com/{name}": 1 for name in IB},
        {f"nvidia.com/{name}": 8 for name in IB},
        "ib0,ib1,ib2,ib3,ib4,ib5,ib6,ib7",
        {"type": "ib-sriov", "link_state": "enable"},
    ),
    ("host_device", "infiniband"): Cell(
        ("sriov-device-plugin",),
        {f"nvidia.com/{name}": 1 for name in IB},
        {f"nvidia.com/{name}": 1 for name in IB},
    ),
    ("macvlan", "roce"): Cell(
        (*MULTUS, "macvlan-cni", "rdma-shared-dp-ds"),
        {"nvidia.com/hca": 1},
        {"nvidia.com/hca": 63},
        "macvlan111,macvlan112",
        {"type": "macvlan", "master": "enp5s0", "mtu": 9000},
    ),
    ("ipoib", "infiniband"): Cell(
        (*MULTUS, "ipoib-cni", "rdma-shared-dp-ds"),
        {"nvidia.com/hca": 1},
        {"nvidia.com/hca": 63},
        "ib0,ib1,ib2,ib3,ib4,ib5,ib6,ib7",
        {"type": "ipoib", "master": "ibs0f0"},
    ),
    ("none", "infiniband"): Cell(
        ("rdma-shared-dp-ds",), {"nvidia.com/hca": 1}, {"nvidia.com/hca": 63}
    ),
    ("host", "roce"): Cell(
        ("rdma-shared-dp-ds",), {"nvidia.com/hca": 1}, {"nvidia.com/hca": 63}, host_network=True
    ),
    ("host", "infiniband"): Cell(
        ("rdma-shared-dp-ds",), {"nvidia.com/hca": 1}, {"nvidia.com/hca": 63}, host_network=True
    ),
}
REFUSED: dict[tuple[Way, str], tuple[str, str]] = {
    ("host_device", "roce"): ("leaves the host's network", "sriov with vfs: 1"),
    ("macvlan", "infiniband"): ("macvlan needs an Ethernet address", "interface: ipoib"),
    ("ipoib", "roce"): ("IPoIB needs InfiniBand ports", "interface: macvlan"),
    ("none", "roce"): ("a RoCE GID needs a network device", "host_network: true"),
}


def test_every_way_has_a_cell_on_every_transport() -> None:
    ways = {(way, transport) for way in get_args(Way) for transport in TRANSPORTS}
    assert ways == {*CELLS, *REFUSED}
    assert {key for key in ways if "gives" in TABLE[key[0]][key[1]]} == {*CELLS}


def test_the_ways_that_are_refused_have_a_reason_in_the_table() -> None:
    cells = {(way, transport) for way, row in TABLE.items() for transport in row}
    assert {*get_args(Way), *get_args(Ipam)} == TABLE.keys()
    assert {key for key in cells if "why" in TABLE[key[0]][key[1]]} == matrix.REFUSED


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("key", CELLS, ids="-".join)
def test_a_cell_that_works(key: tuple[Way, str], plane: str) -> None:
    wanted, spec = CELLS[key], make_site(*key, plane)
    assert [problem for problem in check_site(spec) if problem.severity == "error"] == []
    bodies: list[Any] = [manifest.body for manifest in plan_pod_network(spec).manifests]
    sets = {body["metadata"]["name"]: body for body in bodies if body["kind"] == "DaemonSet"}
    looked = ["cni-folders"] if plane == "existing" and "multus" in wanted.sets else []
    assert sorted(sets) == sorted([*wanted.sets, *looked])
    attachment = pod_attachment(spec)
    assert attachment.resources == wanted.pod
    assert attachment.annotations.get(NETWORKS, "") == wanted.networks
    assert attachment.host_network is wanted.host_network
    offered = expected_allocatable(spec)["gpu01"]
    assert offered == wanted.node | {"nvidia.com/gpu": 8}
    made = {b["metadata"]["name"]: b for b in bodies if b["kind"].startswith("NetworkAtt")}
    for name in wanted.networks.split(",") if wanted.networks else ():
        config = json.loads(made[name]["spec"]["config"])
        assert config["name"] == name
    if wanted.networks:
        first = json.loads(made[wanted.networks.split(",")[0]]["spec"]["config"])
        assert wanted.first.items() <= first.items()
    else:
        assert not made
    folder = "/var/lib/rancher/k3s/data/cni" if plane == "k3s" else "/opt/cni/bin"
    for name in set(sets) - {"sriov-device-plugin", "rdma-shared-dp-ds"}:
        volumes = sets[name]["spec"]["template"]["spec"]["volumes"]
        assert folder in [volume.get("hostPath", {}).get("path") for volume in volumes]


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("key", REFUSED, ids="-".join)
def test_a_cell_that_is_refused(key: tuple[Way, str], plane: str) -> None:
    why, instead = REFUSED[key]
    spec = make_site(*key, plane)
    found = {problem.rule: problem for problem in check_site(spec)}
    assert why in found["pod-network"].what
    assert instead in found["pod-network"].fix
    with pytest.raises(SpecError, match=why):
        plan_pod_network(spec)


ADDRESSED: dict[tuple[Ipam, str], str] = {
    ("whereabouts", "roce"): "whereabouts",
    ("whereabouts", "infiniband"): "whereabouts",
    ("nv-ipam", "roce"): "nv-ipam",
    ("nv-ipam", "infiniband"): "nv-ipam",
    ("static", "roce"): "static",
    ("static", "infiniband"): "static",
    ("dhcp", "roce"): "dhcp",
}
OPERATORS = {"network": {"chart": {"version": "26.4.1"}}}


def test_every_way_to_an_address_has_a_cell() -> None:
    ways = {(ipam, transport) for ipam in get_args(Ipam) for transport in TRANSPORTS}
    assert {key for key in ways if "gives" in TABLE[key[0]][key[1]]} == {*ADDRESSED}


@pytest.mark.parametrize("owner", ["install", "operator"])
@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("key", ADDRESSED, ids="-".join)
def test_addresses_on_each_plane_with_and_without_the_operator(
    key: tuple[Ipam, str], plane: str, owner: str
) -> None:
    ipam, transport = key
    network = {"ipam": ipam, "multus": owner, "source_routing": True, "rdma_isolation": True}
    parts: dict[str, Any] = {"operators": OPERATORS} if owner == "operator" else {}
    if ipam == "static":
        parts["jobs"] = {"image": "registry.example.com/probe:1", "mpi_operator": False}
    if ipam == "dhcp":
        parts["rails"] = [
            {"name": f"rail-{n}", "vlan": 111 + n, "subnet": f"10.10.{111 + n}.0/24",
             "dhcp_server": f"10.10.{111 + n}.2", "resource": f"sriov_{111 + n}",
             "network": f"sriov{111 + n}"}
            for n in range(2)
        ]  # fmt: skip
    parts["host_defaults"] = {
        "user": {"name": "nvidia", "uid": 1000},
        "driver": {"kind": "present"},
        "kernel": {"rdma_netns": "exclusive"},
        "peermem": True,
    }
    spec = make_site("sriov", transport, plane, network=network, **parts)
    wrong = {problem.rule for problem in check_site(spec) if problem.severity == "error"}
    # Without MPIJobs there is no collective to accept.
    # It is about networks: what publishes the GPUs is left out.
    assert wrong - {"gpu-publisher"} == ({"mpi-operator"} if ipam == "static" else set())
    name = "sriov111" if transport == "roce" else "ib0"
    bodies: dict[str, Any] = {
        f"{m.kind}/{m.name}": m.body for m in plan_pod_network(spec).manifests
    }
    config = json.loads(bodies[f"NetworkAttachmentDefinition/{name}"]["spec"]["config"])
    first, *others = config["plugins"]
    assert first["ipam"]["type"] == ADDRESSED[key]
    chain = ["sbr", "rdma"] if transport == "roce" else ["sbr"]
    assert [each["type"] for each in others] == chain
    if transport == "infiniband":
        assert first["rdmaIsolation"] is True


def _page() -> str:
    prose, _, _ = PAGE.read_text().partition("| Pod network |")
    lines = ["| Pod network | RoCE | InfiniBand |", "| --- | --- | --- |"]
    for way in get_args(Way):
        cells = [_cell(TABLE[way][transport]) for transport in TRANSPORTS]
        lines.append(f"| `{WAYS[way]}` | {cells[0]} | {cells[1]} |")
    lines += ["", "| Address of a pod | RoCE | InfiniBand |", "| --- | --- | --- |"]
    for ipam in get_args(Ipam):
        cells = [_cell(TABLE[ipam][transport]) for transport in TRANSPORTS]
        lines.append(f"| `ipam: {ipam}` | {cells[0]} | {cells[1]} |")
    return prose + "".join(f"{line}\n" for line in lines)


def _cell(entry: Words) -> str:
    if "why" in entry:
        return f"Refused: {entry['why']}. {entry['instead'][:1].upper()}{entry['instead'][1:]}."
    return f"{entry['gives'][:1].upper()}{entry['gives'][1:]}. Needs {entry['needs']}."


def test_the_page_has_the_table() -> None:
    if os.environ.get("RAILYARD_GOLDENS") == "1":
        PAGE.write_text(_page())
    assert PAGE.read_text() == _page()
