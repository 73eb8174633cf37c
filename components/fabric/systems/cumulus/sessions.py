"""BGP's sessions of a Cumulus switch: NVUE has them, and BFD only for whoever may run vtysh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from components.fabric.parts import Session, Sessions
from components.fabric.systems.base import Unreadable
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
