"""ATS in a card's firmware, with tools that answer as mlxconfig and mst do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from components.hosts.scripts import library_text

MST = """#!/bin/sh
state=$FAKE/mst_runs
case $1 in
  start) echo on >$state ;;
  stop) rm -f $state ;;
  status)
    [ -e $state ] && word=loaded || word='is not loaded'
    printf 'MST modules:\\n------------\\n    MST PCI configuration module %s\\n\\n' "$word"
    [ -e $state ] || exit 0
    printf '/dev/mst/mt4123_pciconf0         - PCI configuration cycles access.\\n'
    printf '                                   domain:bus:dev.fn=0000:0b:00.0 addr.reg=88\\n'
    printf '/dev/mst/mt4123_pciconf1         - PCI configuration cycles access.\\n'
    printf '                                   domain:bus:dev.fn=0000:13:00.0 addr.reg=88\\n'
    ;;
esac
"""
MLXCONFIG = """#!/bin/sh
echo "$*" >>$FAKE/calls
case "$*" in
  *query*)
    if [ -e $FAKE/old ]; then
      echo "-E- The Device doesn't support ATS_ENABLED parameter" >&2
      exit 3
    fi
    echo 'Configurations:                       Default         Current         Next Boot'
    echo '        ATS_ENABLED_X                 True(1)         True(1)         True(1)'
    echo "*       ATS_ENABLED                   False(0)        False(0)        $(cat $FAKE/next)"
    ;;
  *ATS_ENABLED=1) echo 'True(1)' >$FAKE/next; cat $FAKE/words ;;
  *ATS_ENABLED=0) echo 'False(0)' >$FAKE/next; cat $FAKE/words ;;
esac
"""
DONE = "Applying... Done!\n-I- Please {} machine to load new configurations.\n"


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    for name, text in (("mst", MST), ("mlxconfig", MLXCONFIG)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "next").write_text("False(0)\n")
    (tmp_path / "words").write_text(DONE.format("reboot"))
    return tmp_path


def sh(fake: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh"],
        input=library_text() + script,
        env={"PATH": f"{fake}:/usr/bin:/bin", "FAKE": str(fake)},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def test_the_next_boot_is_set_on_the_card_with_that_address(fake: Path) -> None:
    done = sh(fake, "write_ats 0000:13:00.0 on\nread_ats 0000:13:00.0 ats\n"
              "read_ats 0000:13:00.0 ats_current\necho $firmware_needs\n")  # fmt: skip
    assert done.stdout.splitlines() == ["on", "off", "reboot"], done.stderr
    calls = (fake / "calls").read_text().splitlines()
    assert "-d /dev/mst/mt4123_pciconf1 -y set ATS_ENABLED=1" in calls
    assert "-d 0000:13:00.0 -e query ATS_ENABLED" in calls  # mst does not run, and is not started


def test_mst_is_left_as_it_was(fake: Path) -> None:
    sh(fake, "write_ats 0000:0b:00.0 on\nmst status >$FAKE/after\n")
    assert "is not loaded" in (fake / "after").read_text()


def test_a_power_cycle_is_told_from_a_reboot(fake: Path) -> None:
    (fake / "words").write_text(DONE.format("power cycle"))
    done = sh(fake, "write_ats 0000:0b:00.0 on\necho $firmware_needs\n")
    assert done.stdout == "power_cycle\n", done.stderr


def test_old_firmware_is_refused(fake: Path) -> None:
    (fake / "old").touch()
    done = sh(fake, "read_key nic.0000:0b:00.0.ats\nwrite_ats 0000:0b:00.0 on\n")
    assert done.returncode == 1
    assert "has no ATS_ENABLED: update the firmware" in done.stderr


def test_without_a_tool_the_packages_are_named(fake: Path) -> None:
    (fake / "mlxconfig").unlink()
    done = sh(fake, "write_ats 0000:0b:00.0 on\n")
    assert done.returncode == 1
    assert "install MFT" in done.stderr
