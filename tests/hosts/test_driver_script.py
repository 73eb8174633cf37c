"""The driver scripts with tools that answer as the vendors' do: what no lab host plays."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.hosts.fake_host import make_fake, module, sh, tool
from tests.hosts.host_text import library_text


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    return make_fake(tmp_path)


@pytest.mark.parametrize(
    ("said", "kind", "version"),
    [
        ("MLNX_OFED_LINUX-5.2-2.2.4.0:", "mlnx_ofed", "5.2-2.2.4.0"),
        ("OFED-internal-25.10-1.7.1:", "doca_ofed", "25.10-1.7.1.0"),
        ("OFED-internal-24.10-1.1.4.0.200:", "doca_ofed", "24.10-1.1.4.0.200"),
        ("mlnx-en-5.8-3.0.7.0:", "other", "mlnx-en-5.8-3.0.7.0"),
    ],
)
def test_both_families_are_told_apart(fake: Path, said: str, kind: str, version: str) -> None:
    tool(fake, "ofed_info", f"echo {said}")
    done = sh(fake, "read_key driver.kind\nread_key driver.version\nread_key driver.line\n")
    assert done.stdout.split() == [kind, version, version.partition("-")[0]], done.stderr


@pytest.mark.parametrize("kind", ["doca_ofed", "mlnx_ofed"])
def test_another_stack_is_no_driver_of_the_file(fake: Path, kind: str) -> None:
    tool(fake, "ofed_info", "echo mlnx-en-5.8-3.0.7.0:")
    done = sh(fake, f"echo driver.kind={kind} >$work/desired\ncheck_old_stack\n")
    assert done.returncode == 1
    assert "mlnx-en-5.8-3.0.7.0 is installed, which is neither MLNX_OFED nor DOCA" in done.stderr


@pytest.mark.parametrize(
    ("path", "signer", "secure", "value"),
    [
        ("/lib/modules/K/kernel/drivers/mlx5_core.ko", "x", "disabled", "missing:5.15.0-1-generic"),
        ("/lib/modules/K/updates/dkms/mlx5_core.ko", "", "disabled", "built"),
        ("/lib/modules/K/updates/dkms/mlx5_core.ko", "", "enabled", "unsigned:5.15.0-1-generic"),
        ("/lib/modules/K/extra/mlnx-ofa_kernel/mlx5_core.ko", "key", "enabled", "built"),
        ("/lib/modules/K/updates/mlx5_core.ko", "a", "enabled", "untrusted:5.15.0-1-generic"),
        ("/lib/modules/K/weak-updates/mlx5_core.ko", "key", "disabled", "built"),
    ],
)
def test_modules_are_judged_by_place_and_signature(
    fake: Path, path: str, signer: str, secure: str, value: str
) -> None:
    module(fake, "mlx5_core", filename=path, signer=signer)
    (fake / "secure_boot").write_text(f"SecureBoot {secure}\n")
    (fake / "enrolled").write_text("O=Site, CN=key\n")
    assert sh(fake, "read_key driver.modules\n").stdout == f"{value}\n"


def test_the_kernel_of_the_next_boot_is_asked_too(fake: Path) -> None:
    module(fake, "mlx5_core", filename="/lib/modules/K/kernel/mlx5_core.ko")
    tool(fake, "grubby", "echo /boot/vmlinuz-5.14.0-503.el9.x86_64")
    found = sh(fake, "read_key driver.modules\n").stdout
    assert found == "missing:5.15.0-1-generic,5.14.0-503.el9.x86_64\n"


@pytest.mark.parametrize(
    ("license_text", "value"), [("Dual MIT/GPL", "open"), ("NVIDIA", "proprietary")]
)
def test_the_gpu_modules_flavour(fake: Path, license_text: str, value: str) -> None:
    module(fake, "nvidia", license=license_text, version="580.1")
    done = sh(fake, "read_key driver.gpu_modules\nread_key driver.gpu_host\n")
    assert done.stdout.split() == [value, "580.1"]
    assert sh(fake, "rm $FAKE/modules/nvidia; read_key driver.gpu_host\n").stdout == "absent\n"


NVRM = "NVRM version: NVIDIA UNIX {}Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)"
"""/proc/driver/nvidia/version of a machine with two H200 that has no modinfo (recorded)."""


@pytest.mark.parametrize(("kind", "modules"), [("Open ", "open"), ("", "proprietary")])
def test_a_driver_that_runs_is_read_where_modinfo_knows_none(
    fake: Path, kind: str, modules: str
) -> None:
    (fake / "nvrm").write_text(NVRM.format(kind) + "\nGCC version:  gcc version 15.3.0\n")
    read = "nvrm_file=$FAKE/nvrm\nread_key driver.gpu_modules\nread_key driver.gpu_host\n"
    assert sh(fake, read).stdout == f"{modules}\n580.159.04\n"


@pytest.mark.parametrize(
    ("kernel", "value"),
    [("5.4.0-42-generic", "old-kernel"), ("5.12.0", "ready"), ("6.8.0-1.el9", "ready"),
     ("4.18.0-553.el8_10.x86_64", "old-kernel")],
)  # fmt: skip
def test_dma_buf_goes_by_the_kernel(fake: Path, kernel: str, value: str) -> None:
    (fake / "kernel").write_text(f"{kernel}\n")
    assert sh(fake, "read_key driver.dma_buf\n").stdout == f"{value}\n"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("write_key driver.gpu_host absent", "the GPU driver 580.1 is installed on this host, and"),
        ("write_key driver.gpu_host 590.2", "is 580.1, want 590.2: the host owns it"),
        ("write_key driver.gpu_modules open", "are proprietary, and DMA-BUF needs the open ones"),
        ("write_key driver.dma_buf ready", "needs Linux 5.12, and this host runs 5.15.0-1-generic"),
        ("check_peer_module nv_peer_mem", "brings nvidia_peermem, which took the place"),
        ("rm $FAKE/modules/nvidia_peermem; check_peer_module nv_peer_mem",
         "there is no nv_peer_mem for kernel 5.15.0-1-generic: its last release is 1.3"),
        ("write_key driver.kind inbox", "Railyard does not remove driver packages"),
    ],
)  # fmt: skip
def test_what_the_host_owns_is_refused_with_the_way_out(
    fake: Path, script: str, words: str
) -> None:
    module(fake, "nvidia", license="NVIDIA", version="580.1")
    module(fake, "nvidia_peermem", license="NVIDIA")
    done = sh(fake, f"{script}\n")
    assert done.returncode == 1
    assert words in done.stderr.replace("\n", " ")


def test_each_file_system_is_counted_once_with_all_that_it_must_hold(fake: Path) -> None:
    (fake / "root_free").write_text("1100000\n")
    done = sh(fake, "check_disk\n")
    assert done.returncode == 1
    assert "/ has 1074 MiB free and 2048 MiB are needed (/, /var)" in done.stderr
    (fake / "root_free").write_text("3000000\n")
    assert sh(fake, "check_disk\n").returncode == 0
    done = sh(fake, "driver_source=/opt/ofed.tgz\ncheck_disk\n")
    assert "2929 MiB free and 3072 MiB are needed" in done.stderr


ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.5"\n'
RHEL = 'ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="9.5"\n'
RHEL810 = 'ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="8.10"\n'
RHEL81 = 'ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="8.1"\n'
STREAM = 'ID="centos"\nID_LIKE="rhel fedora"\nVERSION_ID="9"\n'
DEBIAN = 'ID=debian\nVERSION_ID="12"\n'
OPENEULER = 'ID="openEuler"\nVERSION_ID="22.03"\n'
KYLIN = 'ID="kylin"\nVERSION_ID="V10"\n'
UBUNTU = 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n'


@pytest.mark.parametrize(
    ("system", "package", "refused"),
    [
        (ROCKY, "doca-host-3.2.0-125000_25.10_rhel9.x86_64.rpm", ""),
        (ROCKY, "doca-host-2.10.0-093000_25.01_rhel95.x86_64.rpm", ""),
        (RHEL, "doca-host-2.10.0-093000_25.01_rhel95.x86_64.rpm", ""),
        (RHEL, "doca-host-2.10.0-093000_25.01_rhel94.x86_64.rpm", "is for rhel94"),
        (DEBIAN, "MLNX_OFED_LINUX-24.10-1.1.4.0-debian12.5-x86_64.tgz", ""),
        (UBUNTU, "MLNX_OFED_LINUX-24.10-1.1.4.0-debian12.5-x86_64.tgz", "is for debian12.5"),
        (UBUNTU, "doca-host_3.1.0-091000-25.07-ubuntu2204_amd64.deb", ""),
        (UBUNTU, "doca-host_3.1.0-091000-25.07-ubuntu2404_amd64.deb", "is for ubuntu2404"),
        (UBUNTU, "ofed.tgz", ""),
        (RHEL810, "MLNX_OFED_LINUX-5.8-3.0.7.0-rhel8.1-x86_64.tgz", "is for rhel8.1"),
        (RHEL810, "MLNX_OFED_LINUX-24.10-1.1.4.0-rhel8.10-x86_64.tgz", ""),
        (RHEL810, "doca-host-2.9.1-018000_24.10_rhel81.x86_64.rpm", "is for rhel81"),
        (RHEL810, "doca-host-2.9.1-018000_24.10_rhel810.x86_64.rpm", ""),
        (RHEL810, "doca-host-2.9.1-018000_24.10_rhel8.x86_64.rpm", ""),
        (RHEL81, "MLNX_OFED_LINUX-24.10-1.1.4.0-rhel8.10-x86_64.tgz", "is for rhel8.10"),
        (STREAM, "MLNX_OFED_LINUX-24.10-1.1.4.0-rhel9.4-x86_64.tgz", ""),
        (OPENEULER, "MLNX_OFED_LINUX-24.10-1.1.4.0-openeuler22.03sp1-x86_64.tgz", ""),
        (OPENEULER, "MLNX_OFED_LINUX-24.10-1.1.4.0-openeuler20.03-x86_64.tgz", "is for openeuler2"),
        (KYLIN, "MLNX_OFED_LINUX-24.10-1.1.4.0-kylin10sp2-x86_64.tgz", ""),
        (UBUNTU, "ofed-arm64.tgz", "is not for x86_64"),
    ],
)
def test_a_packages_name_says_where_it_fits(
    fake: Path, system: str, package: str, refused: str
) -> None:
    text = library_text().replace("/etc/os-release", "$FAKE/os-release")
    (fake / "os-release").write_text(system)
    script = f"driver_source=/opt/{package}\ncheck_system\n"
    done = subprocess.run(
        ["/bin/sh"], input=text + script, env={"PATH": f"{fake}:/usr/bin:/bin", "FAKE": str(fake)},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, refused in done.stderr) == (1 if refused else 0, True), done.stderr


@pytest.mark.parametrize(
    ("said", "wanted", "source", "refused"),
    [
        ("OFED-internal-26.01-1.0.0", "line=25.10", "a.deb", "26.01-1.0.0.0 is installed, which"),
        ("OFED-internal-26.01-1.0.0", "version=25.10-1.7.1.0", "a.rpm", "newer than the file's 25"),
        ("OFED-internal-25.10-1.7.1.413", "version=25.10-1.7.1.0", "", "newer than the file's 25"),
        ("OFED-internal-25.10-1.7.1", "line=25.10", "a.deb", ""),
        ("OFED-internal-25.10-1.7.1", "version=25.10-1.7.1.0", "a.deb", ""),
        ("OFED-internal-25.07-1.7.1", "line=25.10", "a.deb", ""),
        ("MLNX_OFED_LINUX-24.10-1.1.4.0", "version=5.8-3.0.7.0", "a.tgz", ""),
    ],
)
def test_packages_do_not_go_back(
    fake: Path, said: str, wanted: str, source: str, refused: str
) -> None:
    """MLNX_OFED's installer takes out what was there; apt and dnf keep what is newer."""
    tool(fake, "ofed_info", f"echo {said}:")
    done = sh(fake, f"echo driver.{wanted} >$work/desired\ndriver_source={source}\ncheck_newer\n")
    assert (done.returncode, refused in done.stderr) == (1 if refused else 0, True), done.stderr
    assert not refused or "nothing was installed" in done.stderr


