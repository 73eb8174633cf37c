"""What a switch shall have after an apply and an undo: plain cases, written by hand.

The laws over histories of changes are in the tests of each system's exchange; these cases say what
each key of a target is where ours, others' and the recorded values differ.
"""

from __future__ import annotations

from typing import Final

import pytest

from components.fabric.state import BgpState, EcnState, PortState, SwitchState
from components.fabric.targets import target_of_apply, target_of_restore
from tests.fabric.owned_settings import BGP, OURS, OWNED, only

OTHERS: Final = EcnState(min_kib=7, max_kib=70, kind="red")
BEFORE: Final = PortState(
    admin_up=False,
    mtu_bytes=1500,
    mode="access",
    access_vlan=10,
    trunk_vlans=(30,),
    trust="L2",
    ecn={3: OTHERS, 5: OTHERS},
    pfc=False,
    pfc_priorities=(4,),
    strict_classes=(7,),
    wrr_weights={0: 12},
    pfc_watchdog=False,
    cable_m=5,
    rewrite_dscp=True,
    native={"mtu_bytes": "words", "ecn_3": "segments", "buffers": "pool", "other": "no"},
)


def restored(actual: SwitchState, owned: SwitchState, baseline: SwitchState) -> SwitchState:
    return target_of_restore(actual, owned, baseline, {})


def restored_port(actual: PortState, owned: PortState, baseline: PortState) -> PortState:
    states = (SwitchState(ports={"1/1": each}) for each in (actual, owned, baseline))
    return restored(*states).ports["1/1"]


def test_an_apply_keeps_what_others_own() -> None:
    actual = SwitchState(
        vlans=(10, 111),
        addresses={"lo": ("10.9.9.9/32", "10.255.0.1/32"), "vlan20": ("10.20.0.1/24",)},
        bgp=BgpState(
            asn=1, neighbors={"swp9": "65001", "swp1": "65009"}, networks=("10.7.0.0/24",)
        ),
        ports={
            "1/1": PortState(mode="trunk", trunk_vlans=(20,), strict_classes=(5,), mtu_bytes=1500),
            "1/9": PortState(mtu_bytes=1500),
        },
    )
    desired = SwitchState(
        vlans=(111, 112),
        addresses={"lo": ("10.255.0.1/32",), "vlan111": ("10.10.111.1/24",)},
        bgp=BgpState(asn=65001, neighbors={"swp1": "external"}, networks=("10.1.0.0/24",)),
        ports={
            "1/1": PortState(mode="trunk", trunk_vlans=(111,), strict_classes=(6,), mtu_bytes=9216),
            "1/2": PortState(mode="trunk", trunk_vlans=(112,)),
        },
    )
    assert target_of_apply(actual, desired) == SwitchState(
        vlans=(10, 111, 112),
        addresses={"lo": ("10.9.9.9/32", "10.255.0.1/32"), "vlan111": ("10.10.111.1/24",)},
        bgp=BgpState(
            asn=65001,
            neighbors={"swp9": "65001", "swp1": "external"},
            networks=("10.7.0.0/24", "10.1.0.0/24"),
        ),
        ports={
            "1/1": PortState(
                mode="trunk", trunk_vlans=(20, 111), strict_classes=(5, 6), mtu_bytes=9216
            ),
            "1/2": PortState(mode="trunk", trunk_vlans=(112,)),
        },
    )


def test_an_apply_says_nothing_of_what_is_not_wanted() -> None:
    actual = SwitchState(
        addresses={"lo": ("10.9.9.9/32",)},
        bgp=BGP,
        ports={"1/1": PortState(trunk_vlans=(20,), strict_classes=(5,))},
    )
    assert target_of_apply(actual, only(mtu_bytes=9216)) == only(mtu_bytes=9216)


def test_an_apply_begins_where_nothing_was() -> None:
    desired = SwitchState(addresses={"lo": ("10.255.0.1/32",)}, bgp=BGP, ports={"1/1": OWNED})
    assert target_of_apply(SwitchState(), desired) == desired


@pytest.mark.parametrize(
    ("held", "mode", "left"),
    [
        ((20,), "trunk", (20, 111)),
        ("all", "trunk", "all"),
        (None, "trunk", (111,)),
        ((20,), "access", (111,)),
    ],
)
def test_vlans_of_others_stay_on_a_trunk_alone(held: object, mode: str, left: object) -> None:
    target = target_of_apply(
        only(mode=mode, trunk_vlans=held), only(mode="trunk", trunk_vlans=(111,))
    )
    assert target.ports["1/1"].trunk_vlans == left


