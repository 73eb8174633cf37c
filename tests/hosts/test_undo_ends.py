"""Undo ends whatever became of a host since: what cannot go back is listed, and destroy goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hosts.folder_host import FolderHost, folder_host

SERVICE = "docker.service=enabled/active"
SYSTEMCTL = """
case "$1 $*" in
  is-enabled*) cat $F/enabled ;;
  is-active*) cat $F/active; grep -q -x active $F/active ;;
  enable*) echo enabled >$F/enabled ;;
  disable*) echo disabled >$F/enabled ;;
  mask*) echo masked >$F/enabled ;;
  start*) echo active >$F/active ;;
  stop*) echo inactive >$F/active ;;
esac"""
USED = "userdel: user mpi is currently used by process 4242"
USERS = 'sed -n "s/^$2:/$2:/p" $F/passwd | grep .'
MODPROBE = """
case $* in
  '-r '*) [ ! -e $F/held ] || { echo "modprobe: FATAL: Module $2 is in use." >&2; exit 1; }
    rmdir $F/sys/module/$2 ;;
  *) mkdir -p $F/sys/module/$1 ;;
esac"""


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    host = folder_host(tmp_path)
    host.tool("systemctl", SYSTEMCTL)
    host.tool("dockerd")
    host.tool("docker", "exit 1")
    host.tool("modprobe", MODPROBE)
    host.tool("getent", USERS)
    host.tool("useradd", 'echo "mpi:x:$5:$5::$F/home/mpi:/bin/sh" >$F/passwd; mkdir -p $F/home/mpi')
    host.tool("userdel", f"[ ! -e $F/held ] || {{ echo '{USED}' >&2; exit 8; }}\n: >$F/passwd")
    host.tool("chown")
    host.write("passwd", "")
    return host


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("disabled", "failed"), ("disabled", "inactive")),
        (("enabled", "failed"), ("enabled", "inactive")),
        (("disabled", "active"), ("disabled", "active")),
    ],
)
def test_a_service_that_had_failed_is_stopped(
    host: FolderHost, before: tuple[str, str], after: tuple[str, str]
) -> None:
    for name, state in zip(("enabled", "active"), before, strict=True):
        host.write(name, f"{state}\n")
    host.report("converge", SERVICE)
    assert host.report("undo")["left"] == []
    assert tuple((host.root / name).read_text().strip() for name in ("enabled", "active")) == after


def test_a_service_that_was_masked_is_masked_again(host: FolderHost) -> None:
    host.write("enabled", "masked\n")
    host.write("active", "inactive\n")
    host.report("converge", SERVICE)  # the tool of this test unmasks at once
    assert host.report("undo")["left"] == []
    assert (host.root / "enabled").read_text() == "masked\n"


@pytest.mark.parametrize("before", ["linked", "not-found", ""])
def test_a_service_whose_state_nobody_can_make_is_listed_as_left(
    host: FolderHost, before: str
) -> None:
    host.write("enabled", f"{before}\n")
    host.write("active", "inactive\n")
    host.report("converge", SERVICE)
    assert host.report("undo")["left"] == ["docker.service"]
    assert (host.root / "active").read_text() == "inactive\n"
    assert not host.state.exists()


def test_a_user_with_processes_is_listed_as_left(host: FolderHost) -> None:
    host.report("converge", "user.mpi.uid=1500")
    host.write("held", "")
    assert host.report("undo")["left"] == ["user.mpi.uid"]
    assert not host.state.exists()


def test_a_module_in_use_stays_ours_when_the_file_drops_it(host: FolderHost) -> None:
    host.report("converge", "module.nvidia_peermem=loaded", "user.mpi.uid=1500")
    host.write("held", "")
    notes = str(host.report("converge", "user.mpi.uid=1500")["notes"])
    assert "module.nvidia_peermem cannot be put back now" in notes
    (host.root / "held").unlink()
    assert host.report("converge", "user.mpi.uid=1500")["changed"] == ["module.nvidia_peermem"]
    assert "module.nvidia_peermem" not in host.baseline


def test_the_link_of_a_unit_that_a_hand_removed_goes_too(host: FolderHost) -> None:
    host.report("converge", "user.mpi.uid=1500")
    link = host.root / "etc/systemd/system/multi-user.target.wants/railyard-nics.service"
    link.parent.mkdir(parents=True)
    link.symlink_to("/nowhere/railyard-nics.service")
    assert json.loads(host.run("undo").stdout)["left"] == []
    assert not link.is_symlink()


def test_a_home_that_an_earlier_account_left_is_the_new_ones(host: FolderHost) -> None:
    host.tool("chown", 'echo "$@" >$F/owned')
    host.write("home/mpi/.ssh/id", "key")  # of a number that no account has by now
    host.report("converge", "user.mpi.uid=1600")
    earlier = (host.root / "home/mpi").stat().st_uid
    given = f"-R --from={earlier} mpi: {host.root}/home/mpi\n"
    assert (host.root / "owned").read_text() == given
