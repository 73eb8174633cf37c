"""BGP's sessions of a SONiC switch, from the FRR in its container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from components.fabric.parts import Sessions
from components.fabric.systems.frr import (
    BFD,
    ROUTES,
    first_document,
    parse_summary,
    with_bfd,
    with_routes,
)

SUMMARY: Final = 'sudo vtysh -c "show bgp ipv4 unicast summary json"'
WITH_BFD: Final = f'{SUMMARY} -c "{BFD}"; true'
"""Where bfdd does not run, vtysh says so and fails."""
NEXT_HOPS: Final = f'sudo vtysh -c "{ROUTES}"'


def parse_sessions(answers: Mapping[str, str]) -> Sessions:
    """The summary, what BFD says behind it where it was asked, and the routes.

    Raises:
        Unreadable: It is no summary of FRR's.
    """
    (command, text), (_, routes) = answers.items()
    document, rest = first_document(command, text)
    sessions = parse_summary(command, text, document)
    found = with_bfd(sessions, rest) if command == WITH_BFD else Sessions(neighbors=sessions)
    return with_routes(found, routes)
