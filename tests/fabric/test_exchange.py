"""Read, compare, change, verify, save: against an emulator in this process."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.core.errors import DeviceError, UnreachableError
from components.fabric.exchange import Exchange
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from components.fabric.switch_guards import with_guarded_settings
from components.fabric.systems.base import PauseCounters
from components.fabric.systems.onyx.rows import parse_running
from lab.switches.onyx.config import PortConfig
from lab.switches.onyx.server import OnyxSwitch
from tests.fabric.conftest import load_spec, make_switch, talk
from tests.fabric.fabric_lab import Room
from tests.fabric.in_process import answer, apply, baseline_of, load_table, restore
from tests.fabric.lives import check_life, disturb, unowned

PLAN = plan_fabric(load_spec())[0]
DESIRED = PLAN.desired
UNTAGGED = DESIRED.model_copy(
    update={
        "vlans": (111, 112, 402),
        "ports": {
            name: port.model_copy(update={"mode": "hybrid", "access_vlan": 402})
            for name, port in DESIRED.ports.items()
        },
    }
)
"""What `untagged: 402` makes of the ports."""
LOSSLESS, SEMI = (
    plan_fabric(load_spec(mode=mode))[0].desired for mode in ("lossless", "semi_lossless")
)


TYPED: Final = load_table("histories.yaml")


def _line(port: int) -> st.SearchStrategy[str]:
    return st.sampled_from([f"interface ethernet 1/{port} {line}" for line in TYPED["onyx port"]])


HISTORIES = st.lists(
    st.one_of(st.integers(1, 6).flatmap(_line), st.sampled_from(TYPED["onyx switch"])), max_size=14
)


def _reads_alike(exchange: Exchange) -> None:
    """A look by the running configuration finds what the looks at each port find."""
    for wanted in (DESIRED, with_guarded_settings(DESIRED)):
        whole, each = exchange.read(wanted), exchange.read(wanted, each=True)
        assert whole.state == each.state
        if wanted.others is not None:
            assert whole == each


@settings(max_examples=15, deadline=None)
@given(history=HISTORIES, desired=st.sampled_from([DESIRED, UNTAGGED]))
def test_whatever_was_there_apply_settles_and_undo_is_exact(
    history: list[str], desired: SwitchState
) -> None:
    with TemporaryDirectory() as folder:
        plan = PLAN.model_copy(update={"desired": desired})
        room = Room(plan, make_switch(Path(folder)))
        disturb(room, history)
        others = unowned(room)

        def check(_now: SwitchState) -> None:
            _reads_alike(room.talk())
            assert unowned(room) == others

        check(desired)
        check_life(room, check=check)


@pytest.mark.parametrize(
    ("desired", "line", "paused"),
    [(LOSSLESS, "roce lossless", {3}), (SEMI, "roce semi-lossless", set[int]())],
)
def test_the_one_shot_settles_and_undo_is_exact(
    desired: SwitchState, line: str, paused: set[int], switch: OnyxSwitch
) -> None:
    """With `semi-lossless` the switch itself pauses nobody."""
    first, exchange = switch.snapshot(), talk(switch)
    baseline = baseline_of(exchange, desired)
    lines = apply(exchange, desired)
    for trust in ("L3", "both", "L3"):
        switch.run_line(f"interface ethernet 1/2 qos trust {trust}")
        whole, each = exchange.read(desired).state, exchange.read(desired, each=True).state
        assert whole.settings() == each.settings()
        assert trust == "L3" or whole == each
    assert lines[0] == line
    assert not any("traffic-class" in line for line in lines), "the one-shot already set those"
    assert switch.port_view("1/1").pfc_priorities == paused
    assert apply(exchange, desired) == ()
    restore(exchange, desired, baseline)
    assert switch.snapshot() == first


def test_a_vlan_that_somebody_else_uses_by_now_stays(switch: OnyxSwitch) -> None:
    exchange = talk(switch)
    baseline = baseline_of(exchange, DESIRED)
    apply(exchange, DESIRED)
    switch.run_line("interface ethernet 1/9 switchport access vlan 111")
    restore(exchange, DESIRED, baseline)
    assert sorted(switch.stored.running.vlans) == [1, 111]
    assert switch.stored.running.ports["1/9"].access_vlan == 111


def test_a_way_back_that_is_refused_too_saves_nothing(switch: OnyxSwitch) -> None:
    switch.fault(["reject", "1/4 no sh"])
    with pytest.raises(DeviceError, match="1/4 no sh") as caught:
        apply(talk(switch), DESIRED)
    assert "not saved" in str(caught.value)
    assert "the previous values were put back" not in str(caught.value)
    assert switch.stored.saved.ports["1/1"].mtu_bytes == 1500


TRUST = "interface ethernet 1/1-1/4 qos trust L3"


def test_a_lost_session_tells_what_the_switch_had_taken(switch: OnyxSwitch) -> None:
    def breaks(line: str, _number: int) -> None:
        if line == TRUST:
            raise UnreachableError(f"leaf-01: the session ended while `{line}` ran")

    exchange = talk(switch)
    answer(exchange, breaks)
    with pytest.raises(UnreachableError) as caught:
        apply(exchange, DESIRED)
    for words in (f"ended while `{TRUST}` ran", "not saved", "1/1 switchport mode trunk"):
        assert words in str(caught.value)
    apply(talk(switch), DESIRED)
    assert diff_states(talk(switch).read(DESIRED).state, DESIRED) == ()


def test_a_line_that_does_nothing_is_found_by_reading_again(switch: OnyxSwitch) -> None:
    first, exchange = switch.snapshot(), talk(switch)
    answer(exchange, lambda line, _: "" if line == TRUST else None)
    with pytest.raises(DeviceError, match="took every line and still differs") as caught:
        apply(exchange, DESIRED)
    assert TRUST in str(caught.value)
    assert switch.snapshot() == first


def test_an_answer_that_cannot_be_read_is_shown_in_part_and_escaped(switch: OnyxSwitch) -> None:
    exchange = talk(switch)
    text = "Trust: yes, a lot\x1b[2J\n" + "x" * 3000 + "\n" * 5000
    answer(exchange, lambda line, _: text if line.startswith("show qos") else None)
    with pytest.raises(DeviceError) as caught:
        baseline_of(exchange, DESIRED)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("leaf-01 (in process): cannot read the answer to `show qos")
    assert lines[1:3] == ["  answer", r"    Trust: yes, a lot\x1b[2J"]
    assert lines[3] == "    " + "x" * 200 + "…"
    assert lines[-2] == "    and 4,981 more lines"
    assert "switch-release, which lists the supported releases" in lines[-1]


def test_a_lossless_look_asks_no_port_by_itself(switch: OnyxSwitch) -> None:
    exchange = talk(switch)
    apply(exchange, LOSSLESS)
    asked = answer(exchange)
    assert apply(exchange, LOSSLESS) == ()
    assert asked == [
        "show running-config",
        "show roce",
        "show dcb priority-flow-control | json-print",
        "configuration write",
    ]


@pytest.mark.parametrize("ports", [4, 64])
def test_a_look_is_as_long_for_64_ports_as_for_4(tmp_path: Path, ports: int) -> None:
    names = [f"1/{number + 1}" for number in range(ports)]
    switch = make_switch(tmp_path)
    switch.stored.running.ports = {name: PortConfig() for name in names}
    desired = DESIRED.model_copy(update={"ports": dict.fromkeys(names, DESIRED.ports["1/1"])})
    exchange = talk(switch)
    asked = answer(exchange)
    sent = apply(exchange, desired)
    assert len(asked) == len(sent) + 4
    assert [line for line in asked if line not in sent] == [
        "show running-config",
        "show interfaces ethernet status",
        "show running-config",
        "configuration write",
    ]
    asked.clear()
    assert apply(exchange, desired) == ()
    assert asked == ["show running-config", "configuration write"]
    asked.clear()
    exchange.read(with_guarded_settings(desired))
    assert asked == [
        "show running-config",
        "show vlan | json-print",
        "show interfaces switchport | json-print",
        "show dcb priority-flow-control | json-print",
    ]
    assert parse_running.cache_info().currsize == 1, "one configuration is held, not one a switch"


def test_a_switch_that_refuses_its_configuration_is_asked_port_by_port(switch: OnyxSwitch) -> None:
    exchange, refused = talk(switch), "% Insufficient privileges\n"
    each = exchange.read(DESIRED, each=True)
    asked = answer(exchange, lambda line, _: refused if line == "show running-config" else None)
    assert exchange.read(DESIRED) == each
    assert len(asked) == 1 + 2 + 4 * len(DESIRED.ports)
    assert apply(exchange, DESIRED)
    assert diff_states(exchange.read(DESIRED).state, DESIRED) == ()


def test_counters_tell_the_class(switch: OnyxSwitch) -> None:
    switch.add_counters("1/1", 0, rx_bytes=5, tx_bytes=6)
    switch.add_counters("1/1", 3, rx_bytes=1000, tx_bytes=2000, ecn_marked=4)
    switch.add_discards("1/1", 7)
    switch.add_pauses("1/1", 3, rx=8, tx=9)
    found = talk(switch).read_counters(["1/1"])["1/1"]
    assert {n: (c.rx_bytes, c.tx_bytes) for n, c in found.by_priority.items() if c.rx_bytes} == {
        0: (5, 6),
        3: (1000, 2000),
    }
    assert (found.ecn_marked, found.rx_discards) == (4, 7)
    assert (found.pauses[3], found.pauses[4]) == (PauseCounters(8, 9), PauseCounters(0, 0))
    assert found.storms == {}


def test_a_router_port_is_named_and_left_alone(switch: OnyxSwitch) -> None:
    switch.run_line("interface ethernet 1/3 no switchport force")
    first = switch.snapshot()
    with pytest.raises(DeviceError, match="port 1/3 is not a switchport: "):
        apply(talk(switch), DESIRED)
    assert switch.snapshot() == first
