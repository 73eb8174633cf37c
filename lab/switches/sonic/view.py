"""How an emulated SONiC switch treats packets: its ports, and BGP as frrcfgd configures it.

frrcfgd only runs if `frr_mgmt_framework_config` is true; the other daemon, bgpcfgd, is not
modelled. An AS number never changes in place: a new one acts once the row is deleted. frrcfgd does
not send `no bgp ebgp-requires-policy`, and FRR starts with its own defaults. So an eBGP neighbour
needs a route map in each direction, or no route passes between them (sonic-buildimage,
src/sonic-frr-mgmt-framework/frrcfgd/frrcfgd.py; docker-fpm-frr, supervisord.conf.j2; issue 28482).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lab.switches.onyx.config import Mode, Trust
from lab.switches.sonic.config import FACTORY_MTU, Db, Fields, Stored, row
from lab.switches.text import expand
from lab.views import BfdView, PortView, RouterView

if TYPE_CHECKING:
    from lab.switches.sonic.server import SonicSwitch

_FAMILY: Final = "ipv4_unicast"
_INTERFACES: Final = ("INTERFACE", "LOOPBACK_INTERFACE", "VLAN_INTERFACE")
_ON: Final = frozenset({"true", "up"})


def router_view(switch: str, stored: Stored) -> RouterView:
    """The view of routing: an interface needs its own row, and a VLAN's interface its VLAN."""
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
    """Neighbours that carry IPv4: both the neighbour and its address family must be on."""
    for key, fields in db.get("BGP_NEIGHBOR", {}).items():
        vrf, _, name = key.partition("|")
        family = row(db, "BGP_NEIGHBOR_AF", f"{key}|{_FAMILY}")
        up = fields.get("admin_status", "true") in _ON and family.get("admin_status") in _ON
        if vrf == "default" and up:
            yield name, fields


def _policies(db: Db) -> Iterator[tuple[str, tuple[str, str]]]:
    """Neighbour to its route maps; frrcfgd reads a text instead of a list letter by letter."""
    for key, fields in db.get("BGP_NEIGHBOR_AF", {}).items():
        name = key.split("|")[1]
        if key == f"default|{name}|{_FAMILY}":
            yield name, (fields.get("route_map_in@", ""), fields.get("route_map_out@", ""))


def _statements(db: Db) -> Iterator[str]:
    """The statements of route maps; those with a match or a set are not modelled."""
    for key, fields in db.get("ROUTE_MAP", {}).items():
        name, _, number = key.partition("|")
        if {*fields} <= {"route_operation", "name", "stmt_name"} and "route_operation" in fields:
            yield f"{name} {fields['route_operation']} {number}"


_BYTES_PER_KIB = 1024


def view_port(switch: SonicSwitch, port: str) -> PortView:
    """The state of an existing port."""
    db = switch.stored.running
    fields, qos = row(db, "PORT", port), row(db, "PORT_QOS_MAP", port)
    mode, access, allowed = _membership(db, port)
    return PortView(
        switch=switch.name,
        port=port,
        admin_up=fields.get("admin_status", "down") == "up",
        oper_up=switch.up(port),
        speed_gbit_s=switch.platform.speed_gbit_s,
        mtu_bytes=int(fields.get("mtu", FACTORY_MTU)),
        mode=mode,
        access_vlan=access,
        allowed_vlans=allowed,
        trust=_trust(db, port),
        # Without a map everything is class 0, and class 0 is queue 0 (SAI; a guess).
        dscp_to_priority=_numbers(row(db, "DSCP_TO_TC_MAP", _dscp_map(db, port)), 64),
        priority_to_tc=_numbers(row(db, "TC_TO_QUEUE_MAP", qos.get("tc_to_queue_map", "")), 8),
        ecn_kib=_ecn(db, port),
        pfc_priorities=_paused(switch.stored, qos, port),
        # intfmgrd lets the kernel give the port an IPv6 address of its own (intfmgr.cpp).
        link_local=row(db, "INTERFACE", port).get("ipv6_use_link_local_only") == "enable",
    )


def _paused(stored: Stored, qos: Fields, port: str) -> frozenset[int]:
    """Priorities with PFC whose priority group has headroom in the chip."""
    db, chip = stored.running, stored.groups.get(port, {})
    groups = row(db, "TC_TO_PRIORITY_GROUP_MAP", qos.get("tc_to_pg_map", ""))
    listed = [int(part) for part in qos.get("pfc_enable", "").split(",") if part]
    return frozenset(
        n
        for n in listed
        if groups.get(str(n)) == str(n) and "xoff" in row(db, "BUFFER_PROFILE", chip.get(n, ""))
    )


def _membership(db: Db, port: str) -> tuple[Mode, int, frozenset[int]]:
    untagged, tagged = 0, set[int]()
    for key, fields in db.get("VLAN_MEMBER", {}).items():
        vlan, _, member = key.partition("|")
        if member == port and fields.get("tagging_mode") == "untagged":
            untagged = int(vlan.removeprefix("Vlan"))
        elif member == port:
            tagged.add(int(vlan.removeprefix("Vlan")))
    if not untagged:
        return "trunk", 0, frozenset(tagged)
    return ("hybrid" if tagged else "access"), untagged, frozenset(tagged)


def _dscp_map(db: Db, port: str) -> str:
    own = row(db, "PORT_QOS_MAP", port).get("dscp_to_tc_map")
    return own or row(db, "PORT_QOS_MAP", "global").get("dscp_to_tc_map", "")


def _trust(db: Db, port: str) -> Trust:
    dscp = bool(row(db, "DSCP_TO_TC_MAP", _dscp_map(db, port)))
    if "dot1p_to_tc_map" in row(db, "PORT_QOS_MAP", port):
        return "both" if dscp else "L2"
    return "L3" if dscp else "port"


def _numbers(fields: dict[str, str], count: int) -> tuple[int, ...]:
    return tuple(int(fields.get(str(n), "0")) for n in range(count))


def _ecn(db: Db, port: str) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for key, fields in db.get("QUEUE", {}).items():
        name, _, span = key.partition("|")
        profile = row(db, "WRED_PROFILE", fields.get("wred_profile", ""))
        if name != port or profile.get("ecn", "ecn_none") == "ecn_none":
            continue
        limits = [
            int(profile[f"green_{end}_threshold"]) // _BYTES_PER_KIB for end in ("min", "max")
        ]
        found |= dict.fromkeys(expand(span), (limits[0], limits[1]))
    return found
