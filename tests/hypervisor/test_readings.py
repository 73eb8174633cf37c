"""What the scripts make of ESXi's answers: the samples of the facts, and what may be missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hypervisor.shell import answer, shell

PCI = """\
0000:3b:00.0
   Address: 0000:3b:00.0
   Segment: 0x0000
   Vendor Name: NVIDIA Corporation
   Device Name: NVIDIAA100-PCIE-40GB
   Configured Owner: VM Passthru
   Current Owner: VMkernel
   Vendor ID: 0x10de
   SubVendor ID: 0x10de
   Device Class: 0x0302
   Slot Description:
   NUMA Node: 0
   Extended Device Name:

0000:5e:00.0
   Address: 0000:5e:00.0
   Vendor Name: Mellanox Technologies
   Current Owner: VM Passthru
   Device Class: 0x0207
   NUMA Node: 1

0000:5e:00.1
   Address: 0000:5e:00.1
   Vendor Name: Mellanox Technologies
   Device Class: 0x0200
"""
KERNEL = """\
Name        Type  Configured  Runtime  Default  Description
----------  ----  ----------  -------  -------  --------------------------
atsSupport  Bool  TRUE        FALSE    FALSE    Enable Support for PCIe ATS
"""
PASSTHRU = """\
Device ID     Enabled
------------  -------
0000:3b:00.0    true
0000:5E:00.0    false
"""
VMS = """\
Vmid   Name        File                                   Guest OS        Version   Annotation
1      vm01        [data store 1] vm01 a/vm01.vmx         ubuntu64Guest   vmx-19
12     vm010       [datastore1] vm010/vm010.vmx           ubuntu64Guest   vmx-19    vm01 of old
       and a second line of the note
13     twin        [datastore1] twin/twin.vmx             ubuntu64Guest   vmx-19
14     twin        [datastore1] twin_1/twin.vmx           ubuntu64Guest   vmx-19
"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    for name, text in (("pci", PCI), ("kernel", KERNEL), ("passthrough", PASSTHRU), ("vms", VMS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def read(world: Path, body: str) -> str:
    names = "pci kernel passthrough vms maintenance version"
    copy = f'for f in {names}; do [ ! -e "$world/$f" ] || cp "$world/$f" "$work/$f"; done\n'
    return answer(world, copy + body).rstrip("\n")


@pytest.mark.parametrize(
    ("version", "update", "release"),
    [("7.0.2", "2", "7.0U2"), ("7.0.0", "0", "7.0"), ("8.0.3", "3", "8.0U3")],
)
def test_the_release_is_version_and_update(
    world: Path, version: str, update: str, release: str
) -> None:
    text = f"   Product: VMware ESXi\n   Version: {version}\n   Build: x\n   Update: {update}\n"
    (world / "version").write_text(text)
    assert read(world, "read_release") == release


def test_columns_of_the_kernel_table_are_found_by_their_header(world: Path) -> None:
    assert read(world, "kernel_column Configured") == "TRUE"
    assert read(world, "kernel_column Runtime") == "FALSE"
    (world / "kernel").write_text("Unable to find kernel setting: atsSupport\n")
    assert read(world, "kernel_column Runtime") == "absent"


def test_a_device_is_read_from_its_own_block(world: Path) -> None:
    assert read(world, "read_pci 0000:3b:00.0 current_owner") == "VMkernel"
    assert read(world, "read_pci 0000:5e:00.0 current_owner") == "VM Passthru"
    assert read(world, "read_pci 0000:5e:00.1 current_owner") == "absent"
    assert read(world, "read_pci 0000:99:00.0 current_owner") == "absent"


def test_passthrough_is_a_table_of_its_own(world: Path) -> None:
    assert read(world, "read_pci 0000:3b:00.0 passthrough") == "true"
    assert read(world, "read_pci 0000:5e:00.0 passthrough") == "false"
    assert read(world, "read_pci 0000:99:00.0 passthrough") == "absent"


def test_a_machine_is_found_by_its_whole_name_once(world: Path) -> None:
    assert read(world, "vm_id vm01; vm_id vm010; vm_id vm1; vm_id twin") == "1\n12"
    assert read(world, "vm_file vm01") == "/vmfs/volumes/data store 1/vm01 a/vm01.vmx"
    assert read(world, "vm_datastore vm01") == "data store 1"


def refused(world: Path, body: str) -> str:
    done = shell(world, f'cp "$world/pci" "$work/pci"\n{body}')
    assert done.returncode == 1, done.stdout
    return done.stderr


def test_a_device_that_is_not_there_is_refused_with_what_is(world: Path) -> None:
    words = refused(world, 'common_node "of 0000:3b:00.0 and 0000:60:00.0"')
    assert "PCI device 0000:60:00.0 was not found on this host; it has" in words
    assert "0000:3b:00.0 NVIDIA Corporation, 0000:5e:00.0 Mellanox Technologies" in words


