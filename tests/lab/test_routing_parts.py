"""What real daemons of a routed switch are given, and how their answers are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.physics.routed import find_hops
from lab.routing.lines import plan_lines
from lab.routing.links import Wire, address_lines, port_lines
from lab.routing.lldp import parse_neighbours
from lab.routing.plugs import Cabling, plan_plugs
from lab.routing.router import parse_routes
from lab.switches.neighbours import Told
from lab.views import BfdView, PortView, RouterView, RouteView

LEAF = RouterView(
    "leaf-01", {}, 65101, {"swp51": "external"}, ("10.0.1.0/24",), router_id="10.255.0.1",
    max_paths=64,
)  # fmt: skip
FAMILY = ("address-family ipv4 unicast", "exit-address-family")
WHOLE = (
    "configure terminal",
    "router bgp 65101",
    "neighbor swp51 interface remote-as external",
    "bgp router-id 10.255.0.1",
    FAMILY[0],
    "maximum-paths 64",
    FAMILY[1],
    FAMILY[0],
    "network 10.0.1.0/24",
    FAMILY[1],
    "exit",
    "end",
)


def inner(*lines: str) -> tuple[str, ...]:
    return ("configure terminal", "router bgp 65101", *lines, "exit", "end")


def test_from_nothing_and_back() -> None:
    nothing = RouterView("leaf-01", {}, None, {}, ())
    assert plan_lines(None, LEAF) == WHOLE
    assert plan_lines(LEAF, LEAF) == ()
    assert plan_lines(None, nothing) == ()
    assert plan_lines(LEAF, nothing) == ("configure terminal", "no router bgp 65101", "end")


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        ({"router_id": "10.255.0.9"}, inner("bgp router-id 10.255.0.9")),
        ({"router_id": None}, inner("no bgp router-id")),
        ({"drained": True}, inner("bgp graceful-shutdown")),
        ({"networks": ()}, inner(FAMILY[0], "no network 10.0.1.0/24", FAMILY[1])),
        (
            {"neighbors": {"swp51": "65100"}},
            inner("no neighbor swp51 interface", "neighbor swp51 interface remote-as 65100"),
        ),
        (
            {"neighbors": {"swp51": "external", "10.9.0.1": "internal"}},
            inner("neighbor 10.9.0.1 remote-as internal"),
        ),
        (
            {"bfd": {"swp51": BfdView(4, 250, 260)}},
            inner(
                "no neighbor swp51 interface",
                "neighbor swp51 interface remote-as external",
                "neighbor swp51 bfd 4 250 260",
            ),
        ),
        (
            {"asn": 65109},
            ("configure terminal", "no router bgp 65101", "router bgp 65109", *WHOLE[2:]),
        ),
    ],
)  # fmt: skip
def test_a_change(changed: dict[str, object], lines: tuple[str, ...]) -> None:
    assert plan_lines(LEAF, replace(LEAF, **changed)) == lines


def test_route_maps_are_there_while_a_neighbour_names_them() -> None:
    mapped = replace(
        LEAF, route_maps=("ALL permit 10",), policies={"swp51": ("ALL", "ALL")}, max_paths=None
    )
    lines = ("neighbor swp51 route-map ALL in", "neighbor swp51 route-map ALL out")
    assert plan_lines(replace(LEAF, max_paths=None), mapped) == (
        "configure terminal",
        "route-map ALL permit 10",
        "exit",
        *inner(*(each for line in lines for each in (FAMILY[0], line, FAMILY[1])))[1:],
    )
    assert plan_lines(mapped, replace(LEAF, max_paths=None)) == (
        *inner(*(e for line in lines[::-1] for e in (FAMILY[0], f"no {line}", FAMILY[1])))[:-1],
        "no route-map ALL permit 10",
        "end",
    )


def test_a_port_goes_up_last_and_loses_its_address_in_a_bridge() -> None:
    up = Wire(up=True, bridged=False, mtu_bytes=9216)
    assert [*port_lines("swp51", None, up)] == [
        "link set dev swp51 down",
        "link set dev swp51 mtu 9216",
        "link set dev swp51 addrgenmode eui64",
        "link set dev swp51 up",
    ]
    assert [*port_lines("swp51", up, up)] == []
    assert [*port_lines("swp51", up, replace(up, up=False))] == ["link set dev swp51 down"]
    assert [*port_lines("swp51", up, replace(up, bridged=True))] == [
        "link set dev swp51 down",
        "link set dev swp51 addrgenmode none",
        "link set dev swp51 up",
    ]
    numbered = replace(up, link_local=False)  # SONiC without ipv6_use_link_local_only
    assert [*port_lines("swp51", up, numbered)] == [
        "link set dev swp51 down",
        "link set dev swp51 addrgenmode none",
        "link set dev swp51 up",
    ]


def test_interfaces_of_vlans_come_and_go() -> None:
    old = {"lo": ("10.255.0.1/32",), "vlan111": ("10.0.1.1/24",)}
    new = {"lo": ("10.255.0.2/32",), "vlan112": ("10.0.2.1/24",)}
    assert [*address_lines(old, new, bridge_up=False)] == [
        "link delete dev vlan111",
        "address add 10.255.0.2/32 dev lo",
        "link add name vlan112 type veth peer name vlan112-far",
        "link set dev vlan112-far up",
        "link set dev vlan112 down",
        "address add 10.0.2.1/24 dev vlan112",
        "address del 10.255.0.1/32 dev lo",
    ]


def test_a_card_that_is_moved_leaves_its_port() -> None:
    leaf = Cabling("leaf-01", {"swp1": ("gpu01", "rdma0"), "swp2": ("gpu02", "rdma0")}, {})
    assert plan_plugs([leaf]) == {
        ("leaf-01", "swp1"): ("gpu01", "rdma0"),
        ("leaf-01", "swp2"): ("gpu02", "rdma0"),
    }
    moved = replace(leaf, recabled={"swp1": ("gpu02", "rdma0"), "swp3": ("gpu02", "0000:18:00.0")})
    assert plan_plugs([moved]) == {("leaf-01", "swp1"): ("gpu02", "rdma0")}


ROUTES = """\
{"10.0.2.0/24": [{"prefix": "10.0.2.0/24", "protocol": "bgp", "selected": true, "installed": true,
  "nexthops": [
    {"flags": 3, "fib": true, "ip": "fe80::1", "interfaceName": "swp2", "active": true},
    {"flags": 2, "fib": true, "ip": "fe80::2", "interfaceName": "swp1"}]}],
 "10.0.1.0/24": [{"protocol": "connected", "installed": true,
  "nexthops": [{"fib": true, "interfaceName": "vlan1", "active": true}]}],
 "10.0.1.1/32": [{"protocol": "local", "installed": true,
  "nexthops": [{"fib": true, "interfaceName": "vlan1", "active": true}]}],
 "10.0.3.0/24": [{"protocol": "bgp", "nexthops": [{"interfaceName": "swp2", "active": true}]}]}
