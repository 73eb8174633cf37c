"""VFs of InfiniBand ports over real SSH: their GUIDs, with the inbox driver and with NVIDIA's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from components.hosts.host_plan import HostPlan
from components.hosts.preview import hosts_refused
from components.model.cards import DriverPackage, Firmware, HcaPf
from components.model.cluster import ClusterSpec
from lab.views import HostConfig
from tests.golden.site import changed_spec
from tests.over_ssh.host_lab import HostLab, own_stack, running_hosts
from tests.update.judged import written

pytestmark = pytest.mark.lab
INBOX, NVIDIA = "0000:05:00.0", "0000:84:00.0"
STATES = "cat /sys/bus/pci/devices/{}/virtfn*/infiniband/*/ports/1/state"


def as_infiniband(host: HostConfig) -> HostConfig:
    ports = zip(host.nics, ("ibp5s0", "ibp132s0"), strict=True)
    return replace(
        host,
        nics=tuple(
            replace(nic, netdev=name, link_layer="InfiniBand", sriov_files=nic.pci == NVIDIA)
            for nic, name in ports
        ),
    )


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("ibvfs") / "lab"
    with running_hosts(own_stack("ib-vfs"), root, only=("gpu01",), edit=as_infiniband) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": []}


def ib_site(lab: HostLab, *ports: HcaPf, **defaults: object) -> ClusterSpec:
    host = next(host for host in lab.spec.hosts if host.name == "gpu01")
    worker = host.model_copy(update={"nics": (), "hcas": 2, "hca_sriov": ports})
    shared = lab.spec.host_defaults.model_copy(update=defaults)
    return changed_spec(lab.spec, host_defaults=shared, hosts=(lab.spec.hosts[0], worker))


def ib_plan(lab: HostLab, *ports: HcaPf, **defaults: object) -> HostPlan:
    return lab.plan("gpu01", ib_site(lab, *ports, **defaults))


def test_a_preview_refuses_what_no_port_carries(lab: HostLab) -> None:
    spec = ib_site(lab, HcaPf(pci="0000:99:00.0"), HcaPf(pci=NVIDIA, vfs=100))
    plan = lab.plan("gpu01", spec)
    gone, many = written(hosts_refused(spec, (plan,), {"gpu01": lab.observe(plan)}))
    assert "gpu01 lacks the PCI device 0000:99:00.0" in gone
    assert f"gpu01 {NVIDIA} is asked for 100 VFs, and its firmware offers" in many
    assert lab.undo(plan).exit_status == 0  # the tool that looked goes


def test_guids_are_the_same_after_a_reboot_and_ports_come_up(lab: HostLab) -> None:
    given = HcaPf(pci=NVIDIA, vfs=2, guids=("0200000000000001", "0200000000000002"))
    plan = ib_plan(lab, HcaPf(pci=INBOX, vfs=2), given)
    before = lab.snapshot("gpu01")
    assert (applied := lab.apply(plan)).exit_status == 0, applied.stderr
    assert lab.drift(plan) == ()
    guids = lab.sh(plan, "cat /sys/bus/pci/devices/*/virtfn*/infiniband/*/node_guid")
    assert guids.splitlines()[2:] == ["0200:0000:0000:0001", "0200:0000:0000:0002"]
    lab.ask(op="reboot", device="gpu01")
    assert lab.drift(plan) == ()
    assert lab.sh(plan, "cat /sys/bus/pci/devices/*/virtfn*/infiniband/*/node_guid") == guids
    for pci in (INBOX, NVIDIA):
        assert lab.sh(plan, STATES.format(pci)) == "4: ACTIVE\n" * 2
    assert (undone := lab.undo(plan)).exit_status == 0, undone.stderr
    assert json.loads(undone.stdout)["left"] == []
    assert lab.snapshot("gpu01") == before


def test_a_guid_that_a_hand_changed_is_put_right(lab: HostLab) -> None:
    plan = ib_plan(lab, HcaPf(pci=INBOX, vfs=1))
    assert lab.apply(plan).exit_status == 0
    guid = plan.desired.values[f"vf.{INBOX}.0.guid"]
    lab.sh(plan, "ip link set dev ibp5s0 vf 0 port_guid 11:22:33:44:55:66:77:88")
    assert [str(each) for each in lab.drift(plan)] == [
        f"guid of VF 0 of {INBOX} is {guid}/1122334455667788, want {guid}"
    ]
    assert (again := lab.apply(plan)).exit_status == 0, again.stderr
    assert json.loads(again.stdout)["changed"] == [f"vf.{INBOX}.0.guid"]
    assert lab.drift(plan) == ()
    assert lab.undo(plan).exit_status == 0


def test_firmware_of_a_port_with_an_address_waits_for_a_reboot(lab: HostLab) -> None:
    firmware = Firmware(manage=True)
    plan = ib_plan(lab, HcaPf(pci=INBOX, vfs=0), HcaPf(pci=NVIDIA, vfs=2), firmware=firmware)
    before = lab.snapshot("gpu01")
    applied = lab.apply(plan)
    assert applied.exit_status == 0, applied.stderr
    report = json.loads(applied.stdout)
    assert report["firmware_waits"] == {NVIDIA: "reboot"}
    assert f"nic.{NVIDIA}.fw_num_of_vfs" in report["changed"]
    lab.ask(op="reboot", device="gpu01")
    assert lab.drift(plan) == ()
    assert json.loads(lab.apply(plan).stdout)["changed"] == []
    assert lab.undo(plan).exit_status == 0
    lab.ask(op="reboot", device="gpu01")
    assert lab.snapshot("gpu01") == before


def test_adapters_are_to_get_the_driver_package(lab: HostLab) -> None:
    driver = DriverPackage(
        kind="mlnx_ofed", version="5.4-1.0.3.0", source="/opt/none.tgz", sha256="0" * 64
    )
    answer = lab.apply(ib_plan(lab, driver=driver))
    assert answer.exit_status == 1
    assert "nothing was installed" in answer.stderr  # the checks before an installation
    assert lab.undo(ib_plan(lab, driver=driver)).exit_status == 0
