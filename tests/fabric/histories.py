"""What somebody may have typed on a switch before us, by its system."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import strategies as st

from tests.fabric import (
    test_cumulus_exchange,
    test_eos_exchange,
    test_exchange,
    test_sonic_exchange,
)
from tests.fabric.in_process import load_table
from tests.fabric.test_sonic_exchange import merge

Lines = st.SearchStrategy[list[str]]


def as_line(typed: str | dict[str, Any]) -> str:
    """A line, or the one that merges rows into CONFIG_DB of SONiC."""
    return typed if isinstance(typed, str) else merge(json.dumps(typed, separators=(",", ":")))


TYPED: Final = load_table("histories.yaml")
EOS_ROUTING = st.sampled_from(TYPED["eos"])
SONIC_ROUTING = st.sampled_from([*map(as_line, TYPED["sonic"])])
CUMULUS_ROUTING = st.sampled_from(TYPED["cumulus"])
CUMULUS_ANY = st.one_of(CUMULUS_ROUTING, test_cumulus_exchange.HISTORIES.map(" ; ".join))
EOS_ANY = st.one_of(EOS_ROUTING, st.integers(1, 6).flatmap(test_eos_exchange.line_of))
PLAIN: Final[dict[str, Lines]] = {
    "onyx": test_exchange.HISTORIES,
    "cumulus": st.lists(CUMULUS_ANY, max_size=8),
    "eos": test_eos_exchange.HISTORIES,
    "sonic": test_sonic_exchange.HISTORIES,
}
"""On a switch that need not be routed."""
HISTORIES: Final[dict[str, Lines]] = {
    **PLAIN,
    "eos": st.lists(EOS_ANY, max_size=10),
    "sonic": st.lists(st.one_of(SONIC_ROUTING, test_sonic_exchange.LINES), max_size=10),
}
"""On one that may be; `{asn}` is the number of its own."""
TAKES: Final = ("qos clear", "CABLE_LENGTH", "buffer_model", "to tx-queue")
"""What of others is refused before a change (test_sonic_refusals.py, WHY.md of EOS)."""


def without(lines: list[str], *words: str) -> list[str]:
    """The lines with none of some words."""
    return [line for line in lines if not any(word in line for word in words)]
