"""The emulated MLNX-OS command line: lab/sources.md#mlnx-os."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.core.errors import UsageError
from lab.switches.mlnxos.server import MlnxosSwitch
from lab.switches.onyx.cli import Mode, Session
from tests.fabric.ib_lab import make_switch

GUID = "a0:88:c2:03:00:01:10:00"


@pytest.fixture
def switch(tmp_path: Path) -> MlnxosSwitch:
    return make_switch(tmp_path)


@pytest.fixture
def console(switch: MlnxosSwitch) -> Session:
    return Session(switch, Mode.CONFIG, paging=False)


def test_modes_and_prompts_are_those_of_onyx(switch: MlnxosSwitch) -> None:
    session = Session(switch)
    assert session.prompt() == "ib-leaf-01 [standalone: master] > "
    assert session.run("ib sm").startswith('% Unrecognized command "ib"')
    session.run("enable")
    session.run("configure terminal")
    assert session.prompt() == "ib-leaf-01 [standalone: master] (config) # "


def test_a_factory_switch(console: Session) -> None:
    assert console.run("show ib partition") == (
        "Default:\n  PKey : 0x7FFF\n  ipoib: yes\n  members:\n    GUID='ALL' member='full'\n"
    )
    assert console.run("show ib sm") == "disable\n"
    assert console.run("show ib sm priority") == "0\n"
    assert console.run("show ib sm routing-info") == "% Connection to SM unavailable\n"


def test_both_switches_are_needed_before_a_subnet_manager_runs(
    switch: MlnxosSwitch, console: Session
) -> None:
    console.run("ib sm")
    assert console.run("show ib smnode ib-leaf-01 sm-running") == "not active\n"
    console.run("ib smnode ib-leaf-01 enable")
    assert console.run("show ib smnode ib-leaf-01 sm-running") == "active\n"
    assert switch.subnet_view().sm_runs
    console.run("no ib sm")
    assert not switch.subnet_view().sm_runs


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("ib partition a pkey 0x0101", ""),
        ("ib partition a pkey 0x8101 force", "% Invalid pkey\n"),
        ("ib partition a pkey 0x7fff", "% PKey 0x7fff is in use by another partition\n"),
        ("ib partition b member ALL type full", "% Partition b does not exist\n"),
        ("ib partition Default member a088:c203:0001:1000 type full", "% Invalid port GUID\n"),
        ("ib partition Default member 0xa088c20300011000 type full", "% Invalid port GUID\n"),
        (f"ib partition Default member {GUID} type half", "% Invalid membership type\n"),
        ("ib partition Default mtu 9K", "% Invalid mtu\n"),
        ("no ib partition Default", "% Changing the Default partition needs an answer that"),
        ("no ib partition Default ipoib", "% Changing the Default partition needs an answer that"),
        ("no ib partition Default defmember", "% Changing the Default partition needs an answer"),
        ("ib partition Default defmember half", "% Invalid membership type\n"),
        (f"no ib partition Default member {GUID}", "% Changing the Default partition needs an"),
        ("ib sm sm-priority 16", "% Please enter an integer between 0 and 15.\n"),
        ("ib smnode other sm-priority 5", "% SM node other does not exist\n"),
        ("ib sm routing-engines fast", "% Invalid routing engine\n"),
        ("show ib smnode other sm-state", "% SM node other does not exist\n"),
        ("show interfaces ib 1/33/1", "% Interface ib 1/33/1 does not exist\n"),
        ("ib partition", '% Incomplete command.\nType "?" for help.\n'),
    ],
)
def test_what_lines_say(console: Session, line: str, answer: str) -> None:
    assert console.run(line).startswith(answer)


def test_a_refused_line_changes_nothing(switch: MlnxosSwitch, console: Session) -> None:
    first = switch.snapshot()
    console.run("ib partition a member ALL type full")
    console.run("ib sm sm-priority 99")
    assert switch.snapshot() == first
    assert switch.unmodelled == ()


def test_what_is_not_known_is_recorded(switch: MlnxosSwitch, console: Session) -> None:
    assert console.run("ib sm virt enable").startswith("% Unrecognized command")
    assert switch.unmodelled == ("ib sm virt enable",)


def test_a_reload_loses_what_was_not_saved(switch: MlnxosSwitch, console: Session) -> None:
    console.run("ib partition a pkey 0x0101")
    console.run("configuration write")
    console.run("ib partition b pkey 0x0102")
    switch.reload()
    assert [*switch.stored.running.partitions] == ["Default", "a"]


def test_a_port_with_and_without_a_cable(switch: MlnxosSwitch, console: Session) -> None:
    shown = console.run("show interfaces ib 1/1/1")
    assert "Logical port state          : Active\n" in shown
    assert "Current line rate           : 400.0 Gbps\n" in shown
    switch.fault(["link-down", "1/1/1", "on"])
    assert "Physical port state         : Polling\n" in console.run("show interfaces ib 1/1/1")
    switch.fault(["link-down", "1/1/1", "off"])
    console.run("interface ib 1/1/1 shutdown")
    assert not switch.subnet_view().up


def test_state_outlives_the_lab(tmp_path: Path) -> None:
    one = make_switch(tmp_path)
    one.run_line("ib partition a pkey 0x0101")
    assert make_switch(tmp_path).snapshot() == one.snapshot()


def test_faults_are_named(switch: MlnxosSwitch) -> None:
    assert "typed by hand" in switch.fault(["sm", "on"])
    assert switch.stored.running.sm
    for args in (
        ["nonsense"],
        [],
        ["sm", "maybe"],
        ["disk-full"],
        ["cli", "ib partition b mtu 4K"],
    ):
        with pytest.raises(UsageError, match=r"ib-leaf-01 has no fault|fault "):
            switch.fault(args)
