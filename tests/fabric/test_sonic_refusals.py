"""What a SONiC switch refuses, drops or has no room for: nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.core.errors import DeviceError
from lab.switches.sonic.server import SonicSwitch
from tests.fabric.in_process import apply
from tests.fabric.sonic_lab import make_switch, talk
from tests.fabric.test_sonic_exchange import LOSSLESS, LOSSY, merge


@pytest.fixture
def switch(tmp_path: Path) -> SonicSwitch:
    return make_switch(tmp_path)


@pytest.mark.parametrize(
    "rejected", ["vlan add 111", "member add -u 111 Ethernet16", "DSCP_TO", "PORT_QOS_MAP", "mtu"]
)
def test_a_rejected_line_leaves_nothing(switch: SonicSwitch, rejected: str) -> None:
    first = switch.snapshot()
    switch.fault(["reject", rejected])
    with pytest.raises(DeviceError) as caught:
        apply(talk(switch), LOSSLESS)
    text = str(caught.value)
    assert f"refused: {rejected}" in text
    assert "not saved" in text
    switch.fault(["reject", "off"])
    if rejected != "PORT_QOS_MAP":  # with it refused, putting back a port is refused as well
        assert "the previous values were put back" in text
    assert switch.snapshot() == first


@pytest.mark.parametrize(
    "ignored", ["member add -u 111 Ethernet8", "WRED_PROFILE", "mtu Ethernet8"]
)
def test_a_line_that_does_nothing_is_found_by_reading_again(
    switch: SonicSwitch, ignored: str
) -> None:
    first = switch.snapshot()
    switch.fault(["ignore", ignored])
    with pytest.raises(DeviceError, match="took every line and still differs") as caught:
        apply(talk(switch), LOSSY)
    assert ignored in str(caught.value)
    assert switch.snapshot() == first


def test_a_port_with_an_address_is_left_alone(switch: SonicSwitch) -> None:
    switch.run_line(merge('{"INTERFACE":{"Ethernet8":{},"Ethernet8|10.0.0.0/31":{}}}'))
    switch.run_line("sudo config save -y")
    first = switch.snapshot()
    with pytest.raises(DeviceError, match="Ethernet8 is a router interface!"):
        apply(talk(switch), LOSSY)
    assert switch.snapshot() == first


def test_a_reload_by_somebody_else_is_waited_for_by_a_person(switch: SonicSwitch) -> None:
    switch.fault(["lock", "bob"])
    with pytest.raises(DeviceError, match="a config reload is running"):
        talk(switch)
    switch.fault(["lock", "off"])
    talk(switch)


def test_sudo_with_a_password_is_told(switch: SonicSwitch) -> None:
    switch.fault(["sudo-password", "on"])
    with pytest.raises(DeviceError, match="sudo: a password is required"):
        talk(switch)


def test_an_unreadable_configuration_is_not_shown(
    switch: SonicSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = talk(switch)

    def broken(_line: str) -> str:
        return '{"SNMP_COMMUNITY": {"hush": '

    monkeypatch.setattr(exchange.session, "run", broken)
    with pytest.raises(DeviceError, match="no table of tables") as caught:
        exchange.read(LOSSY)
    assert "hush" not in str(caught.value)


def test_lossless_without_pools_says_what_makes_them(tmp_path: Path) -> None:
    switch = make_switch(tmp_path, qos=False)
    first = switch.snapshot()
    with pytest.raises(DeviceError, match="sudo config qos reload") as caught:
        apply(talk(switch), LOSSLESS)
    assert "the previous values were put back; not saved" in str(caught.value)
    assert switch.snapshot() == first


def test_lossless_without_a_line_for_the_cable_is_taken_back(switch: SonicSwitch) -> None:
    switch.run_line(merge('{"CABLE_LENGTH":{"AZURE":{"Ethernet8":"7m"}}}'))
    switch.run_line("sudo sonic-db-cli CONFIG_DB DEL 'BUFFER_PG|Ethernet8|3-4'")
    switch.run_line("sudo config save -y")
    first = switch.snapshot()
    with pytest.raises(DeviceError, match="no lossless buffer for priority 3") as caught:
        apply(talk(switch), LOSSLESS)
    assert "CABLE_LENGTH" in str(caught.value)
    assert switch.snapshot() == first


def test_a_queue_in_a_row_with_others_is_not_guessed_at(switch: SonicSwitch) -> None:
    switch.run_line("sudo sonic-db-cli CONFIG_DB DEL 'QUEUE|Ethernet0|3'")
    switch.run_line(merge('{"QUEUE":{"Ethernet0|3-4":{"wred_profile":"AZURE_LOSSLESS"}}}'))
    with pytest.raises(DeviceError, match=r"QUEUE\|Ethernet0\|3-4 is one row for several queues"):
        apply(talk(switch), LOSSY)