def test_an_undo_puts_back_every_setting_of_a_port() -> None:
    actual = PortState(mode="trunk", strict_classes=(2, 6, 7))
    assert restored_port(actual, OWNED, BEFORE) == PortState(
        admin_up=False,
        mtu_bytes=1500,
        mode="access",
        access_vlan=10,
        trunk_vlans=(30,),
        trust="L2",
        ecn={3: OTHERS, 4: None},
        pfc=False,
        pfc_priorities=(4,),
        strict_classes=(2, 7),
        wrr_weights={0: 12},
        pfc_watchdog=False,
        cable_m=5,
        rewrite_dscp=True,
        native={"mtu_bytes": "words", "ecn_3": "segments"},
    )


def test_an_undo_moves_nothing_that_was_not_ours() -> None:
    assert restored_port(OWNED, PortState(), BEFORE) == PortState()


def test_an_undo_of_a_port_whose_class_was_read_as_nothing() -> None:
    owned, before = PortState(strict_classes=(6,)), PortState(mtu_bytes=1500)
    assert restored_port(PortState(), owned, before) == PortState(strict_classes=())


@pytest.mark.parametrize(
    ("actual", "owned", "before", "left"),
    [
        ((20, 111), (111,), (30,), (20,)),
        ((20, 111), (111,), (111,), (20, 111)),
        ((20, 111), (111,), "all", "all"),
        ((20, 111), (111,), None, (20,)),
        (None, (111,), (30,), ()),
    ],
)
def test_an_undo_takes_only_our_vlans_off_a_trunk(
    actual: object, owned: object, before: object, left: object
) -> None:
    """The mode is the recorded one, so that the list is ours and others' together."""
    trunk, ours, recorded = (
        PortState.model_validate({"mode": "trunk", "trunk_vlans": each})
        for each in (actual, owned, before)
    )
    wanted = PortState.model_validate({"mode": "trunk", "trunk_vlans": left})
    assert restored_port(trunk, ours, recorded) == wanted
    without_mode = ours.model_copy(update={"mode": None})
    assert restored_port(trunk, without_mode, recorded).trunk_vlans == left


@pytest.mark.parametrize(
    ("owned", "left"),
    [
        (PortState(mode="access"), 10),
        (PortState(access_vlan=111), 10),
        (PortState(mtu_bytes=9216), None),
    ],
)
def test_an_undo_gives_the_access_vlan_back_where_mode_or_vlan_is_ours(
    owned: PortState, left: int | None
) -> None:
    assert restored_port(PortState(), owned, BEFORE).access_vlan == left


@pytest.mark.parametrize(
    ("setting", "owned"),
    [
        ("admin_up", PortState(admin_up=True)),
        ("mtu_bytes", PortState(mtu_bytes=9216)),
        ("mode", PortState(mode="trunk")),
        ("trust", PortState(trust="L3")),
        ("trust", PortState(dscp_priorities={26: 3})),
        ("trust", PortState(priority_classes={3: 3})),
        ("pfc", PortState(pfc_priorities=(3,))),
        ("buffers", PortState(lossless_buffers=(3,))),
        ("pfc_watchdog", PortState(pfc_watchdog=True)),
        ("cable", PortState(cable_m=40)),
        ("ecn_3", PortState(ecn={3: OURS})),
        ("schedule_6", PortState(strict_classes=(6,))),
        (None, PortState(pfc=True)),
    ],
)
def test_an_undo_puts_back_the_words_of_the_settings_that_are_ours(
    setting: str | None, owned: PortState
) -> None:
    names = (
        *("admin_up", "mtu_bytes", "mode", "trust", "pfc", "buffers", "pfc_watchdog", "cable"),
        *("ecn_3", "ecn_4", "schedule_6", "schedule_5"),
    )
    before = PortState(native={name: f"words of {name}" for name in names})
    wanted = {setting: f"words of {setting}"} if setting else {}
    assert restored_port(PortState(), owned, before).native == wanted


def test_an_undo_of_a_switch_gives_its_own_settings_back() -> None:
    owned = SwitchState(
        vlans=(111, 112),
        pfc_priorities=(3,),
        pfc_enabled=True,
        dscp_classes={26: 3, 48: 6},
        roce="lossless",
        roce_cable_m=40,
        ports={"1/1": PortState(mtu_bytes=9216), "1/2": PortState(mtu_bytes=9216)},
    )
    baseline = SwitchState(
        vlans=(10, 112),
        pfc_priorities=(4,),
        pfc_enabled=False,
        dscp_classes={26: 1, 12: 2},
        roce="lossy",
        roce_cable_m=5,
        native={"map": "words"},
        ports={"1/1": PortState(mtu_bytes=1500), "1/9": PortState(mtu_bytes=1600)},
    )
    actual = SwitchState(vlans=(10, 20, 111, 112))
    assert restored(actual, owned, baseline) == SwitchState(
        vlans=(10, 20, 112),
        pfc_priorities=(4,),
        pfc_enabled=False,
        dscp_classes={26: 1},
        roce="lossy",
        roce_cable_m=5,
        native={"map": "words"},
        ports={"1/1": PortState(mtu_bytes=1500)},
    )
    unowned = restored(actual, SwitchState(), baseline)
    assert unowned == SwitchState(vlans=(10, 20, 111, 112), native={"map": "words"})


