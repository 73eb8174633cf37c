"""The emulated watchdog and lengths of SONiC, against what sonic-swss does with the rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.switches.sonic.server import SonicSwitch
from tests.fabric.sonic_lab import make_switch

WRITE = "sudo sonic-cfggen -a '{}' --write-to-db"


@pytest.fixture
def switch(tmp_path: Path) -> SonicSwitch:
    return make_switch(tmp_path)


def _length(switch: SonicSwitch, port: str, length: str) -> str:
    switch.run_line(WRITE.format(f'{{"CABLE_LENGTH":{{"AZURE":{{"{port}":"{length}"}}}}}}'))
    return switch.stored.running["BUFFER_PG"][f"{port}|3-4"]["profile"]


def test_a_length_is_looked_at_with_the_next_change_of_the_port(switch: SonicSwitch) -> None:
    assert _length(switch, "Ethernet0", "40m") == "pg_lossless_400000_300m_profile"
    switch.run_line("sudo config interface mtu Ethernet0 9100")
    made = switch.stored.running["BUFFER_PG"]["Ethernet0|3-4"]["profile"]
    assert made == "pg_lossless_400000_40m_profile"
    assert switch.stored.running["BUFFER_PROFILE"][made]["xoff"] == "201930"


def test_newer_images_look_at_once_and_not_at_zero(switch: SonicSwitch) -> None:
    switch.database.acts_on_length = True
    assert _length(switch, "Ethernet0", "5m") == "pg_lossless_400000_5m_profile"
    assert _length(switch, "Ethernet0", "7m") == "pg_lossless_400000_5m_profile"
    assert _length(switch, "Ethernet0", "0m") == "pg_lossless_400000_5m_profile"


def test_a_watchdog_takes_the_list_of_its_start_and_keeps_its_action(switch: SonicSwitch) -> None:
    said = switch.run_line("sudo pfcwd start --action forward Ethernet0 300")
    assert said.endswith("default to 2 times detection time: 600 ms\n")
    assert switch.stored.watchdogs == {"Ethernet0": {3: "forward", 4: "forward"}}
    switch.run_line(WRITE.format('{"PFC_WD":{"Ethernet0":{"action":"drop"}}}'))
    switch.run_line(WRITE.format('{"PORT_QOS_MAP":{"Ethernet0":{"pfcwd_sw_enable":"5"}}}'))
    assert switch.stored.watchdogs == {"Ethernet0": {3: "forward", 4: "forward"}}
    switch.run_line("sudo pfcwd stop Ethernet0")
    assert switch.stored.watchdogs == {}
    assert "PFC_WD" not in switch.stored.running


def test_a_row_waits_for_its_list(switch: SonicSwitch) -> None:
    switch.run_line("sudo sonic-db-cli CONFIG_DB HDEL 'PORT_QOS_MAP|Ethernet0' pfcwd_sw_enable")
    switch.run_line("sudo pfcwd start --action drop --restoration-time 200 Ethernet0 200")
    assert switch.stored.watchdogs == {}
    switch.run_line(WRITE.format('{"PORT_QOS_MAP":{"Ethernet0":{"pfcwd_sw_enable":"3"}}}'))
    assert switch.stored.watchdogs == {"Ethernet0": {3: "drop"}}
    switch.run_line("sudo config save -y")
    switch.reload()
    assert switch.stored.watchdogs == {"Ethernet0": {3: "drop"}}


@pytest.mark.parametrize(
    "fields",
    ['"action":"drop"', '"detection_time":"50"', '"detection_time":"200","action":"shut"',
     '"detection_time":"200","timer":"1"'],
)  # fmt: skip
def test_a_row_that_orchagent_does_not_know_starts_nothing(
    switch: SonicSwitch, fields: str
) -> None:
    switch.run_line(WRITE.format(f'{{"PFC_WD":{{"Ethernet0":{{{fields}}}}}}}'))
    assert switch.stored.watchdogs == {}


def test_what_pfcwd_prints(switch: SonicSwitch) -> None:
    switch.run_line("sudo sonic-db-cli CONFIG_DB HDEL 'PORT_QOS_MAP|Ethernet8' pfc_enable")
    said = switch.run_line("sudo pfcwd start --action drop all 400 --restoration-time 400")
    assert said == "SKIPPED: PFC is not enabled on port: Ethernet8\n"
    assert "bigger than one of the configured" in switch.run_line("sudo pfcwd interval 500")
    switch.run_line("sudo pfcwd interval 400")
    assert "Root privileges" in switch.run_line("pfcwd stop Ethernet0")
    assert switch.unmodelled == ()
    assert "No such command" in switch.run_line("sudo pfcwd show stats")
    assert switch.unmodelled == ("pfcwd show stats",)
