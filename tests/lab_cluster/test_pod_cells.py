"""Cells of the matrix of pod networks, played: the product's objects on a real API server.

Each test puts one pod network onto the cluster and takes it off again, so that their order is open.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.kubernetes.manifest import Body
from components.model.cluster import ClusterSpec
from components.model.owners import Way
from components.operators.operators_plan import plan_operators
from components.pod_network.attachment import (
    PodAttachment,
    expected_allocatable,
    pod_attachment,
    rail_attachment,
)
from components.pod_network.pod_network_plan import plan_pod_network
from lab.cluster.build import ensure_binaries
from lab.cluster.document import (
    Doc,
    as_doc,
    docs_at,
    name_of,
    namespace_of,
    pairs_at,
    text_at,
)
from lab.cluster.pod_view import Pod
from lab.cluster.process import wait_until
from tests.lab_cluster.conftest import PODS, TOKEN, FakeLab, Site, make_gpu_node
from tests.lab_cluster.nodes import make_fabric_node, make_gpus
from tests.pod_network.sites import make_site, make_two_leaves

pytestmark = pytest.mark.cluster
EXISTING = {
    "plane": "existing",
    "version": "v1.36.3+k3s1",
    "kubeconfig": {"secret": "kubeconfig"},
}
"""A K3s of somebody else: its folders are K3s' own."""
_WHEREABOUTS = "/apis/whereabouts.cni.cncf.io/v1alpha1"
KINDS = {"vfs": 11, "cards": 12, "ib-vfs": 13, "ib-cards": 14}


class CellSite(Site):
    """A site of its own, with a node of each kind of cards."""

    @property
    def block(self) -> str:
        return f"127.247.{os.getpid() // 250 % 250 + 1}"

    def allocatable(self, node: str) -> dict[str, str]:
        return pairs_at(self.api.find(f"/api/v1/nodes/{node}"), "status", "allocatable")

    def pod(self, name: str) -> Pod:
        document: Doc = self.api.find(f"{PODS}/{name}") or {}
        return Pod(document)

    def events(self, name: str) -> list[str]:
        items = self.api.items("/api/v1/namespaces/default/events")
        mine = [each for each in items if text_at(each, "involvedObject", "name") == name]
        return [text_at(each, "message") for each in mine]

    @contextmanager
    def network(self, spec: ClusterSpec) -> Generator[None]:
        """Install a pod network, and take away what is not the next one's as well."""
        manifests = plan_pod_network(spec).manifests
        self.install_network(manifests)
        try:
            yield
        finally:
            self.delete(*(f"{PODS}/{name_of(each)}" for each in self.api.items(PODS)))
            gone = [as_doc(m.body) for m in manifests if m.kind != "CustomResourceDefinition"]
            self.delete(*map(self.path_of, gone))
            # With its daemons gone nobody frees them, as on real nodes.
            for kind in ("ippools", "overlappingrangeipreservations"):
                held = self.api.items(f"{_WHEREABOUTS}/{kind}")
                self.delete(
                    *(
                        f"{_WHEREABOUTS}/namespaces/{namespace_of(each)}/{kind}/{name_of(each)}"
                        for each in held
                    )
                )

    def wait_running(self, name: str) -> None:
        wait_until(f"{name} to run", lambda: self.phase(f"{PODS}/{name}") == "Running", 120)

    def start_pod(self, name: str, node: str, wanted: PodAttachment) -> None:
        limits: Body = {resource: str(count) for resource, count in wanted.resources.items()}
        container: Body = {"name": "c", "image": "i", "resources": {"limits": limits}}
        metadata: Body = {
            "name": name,
            "namespace": "default",
            "annotations": {**wanted.annotations},
        }
        within: Body = {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "hostNetwork": wanted.host_network,
            "containers": [container],
        }
        pod: Body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": within}
        self.apply([pod])


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory, fake_lab: FakeLab) -> Iterator[CellSite]:
    ensure_binaries()
    site = CellSite(tmp_path_factory.mktemp("cells"), fake_lab.socket_path)
    head = f"token: {TOKEN}\nnode-ip: {site.address(10)}\ncluster-init: true\n"
    site.configure("mgmt01", f"{head}disable: [traefik]\n")
    try:
        site.start("mgmt01", "server")
        site.wait_log("mgmt01", "up and running")
        roots = {name: site.configure(name, site.agent_config(n)) for name, n in KINDS.items()}
        make_gpu_node(roots["vfs"], 8)
        for number, pci in enumerate(("0000:05:00.0", "0000:84:00.0")):
            (roots["vfs"] / f"sys/bus/pci/devices/{pci}/infiniband/mlx5_{number}").mkdir(
                parents=True
            )
        make_two_cards(roots["cards"])
        make_fabric_node(roots["ib-vfs"], 8)
        make_fabric_node(roots["ib-cards"], 0)
        for name in roots:
            site.start(name, "agent")
            site.wait_log(name, "up and running")
        yield site
    finally:
        site.end()