def test_an_interrupted_dnf_is_named(fake: Path) -> None:
    tool(fake, "dnf", "echo rdma-core-51.0-1.el9.x86_64; echo rdma-core-48.0-1.el9.x86_64")
    done = sh(fake, "check_packages\n")
    assert done.returncode == 1
    assert "packages are there twice" in done.stderr
    assert "rdma-core-51.0-1.el9.x86_64 rdma-core-48.0-1.el9.x86_64" in done.stderr


def test_dnf_brings_no_kernel_along(fake: Path) -> None:
    tool(fake, "dnf", 'echo "$*" >>$FAKE/calls')
    assert sh(fake, "dnf_install doca-ofed\n").returncode == 0
    assert "--exclude=kernel --exclude=kernel-core" in (fake / "calls").read_text()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("cp: error writing 'a': No space left on device", "the disk filled up during"),
        ("Error! Bad return status for module build on kernel: 6.17.0 (x86_64)\nConsult make.log",
         "modules do not build for this kernel"),
        ("E: Unable to locate package doca-ofed", "no repository of this host has the driver"),
        ("dpkg: error: dpkg frontend lock was locked by another process with pid 7",
         "the package lock is held by another process"),
        (" a : Depends: b (= 1.0)\nE: Unmet dependencies. Try 'apt --fix-broken install' with none",
         "packages of this host are broken: a : Depends: b (= 1.0). Mend them with"),
        ("\tpackage doca-host-3.3.0-1 (which is newer than doca-host-3.2.0-1) is already installed",
         "a newer package is installed than the file's, and rpm does not go back"),
        ("something else", "failed: something else"),
    ],
)  # fmt: skip
def test_a_package_tools_refusal_is_told_by_its_cause(fake: Path, output: str, words: str) -> None:
    (fake / "output").write_text(f"{output}\n")
    tool(fake, "apt-get", 'cat "$FAKE/output" >&2; exit 100')
    done = sh(fake, "packages apt-get install doca-ofed\n")
    assert done.returncode == 1
    assert words in done.stderr


