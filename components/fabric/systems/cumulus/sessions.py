"""What a Cumulus switch hears: links, neighbours, and BGP's sessions.

NVUE has the sessions, and BFD only for whoever may run vtysh.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from components.fabric.parts import Session, Sessions
from components.fabric.state import Neighbour
from components.fabric.systems.base import Unreadable
from components.fabric.systems.cumulus.read import SWP, load
from components.fabric.systems.cumulus.tree import Tree, child
from components.fabric.systems.frr import BFD, ROUTES, first_document, with_bfd, with_routes

NEIGHBORS: Final = "nv show vrf default router bgp neighbor -o json"
WITH_BFD: Final = f'{NEIGHBORS}; sudo -n vtysh -c "{BFD}"; true'
"""NVUE lists BFD's peers from 5.15 on only, and no page shows them in JSON."""
NEXT_HOPS: Final = f'sudo -n vtysh -c "{ROUTES}"; true'
"""NVUE's list of routes names a group in place of next hops in later releases (page RIB)."""
_FAMILY: Final = "ipv4-unicast"


class _Family(BaseModel):
    networks: int | None = Field(default=None, alias="rx-prefix")


class _Neighbor(BaseModel):
    state: str = "no state"
    """A neighbour that is configured and was never there has only what was set."""
    families: dict[str, _Family] = Field(default={}, alias="address-family")


_NEIGHBORS: Final = TypeAdapter(dict[str, _Neighbor])


def parse_sessions(answers: Mapping[str, str]) -> Sessions:
    """Both forms of the first answer: with all details before 5.12, and the short one since.

    Raises:
        Unreadable: It is no table of neighbours.
    """
    (command, text), (_, routes) = answers.items()
    document, rest = first_document(command, text)
    try:
        table = _NEIGHBORS.validate_python(document)
    except ValidationError as error:
        raise Unreadable(command, text, "it is no table of BGP neighbours") from error
    sessions = {
        name: Session(state=each.state, networks=each.families.get(_FAMILY, _Family()).networks)
        for name, each in table.items()
    }
    found = with_bfd(sessions, rest) if command == WITH_BFD else Sessions(neighbors=sessions)
    return with_routes(found, routes)


def parse_links(command: str, text: str) -> dict[str, bool]:
    """The same table: `link.oper-status` of each port (a public napalm driver for NVUE)."""
    value = load(command, text)
    table: Tree = value if isinstance(value, dict) else {}
    links = {name: child(table, name, "link") for name in filter(SWP.fullmatch, table)}
    told = {name: link["oper-status"] for name, link in links.items() if "oper-status" in link}
    return {name: state == "up" for name, state in told.items()}


def parse_neighbours(command: str, text: str) -> dict[str, Neighbour]:
    """`nv show interface lldp -o json`: the keys that a public client reads; front panel only."""
    value = load(command, text)
    table: Tree = value if isinstance(value, dict) else {}
    found: dict[str, Neighbour] = {}
    for name in filter(SWP.fullmatch, table):
        heard = child(table, name, "lldp", "neighbor")
        for key in heard:
            system = child(heard, key, "chassis").get("system-name", key)
            port = child(heard, key, "port")
            found[name] = Neighbour(
                system=str(system),
                port=str(port.get("name", "")),
                description=str(port.get("description", "")),
            )
    return found