@dataclass(frozen=True)
class Played:
    """One cell, the node that it is played on, and what is there then."""

    way: Way
    transport: str
    plane: str
    node: str
    offered: tuple[str, str]
    """A resource, and how many of it."""
    addresses: frozenset[str] = frozenset()
    """The least of the pod's addresses; none means that it has none."""


CELLS = [
    Played(
        "sriov", "roce", "k3s", "vfs",
        ("nvidia.com/sriov_111", "8"), frozenset({"10.10.111.1", "10.10.112.1"}),
    ),
    Played(
        "sriov", "roce", "existing", "vfs",
        ("nvidia.com/sriov_112", "8"), frozenset({"10.10.111.1", "10.10.112.1"}),
    ),
    Played(
        "macvlan", "roce", "k3s", "cards",
        ("nvidia.com/hca", "63"), frozenset({"10.10.111.1", "10.10.112.1"}),
    ),
    Played("host", "roce", "k3s", "cards", ("nvidia.com/hca", "63")),
    Played(
        "sriov", "infiniband", "k3s", "ib-vfs",
        ("nvidia.com/ib_7", "8"), frozenset({"10.20.0.1", "10.20.7.1"}),
    ),
    Played(
        "sriov", "infiniband", "existing", "ib-vfs",
        ("nvidia.com/ib_0", "8"), frozenset({"10.20.0.1", "10.20.7.1"}),
    ),
    Played("host_device", "infiniband", "k3s", "ib-cards", ("nvidia.com/ib_0", "1")),
    Played(
        "ipoib", "infiniband", "k3s", "ib-cards",
        ("nvidia.com/hca", "63"), frozenset({"10.20.0.1", "10.20.7.1"}),
    ),
    Played("none", "infiniband", "existing", "ib-cards", ("nvidia.com/hca", "63")),
    Played("host", "infiniband", "k3s", "ib-cards", ("nvidia.com/hca", "63")),
]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: f"{c.plane}-{c.way}-{c.transport}")
def test_a_cell_is_played(cells: CellSite, cell: Played) -> None:
    parts: dict[str, Any] = {"kubernetes": EXISTING} if cell.plane == "existing" else {}
    spec = make_site(cell.way, cell.transport, **parts)
    wanted = {
        name: str(count)
        for name, count in expected_allocatable(spec)["gpu01"].items()
        if name != "nvidia.com/gpu"
    }
    assert cell.offered in wanted.items()
    with cells.network(spec):
        wait_until("resources", lambda: wanted.items() <= cells.allocatable(cell.node).items(), 120)
        cells.start_pod("worker", cell.node, pod_attachment(spec))
        cells.wait_running("worker")
        if cell.way == "host_device":
            wait_until("devices", lambda: bool(cells.pod("worker").allocated()), 120)
            held = cells.pod("worker").allocated()
            assert held["nvidia.com/ib_0"] == ("0000:18:00.0",)
            assert held["nvidia.com/ib_7"] == ("0000:db:00.0",)
        elif cell.way == "sriov":
            assert len(cells.pod("worker").devices_in_use()) == len(pod_attachment(spec).resources)
        found = cells.pod("worker").addresses()
        assert cell.addresses <= found
        assert bool(cell.addresses) is bool(found)


def test_resources_run_out(cells: CellSite) -> None:
    spec = make_site("host_device", "infiniband")
    with cells.network(spec):
        wait_until("HCAs", lambda: cells.allocatable("ib-cards").get("nvidia.com/ib_0") == "1", 120)
        cells.start_pod("first", "ib-cards", pod_attachment(spec))
        cells.wait_running("first")
        cells.start_pod("second", "ib-cards", pod_attachment(spec))

        def refused() -> bool:
            conditions = docs_at(cells.pod("second").document, "status", "conditions")
            return any("Insufficient nvidia.com/ib_0" in text_at(c, "message") for c in conditions)

        wait_until("the scheduler's refusal", refused, 120)


