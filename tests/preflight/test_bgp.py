"""BGP's neighbours in the report of preflight: up of planned, those that are not, and the cause."""

from __future__ import annotations

import json

from components.core.problem import Finding
from components.drift.applied import Applied, AppliedStep
from components.fabric.parts import Session, Sessions
from components.plan.make import make_plan
from components.preflight.judge import judge_links, list_neighbors
from components.preflight.report import Neighbors, Preflight, render_html, render_json, render_text
from components.update.decide import judge_drift
from components.update.seen import Seen
from tests.fabric.fabric_lab import routed_of

PLAN = make_plan(routed_of("cumulus", mode="lossless"), "site")
PLANS = PLAN.switches
LEAF = PLANS[0]
APPLIED = Applied(
    {
        each.step: AppliedStep(json.dumps({"desired": each.desired.model_dump(mode="json")}))
        for each in PLANS
    }
)


def seen_with(sessions: Sessions | None) -> Seen:
    return Seen({LEAF.name: LEAF.desired.model_copy(update={"sessions": sessions})})


def lost_links(applied: Applied, seen: Seen) -> tuple[Finding, ...]:
    return tuple(judge_links(judge_drift(PLAN, applied, seen)))


HALF = seen_with(
    Sessions(
        neighbors={
            "swp29": Session(state="established", networks=4),
            "swp30": Session(state="idle"),
        }
    )
)


def test_a_session_that_is_lost_is_counted_and_named() -> None:
    (found,) = list_neighbors(PLANS, APPLIED, HALF)
    assert str(found) == "1 of 2 BGP neighbours up; not: swp30 to spine-01:swp3: idle"
    (finding,) = lost_links(APPLIED, HALF)
    assert (finding.device, finding.severity) == ("leaf-01", "warning")
    assert finding.actual == "port swp30: BGP with spine-01:swp3 is idle, not Established"
    assert finding.fix == "nv show vrf default router bgp neighbor swp30"


def test_before_the_first_update_nothing_is_lost() -> None:
    (found,) = list_neighbors(PLANS, Applied(), seen_with(Sessions()))
    assert str(found) == "0 of 2 BGP neighbours up; no update has set them up yet"
    assert lost_links(Applied(), seen_with(Sessions())) == ()


def test_what_is_not_known_is_no_pass() -> None:
    blind = seen_with(Sessions(unread="`nv show` was refused"))
    (found,) = list_neighbors(PLANS, APPLIED, blind)
    assert str(found) == "BGP neighbours not known: `nv show` was refused"
    (finding,) = lost_links(APPLIED, blind)
    assert finding.severity == "unreachable"
    assert not [*list_neighbors(PLANS, APPLIED, seen_with(None))]


def test_every_form_of_the_report_has_them() -> None:
    two = (
        Neighbors("leaf-01", 2, 2),
        Neighbors("leaf-02", 1, 2, ("swp30 to spine-01:swp5: idle",)),
    )
    found = Preflight("site", ("leaf-01", "leaf-02"), (), neighbors=two)
    assert render_text(found).splitlines() == [
        "routing  leaf-01: 2 of 2 BGP neighbours up",
        "routing  leaf-02: 1 of 2 BGP neighbours up; not: swp30 to spine-01:swp5: idle",
        "site: no problem (2 devices read). Nothing was touched.",
    ]
    assert json.loads(render_json(found))["neighbors"][1] == {
        "device": "leaf-02",
        "up": 1,
        "planned": 2,
        "down": ["swp30 to spine-01:swp5: idle"],
        "note": "",
    }
    assert "<h2>Routing</h2>" in render_html(found)
    assert "<h2>Routing</h2>" not in render_html(Preflight("site", ("leaf-01",), ()))
