"""What `smpquery` says of a port, and `saquery` of the managers, as plain values. Pure."""

from __future__ import annotations

import re
from typing import Final

from components.core.record import record

_FIELD: Final = re.compile(r"^(\w+):\.*(.*)$", re.MULTILINE)
_KEYS: Final = re.compile(r"^ *\d+: (.*)$", re.MULTILINE)
_RECORD: Final = re.compile(r"^\s*(LID|GUID|Priority|SMState)\.+(\S+)$", re.MULTILINE)
STATES: Final = {"Down": 1, "Initialize": 2, "Armed": 3, "Active": 4}
"""Words of infiniband-diags for the states of a port, as the specification numbers them."""


@record
class PortState:
    """One HCA port as its subnet has it."""

    state: int = 1
    link_up: bool = False
    lid: int = 0
    sm_lid: int = 0


DOWN: Final = PortState()
"""A port without a link: it cannot be opened, so nothing is known of it."""


@record
class KnownManager:
    """One subnet manager that the master knows."""

    lid: int
    guid: str
    priority: int
    state: int


def parse_port(text: str) -> PortState:
    """Read `smpquery portinfo`.

    Raises:
        KeyError: A field is missing, or a state is an unknown word.
    """
    fields = {name: value.strip() for name, value in _FIELD.findall(text)}
    return PortState(
        STATES[fields["LinkState"]],
        fields["PhysLinkState"] == "LinkUp",
        int(fields["Lid"]),
        int(fields["SMLid"]),
    )


def parse_keys(text: str) -> tuple[int, ...]:
    """Read `smpquery pkeys`: the whole table of the port, empty entries too."""
    return tuple(int(word, 16) for row in _KEYS.findall(text) for word in row.split())


def parse_managers(text: str) -> tuple[KnownManager, ...]:
    """Read `saquery SMIR`, the master first."""
    found = [dict(_RECORD.findall(block)) for block in text.split("SMInfoRecord dump:")[1:]]
    known = [
        KnownManager(
            int(each["LID"]),
            each["GUID"].removeprefix("0x"),
            int(each["Priority"]),
            int(each["SMState"]),
        )
        for each in found
    ]
    return tuple(sorted(known, key=lambda each: -each.state))
