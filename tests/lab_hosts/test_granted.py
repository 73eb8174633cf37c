"""What a real host lacks is absent in the lab: held against a table with sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab import control
from tests.granted import Row, rows_of
from tests.lab_hosts.conftest import SmallLab, make_host, write_lab

pytestmark = pytest.mark.lab


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted(Row):
    """One row: what is asked for, who must lack it, and who must have it."""

    ask: str
    says: str
    lacks: tuple[str, ...]
    has: tuple[str, ...]


ROWS = rows_of(Path(__file__).with_name("granted.yaml"), Granted)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLab]:
    ofed = make_host("ofed", "127.201.1.13")
    usual = ("ethtool", "pciutils")
    hosts = (
        replace(make_host("bare", "127.201.1.11"), driver="", packages=(), gpus=0, cgroup_v1=True),
        replace(make_host("inbox", "127.201.1.12"), driver="", packages=usual),
        replace(ofed, packages=(*usual, "nvidia-container-toolkit")),
    )
    lab = write_lab(tmp_path_factory.mktemp("granted") / "lab", hosts)
    control.start(lab.file)
    yield lab
    control.stop(lab.root)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.ask)
def test_a_thing_is_there_only_with_what_brings_it(machines: SmallLab, row: Granted) -> None:
    for name in row.lacks:
        done = machines.root_sh(name, row.ask)
        assert done.returncode != 0, f"{name} is kinder than a real host: {done.stdout}"
        assert row.says in done.stderr
    for name in row.has:
        done = machines.root_sh(name, row.ask)
        assert done.returncode == 0, f"{name}: {done.stderr}"


def test_each_machine_is_in_a_row(machines: SmallLab) -> None:
    assert machines.addresses.keys() == {name for row in ROWS for name in (*row.lacks, *row.has)}
