"""Routed switches of the lab with Debian's FRR and lldpd: sessions, ways, failures, refusals."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from components.fabric.cabling import FarEnd, RoutedLinks, Way, find_routing_faults
from components.fabric.parts import Sessions
from components.fabric.systems import system_of
from lab.debian import ROUTING_PACKAGES, unpacked_whole
from lab.routing.fabric import RoutedFabric, emulated_because, make_routing
from lab.switches.cumulus.server import CumulusSwitch
from lab.switches.emulators import make_switch
from lab.views import SwitchConfig
from tests.lab.until import until

pytestmark = pytest.mark.lab
LINKS: Final = {
    "leaf-01": {"swp51": ("spine-01", "swp1"), "swp52": ("spine-02", "swp1")},
    "leaf-02": {"swp51": ("spine-01", "swp2"), "swp52": ("spine-02", "swp2")},
    "spine-01": {"swp1": ("leaf-01", "swp51"), "swp2": ("leaf-02", "swp51")},
    "spine-02": {"swp1": ("leaf-01", "swp52"), "swp2": ("leaf-02", "swp52")},
}
HOSTS: Final = {"leaf-01": ("gpu01", "rdma0"), "leaf-02": ("gpu02", "rdma0")}
NUMBERS: Final = {"leaf-01": 65101, "leaf-02": 65102, "spine-01": 65100, "spine-02": 65100}
NETWORKS: Final = {"leaf-01": "10.0.1.0/24", "leaf-02": "10.0.2.0/24"}
ADDRESSES: Final = {
    ("leaf-02", "swp52"): ("10.254.0.0", "10.254.0.1"),
    ("spine-02", "swp2"): ("10.254.0.1", "10.254.0.0"),
}
"""The one link with a /31: its own address, and the other end's."""


def config_of(name: str, os: str = "cumulus") -> SwitchConfig:
    cards = {"swp1": HOSTS[name]} if name in HOSTS else {}
    return SwitchConfig(
        name, os, "SN5600", "127.0.0.1", 0, "cumulus", "password", name,
        neighbours={**cards, **LINKS[name]}, links=LINKS[name], routed=(*LINKS[name],),
    )  # fmt: skip


def lines_of(name: str) -> Iterator[str]:
    """The lines that Railyard sends to such a switch (components/fabric/systems/cumulus)."""
    for port in LINKS[name]:
        yield f"nv set interface {port} link state up"
        own, peer = ADDRESSES.get((name, port), ("", port))
        yield f"nv set vrf default router bgp neighbor {peer} remote-as external"
        if own:
            yield f"nv set interface {port} ip address {own}/31"
    number = [*LINKS].index(name) + 1
    yield f"nv set router bgp autonomous-system {NUMBERS[name]}"
    yield f"nv set router bgp router-id 10.255.0.{number}"
    if name in NETWORKS:
        yield "nv set bridge domain br_default vlan 111"
        yield "nv set interface swp1 bridge domain br_default access 111"
        yield f"nv set interface vlan111 ip address {NETWORKS[name].replace('.0/', '.1/')}"
        family = "nv set vrf default router bgp address-family ipv4-unicast network"
        yield f"{family} {NETWORKS[name]}"


@dataclass
class Room:
    switches: dict[str, CumulusSwitch]
    fabric: RoutedFabric
    cards: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])

    def type(self, name: str, *lines: str) -> str:
        session = self.switches[name].session()
        return session.run("; ".join([*lines, "nv config apply -y"]))

    def ask(self, name: str, question: str) -> Any:  # noqa: ANN401 - FRR's JSON
        session = self.switches[name].session()
        answer = session.run(f'sudo vtysh -c "{question} json"')
        assert session.status == 0, answer
        return json.loads(answer)

    def states(self, name: str) -> dict[str, str]:
        peers = self.ask(name, "show bgp ipv4 unicast summary").get("peers", {})
        return {port: peer["state"] for port, peer in peers.items()}

    def ways(self, name: str, network: str) -> tuple[str, ...]:
        """The ports by which FRR sends to a network."""
        views = self.fabric.with_routes([self.switches[name].router_view()])
        found = [each for each in views[0].routes or () if each.network == network]
        return tuple(sorted(found[0].interfaces)) if found else ()

    def heard(self, name: str) -> dict[str, tuple[str, str, str]]:
        heard = self.switches[name].heard()
        return {p: (who, told.port, told.description) for p, (who, told) in heard.items()}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    folder = tmp_path_factory.mktemp("routing")
    configs = [config_of(name) for name in LINKS]
    switches = {each.name: make_switch(each, folder / each.name) for each in configs}
    assert emulated_because(configs, switches) is None
    cumulus = {n: each for n, each in switches.items() if isinstance(each, CumulusSwitch)}
    unpacked = unpacked_whole(packages=ROUTING_PACKAGES)
    cards = dict.fromkeys(HOSTS.values(), True)
    fabric = RoutedFabric(unpacked, folder / "frr", configs, switches, lambda: cards)
    try:
        asyncio.run(fabric.start())
        room = Room(cumulus, fabric, cards)
        for name in LINKS:
            assert "applied" in room.type(name, *lines_of(name))
        yield room
    finally:
        pids = fabric.pids
        fabric.stop()
        assert not [name for name, pid in pids.items() if Path(f"/proc/{pid}").exists()]


