"""Whether traffic is away from a switch: by forms of real answers, which are beside this file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from components.fabric.systems import system_of
from components.fabric.systems.base import Drain

FORMS = Path(__file__).parent / "forms"
SHOWN = {
    "show_maintenance_disabled.json": (False, False),
    "show_maintenance_other_unit.json": (False, False),
    "show_maintenance_entering.json": (True, False),
    "show_maintenance_away.json": (True, True),
}
"""Answer of EOS to whether it was asked to, and whether no traffic is left."""


def drain_of(system: str) -> Drain:
    found = system_of(system).drain
    assert isinstance(found, Drain)
    return found


@pytest.mark.parametrize("name", SHOWN)
def test_what_eos_says_of_maintenance(name: str) -> None:
    drain, text = drain_of("eos"), (FORMS / "eos" / name).read_text()
    for answer in (text, text.replace("\n", "\r\n")):
        found = (re.search(each, answer, re.MULTILINE) for each in (drain.is_away, drain.is_empty))
        assert tuple(each is not None for each in found) == SHOWN[name]


@pytest.mark.parametrize("word", ["on", "enabled"])
def test_what_nvue_says_of_a_graceful_shutdown(word: str) -> None:
    """5.15 says `enabled` in place of `on`; a pending value alone does not count."""
    text = (FORMS / "cumulus" / "nv_show_router_bgp.txt").read_text()
    is_away = drain_of("cumulus").is_away
    assert re.search(is_away, text, re.MULTILINE) is None
    row = "graceful-shutdown               {:<13}{}\n"
    off = row.format("off", "off")
    assert off in text
    away, waits = (text.replace(off, row.format(*each)) for each in ((word, "off"), ("off", word)))
    assert re.search(is_away, away, re.MULTILINE)
    assert re.search(is_away, waits, re.MULTILINE) is None
