"""Routed interfaces and BGP of a SONiC switch, read from rows of CONFIG_DB.

BGP is made of BGP_GLOBALS, BGP_NEIGHBOR and their like by frrcfgd, the configuration daemon of the
unified management framework (SONiC's design "Unified FRR Mgmt Interface"; sonic-bgp-*.yang). The
other one, bgpcfgd, knows no sessions over ports and no BFD, and a switch has one of the two:
docs/explanation/sources.md#sonic.

frrcfgd leaves `bgp ebgp-requires-policy` on, as FRR has it by default: without a route map in each
direction a session comes up and carries no route (RFC 8212). So ours name one that permits all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import TypeAdapter

from components.fabric.native import write_text
from components.fabric.state import BgpState, SwitchState
from components.fabric.systems.sonic.facts import OUR_NAME
from components.fabric.systems.sonic.rows import Fields, Rows

Tables = Mapping[str, Mapping[str, Fields]]
LINK_LOCAL: Final = "link-local"
LOOPBACK: Final = "Loopback0"
MAX_PATHS: Final = 64
"""`max_ebgp_paths`, 1 to 256 (sonic-bgp-global.yang, whose default is 1)."""
WORDS: Final = "routing"
"""Key of a switch's `native`: the rows as they are."""
_ROWS: Final[TypeAdapter[Rows]] = TypeAdapter(Rows)
_INTERFACES: Final = ("INTERFACE", "LOOPBACK_INTERFACE", "VLAN_INTERFACE")
_BGP_TABLES: Final = ("BGP_", "ROUTE_REDISTRIBUTE")
_MAPS: Final = ("ROUTE_MAP", "ROUTE_MAP_SET")
_SECRET: Final = frozenset({"auth_password"})
METADATA: Final = "DEVICE_METADATA|localhost"
MODE: Final = "frr_mgmt_framework_config"
GLOBALS: Final = "BGP_GLOBALS|default"
FAMILY: Final = "ipv4_unicast"
SHUTDOWN: Final = "graceful_shutdown"
"""A field of GLOBALS that no edit touches: it drains the switch while it changes."""
AF: Final = f"BGP_GLOBALS_AF|default|{FAMILY}"
NETWORK: Final = f"BGP_GLOBALS_AF_NETWORK|default|{FAMILY}|"
NEIGHBOR: Final = "BGP_NEIGHBOR|default|"
NEIGHBOR_AF: Final = "BGP_NEIGHBOR_AF|default|"
USE_LINK_LOCAL: Final[Fields] = {"ipv6_use_link_local_only": "enable"}
POLICY: Final[Fields] = {"route_map_in@": OUR_NAME, "route_map_out@": OUR_NAME}
"""Of a neighbour's address family; `@` is how Redis has a list."""
OUR_MAPS: Final[Rows] = {
    f"ROUTE_MAP_SET|{OUR_NAME}": {},
    f"ROUTE_MAP|{OUR_NAME}|10": {"route_operation": "permit"},
}
"""The route map that permits all; the set is what the YANG model's references lead to."""
_ON: Final = frozenset({"true", "up"})


def routing_words(tables: Tables) -> dict[str, str]:
    """The rows as `SwitchState.native` holds them, without what is secret in them."""
    rows = {
        f"{table}|{key}": {name: fields[name] for name in fields if name not in _SECRET}
        for table in tables
        if table in (*_INTERFACES, *_MAPS) or table.startswith(_BGP_TABLES)
        for key, fields in tables[table].items()
        if table not in _MAPS or key.partition("|")[0] == OUR_NAME
    }
    mode = tables.get("DEVICE_METADATA", {}).get("localhost", {}).get(MODE)
    rows |= {} if mode is None else {METADATA: {MODE: mode}}
    return {WORDS: write_text(rows)}


def factory_words() -> dict[str, str]:
    """Of a switch whose BGP is made by frrcfgd, and has none."""
    return {WORDS: write_text({METADATA: {MODE: "true"}})}


def rows_of(state: SwitchState) -> Rows:
    """The rows that a state keeps."""
    text = state.native.get(WORDS)
    return {} if text is None else _ROWS.validate_json(text)


def bgp_of_rows(rows: Rows) -> BgpState:
    """The BGP that some rows make."""
    tables: dict[str, dict[str, Fields]] = {}
    for row, fields in rows.items():
        table, _, key = row.partition("|")
        tables.setdefault(table, {})[key] = fields
    return bgp_of(tables)


def addresses_of(tables: Tables) -> dict[str, tuple[str, ...]]:
    """Routed interface to what it has."""
    found: dict[str, list[str]] = {}
    for table in _INTERFACES:
        for key, fields in tables.get(table, {}).items():
            name, _, address = key.partition("|")
            held = found.setdefault(name, [])
            if address:
                held.append(address)
            elif USE_LINK_LOCAL.items() <= fields.items():
                held.append(LINK_LOCAL)
    return {name: tuple(held) for name, held in found.items()}


def bgp_of(tables: Tables) -> BgpState:
    """BGP of the default VRF."""
    own = tables.get("BGP_GLOBALS", {}).get("default", {})
    family = tables.get("BGP_GLOBALS_AF", {}).get(f"default|{FAMILY}", {})
    peers = {
        name: fields
        for key, fields in tables.get("BGP_NEIGHBOR", {}).items()
        for vrf, _, name in [key.partition("|")]
        if vrf == "default" and name
    }
    asn, paths = own.get("local_asn", ""), family.get("max_ebgp_paths", "")
    networks = (
        key.removeprefix(f"default|{FAMILY}|") for key in tables.get("BGP_GLOBALS_AF_NETWORK", {})
    )
    return BgpState(
        asn=int(asn) if asn.isdigit() else None,
        router_id=own.get("router_id"),
        neighbors={name: _number_of(tables, name, fields) for name, fields in peers.items()},
        networks=tuple(each for each in networks if "|" not in each),
        bfd=tuple(name for name, fields in peers.items() if fields.get("bfd") in _ON),
        max_paths=int(paths) if paths.isdigit() else None,
    )


def _number_of(tables: Tables, name: str, fields: Fields) -> str:
    """Its number or kind; empty where it is shut, or carries no route of IPv4."""
    family = tables.get("BGP_NEIGHBOR_AF", {}).get(f"default|{name}|{FAMILY}", {})
    works = family.get("admin_status") in _ON and fields.get("admin_status", "true") in _ON
    carries = POLICY.items() <= family.items() and _our_maps(tables) == OUR_MAPS
    return fields.get("asn", fields.get("peer_type", "")) if works and carries else ""


def _our_maps(tables: Tables) -> Rows:
    return {
        f"{table}|{key}": fields
        for table in _MAPS
        for key, fields in tables.get(table, {}).items()
        if key.partition("|")[0] == OUR_NAME
    }
