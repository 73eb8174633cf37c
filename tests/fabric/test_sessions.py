"""BGP sessions and next hops of routed links: expected, read of each system, and lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from components.core.beside import LostWay
from components.fabric.cabling import (
    FarEnd,
    RoutedLinks,
    Way,
    applied_networks,
    find_lost,
    plan_links,
    plan_networks,
)
from components.fabric.parts import Session, Sessions
from components.fabric.plan import plan_fabric
from components.fabric.state import BgpState
from components.fabric.systems import driver_of
from components.fabric.systems.base import Unreadable
from lab.physics.sessions import join
from lab.site import lab_file
from tests.fabric.fabric_lab import Room, port_name, rooms_of, routed_of, units_of


class Words(NamedTuple):
    """What a system is told and tells, beside what all have alike.

    The word for a session that is down, lines after which BGP takes one path of several, what to
    ask next of a link without a session and of a network that goes over too few links, a part of
    the command for the sessions, and that for the routes.
    """

    idle: str
    one_path: tuple[str, ...]
    lost: str
    narrow: str
    asked: str
    commands: tuple[str, str]


VTYSH = "sudo vtysh -c 'show bgp ipv4 unicast 10.255.0.9/32'"
WORDS = {
    "cumulus": Words(
        "idle",
        (
            "nv set vrf default router bgp address-family ipv4-unicast multipaths ebgp 1",
            "nv config apply -y",
        ),
        "nv show vrf default router bgp neighbor swp29",
        VTYSH,
        "router bgp neighbor",
        (
            "nv show vrf default router bgp neighbor -o json",
            'sudo -n vtysh -c "show ip route bgp json"; true',
        ),
    ),
    "eos": Words(
        "Idle",
        ("router bgp 65101; maximum-paths 1",),
        "show ip bgp summary",
        "show ip bgp 10.255.0.9/32",
        "show ip bgp",
        ("show ip bgp summary | json", "show ip route | json"),
    ),
    "sonic": Words(
        "Idle",
        ("sonic-db-cli CONFIG_DB hset 'BGP_GLOBALS_AF|default|ipv4_unicast' max_ebgp_paths 1",),
        "show ip bgp neighbors Ethernet224",
        VTYSH,
        "vtysh",
        (
            'sudo vtysh -c "show bgp ipv4 unicast summary json"',
            'sudo vtysh -c "show ip route bgp json"',
        ),
    ),
}
SYSTEMS = tuple(WORDS)
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


@pytest.mark.parametrize("numbered", [False, True], ids=["unnumbered", "numbered"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_says_which_link_has_no_session(
    system: str,
    numbered: bool,  # noqa: FBT001 - a table
    tmp_path: Path,
) -> None:
    rooms = joined(system, tmp_path, bfd=True, numbered=numbered)
    assert [said(room) for room in rooms] == [[], [], []]
    leaf, _, spine = rooms
    far = port_name(system, 2)
    spine.switch.fault(["link-down", far, "on"])
    what = f"BGP with spine-01:{far} is {WORDS[system].idle}, not Established"
    if system == "eos" and not numbered:
        what = f"there is no BGP session with spine-01:{far}: it was never heard on this link"
    (found,) = lost(leaf)
    assert (found.where, found.what) == (f"port {port_name(system, 29)}", what)
    assert numbered or found.fix == WORDS[system].lost
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


@pytest.mark.parametrize("system", SYSTEMS)
def test_one_way_where_the_file_has_two_is_found_while_both_sessions_are_up(
    system: str, tmp_path: Path
) -> None:
    leaf, *_ = joined(system, tmp_path)
    for line in WORDS[system].one_path:
        leaf.switch.run_line(line)
    (found,) = lost(leaf)
    # Of the spine a loopback; of leaf-02 another one and a part of two rails.
    some = "10.255.0.9/32 and 3 more networks"
    far = f"spine-01:{port_name(system, 3)}"
    what = f"{far} is no next hop to {some}, which goes over 1 of 2 links"
    assert (found.where, found.what) == (f"port {port_name(system, 30)}", what)
    assert found.fix == WORDS[system].narrow
    assert leaf.switch.unmodelled == ()


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
    what = "is down: a loss there is noticed by BGP's hold time"
    where = f"port {port_name(system, 29)}"
    assert said(leaf)[0] == (where, f"BFD with spine-01:{port_name(system, 2)} {what}")


def test_two_commands_more_and_none_where_nothing_is_routed(tmp_path: Path) -> None:
    for system, words in WORDS.items():
        asked = driver_of(system).sessions(bfd=False)
        assert asked is not None
        assert asked.commands == words.commands
    assert driver_of("onyx").sessions(bfd=False) is None
    leaf, *_ = joined("cumulus", tmp_path)
    assert leaf.talk().read_sessions(bgp=False, bfd=False) is None


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_refused_question_is_not_known_and_no_pass(system: str, tmp_path: Path) -> None:
    leaf, *_ = joined(system, tmp_path)
    leaf.switch.fault(["reject", WORDS[system].asked])
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
    text, up = "sudo: a password is required", Session(state="established", networks=3)
    (found,) = find_lost(LINKS, Sessions(neighbors={"swp51": up}, bfd_unread=text))
    assert (found.kind, found.what) == ("unsaid", f"whether BFD is up is not known: {text}")


def form(name: str) -> str:
    return (Path(__file__).parent / "forms" / name).read_text(encoding="utf-8")


FRR = form("sonic/frr_bgp_and_bfd.txt")
"""With a link that is idle, and no BFD of it."""
NVUE = form("cumulus/nv_show_neighbors.txt")
EOS_SUMMARY = form("eos/ip_bgp_summary_two_links.json")
EOS_BFD = form("eos/bfd_peers_two_links.json")
EOS_ROUTES = form("eos/ip_route_two_ways.json")
FRR_ROUTES = form("sonic/frr_routes.json")
"""With a next hop that is not used and one that is lost."""
HOPS = {"eos": EOS_ROUTES, "sonic": FRR_ROUTES, "cumulus": "sudo: a password is required"}


def parsed(system: str, text: str, *rest: str) -> Sessions:
    """The routes come second."""
    asked, texts = driver_of(system).sessions(bfd=True), (text, HOPS[system], *rest)
    assert asked is not None
    return asked.parse(dict(zip(asked.commands, texts, strict=True)))


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


def test_ways_are_those_that_bgp_takes_together() -> None:
    """To the own unit's spine by both links; of two spines above it, each by itself."""
    ways = {name: each.ways for name, each in plan_links(units_of("cumulus", supers=2)).items()}
    assert ways["leaf-01"] == (
        Way(
            to=("spine-01", "leaf-02", "spine-02", "super-01", "super-02"),
            ports=("swp29", "swp30"),
        ),
    )
    assert {each.to: each.ports for each in ways["spine-01"]} == {
        ("leaf-01",): ("swp1", "swp2"),
        ("leaf-02", "spine-02"): ("swp5", "swp6"),
        ("super-01",): ("swp5",),
        ("super-02",): ("swp6",),
    }


