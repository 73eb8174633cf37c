"""Firmware settings of cards on emulated hosts over real SSH: set, wait for a start, put back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

import pytest

from components.hosts.host_plan import HostPlan
from components.hosts.software import PendingBoot, pending_firmware
from components.model.cards import Firmware, FirmwareFloor
from components.model.cluster import ClusterSpec
from components.model.hosts import HostGroup
from components.remote.host_session import HostAnswer
from tests.golden.site import changed_spec
from tests.over_ssh.host_lab import HostLab, running_hosts

pytestmark = pytest.mark.lab
PCI = "0000:05:00.0"
CARD = f"nic.{PCI}"
OTHER = "0000:84:00.0"
VFS = 17
"""One more than the card offers: the lab makes each of them."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostLab]:
    root = tmp_path_factory.mktemp("firmware") / "lab"
    with running_hosts("firmware-over-ssh", root, only=("gpu01", "gpu02")) as running:
        yield running
        unmodelled = running.ask(op="unmodelled")["unmodelled"]
    assert unmodelled == {"gpu01": [], "gpu02": []}


def asked(spec: ClusterSpec, firmware: Firmware, *, vfs: int = 8) -> ClusterSpec:
    """The site with firmware asked for on gpu01 and gpu02, and with so many VFs a port."""
    group = HostGroup(name="firmware", firmware=firmware)
    hosts = tuple(
        host.model_copy(
            update={
                "group": group.name,
                "nics": tuple(nic.model_copy(update={"vfs": vfs}) for nic in host.nics),
            }
        )
        for host in spec.hosts
    )
    return changed_spec(spec, hosts=hosts, host_groups=(group,))


def plan_of(lab: HostLab, name: str, firmware: Firmware, *, vfs: int = 8) -> HostPlan:
    return lab.plan(name, asked(lab.spec, firmware, vfs=vfs))


def evidence(answer: HostAnswer) -> dict[str, object]:
    assert answer.exit_status == 0, answer.stderr
    return json.loads(answer.stdout)


def snapshot(lab: HostLab, name: str) -> dict[str, object]:
    return cast("dict[str, object]", lab.snapshot(name))


def test_more_vfs_than_the_card_offers_come_with_its_next_start(lab: HostLab) -> None:
    plan = plan_of(lab, "gpu01", Firmware(manage=True, relaxed_ordering=True), vfs=VFS)
    before = snapshot(lab, "gpu01")
    first = evidence(lab.apply(plan))
    assert (first["reboot_required"], first["firmware_needs"]) == (True, "reboot")
    assert "nic.*.fw_num_of_vfs" in cast("list[str]", first["changed"])
    waiting = cast("list[str]", first["waiting"])
    assert {f"{CARD}.vfs", f"{CARD}.vf_mtu_bytes", f"{CARD}.fw_pci_wr_ordering"} <= set(waiting)
    pending = pending_firmware(lab.observe(plan), plan.desired)
    assert [each for each in pending if each.pci == PCI] == [
        PendingBoot(PCI, "ADVANCED_PCI_SETTINGS", "off", "on", "reboot", set=True),
        PendingBoot(PCI, "NUM_OF_VFS", "16", str(VFS), "reboot", set=True),
        PendingBoot(PCI, "PCI_WR_ORDERING", "hidden", "force_relax", "reboot"),
    ]
    assert evidence(lab.apply(plan))["changed"] == []
    lab.ask(op="reboot", device="gpu01")
    # The unit at boot made the VFs; only what was hidden until now is left.
    assert {str(each).partition(" of ")[0] for each in lab.drift(plan)} == {"fw_pci_wr_ordering"}
    second = evidence(lab.apply(plan))
    assert (second["firmware_needs"], "waiting" in second) == ("reboot", False)
    lab.ask(op="reboot", device="gpu01")
    assert lab.drift(plan) == ()
    assert pending_firmware(lab.observe(plan), plan.desired) == ()
    last = evidence(lab.apply(plan))
    assert (last["changed"], last["reboot_required"], last["firmware_waits"]) == ([], False, {})
    undone = evidence(lab.undo(plan))
    assert f"{CARD}.fw_num_of_vfs_current" in cast("list[str]", undone["left"])
    after = snapshot(lab, "gpu01")
    assert after["firmware"] == before["firmware"]
    assert after["files"] == before["files"]
    lab.ask(op="reboot", device="gpu01")
    assert snapshot(lab, "gpu01") == before


