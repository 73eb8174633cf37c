"""What an emulated SONiC switch routes by: interfaces, and BGP as frrcfgd makes it of CONFIG_DB.

frrcfgd runs only where `frr_mgmt_framework_config` is true; the other daemon, bgpcfgd, is not
modelled. A number that is there is never changed: another one acts once the row is deleted
(sonic-buildimage, src/sonic-frr-mgmt-framework/frrcfgd/frrcfgd.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv4Interface
from typing import Final

from lab.switches.sonic.config import Db, Stored, row
from lab.views import RouterView

_FAMILY: Final = "ipv4_unicast"
_INTERFACES: Final = ("INTERFACE", "LOOPBACK_INTERFACE", "VLAN_INTERFACE")
_ON: Final = frozenset({"true", "up"})
_PATHS: Final = "64"
"""What FRR uses where no row says otherwise: a guess."""


def follow(stored: Stored, key: str) -> None:
    """What frrcfgd does with a row of BGP_GLOBALS."""
    fields = row(stored.running, "BGP_GLOBALS", key)
    if not is_managed(stored.running):
        return
    if "local_asn" not in fields:
        stored.bgp_asns.pop(key, None)
    else:
        stored.bgp_asns.setdefault(key, fields["local_asn"])


def is_managed(db: Db) -> bool:
    """Whether BGP is made of these rows."""
    return row(db, "DEVICE_METADATA", "localhost").get("frr_mgmt_framework_config") == "true"


def router_view(switch: str, stored: Stored) -> RouterView:
    """A VLAN that is not there has no interface that is up; an interface needs a row of its own."""
    db = stored.running
    asn = stored.bgp_asns.get("default")
    family = row(db, "BGP_GLOBALS_AF", f"default|{_FAMILY}")
    head = f"default|{_FAMILY}|"
    networks = (key for key in db.get("BGP_GLOBALS_AF_NETWORK", {}) if key.startswith(head))
    return RouterView(
        switch=switch,
        addresses={
            name.lower().replace("loopback0", "lo") if "thernet" not in name else name: addresses
            for name, addresses in _addresses(db).items()
        },
        asn=int(asn) if asn else None,
        neighbors=dict(_sessions(db)) if asn else {},
        networks=tuple(network.removeprefix(head) for network in networks) if asn else (),
        max_paths=int(family.get("max_ebgp_paths", _PATHS)),
    )


def is_address(name: str) -> bool:
    """Whether a neighbour is named by its IPv4 address."""
    try:
        IPv4Address(name)
    except AddressValueError:
        return False
    return True


def _addresses(db: Db) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for table in _INTERFACES:
        for key in db.get(table, {}):
            name, _, address = key.partition("|")
            there = name in db[table] and (table != "VLAN_INTERFACE" or name in db.get("VLAN", {}))
            if address and there:
                found[name] = (*found.get(name, ()), address)
    return found


def _sessions(db: Db) -> Iterator[tuple[str, str]]:
    """Neighbours that carry IPv4: over a port with a link-local address, or by one in a network."""
    networks = [IPv4Interface(each).network for held in _addresses(db).values() for each in held]
    for key, fields in db.get("BGP_NEIGHBOR", {}).items():
        vrf, _, name = key.partition("|")
        family = row(db, "BGP_NEIGHBOR_AF", f"{key}|{_FAMILY}")
        uses = row(db, "INTERFACE", name).get("ipv6_use_link_local_only") == "enable"
        uses |= is_address(name) and any(IPv4Address(name) in each for each in networks)
        up = fields.get("admin_status", "true") in _ON and family.get("admin_status") in _ON
        if vrf == "default" and uses and up:
            yield name, fields.get("asn", fields.get("peer_type", ""))