TWO = RoutedLinks(
    os="eos",
    ends={
        f"10.254.0.{number}": FarEnd(port=f"Ethernet{number}/1", to=f"spine-0{number}:Ethernet1/1")
        for number in (1, 2)
    },
    ways=(Way(to=("leaf-02", "leaf-03"), ports=("Ethernet1/1", "Ethernet2/1")),),
    networks={"leaf-02": ("10.0.2.0/24",)},
)
"""Of leaf-03 nothing is known yet: it is in the file, and nothing has set it up."""
UP = {f"10.254.0.{number}": Session(state="Established") for number in (1, 2)}


@pytest.mark.parametrize(
    ("routes", "what"),
    [
        ({"10.0.2.0/24": ("Ethernet1/1", "Ethernet2/1")}, []),
        ({"10.0.2.0/24": ("Ethernet1/1", "Ethernet2/1", "Vlan1")}, []),
        (
            {"10.0.2.0/24": ("Ethernet1/1",)},
            ["spine-02:Ethernet1/1 is no next hop to 10.0.2.0/24, which goes over 1 of 2 links"],
        ),
        (
            {},
            [
                f"there is no route to 10.0.2.0/24, over spine-0{each}:Ethernet1/1 or another link"
                for each in (1, 2)
            ],
        ),
        (None, []),
    ],
)
def test_next_hops_are_judged(routes: dict[str, tuple[str, ...]] | None, what: list[str]) -> None:
    found = find_lost(TWO, Sessions(neighbors=UP, routes=routes))
    assert [each.what for each in found] == what


def test_a_link_without_a_session_is_named_once() -> None:
    half = UP | {"10.254.0.2": Session(state="Idle")}
    (found,) = find_lost(TWO, Sessions(neighbors=half, routes={"10.0.2.0/24": ("Ethernet1/1",)}))
    assert found.what == "BGP with spine-02:Ethernet1/1 is Idle, not Established"


def test_next_hops_that_may_not_be_asked_are_said_and_are_no_fault() -> None:
    (found,) = find_lost(TWO, Sessions(neighbors=UP, routes_unread="% Invalid input"))
    assert (found.kind, found.fix) == ("unsaid", "show ip route bgp")
    assert found.what == "which next hops are in use is not known: % Invalid input"


def test_only_what_was_applied_to_both_ends_is_looked_for() -> None:
    planned = BgpState(networks=("10.0.2.0/24", "10.0.3.0/24"))
    given = BgpState(networks=("10.0.2.0/24", "10.0.9.0/24"))
    found = applied_networks({"leaf-02": planned, "leaf-03": planned}, {"leaf-02": given})
    assert found == {"leaf-02": ("10.0.2.0/24",)}
