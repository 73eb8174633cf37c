"""The whole of converge on a host of files: what is left when something fails midway."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from tests.hosts.fake_host import KERNEL, LITTLE_ROOM, converge, make_fake, module, run, tool
from tests.hosts.host_text import library_text

RELEASE = "25.10-1.7.1.0"
INSTALLED = r"""case "$*" in *"install doca-ofed"*) ;; *) exit 0 ;; esac
cp "$FAKE/ofed_info.new" "$FAKE/ofed_info"
printf 'filename=/lib/modules/K/updates/dkms/mlx5_core.ko\nsrcversion=NEW\n' \
  >"$FAKE/modules/mlx5_core"
"""
"""What apt-get does on this host: with the packages come ofed_info and the modules."""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A host with the kernel's own driver, loaded, and a package of a newer one at hand."""
    make_fake(tmp_path)
    (tmp_path / "lib/modules" / KERNEL / "build").mkdir(parents=True)
    (tmp_path / "etc/init.d").mkdir(parents=True)
    load(tmp_path, "OLD")
    module(tmp_path, "mlx5_core", filename="/lib/modules/K/kernel/mlx5_core.ko", srcversion="OLD")
    (tmp_path / "doca.deb").write_text("package")
    for name in ("dpkg", "dpkg-query"):
        tool(tmp_path, name, "exit 0")
    tool(tmp_path, "apt-get", INSTALLED)
    brings(tmp_path, RELEASE)
    return tmp_path


def load(fake: Path, srcversion: str) -> None:
    folder = fake / "sys/module/mlx5_core"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "srcversion").write_text(f"{srcversion}\n")


def brings(fake: Path, release: str) -> None:
    """The release that the package holds, whatever its name says."""
    tool(fake, "ofed_info.new", f"echo OFED-internal-{release}:")


def state(fake: Path, release: str = RELEASE) -> str:
    sha = hashlib.sha256(b"package").hexdigest()
    return (
        f"driver_source={fake}/doca.deb\ndriver_sha256={sha}\ndriver.kind=doca_ofed\n"
        f"driver.version={release}\ndriver.modules=built\ndriver.loaded=installed\n"
    )


def openibd(fake: Path, text: str) -> None:
    tool(fake, "etc/init.d/openibd", text)


def card(fake: Path, pci: str, netdev: str) -> str:
    """A card of this host with an MTU of 1500; the setting of another one."""
    (fake / f"sys/bus/pci/devices/{pci}/net/{netdev}").mkdir(parents=True)
    (fake / f"sys/class/net/{netdev}").mkdir(parents=True)
    (fake / f"sys/class/net/{netdev}/mtu").write_text("1500\n")
    return f"nic.{pci}.mtu_bytes=9000\n"


def test_a_run_without_room_changes_nothing_and_says_so(fake: Path) -> None:
    wanted = card(fake, "0000:05:00.0", "enp5s0")
    done = converge(fake, wanted, LITTLE_ROOM)
    assert done.returncode == 1
    assert "there is no room in " in done.stderr
    assert "(1 MiB is needed): free it, then run again" in done.stderr
    assert (fake / "sys/class/net/enp5s0/mtu").read_text() == "1500\n"


def test_entries_of_hosts_are_not_lost_where_there_is_no_room(fake: Path) -> None:
    lines = "".join(f"10.9.{n // 250}.{n % 250} legacy-{n}.example.org\n" for n in range(4000))
    (fake / "etc/hosts").write_text(lines)
    script = "stack=test\nwrite_key hosts.gpu01 10.0.0.1\n"
    text = library_text().replace("/etc/hosts", f"{fake}/etc/hosts")
    done = run(fake, LITTLE_ROOM + text + script)
    assert done.returncode == 1
    assert "/etc/hosts stays as it is" in done.stderr
    assert (fake / "etc/hosts").read_text() == lines


