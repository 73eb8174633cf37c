"""What an edit drops, and one state over another: plain cases, written by hand."""

from __future__ import annotations

from typing import Final

import pytest

from components.fabric.state import BgpState, PortState, SwitchState
from components.fabric.targets import dropped, overlay, target_of_update
from tests.fabric.owned_settings import BGP, OURS, OWNED, only


def test_what_an_edit_drops_of_a_switch() -> None:
    previous = SwitchState(
        vlans=(111, 112),
        pfc_priorities=(3,),
        pfc_enabled=True,
        dscp_classes={26: 3, 48: 6},
        roce="lossless",
        roce_cable_m=40,
        addresses={"lo": ("10.255.0.1/32",), "vlan111": ("10.1.0.1/24", "10.1.0.2/24")},
        bgp=BGP,
        ports={"1/1": OWNED, "1/2": OWNED},
    )
    desired = SwitchState(
        vlans=(111,),
        dscp_classes={48: 6},
        addresses={"lo": ("10.255.0.1/32",), "vlan111": ("10.1.0.2/24",)},
        bgp=BGP.model_copy(
            update={"neighbors": {"swp2": "external"}, "networks": ("10.1.0.0/24",)}
        ),
        ports={"1/1": OWNED},
    )
    assert dropped(previous, desired) == SwitchState(
        vlans=(112,),
        pfc_priorities=(3,),
        pfc_enabled=True,
        dscp_classes={26: 3},
        roce="lossless",
        roce_cable_m=40,
        addresses={"vlan111": ("10.1.0.1/24",)},
        bgp=BgpState(neighbors={"swp1": "external"}, networks=("10.2.0.0/24",)),
        ports={"1/2": OWNED},
    )
    assert dropped(previous, previous) == SwitchState()
    assert dropped(SwitchState(), previous) == SwitchState()
    assert dropped(previous, SwitchState()) == previous


def test_what_an_edit_drops_of_a_port() -> None:
    previous = OWNED.model_copy(update={"access_vlan": 10, "lossless_buffers": (3,)})
    desired = PortState(ecn={4: OURS}, strict_classes=(7,), trunk_vlans=(112,))
    left = dropped(SwitchState(ports={"1/1": previous}), SwitchState(ports={"1/1": desired}))
    assert left.ports["1/1"] == PortState(
        admin_up=True,
        mtu_bytes=9216,
        mode="trunk",
        access_vlan=10,
        trunk_vlans=(111,),
        trust="L3",
        ecn={3: OURS},
        pfc=True,
        pfc_priorities=(3,),
        strict_classes=(6,),
        pfc_watchdog=True,
        lossless_buffers=(3,),
        cable_m=40,
        rewrite_dscp=False,
    )


@pytest.mark.parametrize(
    ("mode", "now", "gone"),
    [
        ("trunk", (111,), (112,)),
        ("trunk", None, (111, 112)),
        (None, (112,), (111,)),
        ("trunk", (111, 112), None),
        ("access", None, None),
    ],
)
def test_vlans_of_a_trunk_are_dropped_while_it_stays_one(
    mode: str | None, now: object, gone: object
) -> None:
    """Another mode takes the list with it."""
    left = dropped(
        only(mode="trunk", trunk_vlans=(111, 112), mtu_bytes=1),
        only(mode=mode, trunk_vlans=now),
    )
    assert left.ports["1/1"].trunk_vlans == gone


BASE: Final = SwitchState(
    vlans=(1, 2),
    pfc_priorities=(3,),
    pfc_enabled=False,
    dscp_classes={26: 3, 48: 6},
    roce="lossy",
    roce_cable_m=5,
    addresses={"lo": ("a",), "vlan1": ("b",)},
    bgp=BGP,
    native={"one": "1", "two": "2"},
    ports={
        "1/1": PortState(
            mtu_bytes=1500,
            trust="L2",
            ecn={3: OURS, 4: OURS},
            wrr_weights={0: 1, 1: 1},
            class_shares={0: 2, 1: 2},
            native={"mode": "x", "trust": "y"},
        ),
        "1/2": PortState(mtu_bytes=1500),
    },
)


def test_over_a_state_what_is_said_wins() -> None:
    top = SwitchState(
        vlans=(7,),
        pfc_priorities=(),
        pfc_enabled=True,
        dscp_classes={26: 1},
        roce="none",
        roce_cable_m=0,
        addresses={"lo": ()},
        bgp=BgpState(asn=1, router_id="10.0.0.1", networks=("10.9.0.0/24",)),
        native={"one": "0"},
        ports={
            "1/1": PortState(
                mtu_bytes=9216,
                trust=None,
                ecn={3: None},
                wrr_weights={0: 9},
                class_shares={0: 8},
                native={"mode": "z"},
            ),
            "1/3": PortState(mtu_bytes=4200),
        },
    )
    assert overlay(BASE, top) == SwitchState(
        vlans=(7,),
        pfc_priorities=(),
        pfc_enabled=True,
        dscp_classes={26: 1, 48: 6},
        roce="none",
        roce_cable_m=0,
        addresses={"lo": (), "vlan1": ("b",)},
        bgp=BgpState(asn=1, router_id="10.0.0.1", networks=("10.9.0.0/24",)),
        native={"one": "0", "two": "2"},
        ports={
            "1/1": PortState(
                mtu_bytes=9216,
                trust="L2",
                ecn={3: None, 4: OURS},
                wrr_weights={0: 9, 1: 1},
                class_shares={0: 8, 1: 2},
                native={"mode": "z", "trust": "y"},
            ),
            "1/2": PortState(mtu_bytes=1500),
            "1/3": PortState(mtu_bytes=4200),
        },
    )


def test_over_a_state_what_says_nothing_leaves_all_but_the_vlans() -> None:
    assert overlay(BASE, SwitchState()) == BASE.model_copy(update={"vlans": ()})
    assert overlay(SwitchState(), BASE) == BASE
    empty = overlay(SwitchState(), SwitchState())
    assert (empty, empty.dscp_classes) == (SwitchState(), None)
    numbered = overlay(BASE, SwitchState(bgp=BgpState(neighbors={"swp7": "7"}))).bgp
    assert numbered == BgpState(asn=65001, router_id="10.255.0.1", neighbors={"swp7": "7"})


def test_an_edit_gives_back_what_it_drops_and_sets_the_rest() -> None:
    actual = SwitchState(
        vlans=(10, 111, 112),
        ports={"1/1": PortState(mode="trunk", trunk_vlans=(20, 111, 112), mtu_bytes=9216)},
    )
    undone = SwitchState(
        vlans=(10, 111),
        ports={"1/1": PortState(trunk_vlans=(20, 111), mtu_bytes=1500)},
    )
    desired = SwitchState(
        vlans=(111, 113), ports={"1/1": PortState(mode="trunk", trunk_vlans=(111, 113))}
    )
    assert target_of_update(actual, desired, undone) == SwitchState(
        vlans=(10, 111, 113),
        ports={"1/1": PortState(mode="trunk", trunk_vlans=(20, 111, 113), mtu_bytes=1500)},
    )