"""
"""FRR 10.3 after a link was lost, shortened."""


def test_routes_in_use_are_read() -> None:
    assert parse_routes(ROUTES) == (
        RouteView("10.0.2.0/24", ("swp2",), connected=False),
        RouteView("10.0.1.0/24", ("vlan1",), connected=True),
    )


def test_neighbours_of_lldpd_are_read() -> None:
    host = (
        '{"lldp": [{"interface": [{"name": "swp1", "chassis": [{"name": [{"value": "gpu01"}]}], '
        '"port": [{"id": [{"type": "mac", "value": "c2:cb:64:76:61:34"}], '
        '"descr": [{"value": "rdma0"}]}]}]}]}'
    )
    told = Told("c2:cb:64:76:61:34", "rdma0", is_switch=False)
    assert parse_neighbours(host) == {"swp1": ("gpu01", told)}
    assert parse_neighbours('{"lldp": [{}]}') == {}


def port(switch: str, name: str) -> PortView:
    return PortView(
        switch, name, admin_up=True, oper_up=True, speed_gbit_s=100, mtu_bytes=9216, mode="trunk",
        access_vlan=0, allowed_vlans=frozenset(), trust="L3", dscp_to_priority=(0,) * 64,
        priority_to_tc=tuple(range(8)), ecn_kib={}, pfc_priorities=frozenset(),
    )  # fmt: skip


def test_the_routes_of_daemons_are_followed_whatever_is_configured() -> None:
    wires = [("a", "1", "s", "1"), ("a", "2", "t", "1"), ("s", "2", "b", "1"), ("t", "2", "b", "2")]
    links = tuple(
        (port(one, left), port(other, right))
        for near, here, far, there in wires
        for one, left, other, right in ((near, here, far, there), (far, there, near, here))
    )

    def router(name: str, ports: tuple[str, ...], *, connected: bool = False) -> RouterView:
        route = RouteView("10.0.2.0/24", ports, connected)
        return RouterView(name, {}, None, {}, (), routes=(route,) if ports else ())

    routers = {
        "a": router("a", ("1", "2")),
        "s": router("s", ("2",)),
        "t": router("t", ("2",)),
        "b": router("b", ("vlan1",), connected=True),
    }

    def over() -> set[str | None]:
        found = (find_hops("a", f"10.0.1.{n}", "10.0.2.9", links, routers) for n in range(10, 30))
        return {hops[0][1].switch if hops else None for hops in found}

    assert over() == {"s", "t"}
    routers["a"] = router("a", ("2",))
    assert over() == {"t"}
    routers["t"] = router("t", ("1",))
    assert over() == {None}, "a loop leads nowhere"
    routers["t"] = router("t", ())
    assert over() == {None}