def test_a_power_cycle_is_asked_for_until_it_was_done(lab: HostLab) -> None:
    plan = plan_of(lab, "gpu02", Firmware(ats=True))
    lab.fault("gpu02", "power-cycle", "on")
    first = evidence(lab.apply(plan))
    assert first["firmware_waits"] == {PCI: "power_cycle", OTHER: "power_cycle"}
    assert pending_firmware(lab.observe(plan), plan.desired)[0].needs == "power_cycle"
    lab.ask(op="reboot", device="gpu02")
    assert lab.observe(plan).values[f"{CARD}.ats_current"] == "off"
    assert pending_firmware(lab.observe(plan), plan.desired)[0].needs == "power_cycle"
    lab.fault("gpu02", "power-cycle", "off")
    lab.ask(op="reboot", device="gpu02")
    assert evidence(lab.apply(plan))["firmware_waits"] == {}
    evidence(lab.undo(plan))
    lab.ask(op="reboot", device="gpu02")


def test_a_reset_of_the_card_loads_its_settings_too(lab: HostLab) -> None:
    plan = plan_of(lab, "gpu02", Firmware(ats=True))
    evidence(lab.apply(plan))
    lab.sh(plan, f"mlxfwreset -d {PCI} -y reset; mlxfwreset -d {OTHER} -y -l 3 reset")
    assert evidence(lab.apply(plan))["firmware_needs"] == "nothing"
    assert lab.drift(plan) == ()
    evidence(lab.undo(plan))
    lab.ask(op="reboot", device="gpu02")


def test_other_vfs_than_the_firmware_offers_are_refused_where_it_is_not_ours(lab: HostLab) -> None:
    answer = lab.apply(plan_of(lab, "gpu02", Firmware(), vfs=VFS))
    assert answer.exit_status == 1
    assert f"offers 16 VFs, want {VFS}: mlxconfig -d" in answer.stderr
    assert lab.undo(plan_of(lab, "gpu02", Firmware(), vfs=VFS)).exit_status == 0


def test_firmware_below_the_floor_changes_nothing(lab: HostLab) -> None:
    floor = FirmwareFloor(model="ConnectX-5", version="16.35.2000")
    plan = plan_of(lab, "gpu02", Firmware(ats=True, min_versions=(floor,)))
    lab.fault("gpu02", "firmware-version", "enp5s0", "16.28.4000")
    answer = lab.apply(plan)
    assert answer.exit_status == 1
    assert f"firmware of {PCI} (ConnectX-5) is 16.28.4000, want 16.35.2000 or" in answer.stderr
    assert f"{CARD}.ats" not in answer.stderr.partition("changed before this:")[2]
    lab.fault("gpu02", "firmware-version", "enp5s0", "16.35.2000")
    assert evidence(lab.apply(plan))["firmware_needs"] == "reboot"
    left = cast("list[str]", evidence(lab.undo(plan))["left"])
    assert not [key for key in left if "fw_floor" in key]


def test_a_parameter_that_the_firmware_lacks_is_named(lab: HostLab) -> None:
    plan = plan_of(lab, "gpu02", Firmware(ats=True))
    lab.fault("gpu02", "firmware-lacks", "enp5s0", "ATS_ENABLED")
    answer = lab.apply(plan)
    assert answer.exit_status == 1
    assert f"the firmware of {PCI} (16.35.2000) has no ATS_ENABLED: update" in answer.stderr
    assert lab.undo(plan).exit_status == 0
    lab.fault("gpu02", "firmware-lacks", "enp5s0", "nothing")