def test_records_outlive_a_full_file_system(fake: Path) -> None:
    kept, dropped = card(fake, "0000:05:00.0", "enp5s0"), card(fake, "0000:06:00.0", "enp6s0")
    assert converge(fake, kept + dropped).returncode == 0
    records = fake / "var/lib/railyard/test"
    before = (records / "baseline").read_text()
    (records / "baseline.new").symlink_to("/dev/full")
    done = converge(fake, kept)
    assert f"cannot write {records}/baseline.new" in done.stderr
    assert done.returncode == 1
    assert (records / "baseline").read_text() == before
    (records / "baseline.new").unlink()
    assert converge(fake, kept).returncode == 0
    assert (records / "baseline").read_text() == "nic.0000:05:00.0.mtu_bytes=1500\n"
    assert converge(fake, "").returncode == 0
    assert (records / "baseline").read_text() == ""


def test_another_release_than_wanted_is_refused_before_the_reboot(fake: Path) -> None:
    brings(fake, "25.07-0.9.7")
    done = converge(fake, state(fake))
    assert done.returncode == 1
    assert "driver.version is '25.07-0.9.7.0' after it was set, want '25.10-1.7.1.0'" in done.stderr


def test_a_restart_that_leaves_nothing_loaded_is_repaired(fake: Path) -> None:
    openibd(fake, 'rm -r "$FAKE/sys/module/mlx5_core"; echo "Loading HCA driver: FAILED"; exit 1')
    tool(fake, "modprobe", "echo 'Key was rejected by service'; exit 1")
    for reason in ("openibd restart failed: Loading HCA driver: FAILED; ", ""):
        done = converge(fake, state(fake))
        assert done.returncode == 1
        assert f"no RDMA driver is loaded: {reason}modprobe mlx5_core: Key was" in done.stderr
    mlx5_core = '"$FAKE/sys/module/mlx5_core"'
    tool(fake, "modprobe", f"mkdir -p {mlx5_core}; echo NEW >{mlx5_core}/srcversion")
    done = converge(fake, state(fake))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["reboot_required"] is False


def test_a_cut_off_installation_is_told_until_it_is_finished(fake: Path) -> None:
    states = "'ii  libc6' 'iF  doca-ofed' 'iU  mlnx-ofed-kernel-dkms' 'rc  old'"
    tool(fake, "apt-get", f"{INSTALLED}\ntouch $FAKE/cut; echo killed; exit 100")
    tool(fake, "dpkg-query", f"[ ! -e $FAKE/cut ] || printf '%s\\n' {states}")
    tool(fake, "dpkg", "exit 0")
    assert converge(fake, state(fake)).returncode == 1
    load(fake, "NEW")
    tool(fake, "apt-get", "exit 0")
    done = converge(fake, state(fake))
    assert done.returncode == 1
    assert "are half installed: doca-ofed mlnx-ofed-kernel-dkms. Finish them" in done.stderr
    (fake / "cut").unlink()
    assert converge(fake, state(fake)).returncode == 0


def test_a_package_of_somebody_else_is_no_difference_of_the_driver(fake: Path) -> None:
    assert converge(fake, state(fake)).returncode == 0
    load(fake, "NEW")
    tool(fake, "dpkg-query", "echo 'iF  nvidia-dkms-580'; echo 'iU  grafana'")
    done = converge(fake, state(fake))
    assert (done.returncode, json.loads(done.stdout)["changed"]) == (0, []), done.stderr


RUNS = "5.14.0-503.el9"
NEXT = "5.14.0-570.el9"
INSTALLER = (
    'rm -f "$FAKE"/lib/modules/*/ofed\ncase "$*" in *"--kernel "*) ;; *) exit 0 ;; esac\n'
    'kernel=${*#*--kernel }\ntouch "$FAKE/lib/modules/${kernel%% *}/ofed"\n'
    '[ "${*#*--kernel-sources }" = "$FAKE/lib/modules/${kernel%% *}/build" ]'
)
"""The installer on a system without DKMS: the modules of one kernel take the place of others'."""
FINDS = (
    'kernel=$(uname -r)\n[ "$1" != -k ] || kernel=$2\n'
    'case "$*$(ls "$FAKE/lib/modules/$kernel")" in\n  *srcversion*ofed) echo NEW ;;\n'
    "  *srcversion*) echo OLD ;;\n  *ofed) echo /lib/modules/K/extra/mlx5_core.ko ;;\n"
    "  *) echo /lib/modules/K/kernel/mlx5_core.ko ;;\nesac"
)


