"""BGP sessions of routed links: what is expected, what is read of each system, what is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.core.beside import LostWay
from components.fabric.cabling import (
    FarEnd,
    RoutedLinks,
    find_lost,
    plan_links,
    plan_networks,
)
from components.fabric.parts import Session, Sessions
from components.fabric.plan import plan_fabric
from components.fabric.systems import driver_of
from components.fabric.systems.base import SessionReader, Unreadable
from lab.physics.sessions import join
from lab.site import lab_file
from tests.fabric.fabric_lab import Room, port_name, rooms_of, routed_of, units_of

SYSTEMS = ("cumulus", "eos", "sonic")


SPECS = {system: routed_of(system, mode="lossless") for system in SYSTEMS}


def joined(system: str, folder: Path, *, bfd: bool = False, numbered: bool = False) -> list[Room]:
    """Two leaves and a spine with all applied, that hear each other."""
    spec = routed_of(system, mode="lossless", bfd=bfd, numbered=numbered)
    rooms = rooms_of(spec, folder)
    for room in rooms:
        room.apply()
    file = lab_file(spec, "fabric", (folder, folder, folder))
    links = {(s.name, port): far for s in file.switches for port, far in s.links.items()}
    join({room.plan.name: room.switch for room in rooms}, links)
    return rooms


def lost(room: Room) -> tuple[LostWay, ...]:
    assert room.plan.links is not None
    links = room.plan.links.model_copy(update={"networks": plan_networks(SPECS[room.plan.os])})
    return find_lost(links, room.talk().look(room.plan.desired).sessions)


def said(room: Room) -> list[tuple[str, str]]:
    return [(each.where, each.what) for each in lost(room)]


@pytest.mark.parametrize("links", ["unnumbered", "numbered"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_says_which_link_has_no_session(
    system: str, links: str, tmp_path: Path
) -> None:
    numbered = links == "numbered"
    rooms = joined(system, tmp_path, bfd=True, numbered=numbered)
    assert [said(room) for room in rooms] == [[], [], []]
    leaf, _, spine = rooms
    first, far = port_name(system, 29), port_name(system, 2)
    spine.switch.fault(["link-down", far, "on"])
    heard = "BGP with spine-01:{} is {}, not Established"
    never = "there is no BGP session with spine-01:{}: it was never heard on this link"
    word = {"cumulus": "idle", "eos": "Idle", "sonic": "Idle"}[system]
    what = never if system == "eos" and not numbered else heard
    assert said(leaf) == [(f"port {first}", what.format(far, word))]
    assert [where for where, _ in said(spine)] == [f"port {far}"]
    assert leaf.switch.unmodelled == spine.switch.unmodelled == ()


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_link_lost_behind_a_neighbour_shows_in_what_it_brings(
    system: str, tmp_path: Path
) -> None:
    leaf, other, _ = joined(system, tmp_path)
    for number in (29, 30):
        other.switch.fault(["link-down", port_name(system, number), "on"])
    # Of leaf-02 a loopback and a part of two rails; of the spine its loopback.
    why = "a link behind it is lost, and traffic to the others takes fewer ways"
    assert said(leaf) == [
        (
            f"port {port_name(system, number)}",
            f"spine-01:{port_name(system, number - 27)} brings 1 of 4 networks: {why}",
        )
        for number in (29, 30)
    ]


PATHS = {
    "cumulus": (
        "nv set vrf default router bgp address-family ipv4-unicast multipaths ebgp 1",
        "nv config apply -y",
    ),
    "eos": ("router bgp 65101; maximum-paths 1",),
    "sonic": (
        "sonic-db-cli CONFIG_DB hset 'BGP_GLOBALS_AF|default|ipv4_unicast' max_ebgp_paths 1",
    ),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_one_way_where_the_file_has_two_is_found_while_both_sessions_are_up(
    system: str, tmp_path: Path
) -> None:
    leaf, *_ = joined(system, tmp_path)
    for line in PATHS[system]:
        leaf.switch.run_line(line)
    (found,) = lost(leaf)
    narrow = {"cumulus": ("swp30", "swp3"), "eos": ("Ethernet30/1", "Ethernet3/1")}
    port, far = narrow.get(system, ("Ethernet232", "Ethernet16"))
    # Of the spine a loopback; of leaf-02 another one and a part of two rails.
    some = "10.255.0.9/32 and 3 more networks"
    what = f"spine-01:{far} is no next hop to {some}, which goes over 1 of 2 links"
    assert (found.where, found.what) == (f"port {port}", what)
    assert found.fix == {
        "eos": "show ip bgp 10.255.0.9/32",
    }.get(system, "sudo vtysh -c 'show bgp ipv4 unicast 10.255.0.9/32'")
    assert leaf.switch.unmodelled == ()


def test_what_to_ask_next_is_in_the_words_of_the_system(tmp_path: Path) -> None:
    fixes: dict[str, str] = {}
    for system in SYSTEMS:
        leaf, _, spine = joined(system, tmp_path / system)
        spine.switch.fault(["link-down", port_name(system, 2), "on"])
        (found,) = lost(leaf)
        fixes[system] = found.fix
    assert fixes == {
        "cumulus": "nv show vrf default router bgp neighbor swp29",
        "eos": "show ip bgp summary",
        "sonic": "show ip bgp neighbors Ethernet224",
    }


@pytest.mark.parametrize(
    ("system", "line"),
    [
        ("cumulus", "nv unset vrf default router bgp neighbor swp2 bfd"),
        ("eos", "router bgp 65001;no neighbor RAILYARD bfd"),
    ],
)
def test_bfd_that_the_other_end_has_not_is_down(system: str, line: str, tmp_path: Path) -> None:
    leaf, _, spine = joined(system, tmp_path, bfd=True)
    spine.switch.run_line(line)
    far = port_name(system, 2)
    where, what = said(leaf)[0]
    assert (where, what) == (
        f"port {port_name(system, 29)}",
        f"BFD with spine-01:{far} is down: a loss there is noticed by BGP's hold time",
    )


def test_two_commands_more_and_none_where_nothing_is_routed(tmp_path: Path) -> None:
    commands = {
        system: driver.session_commands(bfd=False)
        for system in SYSTEMS
        if isinstance(driver := driver_of(system), SessionReader)
    }
    assert commands == {
        "cumulus": (
            "nv show vrf default router bgp neighbor -o json",
            'sudo -n vtysh -c "show ip route bgp json"; true',
        ),
        "eos": ("show ip bgp summary | json", "show ip route | json"),
        "sonic": (
            'sudo vtysh -c "show bgp ipv4 unicast summary json"',
            'sudo vtysh -c "show ip route bgp json"',
        ),
    }
    assert not isinstance(driver_of("onyx"), SessionReader)
    leaf, *_ = joined("cumulus", tmp_path)
    assert leaf.talk().read_sessions(bgp=False, bfd=False) is None


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_refused_question_is_not_known_and_no_pass(system: str, tmp_path: Path) -> None:
    leaf, *_ = joined(system, tmp_path)
    asked = {"cumulus": "router bgp neighbor", "eos": "show ip bgp", "sonic": "vtysh"}[system]
    leaf.switch.fault(["reject", asked])
    (found,) = lost(leaf)
    assert (found.where, found.kind) == ("switch", "unread")
    assert found.what.startswith("the state of its BGP sessions is not known: `")


def test_what_a_neighbour_must_bring_counts_shortest_ways_only() -> None:
    """Two units below a super-spine: the own unit's spine is on the way to everything."""
    links = plan_links(units_of("cumulus"))
    brings = {
        name: {end.to: end.networks for end in each.ends.values()} for name, each in links.items()
    }
    # The other leaf: a loopback and two rails; both spines and the super-spine: a loopback each.
    assert brings["leaf-01"] == {"spine-01:swp1": 6, "spine-01:swp2": 6}
    assert brings["spine-01"] == {"leaf-01:swp29": 3, "leaf-01:swp30": 3, "super-01:swp1": 5}
    assert brings["super-01"] == {"spine-01:swp5": 4, "spine-02:swp5": 4}


