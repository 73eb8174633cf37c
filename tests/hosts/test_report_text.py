"""What a host says in its own words ends up in evidence that is still JSON."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.hosts.folder_host import FolderHost, folder_host

KEY = "net.core.somaxconn"
NOW = Path("/proc/sys/net/core/somaxconn").read_text().strip()
"""This machine's own value: it is only looked at, so that nothing has to be set."""
CARD = "0000:05:00.0"


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    return folder_host(tmp_path)


def rival(host: FolderHost, line: bytes) -> dict[str, object]:
    path = host.root / "etc/sysctl.d/50-site.conf"
    path.parent.mkdir(parents=True)
    path.write_bytes(line)
    return host.report("converge", f"kernel.sysctl.{KEY}={NOW}")


def test_a_file_of_another_system_is_no_rival_for_its_line_ends(host: FolderHost) -> None:
    assert "notes" not in rival(host, f"{KEY} = {NOW}\r\n".encode())


def test_a_rival_is_told_without_what_no_json_holds(host: FolderHost) -> None:
    report = rival(host, f'{KEY}="1"\x01\x1b[0m\\\x7f\r\n'.encode())
    [note] = cast("list[str]", report["notes"])
    assert f"50-site.conf sets {KEY} to 1[0m" in note


def test_versions_and_reasons_are_told_without_what_no_json_holds(host: FolderHost) -> None:
    device = host.card(CARD, "rail0")
    (device / "infiniband/mlx5_0/fw_ver").write_bytes(b'16.35.2000\x01"\\ (MT_1)\nmore\n')
    (device / "infiniband/mlx5_1").mkdir()
    (device / "infiniband/mlx5_1/fw_ver").write_text("16.35.2000\n")
    host.tool("mlxconfig", "echo 'ATS_ENABLED False(0)'")
    report = host.report("converge", f"nic.{CARD}.ats=off")
    assert report["firmware"] == {CARD: "16.35.2000"}
    done = host.sh("driver_note=$(printf 'a\\001\"b\\\\\\nc')\nreport_driver\n")
    assert done.stdout == ',"driver":"abc"'


def test_a_name_that_an_earlier_line_of_the_hosts_file_has_is_told(host: FolderHost) -> None:
    lines = ("127.0.0.1 localhost", "127.0.1.1\tGPU01.site gpu01 # Debian's", "::1 gpu02",
             "10.0.0.3 gpu03", "# 10.9.9.9 gpu02", "10.9.9.9 other gpu02\r")  # fmt: skip
    host.write("etc/hosts", "".join(f"{line}\n" for line in lines))
    wanted = tuple(f"hosts.gpu0{each}=10.0.0.{each}" for each in (1, 2, 3))
    [note] = cast("list[str]", host.report("converge", *wanted)["notes"])
    assert "gpu01 is 127.0.1.1 (line 2), gpu02 is 10.9.9.9 (line 6)" in note
    assert "gpu03" not in note
    host.write("etc/hosts", (host.root / "etc/hosts").read_text().replace("10.9.9.9 other", "# "))
    host.write("etc/hosts", (host.root / "etc/hosts").read_text() + "10.7.7.7 gpu02\n")
    [note] = cast("list[str]", host.report("converge", *wanted)["notes"])
    assert "gpu02" not in note


def test_many_such_names_are_counted(host: FolderHost) -> None:
    names = [f"gpu{each:02}" for each in range(1, 10)]
    host.write("etc/hosts", "".join(f"10.9.9.9 {name}\n" for name in names))
    [note] = cast(
        "list[str]", host.report("converge", *(f"hosts.{n}=10.0.0.1" for n in names))["notes"]
    )
    assert "gpu03 is 10.9.9.9 (line 3) and 6 more: " in note
