"""Read, compare, change, verify, confirm, save on EOS: against an emulator in this process."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.errors import DeviceError
from components.fabric.plan import plan_fabric
from components.fabric.state import SwitchState, diff_states, list_vlans
from components.fabric.systems.base import PauseCounters
from components.model.cluster import ClusterSpec
from lab.switches.eos.server import EosSwitch
from tests.fabric.eos_lab import load_spec, make_switch, talk
from tests.fabric.in_process import apply, baseline_of, restore

LOSSY = plan_fabric(load_spec())[0].desired
LOSSLESS = plan_fabric(load_spec(mode="lossless"))[0].desired
WATCHED = plan_fabric(load_spec(mode="lossless", pfc_watchdog=True))[0].desired
ACCESS = LOSSLESS.model_copy(
    update={
        "ports": {
            name: port.model_copy(
                update={
                    "mode": "access",
                    "access_vlan": (port.trunk_vlans or (1,))[0],
                    "trunk_vlans": None,
                    "mtu_bytes": 9000,
                }
            )
            for name, port in LOSSLESS.ports.items()
        }
    }
)

UNTAGGED = LOSSLESS.model_copy(
    update={
        "vlans": (111, 112, 402),
        "ports": {
            name: port.model_copy(
                update={
                    "native_vlan": 402,
                    "trunk_vlans": (*list_vlans(port.trunk_vlans or ()), 402),
                }
            )
            for name, port in LOSSLESS.ports.items()
        },
    }
)
"""What `untagged: 402` makes of the ports."""


@pytest.fixture
def switch(tmp_path: Path) -> EosSwitch:
    return make_switch(tmp_path)


def line_of(port: int) -> st.SearchStrategy[str]:
    head = f"interface Ethernet{port}/1;"
    ecn = "random-detect ecn minimum-threshold"
    watchdog = f"{head}priority-flow-control pause watchdog"
    return st.sampled_from(
        [
            f"{head}description rack-4",
            f"{head}mtu 9214",
            f"{head}l2 mtu 9214",
            f"{head}l2 mtu 1500",
            f"{head}shutdown",
            f"{head}speed auto 200g-4",
            f"{head}error-correction encoding fire-code;error-correction encoding reed-solomon",
            f"{head}no error-correction encoding fire-code",
            f"{head}no error-correction encoding",
            f"{head}no shutdown",
            f"{head}no switchport",
            f"{head}switchport",
            f"{head}switchport mode trunk",
            f"{head}switchport mode access",
            f"{head}switchport access vlan 10",
            f"{head}switchport trunk native vlan 20",
            f"{head}switchport trunk native vlan tag",
            f"{head}switchport trunk allowed vlan 10,111-112",
            f"{head}switchport trunk allowed vlan none",
            f"{head}qos trust cos",
            f"{head}qos trust dscp",
            f"{head}no qos trust",
            f"{head}priority-flow-control on",
            f"{head}priority-flow-control priority 3 no-drop",
            f"{head}priority-flow-control priority 5 no-drop",
            watchdog,
            f"{watchdog} port timer timeout 0.5 polling-interval 0.1 recovery-time 60 forced",
            f"{watchdog} port action drop",
            f"{watchdog} port action notify-only",
            f"{head}uc-tx-queue 3;{ecn} 10 kbytes maximum-threshold 20 kbytes",
            (
                f"{head}uc-tx-queue 3;{ecn} 2000 segments maximum-threshold 10000 segments "
                "max-mark-probability 20 weight 0"
            ),
            f"{head}uc-tx-queue 3;random-detect ecn count",
            f"{head}uc-tx-queue 1;{ecn} 1 mbytes maximum-threshold 2 mbytes",
            f"{head}uc-tx-queue 6;no priority",
            f"{head}uc-tx-queue 6;bandwidth percent 5;no priority",
            f"{head}uc-tx-queue 2;no priority",
            f"{head}spanning-tree portfast",
        ]
    )


HISTORIES = st.lists(
    st.one_of(
        st.integers(1, 6).flatmap(line_of),
        st.sampled_from(
            [
                "vlan 10,20",
                "vlan 111;name rail",
                "no vlan 111",
                "qos map dscp 26 to traffic-class 1",
                "qos map dscp 0 8 24-31 48 to traffic-class 5",
                "qos map traffic-class 2 to tx-queue 4",
                "priority-flow-control pause watchdog default timeout 10.5",
                "priority-flow-control pause watchdog default polling-interval 0.005",
                "priority-flow-control pause watchdog action drop",
            ]
        ),
    ),
    max_size=14,
)


def _spec(mode: str, priority: int, cnp: int, low: int, high: int) -> ClusterSpec:
    return load_spec(
        mode=mode,
        dscp=priority * 8 + low % 8,
        cnp_dscp=(priority + cnp) % 8 * 8,
        ecn_min_kib=low,
        ecn_max_kib=low + high,
    )


INTENTS = st.builds(
    _spec,
    st.sampled_from(["lossy_ecn", "lossless"]),
    st.integers(1, 6),
    st.integers(1, 7),
    st.integers(1, 5000),
    st.integers(1, 5000),
)


def wrote(switch: EosSwitch, history: list[str]) -> object:
    for line in history:
        assert "%" not in switch.run_line(line)
    switch.save_configuration()
    return switch.snapshot()


@settings(max_examples=40, deadline=None)
@given(history=HISTORIES, desired=st.sampled_from([LOSSY, LOSSLESS, WATCHED, ACCESS, UNTAGGED]))
def test_whatever_was_there_apply_settles_and_undo_is_exact(
    history: list[str], desired: SwitchState
) -> None:
    with TemporaryDirectory() as folder:
        switch = make_switch(Path(folder))
        first = wrote(switch, history)
        exchange = talk(switch)
        baseline = baseline_of(exchange, desired)
        others = {
            n: switch.stored.running.ports[n].model_copy(deep=True)
            for n in ("Ethernet5/1", "Ethernet6/1")
        }
        defaults = dict(switch.stored.running.watchdog_defaults)
        timers = {name: port.watchdog.timer for name, port in switch.stored.running.ports.items()}
        apply(exchange, desired)
        for name, port in switch.stored.running.ports.items():
            said = port.watchdog
            assert timers[name] in {None, said.timer}, "a timer that somebody set is kept"
            if desired == WATCHED and name in desired.ports:
                assert (said.enabled, said.timer is not None, said.action) == (True, True, "drop")
        assert switch.stored.running.watchdog_defaults == defaults
        assert diff_states(exchange.read(desired).state, desired) == ()
        assert apply(exchange, desired) == ()
        for name, port in others.items():
            assert switch.stored.running.ports[name] == port
        restore(exchange, desired, baseline)
        assert switch.snapshot() == first
        assert restore(exchange, desired, baseline) == ()
        assert switch.unmodelled == ()


@settings(max_examples=40, deadline=None)
@given(history=HISTORIES, spec=INTENTS)
def test_what_the_intent_says_is_what_a_packet_meets(history: list[str], spec: ClusterSpec) -> None:
    rdma, desired = spec.rdma, plan_fabric(spec)[0].desired
    with TemporaryDirectory() as folder:
        switch = make_switch(Path(folder))
        # Somebody's map of classes to queues may be in the way: that is refused, see below.
        first = wrote(switch, [line for line in history if "traffic-class 2" not in line])
        exchange = talk(switch)
        baseline = baseline_of(exchange, desired)
        apply(exchange, desired)
        for name in desired.ports:
            view = switch.port_view(name)
            queue = view.priority_to_tc[view.dscp_to_priority[rdma.dscp]]
            assert (view.trust, queue) == ("L3", rdma.traffic_class)
            assert view.ecn_kib[queue] == (rdma.ecn_min_kib, rdma.ecn_max_kib)
            if rdma.mode == "lossless":
                assert view.pfc_priorities == {view.dscp_to_priority[rdma.dscp]}
            assert view.dscp_to_priority[rdma.cnp_dscp] == rdma.cnp_priority
            cnp = switch.stored.running.ports[name].queues.get(rdma.cnp_priority)
            assert cnp is None or cnp.strict
        restore(exchange, desired, baseline)
        assert switch.snapshot() == first


def test_what_somebody_adds_after_us_stays(switch: EosSwitch) -> None:
    exchange = talk(switch)
    baseline = baseline_of(exchange, LOSSLESS)
    apply(exchange, LOSSLESS)
    switch.run_line("interface Ethernet1/1;description rack-4;switchport trunk allowed vlan add 50")
    switch.run_line("interface Ethernet9/1;switchport access vlan 111")
    restore(exchange, LOSSLESS, baseline)
    running = switch.stored.running
    assert running.ports["Ethernet1/1"].description == "rack-4"
    assert running.ports["Ethernet9/1"].access_vlan == 111
    assert sorted(running.vlans) == [1, 111]


@pytest.mark.parametrize(
    "rejected",
    ["configure session", "vlan 112", "qos trust dscp", "no-drop", "random-detect", "commit timer"],
)
def test_a_rejected_line_leaves_nothing(switch: EosSwitch, rejected: str) -> None:
    first = switch.snapshot()
    exchange = talk(switch)
    switch.fault(["reject", rejected])
    with pytest.raises(DeviceError) as caught:
        apply(exchange, LOSSLESS)
    text = str(caught.value)
    assert "% Internal error" in text
    assert rejected in text
    assert "the previous values were put back; not saved" in text
    assert switch.snapshot() == first
    assert switch.config_sessions.held == {}


def test_a_class_in_another_queue_is_named_and_not_overwritten(switch: EosSwitch) -> None:
    switch.run_line("qos map traffic-class 3 to tx-queue 5")
    with pytest.raises(DeviceError, match="traffic class 3 is mapped to queue 5"):
        apply(talk(switch), LOSSY)
    assert switch.stored.running.class_queues == {3: 5}


def test_a_member_of_a_bundle_is_refused(switch: EosSwitch) -> None:
    switch.run_line("interface Ethernet2/1;channel-group 5 mode active")
    first = switch.snapshot()
    exchange = talk(switch)
    baseline = baseline_of(exchange, LOSSY)
    assert "Ethernet2/1" not in baseline.ports
    with pytest.raises(DeviceError, match="Ethernet2/1: there is no such port, or it is part of"):
        apply(exchange, LOSSY)
    assert switch.snapshot() == first


def test_drift_is_told_in_words_and_repaired(switch: EosSwitch) -> None:
    exchange = talk(switch)
    apply(exchange, LOSSLESS)
    switch.fault(["mtu", "Ethernet2/1", "1500"])
    switch.fault(["trust", "Ethernet3/1", "L2"])
    switch.run_line("qos map dscp 26 to traffic-class 1")
    switch.run_line("interface Ethernet4/1;priority-flow-control priority 4 no-drop")
    found = [str(each) for each in diff_states(exchange.read(LOSSLESS).state, LOSSLESS)]
    assert sorted(found) == [
        "dscp_26_class of switch is 1, want 3",
        "mtu_bytes of port Ethernet2/1 is 1500, want 9214",
        "pfc_priorities of port Ethernet4/1 is 3,4, want 3",
        "trust of port Ethernet3/1 is L2, want L3",
    ]
    assert apply(exchange, LOSSLESS) == (
        "qos map dscp 26 to traffic-class 3",
        "interface Ethernet2/1",
        "l2 mtu 9214",
        "exit",
        "interface Ethernet3/1",
        "qos trust dscp",
        "exit",
        "interface Ethernet4/1",
        "no priority-flow-control priority 4 no-drop",
        "exit",
    )


def test_counters_tell_the_class_of_what_was_sent(switch: EosSwitch) -> None:
    switch.run_line("interface Ethernet1/1;uc-tx-queue 3;random-detect ecn count")
    switch.add_counters("Ethernet1/1", 0, rx_bytes=5, tx_bytes=6)
    switch.add_counters("Ethernet1/1", 3, rx_bytes=1000, tx_bytes=2000, ecn_marked=4)
    switch.add_discards("Ethernet1/1", 7)
    switch.add_pauses("Ethernet1/1", 3, rx=8, tx=9, storms=2)
    found = talk(switch).read_counters(["Ethernet1/1"])["Ethernet1/1"]
    counted = {n: (c.rx_bytes, c.tx_bytes) for n, c in found.by_priority.items() if c.tx_bytes}
    assert counted == {0: (None, 6), 3: (None, 2000)}
    assert (found.rx_bytes, found.ecn_marked, found.rx_discards) == (1005, 4, 7)
    assert (found.pauses[3], found.pauses[4]) == (PauseCounters(8, 9), PauseCounters(0, 0))
    assert (found.storms[3], found.storms[4]) == (2, 0)
