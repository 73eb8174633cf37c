"""Routed links of every system that has them: lives of whole fabrics, ways of packets, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.checks.registry import RULES
from components.core.errors import DeviceError
from components.fabric.fabric_plan import plan_fabric
from components.fabric.state import SwitchState, diff_states
from components.hosts.settings import routing_settings
from components.model.cluster import ClusterSpec
from lab.switches.emulators import RoutingSwitch
from lab.switches.eos.server import EosSwitch
from tests.fabric import sonic_lab
from tests.fabric.fabric_lab import chain_of, port_name, problems_of, rooms_of, routed_of, told
from tests.fabric.lives import check_life, live
from tests.fabric.test_sonic_exchange import merge

SYSTEMS = ("eos", "sonic", "cumulus")


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_card_on_a_routed_port_has_a_network_of_its_own(system: str, tmp_path: Path) -> None:
    spec = routed_of(system, cards=True, mode="lossless")
    names = {"routed-port", "routing", "rail-gateway", "rail-switch", "link-form", "pf-address"}
    found = [p for rule in RULES if rule.name in names for p in rule.problems(spec)]
    assert [problem for problem in found if problem.severity == "error"] == []
    live(spec, [])
    room = rooms_of(spec, tmp_path)[1]
    room.apply()
    assert isinstance(room.switch, RoutingSwitch)
    view = room.switch.router_view()
    assert {*view.networks} == {"10.255.0.2/32", "10.10.111.2/31", "10.10.112.2/31"}
    held = room.read().addresses or {}
    assert "10.10.111.2/31" in held[port_name(system, 1)]
    assert {*view.neighbors} == {port_name(system, number) for number in (29, 30)}
    settings = routing_settings(spec, spec.hosts[2])
    assert settings["route.7400.table"] == (
        "10.10.111.2/31 dev enp5s0 scope link src 10.10.111.3,default via 10.10.111.2 dev enp5s0"
    )


@pytest.mark.parametrize(
    ("address", "what", "fix"),
    [
        ("10.10.111.0", "already uses 10.10.111.0/31", "every second address, in a separate"),
        (
            "10.20.0.1",
            "has 10.20.0.1, which is not in 10.10.111.0/24 of rail-0",
            "address of that subnet",
        ),
    ],
)
def test_an_address_that_a_routed_port_cannot_have(address: str, what: str, fix: str) -> None:
    site = routed_of("eos", cards=True).model_dump(mode="json")
    site["hosts"][2]["nics"][0]["address"] = address
    (problem,) = problems_of("routed-port", site)
    assert what in problem.what
    assert fix in problem.fix


def test_a_routed_port_has_no_gateway_beside_and_no_pods_with_vfs() -> None:
    site = routed_of("eos", cards=True).model_dump(mode="json")
    site["pod_network"] |= {"mode": "sriov", "host_network": False}
    site["rails"][0]["gateway"] = "10.10.111.200"
    site["hosts"][1]["nics"][0]["address"] = None
    pods, gateway = problems_of("routed-port", site)
    assert "at each card of the rail: 10.10.111.1, 10.10.111.3" in pods.fix
    assert "rdma_shared, host_network: true}" in pods.fix
    assert gateway.fix == "remove gateway, or the ports' mode."


UNDONE = {
    "eos": [
        "no ip routing ipv6 interfaces",
        "no ipv6 unicast-routing",
        "router bgp 65101;no router-id",
        "router bgp 65101;no maximum-paths",
        "router bgp 65101;no neighbor RAILYARD bfd",
        "router bgp 65101;no neighbor interface Ethernet29/1",
        "router bgp 65101;address-family ipv4;no neighbor RAILYARD activate",
        "router bgp 65101;address-family ipv4;no network 10.10.111.0/25",
        "interface Ethernet29/1;no ipv6 enable",
        "interface Ethernet29/1;mtu 1500",
        "interface Vlan111;no ip address",
        "interface Vlan111;no mtu",
        "no interface Loopback0",
        "no router bgp 65101",
    ],
    "sonic": [
        f"sudo sonic-db-cli CONFIG_DB {line}"
        for line in (
            "DEL 'INTERFACE|Ethernet224'",
            "DEL 'LOOPBACK_INTERFACE|Loopback0|10.255.0.1/32'",
            "DEL 'VLAN_INTERFACE|Vlan111|10.10.111.1/25'",
            "HDEL 'BGP_GLOBALS|default' router_id",
            "HDEL 'BGP_GLOBALS_AF|default|ipv4_unicast' max_ebgp_paths",
            "DEL 'BGP_GLOBALS_AF_NETWORK|default|ipv4_unicast|10.10.111.0/25'",
            "DEL 'BGP_NEIGHBOR|default|Ethernet224'",
            "HDEL 'BGP_NEIGHBOR|default|Ethernet224' bfd",
            "DEL 'BGP_NEIGHBOR_AF|default|Ethernet232|ipv4_unicast'",
            "HSET 'BGP_NEIGHBOR|default|Ethernet224' admin_status false",
            "HDEL 'BGP_NEIGHBOR_AF|default|Ethernet224|ipv4_unicast' route_map_in@",
            "HSET 'BGP_NEIGHBOR_AF|default|Ethernet232|ipv4_unicast' route_map_out@ OTHERS",
            "HSET 'ROUTE_MAP|RAILYARD|10' route_operation deny",
            "HSET 'ROUTE_MAP|RAILYARD|5' route_operation deny",
            "DEL 'ROUTE_MAP|RAILYARD|10'",
            "DEL 'ROUTE_MAP_SET|RAILYARD'",
        )
    ],
}


@pytest.mark.parametrize("system", UNDONE)
def test_what_a_hand_takes_away_is_drift_and_comes_back(system: str, tmp_path: Path) -> None:
    room = rooms_of(routed_of(system, bfd=True, mode="lossless"), tmp_path)[0]
    room.record()
    room.apply()
    whole = room.switch.snapshot()
    for line in UNDONE[system]:
        room.switch.run_line(line)
        assert diff_states(room.read(), room.plan.desired), line
        assert room.apply(), line
        assert room.switch.snapshot() == whole, line


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_edit_gives_back_what_it_drops_and_can_renumber(system: str, tmp_path: Path) -> None:
    before, after = (
        routed_of(system, mode="lossless", bfd=bfd).model_dump(mode="json") for bfd in (True, False)
    )
    after["switches"][0]["routing"] |= {"asn": 65199, "router_id": "10.255.0.77"}
    last = port_name(system, 30)
    far = after["switches"][0]["ports"].pop(last)["to"].partition(":")[2]
    del after["switches"][2]["ports"][far]
    later = plan_fabric(ClusterSpec.model_validate(after))[0].desired
    read: list[SwitchState] = []
    room = rooms_of(ClusterSpec.model_validate(before), tmp_path)[0]
    check_life(room, later, check=lambda now: read.append(room.talk().read(now).state))
    assert read[1].bgp is not None
    assert (read[1].bgp.asn, last in read[1].bgp.neighbors) == (65199, False)


OFF = sonic_lab.FRRCFGD.replace(" true", " false")
NEEDED = {
    "router bgp 64999;neighbor 10.1.1.1 remote-as 65009": ("eos", "write asn: 64999"),
    "interface Loopback0;ip address 10.9.9.9/32": ("eos", "has the address 10.9.9.9/32"),
    OFF: ("sonic", "restart bgp`, and run this again"),
    merge(
        '{"BGP_GLOBALS":{"default":{"local_asn":"64999"}},'
        '"BGP_PEER_GROUP":{"default|UP":{"asn":"65009"}}}'
    ): ("sonic", "BGP_PEER_GROUP|default|UP, which another AS number would"),
    "": ("eos", "reload the switch, and run this again"),
}
"""What stands in the way, to what its system says; blank: another process of BGP."""


@pytest.mark.parametrize("line", NEEDED, ids=["number", "taken", "off", "group", "model"])
def test_a_switch_says_what_its_routing_needs(line: str, tmp_path: Path) -> None:
    system, words = NEEDED[line]
    room = rooms_of(routed_of(system, mode="lossless"), tmp_path)[0]
    if line:
        room.switch.run_line(line)
    elif isinstance(room.switch, EosSwitch):
        room.switch.stored.running.routing.model = "ribd"
    first = room.switch.snapshot()
    with pytest.raises(DeviceError) as caught:
        room.apply()
    assert words in str(caught.value)
    assert room.switch.snapshot() == first


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_fix_of_a_loop_passes(system: str) -> None:
    """Not with two fixes that point at each other: a loop of trunks may become routed links."""
    routed = routed_of(system).model_dump(mode="json")
    looped = routed_of(system).model_dump(mode="json")
    for switch in looped["switches"]:
        switch["routing"] = None
        for port in switch["ports"].values():
            port["mode"] = "trunk"
    for rail in looped["rails"]:
        rail["leaves"] = {}
    (fix, *_) = told(ClusterSpec.model_validate(looped))["link-loop"]
    assert fix.startswith("remove one link of the loop, or make the links routed: mode: routed at")
    assert told(ClusterSpec.model_validate(routed)) == {}


def test_bfd_is_refused_where_one_side_has_it() -> None:
    site = routed_of("eos", bfd=True).model_dump(mode="json")
    site["switches"][2]["routing"]["bfd"] = False
    assert told(ClusterSpec.model_validate(site)) == {
        "routing": ["write bfd: true on both switches, or on neither."] * 2
    }
    assert told(routed_of("cumulus", bfd=True)) == {}


def test_onyx_is_still_not_routed() -> None:
    looped = chain_of("onyx", 2).model_dump(mode="json")
    for leaf, far in ((0, "leaf-02"), (1, "leaf-01")):
        looped["switches"][leaf]["ports"]["1/30"] = {"to": f"{far}:1/30"}
    fixes = told(ClusterSpec.model_validate(looped))
    assert fixes == {"link-loop": ["remove one link of the loop: Onyx cannot route."]}
