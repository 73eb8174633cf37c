"""The scripts on an emulated ESXi host over real SSH: converge, drift, undo, and the refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from components.core.errors import DeviceError
from components.hypervisor.hypervisor_plan import HypervisorPlan
from components.hypervisor.reboot import explain_refusal
from components.model.cluster import ClusterSpec
from components.model.environments import Esxi
from components.remote.host_session import run_on_host
from components.remote.tools import ToolCall, make_tool
from lab.hypervisors.config import EsxiConfig
from tests.golden.site import changed_spec
from tests.hypervisor.esxi_lab import (
    CONFIG,
    GPUS,
    SECRETS,
    EsxiLab,
    make_plan,
    make_spec,
    running,
    with_release,
)

pytestmark = pytest.mark.lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[EsxiLab]:
    with running(tmp_path / "esx01") as host:
        yield host
        assert host.host.unmodelled == ()


def evidence(lab: EsxiLab, plan: HypervisorPlan) -> dict[str, object]:
    done = lab.apply(plan)
    assert done.exit_status == 0, done.stderr
    return cast("dict[str, object]", json.loads(done.stdout))


def refusal(lab: EsxiLab, plan: HypervisorPlan) -> str:
    """The words of a converge that must be refused."""
    done = lab.apply(plan)
    assert done.exit_status == 1, done.stdout
    return done.stderr


def with_edit(plan: HypervisorPlan, before: str, after: str) -> HypervisorPlan:
    """The same plan with another text at one place of its tool."""
    converge = plan.converge.apply
    assert isinstance(converge, ToolCall)
    assert converge.tool.text.count(before) == 1
    edited = make_tool("hypervisor", converge.tool.text.replace(before, after))
    step = replace(plan.converge, apply=ToolCall(edited, "converge"), undo=ToolCall(edited, "undo"))
    return replace(plan, watched=replace(plan.watched, step=step))


def with_vm(**changed: object) -> ClusterSpec:
    """The test's site with another first virtual machine."""
    spec = make_spec()
    hypervisor = spec.hypervisors[0]
    vm = hypervisor.vms[0].model_copy(update=changed)
    moved = hypervisor.model_copy(update={"vms": (vm, *hypervisor.vms[1:])})
    return changed_spec(spec, environment=Esxi(kind="esxi", hypervisors=(moved,)))


def test_converge_sets_only_what_differs_and_undo_takes_it_back(lab: EsxiLab) -> None:
    plan, before = make_plan(), lab.snapshot()
    first = evidence(lab, plan)
    assert first["reboot_required"] is True
    assert "kernel.atsSupport.configured" in cast("list[str]", first["changed"])
    assert "vm.vm01.vmx.pciPassthru.allowP2P" in cast("list[str]", first["changed"])
    assert "vm.vm01.vmx.memSize" not in cast("list[str]", first["changed"])
    # What waits for the boot is left to the reboot step, which powers on in the file's order.
    assert {str(each) for each in lab.left(plan)} == {
        "runtime of kernel.atsSupport is FALSE, want TRUE",
        "power of vm.vm01 is off, want on",
        "power of vm.vm02 is off, want on",
    }
    assert evidence(lab, plan)["changed"] == []
    done = lab.undo(plan)
    assert done.exit_status == 0, done.stderr
    assert lab.snapshot() == before
    assert json.loads(lab.undo(plan).stdout)["changed"] == []


def test_a_host_that_is_as_wanted_is_left_running(tmp_path: Path) -> None:
    spec = make_spec(release="8.0U2")
    plan = make_plan(spec)
    with running(tmp_path / "esx01", with_release("8.0U2")) as lab:
        evidence(lab, plan)
        lab.power.clear()
        assert evidence(lab, plan) == {
            "changed": [],
            "unchanged": len(plan.desired.values),
            "stopped": [],
            "reboot_required": False,
        }
        assert lab.power == []
        assert lab.left(plan) == ()