def test_an_installer_without_dkms_builds_for_the_kernel_of_the_next_boot(fake: Path) -> None:
    for name in ("dpkg", "dpkg-query", "apt-get"):
        (fake / name).unlink()
    tools = {"modinfo": FINDS, "grubby": f"echo /boot/vmlinuz-{NEXT}", "dkms": "exit 0",
             "ofed_info": "echo MLNX_OFED_LINUX-24.10-1.1.4.0:", "rpm": "exit 0", "dnf": "exit 0",
             "mlnxofedinstall": INSTALLER}  # fmt: skip
    for name, text in tools.items():
        tool(fake, name, text)
    for kernel in (RUNS, NEXT):
        (fake / f"lib/modules/{kernel}/build").mkdir(parents=True)
        (fake / f"lib/modules/{kernel}/build/Makefile").touch()
    (fake / f"lib/modules/{RUNS}/ofed").touch()
    (fake / "kernel").write_text(f"{RUNS}\n")
    load(fake, "NEW")
    with tarfile.open(fake / "ofed.tgz", "w:gz") as archive:
        archive.add(fake / "mlnxofedinstall", "ofed/mlnxofedinstall")
    sha = hashlib.sha256((fake / "ofed.tgz").read_bytes()).hexdigest()
    openibd(fake, 'echo OLD >"$FAKE/sys/module/mlx5_core/srcversion"')
    wanted = state(fake, "24.10-1.1.4.0").replace("doca.deb", "ofed.tgz").replace("doca_", "mlnx_")
    wanted = wanted.replace(hashlib.sha256(b"package").hexdigest(), sha)
    done = converge(fake, wanted)
    assert f"{NEXT} has its modules now, and {RUNS}, which runs, has none: reboot" in done.stderr
    (fake / "kernel").write_text(f"{NEXT}\n")
    done = converge(fake, wanted)
    assert (done.returncode, json.loads(done.stdout)["changed"]) == (0, []), done.stderr


def test_holders_are_judged_by_the_release_that_was_just_installed(fake: Path) -> None:
    """From 26.07 on openibd unloads nvme too, which the root disk may need."""
    brings(fake, "26.07-0.5.0")
    (fake / "sys/module/nvme").mkdir()
    (fake / "sys/module/nvme/initstate").write_text("live\n")
    openibd(fake, "touch $FAKE/called")
    done = converge(fake, state(fake, "26.07-0.5.0.0"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["driver"] == "loaded and using the old RDMA modules: nvme"
    assert not (fake / "called").exists()


def test_a_machine_says_which_device_of_a_stack_it_is(fake: Path) -> None:
    wanted = card(fake, "0000:05:00.0", "enp5s0")
    (fake / "etc").mkdir(exist_ok=True)
    (fake / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    first = converge(fake, wanted, device="gpu01")
    assert json.loads(first.stdout)["machine_id"] == "0123456789abcdef0123456789abcdef"
    mark = fake / "var/lib/railyard/test/name"
    assert mark.read_text() == "gpu01\n"
    again = converge(fake, wanted, device="gpu01")
    assert json.loads(again.stdout)["changed"] == []
    (fake / "sys/class/net/enp5s0/mtu").write_text("1500\n")
    for name in ("gpu02", "gpu"):
        done = converge(fake, wanted, device=name)
        assert done.returncode == 1
        assert f"this machine is gpu01 of stack test, and not {name}: correct" in done.stderr
        assert "railyard: changed before this: nothing" in done.stderr
    assert (fake / "sys/class/net/enp5s0/mtu").read_text() == "1500\n"
    mark.write_text("gpu02\n")
    assert converge(fake, wanted, device="gpu02").returncode == 0
