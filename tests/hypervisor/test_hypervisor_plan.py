"""The hypervisors' plan of the example: what must hold between its parts."""

from __future__ import annotations

from typing import cast

import pytest

from components.core.key_values import HostState, diff_states
from components.hypervisor.hypervisor_plan import (
    HypervisorPlan,
    hypervisor_call,
    plan_hypervisors,
    reboots_refused,
)
from components.model.cards import Firmware
from components.model.cluster import ClusterSpec
from components.remote.lines import parse_lines
from components.remote.step import render_sent_call
from tests.golden.site import changed_spec, load_example
from tests.update.judged import written


@pytest.fixture
def spec() -> ClusterSpec:
    return load_example("esxi-roce")


@pytest.fixture
def plan(spec: ClusterSpec) -> HypervisorPlan:
    return plan_hypervisors(spec, "dev")[0]


def test_every_hypervisor_is_planned_in_the_order_of_the_file(spec: ClusterSpec) -> None:
    plans = plan_hypervisors(spec, "dev")
    assert [each.name for each in plans] == ["esx01", "esx02", "esx03", "esx04"]
    names = [step.name for each in plans for step in (*each.own_steps, *each.last_steps)]
    ours = ["tools", "hypervisor", "reboot", "firmware-reboot"]
    assert names[:4] == [f"esx01-{each}" for each in ours]
    assert len(names) == len(set(names))
    assert len({each.converge.apply for each in plans}) == 1


def test_a_site_without_hypervisors_has_no_plans() -> None:
    assert plan_hypervisors(load_example("dgx-roce"), "dev") == ()


def test_the_keys_of_the_guide_are_wanted(plan: HypervisorPlan) -> None:
    state = plan.desired.values
    assert state["kernel.atsSupport.configured"] == state["kernel.atsSupport.runtime"] == "TRUE"
    assert state["vm.vm01.vmx.pciPassthru.allowP2P"] == "TRUE"
    assert state["vm.vm01.vmx.pciPassthru.RelaxACSforP2P"] == "TRUE"
    assert state["vm.vm01.gpu_pci_id"] == "0000:3b:00.0"
    assert state["vm.vm01.numa_node"] == "of 0000:3b:00.0 and 0000:5e:00.0"
    assert state["vm.vm01.vmx.sched.mem.min"] == state["vm.vm01.vmx.memSize"] == "262144"
    assert state["release"] == "7.0U2"


def test_settings_and_parameters_are_told_apart(plan: HypervisorPlan) -> None:
    stdin = f"{plan.converge.desired}repair=1: somebody was here\n"
    assert plan.watched.settings_in(stdin) == plan.desired


def test_a_new_setting_makes_the_reboot_look_again(spec: ClusterSpec) -> None:
    before = plan_hypervisors(spec, "dev")[0]
    vm = spec.hypervisors[0].vms[0].model_copy(update={"mmio_gib": 256})
    moved = spec.hypervisors[0].model_copy(update={"vms": (vm,)})
    environment = spec.environment.model_copy(
        update={"hypervisors": (moved, *spec.hypervisors[1:])}
    )
    after = plan_hypervisors(changed_spec(spec, environment=environment), "dev")
    assert after[0].reboot.request.render() != before.reboot.request.render()
    assert after[1].reboot == plan_hypervisors(spec, "dev")[1].reboot


def test_only_the_second_look_asks_the_guests(plan: HypervisorPlan) -> None:
    assert plan.firmware_reboot is not None
    assert [guest.cards for guest in plan.reboot.request.guests] == [()]
    assert [guest.cards for guest in plan.firmware_reboot.request.guests] == [("0000:0b:00.0",)]
    assert plan.firmware_reboot.serves == ("esx01-hypervisor", "vm01-host", "vm01-ats")


def test_without_ats_in_firmware_there_is_one_look(spec: ClusterSpec) -> None:
    defaults = spec.host_defaults.model_copy(update={"firmware": Firmware()})
    plans = plan_hypervisors(changed_spec(spec, host_defaults=defaults), "dev")
    assert all(each.firmware_reboot is None for each in plans)


def test_no_secret_stands_in_a_request(plan: HypervisorPlan) -> None:
    request = cast("dict[str, dict[str, str]]", parse_lines(plan.reboot.request.render()))
    assert request["endpoint"]["private_key_secret"] == "ssh_private_key"
    assert "PRIVATE KEY" not in plan.reboot.request.render()


def test_a_tool_that_is_sent_for_one_run_fits_into_one_argument_of_the_kernel() -> None:
    # MAX_ARG_STRLEN of Linux is 128 KiB; what ESXi allows is not documented.
    assert len(render_sent_call(hypervisor_call("observe"), 60, ash=True)) < 64 * 1024


def test_drift_reads_in_the_words_of_the_field(plan: HypervisorPlan) -> None:
    actual = HostState({**plan.desired.values, "vm.vm01.power": "off"})
    assert [str(each) for each in diff_states(actual, plan.desired)] == [
        "power of vm.vm01 is off, want on"
    ]


def test_nothing_is_refused_where_nothing_must_stop(plan: HypervisorPlan) -> None:
    off = HostState({**plan.desired.values, "vm.vm01.power": "off"})
    assert reboots_refused((plan,), {}) == ()
    assert reboots_refused((plan,), {"esx01": plan.desired}) == ()
    assert reboots_refused((plan,), {"esx01": off}) == ()


def test_boots_and_shutdowns_are_refused_by_name(plan: HypervisorPlan) -> None:
    seen = {
        **plan.desired.values,
        "kernel.atsSupport.runtime": "FALSE",
        "vm.vm01.vmx.pciPassthru.allowP2P": "absent",
    }
    guest = HostState({"nic.0000:0b:00.0.ats": "off"})
    lines = written(reboots_refused((plan,), {"esx01": HostState(seen), "vm01": guest}))
    heads = [line.splitlines()[0].removeprefix("disruption: ") for line in lines]
    assert heads == [
        "esx01 would be rebooted: kernel.atsSupport.runtime is FALSE, want TRUE",
        "vm01 on esx01 would be shut down: vmx.pciPassthru.allowP2P is absent, want TRUE",
        "esx01 would be rebooted: ATS_ENABLED of 0000:0b:00.0 in vm01 is off, want on",
    ]
    assert all("where  disruption.reboots = deny" in line for line in lines)


def test_a_machine_that_is_off_is_edited_without_asking(plan: HypervisorPlan) -> None:
    seen = {
        **plan.desired.values,
        "vm.vm01.vmx.pciPassthru.allowP2P": "absent",
        "vm.vm01.power": "off",
    }
    assert reboots_refused((plan,), {"esx01": HostState(seen)}) == ()