def test_from_7_0_u3_on_nothing_waits_for_a_boot(tmp_path: Path) -> None:
    plan = make_plan(make_spec(release="7.0U3"))
    with running(tmp_path / "esx01", with_release("7.0U3")) as lab:
        assert evidence(lab, plan)["reboot_required"] is False
        assert lab.power == [("vm01", False), ("vm02", False), ("vm01", True), ("vm02", True)]


OF_FIRST = (
    (
        ("vmx", "vm01", "pciPassthru.allowP2P", "unset"),
        "allowP2P of vm.vm01.vmx.pciPassthru is absent, want TRUE",
    ),
    (("vmx", "vm01", "numa.nodeAffinity", "1"), "numa_node of vm.vm01 is 1, want of"),
)
OF_HOST = ((("kernel", "atsSupport", "FALSE"), "configured of kernel.atsSupport is FALSE, want"),)
OF_SECOND = (
    (
        ("vmx", "vm02", "pciPassthru0.cfg.gpu-pci-id", "0000:01:00.0"),
        "gpu_pci_id of vm.vm02 is 0000:01:00.0, want 0000:d8:00.0",
    ),
    (("vm-power", "vm02", "off"), "power of vm.vm02 is off, want on"),
)


def test_drift_is_named_and_repaired(tmp_path: Path) -> None:
    plan = make_plan(make_spec(release="8.0"))
    with running(tmp_path / "esx01", with_release("8.0")) as lab:
        evidence(lab, plan)
        for faults, machines in (
            (OF_FIRST, {"vm01"}),
            (OF_HOST, set[str]()),
            (OF_SECOND, {"vm02"}),
        ):
            for fault, _ in faults:
                lab.fault(*fault)
            found = sorted(str(each) for each in lab.left(plan))
            wanted = sorted(words for _, words in faults)
            assert [t[: len(words)] for t, words in zip(found, wanted, strict=True)] == wanted
            lab.power.clear()
            assert len(cast("list[str]", evidence(lab, plan)["changed"])) == len(faults)
            assert lab.left(plan) == ()
            assert {name for name, _ in lab.power} <= machines, "another machine was touched"


def test_a_key_that_stands_twice_is_written_once_and_restored(tmp_path: Path) -> None:
    plan = make_plan(make_spec(release="8.0"))
    with running(tmp_path / "esx01", with_release("8.0")) as lab:
        lab.fault("vm-power", "vm01", "off")
        lab.fault("vmx-line", "vm01", 'sched.mem.min = "1"')
        lab.fault("vmx-line", "vm01", 'pciPassthru.relaxACSforP2P = "TRUE"')
        before = lab.snapshot()
        file = lab.host.machine.vmx_path("vm01")
        text = file.read_bytes()
        assert "min of vm.vm01.vmx.sched.mem is written 2 times, want 262144" in map(
            str, lab.left(plan)
        )
        evidence(lab, plan)
        assert file.read_text().lower().count("sched.mem.min ") == 1
        assert file.read_text().lower().count("relaxacsforp2p") == 1
        assert lab.undo(plan).exit_status == 0
        assert file.read_bytes() == text
        # hostd reads the file again at every reload: only its copy in memory is a newer one.
        after = cast("dict[str, object]", lab.snapshot())
        assert after["files"] == cast("dict[str, object]", before)["files"]


def test_undo_keeps_what_somebody_else_wrote_since(tmp_path: Path) -> None:
    plan = make_plan(make_spec(release="8.0"))
    with running(tmp_path / "esx01", with_release("8.0")) as lab:
        evidence(lab, plan)
        lab.fault("vmx", "vm01", "annotation", "ours")
        assert lab.undo(plan).exit_status == 0
        text = lab.host.machine.vmx_path("vm01").read_text()
        assert 'annotation = "ours"' in text
        assert "allowP2P" not in text
        assert not list(lab.host.machine.vmfs.rglob("railyard*"))