def test_an_undo_to_a_record_without_the_one_shot_leaves_none() -> None:
    owned = SwitchState(roce="lossless", roce_cable_m=40, dscp_classes={26: 3})
    target = restored(SwitchState(), owned, SwitchState())
    assert target == SwitchState(roce="none", roce_cable_m=0, dscp_classes={})


@pytest.mark.parametrize(
    ("port", "stays"),
    [
        (PortState(access_vlan=111), False),
        (PortState(access_vlan=10), True),
        (PortState(access_vlan=111, trunk_vlans=(20,)), False),
        (PortState(access_vlan=10, trunk_vlans=(111,)), False),
        (PortState(access_vlan=10, trunk_vlans=(20,)), True),
        (PortState(access_vlan=10, trunk_vlans=()), True),
        (PortState(access_vlan=10, trunk_vlans="all"), True),
        (PortState(), True),
    ],
)
def test_a_vlan_of_ours_stays_where_a_port_has_come_to_use_it(
    port: PortState, *, stays: bool
) -> None:
    """A port that named the VLAN before we made it is no reason to keep it."""
    actual, owned = SwitchState(vlans=(1, 111)), SwitchState(vlans=(111,))
    target = target_of_restore(actual, owned, SwitchState(ports={"1/9": port}), {111: ["1/9"]})
    assert target.vlans == ((1, 111) if stays else (1,))


@pytest.mark.parametrize(
    ("recorded", "held", "stays"),
    [
        (None, ("10.10.111.1/24", "10.66.0.1/24"), True),
        ({"vlan111": ("10.66.0.1/24",)}, ("10.10.111.1/24", "10.66.0.1/24"), False),
        (None, ("10.10.111.1/24",), False),
    ],
)
def test_a_routed_interface_keeps_its_vlan_only_with_an_address_that_is_new(
    recorded: dict[str, tuple[str, ...]] | None, held: tuple[str, ...], *, stays: bool
) -> None:
    target = target_of_restore(
        SwitchState(vlans=(1, 111), addresses={"vlan111": held}),
        SwitchState(vlans=(111,), addresses={"vlan111": ("10.10.111.1/24",)}),
        SwitchState(addresses=recorded),
        {111: ["vlan111"]},
    )
    assert target.vlans == ((1, 111) if stays else (1,))


def test_an_undo_takes_our_addresses_off() -> None:
    owned = SwitchState(
        addresses={
            "lo": ("10.255.0.1/32",),
            "vlan111": ("10.1.0.1/24",),
            "vlan112": ("10.2.0.1/24",),
        }
    )
    actual = SwitchState(
        addresses={"lo": ("10.9.9.9/32", "10.255.0.1/32"), "vlan111": ("10.1.0.1/24",)}
    )
    before = SwitchState(addresses={"vlan111": ("10.1.0.1/24",)})
    assert restored(actual, owned, before).addresses == {
        "lo": ("10.9.9.9/32",),
        "vlan111": ("10.1.0.1/24",),
        "vlan112": (),
    }
    assert restored(SwitchState(), owned, SwitchState()).addresses == {
        "lo": (),
        "vlan111": (),
        "vlan112": (),
    }


def test_an_undo_of_bgp_leaves_what_others_have_made() -> None:
    actual = BgpState(
        asn=65001,
        router_id="10.255.0.1",
        neighbors={"swp1": "external", "swp2": "external", "swp9": "65009"},
        networks=("10.1.0.0/24", "10.2.0.0/24", "10.9.0.0/24"),
    )
    before = BgpState(
        asn=64999,
        router_id="10.9.9.9",
        neighbors={"swp2": "65002", "swp8": "65008"},
        networks=("10.2.0.0/24", "10.8.0.0/24"),
    )
    states = (SwitchState(bgp=each) for each in (actual, BGP, before))
    assert restored(*states).bgp == BgpState(
        asn=64999,
        router_id="10.9.9.9",
        neighbors={"swp2": "65002", "swp9": "65009"},
        networks=("10.2.0.0/24", "10.9.0.0/24"),
    )


def test_an_undo_of_bgp_keeps_the_numbers_that_are_not_ours() -> None:
    owned = BgpState(neighbors={"swp1": "external"})
    held, before = BgpState(asn=7, router_id="10.0.0.7"), BgpState(asn=8, router_id="10.0.0.8")
    states = (SwitchState(bgp=each) for each in (held, owned, before))
    assert restored(*states).bgp == held
    assert restored(SwitchState(), SwitchState(bgp=BGP), SwitchState()).bgp == BgpState()