NOTHING = "railyard: changed before this: nothing\n"
IN_PART = "railyard: changed before this: nothing; packages perhaps in part\n"


@pytest.mark.parametrize(
    ("output", "changed"),
    [("dpkg: error processing package doca-ofed (--configure)", IN_PART),
     ("No space left on device", IN_PART),
     ("E: Unable to locate package doca-ofed", NOTHING),
     ("E: Could not get lock /var/lib/dpkg/lock", NOTHING)],
)  # fmt: skip
def test_packages_that_may_be_there_in_part_are_no_nothing(
    fake: Path, output: str, changed: str
) -> None:
    tool(fake, "apt-get", f"echo '{output}' >&2; exit 100")
    assert sh(fake, "apt_get -y install doca-ofed\n").stderr.endswith(changed)


def test_what_an_earlier_step_installed_is_no_nothing_either(fake: Path) -> None:
    tool(fake, "rpm", "exit 0")
    tool(fake, "curl", "exit 0")
    tool(fake, "dnf", "echo 'Error: Unable to find a match: doca-ofed' >&2; exit 1")
    told = sh(fake, "packages rpm -U repository.rpm\ndnf_install doca-ofed\n").stderr
    assert told.endswith(IN_PART)
    assert sh(fake, "packages curl x\nfail no\n").stderr.endswith(NOTHING)


