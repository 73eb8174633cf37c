"""What an emulated SONiC switch routes by: interfaces, and BGP as frrcfgd makes it of CONFIG_DB.

frrcfgd runs only where `frr_mgmt_framework_config` is true; the other daemon, bgpcfgd, is not
modelled. A number that is there is never changed: another one acts once the row is deleted. It
gives FRR no `no bgp ebgp-requires-policy`, and FRR is started with its own defaults: a neighbour of
another number without a route map in each direction gets and tells nothing
(sonic-buildimage, src/sonic-frr-mgmt-framework/frrcfgd/frrcfgd.py; docker-fpm-frr,
supervisord.conf.j2; issue 28482).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.switches.sonic.config import Db, Fields, Stored, row
from lab.views import BfdView, RouterView

_FAMILY: Final = "ipv4_unicast"
_INTERFACES: Final = ("INTERFACE", "LOOPBACK_INTERFACE", "VLAN_INTERFACE")
_ON: Final = frozenset({"true", "up"})


def follow(stored: Stored, key: str) -> None:
    """What frrcfgd does with a row of BGP_GLOBALS; FRR takes nothing but digits for a number."""
    number = row(stored.running, "BGP_GLOBALS", key).get("local_asn")
    if not is_managed(stored.running):
        return
    if number is None:
        stored.bgp_asns.pop(key, None)
    elif number.isdigit():
        stored.bgp_asns.setdefault(key, number)


def is_managed(db: Db) -> bool:
    """Whether BGP is made of these rows."""
    return row(db, "DEVICE_METADATA", "localhost").get("frr_mgmt_framework_config") == "true"


def router_view(switch: str, stored: Stored) -> RouterView:
    """A VLAN that is not there has no interface that is up; an interface needs a row of its own."""
    db, asn = stored.running, stored.bgp_asns.get("default")
    addresses = {
        name.lower().replace("loopback0", "lo") if "thernet" not in name else name: held
        for name, held in _addresses(db).items()
    }
    if asn is None:
        return RouterView(switch, addresses, None, {}, ())
    head = f"default|{_FAMILY}|"
    networks = (key for key in db.get("BGP_GLOBALS_AF_NETWORK", {}) if key.startswith(head))
    paths = row(db, "BGP_GLOBALS_AF", head[:-1]).get("max_ebgp_paths")
    peers, policies, maps = dict(_peers(db)), dict(_policies(db)), tuple(_statements(db))
    taken = {each.split()[0] for each in maps if each.split()[1] == "permit"}
    return RouterView(
        switch=switch,
        addresses=addresses,
        asn=int(asn),
        neighbors={name: _kind(fields) for name, fields in peers.items()},
        networks=tuple(network.removeprefix(head) for network in networks),
        router_id=row(db, "BGP_GLOBALS", "default").get("router_id"),
        bfd={name: BfdView() for name, each in peers.items() if each.get("bfd") in _ON},
        max_paths=int(paths) if paths else None,
        drained=row(db, "BGP_GLOBALS", "default").get("graceful_shutdown") == "true",
        route_maps=maps,
        policies={name: policies[name] for name in peers},
        barred=frozenset(
            name
            for name, fields in peers.items()
            if _kind(fields) not in {"internal", asn} and not {*policies[name]} <= taken
        ),
    )


def uses_link_local(db: Db, port: str) -> bool:
    """Whether intfmgrd lets the kernel give a port an IPv6 address of its own (intfmgr.cpp)."""
    return row(db, "INTERFACE", port).get("ipv6_use_link_local_only") == "enable"


def _addresses(db: Db) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for table in _INTERFACES:
        for key in db.get(table, {}):
            name, _, address = key.partition("|")
            there = name in db[table] and (table != "VLAN_INTERFACE" or name in db.get("VLAN", {}))
            if address and there:
                found[name] = (*found.get(name, ()), address)
    return found


def _kind(fields: Fields) -> str:
    return fields.get("asn", fields.get("peer_type", ""))


def _peers(db: Db) -> Iterator[tuple[str, Fields]]:
    """Neighbours that carry IPv4; FRR shuts one that is off, and opens none without a family."""
    for key, fields in db.get("BGP_NEIGHBOR", {}).items():
        vrf, _, name = key.partition("|")
        family = row(db, "BGP_NEIGHBOR_AF", f"{key}|{_FAMILY}")
        up = fields.get("admin_status", "true") in _ON and family.get("admin_status") in _ON
        if vrf == "default" and up:
            yield name, fields


def _policies(db: Db) -> Iterator[tuple[str, tuple[str, str]]]:
    """Neighbour to its route maps; one that is no list gives frrcfgd its letters one by one."""
    for key, fields in db.get("BGP_NEIGHBOR_AF", {}).items():
        name = key.split("|")[1]
        if key == f"default|{name}|{_FAMILY}":
            yield name, (fields.get("route_map_in@", ""), fields.get("route_map_out@", ""))


def _statements(db: Db) -> Iterator[str]:
    """The statements of route maps; one that matches or sets anything is not modelled."""
    for key, fields in db.get("ROUTE_MAP", {}).items():
        name, _, number = key.partition("|")
        if {*fields} <= {"route_operation", "name", "stmt_name"} and "route_operation" in fields:
            yield f"{name} {fields['route_operation']} {number}"
