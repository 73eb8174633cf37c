"""Marking, shares, watchdog times and spreading: planned, set, read, and put back exactly."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.catalogue.switches.marking import RECOMMENDED
from components.fabric.plan import plan_fabric
from components.fabric.queues import marking_of
from components.fabric.state import PortState, SwitchState, diff_states
from components.model.fabric import Rdma
from tests.fabric.eos_lab import Clock
from tests.fabric.in_process import apply, baseline_of, edit, restore
from tests.fabric.switch_labs import LABS
from tests.fabric.test_sonic_exchange import merge
from tests.fabric.whole_intents import EVERYTHING, SHARED


def desired_of(system: str, **rdma: Any) -> SwitchState:  # noqa: ANN401 - any key of it
    return plan_fabric(LABS[system].load_spec(**{"mode": "lossless", **rdma}))[0].desired


@pytest.mark.parametrize("system", EVERYTHING)
def test_the_laws_hold_with_every_setting_of_queues(system: str, tmp_path: Path) -> None:
    lab = LABS[system]
    switch, desired = lab.make_switch(tmp_path, Clock()), desired_of(system, **EVERYTHING[system])
    first = switch.snapshot()
    exchange = lab.talk(switch)
    baseline = baseline_of(exchange, desired)
    assert switch.snapshot() == first
    plain = desired_of(system)
    for rest in (desired, lab.carried.fewer(desired), plain):
        assert apply(exchange, desired)
        assert diff_states(exchange.read(desired).state, desired) == ()
        assert apply(exchange, desired) == ()
        if rest != desired:
            edit(exchange, desired, rest, baseline)
            assert diff_states(exchange.read(rest).state, rest) == ()
        restore(exchange, rest, baseline)
        assert switch.snapshot() == first
    assert switch.unmodelled == ()


def _marking(low: int, high: int, percent: int) -> dict[str, Any]:
    return {"ecn_min_kib": low, "ecn_max_kib": low + high, "ecn_mark_percent": percent}


def _shares(best_effort: int, strict: tuple[int, ...]) -> dict[str, Any]:
    return {"shares": {0: best_effort, 3: 100 - best_effort}, "strict": strict}


MARKINGS: Final = st.builds(
    _marking, st.integers(1, 5000), st.integers(1, 5000), st.sampled_from([1, 20, 100])
)
SCHEDULES: Final = st.one_of(
    st.none(),
    st.builds(_shares, st.integers(1, 99), st.sampled_from([(), (5,), (5, 7)])),
)
_THEIRS: Final = "nv set qos congestion-control theirs traffic-class 3"
_SCHEDULE: Final = "nv set qos egress-scheduler theirs traffic-class"
BY_HAND: Final = {
    "onyx": [
        (
            "interface ethernet 1/1 traffic-class 3 congestion-control ecn minimum-absolute 10 "
            "maximum-absolute 20"
        ),
        "interface ethernet 1/1 traffic-class 0 dcb ets strict",
        "interface ethernet 1/1 traffic-class 0 dcb ets wrr 30",
        "interface ethernet 1/1-1/32 traffic-class 3 dcb ets wrr 20",
        (
            "interface ethernet 1/9 traffic-class 5 congestion-control red minimum-relative 9 "
            "maximum-relative 90"
        ),
        "interface ethernet 1/9 traffic-class 1 dcb ets strict",
        "interface ethernet 1/9 qos trust both",
        "dcb priority-flow-control priority 4 enable",
        "dcb priority-flow-control enable force",
        "lldp",
    ],
    "sonic": [
        merge(
            '{"WRED_PROFILE":{"THEIRS":{"ecn":"ecn_all","green_min_threshold":"40960",'
            '"green_max_threshold":"204800","green_drop_probability":"7"}},'
            '"QUEUE":{"Ethernet0|3":{"wred_profile":"THEIRS"}}}'
        ),
        merge(
            '{"SCHEDULER":{"THEIRS":{"type":"DWRR","weight":"30"}},'
            '"QUEUE":{"Ethernet0|0":{"scheduler":"THEIRS"},"Ethernet8|5":{"scheduler":"THEIRS"}}}'
        ),
        merge(
            '{"SCHEDULER":{"high":{"type":"STRICT"}},"QUEUE":{"Ethernet8|3":{"scheduler":"high"}}}'
        ),
        "sudo sonic-db-cli CONFIG_DB HDEL 'QUEUE|Ethernet16|0' scheduler",
    ],
    "cumulus": [
        (
            f"{_THEIRS} ecn enable; {_THEIRS} min-threshold 40000; {_THEIRS} max-threshold 200000; "
            "nv set interface swp1 qos congestion-control profile theirs"
        ),
        (
            f"{_SCHEDULE} 0,3 mode dwrr; {_SCHEDULE} 0,3 bw-percent 20; "
            f"{_SCHEDULE} 6 mode strict; nv set interface swp2 qos egress-scheduler profile theirs"
        ),
        "nv set interface swp1 router adaptive-routing enable on",
        "nv set qos roce mode lossless",
    ],
    "eos": [
        "interface Ethernet1/1;uc-tx-queue 3;bandwidth percent 30;no priority",
        "interface Ethernet2/1;uc-tx-queue 0;bandwidth percent 5",
        (
            "interface Ethernet1/1;uc-tx-queue 3;random-detect ecn minimum-threshold 10 kbytes "
            "maximum-threshold 20 kbytes max-mark-probability 20 weight 0"
        ),
    ],
}


@settings(max_examples=25, deadline=None)
@given(
    system=st.sampled_from(sorted(BY_HAND)),
    data=st.data(),
    marking=MARKINGS,
    schedule=SCHEDULES,
    other=SCHEDULES,
)
def test_whatever_was_there_second_apply_is_empty_and_undo_is_exact(
    system: str,
    data: st.DataObject,
    marking: dict[str, Any],
    schedule: dict[str, Any] | None,
    other: dict[str, Any] | None,
) -> None:
    lab = LABS[system]
    if system == "onyx":  # its thresholds have no share of packets
        marking = {key: value for key, value in marking.items() if key != "ecn_mark_percent"}
    desired = desired_of(system, **marking, schedule=schedule)
    edited = desired_of(system, **marking, schedule=other)
    history = data.draw(st.lists(st.sampled_from(BY_HAND[system]), max_size=4))
    with TemporaryDirectory() as folder:
        switch = lab.make_switch(Path(folder), Clock())
        exchange = lab.talk(switch)
        for line in history:
            switch.run_line(line)
        if system == "sonic":
            switch.run_line("sudo config save -y")
        else:
            switch.save_configuration()
        first = switch.snapshot()
        baseline = baseline_of(exchange, desired)
        apply(exchange, desired)
        assert apply(exchange, desired) == ()
        edit(exchange, desired, edited, baseline)
        assert diff_states(exchange.read(edited).state, edited) == ()
        assert apply(exchange, edited) == ()
        restore(exchange, edited, baseline)
        assert switch.snapshot() == first
        assert switch.unmodelled == ()


def test_a_class_without_a_share_gets_the_scheduler_of_before(tmp_path: Path) -> None:
    """On SONiC: another person's strict scheduler has the name of before after an edit."""
    switch = LABS["sonic"].make_switch(tmp_path, Clock())
    exchange = LABS["sonic"].talk(switch)
    rows = '{"SCHEDULER":{"high":{"type":"STRICT"}},"QUEUE":{"Ethernet8|3":{"scheduler":"high"}}}'
    switch.run_line(f"sudo sonic-cfggen -a '{rows}' --write-to-db")
    switch.run_line("sudo config save -y")
    first = switch.snapshot()
    shared, plain = (
        desired_of("sonic", schedule=each) for each in ({"shares": {0: 99, 3: 1}}, None)
    )
    baseline = baseline_of(exchange, shared)
    apply(exchange, shared)
    edit(exchange, shared, plain, baseline)
    assert switch.stored.running["QUEUE"]["Ethernet8|3"]["scheduler"] == "high"
    restore(exchange, plain, baseline)
    assert switch.snapshot() == first


