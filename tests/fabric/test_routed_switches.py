"""Routed links of every system that has them: lives of whole fabrics, ways of packets, refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from components.checks.registry import RULES
from components.core.errors import DeviceError
from components.fabric.state import SwitchState, diff_states
from components.hosts.kernel import routing_settings
from components.model.cluster import ClusterSpec
from lab.switches.emulators import RoutingSwitch
from lab.switches.eos.server import EosSwitch
from tests.fabric import sonic_lab, test_cumulus_exchange, test_eos_exchange, test_sonic_exchange
from tests.fabric.fabric_lab import chain_of, port_name, problems_of, rooms_of, routed_of, told
from tests.fabric.in_process import edit, restore
from tests.fabric.lives import live
from tests.fabric.test_sonic_exchange import merge

QUICK = settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate))
"""A history is found in a second and shrunk in minutes: no shrinking."""
EOS_ROUTING = st.sampled_from(
    [
        "ip routing",
        "ip routing ipv6 interfaces",
        "ipv6 unicast-routing",
        "router bgp {asn};router-id 10.9.9.9",
        "router bgp {asn};maximum-paths 4 ecmp 4",
        "router bgp {asn};neighbor 10.1.1.1 remote-as 65009;network 10.77.0.0/24",
        "router bgp {asn};neighbor RAILYARD peer group;neighbor RAILYARD bfd",
        "router bgp {asn};neighbor U peer group;neighbor interface Et29/1 peer-group U remote-as 6",
        "router bgp {asn};maximum-paths 8;address-family ipv4;network 10.255.0.9/32",
        "interface Loopback0;description router",
        "interface Loopback1;ip address 10.9.9.9/32",
        "interface Vlan111;mtu 4000",
        "interface Vlan20;ip address 10.20.0.1/24",
        "interface Ethernet29/1;no switchport;ip address 10.1.1.0/31;mtu 3000",
        "interface Ethernet30/1;ipv6 enable",
    ]
)
SONIC_ROUTING = st.sampled_from(
    [
        merge('{"INTERFACE":{"Ethernet224":{},"Ethernet224|10.1.1.0/31":{}}}'),
        merge('{"INTERFACE":{"Ethernet232":{"ipv6_use_link_local_only":"enable"}}}'),
        merge('{"LOOPBACK_INTERFACE":{"Loopback0":{},"Loopback0|10.9.9.9/32":{}}}'),
        merge('{"LOOPBACK_INTERFACE":{"Loopback0":{},"Loopback0|10.255.0.1/32":{}}}'),
        merge('{"BGP_GLOBALS":{"default":{"local_asn":"65101","router_id":"10.9.9.9"}}}'),
        merge('{"BGP_GLOBALS":{"default":{"local_asn":"64999"}}}'),
        merge('{"BGP_GLOBALS_AF":{"default|ipv4_unicast":{"max_ebgp_paths":"4"}}}'),
        merge('{"BGP_GLOBALS_AF_NETWORK":{"default|ipv4_unicast|10.77.0.0/24":{}}}'),
        merge('{"BGP_NEIGHBOR":{"default|10.1.1.1":{"asn":"65009"}}}'),
        merge('{"BGP_NEIGHBOR":{"default|Ethernet224":{"peer_type":"internal"}}}'),
        merge('{"BGP_NEIGHBOR":{"default|Ethernet232":{"asn":"65001","bfd":"true"}}}'),
        merge('{"ROUTE_MAP":{"ALL|1":{"route_operation":"permit"}},"ROUTE_MAP_SET":{"ALL":{}}}'),
        merge('{"ROUTE_MAP":{"RAILYARD|20":{"route_operation":"deny"}}}'),
        merge(
            '{"BGP_NEIGHBOR_AF":{"default|Ethernet224|ipv4_unicast":'
            '{"admin_status":"true","route_map_in":["ALL"]}}}'
        ),
    ]
)
CUMULUS_ROUTING = st.sampled_from(
    [
        "nv set router bgp autonomous-system 64999",
        "nv set vrf default router bgp neighbor swp29 remote-as 65001",
        "nv set vrf default router bgp address-family ipv4-unicast network 10.77.0.0/24",
        "nv set interface vlan111 ip address 10.66.0.1/24",
    ]
)
TAKES = ("qos clear", "CABLE_LENGTH", "buffer_model", "to tx-queue")
"""What of others is refused before a change (test_sonic_refusals.py, WHY.md of EOS)."""
HISTORIES = {
    "eos": st.lists(
        st.one_of(EOS_ROUTING, st.integers(1, 6).flatmap(test_eos_exchange.line_of)), max_size=10
    ),
    "sonic": st.lists(st.one_of(SONIC_ROUTING, test_sonic_exchange.LINES), max_size=10),
    "cumulus": st.lists(
        st.one_of(CUMULUS_ROUTING, test_cumulus_exchange.HISTORIES.map(" ; ".join)), max_size=6
    ),
}


@pytest.mark.parametrize("system", HISTORIES)
def test_the_life_of_routed_switches(system: str) -> None:
    @QUICK
    @given(history=HISTORIES[system], flags=st.tuples(st.booleans(), st.booleans(), st.booleans()))
    def play(history: list[str], flags: tuple[bool, bool, bool]) -> None:
        bfd, own, numbered = flags
        odd = TAKES if own else (*TAKES, "10.1.1.1", "group U")  # another number would end these
        odd = (*odd, "10.1.1.0/31") if numbered and system == "eos" else odd  # one address a port
        lines = [line for line in history if not any(word in line for word in odd)]
        lines = lines if own else [line.replace("{asn}", "64999") for line in lines]
        live(routed_of(system, mode="lossless", bfd=bfd, numbered=numbered), lines)

    play()


@pytest.mark.parametrize("system", HISTORIES)
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
        ("10.10.111.0", "the port would have 10.10.111.1: the network", "a /31 of its own, every"),
        (
            "10.20.0.1",
            "has 10.20.0.1, not in 10.10.111.0/24 of rail-0",
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
    card, pods, gateway = problems_of("routed-port", site)
    assert "every second one: 10.10.111.1, 10.10.111.3" in card.fix
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


@pytest.mark.parametrize("system", ["eos", "sonic", "cumulus"])
def test_an_edit_gives_back_what_it_drops_and_can_renumber(system: str) -> None:
    before, after = (
        routed_of(system, mode="lossless", bfd=bfd).model_dump(mode="json") for bfd in (True, False)
    )
    after["switches"][0]["routing"] |= {"asn": 65199, "router_id": "10.255.0.77"}
    last = port_name(system, 30)
    far = after["switches"][0]["ports"].pop(last)["to"].partition(":")[2]
    del after["switches"][2]["ports"][far]
    specs = [ClusterSpec.model_validate(each) for each in (before, after)]
    with TemporaryDirectory() as folder:
        room, later = (rooms_of(spec, Path(folder) / str(n))[0] for n, spec in enumerate(specs))
        room.record()
        first = room.switch.snapshot()
        room.apply()
        assert room.baseline is not None
        edit(room.talk(), room.plan.desired, later.plan.desired, room.baseline)
        read: SwitchState = room.talk().read(later.plan.desired).state
        assert diff_states(read, later.plan.desired) == ()
        assert read.bgp is not None
        assert (read.bgp.asn, last in read.bgp.neighbors) == (65199, False)
        restore(room.talk(), later.plan.desired, room.baseline)
        assert room.switch.snapshot() == first


def test_an_eos_switch_says_what_its_routing_needs(tmp_path: Path) -> None:
    spec = routed_of("eos", mode="lossless")

    def refusal(name: str, hand: Callable[[EosSwitch], object]) -> str:
        room = rooms_of(spec, tmp_path / name)[0]
        assert isinstance(room.switch, EosSwitch)
        hand(room.switch)
        first = room.switch.snapshot()
        with pytest.raises(DeviceError) as caught:
            room.apply()
        assert room.switch.snapshot() == first
        return str(caught.value)

    def run_ribd(switch: EosSwitch) -> None:
        switch.stored.running.routing.model = "ribd"

    assert "reload the switch, and run this again" in refusal("model", run_ribd)
    other = "router bgp 64999;neighbor 10.1.1.1 remote-as 65009"
    assert "write asn: 64999" in refusal("number", lambda switch: switch.run_line(other))
    taken = "interface Loopback0;ip address 10.9.9.9/32"
    assert "has the address 10.9.9.9/32" in refusal("taken", lambda switch: switch.run_line(taken))


def test_a_sonic_switch_says_what_its_routing_needs(tmp_path: Path) -> None:
    spec = routed_of("sonic", mode="lossless")
    room = rooms_of(spec, tmp_path)[0]
    room.switch.run_line(sonic_lab.FRRCFGD.replace(" true", " false"))
    with pytest.raises(DeviceError, match="restart bgp`, and run this again"):
        room.apply()
    room.switch.run_line(sonic_lab.FRRCFGD)
    room.switch.run_line(merge('{"BGP_GLOBALS":{"default":{"local_asn":"64999"}}}'))
    room.switch.run_line(merge('{"BGP_PEER_GROUP":{"default|UP":{"asn":"65009"}}}'))
    with pytest.raises(DeviceError, match=r"BGP_PEER_GROUP\|default\|UP, and another number would"):
        room.apply()


@pytest.mark.parametrize("system", ["eos", "sonic", "cumulus"])
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
    assert fixes == {"link-loop": ["remove one link of the loop: Onyx is not routed."]}