def test_addresses_by_dhcp_and_a_server_that_is_silent(cells: CellSite, fake_lab: FakeLab) -> None:
    rails: list[Any] = [
        {"name": "rail-0", "vlan": 111, "subnet": "10.10.111.0/24", "dhcp_server": "10.10.111.2",
         "resource": "sriov_111", "network": "sriov111"},
        {"name": "rail-1", "vlan": 112, "subnet": "10.10.112.0/24", "dhcp_server": "10.10.112.2",
         "resource": "sriov_112", "network": "sriov112"},
    ]  # fmt: skip
    spec = make_site("sriov", "roce", network={"ipam": "dhcp"}, rails=rails)
    fake_lab.pools.clear()
    fake_lab.pools[111] = ["10.10.111.50/24", "10.10.111.51/24"]
    with cells.network(spec):
        wait_until("VFs", lambda: cells.allocatable("vfs").get("nvidia.com/sriov_112") == "8", 120)
        cells.start_pod("worker", "vfs", pod_attachment(spec))
        silent = (
            'error adding container to network "sriov112": '
            "error calling DHCP.Allocate: no more tries"
        )
        wait_until("silence", lambda: any(silent in text for text in cells.events("worker")), 120)
        assert cells.pod("worker").phase == "Pending"
        fake_lab.pools[112] = ["10.10.112.50/24"]
        cells.wait_running("worker")
        assert cells.pod("worker").addresses() == {"10.10.111.50", "10.10.112.50"}
        # The server of the bandwidth test has its fixed address beside the server's pool.
        cells.start_pod(
            "server", "vfs", rail_attachment(spec, spec.rails[0], server=spec.workers[0])
        )
        cells.wait_running("server")
        assert cells.pod("server").addresses() == {"10.10.111.254"}


def test_the_address_of_a_pod_is_of_its_nodes_leaf(cells: CellSite) -> None:
    """Two leaves, of which the one node is on the second: what the first has is not given there."""
    spec, far = make_two_leaves("vfs")
    with cells.network(spec):
        wait_until("VFs", lambda: cells.allocatable("vfs").get("nvidia.com/sriov_112") == "8", 120)
        cells.start_pod("worker", "vfs", pod_attachment(spec))
        cells.wait_running("worker")
        assert cells.pod("worker").addresses() == {"10.10.111.130", "10.10.112.1"}
        cells.start_pod("server", "vfs", rail_attachment(spec, spec.rails[0], server=far))
        cells.wait_running("server")
        assert cells.pod("server").addresses() == {"10.10.111.254"}


def test_static_addresses_are_those_of_the_pod(cells: CellSite) -> None:
    jobs = {"image": "registry.example.com/probe:1", "mpi_operator": False}
    spec = make_site("macvlan", "roce", network={"ipam": "static"}, jobs=jobs)
    with cells.network(spec):
        wait_until("cards", lambda: cells.allocatable("cards").get("nvidia.com/hca") == "63", 120)
        cells.start_pod("client", "cards", rail_attachment(spec, spec.rails[1]))
        cells.wait_running("client")
        assert cells.pod("client").addresses() == {"10.10.112.253"}
        bare = PodAttachment(
            {"nvidia.com/hca": 1}, {"k8s.v1.cni.cncf.io/networks": "macvlan111"}, host_network=False
        )
        cells.start_pod("bare", "cards", bare)
        missing = "IPAM plugin returned missing IP config"
        wait_until("a refusal", lambda: any(missing in text for text in cells.events("bare")), 120)


BLOCKS = {
    "ipam": "nv-ipam",
    "addresses_per_node": 3,
    "exclusions": [{"rail": "rail-0", "first": "10.10.111.2"}],
}


def label_of_pools(cells: CellSite, node: str) -> None:
    pools: Doc = {f"pool.railyard.dev/macvlan{vlan}": "true" for vlan in (111, 112)}
    cells.api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": pools}})


