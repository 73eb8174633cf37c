"""BGP's sessions of a Cumulus switch: NVUE has them, and BFD only for whoever may run vtysh."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from components.fabric.session_state import Session, Sessions
from components.fabric.systems.base import Unreadable
from components.fabric.systems.frr import BFD, first_document, with_bfd

NEIGHBORS: Final = "nv show vrf default router bgp neighbor -o json"
WITH_BFD: Final = f'{NEIGHBORS}; sudo -n vtysh -c "{BFD}"; true'
"""NVUE lists BFD's peers from 5.15 on only, and no page shows them in JSON."""
_FAMILY: Final = "ipv4-unicast"


class _Family(BaseModel):
    networks: int | None = Field(default=None, alias="rx-prefix")


class _Neighbor(BaseModel):
    state: str = "no state"
    """A neighbour that is configured and was never there has only what was set."""
    families: dict[str, _Family] = Field(default={}, alias="address-family")


_NEIGHBORS: Final = TypeAdapter(dict[str, _Neighbor])


def parse_sessions(command: str, text: str) -> Sessions:
    """Both forms of the answer: with all details before 5.12, and the short one since.

    Raises:
        Unreadable: It is no table of neighbours.
    """
    document, rest = first_document(command, text)
    try:
        table = _NEIGHBORS.validate_python(document)
    except ValidationError as error:
        raise Unreadable(command, text, "it is no table of BGP neighbours") from error
    sessions = {
        name: Session(state=each.state, networks=each.families.get(_FAMILY, _Family()).networks)
        for name, each in table.items()
    }
    return with_bfd(sessions, rest) if command == WITH_BFD else Sessions(neighbors=sessions)