def test_shares_of_the_roce_profile_itself_take_the_place_of_anothers_scheduler(
    tmp_path: Path,
) -> None:
    """On Cumulus: at the edit the port has the scheduler of another person."""
    switch = LABS["cumulus"].make_switch(tmp_path, Clock())
    exchange = LABS["cumulus"].talk(switch)
    head = "nv set qos egress-scheduler theirs traffic-class"
    for tail in ("0,3 mode dwrr", "0,3 bw-percent 20", "6 mode strict"):
        switch.run_line(f"{head} {tail}")
    switch.run_line("nv set interface swp2 qos egress-scheduler profile theirs")
    switch.run_line("nv config apply -y")
    switch.save_configuration()
    first, marking = switch.snapshot(), _marking(1, 1, 1)
    desired = desired_of("cumulus", **marking, schedule=None)
    edited = desired_of("cumulus", **marking, schedule=_shares(50, ()))
    baseline = baseline_of(exchange, desired)
    apply(exchange, desired)
    edit(exchange, desired, edited, baseline)
    assert diff_states(exchange.read(edited).state, edited) == ()
    assert apply(exchange, edited) == ()
    restore(exchange, edited, baseline)
    assert switch.snapshot() == first


@pytest.mark.parametrize(
    ("system", "speed", "said", "marks"),
    [
        ("onyx", 100, {}, "150-1500"),
        ("cumulus", 400, {}, "146-1464"),
        ("eos", 100, {}, "150-1500"),
        ("eos", 400, {}, "496-2480 at 20 %"),
        ("sonic", 100, {}, "150-1500"),
        ("sonic", 400, {}, "2048-12480 at 15 %"),
        ("eos", 400, {"ecn_min_kib": 300, "ecn_max_kib": 900}, "300-900"),
        ("eos", 400, {"ecn_mark_percent": 30}, "496-2480 at 30 %"),
        ("eos", 400, {"ecn_by_speed": {400: {"min_kib": 1, "max_kib": 2}}}, "1-2"),
        ("eos", 200, {"ecn_by_speed": {400: {"min_kib": 1, "max_kib": 2}}}, "496-2480 at 20 %"),
    ],
)
def test_a_port_marks_as_its_vendor_recommends_unless_the_file_says_more(
    system: str, speed: int, said: dict[str, Any], marks: str
) -> None:
    rdma = Rdma.model_validate({"ecn_min_kib": None, "ecn_max_kib": None, **said})
    assert str(marking_of(rdma, system, speed)) == marks


