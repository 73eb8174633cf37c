"""Each release of Cumulus in its own words: 5.15 moved addresses, and 5.16 the negotiation."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.fabric.state import diff_states
from lab.switches.cumulus.config import child
from lab.switches.cumulus.server import CumulusSwitch
from tests.fabric.whole_intents import whole_of, whole_rooms

OLD, NEW = "5.14.0", "5.15.0"
WORDS = {
    "5.8.1": ("ip", {"enable": "on"}, "on"),
    OLD: ("ip", {"enable": "on"}, "on"),
    NEW: ("ipv4", {"state": "enabled"}, "on"),
    "5.16.0": ("ipv4", {"state": "enabled"}, "enabled"),
}
"""Release to the branch of addresses, what switches BGP on, and a negotiation that is on."""


@pytest.mark.parametrize("release", WORDS)
def test_the_laws_hold_in_the_words_of_a_release(release: str, tmp_path: Path) -> None:
    below, on, negotiates = WORDS[release]
    spec = whole_of("cumulus")
    spec = spec.model_copy(
        update={"switches": tuple(s.model_copy(update={"release": release}) for s in spec.switches)}
    )
    for room in whole_rooms(spec, tmp_path):
        switch = room.switch
        assert isinstance(switch, CumulusSwitch)
        switch.run_line(f"nv set interface lo {below} address 10.99.0.1/32")
        switch.run_line(f"nv set interface swp40 link auto-negotiate {negotiates}")
        room.save()
        first = switch.snapshot()
        room.record()
        room.apply()
        assert diff_states(room.read(), room.plan.desired) == ()
        assert room.apply() == ()
        assert switch.router_view().addresses["lo"][0] == "10.99.0.1/32"
        assert on.items() <= child(switch.stored.applied, "router", "bgp").items()
        room.restore()
        assert switch.snapshot() == first
        assert switch.unmodelled == ()


@pytest.mark.parametrize(
    ("release", "line"),
    [
        (OLD, "nv set interface lo ipv4 address 10.99.0.1/32"),
        (NEW, "nv set interface lo ip address 10.99.0.1/32"),
        (NEW, "nv set router adaptive-routing enable on"),
        (NEW, "nv set qos roce enable on"),
        (NEW, "nv set vrf default router bgp neighbor swp1 bfd enable on"),
        (OLD, "nv set router bfd state enabled"),
        (NEW, "nv set interface swp1 link auto-negotiate enabled"),
        ("5.16.0", "nv set interface swp1 link auto-negotiate on"),
        ("5.3.0", "nv set interface swp1 link breakout 2x"),
    ],
)
def test_the_lab_refuses_the_words_of_another_release(
    release: str, line: str, tmp_path: Path
) -> None:
    spec = whole_of("cumulus")
    leaf = spec.switches[0].model_copy(update={"release": release})
    spec = spec.model_copy(update={"switches": (leaf, *spec.switches[1:])})
    switch = whole_rooms(spec, tmp_path)[0].switch
    assert "Invalid parameter" in switch.session().run(line)
