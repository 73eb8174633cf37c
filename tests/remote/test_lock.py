"""The lock of a device: in a private folder, with the name of its holder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from components.core.errors import DeviceError
from components.remote.one_run import hold_lock, lock_folder

BUSY = "leaf-01: another Railyard run has been changing this device"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "railyard" / "locks"


def _hold() -> None:
    with hold_lock("leaf-01", BUSY, 0):
        pytest.fail("the lock was taken")


def test_a_second_run_names_the_holder(folder: Path) -> None:
    with hold_lock("leaf-01", BUSY, 1), pytest.raises(DeviceError) as caught:
        _hold()
    host = os.uname().nodename
    assert f"holder  process {os.getpid()} on {host} in {Path.cwd()}, since 2" in str(caught.value)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with hold_lock("leaf-01", BUSY, 0), hold_lock("leaf-02", BUSY, 0):
        assert len(list(folder.iterdir())) == 2


def test_a_folder_that_others_can_write_is_made_private(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert lock_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    folder.parent.mkdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(DeviceError, match=r"is a link, or belongs to another user[^.]*\. Nothing"):
        lock_folder()


def test_a_folder_of_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True)
    other = os.getuid() + 1
    monkeypatch.setattr("components.remote.one_run.os.getuid", lambda: other)
    with pytest.raises(DeviceError, match="belongs to another user"):
        lock_folder()


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_lock_file_that_cannot_be_opened_is_explained(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    folder.mkdir(parents=True)
    file, aim = folder / "leaf-01.lock", tmp_path / "aim"
    if kind == "link":
        file.symlink_to(aim)
    else:
        file.mkdir()
    with pytest.raises(DeviceError, match=r"cannot be opened: .*Nothing was changed"):
        _hold()
    assert not aim.exists()
