"""What is alike on all cards of a host is one line of its step, and means each card again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.errors import DeviceError
from components.core.key_values import HostState, parse_state
from components.core.plain_text import has_placeholder
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import drift_of_step
from components.hosts.host_plan import HostPlan, plan_hosts
from components.model.cards import Sriov
from components.preview.items import settings_of_text
from tests.golden.site import changed_spec, load_example
from tests.graph.example_sites import NAMES, example_plan
from tests.hosts.folder_host import FolderHost, folder_host
from tests.hosts.host_text import library_text

A, B = "nic.0000:05:00.0", "nic.0000:84:00.0"
EACH = f"""\
hostname=gpu01
{A}.link=up
{A}.mtu_bytes=9000
{A}.netdev=enp5s0
{A}.vfs=2
{B}.link=up
{B}.mtu_bytes=9000
{B}.netdev=enp132s0
vf.0000:05:00.0.0.guid=0200000000000001
vf.0000:05:00.0.0.trust=on
vf.0000:05:00.0.0.vlan=111
vf.0000:05:00.0.1.guid=0200000000000002
vf.0000:05:00.0.1.trust=on
"""
SHORT = f"""\
nic.*.mtu_bytes=9000
hostname=gpu01
nic.*.link=up
{A}.netdev=enp5s0
{A}.vfs=2
{B}.netdev=enp132s0
vf.0000:05:00.0.*.trust=on
vf.0000:05:00.0.0.guid=0200000000000001
vf.0000:05:00.0.0.vlan=111
vf.0000:05:00.0.1.guid=0200000000000002
"""
"""The same: one card alone has `vfs`, one VF alone a VLAN, and names and GUIDs differ."""
SETTINGS = ("netdev", "mtu_bytes", "link", "vfs")
VF = st.sampled_from(("vlan", "trust"))
STATES = st.dictionaries(
    st.builds("nic.0000:{}:00.0.{}".format, st.sampled_from("0123"), st.sampled_from(SETTINGS))
    | st.builds("vf.0000:{}:00.0.{}.{}".format, st.sampled_from("01"), st.sampled_from("012"), VF)
    | st.sampled_from(["hostname", "kernel.acs"]),
    st.sampled_from(["1", "2", "3"]),
)


def test_what_all_cards_have_alike_is_one_line_and_the_rest_stays() -> None:
    assert parse_state(EACH).render_short() == SHORT
    assert parse_state(SHORT).render() == EACH


def test_one_card_has_its_own_lines() -> None:
    lines = [line for line in EACH.splitlines() if not line.startswith((B, "vf."))]
    alone = "".join(f"{line}\n" for line in lines)
    assert parse_state(alone).render_short() == alone


def test_a_line_of_its_own_names_each_card() -> None:
    each = f"{A}.ats_active=on\n{A}.ats_current=on\n{B}.ats_active=on\n{B}.ats_current=on\n"
    short = f"nic.*.ats_current=on\n{A}.ats_active=on\n{B}.ats_active=on\n"
    assert parse_state(each).render_short() == short
    assert parse_state(short).render() == each


@given(STATES)
def test_no_setting_is_lost_or_made_up(values: dict[str, str]) -> None:
    assert parse_state(HostState(values).render_short()).values == values


def test_a_line_of_all_cards_without_a_card_is_no_state() -> None:
    with pytest.raises(
        DeviceError, match=r"nic\.\*\.link is of all cards, and no line names a card"
    ):
        parse_state("hostname=gpu01\nnic.*.link=up\n")


def test_a_line_of_all_vfs_of_a_card_without_any_is_no_state() -> None:
    with pytest.raises(DeviceError, match="applies to all VFs, but the card has zero VFs"):
        parse_state(f"{A}.netdev=enp5s0\nvf.0000:05:00.0.*.trust=on\n")


def plans() -> list[HostPlan]:
    found = [plan for name in NAMES for plan in example_plan(name).hosts]
    return [plan for plan in found if not has_placeholder(plan.converge.desired)]


def example_of_vfs(count: int) -> HostPlan:
    """Eight cards whose VFs all carry the same, and a VLAN a card."""
    spec = load_example("rail-optimised")
    worker = spec.workers[0]
    nics = tuple(
        nic.model_copy(
            update={"vfs": count, "sriov": Sriov(vlan=100 + number, trust=True, spoofchk=False)}
        )
        for number, nic in enumerate(worker.nics)
    )
    plans = plan_hosts(changed_spec(spec, hosts=(worker.model_copy(update={"nics": nics}),)), "dev")
    return plans[0]


def test_vfs_that_carry_the_same_cost_a_line_a_card_and_setting() -> None:
    few, many = (example_of_vfs(count).converge.desired for count in (2, 16))
    assert len(many.splitlines()) == len(few.splitlines())
    assert many.count("\nvf.") == 8 * 3
    assert "vf.0000:2a:00.0.*.vlan=101\n" in many


def test_a_host_reads_what_each_example_plans(tmp_path: Path) -> None:
    """The shell makes of the short lines what the plan wants of each card and VF."""
    script = tmp_path / "script"
    read = 'cat >"$work/input"\nload_input "$work/input"\ncat "$work/desired"\n'
    script.write_text(library_text() + read)
    shared = 0
    for plan in (*plans(), example_of_vfs(4)):
        done = subprocess.run(
            ["/bin/sh", str(script)],
            input=plan.converge.desired, capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = [f"{key}={value}" for key, value in plan.desired.values.items()]
        assert sorted(done.stdout.splitlines()) == sorted(lines), plan.name
        shared += plan.converge.desired.count("nic.*.")
    assert shared > 100


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    made = folder_host(tmp_path)
    made.card("0000:05:00.0", "enp5s0")
    made.card("0000:84:00.0", "enp132s0")
    return made


OWN = (f"{A}.netdev=enp5s0", f"{B}.netdev=enp132s0")


def mtu_of(host: FolderHost) -> list[str]:
    found = ((host.root / f"sys/class/net/{name}/mtu") for name in ("enp5s0", "enp132s0"))
    return [file.read_text().strip() for file in found]


def test_a_line_of_all_cards_sets_each_and_evidence_names_it_once(host: FolderHost) -> None:
    report = host.report("converge", "nic.*.mtu_bytes=9000", *OWN)
    assert (report["changed"], report["unchanged"]) == (["nic.*.mtu_bytes"], 2)
    assert mtu_of(host) == ["9000", "9000"]
    assert host.observe("nic.*.mtu_bytes=9000", *OWN)[f"{B}.mtu_bytes"] == "9000"
    assert host.baseline[f"{A}.mtu_bytes"] == host.baseline[f"{B}.mtu_bytes"] == "1500"
    host.write("sys/class/net/enp132s0/mtu", "1500\n")
    report = host.report("converge", "nic.*.mtu_bytes=9000", *OWN)
    assert report["changed"] == [f"{B}.mtu_bytes"]
    assert mtu_of(host) == ["9000", "9000"]
    host.report("undo", "nic.*.mtu_bytes=9000", *OWN)
    assert mtu_of(host) == ["1500", "1500"]


def test_a_card_that_is_added_is_meant_too(host: FolderHost) -> None:
    host.report("converge", f"{A}.mtu_bytes=9000", OWN[0])
    assert mtu_of(host) == ["9000", "1500"]
    report = host.report("converge", "nic.*.mtu_bytes=9000", *OWN)
    assert report["changed"] == [f"{B}.mtu_bytes"]
    assert mtu_of(host) == ["9000", "9000"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("nic.*.colour=red", *OWN), "'nic.*.colour' is no setting of a card"),
        (("nic.*.0000:05:00.0.link=up", *OWN), "'nic.*.0000:05:00.0.link' is no setting of a card"),
        (("nic.*.mtu_bytes=99999", *OWN), "'99999' is no value of nic.*.mtu_bytes"),
        (("nic.*.mtu_bytes=9000",), "'nic.*.mtu_bytes' is of all cards, and no line names a card"),
        ((*OWN, "nic.*.mtu_bytes=9000"), "lines of single cards are before it"),
        (("vf.*.vlan=111", *OWN), "'vf.*.vlan' is no setting of a host"),
        (("nic.*.vfs=2", *OWN, "vf.0000:05:00.0.*.colour=red"), "is no setting of a VF"),
        (("nic.*.vfs=2", *OWN, "vf.0000:05:00.0.*.vlan=5000"), "'5000' is no value of vf.0000"),
        ((*OWN, "vf.0000:05:00.0.*.vlan=111"), "is of all VFs of a card that has none"),
        (("nic.*.vfs=2", *OWN, "vf.0000:06:00.0.*.vlan=1"), "of all VFs of a card that has none"),
        ((f"{A}.vfs=0", OWN[0], "vf.0000:05:00.0.*.vlan=1"), "of all VFs of a card that has none"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    host: FolderHost, lines: tuple[str, ...], reason: str
) -> None:
    done = host.run("converge", *lines)
    assert done.returncode == 1
    assert reason in done.stderr
    assert "changed before this: nothing" in done.stderr
    assert mtu_of(host) == ["1500", "1500"]


def test_stacks_that_recorded_each_card_show_no_edit() -> None:
    plan = next(each for each in plans() if "nic.*." in each.converge.desired)
    each_card = parse_state(plan.converge.desired).render()
    assert "nic.*." not in each_card
    recorded = Applied({plan.converge.name: AppliedStep(stdin=each_card)})
    drift = drift_of_step(plan.watched, recorded, plan.desired)
    assert (drift.edited, drift.differences) == (False, ())
    assert settings_of_text(each_card) == settings_of_text(plan.converge.desired)