def test_a_node_gives_addresses_of_its_block_until_there_is_none(cells: CellSite) -> None:
    """nv-ipam by its own objects: the controller, the daemon, and a block of three addresses."""
    spec = make_site("macvlan", "roce", network=BLOCKS)
    label_of_pools(cells, "cards")
    with cells.network(spec):
        wait_until("cards", lambda: cells.allocatable("cards").get("nvidia.com/hca") == "63", 120)
        path = "/apis/nv-ipam.nvidia.com/v1alpha1/namespaces/kube-system/ippools/macvlan111"
        given = [{"nodeName": "cards", "startIP": "10.10.111.1", "endIP": "10.10.111.3"}]

        def status() -> list[Doc]:
            return docs_at(cells.api.find(path), "status", "allocations")

        wait_until("the block", lambda: status() == given, 120)
        wanted = rail_attachment(spec, spec.rails[0])
        for name in ("first", "second"):
            cells.start_pod(name, "cards", wanted)
            cells.wait_running(name)
        first, second = (cells.pod(name).addresses() for name in ("first", "second"))
        assert first | second == {"10.10.111.1", "10.10.111.3"}
        cells.start_pod("third", "cards", wanted)
        full = 'no free addresses in the pool "macvlan111", poolType "ippool"'
        wait_until("a refusal", lambda: any(full in text for text in cells.events("third")), 120)
        cells.delete(f"{PODS}/first")
        cells.wait_running("third")
        assert cells.pod("third").addresses() == first


def test_the_operators_policy_brings_multus_plugins_and_blocks(cells: CellSite) -> None:
    network = {**BLOCKS, "multus": "operator"}
    operators = {"network": {"chart": {"version": "26.7.1"}}}
    spec = make_site("macvlan", "roce", network=network, operators=operators)
    label_of_pools(cells, "cards")
    plan = plan_operators(spec)
    path = "/apis/mellanox.com/v1alpha1/nicclusterpolicies/nic-cluster-policy"
    cells.install(plan.charts[0])
    cells.apply([manifest.body for manifest in plan.gates])
    try:
        wait_until(
            "the policy", lambda: text_at(cells.api.find(path), "status", "state") == "ready", 40
        )
        applied = docs_at(cells.api.find(path), "status", "appliedStates")
        assert {text_at(each, "name") for each in applied} == {
            "state-RDMA-device-plugin",
            "state-multus-cni",
            "state-container-networking-plugins",
            "state-nv-ipam-cni",
        }
        with cells.network(spec):
            wait_until(
                "cards", lambda: cells.allocatable("cards").get("nvidia.com/hca") == "63", 30
            )
            cells.start_pod("worker", "cards", pod_attachment(spec))
            cells.wait_running("worker")
            first, second = sorted(cells.pod("worker").addresses())
            assert first in {"10.10.111.1", "10.10.111.3"}
            assert second in {"10.10.112.1", "10.10.112.2", "10.10.112.3"}
            # Nobody else brings them: without the policy a pod has the default network alone.
            sets = cells.api.items("/apis/apps/v1/namespaces/kube-system/daemonsets")
            assert not {"multus", "macvlan-cni"} & {name_of(each) for each in sets}
    finally:
        cells.delete(path)


def test_isolation_is_refused_by_a_node_in_shared_mode(cells: CellSite) -> None:
    spec = make_site("sriov", "infiniband", network={"rdma_isolation": True})
    with cells.network(spec):
        wait_until("VFs", lambda: cells.allocatable("ib-vfs").get("nvidia.com/ib_7") == "8", 120)
        cells.start_pod("worker", "ib-vfs", pod_attachment(spec))
        mode = "RDMA subsystem namespace awareness mode is set to shared, expecting it to be set to"
        wait_until("a refusal", lambda: any(mode in text for text in cells.events("worker")), 120)


def make_two_cards(root: Path) -> None:
    """Two ConnectX-5 ports without VFs, under the names of the RoCE site."""
    devices = make_gpus(root)
    for bus, netdev, rdma in (("05", "enp5s0", "mlx5_0"), ("84", "enp132s0", "mlx5_1")):
        card = devices / f"0000:{bus}:00.0"
        (card / "net" / netdev).mkdir(parents=True)
        (card / "net" / netdev / "mtu").write_text("9000\n")
        (card / "sriov_numvfs").write_text("0\n")
        (card / "vendor").write_text("0x15b3\n")
        (card / "device").write_text("0x1017\n")
        (card / "infiniband" / rdma / "ports/1").mkdir(parents=True)
