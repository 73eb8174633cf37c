"""The cards' firmware where a tool fails, or tells only a part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.test_firmware_script import (
    CARD,
    DONE,
    MLXCONFIG,
    MST,
    POWER_CYCLE,
    make_fake,
    read,
    sh,
)


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    return make_fake(tmp_path)


def test_a_card_that_cannot_be_asked_is_told_in_the_words_of_the_tool(fake: Path) -> None:
    (fake / "broken").write_text("Operation not permitted\n")
    assert read(fake, "ats", "fw_link_type_p1") == ["unreadable", "unreadable"]
    for setting in ("ats on", "fw_link_type_p1 eth"):
        done = sh(fake, f"write_firmware {CARD} {setting}\n")
        assert done.returncode == 1
        assert f"cannot read the firmware of {CARD}: -E- Failed to open device: Oper" in done.stderr
        assert "update" not in done.stderr


def test_a_current_value_that_could_not_be_read_waits_for_nothing(fake: Path) -> None:
    (fake / "nv").write_text("ATS_ENABLED N/A(0) True(1)\n".replace("N/A(0)", '"N/A"'))
    assert read(fake, "ats", "ats_current", "fw_needs") == ["on", "unknown", "nothing"]


@pytest.mark.parametrize("call", ["start", "stop"])
def test_what_mst_does_not_do_keeps_no_card_from_being_set(fake: Path, call: str) -> None:
    (fake / "words").write_text(DONE.format(POWER_CYCLE))
    text = MST.replace(
        "case $1 in", f"[ $1 != {call} ] || {{ echo 'no module'; exit 1; }}\ncase $1 in", 1
    )
    (fake / "mst").write_text(text)
    done = sh(fake, f"write_firmware {CARD} ats on\n")
    assert done.returncode == 0, done.stderr
    assert read(fake, "ats", "fw_needs") == ["on", "power_cycle"]


def test_settings_of_a_call_that_failed_are_not_told_as_changed(fake: Path) -> None:
    tool = fake / "mlxconfig"
    tool.write_text(MLXCONFIG.replace("cat $FAKE/words\n", "echo '-E- no'; exit 3\n"))
    asked = f"nic.{CARD}.fw_num_of_vfs=64\n"
    done = sh(fake, f"echo {asked.strip()} >$work/ordered\nwrite_firmware {CARD} ats on\n")
    assert "changed before this: nothing" in done.stderr


def test_the_running_firmware_counts_before_the_burnt_one(fake: Path) -> None:
    flint = "FW Version:            28.43.1014\nFW Version(Running):   28.39.1002\n"
    (fake / "flint").write_text(f"#!/bin/sh\nprintf '{flint}'\n")
    (fake / "flint").chmod(0o755)
    assert read(fake, "fw_ver") == ["28.39.1002"]
