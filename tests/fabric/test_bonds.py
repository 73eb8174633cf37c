"""Bundles of ports, and pairs of switches: lives of whole fabrics, drift, edits, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from components.core.errors import DeviceError
from components.fabric.parts import BondState, MlagState
from components.fabric.state import diff_states
from components.model.cluster import ClusterSpec
from tests.fabric import test_cumulus_exchange, test_eos_exchange, test_sonic_exchange
from tests.fabric.fabric_lab import BONDS, Room, bonded_of, rooms_of
from tests.fabric.in_process import edit, restore
from tests.fabric.lives import live
from tests.fabric.test_routed_switches import TAKES
from tests.fabric.test_sonic_exchange import merge

QUICK = settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate))
"""A history is found in a second and shrunk in minutes: no shrinking."""
CUMULUS = st.sampled_from(
    [
        "nv set interface bond9 bond member swp20",
        "nv set interface bond1 bond member swp21-22",
        "nv set interface bond1 bond lacp-rate slow",
        "nv set interface bond1 bridge domain br_default vlan 300,77",
        "nv set interface bond2 bridge domain br_default access 12",
        "nv set interface bond3 description uplink",
        "nv set interface bond3 bridge domain br_default",
        "nv set interface swp12 link mtu 1500",
        "nv set interface swp10 bridge domain br_default access 12",
        "nv set bridge domain br_default vlan 301",
        "nv set interface peerlink bond member swp25",
        " ; ".join(  # noqa: FLY002 - one long line
            (
                "nv set mlag init-delay 9",
                "nv set mlag backup 10.9.9.9",
                "nv set mlag peer-ip linklocal",
                "nv set interface peerlink bond member swp25",
            )
        ),
    ]
)
SONIC = st.sampled_from(
    [
        merge('{"PORTCHANNEL":{"PortChannel9":{"admin_status":"up"}}}'),
        merge('{"PORTCHANNEL_MEMBER":{"PortChannel9|Ethernet200":{}}}'),
        merge('{"PORTCHANNEL":{"PortChannel1":{"admin_status":"down","min_links":"1"}}}'),
        merge('{"PORTCHANNEL_MEMBER":{"PortChannel1|Ethernet208":{}}}'),
        merge('{"PORTCHANNEL":{"PortChannel2":{}}}'),
        merge('{"VLAN":{"Vlan300":{"vlanid":"300"}}}'),
        merge(
            '{"VLAN":{"Vlan300":{"vlanid":"300"}},'
            '"VLAN_MEMBER":{"Vlan300|PortChannel1":{"tagging_mode":"untagged"}}}'
        ),
        merge(
            '{"VLAN":{"Vlan12":{"vlanid":"12"}},'
            '"VLAN_MEMBER":{"Vlan12|Ethernet88":{"tagging_mode":"untagged"}}}'
        ),
        "sudo config interface shutdown Ethernet96",
    ]
)
EOS = st.sampled_from(
    [
        "interface Port-Channel9;description uplink;switchport mode trunk",
        "interface Ethernet20/1;channel-group 9 mode on",
        "interface Ethernet21/1;channel-group 1 mode active",
        "interface Port-Channel1;description storage;shutdown;spanning-tree portfast",
        "interface Port-Channel1;switchport mode trunk;switchport trunk allowed vlan 10,300",
        "interface Port-Channel2;switchport access vlan 12;mlag 7",
        "interface Port-Channel3;switchport trunk native vlan 77",
        "interface Ethernet10/1;channel-group 1 mode active",
        "interface Ethernet11/1;channel-group 1 mode passive",
        ";".join(f"interface Ethernet{port}/1;channel-group 1 mode on" for port in (10, 11)),
        "interface Ethernet12/1;switchport access vlan 12;shutdown",
        "interface Ethernet13/1;no switchport",
        "vlan 300,4094",
        "vlan 4094;trunk group MLAG",
        "no spanning-tree vlan-id 4093-4094",
        "interface Vlan4094;no autostate",
        "interface Port-Channel1000;switchport mode trunk;switchport trunk group MLAG",
        "interface Ethernet25/1;channel-group 1000 mode active",
        " ;".join(  # noqa: FLY002 - one long line
            (
                "mlag configuration",
                "domain-id others",
                "local-interface Vlan4094",
                "peer-link Port-Channel1000",
                "reload-delay mlag 300",
                "shutdown",
            )
        ),
    ]
)
HISTORIES = {
    "eos": st.tuples(test_eos_exchange.HISTORIES, st.lists(EOS, max_size=8)).map(
        lambda both: [*both[0], *both[1]]
    ),
    "sonic": st.lists(st.one_of(SONIC, test_sonic_exchange.LINES), max_size=8),
    "cumulus": st.lists(
        st.one_of(CUMULUS, test_cumulus_exchange.HISTORIES.map(" ; ".join)), max_size=6
    ),
}


@pytest.mark.parametrize("system", HISTORIES)
def test_the_life_of_switches_with_bundles(system: str) -> None:
    @QUICK
    @given(history=HISTORIES[system], pair=st.booleans(), routed=st.booleans())
    def play(history: list[str], pair: bool, routed: bool) -> None:  # noqa: FBT001 - drawn
        lines = [line for line in history if not any(word in line for word in TAKES)]
        live(bonded_of(system, pair=pair and system != "sonic", routed=routed), lines)

    play()


def room_of(spec: ClusterSpec, folder: Path) -> Room:
    room = rooms_of(spec, folder)[0]
    room.record()
    room.apply()
    return room


DB = "sudo sonic-db-cli CONFIG_DB"
UNDONE = {
    "eos": [
        "interface Ethernet11/1;no channel-group",
        "interface Ethernet20/1;channel-group 1 mode active",
        ";".join(f"interface Ethernet{n}/1;no channel-group" for n in (10, 11))
        + "".join(f";interface Ethernet{n}/1;channel-group 1 mode on" for n in (10, 11)),
        "interface Port-Channel1;switchport trunk allowed vlan add 302",
        "interface Port-Channel2;switchport mode trunk",
        "interface Port-Channel3;switchport trunk native vlan 400",
        "interface Port-Channel1;no mlag",
        "no interface Port-Channel1",
        "interface Ethernet12/1;shutdown",
        "mlag configuration;peer-address 10.255.253.9",
        "mlag configuration;shutdown",
        "no mlag configuration",
        "spanning-tree vlan-id 4094",
        "vlan 4094;no trunk group RAILYARD",
        "interface Port-Channel1000;no switchport trunk group RAILYARD",
        "interface Vlan4094;autostate",
        "interface Ethernet1/1;switchport trunk native vlan 7",
        "interface Ethernet1/1;switchport trunk native vlan tag",
        "interface Ethernet1/1;switchport trunk allowed vlan remove 402",
    ],
    "sonic": [
        f"{DB} DEL 'PORTCHANNEL_MEMBER|PortChannel1|Ethernet80'",
        merge('{"PORTCHANNEL_MEMBER":{"PortChannel1|Ethernet208":{}}}'),
        f"{DB} DEL 'VLAN_MEMBER|Vlan300|PortChannel1'",
        f"{DB} HSET 'VLAN_MEMBER|Vlan300|PortChannel1' tagging_mode untagged",
        merge('{"VLAN_MEMBER":{"Vlan111|PortChannel2":{"tagging_mode":"tagged"}}}'),
        "sudo config interface shutdown Ethernet96",
        f"{DB} DEL 'VLAN_MEMBER|Vlan402|Ethernet0'",
    ],
    "cumulus": [
        "nv unset interface bond1",
        "nv unset interface bond1 bond member swp11",
        "nv set interface bond1 bond member swp20",
        "nv set interface bond1 bridge domain br_default vlan 302",
        "nv unset interface bond2 bridge domain",
        "nv set interface bond3 bridge domain br_default untagged 400",
        "nv unset interface bond1 bond mlag",
        "nv set mlag mac-address 44:38:39:ff:00:99",
        "nv unset interface peerlink bond member swp15",
        "nv set interface swp12 link state down",
        "nv unset interface swp1 bridge domain br_default untagged",
        "nv set interface swp1 bridge domain br_default untagged 401",
    ],
}


@pytest.mark.parametrize("system", UNDONE)
def test_what_a_hand_changes_is_drift_and_comes_back(system: str, tmp_path: Path) -> None:
    room = room_of(bonded_of(system, pair=system != "sonic"), tmp_path)
    whole = room.switch.snapshot()
    for line in UNDONE[system]:
        room.switch.run_line(line)
        assert diff_states(room.read(), room.plan.desired), line
        assert room.apply(), line
        assert room.switch.snapshot() == whole, line


@pytest.mark.parametrize("system", HISTORIES)
def test_an_edit_gives_back_a_bundle_and_changes_another(system: str, tmp_path: Path) -> None:
    spec = bonded_of(system)
    before, after = room_of(spec, tmp_path / "one"), spec.model_dump(mode="json")
    first = BONDS[system].format(1)
    del after["switches"][0]["bonds"][BONDS[system].format(3)]
    after["switches"][0]["bonds"][first] |= {"vlans": [300], "untagged": 402}
    later = rooms_of(ClusterSpec.model_validate(after), tmp_path / "two")[0].plan.desired
    assert before.baseline is not None
    edit(before.talk(), before.plan.desired, later, before.baseline)
    held = before.talk().read(later).state.bonds or {}
    assert {*held} == {BONDS[system].format(n) for n in (1, 2)}
    assert (held[first].vlans, held[first].untagged) == ((300,), 402)
    restore(before.talk(), later, before.baseline)
    assert before.talk().read(later).state.bonds is None


def test_a_pair_of_cumulus_switches_has_the_guides_lines(tmp_path: Path) -> None:
    room = rooms_of(bonded_of("cumulus", pair=True), tmp_path)[0]
    lines = room.plan.commands_from_factory
    assert [line for line in lines if "bond" in line or "mlag" in line or "peerlink" in line] == [
        "nv set interface bond1 bond member swp10-11",
        "nv set interface bond1 bond mlag id 1",
        "nv set interface bond1 bridge domain br_default vlan 300-301",
        "nv set interface bond2 bond member swp12",
        "nv set interface bond2 bridge domain br_default access 400",
        "nv set interface bond3 bond member swp13",
        "nv set interface bond3 bridge domain br_default untagged 401",
        "nv set interface bond3 bridge domain br_default vlan 400",
        "nv set interface peerlink bond member swp14-15",
        "nv set mlag mac-address 44:38:39:ff:00:01",
        "nv set mlag backup 192.168.1.6",
        "nv set mlag peer-ip linklocal",
    ]
    room.apply()
    read = room.read()
    assert read.mlag == MlagState(mac="44:38:39:ff:00:01", backup="192.168.1.6")
    assert (read.bonds or {})["peerlink"] == BondState(
        members=("swp14", "swp15"), is_peer_link=True
    )


def test_a_pair_of_eos_switches_has_the_guides_lines(tmp_path: Path) -> None:
    room = rooms_of(bonded_of("eos", pair=True), tmp_path)[0]
    lines = room.plan.commands_from_factory
    assert lines[
        lines.index("interface Port-Channel1") : lines.index("peer-link Port-Channel1000")
    ] == (
        *("interface Port-Channel1", "switchport trunk allowed vlan 300-301"),
        *("switchport mode trunk", "mlag 1", "exit"),
        *("interface Port-Channel2", "switchport access vlan 400", "exit"),
        *("interface Port-Channel3", "switchport trunk native vlan 401"),
        *("switchport trunk allowed vlan 400-401", "switchport mode trunk", "exit"),
        *("interface Port-Channel1000", "switchport mode trunk"),
        *("switchport trunk group RAILYARD", "exit"),
        *("interface Ethernet10/1", "channel-group 1 mode active", "exit"),
        *("interface Ethernet11/1", "channel-group 1 mode active", "exit"),
        *("interface Ethernet12/1", "channel-group 2 mode active", "exit"),
        *("interface Ethernet13/1", "channel-group 3 mode active", "exit"),
        *("interface Ethernet14/1", "channel-group 1000 mode active", "exit"),
        *("interface Ethernet15/1", "channel-group 1000 mode active", "exit"),
        "no spanning-tree vlan-id 4094",
        *("vlan 4094", "trunk group RAILYARD", "exit"),
        *("mlag configuration", "domain-id leaf-01-leaf-02", "local-interface Vlan4094"),
        "peer-address 10.255.253.1",
    )
    room.apply()
    read = room.read()
    assert read.mlag == MlagState(domain="leaf-01-leaf-02", peer="10.255.253.1")
    assert (read.addresses or {})["Vlan4094"] == ("always-up", "10.255.253.0/31")


@pytest.mark.parametrize(
    ("system", "line", "why"),
    [
        (
            "cumulus",
            "nv set interface bond9 bond member swp11",
            "swp11 is in bond9, which is not of the file, and bond1",
        ),
        (
            "eos",
            "interface Ethernet11/1;channel-group 9 mode on",
            "Ethernet11/1 is in Port-Channel9, which is not of the file, and Port-Channel1",
        ),
    ],
)
def test_a_port_in_a_bundle_of_others_is_refused_before_a_change(
    system: str, line: str, why: str, tmp_path: Path
) -> None:
    room = rooms_of(bonded_of(system), tmp_path)[0]
    room.switch.run_line(line)
    first = room.switch.snapshot()
    with pytest.raises(DeviceError, match=why):
        room.apply()
    assert room.switch.snapshot() == first


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("interface Ethernet10/1;channel-group 1 mode on", "% Static and LACP"),
        ("interface Port-Channel2;mlag 1", "% MLAG 1 is already configured on Port-Channel1"),
        ("interface Ethernet10/1;channel-group 2001 mode active", "% Invalid input"),
        ("interface Port-Channel2001", "% Invalid input"),
        ("mlag configuration;peer-address 10.9.9.999", "% Invalid input"),
        ("interface Loopback0;no autostate", "% Invalid input"),
    ],
)
def test_the_emulated_switch_refuses_what_eos_refuses(line: str, why: str, tmp_path: Path) -> None:
    room = room_of(bonded_of("eos", pair=True), tmp_path)
    assert why in room.switch.run_line(line)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nv set interface bond1 bond member swp12", "it is in bond1 and in bond2"),
        ("nv set interface swp10 bridge domain br_default", "a bond member is in no bridge"),
        ("nv unset interface peerlink", "there is no peerlink"),
        ("nv set mlag mac-address 01:38:39:ff:00:01", "is not a MAC address of one machine"),
        ("nv set interface login1 bond member swp20", "is not a bond"),
    ],
)
def test_the_emulated_switch_refuses_what_nvue_refuses(line: str, why: str, tmp_path: Path) -> None:
    room = room_of(bonded_of("cumulus", pair=True), tmp_path)
    assert why in room.switch.run_line(line)