def is_whole(room: Room) -> None:
    """All sessions are up, and both leaves send over both spines."""
    for name, links in LINKS.items():
        peers = [ADDRESSES.get((name, port), ("", port))[1] for port in links]
        until(lambda name=name: room.states(name), dict.fromkeys(peers, "Established"))
    until(lambda: room.ways("leaf-01", "10.0.2.0/24"), ("swp51", "swp52"))
    until(lambda: room.ways("leaf-02", "10.0.1.0/24"), ("swp51", "swp52"))


def test_sessions_and_ways_are_those_of_frr(room: Room) -> None:
    is_whole(room)
    assert room.ask("spine-01", "show bgp neighbors swp1")["swp1"]["remoteAs"] == 65101
    assert room.ways("leaf-01", "10.0.1.0/24") == ("vlan111",)


def told(room: Room, name: str, system: str, *, bfd: bool = False) -> Sessions:
    """What the driver of a system reads of the sessions of a switch."""
    session, questions = room.switches[name].session(), system_of(system).sessions
    assert questions is not None
    asked = questions[bfd]
    return asked.parse({line: session.run(line) for line in asked.commands})


def seen(room: Room, name: str, port: str) -> set[tuple[str, int | None]]:
    """What the product reads of a session: from NVUE, and of FRR itself, a moment later."""
    ones = [told(room, name, system).neighbors[port] for system in ("cumulus", "sonic")]
    return {(one.state.lower(), one.networks) for one in ones}


def test_the_product_reads_what_frr_says(room: Room) -> None:
    is_whole(room)
    for port in ("swp51", "swp52"):
        until(lambda port=port: seen(room, "leaf-01", port), {("established", 1)})
    room.type("leaf-02", "nv set interface swp51 link state down")
    try:
        until(lambda: seen(room, "leaf-01", "swp51"), {("established", 0)})  # nothing from leaf-02
        until(lambda: seen(room, "spine-01", "swp2"), {("idle", 0)})
    finally:
        room.type("leaf-02", "nv set interface swp51 link state up")


def hops(room: Room, name: str, network: str) -> tuple[str, ...]:
    """The next hops that the product reads."""
    return (told(room, name, "sonic").routes or {}).get(network, ())


LINKS_OF_LEAF: Final = RoutedLinks(
    os="cumulus",
    ends={
        port: FarEnd(port=port, to=f"{LINKS['leaf-01'][port][0]}:swp1", networks=1)
        for port in LINKS["leaf-01"]
    },
    ways=(Way(to=("leaf-02",), ports=("swp51", "swp52")),),
    networks={"leaf-02": ("10.0.2.0/24",)},
)


def narrow(room: Room) -> list[tuple[str, str]]:
    """What the product finds of a leaf whose sessions are all up."""
    found = find_routing_faults(LINKS_OF_LEAF, told(room, "leaf-01", "cumulus"))
    return [(each.where, each.what) for each in found]


def vty(room: Room, *lines: str) -> None:
    """Type lines into FRR behind the back of NVUE."""
    words = " ".join(f"-c '{line}'" for line in ("configure terminal", "router bgp 65101", *lines))
    answer = room.switches["leaf-01"].session().run(f"sudo vtysh {words}")
    assert "%" not in answer, answer


def test_fewer_next_hops_than_links_are_found_though_all_sessions_are_up(room: Room) -> None:
    is_whole(room)
    until(lambda: hops(room, "leaf-01", "10.0.2.0/24"), ("swp51", "swp52"))
    assert narrow(room) == []
    family = "address-family ipv4 unicast"
    vty(room, family, "maximum-paths 1")
    try:
        until(lambda: len(hops(room, "leaf-01", "10.0.2.0/24")), 1)
        (used,) = hops(room, "leaf-01", "10.0.2.0/24")
        port, spine = {"swp51": ("swp52", "02"), "swp52": ("swp51", "01")}[used]
        what = f"spine-{spine}:swp1 is not a next hop to 10.0.2.0/24: that route uses 1 of 2 links"
        assert narrow(room) == [(f"port {port}", what)]
        assert room.states("leaf-01") == dict.fromkeys(LINKS["leaf-01"], "Established")
    finally:
        vty(room, family, "no maximum-paths")
    until(lambda: hops(room, "leaf-01", "10.0.2.0/24"), ("swp51", "swp52"))
    vty(room, family, "neighbor swp52 route-map NONE in", "exit", "exit", "route-map NONE deny 10")
    try:
        until(lambda: hops(room, "leaf-01", "10.0.2.0/24"), ("swp51",))
        # NVUE counts what the neighbour sends, before a route map of the leaf itself.
        assert [where for where, _ in narrow(room)] == ["port swp52"]
        assert room.states("leaf-01") == dict.fromkeys(LINKS["leaf-01"], "Established")
    finally:
        vty(
            room, family, "no neighbor swp52 route-map NONE in", "exit", "exit", "no route-map NONE"
        )
    is_whole(room)
    room.type("spine-01", "nv set router bgp graceful-shutdown on")  # it keeps its sessions too
    until(lambda: room.ways("leaf-01", "10.0.2.0/24"), ("swp52",))
    assert room.states("leaf-01") == dict.fromkeys(LINKS["leaf-01"], "Established")
    room.type("spine-01", "nv unset router bgp graceful-shutdown")