def test_every_speed_has_its_own_marking_on_one_switch() -> None:
    speeds = {100: {"min_kib": 200, "max_kib": 900, "mark_percent": 40}}
    spec = LABS["cumulus"].load_spec(ecn_by_speed=speeds)
    ports = plan_fabric(spec)[0].desired.ports
    assert {str(port.ecn[3]) for port in ports.values()} == {"200-900 at 40 %"}


def test_a_cumulus_switch_spreads_and_stops_as_it_was(tmp_path: Path) -> None:
    lab = LABS["cumulus"]
    switch = lab.make_switch(tmp_path, Clock())
    switch.run_line("nv set interface swp2 router adaptive-routing enable off")
    switch.save_configuration()
    first, exchange = switch.snapshot(), lab.talk(switch)
    spreading = PortState(admin_up=True, adaptive_routing=True)
    desired = SwitchState(adaptive_routing=True, ports={"swp1": spreading, "swp2": spreading})
    baseline = baseline_of(exchange, desired)
    assert apply(exchange, desired) == (
        "nv set router adaptive-routing enable on",
        "nv set interface swp1 link state up",
        "nv set interface swp1-2 router adaptive-routing enable on",
    )
    assert apply(exchange, desired) == ()
    switch.run_line("nv set interface swp1 router adaptive-routing enable off")
    assert [d.setting for d in diff_states(exchange.read(desired).state, desired)] == [
        "adaptive_routing"
    ]
    apply(exchange, desired)
    restore(exchange, desired, baseline)
    assert switch.snapshot() == first


def test_a_class_that_somebody_made_strict_again_is_drift(tmp_path: Path) -> None:
    lab = LABS["eos"]
    switch, desired = lab.make_switch(tmp_path, Clock()), desired_of("eos", schedule=SHARED)
    exchange = lab.talk(switch)
    apply(exchange, desired)
    switch.run_line("interface Ethernet1/1;uc-tx-queue 3;priority strict")
    found = diff_states(exchange.read(desired).state, desired)
    assert [(d.where, d.setting, d.actual, d.desired) for d in found] == [
        ("port Ethernet1/1", "tc3_share", "strict", "60")
    ]


def test_the_page_has_every_recommendation() -> None:
    page = Path("docs/reference/marking.md").read_text(encoding="utf-8")
    rows = [(system, row) for system, found in RECOMMENDED.items() for row in found]
    assert page.count("\n| onyx | ") + page.count("\n| cumulus | ") == 2
    assert page.count("\n| eos | ") + page.count("\n| sonic | ") == 4
    for system, row in rows:
        speed = f"{row.from_gbit_s} Gbit/s" if row.from_gbit_s else "any speed"
        numbers = f"{row.min_kib} KiB | {row.max_kib} KiB | {row.mark_percent} %"
        assert f"| {system} | {speed} | {numbers} |" in page


RELATIVE: Final = "minimum-relative 9 maximum-relative 90"


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        ("lossless", "interface ethernet 1/1 traffic-class 0 dcb ets strict"),
        ("lossless", "interface ethernet 1/1 traffic-class 0 dcb ets wrr 30"),
        ("lossless", "interface ethernet 1/9 traffic-class 5 congestion-control red {}"),
        ("lossless", "interface ethernet 1/9 qos trust both"),
        ("semi_lossless", "interface ethernet 1/9 traffic-class 2 dcb ets wrr 40"),
        ("semi_lossless", "dcb priority-flow-control enable force"),
        ("semi_lossless", "dcb priority-flow-control priority 4 enable"),
        ("lossless", "lldp"),
    ],
)
def test_what_the_one_shot_took_along_comes_back_on_every_port(
    mode: str, line: str, tmp_path: Path
) -> None:
    """`no roce` takes along classes, trust, PFC and LLDP, also of ports that the file lacks."""
    lab, desired = LABS["onyx"], desired_of("onyx", mode=mode)
    switch, line = lab.make_switch(tmp_path, Clock()), line.format(RELATIVE)
    switch.run_line(line)
    switch.save_configuration()
    first, exchange = switch.snapshot(), lab.talk(switch)
    baseline = baseline_of(exchange, desired)
    apply(exchange, desired)
    sent = restore(exchange, desired, baseline)
    assert switch.snapshot() == first
    assert line in sent
    assert sent.index("no roce") < sent.index(line)
