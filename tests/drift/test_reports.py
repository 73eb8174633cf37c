"""Plain cases of drift on one small device: what is asked, compared, noted, said and returned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.core.difference import Difference, ForeignSetting, diff_settings
from components.core.key_values import HostState
from components.drift.applied import Applied, AppliedStep
from components.drift.device_drift import (
    DeviceDrift,
    PlacementFault,
    RoutingFault,
    Unreachable,
    Watched,
    asked_of_step,
    drift_exit_code,
    drift_of_step,
    make_drift,
    next_note,
    render_drift,
)
from components.remote.step import Endpoint, RemoteStep
from components.remote.tools import Tool, ToolCall

CALL = ToolCall(Tool("host", "d1", "true\n"), "observe")
WATCHED = Watched(
    device="n1",
    step=RemoteStep(
        name="n1-host",
        endpoint=Endpoint("n1", "host", "@{vm.ip}", 22, "root", "@{vm.host_key}"),
        dialect="sh",
        desired="a.x=1\nb.y=@{vm.ip}\n",
        apply=CALL,
        deadline_s=1.0,
        undo=CALL,
    ),
    desired=HostState({"a.x": "1", "b.y": "@{vm.ip}"}),
    observe=CALL,
    parameters=frozenset({"own"}),
    beside=HostState({"c.z": "7"}),
)
MTU = Difference("port 1/2", "mtu_bytes", "1500", "9216")
BESIDE = ForeignSetting("switch.rewrite", MTU, "the class of RoCE", "no rewrite")
QUIET = DeviceDrift(
    device="n1",
    step="n1-host",
    observed=True,
    unreachable=None,
    stranger=False,
    applied=True,
    edited=False,
    differences=(),
    last_note="2: before",
)


def was(stdin: str) -> Applied:
    return Applied({"n1-host": AppliedStep(stdin)})


def test_only_wanted_settings_are_compared_in_their_order() -> None:
    actual = {("p2", "b"): "1", ("p1", "a"): "1", ("not ours", "z"): "9"}
    desired = {("p2", "b"): "2", ("p1", "c"): "3", ("p1", "a"): "1"}
    assert diff_settings(actual, desired) == (
        Difference("p1", "c", "absent", "3"),
        Difference("p2", "b", "1", "2"),
    )
    assert diff_settings({}, {("p1", "c"): "absent"}) == ()


def test_a_difference_shows_what_a_terminal_would_obey() -> None:
    found = Difference("port 1/2", "description", "a\x1b[2J", "b")
    assert str(found) == r"description of port 1/2 is a\x1b[2J, want b"


@pytest.mark.parametrize(
    ("last", "note"),
    [("", "1: x"), ("3: before", "4: x"), ("29: a: b", "30: x"), (": before", "1: x")],
)
def test_a_note_is_counted_from_the_last(last: str, note: str) -> None:
    assert next_note(last, "x") == note


def test_what_was_seen_fills_the_holes_of_a_step_and_of_its_settings() -> None:
    known = WATCHED.known({"vm": {"ip": "10.0.0.9"}})
    assert known.desired.values == {"a.x": "1", "b.y": "10.0.0.9"}
    assert known.step.desired == "a.x=1\nb.y=10.0.0.9\n"
    assert (known.step.endpoint.address, known.step.endpoint.host_key) == (
        "10.0.0.9",
        "@{vm.host_key}",
    )


def test_how_a_run_was_done_is_no_setting() -> None:
    stdin = "a.x=1\nstack=dev\nrepair=1: before\nown=k\nb.y=2\n"
    assert WATCHED.settings_in(stdin).values == {"a.x": "1", "b.y": "2"}


@pytest.mark.parametrize(
    ("applied", "asked"),
    [
        (Applied(), {"a.x": "1", "b.y": "@{vm.ip}", "c.z": "7"}),
        (was(""), {"a.x": "1", "b.y": "@{vm.ip}", "c.z": "7"}),
        (was("a.x=0\nd.w=4\nstack=dev\n"),
         {"a.x": "0", "b.y": "@{vm.ip}", "c.z": "7", "d.w": "4"}),
    ],
    ids=["new", "nothing recorded", "applied"],
)  # fmt: skip
def test_what_is_asked_of_a_device(applied: Applied, asked: dict[str, str]) -> None:
    assert asked_of_step(WATCHED, applied).values == asked


@pytest.mark.parametrize("applied", [Applied(), was("")], ids=["new", "nothing recorded"])
def test_nothing_drifts_from_what_was_never_applied(applied: Applied) -> None:
    found = drift_of_step(WATCHED, applied, HostState({"a.x": "5"}))
    assert (found.applied, found.edited, found.differences) == (False, True, ())
    assert (found.device, found.step, found.observed) == ("n1", "n1-host", True)


@pytest.mark.parametrize(
    ("stdin", "facts", "edited", "differences", "note"),
    [
        ("a.x=1\nb.y=10.0.0.9\n", {"a.x": "1", "b.y": "10.0.0.9"}, False, (), ""),
        ("a.x=1\nb.y=10.0.0.9\nrepair=2: old\n", {"a.x": "1", "b.y": "10.0.0.9"}, False, (),
         "2: old"),
        ("a.x=0\nb.y=10.0.0.9\n", {"a.x": "0", "b.y": "10.0.0.9"}, True, (), ""),
        ("a.x=1\nb.y=10.0.0.9\nrepair=2: old\n", {"b.y": "10.0.0.9"}, False,
         (Difference("a", "x", "absent", "1"),), "3: x of a is absent, want 1"),
        ("a.x=1\nb.y=10.0.0.9\n", None, False, (), ""),
    ],
    ids=["as applied", "repaired before", "edited", "lost", "not read"],
)  # fmt: skip
def test_a_device_against_what_was_applied(
    stdin: str,
    facts: dict[str, str] | None,
    differences: tuple[Difference, ...],
    note: str,
    *,
    edited: bool,
) -> None:
    seen = None if facts is None else HostState(facts)
    found = drift_of_step(WATCHED, was(stdin), seen)
    assert (found.applied, found.edited, found.differences) == (True, edited, differences)
    assert found.note == note
    assert found.observed == (facts is not None)
    assert (found.unreachable, found.stranger) == (None, False)


@pytest.mark.parametrize(
    ("facts", "observed", "unreachable", "stranger"),
    [
        (None, False, None, False),
        (HostState({}), True, None, False),
        (Unreachable("no answer"), False, "no answer", False),
        (Unreachable("another key", stranger=True), False, "another key", True),
    ],
)
def test_what_is_known_of_a_device_that_was_looked_at(
    facts: HostState | Unreachable | None,
    unreachable: str | None,
    *,
    observed: bool,
    stranger: bool,
) -> None:
    found = make_drift("d", "s", facts, (), edited=False, note="1: x")
    assert (found.observed, found.unreachable, found.stranger) == (observed, unreachable, stranger)
    assert (found.applied, found.last_note, found.note) == (True, "1: x", "1: x")
    never = make_drift("d", "s", facts, (), edited=True, note=None)
    assert (never.applied, never.edited, never.last_note) == (False, True, "")


CABLE = "port 1/3: gpu01 enp5s0 is plugged in, the file says gpu02/rail-0"
WORDS = (
    "mtu_bytes of port 1/2 is 1500, harmless is 9216; outside the plan, and it breaks the class of "
    "RoCE; fix: no rewrite"
)
LOST = RoutingFault("port swp1", "BGP with s:swp1 is Idle", "show it")
UNSAID = RoutingFault("switch", "BFD is not known", "show it", "unsaid")
CASES: dict[str, tuple[DeviceDrift, int, list[str]]] = {
    "quiet": (QUIET, 0, ["n1           no drift"]),
    "unreachable": (
        replace(QUIET, observed=False, unreachable="no answer", differences=(MTU,)),
        4,
        ["n1           unreachable: no answer",
         "               mtu_bytes of port 1/2 is 1500, want 9216"],
    ),
    "never applied": (replace(QUIET, applied=False), 0, ["n1           never applied"]),
    "not observed": (replace(QUIET, observed=False), 0, ["n1           not observed"]),
    "setting": (
        replace(QUIET, differences=(MTU, MTU), tools=("host",)),
        3,
        ["n1           drift: 2 settings differ from the last update",
         "               mtu_bytes of port 1/2 is 1500, want 9216",
         "               mtu_bytes of port 1/2 is 1500, want 9216",
         "               tool host: missing or altered on the host; `pulumi up` sends it again"],
    ),
    "tool": (
        replace(QUIET, tools=("host",), cabling=(CABLE,)),
        3,
        ["n1           drift: 1 tool of Railyard is missing or altered",
         f"               {CABLE}",
         "               tool host: missing or altered on the host; `pulumi up` sends it again"],
    ),
    "cable": (
        replace(QUIET, cabling=(CABLE,)),
        3,
        ["n1           cabling: 1 port is not plugged as the file says",
         f"               {CABLE}"],
    ),
    "card": (
        replace(QUIET, placement=(PlacementFault("the card is gone"),), beside=(BESIDE,)),
        3,
        ["n1           placement: 1 thing is not plugged in as the file says",
         "               the card is gone",
         f"               {WORDS}"],
    ),
    "routed link": (
        replace(QUIET, routing=(LOST, UNSAID)),
        3,
        ["n1           routing: 1 link does not carry the planned traffic",
         "               port swp1: BGP with s:swp1 is Idle; next: show it",
         "               switch: BFD is not known; next: show it"],
    ),
    "routing not read": (
        replace(QUIET, routing=(RoutingFault("switch", "nothing is known", "show it", "unread"),)),
        4,
        ["n1           routing: not observed",
         "               switch: nothing is known; next: show it"],
    ),
    "bfd not read": (
        replace(QUIET, routing=(UNSAID,)),
        0,
        ["n1           no drift", "               switch: BFD is not known; next: show it"],
    ),
    "beside": (
        replace(QUIET, beside=(BESIDE,)),
        3,
        ["n1           foreign: 1 setting outside the plan breaks RDMA traffic",
         f"               {WORDS}"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_report_and_its_exit_code(name: str) -> None:
    drift, code, lines = CASES[name]
    assert render_drift((drift,)) == "\n".join(lines) + "\n"
    assert drift_exit_code((drift,)) == code
    assert drift_exit_code((QUIET, drift, QUIET)) == code


def test_a_card_alone_is_no_clean_device() -> None:
    assert drift_exit_code((replace(QUIET, placement=(PlacementFault("the card is gone"),)),)) == 3


def test_the_note_of_a_quiet_device_is_the_last_and_each_loss_counts() -> None:
    assert QUIET.note == "2: before"
    twice = replace(QUIET, differences=(MTU, Difference("a", "x", "0", "1")))
    assert twice.note == "3: mtu_bytes of port 1/2 is 1500, want 9216; x of a is 0, want 1"


def test_each_kind_of_fault_is_one_finding_and_only_what_was_not_read_is_unreachable() -> None:
    fault = PlacementFault("the card is gone")
    unread = RoutingFault("switch", "nothing is known", "show it", "unread")
    drift = replace(
        QUIET, unreachable="no answer", differences=(MTU,), cabling=(CABLE,), placement=(fault,),
        tools=("host",), beside=(BESIDE,), routing=(LOST, unread, UNSAID), ahead="1 of 2",
    )  # fmt: skip
    assert [(each.rule, each.severity) for each in drift.findings] == [
        ("unread", "unreachable"),
        *((rule, "error") for rule in ("setting", "cabling", "placement", "tool", "foreign")),
        ("routing", "error"),
        ("routing", "unreachable"),
        ("routing", "warning"),
        ("upgrade", "error"),
    ]
    assert {each.device for each in drift.findings} == {"n1"}
    assert drift.findings[1].what == str(MTU)