def test_numa_nodes_that_differ_are_refused_before_anything(lab: EsxiLab) -> None:
    lab.observe(make_plan())  # its tools are there
    before = lab.snapshot()
    words = refusal(lab, make_plan(with_vm(nic="0000:af:00.0")))
    assert "the GPU 0000:3b:00.0 is on NUMA node 0" in words
    assert "card 0000:af:00.0 on node 1" in words
    assert "changed before this: nothing" in words
    assert lab.snapshot() == before


def test_an_unknown_device_is_refused_with_those_that_are_there(lab: EsxiLab) -> None:
    lab.observe(make_plan())  # its tools are there
    before = lab.snapshot()
    words = refusal(lab, make_plan(with_vm(nic="0000:60:00.0")))
    assert "PCI device 0000:60:00.0 was not found on this host; it has" in words
    assert "0000:5e:00.0 Mellanox" in words
    assert lab.snapshot() == before


def test_a_gpu_that_the_machine_does_not_have_is_refused(lab: EsxiLab) -> None:
    words = refusal(lab, make_plan(with_vm(gpu="0000:01:00.0")))
    assert "vm01 has no passthrough device 0000:01:00.0: its .vmx has" in words


def dynamic(config: EsxiConfig, second_gpu: str) -> EsxiConfig:
    """Both machines have their devices by vendor and device; the second GPU is of this model."""
    devices = tuple(
        replace(device, device=second_gpu) if device.sbdf == GPUS[1] else device
        for device in config.devices
    )
    vms = tuple(replace(vm, dynamic=True) for vm in config.vms)
    return replace(config, devices=devices, vms=vms)


def test_a_gpu_of_dynamic_directpath_is_used_if_it_is_the_only_one(tmp_path: Path) -> None:
    plan = make_plan(make_spec(release="8.0U2"))
    config = dynamic(with_release("8.0U2"), second_gpu="20b5")
    with running(tmp_path / "esx01", config) as lab:
        evidence(lab, plan)
        assert lab.left(plan) == ()
        text = next(lab.host.machine.vmfs.rglob("vm01/vm01.vmx")).read_text()
        assert 'pciPassthru0.cfg.gpu-pci-id = "0000:3b:00.0"' in text


def test_one_of_two_gpus_of_dynamic_directpath_is_refused(tmp_path: Path) -> None:
    plan = make_plan(make_spec(release="8.0U2"))
    config = dynamic(with_release("8.0U2"), second_gpu="20f1")
    with running(tmp_path / "esx01", config) as lab:
        words = refusal(lab, plan)
    assert "vm01 has 0000:3b:00.0 as Dynamic DirectPath IO, if at all" in words
    assert "this host has 2 of 0x10de:0x20f1" in words
    assert "with the choice DirectPath IO and the address 0000:3b:00.0" in words
    assert "changed before this: nothing" in words


def test_the_management_card_stays_with_the_host(lab: EsxiLab) -> None:
    words = refusal(lab, make_plan(with_vm(nic="0000:01:00.0")))
    assert "0000:01:00.0 is an uplink of a virtual switch" in words
    assert "changed before this:" in words


def test_a_machine_of_another_name_is_refused(lab: EsxiLab) -> None:
    plan = make_plan()
    stdin = plan.converge.desired.replace("vm01", "vm09")
    done = lab.send(plan, plan.converge.apply, stdin)
    assert done.exit_status == 1
    assert "there is no one virtual machine vm09 on this host" in done.stderr


