"""`railyard report` and the gate show the evidence that the state names, or say why they cannot."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from components.acceptance.handover import tell
from components.acceptance.judge.site import judge_evidence
from components.acceptance.report.archive import keep_evidence, latest_evidence
from components.core.errors import UsageError
from tests.cli.conftest import Call
from tests.lab_physics.site import Site, take_evidence

EVIDENCE = take_evidence(Site()).model_copy(update={"run": 7})
PLACE = Path(".railyard/dev/run-0007/evidence.json")


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the evidence step printed, in the archive and in the state of a stand-in for the CLI."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    text = tell(judge_evidence(EVIDENCE), "dev", keep_evidence("dev", EVIDENCE))
    urn = "urn:pulumi:dev::railyard::x$command:local:Command::acceptance-evidence"
    resource = {"urn": urn, "outputs": {"stdout": text}}
    Path("export.json").write_text(json.dumps({"deployment": {"resources": [resource]}}))
    program = tmp_path / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ncat export.json\n")
    program.chmod(0o755)
    return text


@pytest.mark.usefixtures("told")
def test_evidence_that_a_disk_has_damaged_is_refused(railyard: Call) -> None:
    PLACE.write_bytes(b"\xff\xfe" + PLACE.read_bytes())
    done = railyard("report", "dev", "--no-open")
    assert done.code == 2
    assert "was changed" in done.err
    with pytest.raises(UsageError, match="is not acceptance evidence"):
        latest_evidence("dev")


@pytest.mark.usefixtures("told")
def test_the_report_is_of_the_evidence_that_the_state_names(railyard: Call) -> None:
    later = EVIDENCE.model_copy(update={"run": 8, "probes": ()})
    keep_evidence("dev", later)  # of another machine's state, or of an update that was killed
    done = railyard("report", "dev", "--no-open")
    assert (done.code, done.err) == (0, "")
    assert "acceptance passed" in done.out
    assert "run-0007/report.html" in done.out


def test_the_last_run_is_the_latest_one_though_numbers_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `destroy` the first run is 1, and the runs of the earlier life are still there."""
    monkeypatch.chdir(tmp_path)
    keep_evidence("dev", EVIDENCE)
    keep_evidence("dev", EVIDENCE.model_copy(update={"run": 1}))
    os.utime(PLACE, ns=(1, 1))
    found = latest_evidence("dev")
    assert found is not None
    assert found.run == 1


@pytest.mark.usefixtures("told")
def test_a_report_without_its_archive_says_where_it_was(railyard: Call) -> None:
    PLACE.unlink()
    done = railyard("report", "dev", "--no-open")
    assert (done.code, done.out) == (2, "")
    assert "evidence.json is missing, but the state of the stack names it" in done.err
    assert "railyard accept dev" in done.err


@pytest.mark.usefixtures("told")
def test_a_changed_archive_is_no_proof(railyard: Call) -> None:
    text = PLACE.read_text()
    PLACE.write_text(text.replace('"provenance": "lab"', '"provenance": "real"'))
    assert PLACE.read_text() != text
    done = railyard("report", "dev", "--no-open")
    assert (done.code, done.out) == (2, "")
    assert "was changed: its digest is" in done.err


def test_the_gate_judges_the_archived_evidence(railyard: Call, told: str) -> None:
    done = railyard("evidence", "gate", "--fail", "--stack", "dev", stdin=told)
    assert done.code == 0
    assert "acceptance passed" in done.out
    assert PLACE.with_name("report.html").is_file()
    again = railyard("evidence", "gate", "--fail", "--stack", "dev", stdin=told)
    assert again.code == 0  # writing the report changed no evidence


def test_the_gate_passes_nothing_that_it_cannot_find(railyard: Call, told: str) -> None:
    PLACE.unlink()
    done = railyard("evidence", "gate", "--warn", "--stack", "dev", stdin=told)
    assert (done.code, done.out) == (2, "")
    assert "is missing" in done.err


def test_a_request_that_is_not_in_the_archive_runs_nothing(railyard: Call, told: str) -> None:
    del told
    asked = 'plan_digest = "a"\nprovenance = "lab"\nrequest = "b"\nstack = "dev"\n'
    done = railyard("evidence", "collect", "--number", "8", stdin=asked)
    assert (done.code, done.out) == (2, "")
    assert "requests/b.json is missing" in done.err
    assert "pulumi up -s dev" in done.err