LISTS_LOCK = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 42 (apt-get)"


def test_the_lock_of_the_lists_is_waited_for_as_well(fake: Path) -> None:
    """Apt waits for the lock of the packages alone (DPkg::Lock::Timeout)."""
    script = 'sleep() { echo "$1" >>"$FAKE/slept"; rm -f "$FAKE/$once"; }\n'
    tool(fake, "apt-get", f'[ ! -e "$FAKE/lock" ] || {{ echo "{LISTS_LOCK}"; exit 100; }}')
    (fake / "lock").touch()
    done = sh(fake, f"{script}once=\napt_get update\n")
    assert "is held by process 42 (apt-get), and was not free within 300 s" in done.stderr
    assert "systemctl stop unattended-upgrades apt-daily" in done.stderr
    assert (fake / "slept").read_text() == "5\n" * 60
    assert sh(fake, f"{script}once=lock\napt_get update\n").returncode == 0


def test_what_is_no_parameter_is_refused(fake: Path) -> None:
    (fake / "in").write_text("driver_packages=a;reboot\n")
    done = sh(fake, 'load_input "$FAKE/in"\n')
    assert "bad package names" in done.stderr
    (fake / "in").write_text("driver_installer=--force\n")
    assert "is no parameter of a run" in sh(fake, 'load_input "$FAKE/in"\n').stderr