def test_a_lost_spine_and_a_shut_port_leave_no_way_but_the_others(room: Room) -> None:
    is_whole(room)
    lost = room.switches["spine-01"]
    for port in LINKS["spine-01"]:
        lost.fault(["link-down", port, "on"])
    until(lambda: room.ways("leaf-01", "10.0.2.0/24"), ("swp52",))
    assert room.states("leaf-01")["swp51"] != "Established"
    room.type("leaf-02", "nv set interface swp52 link state down")
    until(lambda: room.ways("leaf-01", "10.0.2.0/24"), ())
    room.type("leaf-02", "nv set interface swp52 link state up")
    for port in LINKS["spine-01"]:
        lost.fault(["link-down", port, "off"])


def test_bfd_notices_what_no_link_shows(room: Room) -> None:
    is_whole(room)
    bfd = "router bgp neighbor swp51 bfd enable on"
    for leaf in NETWORKS:
        assert "applied" in room.type(leaf, f"nv set vrf default {bfd}")
    times = "nv set vrf default router bgp neighbor swp1 bfd"
    room.type("spine-01", f"{times} enable on", f"{times} detect-multiplier 4")
    room.type("spine-01", f"{times} min-rx-interval 250", f"{times} min-tx-interval 250")
    until(lambda: bfd_states(room, "leaf-01"), ["up"])
    until(lambda: bfd_states(room, "leaf-02"), ["down"])  # the spine does not answer there
    for name, state in (("leaf-01", "up"), ("leaf-02", "down")):
        assert told(room, name, "cumulus", bfd=True).neighbors["swp51"].bfd == state
    (peer,) = room.ask("spine-01", "show bfd peers")
    assert (peer["detect-multiplier"], peer["receive-interval"]) == (4, 250)
    is_whole(room)
    signal_bfdd(room, "STOP")
    try:
        until(lambda: room.ways("leaf-01", "10.0.2.0/24"), ("swp52",))
        (seen,) = room.ask("leaf-01", "show bgp neighbors swp51").values()
    finally:
        signal_bfdd(room, "CONT")
        for name, peer in (("leaf-01", "swp51"), ("leaf-02", "swp51"), ("spine-01", "swp1")):
            room.type(name, f"nv unset vrf default router bgp neighbor {peer} bfd")
    assert seen["lastNotificationReason"] == "Cease/BFD Down"
    assert not bfd_states(room, "leaf-02")


def bfd_states(room: Room, name: str) -> list[str]:
    return [each["status"] for each in room.ask(name, "show bfd peers")]


def signal_bfdd(room: Room, number: str) -> None:
    """Let the spine's BFD fall silent, while its links stay up."""
    line = f"read pid < /run/frr/bfdd.pid; kill -{number} $pid"
    done = room.fabric.routers["spine-01"].space.run("/usr/bin/dash", "-ec", line)
    assert not done.returncode, done.stderr


def test_a_wrong_number_is_seen_in_the_devices_words(room: Room) -> None:
    is_whole(room)
    peer = "vrf default router bgp neighbor swp1 remote-as"
    room.type("spine-02", f"nv set {peer} 65999")
    until(
        lambda: room.ask("leaf-01", "show bgp neighbors swp52")["swp52"].get(
            "lastNotificationReason"
        ),
        "OPEN Message Error/Bad Peer AS",
    )
    assert room.states("leaf-01")["swp52"] != "Established"
    assert room.ways("leaf-01", "10.0.2.0/24") == ("swp51",)
    room.type("spine-02", f"nv set {peer} external")


def test_a_port_of_the_bridge_has_no_neighbour(room: Room) -> None:
    is_whole(room)
    room.type("leaf-01", "nv set interface swp52 bridge domain br_default")
    until(lambda: room.ways("leaf-01", "10.0.2.0/24"), ("swp51",))
    room.type("leaf-01", "nv unset interface swp52 bridge domain br_default")