def test_a_host_without_cards_is_asked_nothing(lab: HostLab) -> None:
    plan = lab.plan("gpu01")
    for tool in ("mlxconfig", "mlxfwreset", "flint"):
        answer = lab.run(plan, f"{tool} -d 0000:99:00.0 query", "")
        assert answer.exit_status == 1
        assert "0000:99:00.0" in answer.stderr


def test_a_port_that_is_to_be_ethernet_gets_its_settings_after_its_start(lab: HostLab) -> None:
    plan = plan_of(lab, "gpu02", Firmware(manage=True))
    lab.fault("gpu02", "firmware", "enp5s0", "LINK_TYPE_P1", "1")
    lab.ask(op="reboot", device="gpu02")
    before = snapshot(lab, "gpu02")
    first = evidence(lab.apply(plan))
    waiting = set(cast("list[str]", first["waiting"]))
    assert {f"{CARD}.netdev", f"{CARD}.vfs", f"{CARD}.mtu_bytes", f"{CARD}.trust"} <= waiting
    assert not [key for key in waiting if OTHER in key]
    pending = pending_firmware(lab.observe(plan), plan.desired)
    assert pending[0] == PendingBoot(PCI, "LINK_TYPE_P1", "ib", "eth", "reboot", set=True)
    lab.ask(op="reboot", device="gpu02")
    assert lab.drift(plan) == ()
    assert "waiting" not in evidence(lab.apply(plan))
    held = snapshot(lab, "gpu02")
    refused = lab.apply(plan_of(lab, "gpu02", Firmware()))
    assert f"{PCI} is not asked for any more, and its port would go back to ib" in refused.stderr
    assert "Keep firmware.manage" in refused.stderr
    assert snapshot(lab, "gpu02") == held
    undone = evidence(lab.undo(plan))
    assert f"{CARD}.fw_link_type_p1_current" in cast("list[str]", undone["left"])
    lab.ask(op="reboot", device="gpu02")
    assert snapshot(lab, "gpu02") == before
    lab.sh(plan, f"mlxconfig -d {PCI} -y set LINK_TYPE_P1=2; mlxfwreset -d {PCI} -y reset")


def test_firmware_that_is_not_asked_for_any_more_keeps_the_vfs(lab: HostLab) -> None:
    plan = plan_of(lab, "gpu01", Firmware(manage=True), vfs=VFS)
    evidence(lab.apply(plan))
    lab.ask(op="reboot", device="gpu01")
    assert evidence(lab.apply(plan))["firmware_needs"] == "nothing"
    before = snapshot(lab, "gpu01")
    refused = lab.apply(plan_of(lab, "gpu01", Firmware(), vfs=VFS))
    assert f"{PCI} is not asked for any more, and would go back to 16 VFs" in refused.stderr
    assert f"the file wants {VFS}, and the next boot would leave none. Keep" in refused.stderr
    assert snapshot(lab, "gpu01") == before
    fewer = plan_of(lab, "gpu01", Firmware())
    told = pending_firmware(lab.observe(fewer), fewer.desired)
    assert PendingBoot(PCI, "NUM_OF_VFS", str(VFS), "16", "reboot") in told
    for _ in range(2):
        again = evidence(lab.apply(fewer))
        assert (again["firmware_needs"], again["reboot_required"]) == ("reboot", True)
        assert f"pending.boot.{CARD}.fw_num_of_vfs={VFS} -> 16" in pending_lines(lab, fewer)
    lab.ask(op="reboot", device="gpu01")
    assert pending_lines(lab, fewer) == []
    last = evidence(lab.apply(fewer))
    assert (last["changed"], last["reboot_required"], "firmware" in last) == ([], False, False)
    evidence(lab.undo(fewer))
    lab.ask(op="reboot", device="gpu01")


def pending_lines(lab: HostLab, plan: HostPlan) -> list[str]:
    """What a look at the host says of settings that wait for a start of the card."""
    answer = lab.run(plan, plan.watched.observe, f"stack={lab.stack}\n{plan.desired.render()}")
    assert answer.exit_status == 0, answer.stderr
    lines = answer.stdout.splitlines()
    return [line for line in lines if line.startswith(("pending.boot.nic", "pending.power"))]