def test_switches_of_one_tier_with_numbers_of_their_own_are_not_counted() -> None:
    """BGP takes one of two ways whose numbers differ, so that either may bring nothing."""
    site = routed_of("cumulus", mode="lossless").model_dump(mode="json")
    spine = site["switches"][2]
    twin: dict[str, Any] = {**spine, "name": "spine-02", "ports": {}}
    twin["routing"] = {**spine["routing"], "asn": 65002, "router_id": "10.255.0.8"}
    twin["ssh"] = {**spine["ssh"], "address": "192.168.1.21"}
    for number, leaf in enumerate(site["switches"][:2], start=1):
        twin["ports"][f"swp{number}"] = {"to": f"{leaf['name']}:swp30", "mode": "routed"}
        del spine["ports"][f"swp{2 * number + 1}"]
        leaf["ports"]["swp30"]["to"] = f"spine-02:swp{number}"
    site["switches"].append(twin)
    links = plan_links(type(routed_of("cumulus")).model_validate(site))
    assert {end.to: end.networks for end in links["leaf-01"].ends.values()} == {
        "spine-01:swp2": 1,
        "spine-02:swp1": 1,
    }


LINKS = RoutedLinks(
    os="cumulus",
    ends={"swp51": FarEnd(port="swp51", to="spine-01:swp1", networks=3)},
    bfd=("swp51",),
)