def test_another_release_than_the_files_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "esx01", with_release("8.0U3")) as lab:
        words = refusal(lab, make_plan())
        assert "this host runs ESXi 8.0U3 and the file says 7.0U2" in words


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ('if [ "$(power_of "$id")" != off ]; then', "the file is as it was"),
        ('mv "$vmx.railyard" "$vmx" ||', "the new settings are in the file"),
    ],
)
def test_a_machine_powered_on_during_the_edit_is_noticed(
    lab: EsxiLab, before: str, words: str
) -> None:
    plan = make_plan()
    # Somebody else powers it on at the worst moment: here the script itself plays that person.
    somebody = 'vim-cmd vmsvc/power.on "$id" >/dev/null\n  '
    said = refusal(lab, with_edit(plan, before, somebody + before))
    assert words in said
    assert "changed before this: kernel.atsSupport.configured" in said
    assert "not changed: kernel.atsSupport.runtime vm.vm01.gpu_pci_id" in said
    assert evidence(lab, plan)["reboot_required"] is True
    assert "allowP2P" in lab.host.machine.vmx_path("vm01").read_text()


def test_a_guest_that_does_not_shut_down_is_never_cut_off_unasked(lab: EsxiLab) -> None:
    lab.fault("vm-tools", "vm01", "off")
    words = refusal(lab, make_plan())
    assert "vm01 did not shut down: Cannot complete operation because VMware Tools is not" in words
    assert "power_off: hard" in words
    assert lab.power == []
    evidence(lab, make_plan(make_spec(power_off="hard")))
    assert lab.power == [("vm01", False), ("vm02", False)]


def test_deny_refuses_before_anything(lab: EsxiLab) -> None:
    lab.observe(make_plan())  # its tools are there
    before = lab.snapshot()
    spec = make_spec()
    denied = changed_spec(spec, disruption=spec.disruption.model_copy(update={"reboots": "deny"}))
    words = refusal(lab, make_plan(denied))
    assert "vm01 must be shut down to edit its .vmx, and disruption.reboots is deny" in words
    assert lab.snapshot() == before


def test_a_run_that_is_over_its_deadline_says_what_it_did(lab: EsxiLab) -> None:
    plan = make_plan()
    end = "record_baseline\nset_host\n"
    words = refusal(lab, with_edit(plan, f"{end}edit_vms\n", f'{end}kill -TERM "$$"\nedit_vms\n'))
    assert f"no end within {plan.converge.deadline_s:g} s" in words
    assert "changed before this: kernel.atsSupport.configured" in words
    assert "not changed: kernel.atsSupport.runtime" in words


def test_a_dead_run_does_not_hold_the_lock(lab: EsxiLab) -> None:
    plan = make_plan()
    left = "mkdir /tmp/railyard.lock; echo 99999 >/tmp/railyard.lock/pid"
    assert lab.send(plan, left).exit_status == 0
    assert evidence(lab, plan)["reboot_required"] is True


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("lockdown", "the host is in lockdown mode"),
        ("ssh-refused", "SSH is off by default on ESXi"),
    ],
)
def test_a_closed_door_is_named_with_its_key(lab: EsxiLab, fault: str, words: str) -> None:
    lab.fault(fault, "on")
    with pytest.raises(DeviceError) as caught:
        asyncio.run(run_on_host(make_plan().endpoint, SECRETS, "true", deadline_s=10))
    assert words in explain_refusal(caught.value)


def test_the_test_site_is_the_hosts() -> None:
    plan = make_plan()
    assert [vm.name for vm in CONFIG.vms] == ["vm01", "vm02"]
    assert replace(CONFIG, release="7.0U2") == CONFIG
    assert plan.desired.values["vm.vm02.gpu_pci_id"] == CONFIG.vms[1].gpu


def test_a_machine_that_starts_by_bios_is_refused(lab: EsxiLab) -> None:
    file = lab.host.machine.vmx_path("vm01")
    text = file.read_text()
    file.write_text(text.replace('firmware = "efi"\n', ""))
    assert file.read_text() != text
    words = refusal(lab, make_plan())
    assert 'vm01 starts by BIOS (its .vmx has no firmware = "efi")' in words
    assert "changed before this: nothing" in words
