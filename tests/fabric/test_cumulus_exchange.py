"""Read, compare, change, verify, save on Cumulus: against an emulator in this process."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.errors import DeviceError
from components.fabric.edit import every_key
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import PortState, SwitchState, diff_states
from components.fabric.systems.base import PauseCounters
from lab.switches.cumulus.server import CumulusSwitch
from tests.fabric.cumulus_lab import load_spec, make_switch, talk
from tests.fabric.in_process import apply, baseline_of, restore
from tests.fabric.switch_labs import SAVED_ITSELF

DESIRED = plan_fabric(load_spec())[0].desired


def _trunk(number: int, port: PortState) -> PortState:
    vlans = {"access_vlan": None, "trunk_vlans": (111 + number % 2,)}
    return port.model_copy(update={"mode": "trunk", "mtu_bytes": 9000, **vlans})


PORTS = {n: _trunk(i, port) for i, (n, port) in enumerate(DESIRED.ports.items())}
LOSSY: dict[str, object] = {"roce": "lossy", "pfc_priorities": None, "pfc_enabled": None}
TRUNKS = DESIRED.model_copy(update={**LOSSY, "vlans": (111, 112), "ports": PORTS})


@pytest.fixture
def switch(tmp_path: Path) -> CumulusSwitch:
    return make_switch(tmp_path)


def _line(port: int) -> st.SearchStrategy[str]:
    head, member = f"nv set interface swp{port}", f"interface swp{port} bridge domain br_default"
    gone = f"nv unset {member}"
    return st.sampled_from(
        [
            head,
            f"{head} description rack-4",
            f"{head} link mtu 9216",
            f"{head} link mtu 1500",
            f"{head} link state up",
            f"{head} link speed 100G",
            f"{head} link fec baser; {head} link auto-negotiate off",
            f"{head} link state down",
            f"nv set {member}",
            f"{gone} vlan; {gone} untagged; nv set {member} access 10",
            f"{gone} access; nv set {member} vlan 10,111-112",
            f"{gone} access; nv set {member} untagged 20",
            f"{gone} access; nv set {member} untagged none",
            gone,
        ]
    )


HISTORIES = st.lists(
    st.one_of(
        st.integers(1, 6).flatmap(_line),
        st.sampled_from(
            [
                "nv set bridge domain br_default",
                "nv set bridge domain br_default vlan 10,20",
                "nv set bridge domain br_default vlan 111",
                "nv unset bridge domain br_default vlan 111",
                "nv set bridge domain br_default stp priority 8192",
                "nv set qos roce mode lossless",
                "nv set qos roce mode lossy",
                "nv unset qos roce",
            ]
        ),
    ),
    max_size=12,
)


GIVEN: dict[str, object] = {"trust": None, "ecn": {}, "strict_classes": None}
"""What the profile gives to every port."""


@settings(max_examples=20, deadline=None)
@given(history=HISTORIES, desired=st.sampled_from([DESIRED, TRUNKS]))
def test_whatever_was_there_apply_settles_and_undo_is_exact(
    history: list[str], desired: SwitchState
) -> None:
    with TemporaryDirectory() as folder:
        switch = make_switch(Path(folder))
        for line in history:
            output = switch.run_line(line)
            assert "rror" not in output
            assert "Invalid" not in output
        switch.session().run("nv config save")
        first = switch.snapshot()
        exchange = talk(switch)
        baseline = baseline_of(exchange, desired)
        apply(exchange, desired)
        assert diff_states(exchange.read(desired).state, desired) == ()
        assert apply(exchange, desired) == ()
        for other in ("swp5", "swp6"):
            found = exchange.read(every_key((other,), SwitchState())).state.ports[other]
            assert found.model_copy(update=GIVEN) == baseline.ports[other].model_copy(update=GIVEN)
        restore(exchange, desired, baseline)
        assert switch.snapshot() == first
        assert switch.unmodelled == ()


def test_what_somebody_adds_after_us_stays(switch: CumulusSwitch) -> None:
    exchange = talk(switch)
    baseline = baseline_of(exchange, DESIRED)
    apply(exchange, DESIRED)
    switch.run_line("nv set interface swp1 description rack-4")
    switch.run_line("nv set interface swp9 bridge domain br_default access 111")
    restore(exchange, DESIRED, baseline)
    tree = switch.stored.applied
    assert tree["interface"] == {
        "swp1": {"description": "rack-4", "link": {"state": {"down": {}}}, "type": "swp"},
        "swp9": {"bridge": {"domain": {"br_default": {"access": 111}}}, "type": "swp"},
    }
    assert tree["bridge"] == {"domain": {"br_default": {"vlan": {"111": {}}}}}
    assert "qos" not in tree


def test_all_is_one_revision(switch: CumulusSwitch) -> None:
    assert apply(talk(switch), DESIRED) == (
        "nv set bridge domain br_default vlan 111",
        "nv set interface swp1-4 bridge domain br_default access 111",
        "nv set interface swp1-4 link state up",
        "nv set qos roce mode lossless",
    )
    assert switch.stored.startup == switch.stored.applied
    view = switch.port_view("swp1")
    assert (view.trust, view.mtu_bytes, view.pfc_priorities) == ("both", 9216, {3})


@pytest.mark.parametrize(
    "rejected", ["vlan 111", "access 111", "link state up", "roce mode", "config apply"]
)
def test_a_rejected_line_leaves_nothing(switch: CumulusSwitch, rejected: str) -> None:
    first = switch.snapshot()
    switch.fault(["reject", rejected])
    with pytest.raises(DeviceError) as caught:
        apply(talk(switch), DESIRED)
    text = str(caught.value)
    assert "Failure during apply" in text
    assert rejected in text
    assert SAVED_ITSELF in text
    assert switch.snapshot() == first
    assert switch.stored.pending is None


def test_a_revision_that_nvue_finds_invalid_is_dropped(switch: CumulusSwitch) -> None:
    switch.run_line("nv set interface swp2 ip address 10.0.0.1/31")
    first = switch.snapshot()
    with pytest.raises(DeviceError, match=r"Invalid config \[rev_id: 3\] interface swp2"):
        apply(talk(switch), DESIRED)
    assert switch.snapshot() == first
    assert switch.stored.pending is None


def test_what_a_killed_run_left_pending_is_not_applied(switch: CumulusSwitch) -> None:
    session = switch.session()
    session.run("nv set interface swp1-4 link mtu 1500")
    apply(talk(switch), DESIRED)
    assert switch.port_view("swp1").mtu_bytes == 9216


def test_drift_is_told_in_words_and_repaired(switch: CumulusSwitch) -> None:
    exchange = talk(switch)
    apply(exchange, DESIRED)
    switch.fault(["mtu", "swp2", "1500"])
    switch.fault(["roce", "lossy"])
    found = [str(each) for each in diff_states(exchange.read(DESIRED).state, DESIRED)]
    assert sorted(found) == [
        "mtu_bytes of port swp2 is 1500, want 9216",
        "pfc of switch is off, want on",
        "pfc_priorities of switch is none, want 3",
        "roce of switch is lossy, want lossless",
    ]
    assert apply(exchange, DESIRED) == (
        "nv set interface swp2 link mtu 9216",
        "nv set qos roce mode lossless",
    )


def test_a_setting_over_the_profile_is_seen_and_named(switch: CumulusSwitch) -> None:
    exchange = talk(switch)
    apply(exchange, DESIRED)
    switch.fault(["trust", "swp3", "L2"])
    found = [str(each) for each in diff_states(exchange.read(DESIRED).state, DESIRED)]
    assert found == ["trust of port swp3 is L2, want both"]
    with pytest.raises(DeviceError, match="trust of swp3 is L2, want both") as caught:
        apply(exchange, DESIRED)
    assert "nv unset interface swp3 qos mapping" in str(caught.value)
    switch.run_line("nv unset interface swp3 qos mapping")
    assert apply(exchange, DESIRED) == ()


def test_counters_tell_the_class(switch: CumulusSwitch) -> None:
    switch.add_counters("swp1", 0, rx_bytes=5, tx_bytes=6)
    switch.add_counters("swp1", 3, rx_bytes=1000, tx_bytes=2000, ecn_marked=4)
    switch.add_discards("swp1", 7)
    switch.add_pauses("swp1", 3, rx=8, tx=9, storms=2)
    found = talk(switch).read_counters(["swp1"])["swp1"]
    counted = {n: (c.rx_bytes, c.tx_bytes) for n, c in found.by_priority.items() if c.tx_bytes}
    assert counted == {0: (5, 6), 3: (1000, 2000)}
    assert (found.ecn_marked, found.rx_discards) == (4, 7)
    assert (found.pauses[3], found.pauses[4]) == (PauseCounters(8, 9), PauseCounters(0, 0))
    assert (found.storms, found.unread) == ({}, ()), "its watchdog is off"
    switch.run_line("nv set interface swp1 qos pfc-watchdog state enable; nv config apply -y")
    found = talk(switch).read_counters(["swp1"])["swp1"]
    assert (found.storms[3], found.storms[4], found.unread) == (2, 0, ())
