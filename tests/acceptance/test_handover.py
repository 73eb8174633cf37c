"""What acceptance leaves in the state, at any size, and the archive behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.acceptance.evidence import Evidence, parse_evidence
from components.acceptance.handover import (
    SHORT,
    AcceptRequest,
    hand_over,
    parse_accept_request,
    parse_asked,
    parse_named,
    render_accept_request,
    render_short,
    tell,
)
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report import archive
from components.acceptance.report.archive import (
    keep_evidence,
    keep_request,
    read_archived,
    request_path,
)
from components.acceptance.report.text import PASSED_LINE
from components.acceptance.report.write import write_report
from components.core.errors import UsageError
from components.plan.make import make_plan
from tests.golden.site import load_example
from tests.lab_physics.site import Site, take_evidence

PLAN = make_plan(load_example("dgx-roce"), "dev")
REQUEST = AcceptRequest(PLAN.digest, "dev", "lab", PLAN.acceptance)
TEXT = render_accept_request(REQUEST)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / archive.FOLDER


def evidence_of(hosts: int) -> Evidence:
    """Evidence of neighbours on two rails, as the plan tests them: every perftest of the lab's."""
    two = take_evidence(Site())
    pair = next(item for item in two.probes if item.probe.kind == "perftest")
    others = [item for item in two.probes if item.probe.kind != "perftest"]
    many = [
        pair.model_copy(
            update={
                "probe": pair.probe.model_copy(
                    update={
                        "name": f"perftest-rail-{rail}-gpu{n:02}-gpu{n + 1:02}",
                        "nodes": (f"gpu{n:02}", f"gpu{n + 1:02}"),
                    }
                )
            }
        )
        for n in range(1, hosts)
        for rail in (0, 1)
    ]
    names = [f"gpu{n:02}" for n in range(1, hosts + 1)]
    return two.model_copy(
        update={
            "probes": (*many, *others),
            "memlock": dict.fromkeys(names, "unlimited"),
            "run": 7,
        }
    )


def failing(evidence: Evidence, every: int) -> Evidence:
    probes = [
        probe.model_copy(update={"outcome": "failed", "perftest": None})
        if number % every == 0
        else probe
        for number, probe in enumerate(evidence.probes)
    ]
    return evidence.model_copy(update={"probes": tuple(probes)})


@pytest.mark.parametrize("hosts", [2, 64])
@pytest.mark.parametrize("every", [10_000, 3, 1])
def test_the_state_holds_little_at_any_size(hosts: int, every: int) -> None:
    evidence = failing(evidence_of(hosts), every)
    report = judge_evidence(evidence)
    asked = hand_over(REQUEST, TEXT, keep=False)
    named = tell(report, "dev", keep_evidence("dev", evidence))
    table = render_short(report)
    # Inputs and outputs: the engine records a step's stdin in both.
    assert 2 * len(asked) + len(named) + 2 * len(named) + len(table) < 5_000
    assert len(table) <= SHORT
    assert f"acceptance {report.verdict}: " in table


def test_of_many_probes_the_gate_counts_and_names_the_failed_ones() -> None:
    report = judge_evidence(failing(evidence_of(64), 3))
    lines = render_short(report).splitlines()
    assert lines[0] == "perftest: 84 of 126 passed, 42 failed"
    faults = [line for line in lines if line.startswith("FAILED perftest-rail-")]
    assert faults[0].startswith("FAILED perftest-rail-0-gpu01-gpu02: run: expected a run")
    (more,) = [line for line in lines if line.endswith("the report has them all")]
    all_faults = sum(item.verdict in ("failed", "error") for item in report.findings)
    shown = sum(line.startswith(("FAILED", "ERROR")) for line in lines)
    assert more == f"and {all_faults - shown} more faults; the report has them all"


def test_few_probes_have_a_line_each() -> None:
    table = render_short(judge_evidence(take_evidence(Site())))
    assert table.count("PASSED") >= 3
    assert PASSED_LINE in table


def test_a_request_is_found_by_its_digest_and_the_last_one_is_kept(folder: Path) -> None:
    asked = parse_asked(hand_over(REQUEST, TEXT, keep=True))
    text = read_archived(request_path("dev", asked.request), asked.request, "")
    assert parse_accept_request(text) == REQUEST
    keep_request("dev", "another")
    assert len(list((folder / "dev" / "requests").iterdir())) == 1


def test_a_preview_writes_nothing(folder: Path) -> None:
    assert hand_over(REQUEST, TEXT, keep=False) == hand_over(REQUEST, TEXT, keep=True)
    assert folder.exists()
    other = hand_over(AcceptRequest("other", "second", "lab", PLAN.acceptance), TEXT, keep=False)
    assert parse_asked(other).stack == "second"
    assert not (folder / "second").exists()


def test_evidence_is_what_the_digest_names_after_the_report_too(folder: Path) -> None:
    evidence = evidence_of(2)
    report = judge_evidence(evidence)
    named = parse_named(tell(report, "dev", keep_evidence("dev", evidence)))
    assert named.verdict.startswith("passed: 3 of 3 passed")
    assert named.archive == ".railyard/dev/run-0007/evidence.json"
    write_report(report, folder / "dev" / "run-0007")
    assert parse_evidence(read_archived(Path(named.archive), named.evidence, "")) == evidence


def test_an_archive_that_is_missing_or_another_is_told_apart(folder: Path) -> None:
    evidence = evidence_of(2)
    named = parse_named(tell(judge_evidence(evidence), "dev", keep_evidence("dev", evidence)))
    place = folder / "dev" / "run-0007" / "evidence.json"
    place.write_text(place.read_text() + "\n")
    with pytest.raises(UsageError, match=r"evidence\.json was changed: its digest is") as changed:
        read_archived(place, named.evidence, "prove again")
    assert "fix    prove again" in str(changed.value)
    place.unlink()
    with pytest.raises(UsageError, match="is missing, but the state of the stack names it"):
        read_archived(place, named.evidence, "prove again")


@pytest.mark.parametrize("text", ["", "{}", "the evidence itself", TEXT])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the question"):
        parse_asked(text)
    with pytest.raises(UsageError, match="names no evidence"):
        parse_named(text)
