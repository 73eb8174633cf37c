"""BGP's sessions of an EOS switch, BFD's, and the next hops in use.

Sources: docs/explanation/sources.md#eos. A neighbour on a port is named by its link-local address
and the port, `fe80::1%Et49/1`, and is there only once it was heard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel, Field, ValidationError

from components.fabric.parts import Session, Sessions, why_unread
from components.fabric.systems.base import Unreadable

SUMMARY: Final = "show ip bgp summary | json"
BFD: Final = "show bfd peers | json"
ROUTES: Final = "show ip route | json"
_ON_PORT: Final = re.compile(r"^fe80:[0-9a-f:]*%(?:Et|Ethernet)(\S+)$", re.IGNORECASE)


class _Peer(BaseModel):
    state: str = Field(alias="peerState")
    networks: int | None = Field(default=None, alias="prefixReceived")


class _Vrf(BaseModel):
    peers: dict[str, _Peer] = {}


class _Summary(BaseModel):
    vrfs: dict[str, _Vrf]


def parse_sessions(answers: Mapping[str, str]) -> Sessions:
    """Neighbours by port or address.

    Raises:
        Unreadable: The summary has another form; of BFD, that it alone is not known.
    """
    text = answers[SUMMARY]
    try:
        vrf = _Summary.model_validate_json(text).vrfs.get("default", _Vrf())
    except ValidationError as error:
        raise Unreadable(SUMMARY, text, "it is no summary of BGP") from error
    found = {
        _name(address): Session(state=peer.state, networks=peer.networks)
        for address, peer in vrf.peers.items()
    }
    sessions = _with_bfd(found, answers[BFD]) if BFD in answers else Sessions(neighbors=found)
    return _with_routes(sessions, answers[ROUTES])


def _name(address: str) -> str:
    on_port = _ON_PORT.match(address)
    return f"Ethernet{on_port[1]}" if on_port else address


class _Via(BaseModel):
    interface: str


class _Route(BaseModel):
    vias: list[_Via] = []


class _Table(BaseModel):
    routes: dict[str, _Route] = {}


class _Tables(BaseModel):
    vrfs: dict[str, _Table]


def _with_routes(sessions: Sessions, text: str) -> Sessions:
    """The same with the ports of all next hops; a way without a port is no form that we know."""
    try:
        table = _Tables.model_validate_json(text).vrfs.get("default", _Table())
    except ValidationError:
        return sessions.model_copy(update={"routes_unread": why_unread(text)})
    routes = {
        network: tuple(sorted({via.interface for via in route.vias}))
        for network, route in table.routes.items()
    }
    return sessions.model_copy(update={"routes": routes})


class _BfdPeers(BaseModel):
    vrfs: dict[str, dict[str, Any]]


def _with_bfd(sessions: dict[str, Session], text: str) -> Sessions:
    try:
        vrf = _BfdPeers.model_validate_json(text).vrfs.get("default", {})
    except ValidationError:
        return Sessions(neighbors=sessions, bfd_unread=" ".join(text.split()) or "no answer")
    families = (vrf.get(family, {}) for family in ("ipv4Neighbors", "ipv6Neighbors"))
    states = {
        name: status
        for family in families
        for address, held in cast("dict[str, object]", family).items()
        for port, status in _statuses(held)
        for name in (address, f"Ethernet{re.sub('^(Ethernet|Et)', '', port)}" if port else address)
    }
    return Sessions(
        neighbors={
            name: session.model_copy(update={"bfd": states.get(name, "down")})
            for name, session in sessions.items()
        }
    )


def _statuses(held: object, port: str = "") -> Iterator[tuple[str, str]]:
    """Port and state of each session of an address.

    Releases differ in what is between the address and the session (`peerStats`, or `peers` by
    port and `types`): each has `status` and, on one hop, `l3intf`.
    """
    if not isinstance(held, dict):
        return
    table = cast("dict[str, object]", held)
    status = table.get("status")
    if isinstance(status, str):
        yield str(table.get("l3intf") or port), status
        return
    for key, inner in table.items():
        yield from _statuses(inner, key if key.startswith("Et") else port)
