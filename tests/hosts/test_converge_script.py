"""The whole of converge on a host of files: what is left when something fails midway."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from components.hosts.scripts import library_text
from tests.hosts.fake_host import KERNEL, LITTLE_ROOM, converge, make_fake, module, run, tool

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
