"""The folders of rdma_cm in configfs, which a tool makes and removes for each device."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.hosts.fuse_server import CONFIGFS, LabFiles
from lab.hosts.model import HostModel
from tests.lab_hosts.conftest import make_host

HOST = f"/gpu01{CONFIGFS}"


@pytest.fixture
def files(tmp_path: Path) -> LabFiles:
    model = HostModel(make_host("gpu01", "127.0.0.1"), tmp_path / "nvram.json")
    model.boot("gpu01")
    return LabFiles({"gpu01": model})


def below(files: LabFiles, path: str) -> list[str]:
    return [name for name, _ in files.names(path)]


def test_a_folder_comes_and_goes_and_all_else_stays(files: LabFiles) -> None:
    sys = below(files, "/gpu01/sys/class/infiniband")
    one, other = sys[:2]
    assert below(files, HOST) == []
    files.mkdir(f"{HOST}/{one}")
    files.mkdir(f"{HOST}/{other}")
    assert below(files, HOST) == [one, other]
    assert "default_roce_mode" in below(files, f"{HOST}/{one}/ports/1")
    files.rmdir(f"{HOST}/{one}")
    assert below(files, HOST) == [other]
    with pytest.raises(FileNotFoundError):
        files.mode(f"{HOST}/{one}/ports/1/default_roce_mode")
    files.rmdir(f"{HOST}/{other}")
    assert below(files, HOST) == []
    assert below(files, "/gpu01/sys/class/infiniband") == sys
    with pytest.raises(OSError, match="No such device"):
        files.mkdir(f"{HOST}/none")