def test_a_neighbour_that_was_never_applied_is_not_missed() -> None:
    bgp = plan_fabric(routed_of("cumulus", mode="lossless"))[0].desired.bgp
    assert bgp is not None
    assert find_lost(LINKS, Sessions(), bgp.model_copy(update={"neighbors": {}})) == ()
    assert find_lost(LINKS, None, bgp) == ()


@pytest.mark.parametrize(
    ("session", "what"),
    [
        (Session(state="Established", networks=3, bfd="up"), None),
        (Session(state="established", networks=9, bfd="up"), None),
        (Session(state="established"), None),
        (Session(state="Active"), "BGP with spine-01:swp1 is Active, not Established"),
        (
            Session(state="Established", networks=3, bfd="down"),
            "BFD with spine-01:swp1 is down: a loss there is noticed by BGP's hold time",
        ),
    ],
)
def test_a_session_is_judged(session: Session, what: str | None) -> None:
    found = find_lost(LINKS, Sessions(neighbors={"swp51": session}))
    assert [each.what for each in found] == ([what] if what else [])


def test_bfd_that_may_not_be_asked_is_said_and_is_no_fault() -> None:
    up = Session(state="established", networks=3)
    text = "sudo: a password is required"
    (found,) = find_lost(LINKS, Sessions(neighbors={"swp51": up}, bfd_unread=text))
    assert (found.kind, found.what) == ("unsaid", f"whether BFD is up is not known: {text}")


FRR = """{
  "routerId":"10.255.0.1",
  "as":65101,
  "peers":{
    "swp51":{"hostname":"spine-01","remoteAs":65100,"pfxRcd":1,"state":"Established"},
    "10.254.0.1":{"remoteAs":65100,"pfxRcd":0,"state":"Idle","idType":"ipv4"}
  },
  "totalPeers":2
}
[{"multihop":false,"peer":"fe80::e4ce:feff:fe6d:b831","local":"fe80::1","vrf":"default",
"interface":"swp51","id":1,"remote-id":2,"status":"up","uptime":5}]
"""
"""Debian's FRR 10.3, cut to the keys around those that are read."""
NVUE = """{"swp51": {"address-family": {"ipv4-unicast": {"rx-prefix": 12, "tx-prefix": 13},
"l2vpn-evpn": {"rx-prefix": 57}}, "bgp-version": 4, "state": "established"},
"swp52": {"remote-as": "external"}}
sudo: a password is required
"""
"""The keys of the vendor's page "Troubleshooting BGP" of release 5.15."""
EOS_SUMMARY = """{"vrfs": {"default": {"routerId": "10.1.0.3", "asn": "65120", "peers": {
"10.1.255.0": {"asn": "65100", "prefixAccepted": 2, "prefixReceived": 3,
"peerState": "Established"},
"fe80::250:56ff:fe01:112%Et49/1": {"asn": "65100", "peerState": "Idle"}}}}}
"""
EOS_BFD = """{"vrfs": {"default": {"ipv4Neighbors": {"10.1.255.0": {"peerStats": {"": {
"status": "up", "remoteDisc": 3940685114, "l3intf": ""}}}}, "ipv6Neighbors": {
"fe80::250:56ff:fe01:112": {"peers": {"Ethernet49/1": {"types": {"normal": {"peerStats": {
"fe80::1": {"status": "down"}}}}}}}}}}}
"""
"""aristanetworks/anta: tests of `VerifyBGPPeerCount` and `VerifyBFDPeersHealth`, two releases."""