def test_two_numa_nodes_are_refused_with_both(world: Path) -> None:
    words = refused(world, 'common_node "of 0000:3b:00.0 and 0000:5e:00.0"')
    assert "the GPU 0000:3b:00.0 is on NUMA node 0" in words
    assert "the card 0000:5e:00.0 on node 1" in words
    assert "changed before this: nothing" in words


def test_a_host_that_names_no_node_is_refused(world: Path) -> None:
    words = refused(world, 'common_node "of 0000:5e:00.1 and 0000:5e:00.1"')
    assert "names no NUMA node for 0000:5e:00.1" in words


def test_the_index_of_a_device_is_found_by_its_decimal_address(world: Path) -> None:
    (world / "a.vmx").write_text(
        'pciPassthru0.id = "00000:094:00.0"\npciPassthru0.deviceId = "0x101b"\n'
        'pciPassthru11.id = "00000:059:00.0"\n'
    )
    assert answer(world, 'passthrough_index "$world/a.vmx" 0000:3b:00.0') == "11\n"
    assert answer(world, 'passthrough_index "$world/a.vmx" 0000:5e:00.0') == "0\n"
    assert answer(world, 'passthrough_index "$world/a.vmx" 0000:5e:00.1') == ""


GPU_BLOCK = "{}:00.0\n   Vendor ID: 0x10DE\n   Device ID: 0x20f1\n   SubVendor ID: 0x1\n"


@pytest.mark.parametrize(
    ("buses", "vmx", "index"),
    [
        ("3b", ["0x10de:0x20f1"], "0"),
        ("3b", ["0x15b3:0x101b", "0x10DE:0x20F1"], "1"),
        ("3b 5e", ["0x10de:0x20f1"], ""),
        ("3b", ["0x10de:0x20f1", "0x10de:0x20f1"], ""),
        ("3b", ["0x10de:0x20f1,0x10de:0x2235"], ""),
        ("3b", ["0x10de:0x20f1 0x10de:0x2235"], ""),
        ("3b", ["0x10de:0x2235"], ""),
    ],
)
def test_a_device_without_an_address_is_found_if_only_one_can_be_meant(
    tmp_path: Path, buses: str, vmx: list[str], index: str
) -> None:
    (tmp_path / "pci").write_text("".join(GPU_BLOCK.format(f"0000:{bus}") for bus in buses.split()))
    lines = (f'pciPassthru{n}.allowedDevices = "{kind}"\n' for n, kind in enumerate(vmx))
    (tmp_path / "a.vmx").write_text("".join(lines))
    assert read(tmp_path, 'passthrough_index "$world/a.vmx" 0000:3b:00.0') == index


@pytest.mark.parametrize(
    ("stdin", "reason"),
    [
        ("stack=a\npci.0000:3b:00.0.passthrough=false\n", "'false' is no value of pci.0000:3b"),
        ("stack=a\npci.3b:00.0.passthrough=true\n", "is no setting of a hypervisor"),
        ("stack=a\nvm.a;b.power=on\n", "'vm.a;b.power' is no setting of a hypervisor"),
        ("stack=a\nvm.vm01.vmx.displayName=x\n", "is no setting of a hypervisor"),
        ("stack=a\nvm.vm01.gpu_pci_id=59\n", "'59' is no value of vm.vm01.gpu_pci_id"),
        ("stack=a\nvm.vm01.numa_node=of 1 and 2\n", "'of 1 and 2' is no value"),
        ("stack=../a\n", "bad stack name '../a'"),
        ("order=vm01,$(reboot)\n", "'$(reboot)' is no name of a virtual machine"),
        ("nonsense\n", "'nonsense' is no key=value line"),
        ("shutdown_s=soon\n", "'soon' is no number of seconds"),
    ],
)
def test_stdin_that_is_not_understood_is_refused(tmp_path: Path, stdin: str, reason: str) -> None:
    done = shell(tmp_path, 'cat >"$work/input"; load_input "$work/input"', stdin)
    assert done.returncode == 1
    assert reason in done.stderr
    assert "changed before this: nothing" in done.stderr


def test_nothing_is_left_of_a_run(tmp_path: Path) -> None:
    done = shell(tmp_path, 'take_lock; echo "$work"')
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()
    assert not Path("/tmp/railyard.lock").exists()


def test_a_run_ends_itself_at_its_deadline(tmp_path: Path) -> None:
    done = shell(tmp_path, "sleep 3; echo survived", deadline_s=1)
    assert done.returncode == 1
    assert "no end within 1 s" in done.stderr
    assert "survived" not in done.stdout