@pytest.mark.parametrize(
    ("route", "session", "below", "uplink"),
    [
        ("default via 10.0.0.1 dev ens1", "", {"ens1": "mlx5_core"}, "ens1"),
        ("default via 10.0.0.1 dev eno1", "", {"eno1": "tg3", "ens1": "mlx5_core"}, ""),
        ("default via 10.0.0.1 dev bond0", "", {"bond0/lower_ens1": "mlx5_core"}, "bond0"),
        (
            "default via 10.0.0.1 dev eno1",
            "192.0.2.9 500 10.9.9.2 22",
            {"ens1": "mlx5_core"},
            "ens1",
        ),
        ("default via 10.0.0.1 dev eno1", "192.0.2.9 500 10.9.9.20 22", {"ens1": "mlx5_core"}, ""),
    ],
)
def test_a_session_that_rides_on_a_card_is_seen(
    fake: Path, route: str, session: str, below: dict[str, str], uplink: str
) -> None:
    for device, driver in below.items():
        folder = fake / "net" / device / "device"
        folder.mkdir(parents=True)
        (folder / "driver").symlink_to(f"../../drivers/{driver}")
    own = "3: ens1 inet 10.9.9.2/24 scope global ens1"
    tool(fake, "ip", f"case $* in route*) echo '{route}' ;; *) echo '{own}' ;; esac")
    text = library_text().replace("/sys/class/net/", "$FAKE/net/")
    done = subprocess.run(
        ["/bin/sh", "-c", 'env -i PATH="$PATH" FAKE="$FAKE" /bin/sh; exit $?'],  # as sudo does
        input=f"{text}card_uplink\n",
        env={"PATH": f"{fake}:/usr/bin:/bin", "FAKE": str(fake), "SSH_CONNECTION": session},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == uplink, done.stderr


@pytest.mark.parametrize(
    ("release", "loaded", "held"),
    [
        ("OFED-internal-26.07-0.4.3", ("nvme",), "nvme"),
        ("OFED-internal-26.04-0.8.6", ("nvme",), ""),
        ("OFED-internal-26.04-0.8.6", ("rpcrdma", "irdma"), "rpcrdma irdma"),
    ],
)
def test_modules_that_hold_the_stack_are_named(
    fake: Path, release: str, loaded: tuple[str, ...], held: str
) -> None:
    tool(fake, "ofed_info", f"echo {release}:")
    for name in loaded:
        (fake / "loaded" / name).mkdir(parents=True)
        (fake / "loaded" / name / "initstate").write_text("live\n")
    text = library_text().replace("/sys/module/", "$FAKE/loaded/")
    done = subprocess.run(
        ["/bin/sh"], input=f"{text}stack_holders\n",
        env={"PATH": f"{fake}:/usr/bin:/bin", "FAKE": str(fake)},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == held, done.stderr


def test_cards_whose_vfs_are_in_pods_are_named(fake: Path) -> None:
    for pci, there in (("0000:05:00.0", 2), ("0000:84:00.0", 1)):
        card = fake / "drivers" / pci
        card.mkdir(parents=True)
        (card / "sriov_numvfs").write_text("2\n")
        for number in range(there):
            (card / f"virtfn{number}/net/eth{number}").mkdir(parents=True)
    text = library_text().replace("/sys/bus/pci/drivers/mlx5_core/", "$FAKE/drivers/")
    done = subprocess.run(
        ["/bin/sh"], input=f"{text}lent_cards\n",
        env={"PATH": f"{fake}:/usr/bin:/bin", "FAKE": str(fake)},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "0000:84:00.0", done.stderr


def test_a_card_without_sriov_has_no_vfs(fake: Path) -> None:
    (fake / "devices/0000:05:00.0").mkdir(
        parents=True
    )  # mlx5 with SRIOV_EN off has no sriov_numvfs
    text = library_text().replace("/sys/bus/pci/devices/", "$FAKE/devices/")
    done = subprocess.run(
        ["/bin/sh"], input=f"{text}read_key nic.0000:05:00.0.vfs\n",
        env={"PATH": f"{fake}:/usr/bin:/bin", "FAKE": str(fake)},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.stdout == "0\n", done.stderr
