"""Settings beside ours in the evidence: a warning, or what may explain a probe that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.acceptance.evidence import Evidence, as_seen, dump_evidence, parse_evidence
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report import archive
from components.acceptance.report.text import render_table
from components.core.difference import Difference, ForeignSetting
from tests.lab_physics.site import Site, take_evidence

FOUND = as_seen(
    "leaf-01",
    ForeignSetting(
        "switch.rewrite",
        Difference("port 1/1", "rewrite_dscp", "on", "off"),
        "the class of RoCE at the next hop",
        "interface ethernet 1/1 no qos rewrite dscp",
    ),
)


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return take_evidence(Site()).model_copy(update={"beside": (FOUND,)})


def test_beside_a_path_that_was_proven_it_is_a_warning(evidence: Evidence) -> None:
    report = judge_evidence(evidence)
    assert report.verdict == "passed"
    (warning,) = report.warnings
    assert (warning.subject, warning.next_step) == ("leaf-01", FOUND.fix)
    assert (
        "warning leaf-01: expected rewrite_dscp of port 1/1 off, actual on; outside the plan, and "
        "it breaks the class of RoCE at the next hop"
    ) in render_table(report)


@pytest.mark.parametrize(("outcome", "verdict"), [("failed", "failed"), ("not_run", "error")])
def test_on_the_way_of_a_probe_that_did_not_pass_it_may_be_why(
    evidence: Evidence, outcome: str, verdict: str
) -> None:
    first = evidence.probes[0].model_copy(update={"outcome": outcome})
    report = judge_evidence(evidence.model_copy(update={"probes": (first, *evidence.probes[1:])}))
    assert report.warnings == ()
    (found,) = (each for each in report.findings if each.check == "beside")
    assert (found.verdict, found.subject) == (verdict, "leaf-01")
    assert found.detail.endswith(f"it may be why these did not pass: {first.probe.name}")


def test_one_on_a_device_off_the_way_stays_a_warning(evidence: Evidence) -> None:
    first = evidence.probes[0].model_copy(update={"outcome": "failed"})
    off = FOUND.model_copy(update={"device": "leaf-99"})
    changed = {"probes": (first, *evidence.probes[1:]), "beside": (off,)}
    report = judge_evidence(evidence.model_copy(update=changed))
    assert [each.subject for each in report.warnings if each.check == "beside"] == ["leaf-99"]


def test_evidence_without_a_look_is_as_it_was(evidence: Evidence) -> None:
    bare = evidence.model_copy(update={"beside": None})
    assert "beside" not in dump_evidence(bare)
    assert parse_evidence(dump_evidence(bare)) == bare
    assert parse_evidence(dump_evidence(evidence)) == evidence


def test_the_archive_hands_the_look_of_a_run_to_its_proof_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert archive.read_foreign_settings("dev", 3) is None
    archive.keep_foreign_settings("dev", 3, [FOUND])
    assert archive.read_foreign_settings("dev", 3) == (FOUND,)
    assert archive.read_foreign_settings("dev", 4) is None
    archive.keep_foreign_settings("dev", 4, ())
    assert archive.read_foreign_settings("dev", 4) == (), "looked at, and nothing found"
    archive.keep_foreign_settings("dev", 3, None)
    assert archive.read_foreign_settings("dev", 3) is None
    place = archive.run_folder("dev", 4) / archive.BESIDE
    place.write_text("half of a te")
    assert archive.read_foreign_settings("dev", 4) is None
