"""esxcli and vim-cmd of the emulated ESXi host: docs/explanation/esxi.md."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from components.core.errors import UsageError
from lab.hypervisors.esxi.faults import cause_fault
from lab.hypervisors.esxi.machine import EsxiMachine, GuestHooks
from lab.hypervisors.esxi.release import kernel_options, parse_release
from tests.lab_hypervisors.conftest import GPU, NIC, OTHER_NIC, Bench

ATS_LIST = "esxcli system settings kernel list -o atsSupport"
REASON = "Error: Missing required parameter -r|--reason"
PASSTHRU = "esxcli hardware pci pcipassthru"
CONFIGURE = "Unable to configure the PCI device: "


@pytest.mark.parametrize(
    ("release", "name", "default"),
    [("6.7U3", None, ""), ("7.0", "vtdAtsSupport", "FALSE"), ("7.0U1", "vtdAtsSupport", "FALSE"),
     ("7.0U2", "atsSupport", "FALSE"), ("7.0U3", "atsSupport", "TRUE"),
     ("8.0U3g", "atsSupport", "TRUE"), ("9.0.0", "atsSupport", "TRUE")],
)  # fmt: skip
def test_the_ats_option_of_each_release(release: str, name: str | None, default: str) -> None:
    options = {option.name: option for option in kernel_options(parse_release(release))}
    found = [n for n in options if n.lower().endswith("atssupport")]
    assert found == ([name] if name else [])
    assert name is None or options[name].default == default


@pytest.mark.parametrize("release", ["", "12.0", "7", "seven", "7.0U9"])
def test_an_unknown_release_is_refused(release: str) -> None:
    with pytest.raises(UsageError, match=r"it plays 6\.7\.3, 7\.0\.0"):
        parse_release(release)


def test_a_kernel_option_is_configured_now_and_runs_after_the_boot(bench: Bench) -> None:
    before = bench.out(ATS_LIST).splitlines()
    assert before == [
        "Name        Type  Configured  Runtime  Default  Description",
        "----------  ----  ----------  -------  -------  ---------------------------",
        "atsSupport  Bool  FALSE       FALSE    FALSE    Enable Support for PCIe ATS",
    ]
    bench.out("esxcli system settings kernel set -s atsSupport -v TRUE")
    assert bench.out(ATS_LIST).splitlines()[2].split()[2:5] == ["TRUE", "FALSE", "FALSE"]
    bench.machine = bench.load()
    bench.machine.boot()
    assert bench.out(ATS_LIST).splitlines()[2].split()[2:5] == ["TRUE", "TRUE", "FALSE"]
    csv = bench.out("esxcli --formatter=csv system settings kernel list -o atsSupport")
    assert csv.splitlines() == [
        "Configured,Default,Description,Name,Runtime,Type,",
        "TRUE,FALSE,Enable Support for PCIe ATS,atsSupport,TRUE,Bool,",
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("esxcli frobnicate", "Error: Unknown command or namespace frobnicate"),
        ("esxcli system settings kernel", "Error: Unknown command or namespace system settings"),
        ("esxcli system shutdown reboot -d 10", REASON),
        ("esxcli system maintenanceMode set --enabled true", "Error: Invalid option --enabled"),
        ("esxcli system maintenanceMode set \u2013enable 1", "Error: Unknown command or namespace"),
        ("esxcli system maintenanceMode set -e maybe", "Error: Invalid value maybe"),
        ("esxcli system maintenanceMode set -e", "Error: Missing value for option -e"),
        ("esxcli system maintenanceMode set", "Error: Missing required parameter -e|--enable"),
        ("esxcli system settings kernel list atsSupport", "Error: Unknown command or namespace"),
        ("esxcli system settings kernel list -x", "Error: Invalid option -x"),
        ("esxcli system settings kernel list -o vtdAtsSupport", "Unable to find kernel setting"),
        ("esxcli system settings kernel set -s ats -v TRUE", "unknown kernel setting 'ats'"),
        ("esxcli system settings kernel set -s atsSupport -v on", "Invalid value 'on'"),
        (f"{PASSTHRU} set --device={GPU} -e true", "Error: Invalid option --device"),
        (f"{PASSTHRU} set -d {GPU} -e true --apply-now=true", "Error: Invalid option --apply-now"),
        (f"{PASSTHRU} set -d {GPU} -e true -a", f"{CONFIGURE}Device owner is already configured"),
        (f"{PASSTHRU} set -d 0000:01:00.0 -e true -a", "by vswitch vSwitch0 for uplink vmnic0"),
        (f"{PASSTHRU} set -d 0000:99:00.0 -e true -a", "not found"),
        ("esxcli --formatter=yaml system version get", "Error: Unknown formatter yaml"),
        ("vim-cmd vmsvc/getallvms x", "Invalid command 'vmsvc/getallvms'."),
        ("vim-cmd vmsvc/set.extraconfig 1 a b", "Invalid command 'vmsvc/set.extraconfig'."),
        ("vim-cmd vmsvc/power.on 7", 'Unable to find a VM corresponding to "7"'),
        ("vim-cmd vmsvc/power.on", "Insufficient arguments."),
        ("vim-cmd vmsvc/power.on 1", "cannot be performed in the current state (Powered on)."),
    ],
)  # fmt: skip
def test_what_the_tools_refuse(bench: Bench, line: str, text: str) -> None:
    before = bench.machine.stored.model_copy(deep=True, update={"unmodelled": []})
    done = bench.ask(line)
    assert done.rc == 1
    assert text in done.out + done.err
    assert bench.machine.stored.model_copy(update={"unmodelled": []}) == before


def test_what_is_not_known_is_recorded_and_a_plain_refusal_is_not(bench: Bench) -> None:
    bench.ask("esxcli network nic list")
    bench.ask("vim-cmd hostsvc/hostsummary")
    bench.ask("esxcli system shutdown reboot -d 10 --polite")
    bench.ask("esxcli system shutdown reboot -d 10 -r x")
    bench.ask("vim-cmd vmsvc/power.on 1")
    assert bench.load().stored.unmodelled == [
        "esxcli network nic list",
        "vim-cmd hostsvc/hostsummary",
        "esxcli system shutdown reboot -d 10 --polite",
    ]


def test_passthrough_of_a_release_before_7_is_unknown(tmp_path: Path) -> None:
    old = Bench(tmp_path, "6.7U3")
    assert old.ask(f"{PASSTHRU} list").out.startswith("Error: Unknown command")
    assert "NUMA Node" not in old.out("esxcli hardware pci list")


def test_the_inventory_names_owner_and_node_of_each_device(bench: Bench) -> None:
    blocks = {b.splitlines()[0]: b for b in bench.out("esxcli hardware pci list").split("\n\n")}
    assert list(blocks) == ["0000:01:00.0", GPU, NIC, OTHER_NIC]
    assert "   Vendor ID: 0x10de\n   Device ID: 0x20f1\n" in blocks[GPU]
    assert "   Current Owner: VM Passthru\n" in blocks[NIC]
    assert "   NUMA Node: 0\n" in blocks[NIC]
    assert "   NUMA Node: 1\n" in blocks[OTHER_NIC]
    assert "   Dependent Device: PCI 0:94:0:0\n" in blocks[NIC]
    assert "   Current Owner: VMkernel\n" in blocks[OTHER_NIC]


def test_passthrough_without_apply_now_waits_for_the_boot(bench: Bench) -> None:
    owner = bench.machine.stored.passthru[OTHER_NIC]
    bench.out(f"{PASSTHRU} set -d {OTHER_NIC} -e true")
    assert (owner.configured, owner.current) == (True, False)
    assert f"{OTHER_NIC}     true" in bench.out(f"{PASSTHRU} list")
    bench.machine.boot()
    assert owner.current
    bench.out(f"{PASSTHRU} set -d {OTHER_NIC} -e false -a")
    assert (owner.configured, owner.current) == (False, False)
    bench.out(f"{PASSTHRU} set -d {GPU} -e false -a")  # vm01 has it
    assert bench.machine.stored.passthru[GPU].current


def test_a_reboot_needs_maintenance_mode_and_that_needs_silence(bench: Bench) -> None:
    assert bench.ask("esxcli system shutdown reboot -d 10 -r x").rc == 1
    assert bench.reboots == []
    timed_out = bench.ask("esxcli system maintenanceMode set -e true -t 1")
    assert (timed_out.rc, bench.out("esxcli system maintenanceMode get")) == (1, "Disabled\n")
    bench.out("vim-cmd vmsvc/power.off 1")
    bench.out("esxcli system maintenanceMode set -e true -t 0")
    assert bench.out("esxcli system maintenanceMode get") == "Enabled\n"
    assert "not allowed in the current state" in bench.ask("vim-cmd vmsvc/power.on 1").out
    assert bench.ask("esxcli system shutdown reboot -d 9 -r x").rc == 1
    bench.out("esxcli system shutdown reboot -d 10 -r x")
    assert bench.reboots == [10]
    assert bench.load().stored.maintenance


def test_maintenance_mode_waits_for_the_guests(bench: Bench) -> None:
    async def scenario() -> None:
        entering = asyncio.create_task(bench.run("esxcli system maintenanceMode set -e true -t 0"))
        await asyncio.wait({entering}, timeout=0.2)
        assert not entering.done()
        assert (await bench.run("vim-cmd vmsvc/power.shutdown 1")).rc == 0
        state = await bench.run("vim-cmd vmsvc/power.getstate 1")
        assert state.out == "Retrieved runtime info\nPowered on\n"
        assert (await entering).rc == 0

    asyncio.run(scenario())
    assert bench.out("vim-cmd vmsvc/power.getstate 1").splitlines()[1] == "Powered off"
    assert bench.power == [("vm01", False)]


def test_a_guest_without_tools_is_not_shut_down(bench: Bench) -> None:
    asyncio.run(cause_fault(bench.machine, ["vm-tools", "vm01", "off"]))
    assert "VMware Tools is not running" in bench.ask("vim-cmd vmsvc/power.shutdown 1").out
    assert bench.machine.running() == ["vm01"]


def test_a_boot_leaves_the_machines_off_and_their_cards_cold(bench: Bench) -> None:
    before = int(bench.out("esxcli system stats uptime get"))
    asyncio.run(bench.machine.lose_power())
    bench.machine.boot()
    assert int(bench.out("esxcli system stats uptime get")) < before
    assert (bench.power, bench.cold) == ([("vm01", False)], [("vm01",)])
    assert bench.out("esxcli vm process list") == ""


def test_running_machines_are_listed_and_can_be_killed(bench: Bench) -> None:
    text = bench.out("esxcli vm process list")
    world = re.search(r"World ID: (\d+)", text)
    assert world is not None
    assert "   Display Name: vm01\n" in text
    assert bench.ask(f"esxcli vm process kill -t polite -w {world[1]}").rc == 1
    bench.out(f"esxcli vm process kill -t soft -w {world[1]}")
    assert bench.machine.running() == []


def test_what_the_guest_gets_follows_the_last_power_on(bench: Bench) -> None:
    bench.out("vim-cmd vmsvc/power.off 1")
    for key, value in {"pciPassthru.allowP2P": "TRUE", "pciPassthru.RelaxACSforP2P": "TRUE",
                       "numa.nodeAffinity": "0"}.items():  # fmt: skip
        bench.set_key(key, value)
    bench.out("vim-cmd vmsvc/reload 1")
    assert not bench.machine.view("vm01").allow_p2p
    bench.out("vim-cmd vmsvc/power.on 1")
    assert not bench.machine.view("vm01").ats_allowed
    bench.out("esxcli system settings kernel set -s atsSupport -v TRUE")
    assert not bench.machine.view("vm01").ats_kernel
    asyncio.run(bench.machine.lose_power())
    bench.machine.boot()
    assert not bench.machine.view("vm01").powered_on
    bench.out("vim-cmd vmsvc/power.on 1")
    view = bench.machine.view("vm01")
    assert (view.ats_allowed, view.placed) == (True, True)
    bench.out("vim-cmd vmsvc/power.off 1")
    bench.set_key("numa.nodeAffinity", "1")
    bench.out("vim-cmd vmsvc/reload 1")
    bench.out("vim-cmd vmsvc/power.on 1")
    view = bench.machine.view("vm01")
    assert (view.ats_allowed, view.placed) == (True, False)


def test_a_guest_that_the_lab_cannot_start_is_not_shown_as_running(bench: Bench) -> None:
    async def broken(_name: str, on: bool) -> None:  # noqa: FBT001 - the shape of the hook
        if on:
            raise UsageError("no room")

    bench.machine = EsxiMachine(bench.config, bench.folder, GuestHooks(on_power=broken))
    bench.out("vim-cmd vmsvc/power.off 1")
    with pytest.raises(UsageError, match="no room"):
        bench.ask("vim-cmd vmsvc/power.on 1")
    assert bench.load().running() == []


@pytest.mark.parametrize("key", ["pciPassthru.allowP2P", "pciPassthru.RelaxACSforP2P"])
def test_a_key_changed_by_hand_counts_from_the_next_power_on(bench: Bench, key: str) -> None:
    def direct() -> bool:
        view = bench.machine.view("vm01")
        return view.allow_p2p if key.endswith("allowP2P") else view.relax_acs

    asyncio.run(cause_fault(bench.machine, ["vmx", "vm01", key, "TRUE"]))
    assert f'{key} = "TRUE"\n' in bench.vmx().read_text()
    assert not direct()
    bench.out("vim-cmd vmsvc/power.off 1")
    bench.out("vim-cmd vmsvc/power.on 1")
    assert direct()
    asyncio.run(cause_fault(bench.machine, ["vmx", "vm01", key, "unset"]))
    assert key not in bench.vmx().read_text()


@pytest.mark.parametrize(
    "args",
    [[], ["frob"], ["vmx", "vm09", "a", "b"], ["vm-power", "vm01", "on"], ["maintenance", "on"],
     ["kernel", "nosuch", "TRUE"], ["vmx-line", "vm01", "a = 1"], ["lockdown", "maybe"],
     ["passthrough", "0000:01:00.0", "on"], ["vm-tools", "vm09", "off"]],
)  # fmt: skip
def test_a_wrong_fault_is_refused_and_does_nothing(bench: Bench, args: list[str]) -> None:
    before = bench.machine.stored.model_copy(deep=True)
    with pytest.raises(UsageError):
        asyncio.run(cause_fault(bench.machine, args))
    assert bench.machine.stored == before
