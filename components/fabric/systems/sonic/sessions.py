"""BGP's sessions of a SONiC switch, from the FRR in its container."""

from __future__ import annotations

from typing import Final

from components.fabric.session_state import Sessions
from components.fabric.systems.frr import BFD, first_document, parse_summary, with_bfd

SUMMARY: Final = 'sudo vtysh -c "show bgp ipv4 unicast summary json"'
WITH_BFD: Final = f'{SUMMARY} -c "{BFD}"; true'
"""Where bfdd does not run, vtysh says so and fails."""


def parse_sessions(command: str, text: str) -> Sessions:
    """The summary, and what BFD says behind it where it was asked.

    Raises:
        Unreadable: It is no summary of FRR's.
    """
    document, rest = first_document(command, text)
    sessions = parse_summary(command, text, document)
    return with_bfd(sessions, rest) if command == WITH_BFD else Sessions(neighbors=sessions)