FRR_ROUTES = """{"10.255.0.2/32":[{"prefix":"10.255.0.2/32","protocol":"bgp","selected":true,
"installed":true,"nexthops":[
{"flags":3,"fib":true,"ip":"fe80::1","afi":"ipv6","interfaceName":"swp52","active":true,"weight":1},
{"flags":3,"fib":true,"ip":"fe80::2","afi":"ipv6","interfaceName":"swp51","active":true,"weight":1},
{"flags":1,"ip":"fe80::3","afi":"ipv6","interfaceName":"swp53","active":true,"weight":1},
{"flags":2,"fib":true,"ip":"fe80::4","afi":"ipv6","interfaceName":"swp54","weight":1}]},
{"prefix":"10.255.0.2/32","protocol":"static","nexthops":[
{"fib":true,"interfaceName":"eth0","active":true}]}]}
"""
"""Debian's FRR 10.3, cut in the same way, with a next hop that is not used and one that is lost."""
EOS_ROUTES = """{"vrfs": {"default": {"routingDisabled": false, "routes": {
"10.1.0.1/32": {"hardwareProgrammed": true, "routeType": "eBGP", "directlyConnected": false,
"preference": 20, "vias": [{"nexthopAddr": "10.1.255.4", "interface": "Ethernet2/1"},
{"nexthopAddr": "10.1.255.0", "interface": "Ethernet1/1"}]}}}}}
"""
"""aristanetworks/anta: tests of `VerifyRoutingTableEntry`, with a second way."""
HOPS = {"eos": EOS_ROUTES, "sonic": FRR_ROUTES, "cumulus": "sudo: a password is required"}


def parsed(system: str, text: str, *rest: str) -> Sessions:
    """The routes come second."""
    driver, texts = driver_of(system), (text, HOPS[system], *rest)
    assert isinstance(driver, SessionReader)
    return driver.parse_sessions(dict(zip(driver.session_commands(bfd=True), texts, strict=True)))


def test_the_answers_of_each_system_are_read() -> None:
    assert parsed("sonic", FRR) == Sessions(
        neighbors={
            "swp51": Session(state="Established", networks=1, bfd="up"),
            "10.254.0.1": Session(state="Idle", networks=0, bfd="down"),
        },
        routes={"10.255.0.2/32": ("swp51", "swp52")},
    )
    assert parsed("cumulus", NVUE) == Sessions(
        neighbors={
            "swp51": Session(state="established", networks=12),
            "swp52": Session(state="no state"),
        },
        bfd_unread="sudo: a password is required",
        routes_unread="sudo: a password is required",
    )
    assert parsed("eos", EOS_SUMMARY, EOS_BFD) == Sessions(
        neighbors={
            "10.1.255.0": Session(state="Established", networks=3, bfd="up"),
            "Ethernet49/1": Session(state="Idle", bfd="down"),
        },
        routes={"10.1.0.1/32": ("Ethernet1/1", "Ethernet2/1")},
    )


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("text", ["", "no such table", "[1]", '{"vrfs": 1, "peers": 2, "swp1": 3}'])
def test_an_answer_of_another_form_is_unreadable(system: str, text: str) -> None:
    answers = (text,) if system != "eos" else (text, "{}")
    with pytest.raises(Unreadable):
        parsed(system, *answers)


def test_eos_bfd_of_another_form_leaves_the_sessions_known() -> None:
    found = parsed("eos", EOS_SUMMARY, "% Invalid input")
    assert (found.bfd_unread, len(found.neighbors)) == ("% Invalid input", 2)
    assert replace(LostWay("switch", "a", "b"), kind="unsaid").kind == "unsaid"