def test_a_network_without_a_link_is_not_announced(room: Room) -> None:
    is_whole(room)
    room.switches["leaf-02"].fault(["link-down", "swp1", "on"])
    until(lambda: room.ways("leaf-01", "10.0.2.0/24"), ())
    room.switches["leaf-02"].fault(["link-down", "swp1", "off"])


def test_a_card_that_is_moved_takes_the_network_of_its_switch_along(room: Room) -> None:
    is_whole(room)
    near, far = room.switches["leaf-01"], room.switches["leaf-02"]
    near.fault(["cable", "swp1", "gpu02", "rdma0"])
    until(lambda: room.ways("leaf-01", "10.0.2.0/24"), ())
    until(lambda: room.ways("leaf-01", "10.0.1.0/24"), ("vlan111",))
    near.fault(["cable", "swp1", "off"])
    is_whole(room)
    far.fault(["link-down", "swp1", "on"])  # the port is the switch's again
    until(lambda: room.ways("leaf-01", "10.0.2.0/24"), ())
    far.fault(["link-down", "swp1", "off"])


def test_what_frr_refuses_is_not_applied_and_costs_no_session(room: Room) -> None:
    is_whole(room)
    leaf = room.switches["leaf-01"]
    before, dropped = leaf.snapshot(), drops(room)
    for line, words in (
        ("router bgp router-id leaf", "Unknown command: bgp router-id leaf"),
        (
            "vrf default router bgp neighbor swp9 remote-as spines",
            "Unknown command: neighbor swp9 interface remote-as spines",
        ),
    ):
        answer = room.type("leaf-01", f"nv set {line}")
        assert "Failure during apply" in answer
        assert words in answer
        leaf.session().run("nv config detach")
    assert leaf.snapshot() == before
    assert drops(room) == dropped
    assert "neighbor swp9" not in leaf.session().run("sudo vtysh -c 'show running-config'")


def drops(room: Room) -> list[int]:
    peers = room.ask("leaf-01", "show bgp ipv4 unicast summary")["peers"]
    return [peer["connectionsDropped"] for peer in peers.values()]


def test_a_switch_that_loses_its_routing_has_none(room: Room) -> None:
    is_whole(room)
    room.type("spine-02", "nv unset vrf default router bgp", "nv unset router bgp")
    until(lambda: room.ways("leaf-01", "10.0.2.0/24"), ("swp51",))
    room.type("spine-02", *lines_of("spine-02"))


def test_lldp_tells_what_is_plugged(room: Room) -> None:
    def far(name: str) -> dict[str, tuple[str, str]]:
        return {port: (who, what) for port, (who, _, what) in room.heard(name).items()}

    planned = {**LINKS["leaf-01"], "swp1": ("gpu01", "rdma0")}
    until(lambda: far("leaf-01"), planned)
    _, port, _ = room.heard("leaf-01")["swp1"]
    assert len(port.split(":")) == 6, "a host tells the address of its card"
    room.switches["leaf-01"].fault(["cable", "swp1", "gpu02", "rdma0"])
    until(lambda: far("leaf-01"), {**planned, "swp1": ("gpu02", "rdma0")})
    until(lambda: far("leaf-02"), LINKS["leaf-02"])
    room.switches["leaf-01"].fault(["cable", "swp1", "off"])
    until(lambda: far("leaf-01"), planned)
    room.cards["gpu01", "rdma0"] = False
    room.fabric.sync_hosts()
    until(lambda: far("leaf-01"), LINKS["leaf-01"])
    room.cards["gpu01", "rdma0"] = True
    room.fabric.sync_hosts()
    until(lambda: far("leaf-01"), planned)


def test_a_neighbour_without_frr_leaves_all_routes_to_the_lab(tmp_path: Path) -> None:
    eos = SwitchConfig(
        "spine-01", "eos", "DCS-7060X6-64PE", "127.0.0.1", 0, "admin", "password", "spine-01",
        links={"Ethernet1/1": ("leaf-01", "swp51")}, routed=("Ethernet1/1",),
    )  # fmt: skip
    configs = [config_of("leaf-01"), eos]
    switches = {each.name: make_switch(each, tmp_path / each.name) for each in configs}
    said = (None, "routes are emulated: the lab plays spine-01 without FRR")
    assert make_routing(tmp_path, configs, switches, dict) == said


def test_without_the_power_to_make_namespaces_the_lab_says_so() -> None:
    look = "from lab.routing.space import why_no_namespaces as why; print(why())"
    words = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all", "--"]
    done = subprocess.run(
        [*words, sys.executable, "-c", look], capture_output=True, text=True, check=True
    )
    assert done.stdout == "unshare: unshare failed: Operation not permitted\n"
