"""`reboot-hosts` of an InfiniBand host over real SSH: its HCAs are proven before it is back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from components.core.errors import DeviceError
from components.hosts.host_plan import HostPlan
from components.model.cluster import ClusterSpec
from lab.views import HostConfig
from tests.disruption.played import PlayedCluster, make_node
from tests.over_ssh.host_lab import PROJECT, HostLab, own_stack, running_hosts
from tests.over_ssh.test_reboots import Departure

pytestmark = pytest.mark.lab
EXAMPLE = PROJECT / "examples" / "quantum-ib" / "site.yaml"
GONE, SPARE = "mlx5_7", "mlx5_6"


def seven_adapters(host: HostConfig) -> HostConfig:
    return replace(host, hcas=tuple(hca for hca in host.hcas if hca.name != GONE))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    """One worker of the example; an adapter of its eight has fallen off the bus."""
    root = tmp_path_factory.mktemp("ib-reboots") / "lab"
    with running_hosts(
        own_stack("ib-reboots"), root, example=EXAMPLE, only=("gpu01",), edit=seven_adapters
    ) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not ready fails a test soon."""
    monkeypatch.setattr("components.disruption.reboot.READY_DEADLINE_S", 1.0)


def with_iommu(lab: HostLab, hcas: int) -> ClusterSpec:
    """The site with a boot parameter of its own, and another number of adapters."""
    kernel = lab.spec.host_defaults.kernel.model_copy(update={"iommu": "pt"})
    defaults = lab.spec.host_defaults.model_copy(update={"kernel": kernel})
    hosts = tuple(host.model_copy(update={"hcas": hcas}) for host in lab.spec.hosts)
    return lab.spec.model_copy(update={"host_defaults": defaults, "hosts": hosts})


def departure(lab: HostLab, hcas: int) -> Departure:
    names = {host.name: host.role == "control_plane" for host in lab.spec.hosts}
    nodes = {name: make_node(name, server=server) for name, server in names.items()}
    return Departure(lab, with_iommu(lab, hcas), PlayedCluster(nodes))


def as_before(lab: HostLab, plan: HostPlan) -> None:
    lab.fault("gpu01", "link-down", SPARE, "off")
    assert lab.undo(plan).exit_status == 0
    lab.ask(op="reboot", device="gpu01")


@pytest.fixture
def gpu01(lab: HostLab) -> Iterator[HostPlan]:
    """The worker, with a boot parameter that waits."""
    plan = lab.plan("gpu01", with_iommu(lab, 8))
    answer = lab.apply(plan)
    assert answer.exit_status == 0, answer.stderr
    yield plan
    as_before(lab, plan)


def test_an_adapter_that_is_gone_or_down_keeps_the_node_out(lab: HostLab, gpu01: HostPlan) -> None:
    leaving = departure(lab, 8)
    lab.fault("gpu01", "link-down", SPARE, "on")
    with pytest.raises(DeviceError) as caught:
        leaving.perform()
    text = str(caught.value)
    assert "is not ready for RDMA: rdma.0000:" in text
    assert f"port 1 of {SPARE} is 1: DOWN, want ACTIVE" in text
    assert "7 InfiniBand adapters are on its PCIe bus (0000:" in text
    assert leaving.cluster.cordoned("gpu01")
    assert "booted" in text
    assert "iommu=pt" in lab.sh(gpu01, "cat /proc/cmdline")


def test_every_adapter_that_counts_writes_to_itself(lab: HostLab, gpu01: HostPlan) -> None:
    lab.sh(gpu01, "ln -s /run/lab/container-tools/ib_write_bw /usr/local/bin/ib_write_bw")
    lab.fault("gpu01", "link-down", SPARE, "on")
    leaving = departure(lab, 6)
    done = leaving.perform()
    lab.sh(gpu01, "rm /usr/local/bin/ib_write_bw")
    assert done["rebooted"] is True
    assert "an RDMA write to itself passed on 6 card(s)" in str(done["changed"])
    assert "passed over, beyond hcas = 6: 0000:" in str(done["changed"])
    assert not leaving.cluster.cordoned("gpu01")
