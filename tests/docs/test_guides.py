"""Public reference designs: each line of the vendor's guide is ours too, or has a reason."""

from __future__ import annotations

import os

import pytest

from components.checks.site import check_site
from tests.docs.guide_tables import (
    PAGE,
    Line,
    More,
    Ours,
    faults_of,
    find_faults,
    load_guides,
    plan_of,
    render_page,
    spec_of,
)

OURS = Ours(commands=("vlan 111", "qos trust L3"), wanted=("port 1/1 pfc=on",))
SAME = Line(guide=("qos trust L3",))
MORE = (More(ours=("vlan *",), why="the rail's VLAN"),)


@pytest.mark.parametrize("name", load_guides())
def test_each_line_of_the_guide_is_ours_or_has_a_reason(name: str) -> None:
    assert faults_of(name) == ()


def test_six_designs_of_five_systems_pass_their_own_rules() -> None:
    guides = load_guides().values()
    assert len({guide.document for guide in guides}) >= 6
    assert {plan_of(guide).os for guide in guides} == {"onyx", "cumulus", "eos", "sonic", "mlnxos"}
    ours = sorted({guide.site for guide in guides if not guide.site.startswith("examples/")})
    found = [problem for site in ours for problem in check_site(spec_of(site))]
    assert [problem.what for problem in found if problem.severity == "error"] == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (Line(guide=("roce",)), "`roce` has no match"),
        (
            Line(guide=("qos trust L3",), ours=("vlan 111",), why="not needed"),
            "`qos trust L3` is in our plan, and needs no reason",
        ),
        (Line(guide=("roce",), ours=("roce lossy",), why="x"), "`roce lossy` is not in our plan"),
        (
            Line(guide=("PFC on",), unset=("pfc",), why="x"),
            "`pfc` is said not to be set, and our plan has `port 1/1 pfc=on`",
        ),
        (
            Line(guide=("roce",), why="x"),
            "`roce` needs either lines of ours or words that we do not set",
        ),
        (
            Line(guide=("mtu 9000",), unset=("speed",), why="x"),
            "`mtu 9000` has no word of those that we do not set",
        ),
    ],
)
def test_what_is_wrong_with_a_line(line: Line, fault: str) -> None:
    assert find_faults((SAME, line), MORE, OURS) == (fault,)


def test_our_own_lines_need_a_reason_too_and_only_they() -> None:
    assert find_faults((SAME,), MORE, OURS) == ()
    assert find_faults((SAME,), (), OURS) == ("`vlan 111` is ours alone, and has no reason",)
    gone = More(ours=("no vlan 1",), why="x")
    assert find_faults((SAME,), (*MORE, gone), OURS) == (
        "`no vlan 1` has a reason, and is not in our plan",
    )


def test_the_page_is_fresh() -> None:
    page = render_page()
    if os.environ.get("RAILYARD_GOLDENS"):
        PAGE.write_text(page, "utf-8")
    assert PAGE.read_text("utf-8") == page, "run `make goldens` and read the difference"
