"""Fabrics of several switches: apply settles, undo is exact, and every hop agrees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from components.model.cluster import ClusterSpec
from tests.fabric.fabric_lab import (
    chain_of,
    load_example,
    rooms_of,
    routed_of,
    split_of,
)
from tests.fabric.histories import HISTORIES, PLAIN, TAKES, without
from tests.fabric.lives import agree, live, live_in

QUICK = settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate))
"""A history is found in a second and shrunk in minutes: no shrinking."""
Life = tuple[ClusterSpec, list[str]]
Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def trunks(draw: Draw, system: str) -> Life:
    """Leaves in a row."""
    modes = ["lossy_ecn", "lossless", "semi_lossless"][: 3 if system == "onyx" else 2]
    mode, leaves = draw(st.sampled_from(modes)), draw(st.integers(1, 3))
    watched = mode == "lossless" and system != "onyx" and draw(st.booleans())
    site = chain_of(system, leaves, mode=mode, pfc_watchdog=watched).model_dump(mode="json")
    if system == "cumulus" and mode == "lossless":
        length = draw(st.one_of(st.none(), st.integers(1, 300)))
        site["switches"][0]["ports"]["swp1"]["cable_length_m"] = length
    odd = TAKES
    if mode == "lossy_ecn":  # PFC is then not ours, and somebody's own stays on EOS
        odd = (*odd, "no-drop")
    if mode == "semi_lossless":  # which PFC it has is not public: the plan wants none of it
        odd = (*odd, "priority-flow-control")
    return ClusterSpec.model_validate(site), without(draw(PLAIN[system]), *odd)


@st.composite
def routed(draw: Draw, system: str) -> Life:
    """Two leaves below a spine."""
    bfd, own, numbered = (draw(st.booleans()) for _ in range(3))
    odd = TAKES if own else (*TAKES, "10.1.1.1", "group U")  # another number would end these
    odd = (*odd, "10.1.1.0/31") if numbered and system == "eos" else odd  # one address a port
    lines = without(draw(HISTORIES[system]), *odd)
    lines = lines if own else [line.replace("{asn}", "64999") for line in lines]
    return routed_of(system, mode="lossless", bfd=bfd, numbered=numbered), lines


@st.composite
def split(draw: Draw, system: str) -> Life:
    """A leaf with a port in parts, which nobody has used as a whole."""
    parts, odd = {"cumulus": ([2, 4], "swp1 "), "eos": ([2, 8], "no-drop")}[system]
    mode = draw(st.sampled_from(["lossy_ecn", "lossless"]))
    lines = without(draw(PLAIN[system]), *TAKES, odd)
    return split_of(system, draw(st.sampled_from(parts)), mode=mode), lines


LIVES = {
    **{f"trunks of {system}": trunks(system) for system in PLAIN},
    **{f"routed links of {system}": routed(system) for system in ("cumulus", "eos", "sonic")},
    **{f"split ports of {system}": split(system) for system in ("cumulus", "eos")},
}


@pytest.mark.parametrize("name", LIVES)
def test_a_life(name: str) -> None:
    @settings(QUICK, max_examples=5 if "split" in name else 12)
    @given(LIVES[name])
    def play(life: Life) -> None:
        live(*life)

    play()


@QUICK
@given(history=PLAIN["cumulus"])
def test_routed_leaf_and_spine(history: list[str]) -> None:
    spec = ClusterSpec.model_validate(load_example("spine-leaf"))
    with TemporaryDirectory() as folder:
        leaf, *_, spine = rooms_of(spec, Path(folder))[:9]
        for room in (leaf, spine):
            live_in(room, spec, without(history, "swp49 ip address"))


@pytest.mark.parametrize("name", ["rail-optimised", "spine-leaf"])
def test_every_hop_of_an_example_agrees(name: str, tmp_path: Path) -> None:
    spec = ClusterSpec.model_validate(load_example(name))
    rooms = rooms_of(spec, tmp_path)
    for room in rooms:
        room.apply()
        agree(room, spec)
        assert room.switch.unmodelled == ()
    views = {
        (r.plan.name, port): r.switch.port_view(port)
        for r in rooms
        for port in r.plan.desired.ports
    }
    assert all(view.oper_up for view in views.values())
    for switch in spec.switches:
        for port, to in switch.ports.items():
            if to.peer is not None:
                one, other = views[switch.name, port], views[to.peer]
                assert (one.mtu_bytes, one.pfc_priorities, one.allowed_vlans) == (
                    other.mtu_bytes,
                    other.pfc_priorities,
                    other.allowed_vlans,
                )
