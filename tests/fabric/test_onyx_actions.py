"""The lines that lead from one state to another: goldens, order, and what they interrupt."""

from __future__ import annotations

from components.fabric.baselines import every_key
from components.fabric.state import EcnState, PortState, SwitchState
from components.fabric.systems.base import flatten
from components.fabric.systems.onyx.rows import plan_changes
from components.fabric.systems.ranges import collapse_ports, collapse_vlans
from lab.switches.onyx.server import OnyxSwitch
from tests.fabric.conftest import talk

NO_ECN = PortState(ecn={3: None})


def test_the_line_of_the_roce_guide_is_rendered_literally() -> None:
    """Seed 000 types exactly this line, for the three ports of its control plane and workers."""
    ports = ("1/1", "1/2", "1/3")
    marked = PortState(ecn={3: EcnState(min_kib=150, max_kib=1500)})
    changes = plan_changes(
        SwitchState(ports=dict.fromkeys(ports, NO_ECN)),
        SwitchState(ports=dict.fromkeys(ports, marked)),
    )
    golden = (
        "interface ethernet 1/1-1/3 traffic-class 3 congestion-control ecn "
        "minimum-absolute 150 maximum-absolute 1500"
    )
    assert flatten(changes) == (golden,)


def test_a_new_mtu_shuts_only_the_ports_that_differ() -> None:
    actual = {"1/1": 9216, "1/2": 1500, "1/3": 9216}
    changes = plan_changes(
        SwitchState(ports={n: PortState(mtu_bytes=m, admin_up=True) for n, m in actual.items()}),
        SwitchState(ports=dict.fromkeys(actual, PortState(mtu_bytes=9216, admin_up=True))),
    )
    assert flatten(changes) == (
        "interface ethernet 1/2 shutdown",
        "interface ethernet 1/2 mtu 9216",
        "interface ethernet 1/2 no shutdown",
    )


def test_vlans_come_before_the_ports_that_name_them_and_go_after() -> None:
    one = SwitchState(vlans=(1, 112), ports={"1/1": PortState(mode="access", access_vlan=112)})
    other = SwitchState(vlans=(1, 111), ports={"1/1": PortState(mode="access", access_vlan=111)})
    assert flatten(plan_changes(one, other)) == (
        "vlan 111",
        "exit",
        "interface ethernet 1/1 switchport access vlan 111",
        "no vlan 112",
    )


def test_the_one_shot_runs_alone_and_only_when_the_mode_differs() -> None:
    wanted = SwitchState(roce="lossless", ports={"1/1": PortState(trust="L3")})
    here = SwitchState(roce="none", ports={"1/1": PortState(trust="L2")})
    changes = plan_changes(here, wanted)
    assert flatten(changes) == ("roce lossless",)
    assert changes[0].settles
    same = SwitchState(roce="lossless", ports={"1/1": PortState(trust="L3")})
    assert plan_changes(same, wanted) == ()


def test_ranges() -> None:
    assert collapse_ports(["1/10", "1/2", "1/1", "1/9", "1/4/1", "1/4/2"]) == [
        "1/1-1/2",
        "1/4/1",
        "1/4/2",
        "1/9-1/10",
    ]
    assert collapse_vlans([112, 10, 111]) == "10,111-112"


def test_a_port_that_leaves_a_lossless_file_keeps_the_pfc_of_the_one_shot() -> None:
    held = PortState(pfc=True, mtu_bytes=9216, admin_up=True)
    given_back = SwitchState(ports={"1/1": PortState(pfc=False, mtu_bytes=1500, admin_up=True)})
    on = SwitchState(roce="lossless", ports={"1/1": held})
    line = "interface ethernet 1/1 no dcb priority-flow-control mode force"
    assert not any(
        "priority-flow-control" in each for each in flatten(plan_changes(on, given_back))
    )
    assert line in flatten(plan_changes(on.model_copy(update={"roce": "none"}), given_back))


def test_the_factory_state_is_what_an_untouched_switch_shows(switch: OnyxSwitch) -> None:
    exchange = talk(switch)
    factory = exchange.driver.factory_state(("1/1",))
    read = exchange.record(every_key(("1/1",), factory))
    port, found = factory.ports["1/1"], read.ports["1/1"]
    said = {name for name in type(port).model_fields if getattr(port, name) not in (None, {})}
    assert said == {
        *("admin_up", "mtu_bytes", "mode", "access_vlan", "trunk_vlans", "trust"),
        *("rewrite_dscp", "pfc", "strict_classes", "wrr_weights"),
    }
    assert [name for name in said if getattr(port, name) != getattr(found, name)] == []
    assert (read.vlans, read.pfc_enabled, read.pfc_priorities) == ((1,), False, ())
