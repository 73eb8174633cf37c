"""What Cumulus and SONiC share: bash as the command line, and FRR's answers about BGP and BFD.

A refusal is an exit status or a text, since a few commands print an error and exit 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from components.fabric.parts import LATER, Session, Sessions, why_unread
from components.fabric.systems.base import Answer, Question
from components.remote.session_profile import SessionProfile

SESSION: Final = SessionProfile(
    # `cumulus@leaf-01:mgmt:~$ `: the VRF of the login is between host and folder. SONiC omits it:
    # `admin@leaf-01:~$ `.
    prompt=r"(?P<own>[^@\r\n]*@[\w.-]+:(?:[\w-]+:)?[^\s$#]*)[$#] ",
    # A dumb terminal gets neither colours nor bracketed paste, and nothing pages.
    prepare=("export TERM=dumb PAGER=cat",),
    has_status=True,
)
_STATUS: Final = re.compile(r"^\[status (?!0\])[^\]]*\]$", re.MULTILINE)
"""The mark that the session appends for an exit status other than 0."""
BFD: Final = "show bfd peers json"
ROUTES: Final = "show ip route bgp json"


def find_refusal(
    output: str, errors: Iterable[str], shorten: Callable[[str], str] = lambda text: text
) -> str | None:
    """The error in the output of a command, on one line, or None."""
    failed = _STATUS.search(output)
    if failed is None and not any(text in output for text in errors):
        return None
    text = " ".join(shorten(_STATUS.sub("", output)).split())
    return text or (failed.group(0) if failed else output)


class _Shown(BaseModel):
    """Part of an answer; its reader is built at first use."""

    model_config = LATER


class _Peer(_Shown):
    state: str
    networks: int | None = Field(default=None, alias="pfxRcd")


class _Summary(_Shown):
    peers: dict[str, _Peer] = {}
    """FRR answers `{}` without BGP, or without neighbours."""


class _BfdPeer(_Shown):
    peer: str
    interface: str = ""
    status: str


_BFD_PEERS: Final = TypeAdapter(list[_BfdPeer], config=LATER)


class _NextHop(_Shown):
    port: str = Field(alias="interfaceName", default="")
    fib: bool = False
    active: bool = False


class _Route(_Shown):
    selected: bool = False
    hops: list[_NextHop] = Field(alias="nexthops", default=[])


_ROUTES: Final = TypeAdapter(dict[str, list[_Route]], config=LATER)


def sessions_questions(
    commands: tuple[str, str, str], read: Callable[[object], dict[str, Session]], why: str
) -> tuple[Question[Sessions], Question[Sessions]]:
    """Ask for sessions alone, or with BFD, and for the next hops.

    `read` takes the JSON document of the first answer; `why` says that it has another form.
    """
    first, with_bfd, next_hops = commands

    def parse(answers: Mapping[str, str]) -> Sessions:
        """Without the right to ask, or without the daemon, BFD or routes alone are not known."""
        (command, text), (_, table) = answers.items()
        with Answer(command, text).reading("the answer is not in JSON"):
            document, at = json.JSONDecoder().raw_decode(text.strip())
        with Answer(command, text).reading(why):
            found = read(document)
        bfd_unread, peers = "", text.strip()[at:].strip()
        try:
            answered = _BFD_PEERS.validate_json(peers) if command == with_bfd else ()
            states = {n: each.status for each in answered for n in (each.interface, each.peer)}
            for name, each in found.items() if command == with_bfd else ():
                # If the answer omits a neighbour, BFD is down there.
                found[name] = each.model_copy(update={"bfd": states.get(name, "down")})
        except ValidationError:
            bfd_unread = why_unread(peers)
        known = Sessions(neighbors=found, bfd_unread=bfd_unread)
        try:
            # A next hop counts that zebra has put into the kernel and whose link is up.
            routes = {
                network: tuple(sorted({hop.port for hop in each.hops if hop.fib and hop.active}))
                for network, entries in _ROUTES.validate_json(table).items()
                for each in entries
                if each.selected
            }
        except ValidationError:
            return known.model_copy(update={"routes_unread": why_unread(table)})
        return known.model_copy(update={"routes": routes})

    return Question((first, next_hops), parse), Question((with_bfd, next_hops), parse)


def read_summary(document: object) -> dict[str, Session]:
    """`show bgp ipv4 unicast summary json`: neighbours by port or address."""
    peers = _Summary.model_validate(document).peers
    return {name: Session(state=peer.state, networks=peer.networks) for name, peer in peers.items()}
