"""Read, compare, change, verify, confirm, save on EOS: against an emulator in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.errors import DeviceError
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import PortState, SwitchState, diff_states, list_vlans
from components.fabric.systems.base import PauseCounters
from components.model.cluster import ClusterSpec
from lab.switches.eos.server import EosSwitch
from tests.fabric.eos_lab import load_spec, make_switch, talk
from tests.fabric.in_process import apply, baseline_of, edit, restore

LOSSY = plan_fabric(load_spec())[0].desired
LOSSLESS = plan_fabric(load_spec(mode="lossless"))[0].desired
WATCHED = plan_fabric(load_spec(mode="lossless", pfc_watchdog=True))[0].desired


def _with_ports(changed: Callable[[PortState], dict[str, object]], **update: object) -> SwitchState:
    """The lossless switch with something else on each port."""
    ports = {name: port.model_copy(update=changed(port)) for name, port in LOSSLESS.ports.items()}
    return LOSSLESS.model_copy(update={**update, "ports": ports})


def _access(port: PortState) -> dict[str, object]:
    vlan = (port.trunk_vlans or (1,))[0]
    return {"mode": "access", "access_vlan": vlan, "trunk_vlans": None, "mtu_bytes": 9000}


def _untagged(port: PortState) -> dict[str, object]:
    """What `untagged: 402` makes of a port."""
    return {"native_vlan": 402, "trunk_vlans": (*list_vlans(port.trunk_vlans or ()), 402)}


ACCESS = _with_ports(_access)
UNTAGGED = _with_ports(_untagged, vlans=(111, 112, 402))


@pytest.fixture
def switch(tmp_path: Path) -> EosSwitch:
    return make_switch(tmp_path)


ECN = "random-detect ecn minimum-threshold"
WATCHDOG = "priority-flow-control pause watchdog"
PORT_LINES = f"""description rack-4
mtu 9214
l2 mtu 9214
l2 mtu 1500
shutdown
speed auto 200g-4
error-correction encoding fire-code;error-correction encoding reed-solomon
no error-correction encoding fire-code
no error-correction encoding
no shutdown
no switchport
switchport
switchport mode trunk
switchport mode access
switchport access vlan 10
switchport trunk native vlan 20
switchport trunk native vlan tag
switchport trunk allowed vlan 10,111-112
switchport trunk allowed vlan none
qos trust cos
qos trust dscp
no qos trust
priority-flow-control on
priority-flow-control priority 3 no-drop
priority-flow-control priority 5 no-drop
{WATCHDOG}
{WATCHDOG} port timer timeout 0.5 polling-interval 0.1 recovery-time 60 forced
{WATCHDOG} port action drop
{WATCHDOG} port action notify-only
uc-tx-queue 3;{ECN} 10 kbytes maximum-threshold 20 kbytes
uc-tx-queue 3;{ECN} 20 segments maximum-threshold 90 segments max-mark-probability 20 weight 0
uc-tx-queue 3;random-detect ecn count
uc-tx-queue 1;{ECN} 1 mbytes maximum-threshold 2 mbytes
uc-tx-queue 6;no priority
uc-tx-queue 6;bandwidth percent 5;no priority
uc-tx-queue 2;no priority
spanning-tree portfast
""".splitlines()


def line_of(port: int) -> st.SearchStrategy[str]:
    return st.sampled_from([f"interface Ethernet{port}/1;{line}" for line in PORT_LINES])


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


@settings(max_examples=15, deadline=None)
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


@settings(max_examples=15, deadline=None)
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


@settings(max_examples=10, deadline=None)
@given(history=HISTORIES, between=st.lists(st.integers(1, 4).flatmap(line_of), max_size=4))
def test_a_watchdog_that_leaves_the_file_leaves_nothing(
    history: list[str], between: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        switch = make_switch(Path(folder))
        wrote(switch, history)
        exchange = talk(switch)
        baseline = baseline_of(exchange, WATCHED)
        before = {n: p.watchdog.model_copy() for n, p in switch.stored.running.ports.items()}
        apply(exchange, WATCHED)
        wrote(switch, [line for line in between if "watchdog" in line])
        edit(exchange, WATCHED, LOSSLESS, baseline)
        assert {n: p.watchdog for n, p in switch.stored.running.ports.items()} == before
        assert diff_states(exchange.read(LOSSLESS).state, LOSSLESS) == ()
        assert switch.unmodelled == ()


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
    [
        *("configure session", "vlan 112", "qos trust dscp", "no-drop", "random-detect"),
        *("port timer", "commit timer"),
    ],
)
def test_a_rejected_line_leaves_nothing(switch: EosSwitch, rejected: str) -> None:
    first = switch.snapshot()
    exchange = talk(switch)
    switch.fault(["reject", rejected])
    with pytest.raises(DeviceError) as caught:
        apply(exchange, WATCHED)
    for text in ("% Internal error", rejected, "the previous values were put back; not saved"):
        assert text in str(caught.value)
    assert switch.snapshot() == first
    assert switch.config_sessions.held == {}


def test_a_watchdog_line_that_the_switch_does_not_show_is_no_success(
    switch: EosSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = switch.snapshot()
    exchange = talk(switch)
    run: Callable[[str], str] = exchange.session.run
    hidden = "priority-flow-control pause watchdog"

    def shy(line: str) -> str:
        return run(line).replace(f"   {hidden}\n", "")

    monkeypatch.setattr(exchange.session, "run", shy)
    with pytest.raises(DeviceError, match="took every line and still differs") as caught:
        apply(exchange, WATCHED)
    assert hidden in str(caught.value)
    assert switch.snapshot() == first


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
    with pytest.raises(DeviceError, match="Ethernet2/1: not found, or part of"):
        apply(exchange, LOSSY)
    assert switch.snapshot() == first


def test_drift_is_told_in_words_and_repaired(switch: EosSwitch) -> None:
    exchange = talk(switch)
    apply(exchange, WATCHED)
    watchdog = "priority-flow-control pause watchdog"
    timer = "port timer timeout 1 polling-interval auto recovery-time 1"
    switch.fault(["mtu", "Ethernet2/1", "1500"])
    switch.fault(["trust", "Ethernet3/1", "L2"])
    for line in (
        "qos map dscp 26 to traffic-class 1",
        "interface Ethernet4/1;priority-flow-control priority 4 no-drop",
        f"interface Ethernet2/1;no {watchdog}",
        f"interface Ethernet3/1;{watchdog} port action notify-only",
        f"interface Ethernet4/1;{watchdog} {timer}",
    ):
        switch.run_line(line)
    found = [str(each) for each in diff_states(exchange.read(WATCHED).state, WATCHED)]
    assert sorted(found) == [
        "dscp_26_class of switch is 1, want 3",
        "mtu_bytes of port Ethernet2/1 is 1500, want 9214",
        "pfc_priorities of port Ethernet4/1 is 3,4, want 3",
        "pfc_watchdog of port Ethernet2/1 is off, want on",
        "pfc_watchdog of port Ethernet3/1 is off, want on",
        "trust of port Ethernet3/1 is L2, want L3",
    ]
    blocks = {
        2: ("l2 mtu 9214", watchdog),
        3: ("qos trust dscp", f"{watchdog} port action drop"),
        4: ("no priority-flow-control priority 4 no-drop",),
    }
    assert apply(exchange, WATCHED) == (
        "qos map dscp 26 to traffic-class 3",
        *(
            line
            for port, lines in blocks.items()
            for line in (f"interface Ethernet{port}/1", *lines, "exit")
        ),
    )
    assert timer.endswith(str(switch.stored.running.ports["Ethernet4/1"].watchdog.timer))


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
